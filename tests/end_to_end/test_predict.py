"""`pflbench predict`: labels and scores of samples, by a model that a run has saved."""

import csv
import io
import json

import numpy as np
import pytest

import pflbench
from pflbench.testing import TOY
from tests.end_to_end.commands import fine, one_line
from tests.end_to_end.test_python_sweep import PLUGIN

SETTINGS = {**TOY, "rounds": 1, "save_models": True}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return pflbench.run("ditto", out=tmp_path_factory.mktemp("runs"), **SETTINGS)


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_test_samples_of_a_client_have_the_accuracy_of_the_record(call, run):
    found = rows(fine(call, "predict", str(run.folder), "--client", "3"))
    right = np.mean([row["label"] == row["true"] for row in found])
    last = run.clients.query("round == 1 and client == 3")
    assert right == last[run.point].item()
    said = json.loads(
        fine(call, "predict", str(run.folder), "--client", "3", "--point", "pre", "--json")
    )
    assert said["accuracy"] == last["pre"].item() and said["point"] == "pre"
    assert len(said["predictions"]) == len(found)


@pytest.mark.parametrize("layout", ["n c h w", "n h w", "n h w c"])
def test_samples_of_a_file_in_every_layout_have_scores(call, run, layout, tmp_path):
    x, _ = run.samples(2, "train")
    moved = {"n c h w": x, "n h w": x[:, 0], "n h w c": np.moveaxis(x, 1, 3)}[layout]
    np.savez(tmp_path / "new.npz", x=moved)
    words = ("predict", str(run.folder), "--client", "2", "--data", "npz:new.npz", "--scores")
    found = rows(fine(call, *words))
    scores = run.model(2)(x)
    assert [int(row["label"]) for row in found] == scores.argmax(1).tolist()
    assert [float(row["score_1"]) for row in found] == scores[:, 1].tolist()
    assert "true" not in found[0]


@pytest.mark.parametrize(
    "arrays, said",
    [
        ({"x": np.zeros((2, 5, 5), np.uint8)}, "samples are uint8 of the shape (2, 5, 5): must be"),
        ({"x": np.zeros((2, 16, 16))}, "samples are float64 of the shape (2, 16, 16): must be"),
        ({"x": np.array(["a", "b"])}, "samples are <U1: must be numbers"),
        ({"z": np.zeros(2)}, "has no array x; its arrays: z"),
        ({"x": np.zeros((2, 16, 16), np.uint8), "y": np.zeros(3, int)}, "must be 2 whole numbers"),
    ],
)
def test_other_samples_are_refused(call, run, arrays, said, tmp_path):
    np.savez(tmp_path / "new.npz", **arrays)
    words = ("predict", str(run.folder), "--client", "2", "--data", "npz:new.npz")
    one_line(*call(*words), said)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--client", "9"], "client 9: must be a number from 0 to"),
        (["--client", "0", "--data", "all"], "--data all: must be npz:PATH, test, train or valid"),
        (["--client", "0", "--data", "npz:no.npz"], "cannot read no.npz"),
        (["--client", "0", "--point", "best"], "unknown evaluation point 'best'"),
    ],
)
def test_mistakes_are_told_in_one_line(call, run, words, said):
    one_line(*call("predict", str(run.folder), *words), said)


def test_a_method_of_ones_own_is_named_because_nothing_in_results_is_executed(call, tmp_path):
    (tmp_path / "twin.py").write_text(PLUGIN)
    own = pflbench.run(tmp_path / "twin.py", out=tmp_path / "runs", **SETTINGS)
    words = ("predict", str(own.folder), "--client", "1")
    one_line(*call(*words), "'twin', which is no method of pflbench: name its file")
    found = rows(fine(call, *words, "--method", "twin.py"))
    right = np.mean([row["label"] == row["true"] for row in found])
    assert right == own.clients.query("round == 1 and client == 1")["pre"].item()
