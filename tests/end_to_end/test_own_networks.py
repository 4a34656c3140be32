"""Networks in files of a user's own, from the command line."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.commands import Call, fine, one_line

NETWORK = """
import math
import torch
from torch import nn

def build(shape, classes, width):
    body = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.BatchNorm1d(width))
    head = nn.Sequential(nn.ReLU(), nn.Linear(width, classes))
    {more}
    return body, head
"""
DATA = [
    "--dataset",
    "synthetic:classes=4,side=8,samples=96",
    "--clients",
    "3",
    "--min-samples",
    "8",
]
SHORT = [*DATA, "--rounds", "2", "--width", "8"]


def write(path: Path, more: str = "pass") -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(NETWORK.format(more=more))
    return str(path)


def test_run_counts_the_files_content_and_not_its_path(call: Call, tmp_path: Path):
    out = ["--out", str(tmp_path / "runs"), "--workers", "2", *SHORT]
    fine(call, "run", "fedavg", "--model", write(tmp_path / "a.py"), *out)
    fine(call, "run", "fedavg", "--model", write(tmp_path / "other" / "b.py"), *out)
    assert len(list((tmp_path / "runs").glob("fedavg-*"))) == 1
    fine(call, "run", "fedavg", "--model", write(tmp_path / "a.py", "head[1].bias = None"), *out)
    assert len(list((tmp_path / "runs").glob("fedavg-*"))) == 2


def test_sweep_and_report_with_a_path_relative_to_the_experiment(call: Call, tmp_path: Path):
    write(tmp_path / "mine.py")
    file = tmp_path / "nets.toml"
    file.write_text(
        'algorithms = ["fedavg", "local"]\nclients = 3\nmin_samples = 8\nrounds = 2\nwidth = 8\n'
        'dataset = "synthetic:classes=4,side=8,samples=96"\nmodel = "mine.py"\n'
    )
    out = tmp_path / "runs"
    fine(call, "sweep", str(file), "--out", str(out), "--jobs", "1", "--quiet")
    (tmp_path / "mine.py").unlink()  # a report loads nothing of it
    fine(call, "report", str(out))
    states = [json.loads(path.read_text())["status"] for path in out.glob("*/status.json")]
    assert states == ["finished", "finished"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("return body", "build() must return two modules"),
        ("1 / 0", "build() failed: ZeroDivisionError"),
        ("body.append(nn.Unflatten(1, (1, width)))", "end it with nn.Flatten()"),
        ("head.append(nn.Linear(classes, 1))", "head gives (2, 1)"),
        ("body.append(nn.Dropout(0.5))", "draws from the global random generator"),
        ("head.append(head[1])", "head.1.weight and head.2.weight are the same tensor"),
        ("body.register_buffer('t', torch.zeros(1).long())", "body.t is int64"),
        ("body.register_buffer('t', torch.zeros(1), persistent=False)", "must be persistent"),
        ("body[2].momentum = None", "momentum=None"),
        ("body[1] = nn.Linear(5, width)", "fails for samples of shape (1, 8, 8)"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(call: Call, tmp_path: Path, more, says):
    path = write(tmp_path / "mine.py", more)
    out = ["--out", str(tmp_path / "runs"), "--workers", "1"]
    one_line(*call("run", "fedavg", "--model", path, *SHORT, *out), says)
    code, said, _ = call("check", path)
    assert code == 1
    assert "FAIL" in said


def test_files_that_are_no_network_are_refused(call: Call, tmp_path: Path):
    out = ["--out", str(tmp_path / "runs"), "--workers", "1", *SHORT]
    empty = tmp_path / "empty.py"
    empty.write_text("")
    one_line(*call("run", "fedavg", "--model", str(empty), *out), "must define build(")
    missing = str(tmp_path / "empti.py")
    one_line(*call("run", "fedavg", "--model", missing, *out), "did you mean")
    path = write(tmp_path / "mine.py")
    one_line(
        *call("run", "fedavg", "--model", path, "--head-layers", "2", *out), "leave head_layers"
    )


@pytest.mark.parametrize("name", ["cnn_bn", "resnet8", "text"])
def test_shipped_networks_pass_the_check(call: Call, name: str):
    assert "6 ok" in fine(call, "check", name)


def test_an_own_network_passes_the_check(call: Call, tmp_path: Path):
    assert "6 ok" in fine(call, "check", write(tmp_path / "mine.py"))
    unused = write(
        tmp_path / "unused.py", "body.register_parameter('u', nn.Parameter(body[1].bias + 0))"
    )
    code, said, _ = call("check", unused)
    assert (code, "no gradient reaches body.u" in said) == (1, True)
