"""Engines: any number of workers gives the same bytes; failures and deaths are told as they are."""

import os
import signal
from pathlib import Path

import pytest

import pflbench
from pflbench.errors import RunFailed
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation import engine, runner
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY

DIGITS = {"dataset": "digits", "partition": "dir:0.1", "rounds": 20}


@pytest.mark.parametrize(("settings", "workers"), [(DIGITS, 2), (TOY, 3)], ids=["digits", "toy"])
def test_fedcosr_is_byte_for_byte_the_same_with_one_worker_and_with_more(
    tmp_path, settings, workers
):
    runs = [
        pflbench.run("fedcosr", out=tmp_path / str(w), workers=w, **settings) for w in (1, workers)
    ]
    first, other = ((result.folder / "rounds.jsonl").read_bytes() for result in runs)
    assert first == other
    assert len(first.splitlines()) == settings["rounds"] + 1


PLUGIN = '''
"""Broken: fails in its second round at client 2."""
import os, signal
from pflbench.api import Algorithm
from pflbench.ops import weighted_mean
class Broken(Algorithm):
    title = "Broken"
    family = "none"
    def client_update(self, client, message):
        if client.round == 1 and client.id == 2:
            {line}
        return {{"theta": message["theta"], "n": client.n}}, {{}}
    def aggregate(self, server, replies):
        return {{"theta": weighted_mean(replies, "theta")}}
    def personal_model(self, client, message):
        return message["theta"]
'''


def plugin(folder: Path, line: str) -> str:
    path = folder / "broken.py"
    path.write_text(PLUGIN.format(line=line))
    return str(path)


@pytest.mark.parametrize("workers", [1, 2])
def test_failure_names_method_round_client_and_stage(tmp_path, workers):
    path = plugin(tmp_path, "raise ValueError('no luck')")
    with pytest.raises(
        RunFailed, match=r"Broken failed in round 2, client 2, client_update\(\): ValueError: no luck"
    ) as caught:
        pflbench.run(path, out=tmp_path / "out", workers=workers, **TOY)
    assert 'raise ValueError("no luck")' in caught.value.details.replace("'", '"')


@pytest.mark.parametrize("workers", [1, 2])
def test_reply_that_is_no_tensor_is_told(tmp_path, workers):
    path = plugin(tmp_path, "return {'theta': message['theta'], 'n': 3}, {}")
    with pytest.raises(RunFailed, match=r"client 2, client_update\(\): NotATensor: 'n' is a int"):
        pflbench.run(path, out=tmp_path / "out", workers=workers, **TOY)


def test_death_of_a_worker_is_told_with_its_place(tmp_path):
    path = plugin(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(
        RunFailed, match=r"worker process died \(out of memory\?\) in round 2, client 2, client_update\(\)"
    ):
        pflbench.run(path, out=tmp_path / "out", workers=2, **TOY)


def test_longest_client_goes_first():
    setup = runner.prepare(make_run("fedavg", TOY, {}))
    machinery = engine.Processes(setup, 1)
    order = []
    receive = machinery._receive
    machinery._receive = lambda pipe, job: order.append(job.client) or receive(pipe, job)
    try:
        Federation(setup, machinery).step()
    finally:
        machinery.close()
    sizes = [len(rows) for rows in setup.partition.train]
    assert order[:4] == sorted(range(4), key=lambda i: -sizes[i])


def test_workers_end_with_the_engine():
    setup = runner.prepare(make_run("fedavg", TOY, {}))
    machinery = engine.Processes(setup, 2)
    pids = [process.pid for process in machinery.workers.values()]
    machinery.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIG_DFL)
