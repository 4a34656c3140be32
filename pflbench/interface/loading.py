"""A run's folder, read from Python: its records as frames, and its models."""

import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pflbench import config
from pflbench.errors import UserError, unknown
from pflbench.interface.methods import Method, plugin_of
from pflbench.methods import registry
from pflbench.records.verification import damage
from pflbench.report.load.result import Result

if TYPE_CHECKING:
    from pflbench.simulation.client_worker import Setup
    from pflbench.simulation.saved_models import ClientModel, SavedModels


class LoadedRun(Result):
    """A run: its records as pandas frames (`rounds`, `clients`, `timing`, `communication`, `logs`,
    `notes`, `hyperparameters`) and, if it was done with `save_models`, the models of its clients.

    A model is made by the method from the saved state and the client's data, so the data set of the
    run must be there.
    """

    def __init__(
        self,
        folder: str | Path,
        plugin: str | None = None,
        data_root: Path | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(folder)
        self._plugin = plugin
        self._data_root = data_root
        self._device = device

    def model(self, client: int, point: str | None = None) -> "ClientModel":
        """The model that a client has at the end of the run, at its method's evaluation point, or at
        another: "pre", "post" or the name of a further series.

            run.model(3).predict(x)   # labels of samples as the data set has them
        """
        return self._models.model(client, point)

    def samples(
        self, client: int, part: str = "test"
    ) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.int64]]:
        """A client's samples and their labels: of its test, train or validation part."""
        parts = self._setup.partition.parts
        if part not in parts:
            raise unknown("part", part, parts)
        if not 0 <= client < len(parts[part]):
            raise UserError(f"client {client}: must be a number from 0 to {len(parts[part]) - 1}")
        rows = parts[part][client]
        return np.asarray(self._setup.data.x[rows]), np.asarray(self._setup.data.y[rows])

    @cached_property
    def _models(self) -> "SavedModels":
        from pflbench.simulation.saved_models import SavedModels

        return SavedModels(self._setup, self.folder)

    def _known_plugin(self, name: str) -> str:
        """The method that was given, or the one of this name."""
        if self._plugin is None and name not in registry.names():
            raise UserError(
                f"{self.folder} is of {name!r}, which is no method of pflbench: name its file or its"
                " class, as method=PATH.py, or --method PATH.py"
            )
        return self._plugin or name

    @cached_property
    def _setup(self) -> "Setup":
        """What the run was done with, as far as it is still the same."""
        from pflbench.simulation import runner

        chosen = config.read_run(self.config)
        plugin = self._known_plugin(chosen.algorithm)
        if registry.version_of(registry.load(plugin)) != chosen.version:
            warnings.warn(
                f"{plugin} is another version of the method than that of {self.folder}",
                stacklevel=2,
            )
        setup = runner.prepare(chosen, plugin, self._data_root, self._device)
        found: dict[str, Any] = {"data": setup.data.digest, "partition": setup.partition.digest}
        for what, digest in found.items():
            if digest != self.about[what]["digest"]:
                raise UserError(
                    f"the {what} of {self.folder} cannot be made again: its digest was"
                    f" {self.about[what]['digest']} and is now {digest}"
                )
        return setup


def load(
    folder: str | Path,
    *,
    method: Method | None = None,
    data_root: str | Path | None = None,
    device: str = "cpu",
) -> LoadedRun:
    """A run by its folder: its records as pandas frames and, if it was done with `save_models`, the
    models of its clients.

    Reading executes nothing of what is in the folder. So the path or the class of a method of your
    own must be given, for its models to be made.

        run = pflbench.load("results/runs/ditto-digits-dir0.1-s0-0123456789-r1")
        run.clients.groupby("round")["post"].mean()
        run.model(3).predict(x)
    """
    place = Path(folder)
    if not (place / "run.json").is_file() and any(place.glob("*/run.json")):
        raise UserError(f"{place} is a folder of runs; name one of them, e.g. {place}/RUN")
    if wrong := damage(place):
        raise UserError(f"{place} is damaged: {wrong}")
    plugin = plugin_of(method) if method is not None else None
    return LoadedRun(place, plugin, Path(data_root) if data_root else None, device)
