"""What trackers read back is what the records say: exported, live, resumed; and no run depends on one."""

import json
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pflbench.methods.hyperparameters import make_run
from pflbench.report.load.result import Result
from pflbench.simulation import runner
from pflbench.trackers import live, points
from tests.factories import wandb_files

from .commands import TOY, done, fine, numbers, one_line

pytest.importorskip("tensorboard", reason="no trackers (pip install 'pflbench[trackers]')")
pytest.importorskip("mlflow", reason="no trackers (pip install 'pflbench[trackers]')")
pytest.importorskip("wandb", reason="no trackers (pip install 'pflbench[trackers]')")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the packages' own

Steps = dict[int, dict[str, float]]  # round -> name -> number
SECONDS = "seconds/"  # the numbers that differ from attempt to attempt


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two finished runs, in a folder that also gets what is exported."""
    out: Path = tmp_path_factory.mktemp("tracked") / "mine"
    grid = "--algorithms fedavg,fedcosr --datasets synthetic:classes=4,side=8,samples=160"
    small = "--model mlp --width 8 --min-samples 8 --clients 4 --rounds 6 --eval-every 2"
    done("sweep", "--quiet", "--out", str(out), *grid.split(), *small.split())
    return out


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A database of MLflow's, one for all tests, in memory if it can be: making it takes seconds."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield f"{folder}/mlflow.db"


def run_folders(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.glob("*/status.json"))


def recorded(run: Path) -> Steps:
    """What a tracker should show of a run, by the tables that Python users get of its records."""
    table = Result(run).rounds
    lines = (run / "rounds.jsonl").read_text().splitlines()
    logs = {one["round"]: one for one in map(json.loads, lines)}
    found: Steps = {}
    for number, row in table.iterrows():
        known = {}
        for column, value in row.dropna().items():
            kind, _, rest = column.partition("_")
            if kind == "megabytes":
                known[f"bytes/{rest}"] = value * 1e6
            elif kind in ("seconds", "loss"):
                known[f"seconds/{rest}" if rest else "loss"] = value
            elif rest == "std":
                known[f"accuracy_std/{kind}"] = value
            else:
                known[f"accuracy/{column}"] = value
        for name, values in logs[number].get("logs", {}).items():
            known[f"clients/{name}"] = sum(values) / len(values)
        found[number] = known
    return found


def from_tensorboard(folder: Path) -> Steps:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert len(list(folder.iterdir())) == 1
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    found: Steps = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            assert tag not in found.setdefault(event.step, {}), "a number twice"
            found[event.step][tag] = event.value
    return found


def from_mlflow(database: str, group: str, run: str) -> tuple[Steps, dict[str, str]]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{database}")
    experiment = client.get_experiment_by_name(group)
    assert experiment is not None
    (kept,) = client.search_runs([experiment.experiment_id], f"tags.`pflbench.run` = '{run}'")
    assert (kept.info.status, kept.data.tags["status"]) == ("FINISHED", "finished")
    found: Steps = {}
    for name in kept.data.metrics:
        for metric in client.get_metric_history(kept.info.run_id, name):
            assert name not in found.setdefault(metric.step, {}), "a number twice"
            found[metric.step][name] = metric.value
    return found, kept.data.params


def from_wandb(folder: Path, run: str) -> Path:
    (file,) = folder.glob(f"wandb/offline-run-*/run-{run}.wandb")
    return file


def same(found: Steps, wanted: Steps, seconds: bool = True, relative: float = 1e-12) -> None:
    def kept(steps: Steps) -> Steps:
        return {
            number: {k: v for k, v in row.items() if seconds or not k.startswith(SECONDS)}
            for number, row in steps.items()
        }

    assert kept(found) == {
        number: pytest.approx(row, rel=relative) for number, row in kept(wanted).items()
    }


def test_tensorboard_reads_what_was_exported_once_even_if_exported_twice(call, runs):
    for _ in range(2):
        said = fine(call, "export", str(runs), "--to", "tensorboard")
        assert said.startswith(f"2 runs to tensorboard: {runs}/tensorboard; see it with: ")
    for run in run_folders(runs):
        wanted = recorded(run)
        assert sorted(wanted) == [0, 1, 2, 3, 4, 5, 6]
        assert {"accuracy/post", "accuracy_std/pre", "bytes/up", "seconds/wall"} < set(wanted[6])
        same(from_tensorboard(runs / "tensorboard" / run.name), wanted, relative=1e-6)


def test_tensorboard_has_the_hyperparameters(call, runs):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    fine(call, "export", str(runs), "--to", "tensorboard")
    (file,) = (runs / "tensorboard").glob("fedavg-*/events*")
    values = [value for event in EventFileLoader(str(file)).Load() for value in event.summary.value]
    (told,) = [
        HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info.hparams
        for value in values
        if value.tag == "_hparams_/session_start_info"
    ]
    assert told["hparams.lr"].number_value == 0.01
    assert told["method"].string_value == "FedAvg"
    assert told["partition"].string_value == "dir:0.1"


def test_mlflow_reads_what_was_exported_once_even_if_exported_twice(call, runs, database):
    for _ in range(2):
        said = fine(call, "export", str(runs), "--to", f"mlflow={database}")
        assert said.startswith(f"2 runs to mlflow: sqlite:///{database}; see it with: ")
    for run in run_folders(runs):
        found, parameters = from_mlflow(database, "mine", run.name)
        same(found, recorded(run))
        assert (parameters["hparams.epochs"], parameters["partition"]) == ("1", "dir:0.1")


def test_wandb_has_what_was_exported_once_even_if_exported_twice(call, runs, tmp_path):
    for _ in range(2):
        said = fine(call, "export", str(runs), "--to", f"wandb={tmp_path}")
        assert said.startswith(f"2 runs to wandb: {tmp_path}/wandb; send it with: wandb sync")
    for run in run_folders(runs):
        file = from_wandb(tmp_path, run.name)
        same(wandb_files.history(file), recorded(run))
        told = wandb_files.config(file)
        assert (told["hparams.epochs"], told["rounds"], told["device"]) == (1, 6, "cpu")


def test_an_archive_is_exported_as_its_folder_is(call, runs, tmp_path):
    fine(call, "archive", str(runs), "--out", "mine.tar.xz")
    fine(call, "export", "mine.tar.xz", "--to", "tensorboard")
    for run in run_folders(runs):
        same(from_tensorboard(tmp_path / "mine/tensorboard" / run.name), recorded(run), True, 1e-6)


def test_damaged_and_unfinished_runs_are_not_exported(call, runs, tmp_path):
    shutil.copytree(runs, tmp_path / "copy", ignore=shutil.ignore_patterns("tensorboard"))
    damaged, unfinished = run_folders(tmp_path / "copy")
    (unfinished / "status.json").unlink()
    code, out, _ = call("export", "copy", "--to", "tensorboard")
    assert (code, out.split(" to ")[0]) == (0, "1 run")
    with (damaged / "rounds.jsonl").open("a") as file:
        file.write("{}\n")
    code, _, err = call("export", "copy", "--to", "tensorboard")
    assert code == 2
    assert f"warning: {damaged.name} is damaged and left out" in err
    assert "error: no finished run in copy: there is nothing to export" in err


def test_a_sweep_shows_its_rounds_as_they_end(call, database, tmp_path):
    grid = f"--algorithms fedavg,local --rounds 5 --clients 4 --out {tmp_path}/live --quiet".split()
    trackers = ["--track", "tensorboard", "--track", f"mlflow={database}", "--track", "wandb=w"]
    words = [*grid, "--datasets", TOY[1], *TOY[2:], *trackers]
    assert fine(call, "sweep", *words).startswith("2 runs: 2 finished")
    for run in run_folders(tmp_path / "live"):
        wanted = recorded(run)
        same(from_tensorboard(tmp_path / "live/tensorboard" / run.name), wanted, relative=1e-6)
        same(from_mlflow(database, "live", run.name)[0], wanted)
        same(wandb_files.history(from_wandb(tmp_path / "w", run.name)), wanted)


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow", "wandb"])
def test_a_run_that_is_resumed_has_every_round_once(kind, database, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "PAUSE", 0.01)
    out = tmp_path / kind
    settings = dict(dataset=TOY[1], model="mlp", width=8, min_samples=8, clients=4, rounds=12)
    setup = runner.prepare(make_run("fedavg", settings, {}))
    where = {"tensorboard": tmp_path / "t", "mlflow": database, "wandb": tmp_path / "w"}[kind]

    def until(last: int) -> None:
        def watch(record, timing):
            if record["round"] == last < settings["rounds"]:
                raise KeyboardInterrupt

        with live.Live([f"{kind}={where}"], out) as trackers:
            runner.execute(
                setup,
                out,
                checkpoint_every=5,
                started=lambda done: trackers.see([setup.run.id]),
                watch=watch,
            )

    with pytest.raises(KeyboardInterrupt):
        until(7)
    until(12)
    wanted = recorded(out / setup.run.id)
    if kind == "tensorboard":
        same(from_tensorboard(tmp_path / "t" / setup.run.id), wanted, relative=1e-6)
    elif kind == "mlflow":  # the seconds of rounds that were played twice may be those of the first
        same(from_mlflow(database, "mlflow", setup.run.id)[0], wanted, seconds=False)
    else:
        same(wandb_files.history(from_wandb(tmp_path / "w", setup.run.id)), wanted)


def test_records_that_are_cut_and_grow_again_bring_no_round_twice(runs, tmp_path):
    source, copy = run_folders(runs)[0], tmp_path / "run"
    copy.mkdir()
    files = {name: (source / name).read_bytes() for name in ("rounds.jsonl", "timing.jsonl")}
    reader, seen = points.Reader(copy), []
    for lines, half in ((3, b""), (5, b'{"round":'), (2, b""), (7, b"")):
        for name, content in files.items():
            (copy / name).write_bytes(b"".join(content.splitlines(True)[:lines]) + half)
        seen += reader.new()
    assert [point.round for point in seen] == [0, 1, 2, 3, 4, 5, 6]
    same({point.round: dict(point.values) for point in seen}, recorded(source))


def test_a_tracker_that_fails_is_one_line_and_changes_no_record(call, tmp_path):
    words = ["run", "fedavg", *TOY, "--clients", "4", "--rounds", "3", "--workers", "1", "--quiet"]
    fine(call, *words, "--out", "without")
    (tmp_path / "file").touch()
    code, out, err = call(*words, "--out", "with", "--track", "tensorboard=file/x")
    assert (code, out.split(";")[0]) == (
        0,
        fine(call, *words, "--out", "without").split(": ", 1)[1].split(";")[0],
    )
    assert err.startswith("pflbench: warning: tracker tensorboard failed: ")
    assert err.count("\n") == 1
    assert numbers(tmp_path / "with") == numbers(tmp_path / "without")


def test_a_tracker_that_hangs_is_not_waited_for_long(monkeypatch, runs):
    monkeypatch.setattr(live, "PAUSE", 0.01)
    monkeypatch.setattr(live, "PATIENCE", 0.2)
    forever = threading.Event()

    class Hanging:
        place = hint = ""

        def start(self, run):
            forever.wait(60)

    monkeypatch.setattr(live, "make", lambda asked, folder: Hanging())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with live.Live(["mlflow"], runs) as trackers:
            trackers.see([], None)
            trackers.see([run_folders(runs)[0].name], run_folders(runs)[0].name)
    forever.set()
    (warning,) = caught
    assert "tracker mlflow failed: it has not taken all after 0 seconds" in str(warning.message)


def test_a_package_that_is_missing_is_told_in_one_line(call, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "pflbench.trackers.to_wandb", raising=False)
    said = "tracker wandb needs packages that are not installed (wandb); get them with: pip install"
    one_line(*call("export", str(runs), "--to", "wandb"), said)
    one_line(*call("run", "fedavg", *TOY, "--track", "wandb"), said)


def test_mistakes_are_told_in_one_line(call, runs):
    one_line(*call("export", str(runs), "--to", "tensorbord"), "did you mean 'tensorboard'?")
    one_line(*call("export", str(runs)), "name a tracker: --to must be one of tensorboard")
    one_line(*call("export", "nowhere", "--to", "tensorboard"), "there is no such folder")
    one_line(*call("run", "fedavg", *TOY, "--track", "tensor"), "unknown tracker 'tensor'")
