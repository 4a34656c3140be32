"""Clients that fail after the download, and clients that do a part of their batches."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from pflbench.config import Run
from pflbench.errors import UserError
from pflbench.logs import collect_work
from pflbench.simulation import failures, runner
from pflbench.testing import equal, toy
from pflbench.testing.problem import toy_setup

ALL_FAIL_SECOND: dict[str, Any] = {"dropout_rate": 0.5, "seed": 23}
"""Of four clients number 2 fails in the first round, all in the second, number 1 in the third."""


def test_who_fails_is_drawn_by_seed_and_round_alone_at_about_the_rate():
    run = partial(Run, clients=1000, dropout_rate=0.3)
    failing = failures.failing(run("fedavg"), 4)
    assert failing == failures.failing(run("pefll", rounds=7, participation=0.1), 4)
    assert failing != failures.failing(run("fedavg", seed=1), 4)
    assert failing != failures.failing(run("fedavg"), 5)
    assert 250 < len(failing) < 350
    assert failures.failing(Run("fedavg", clients=1000), 4) == frozenset()


def test_a_share_of_the_clients_is_slow_the_same_for_every_method():
    run = partial(Run, clients=10, slow_clients=0.3)
    slow = failures.slow(run("fedavg"), range(10))
    assert len(slow) == 3
    assert slow == failures.slow(run("local", slow_work=0.1), range(10))
    assert any(failures.slow(run("fedavg", seed=seed), range(10)) != slow for seed in range(5))


@pytest.mark.parametrize("name", ["fedavg", "fedfomo", "pefll", "pfedhn", "feddbl"])
def test_methods_meet_the_same_failures_and_a_failed_client_sends_nothing(name: str):
    federation = toy(name, {"participation": 1.0}, **ALL_FAIL_SECOND)
    records = [federation.step()[0] for _ in range(3)]
    assert [record["failed"] for record in records] == [[2], [0, 1, 2, 3], [1]]
    assert records[1]["bytes"]["up"] == {}
    assert records[1]["loss"] is None


def test_the_download_of_a_failed_client_counts_and_what_would_follow_is_not_sent():
    federation = toy("pefll", **ALL_FAIL_SECOND)
    cohort = federation._cohort(evaluation_due=True)
    federation.algorithm.round(federation.server, cohort)
    assert cohort.down[2].keys() == {"E"}
    assert cohort.down[0].keys() == {"E", "theta", "dv"}
    assert cohort.down[2]["E"] == cohort.down[0]["E"] > 0
    assert 2 not in cohort.up and 2 not in cohort.new_states


def test_a_round_without_answers_leaves_everything_as_it_was_and_the_run_goes_on():
    federation = toy("fedrep", **ALL_FAIL_SECOND)
    first = federation.step()[0]
    server, states = federation.server, dict(federation.states)
    second = federation.step()[0]
    assert federation.server is server
    assert dict(federation.states) == states
    assert second["accuracy"] == first["accuracy"]
    assert second["cohort"] == second["failed"] == [0, 1, 2, 3]
    assert second["bytes"] == {"down": first["bytes"]["down"], "up": {}}
    third = federation.step()[0]
    assert federation.server is not server
    assert third["loss"] is not None


def test_the_latest_training_of_a_failed_client_is_what_is_evaluated_at_post():
    """The record has the accuracy of its last trained model, also where no round between is
    evaluated.
    """
    every = toy("local", {"lr": 0.1}, rounds=3, **ALL_FAIL_SECOND)
    rare = toy("local", {"lr": 0.1}, rounds=3, eval_every=3, **ALL_FAIL_SECOND)
    for federation in (every, rare):
        federation.start()
    last = [[federation.step()[0] for _ in range(3)][-1] for federation in (every, rare)]
    assert last[0] == last[1]


def test_a_slow_client_does_the_first_of_its_batches_at_least_one():
    client = toy("fedavg", clients=2).client(0)
    whole = [y for _, y in client.batches(4, epochs=2)]
    for work, number in ((0.5, len(whole) // 2), (0.01, 1), (1.0, len(whole))):
        slow = replace(client, work=work)
        with collect_work() as done:
            part = [y for _, y in slow.batches(4, epochs=2)]
        assert len(part) == number
        assert all(torch.equal(a, b) for a, b in zip(part, whole, strict=False))
        assert (done.batches, done.samples) == (number, sum(map(len, part)))
    assert client.steps(0) == 0


def test_the_record_says_how_much_each_client_did():
    settings: dict[str, Any] = {"slow_clients": 0.5, "slow_work": 0.25}
    slow = toy("fedavg", {"batch_size": 2, "epochs": 2}, **settings)
    usual = toy("fedavg", {"batch_size": 2, "epochs": 2}, slow_clients=0.01)
    record, full = slow.step()[0], usual.step()[0]
    assert full["samples"] == [2 * len(rows) for rows in usual.partition.train]
    expected = [
        int(0.25 * batches) if id in slow.slow else batches
        for id, batches in enumerate(full["batches"])
    ]
    assert record["batches"] == expected
    assert len(slow.slow) == 2
    for id, samples in enumerate(record["samples"]):
        assert samples == (2 * expected[id] if id in slow.slow else full["samples"][id])


def test_scaffolds_control_is_of_the_steps_that_a_slow_client_took():
    """c_i of the first round is the mean gradient of its steps: (x - y) / (K eta)."""
    federation = toy("scaffold", {"batch_size": 4, "lr": 0.1}, slow_clients=1.0, slow_work=0.5)
    client = replace(federation.client(0), work=0.5)
    message = federation.algorithm.download(federation.server, (0,))[0]
    with collect_work() as done:
        reply, state = federation.algorithm.client_update(client, message)
    x = federation.algorithm.task.initial
    mean = {name: (p - reply["theta"][name]) / (done.batches * 0.1) for name, p in x.items()}
    assert done.batches < len(list(federation.client(0).batches(4)))
    for name, c in state["c"].items():
        assert torch.allclose(c, mean[name], atol=1e-5)


def test_fedprotos_prototypes_of_a_slow_client_are_means_of_what_it_saw():
    """With one batch of all samples per pass, half of two passes is one pass."""
    federation = toy("fedproto", {"batch_size": 1024, "epochs": 2})
    slow = replace(federation.client(0), work=0.5)
    one_pass = toy("fedproto", {"batch_size": 1024, "epochs": 1})
    message = federation.algorithm.download(federation.server, (0,))[0]
    found, _ = federation.algorithm.client_update(slow, message)
    expected, _ = one_pass.algorithm.client_update(one_pass.client(0), message)
    assert equal(found["omega"], expected["omega"])


def test_without_failures_a_record_has_no_word_of_them():
    record = toy("fedavg").step()[0]
    assert not {"failed", "batches", "samples"} & record.keys()


@pytest.mark.parametrize(
    "setting, said",
    [
        ({"dropout_rate": 1.0}, "dropout_rate = 1.0: must be at least 0 and below 1"),
        ({"dropout_rate": float("nan")}, "dropout_rate = nan: must be at least 0 and below 1"),
        ({"slow_clients": 1.2}, "slow_clients = 1.2: must be at least 0 and at most 1"),
        ({"slow_work": 0.0}, "slow_work = 0.0: must be above 0 and at most 1"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, Any], said: str):
    with pytest.raises(UserError, match=said):
        Run("fedavg", **setting)


def test_a_resumed_run_and_one_with_workers_are_the_run_that_was_not_stopped(tmp_path: Path):
    setup = toy_setup("fedfomo", rounds=4, slow_clients=0.5, **ALL_FAIL_SECOND)
    runner.execute(setup, tmp_path / "whole")
    runner.execute(setup, tmp_path / "workers", workers=2)
    with pytest.raises(KeyboardInterrupt):
        runner.execute(setup, tmp_path / "stopped", watch=stop_after_two_rounds)
    runner.execute(setup, tmp_path / "stopped")
    whole, workers, stopped = (
        (tmp_path / folder / setup.run.id / "rounds.jsonl").read_bytes()
        for folder in ("whole", "workers", "stopped")
    )
    assert whole == workers == stopped


def stop_after_two_rounds(record: dict[str, Any], timing: dict[str, Any]) -> None:
    if record["round"] == 2:
        raise KeyboardInterrupt
