"""Clients that never take part: who they are, what is evaluated of them, and that nothing is kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench.config import Run
from pflbench.errors import UserError
from pflbench.ops import join, phi
from pflbench.report.load.runs import Choice, collect
from pflbench.report.tables.all_tables import tables
from pflbench.simulation import runner
from pflbench.testing import equal, toy
from pflbench.testing.problem import toy_setup

NAMES = ("new_pre", "new_1", "new_5")
NEW: dict[str, Any] = {"clients": 6, "new_clients": 2, "rounds": 2}


def test_new_clients_are_the_last_and_in_no_cohort():
    federation = toy("fedavg", **NEW)
    records = [federation.start()[0], *(federation.step()[0] for _ in range(2))]
    assert federation.algorithm.task.clients == 4
    assert all(record["cohort"] == [0, 1, 2, 3] for record in records[1:])
    assert "new_pre" not in records[0]["accuracy"]
    last = records[-1]["accuracy"]
    assert last["pre"][4:] == last["post"][4:] == [None, None]
    for name in NAMES:
        assert last[name][:4] == [None] * 4
        assert None not in last[name][4:]


def test_a_new_client_of_fedavg_trains_the_global_model_for_its_passes():
    federation = toy("fedavg", {"lr": 0.1}, **NEW)
    federation.step()
    algorithm, client = federation.algorithm, federation.client(5)
    message = algorithm.download(federation.server, (5,))[5]
    twice = toy("fedavg", {"lr": 0.1, "epochs": 2}, **NEW).algorithm
    reply, _ = twice.client_update(client, message)
    assert equal(algorithm.adapted_model(client, message, 2), reply["theta"])


def test_a_new_client_of_fedrep_trains_its_head_on_the_body_that_it_is_sent():
    federation = toy("fedrep", {"lr": 0.1}, **NEW)
    federation.step()
    message = federation.algorithm.download(federation.server, (5,))[5]
    model = federation.algorithm.adapted_model(federation.client(5), message, 2)
    assert equal(phi(model), message["phi"])
    assert not equal(model, join(message["phi"], federation.client(5).state["pi"]))


def test_without_new_clients_a_record_has_no_word_of_them():
    assert not any(name.startswith("new") for name in toy("fedavg").step()[0]["accuracy"])


def test_shares_are_of_the_seen_clients():
    run = Run("fedavg", clients=20, new_clients=10, participation=0.5)
    assert (run.seen_clients, run.cohort_size) == (10, 5)


@pytest.mark.parametrize(
    "setting, said",
    [
        ({"new_clients": 20}, "new_clients = 20: must be below clients = 20"),
        ({"new_clients": -1}, "new_clients = -1: must be at least 0"),
        ({"new_client_epochs": 0}, "new_client_epochs = 0: must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, Any], said: str):
    with pytest.raises(UserError, match=said):
        Run("fedavg", **setting)


def test_workers_give_the_same_records(tmp_path: Path):
    setup = toy_setup("pfedhn", **NEW)
    rounds = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        runner.execute(setup, out, workers=workers)
        rounds.append((out / setup.run.id / "rounds.jsonl").read_bytes())
    assert rounds[0] == rounds[1]
    assert b"new_5" in rounds[0]


@pytest.mark.parametrize("new, shown", [(2, True), (0, False)])
def test_the_table_of_seen_and_new_clients_is_there_with_new_clients_only(
    tmp_path: Path, new: int, shown: bool
):
    setup = toy_setup("fedavg", **{**NEW, "new_clients": new})
    folder = runner.execute(setup, tmp_path).folder
    (experiment,) = collect(tmp_path, Choice())
    found = {part.name: part for part in tables(experiment, [experiment], Choice())[0]}
    assert ("new-clients" in found) == shown
    if shown:
        last = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])["accuracy"]
        seen = [100 * np.mean(last["pre"][:4])]
        expected = [*seen, *(100 * np.mean(last[name][4:]) for name in NAMES)]
        line = found["new-clients"].markdown.splitlines()[2]
        assert [cell.strip() for cell in line.split("|")[4:-1]] == [f"{n:.2f}" for n in expected]
