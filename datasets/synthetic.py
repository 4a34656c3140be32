"""Gaussian classes around random class means, quantised to bytes: easy to learn, made in memory, for tests.

`synthetic`, or with options: `synthetic:classes=4,side=16,channels=1,samples=600,seed=0` (those are the defaults).
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pflbench.errors import UserError
from pflbench.rng import numpy_stream

TITLE = "Synthetic"
DEFAULTS = {"classes": 4, "side": 16, "channels": 1, "samples": 600, "seed": 0}
DIGITS = 18  # of an option, at most
SPREAD = 20.0  # standard deviation of the class means, per pixel
PIXELS = 100_000_000  # of all samples together, at most
NOISE = 40.0  # standard deviation of a sample around its class mean, per pixel


def options(argument: str) -> dict[str, int]:
    """The options with their defaults; every value is a whole number."""
    chosen = dict(DEFAULTS)
    allowed = ", ".join(f"{name}={value}" for name, value in DEFAULTS.items())
    for item in filter(None, argument.split(",")):
        name, _, text = item.partition("=")
        if name not in DEFAULTS or not text.isdecimal() or len(text) > DIGITS:
            raise UserError(
                f"bad option {item!r} of data set 'synthetic'; allowed, as whole numbers: {allowed}"
            )
        chosen[name] = int(text)
    if min(chosen[name] for name in ("classes", "side", "channels")) < 1:
        raise UserError(
            f"data set 'synthetic' needs classes, side and channels of at least 1; given: {argument}"
        )
    if chosen["samples"] < chosen["classes"]:
        raise UserError(
            f"data set 'synthetic' cannot have {chosen['classes']} classes in {chosen['samples']} samples;"
            " samples must be at least classes"
        )
    pixels = chosen["samples"] * chosen["channels"] * chosen["side"] ** 2
    if pixels > PIXELS:
        raise UserError(f"data set 'synthetic:{argument}' has {pixels} pixels: at most {PIXELS}")
    return chosen


def fingerprint(argument: str) -> str:
    return repr(sorted(options(argument).items()))


def read(root: Path, argument: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """x[i] = 128 + SPREAD m[y[i]] + NOISE e[i], with m and e standard normal; class sizes differ by at most one."""
    o = options(argument)
    rng = numpy_stream("synthetic", o["seed"])
    shape = (o["channels"], o["side"], o["side"])
    y = rng.permutation(np.arange(o["samples"], dtype=np.int64) % o["classes"])
    means = 128 + SPREAD * rng.standard_normal((o["classes"], *shape))
    x = means[y] + NOISE * rng.standard_normal((o["samples"], *shape))
    return np.clip(np.rint(x), 0, 255).astype(np.uint8), y
