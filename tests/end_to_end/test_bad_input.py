"""Every mistake gives one line that says what is wrong, exit code 2, and leaves no result behind."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from . import commands
from .commands import PFLBENCH, Call, one_line

TOY = [*commands.TOY, "--workers", "1"]
SMALL = [*commands.SMALL, "--rounds", "2", "--quiet"]
PLUGIN = """
from pflbench.api import Algorithm
class Mine(Algorithm):
    title = "Mine"
    family = "None"
"""


@pytest.mark.parametrize(
    "command, said",
    [
        ("fedavgg", "unknown method 'fedavgg'; did you mean 'fedavg'? known:"),
        ("", "name a method; known:"),
        ("fedavg --dataset cifr10", "unknown data set 'cifr10'; did you mean 'cifar10'?"),
        ("fedavg --dataset synthetic:class=3", "bad option 'class=3' of data set 'synthetic'"),
        (
            "fedavg --partition dri:0.1",
            "unknown partition 'dri:0.1'; known: dir:BETA, domains:K, file:PATH, iid, natural,"
            " path:CLASSES",
        ),
        ("fedavg --partition dir:0", "finite number above 0, dir:BETA; given: '0'"),
        ("fedavg --partition dir:-0.5", "finite number above 0"),
        ("fedavg --partition dir:nan", "finite number above 0"),
        ("fedavg --partition dir", "dir:BETA"),
        ("fedavg --partition path:5", "4"),
        ("fedavg --partition path:0", "path"),
        ("fedavg --partition iid:3", "'iid' takes no argument"),
        ("fedavg --clients 1000", "1000 clients are more than the 160 samples"),
        ("fedavg --clients 100", "need 800 samples, but there are 160"),
        ("fedavg --clients 0", "clients = 0: must be at least 1"),
        ("fedavg --rounds 0", "rounds = 0: must be at least 1"),
        ("fedavg --rounds -3", "rounds = -3: must be at least 1"),
        ("fedavg --rounds many", "'--rounds'"),
        ("fedavg --eval-every 0", "eval_every = 0: must be at least 1"),
        ("fedavg --participation 0", "participation = 0.0: must be above 0 and at most 1"),
        ("fedavg --participation 1.5", "participation = 1.5: must be above 0 and at most 1"),
        ("fedavg --participation nan", "participation = nan: must be above 0 and at most 1"),
        ("fedavg --test-fraction 1", "test_fraction must be between 0 and 1"),
        (
            "fedavg --samples-per-client 80",
            "samples_per_client = '80': must be two numbers, as 80-100",
        ),
        ("fedavg --samples-per-client 900-950", "ask for fewer"),
        ("fedavg --overlap", "overlap needs samples_per_client"),
        ("fedavg --data-fraction 0", "data_fraction must be above 0"),
        ("fedavg --data-fraction 0.5 --scarce-clients 5", "scarce_clients must be 1..4"),
        (
            "fedavg --set mu=0.1",
            "unknown hyperparameter of FedAvg 'mu'; known: augment, batch_size,",
        ),
        ("fedavg --set lr=fast", "hyperparameter lr = 'fast': must be a number"),
        ("fedavg --set epochs=1.5", "hyperparameter epochs = '1.5': must be a whole number"),
        ("fedavg --set epochs=inf", "hyperparameter epochs = 'inf': must be a whole number"),
        ("fedavg --set optimizer=rmsprop", "must be one of sgd, adam"),
        ("fedavg --set lr", "--set lr: must be NAME=VALUE"),
        ("fedavg --model vgg", "unknown model 'vgg'; known: FILE.py, cnn, cnn1d, cnn_bn, mlp,"),
        ("fedavg --model cnn", "at least 16x16, not 8x8; use --model mlp"),
        ("fedavg --head-layers 9", "head_layers = 9"),
        ("fedavg --device cudaa", "device 'cudaa' cannot be used here"),
        ("fedavg --workers 0", "'--workers'"),
        ("fedavg --checkpoint-every 0", "'--checkpoint-every'"),
        ("fedavg --round 3", "--round"),
        ("fedavg --config missing.toml", "cannot read missing.toml: No such file"),
        ("fedavg --plugin mine", "--plugin mine: must be a Python file"),
        ("fedavg --plugin missing.py", "no plugin file 'missing.py'"),
        ("missing.py", "no plugin file 'missing.py'"),
        ("fedavg --dataset npz:missing.npz", "cannot read missing.npz: No such file"),
        ("fedavg --dataset npz", "data set 'npz' needs a file: npz:PATH"),
        ("fedavg --partition file:missing.npz", "cannot read missing.npz: No such file"),
        ("fedavg --partition file:", "partition 'file' needs a file"),
    ],
)
def test_a_mistake_in_a_run_is_told_in_one_line(call: Call, command: str, said: str):
    words = shlex.split(command)
    one_line(*call("run", *SMALL, *words), said)
    assert not Path("results").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there(call: Call):
    one_line(
        *call("run", "fedavg", *SMALL, "--device", "cuda"), "device 'cuda' cannot be used here"
    )
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "content, said",
    [
        ("rounds = ", "config.toml is not TOML"),
        (b"rounds = 1 # \xff", "config.toml is not TOML"),
        ("round = 3", "unknown option 'round'; did you mean 'rounds'?"),
        ("clients = 'ten'", "option clients = 'ten': must be a whole number"),
        ("test_fraction = [1]", "option test_fraction = [1]: must be a number"),
        ("hparams = 3", "hparams must be a table"),
        ("[hparams]\nmu = 1", "unknown hyperparameter of FedAvg 'mu'"),
        ("[hparams]\nlr = true\noptimizer = 'x'", "hyperparameter optimizer = 'x': must be one of"),
        ("algorithm = 'fedavgg'", "unknown method 'fedavgg'"),
    ],
)
def test_a_mistake_in_a_configuration_file(call: Call, content: str | bytes, said: str):
    Path("config.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    method = [] if "algorithm" in str(content) else ["fedavg"]
    one_line(*call("run", *method, *TOY, "--config", "config.toml"), said)
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "source, said",
    [
        ("import os\ndef f(:\n    pass\n", "mine.py, line 2: invalid syntax"),
        ("import os\n1 / 0\n", "mine.py cannot be imported: ZeroDivisionError: division by zero ("),
        ("import missing_package\n", "No module named 'missing_package'"),
        ("x = 1\n", "must define one subclass of pflbench.api.Algorithm; it defines 0"),
        (PLUGIN.replace('    title = "Mine"\n', ""), "mine.py: class Mine has no title"),
        (PLUGIN.replace("    family =", "    other ="), "mine.py: class Mine has no family"),
        (
            "from dataclasses import dataclass\nfrom pflbench.api import Hparams\n"
            "@dataclass(frozen=True)\nclass Settings(Hparams):\n    mu: float = 1.0\n"
            + PLUGIN
            + "    hp: Settings\n",
            "hyperparameter mu must be declared with hparam(default, range, meaning)",
        ),
    ],
)
def test_a_mistake_in_a_plugin_names_file_and_line(call: Call, source: str, said: str):
    Path("mine.py").write_text(source)
    one_line(*call("run", "mine.py", *SMALL), said)
    one_line(*call("run", "--plugin", "mine.py", *SMALL), said)
    assert not Path("results").exists()


def test_a_plugin_that_is_another_method_than_named(call: Call):
    Path("mine.py").write_text(PLUGIN)
    one_line(
        *call("run", "fedavg", "--plugin", "mine.py", *SMALL),
        "plugin mine.py is the method 'mine', not 'fedavg'",
    )


def test_missing_data_name_the_command_that_gets_them(call: Call, tmp_path: Path):
    root = tmp_path / "an empty root"
    words = [
        "fedavg",
        "--dataset",
        "cifar10",
        "--data-root",
        str(root),
        "--rounds",
        "1",
        "--workers",
        "1",
    ]
    one_line(*call("run", *words), f"get it with: pflbench data get cifar10 --data-root '{root}'\n")
    assert not Path("results").exists()
    assert not root.exists()


@pytest.mark.parametrize(
    "command", ["run fedavg --dataset digits", "data get digits", "data show digits"]
)
def test_a_data_root_that_cannot_be_written(call: Call, tmp_path: Path, command: str):
    # not a folder: a test that runs as root may write to any folder
    (tmp_path / "file").write_text("")
    one_line(
        *call(*command.split(), "--data-root", str(tmp_path / "file" / "data")),
        "cannot write to the data folder",
    )
    one_line(
        *call(*command.split(), "--data-root", str(tmp_path / "file")),
        "is a file; name a folder with --data-root",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_download_into_a_folder_that_cannot_be_written(call: Call, tmp_path: Path):
    (tmp_path / "file").write_text("")
    root = tmp_path / "file" / "data"
    code, out, err = call("data", "get", "cifar10", "--data-root", str(root))
    assert out == f"getting CIFAR-10 into {root}\n"
    one_line(code, "", err, "cannot write to the data folder")


def test_a_download_without_network_is_a_failure_of_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("<urlopen error [Errno -3] Temporary failure in name resolution>")

    monkeypatch.setattr("pflbench.data.torchvision_files.fetch", unreachable)
    code, _, err = call("data", "get", "cifar10", "--data-root", str(tmp_path / "data"))
    assert code == 1
    assert (
        err.startswith("pflbench: error: could not get data set 'cifar10' into")
        and err.count("\n") == 1
    )
    assert "name resolution" in err
    assert "'pflbench data import cifar10 PATH' takes the .tgz file" in err


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_an_output_folder_that_cannot_be_written(call: Call, out: str):
    Path("file").write_text("mine")
    one_line(*call("run", "fedavg", *SMALL, "--out", out), "cannot write to file")
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize(
    "arrays, said",
    [
        ({"z": np.zeros(3)}, "has no array x and no array y; its arrays: z"),
        ({"x": np.zeros((9, 8, 8), bool), "y": np.zeros(9, int)}, "x is bool; it must be uint8"),
        (
            {"x": np.zeros((9, 8, 8), np.uint8), "y": np.zeros(8, int)},
            "x has 9 samples and y has 8 labels",
        ),
    ],
)
def test_a_data_file_with_wrong_arrays(call: Call, arrays: dict[str, np.ndarray], said: str):
    np.savez("mine.npz", allow_pickle=False, **arrays)
    one_line(*call("run", "fedavg", *SMALL, "--dataset", "npz:mine.npz"), said)
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "arrays, options, said",
    [
        ({"train_0": [0, 1]}, [], "must be train_0, test_0, train_1, ..."),
        ({"x": [0], "y": [1]}, [], "must be train_0, test_0, train_1, ..."),
        ({"train_0": [0, 999], "test_0": [2]}, [], "has an index outside 0..159"),
        ({"train_0": [0, 1], "test_0": [1]}, [], "client 0 has a sample twice"),
        (
            {"train_0": [0, 1], "test_0": [2]},
            ["--clients", "3"],
            "has 1 clients, but clients = 3",
        ),
    ],
)
def test_a_partition_file_with_wrong_arrays(
    call: Call, arrays: dict[str, list[int]], options: list[str], said: str
):
    np.savez(
        "mine.npz",
        allow_pickle=False,
        **{name: np.array(indices) for name, indices in arrays.items()},
    )
    one_line(
        *call("run", "fedavg", *TOY, "--rounds", "1", "--partition", "file:mine.npz", *options),
        said,
    )
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "command, said",
    [
        ("data show digits --out picture.txt", "must end in .png, .pdf or .svg"),
        ("data show digits --out missing/picture.png", "cannot write missing/picture.png"),
        ("data show nothing", "unknown data set 'nothing'"),
        ("data export digits missing/x.npz", "cannot write the partition to missing/x.npz"),
        ("data export digits", "Missing argument"),
        ("data", "Missing command"),
        ("data erase", "No such command 'erase'"),
        ("algorithms show fedavgg", "unknown method 'fedavgg'; did you mean 'fedavg'?"),
        ("check fedavgg", "unknown method 'fedavgg'"),
        ("new fedavg", "the name 'fedavg' is taken"),
        ("new Fed_Avg", "the name 'Fed_Avg' is taken by the method 'fedavg'"),
        ("new fed-avg2", "cannot be the name of a method"),
        ("new lambda", "cannot be the name of a method"),
        ("report missing", "no runs in missing"),
        ("runn fedavg", "No such command 'runn'. Did you mean 'run'?"),
        ("--rounds 3", "No such option"),
    ],
)
def test_a_mistake_in_another_command(call: Call, command: str, said: str):
    one_line(*call(*command.split()), said)
    assert not list(Path().iterdir())


def stopped_run(call: Call, monkeypatch: pytest.MonkeyPatch, *options: str) -> Path:
    """The folder of a run that was stopped after its first round, with a checkpoint."""
    from pflbench.simulation.federation import Federation

    play = Federation.step

    def step(self: Federation) -> object:
        if self.round == 1:
            raise KeyboardInterrupt
        return play(self)

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "step", step)
        assert call("run", "fedavg", *SMALL, *options)[0] == 130
    (folder,) = [
        path.parent
        for path in Path("results").rglob("checkpoint-*")
        if f"-s{options[-1]}-" in str(path)
    ]
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_checkpoint_from_another_configuration_is_refused(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    one, other = (stopped_run(call, monkeypatch, "--seed", seed) for seed in "12")
    for path in one.glob("checkpoint-*"):
        path.unlink()
    (stray,) = other.glob("checkpoint-*")
    shutil.copy(stray, one)
    before = contents(one)
    one_line(
        *call("run", "fedavg", *SMALL, "--seed", "1"),
        f"{stray.name} is of another run, {other.name}",
    )
    assert contents(one) == before

    (one / "run.json").unlink()
    before = contents(one)
    one_line(*call("run", "fedavg", *SMALL, "--seed", "1"), f"{stray.name} is of an unknown run")
    assert contents(one) == before

    code, out, err = call("run", "fedavg", *SMALL, "--seed", "1", "--fresh")
    assert (code, err) == (0, "") and "FedAvg on Synthetic" in out


def test_a_folder_that_holds_another_run_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch):
    one, other = (stopped_run(call, monkeypatch, "--seed", seed) for seed in "12")
    shutil.copy(other / "run.json", one)
    before = contents(one)
    one_line(
        *call("run", "fedavg", *SMALL, "--seed", "1"),
        f"has another run, {other.name}; choose another --out",
    )
    assert contents(one) == before


def test_a_result_that_cannot_be_read(call: Call):
    call("run", "fedavg", *SMALL)
    (folder,) = [path.parent for path in Path("results/runs").glob("*/run.json")]
    (folder / "run.json").write_text("{")
    before = contents(folder)
    said = f"{folder} is damaged: run.json has 1 bytes"
    one_line(*call("run", "fedavg", *SMALL), said)
    assert contents(folder) == before
    code, _, _ = call("run", "fedavg", *SMALL, "--fresh")
    assert code == 0
    assert json.loads((folder / "run.json").read_text())["id"] == folder.name


@pytest.mark.parametrize(
    "command, said",
    [
        ("run fedavgg", "unknown method 'fedavgg'; did you mean 'fedavg'?"),
        ("run mine.py", "mine.py, line 1: "),
        ("run fedavg --rounds 0", "rounds = 0: must be at least 1"),
    ],
)
def test_the_same_as_a_user_types_it(tmp_path: Path, command: str, said: str):
    (tmp_path / "mine.py").write_text("def f(:\n")
    words = [*PFLBENCH, *command.split(), "--workers", "1"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    one_line(done.returncode, done.stdout, done.stderr, said)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_a_failing_method_is_told_in_one_line_and_its_traceback_kept(call: Call):
    method = PLUGIN + "    def personal_model(self, client, message):\n        return {}['model']\n"
    Path("mine.py").write_text(method)
    code, out, err = call("run", "mine.py", *SMALL)
    (folder,) = [path.parent for path in Path("results/runs").glob("*/run.json")]
    status = json.loads((folder / "status.json").read_text())
    assert (code, out) == (1, "")
    error = "KeyError: 'model' (mine.py, line 7)"
    said = f"Mine failed in round 1, client 0, personal_model(): {error}; its traceback is in"
    assert err == f"pflbench: error: {said} {folder}/status.json\n"
    assert status["status"] == "failed" and "mine.py" in status["details"]


def test_a_diverged_run_is_told_in_one_line_every_time(call: Call):
    for _ in range(2):
        code, out, err = call("run", "fedavg", *SMALL, "--set", "lr=1e38")
        assert (code, out) == (1, "")
        assert err.startswith(
            "pflbench: error: FedAvg diverged: numbers that are not finite from clients ["
        )
        assert err.count("\n") == 1 and "its records are in results/runs/fedavg-" in err
    code, out, _ = call("run", "fedavg", *SMALL, "--set", "lr=1e38", "--json")
    assert code == 1 and json.loads(out)["status"] == "diverged"
