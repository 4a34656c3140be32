"""Data of a user's own, from a file of arrays and from a loader: run, sweep, report, check, new."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pflbench
from pflbench.errors import UserError
from tests.factories.kinds_of_data import CLIENTS, MODELS, loader, npz
from tests.factories.markdown import ROOT

from .commands import Call, fine, one_line

EXAMPLES = ROOT / "examples"
SHORT = ["--rounds", "2", "--width", "8", "--min-samples", "8"]
ALONE = ["--workers", "1"]
SOURCES = {"file": npz, "loader": loader}


def read(folder: Path, name: str) -> str:
    (path,) = folder.glob(f"*/{name}")
    return path.read_text()


SCENARIOS = [
    ("features", "dir:0.5", "Dirichlet 0.5"),
    ("tokens", "iid", "IID"),
    ("series", "natural", "natural"),
    ("features", "domains:2", "2 domains"),
]


@pytest.mark.parametrize("source", SOURCES)
def test_run_sweep_and_report(call: Call, tmp_path: Path, source):
    made = {kind: SOURCES[source](tmp_path, kind) for kind, *_ in SCENARIOS}
    text = 'algorithms = ["fedavg", "local"]\nrounds = 2\nwidth = 8\nmin_samples = 8\nclients = 4\n'
    for kind, partition, _ in SCENARIOS:
        text += f'[[scenarios]]\ndataset = "{made[kind]}"\npartition = "{partition}"\n'
        text += f'model = "{MODELS[kind]}"\n'
    (tmp_path / "mine.toml").write_text(text)
    fine(call, "sweep", "mine.toml", "--out", "sweep", "--quiet", "--jobs", "2")
    fine(call, "report", "sweep", "--only", "tables")
    table = (tmp_path / "sweep/report/mine/accuracy.csv").read_text()
    for kind, partition, words in SCENARIOS:
        title = f"Own {kind}" if source == "loader" else f"{kind}.npz"
        assert title in table and words in table
        options = ["--dataset", made[kind], "--partition", partition, "--model", MODELS[kind]]
        size = [] if partition == "natural" else ["--clients", str(CLIENTS)]
        out = tmp_path / f"{kind}-{partition}"
        said = fine(call, "run", "fedavg", *options, *size, *SHORT, "--out", str(out), *ALONE)
        assert f"over {CLIENTS} clients" in said
        # Alone or in a sweep, a run has the same records.
        (folder,) = out.glob("fedavg-*")
        assert (tmp_path / "sweep" / folder.name / "rounds.jsonl").read_text() == read(
            out, "rounds.jsonl"
        )


def test_the_report_draws_natural_partitions(call: Call, tmp_path: Path):
    grid = ["--datasets", npz(tmp_path, "features"), "--partitions", "natural", "--model", "mlp"]
    fine(call, "sweep", "--algorithms", "fedavg", *grid, *SHORT, "--out", "sweep", "--quiet")
    fine(call, "report", "sweep", "--only", "figures")
    assert list(tmp_path.glob("sweep/report/*/distributions.pdf"))


def test_workers_change_no_bit(call: Call, tmp_path: Path):
    options = ["--dataset", loader(tmp_path, "features"), "--partition", "natural", *SHORT]
    options += ["--model", "mlp"]
    for workers in ("1", "2"):
        fine(call, "run", "fedavg", *options, "--out", f"runs{workers}", "--workers", workers)
    assert read(tmp_path / "runs1", "rounds.jsonl") == read(tmp_path / "runs2", "rounds.jsonl")


def test_the_record_says_what_was_done_to_features(call: Call, tmp_path: Path):
    options = ["--dataset", npz(tmp_path, "features"), "--partition", "natural", "--model", "mlp"]
    for more in ([], ["--no-standardize"]):
        fine(call, "run", "fedavg", *options, *SHORT, *more, "--out", "runs", "--workers", "1")
    found = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/run.json")]
    (standardized,) = (one for one in found if one["config"]["standardize"])
    (left,) = (one for one in found if not one["config"]["standardize"])
    assert len(standardized["data"]["standardized"]["mean"]) == 6
    assert left["data"]["standardized"] is None
    assert standardized["partition"]["owners"] == ["user0", "user1", "user2", "user3"]


def test_an_experiment_names_a_loader_relative_to_its_file(call: Call, tmp_path: Path):
    loader(tmp_path / "mine", "features")
    (tmp_path / "mine" / "data.toml").write_text(
        'algorithms = ["fedavg"]\nrounds = 1\nmodel = "mlp"\ndataset = "own_features.py"\n'
        'partition = "natural"\n'
    )
    fine(call, "sweep", "mine/data.toml", "--out", "runs", "--quiet")
    (tmp_path / "mine" / "one.toml").write_text(
        'algorithm = "fedavg"\nrounds = 1\nmodel = "mlp"\ndataset = "own_features.py"\n'
        'partition = "natural"\n'
    )
    said = fine(call, "run", "--config", "mine/one.toml", "--out", "runs", "--workers", "1")
    assert said.startswith("already finished")  # it is the run of the sweep
    (tmp_path / "mine" / "own_features.py").unlink()  # a report loads nothing of it
    fine(call, "report", "runs", "--only", "tables")


def test_models_of_features_can_be_asked_from_python(tmp_path: Path):
    spec = npz(tmp_path, "features")
    settings: Any = {"dataset": spec, "partition": "natural", "model": "mlp", "rounds": 1}
    made = pflbench.run("fedavg", out=tmp_path / "runs", save_models=True, **settings)
    *_, last = (json.loads(line) for line in read(tmp_path / "runs", "rounds.jsonl").splitlines())
    for client in range(CLIENTS):
        x, y = made.samples(client)
        assert x.dtype == np.float32
        assert made.model(client).accuracy(x, y) == last["accuracy"]["pre"][client]
    with pytest.raises(UserError, match="must be float32 of the shape"):
        made.model(0).predict(x.astype(int))


@pytest.mark.parametrize("kind", ["features", "series", "tokens", "images"])
def test_a_loader_passes_the_check(call: Call, tmp_path: Path, kind):
    said = fine(call, "check", loader(tmp_path, kind))
    assert "6 ok" in said and "4 clients with 24 to 24 samples" in said


@pytest.mark.parametrize(
    "body, said",
    [
        ("return np.random.random((40, 3)), np.arange(40) % 2", "loads-the-same-twice"),
        ("return np.ones((40, 3)), np.arange(40) % 2 * 2", "no sample has the label 1"),
        ("return dict(x=np.ones((9, 3)), y=np.arange(9) % 2, client=np.arange(9))", "min_samples"),
        ("return np.full((40, 3), np.nan), np.arange(40) % 2", "not finite"),
        ("return np.ones((40, 3)), np.arange(39)", "x has 40 samples and y has 39 labels"),
    ],
)
def test_a_loader_that_is_wrong_fails_the_check(call: Call, tmp_path: Path, body, said):
    (tmp_path / "mine.py").write_text(f"import numpy as np\ndef load(root):\n    {body}\n")
    code, out, _ = call("check", "mine.py")
    assert code == 1
    failed = [line for line in out.splitlines() if line.startswith("FAIL")]
    assert len([line for line in failed if said in line]) == 1


def test_what_is_prepared_of_a_file_that_changed_behind_its_back_is_found(call, tmp_path: Path):
    path = loader(tmp_path, "features")
    fine(call, "check", path)
    npz(tmp_path, "features", y=np.zeros(96, dtype=int))
    code, out, _ = call("check", path)
    assert code == 1 and "name the files that load() reads in FILES" in out


@pytest.mark.parametrize("kind", ["--dataset", "--model"])
def test_new_files_work_as_they_are(call: Call, tmp_path: Path, kind):
    fine(call, "new", kind, "my_own")
    assert "6 ok" in fine(call, "check", "my_own.py")
    data = ["--dataset", "my_own.py", "--partition", "natural", "--model", "mlp"]
    if kind == "--model":
        data = ["--dataset", "breast_cancer", "--clients", "3", "--model", "my_own.py"]
    fine(call, "run", "fedavg", *data, *SHORT, "--out", "runs", "--workers", "1")
    one_line(*call("new", kind, "my_own"), "already exists")
    one_line(*call("new", kind, "digits" if kind == "--dataset" else "cnn"), "is taken by the")


def test_a_partition_that_needs_owners_is_refused_without_them(call: Call, tmp_path: Path):
    out = ["--rounds", "1", "--out", "runs"]
    for partition in ("natural", "domains:2"):
        words = ["run", "fedavg", "--dataset", "digits", "--partition", partition, *out]
        one_line(*call(*words), "an array `client`")


def test_pictures_and_exports_of_natural_partitions(call: Call, tmp_path: Path):
    spec = npz(tmp_path, "features", y=np.array(["no", "yes"])[np.arange(96) % 2])
    said = json.loads(fine(call, "data", "show", spec, "--partition", "natural", "--json"))
    assert Path(said["picture"]).is_file() and len(said["counts"]["train"]) == CLIENTS
    fine(call, "data", "export", spec, "parts.npz", "--partition", "natural")
    again = fine(call, "data", "show", spec, "--partition", "file:parts.npz", "--json")
    assert json.loads(again)["digest"] == said["digest"]


def test_the_example_runs_as_it_is(call: Call, tmp_path: Path):
    assert "12 clients with 60 to 60 samples" in fine(
        call, "check", str(EXAMPLES / "data/sensors.py")
    )
    short = ["--algorithms", "local,fedavg", "--seeds", "1", "--rounds", "1", "--out", "runs"]
    fine(call, "sweep", str(EXAMPLES / "sensors.toml"), *short, "--quiet")
    fine(call, "report", "runs", "--only", "tables")
    table = (tmp_path / "runs/report/sensors/accuracy.md").read_text()
    for words in ("Sensors: natural", "3 domains", "50 % of the training samples"):
        assert words in table


def test_the_example_can_be_learnt(tmp_path: Path):
    made = pflbench.run(
        "fedavg",
        hparams={"lr": 0.2, "epochs": 3, "batch_size": 10},
        out=tmp_path,
        dataset=str(EXAMPLES / "data/sensors.py"),
        partition="natural",
        model="cnn1d",
        width=32,
        rounds=8,
        eval_every=8,
    )
    assert made.accuracy > 0.8
