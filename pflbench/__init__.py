"""pflbench: a benchmark suite for personalized federated learning."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pflbench.report.load.result import Result

__version__ = "0.1.0"


def run(
    algorithm: str,
    *,
    hparams: Mapping[str, Any] | None = None,
    out: str | Path = "results/runs",
    workers: int = 1,
    device: str = "cpu",
    data_root: str | Path | None = None,
    checkpoint_every: int = 10,
    state_memory: float = 2.0,
    fresh: bool = False,
    **settings: Any,
) -> "Result":
    """One run, as `pflbench run` does it: `pflbench.run("fedavg", dataset="digits",
    partition="dir:0.1", rounds=20)`.

    `algorithm` is a method's name or the path of a plugin; `settings` are those of
    `pflbench.config.Run`. What is stored already is not computed again. The result has its numbers
    as pandas frames. `state_memory`: GiB of clients' private states in memory; the rest is in
    files.
    """
    from pflbench.methods.hyperparameters import make_run
    from pflbench.report.load.result import Result
    from pflbench.simulation import runner

    chosen = make_run(algorithm, settings, hparams or {})
    setup = runner.prepare(chosen, algorithm, Path(data_root) if data_root else None, device)
    records = runner.execute(
        setup,
        Path(out),
        workers=workers,
        checkpoint_every=checkpoint_every,
        state_memory=state_memory,
        fresh=fresh,
    )
    return Result(records.folder)
