"""Small data sets of each kind, in which every sample has an owner: as arrays, in .npz files, in
loaders.
"""

from pathlib import Path
from typing import Any

import numpy as np

SAMPLES, CLIENTS = 96, 4

LOADER = """
from pathlib import Path
import numpy as np

TITLE = "{title}"

def load(root):
    with np.load(Path(__file__).with_name("{arrays}")) as found:
        return dict(found)
"""


def made_up(kind: str) -> dict[str, Any]:
    """Arrays whose classes can be told apart: "features", "series", "tokens" or "images"."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, SAMPLES)
    noise = rng.normal(size=(SAMPLES, 2, 16))
    x = {
        "features": (noise[:, 0, :6] + 2 * y[:, None]).astype(np.float32),
        "series": (noise + 2 * y[:, None, None]).astype(np.float32),
        "tokens": 1 + 10 * y[:, None] + rng.integers(0, 10, (SAMPLES, 8)),
        "images": np.clip(128 + 20 * noise[:, 0, None] + 40 * y[:, None, None], 0, 255),
    }[kind]
    client = np.array([f"user{i}" for i in np.arange(SAMPLES) % CLIENTS])
    return {"x": x.astype(np.uint8) if kind == "images" else x, "y": y, "client": client}


MODELS = {"features": "mlp", "series": "cnn1d", "tokens": "text", "images": "mlp"}
"""A network for each kind."""


def npz(folder: Path, kind: str, **other: Any) -> str:
    """The name of such a data set in a file."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{kind}.npz", **{**made_up(kind), **other})
    return f"npz:{folder / kind}.npz"


def loader(folder: Path, kind: str) -> str:
    """The path of a loader of such a data set."""
    npz(folder, kind)
    path = folder / f"own_{kind}.py"
    path.write_text(LOADER.format(title=f"Own {kind}", arrays=f"{kind}.npz"))
    return str(path)
