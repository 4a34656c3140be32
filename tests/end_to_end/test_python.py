"""pflbench from Python: methods that are classes, a callback per round, frames, nothing left behind."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest
import torch

import pflbench
from pflbench.api import Algorithm, Hparams, log
from pflbench.errors import UserError
from pflbench.methods.given import Given
from pflbench.ops import cross_entropy, local_sgd, weighted_mean
from pflbench.testing import TOY
from pflbench.testing.problem import toy_setup


def half(value):
    return value / 2


def a_class():
    """A method as somebody writes it in a notebook."""

    class Halved(Algorithm):
        title = "Halved"
        family = "Mine"
        hp: Hparams

        def client_update(self, client, message):
            theta = local_sgd(_loss, message["theta"], client, self.hp)
            log(halved=half(client.id))
            return {"theta": theta, "n": client.n}, {}

        def aggregate(self, server, replies):
            return {"theta": weighted_mean(replies, "theta")}

        def personal_model(self, client, message):
            return message["theta"]

    return Halved


def _loss(net, x, y):
    return cross_entropy(net(x), y)


def numbers(run):
    return (run.folder / "rounds.jsonl").read_bytes()


def test_a_class_is_a_method_also_in_worker_processes(tmp_path):
    method = a_class()
    here = pflbench.run(method, out=tmp_path / "here", **TOY)
    there = pflbench.run(method, out=tmp_path / "there", workers=2, **TOY)
    assert numbers(here) == numbers(there)
    assert here.folder.name.startswith("halved-") and here.config["algorithm"] == "halved"
    assert here.about["method"]["source"].startswith("class Halved(Algorithm):")


def test_the_version_of_a_class_is_that_of_its_code():
    class Halved(a_class()):
        def aggregate(self, server, replies):
            return server

    assert Given(a_class()) == Given(a_class())
    assert Given(Halved) != Given(a_class())


def test_a_shipped_class_is_the_method_of_its_file_and_an_object_brings_its_hyperparameters(
    tmp_path,
):
    from pflbench.algorithms.fedprox import FedProx

    by_name = pflbench.run("fedprox", out=tmp_path, hparams={"mu": 0.5}, **TOY)
    by_object = pflbench.run(toy_setup("fedprox", {"mu": 0.5}).algorithm(), out=tmp_path, **TOY)
    by_class = pflbench.run(FedProx, out=tmp_path, hparams={"mu": 0.5}, **TOY)
    assert by_class.folder == by_name.folder
    assert by_object.folder == by_name.folder


def test_all_that_is_recorded_is_in_the_frames(tmp_path):
    seen = []
    method = a_class()
    run = pflbench.run(method, out=tmp_path, watch=lambda *one: seen.append(one), **TOY)
    records = [json.loads(line) for line in numbers(run).splitlines()]
    assert [record for record, _ in seen] == records
    sent = run.communication.query("round == 1 and way == 'up'").set_index("part")["bytes"]
    assert sent.to_dict() == records[1]["bytes"]["up"]
    logged = run.logs.query("round == 2 and name == 'halved'")
    assert logged["value"].tolist() == records[2]["logs"]["halved"]
    assert run.timing["round"].tolist() == [0, 1, 2, 3]
    assert run.hyperparameters.loc["lr", "value"] == run.config["hparams"]["lr"]


def test_nothing_is_left_behind_also_under_a_running_event_loop(tmp_path):
    def settings():
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        return handlers, torch.get_num_threads(), torch.random.get_rng_state().tolist()

    async def cell():
        return pflbench.run("fedavg", out=tmp_path, **TOY)

    torch.set_num_threads(2)
    try:
        before = settings()
        asyncio.run(cell())
        assert settings() == before
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    "method, said",
    [
        (dict, "must be a name, a path, or a subclass of pflbench.api.Algorithm"),
        (type("Bare", (Algorithm,), {}), "class Bare: class Bare has no title"),
    ],
)
def test_a_mistake_is_one_line(method, said, tmp_path):
    with pytest.raises(UserError, match=said) as caught:
        pflbench.run(method, out=tmp_path, **TOY)
    assert "\n" not in str(caught.value)


def test_importing_pflbench_imports_no_torch():
    code = "import sys, pflbench; print('torch' in sys.modules, 'pandas' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False False\n"
