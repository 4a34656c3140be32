"""The stored numbers of one run as pandas frames."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pflbench.errors import UserError
from pflbench.records import run_folder


class Result:
    """A run's folder, read when asked. `point` (pre, post) is where to evaluate it, if not at its
    method's own.
    """

    def __init__(self, folder: str | Path, point: str | None = None) -> None:
        self.folder = Path(folder)
        self.about: dict[str, Any] = run_folder.read_json(self.folder / "run.json")
        if not self.about:
            raise UserError(f"{self.folder} holds no run (there is no run.json in it)")
        self._point = point

    @property
    def config(self) -> dict[str, Any]:
        """The run's configuration and hyperparameters."""
        config: dict[str, Any] = self.about["config"]
        return config

    @property
    def status(self) -> str:
        """finished, diverged, failed, stopped or running."""
        return str(run_folder.read_json(self.folder / "status.json").get("status", "running"))

    @property
    def point(self) -> str:
        """The evaluation point: pre or post."""
        return self._point or str(self.about["method"]["evaluation_point"])

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Accuracy of every client: one row per round and client, one column per series (pre, post,
        ...).
        """
        sizes = self.about["partition"]
        frames = []
        for record in run_folder.rounds(self.folder):
            if "accuracy" in record:
                frame = pd.DataFrame(
                    {series: pd.Series(v, dtype=float) for series, v in record["accuracy"].items()}
                )
                frame.insert(0, "round", record["round"])
                frame.insert(1, "client", range(len(frame)))
                frame.insert(2, "n_train", sizes["n_train"])
                frame.insert(3, "n_test", sizes["n_test"])
                frames.append(frame)
        empty = pd.DataFrame(columns=["round", "client", "n_train", "n_test", self.point])
        return pd.concat(frames, ignore_index=True) if frames else empty

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per round: mean accuracy over clients and its std by series, loss, megabytes,
        seconds.
        """
        timing = {line["round"]: line for line in run_folder.rounds(self.folder, "timing.jsonl")}
        rows = []
        for record in run_folder.rounds(self.folder):
            row = {"round": record["round"], "loss": record.get("loss")}
            for way, parts in record.get("bytes", {}).items():
                row[f"megabytes_{way}"] = sum(parts.values()) / 1e6
            seconds = timing.get(record["round"], {})
            row |= {f"seconds_{name}": v for name, v in seconds.items() if name != "round"}
            rows.append(row)
        table = pd.DataFrame(rows, columns=None if rows else ["round", "loss"]).set_index("round")
        series = self.clients.columns.drop(["round", "client", "n_train", "n_test"])
        grouped = self.clients.groupby("round")[list(series)]
        return table.join(grouped.mean()).join(grouped.std(ddof=0).add_suffix("_std"))

    @cached_property
    def timing(self) -> pd.DataFrame:
        """Seconds of every round: of clients (summed over them), of the server, of evaluation, and
        in all ("wall").
        """
        return pd.DataFrame(run_folder.rounds(self.folder, "timing.jsonl"))

    @cached_property
    def communication(self) -> pd.DataFrame:
        """Bytes of every round, way (down to the clients, up to the server) and part of the
        messages, over all clients that took part.
        """
        rows = [
            {"round": record["round"], "way": way, "part": part, "bytes": size}
            for record in run_folder.rounds(self.folder)
            for way, parts in record.get("bytes", {}).items()
            for part, size in parts.items()
        ]
        return pd.DataFrame(rows, columns=["round", "way", "part", "bytes"])

    @cached_property
    def logs(self) -> pd.DataFrame:
        """All that the method logged: one row per value, with the round, where it was logged
        (training, server or evaluation), the client (none on the server), and its name.
        """
        rows = [row for record in run_folder.rounds(self.folder) for row in _logged(record)]
        table = pd.DataFrame(rows, columns=["round", "where", "client", "name", "value"])
        return table.astype({"client": "Int64", "value": float})

    @cached_property
    def notes(self) -> pd.DataFrame:
        """What the record says is off, by round."""
        rows = [
            {"round": record["round"], "note": note}
            for record in run_folder.rounds(self.folder)
            for note in record.get("notes", ())
        ]
        return pd.DataFrame(rows, columns=["round", "note"])

    @cached_property
    def hyperparameters(self) -> pd.DataFrame:
        """The value of every hyperparameter, and the method's default for the data set."""
        defaults = self.about["method"]["defaults"]
        rows = [
            {"name": name, "value": value, "default": defaults.get(name)}
            for name, value in self.config["hparams"].items()
        ]
        return pd.DataFrame(rows, columns=["name", "value", "default"]).set_index("name")

    @property
    def accuracy(self) -> float:
        """Mean accuracy over clients in the last round, at the method's point; nan where there is
        none yet.
        """
        return self._last(self.point)

    @property
    def std(self) -> float:
        """Standard deviation over clients in the last round, at the method's point; nan where there
        is none yet.
        """
        return self._last(f"{self.point}_std")

    def _last(self, column: str) -> float:
        if column not in self.rounds:
            return float("nan")
        values = self.rounds[column].dropna()
        return float(values.iloc[-1]) if len(values) else float("nan")

    def __repr__(self) -> str:
        return f"<{self.about['id']}: {self.status}, {100 * self.accuracy:.2f} % ({self.point})>"


def _logged(record: Mapping[str, Any]) -> Iterator[tuple[int, str, int | None, str, float | None]]:
    """What was logged in a round: round, where, client, name, value."""
    number = record["round"]
    for name, value in record.get("server", {}).items():
        yield number, "server", None, name, value
    everyone = range(max((len(v) for v in record.get("evaluated", {}).values()), default=0))
    places = {"logs": ("training", record.get("cohort", ())), "evaluated": ("evaluation", everyone)}
    for key, (where, clients) in places.items():
        for name, values in record.get(key, {}).items():
            for client, value in zip(clients, values, strict=True):
                if value is not None:
                    yield number, where, client, name, value
