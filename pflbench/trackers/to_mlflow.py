"""MLflow: a run of an MLflow experiment for every run, in a database file or at a server."""

import importlib
import logging
import os
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

# What MLflow reads when it is imported: nothing is told of its use, and a server that is not there
# is given up soon.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from pflbench.trackers.points import Point, TrackedRun

METRICS_AT_ONCE = 1000  # that MLflow takes
WORDS_AT_ONCE = 100  # parameters, or tags
STATUS = {"finished": "FINISHED", "stopped": "KILLED"}  # of others: FAILED
FILE = "sqlite:///"
ID = "pflbench.run"  # the tag with the id of a run


class MLflow:
    """The store of runs at a URI."""

    def __init__(self, uri: str) -> None:
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)  # not every step of making a database
        self.place = uri
        served = uri.startswith(("http://", "https://"))
        self.hint = "" if served else f"see it with: mlflow ui --backend-store-uri {uri}"

    @cached_property
    def client(self) -> MlflowClient:
        """Made when it is needed: a new database takes seconds."""
        if self.place.startswith(FILE):
            Path(self.place.removeprefix(FILE)).parent.mkdir(parents=True, exist_ok=True)
        return MlflowClient(tracking_uri=self.place)

    def start(self, run: TrackedRun) -> "MLflowRun":
        """The run with this id, new or of an earlier session."""
        experiment = self._experiment(run.group)
        query = f"tags.`{ID}` = '{run.id}'"
        found = self.client.search_runs([experiment], filter_string=query, max_results=1)
        tags = {**run.tags, ID: run.id}
        if found:
            id = found[0].info.run_id
            self.client.update_run(id, status="RUNNING")
        else:
            made = self.client.create_run(experiment, tags=tags, run_name=run.id)
            id = made.info.run_id
        params = [Param(name, str(value)) for name, value in run.parameters.items()]
        for some in _slices(params, WORDS_AT_ONCE):
            self.client.log_batch(id, params=some)
        return MLflowRun(self.client, id, self._written(id))

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        return str(found.experiment_id if found else self.client.create_experiment(name))

    def _written(self, id: str) -> set[tuple[str, int]]:
        """The numbers that a run has already, by name and round."""
        return {
            (name, metric.step)
            for name in self.client.get_run(id).data.metrics
            for metric in self.client.get_metric_history(id, name)
        }


class MLflowRun:
    """A run in MLflow. A number that is there is not written again: MLflow would keep both."""

    def __init__(self, client: MlflowClient, id: str, written: set[tuple[str, int]]) -> None:
        self.client = client
        self.id = id
        self.written = written

    def write(self, points: Sequence[Point]) -> None:
        metrics = [
            Metric(name, value, int(1000 * point.time), point.round)
            for point in points
            for name, value in point.values.items()
            if (name, point.round) not in self.written
        ]
        for some in _slices(metrics, METRICS_AT_ONCE):
            self.client.log_batch(self.id, metrics=some)

    def end(self, status: str) -> None:
        self.client.log_batch(self.id, tags=[RunTag("status", status)])
        now = int(1000 * time.time())
        self.client.set_terminated(self.id, STATUS.get(status, "FAILED"), now)


def _slices(items: list[Any], size: int) -> list[list[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def make(where: str, folder: Path) -> MLflow:
    """The tracker of a URI, of a database file, or of what MLFLOW_TRACKING_URI says."""
    uri = where or os.environ.get("MLFLOW_TRACKING_URI", "") or str(folder / "mlflow.db")
    if "://" in uri:
        return MLflow(uri)
    importlib.import_module("sqlalchemy")  # which a database file needs
    importlib.import_module("alembic")
    return MLflow(f"{FILE}{Path(uri).absolute()}")
