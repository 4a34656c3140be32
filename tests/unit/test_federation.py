"""Rounds and evaluation, by hand: cohorts, records, notes, losses, failures, snapshots, seconds."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pflbench.api import log, note
from pflbench.data.partition import Partition
from pflbench.errors import RunFailed
from pflbench.records.run_folder import Unwritable
from pflbench.simulation import client_worker, cohort, federation
from pflbench.simulation.client_worker import ClientJob, ClientResult
from pflbench.simulation.cohort import Diverged
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY, played, split_by_class, toy
from tests.factories.federations import Constant, federation_of

HALF: dict[str, Any] = {"participation": 0.5, "eval_every": 3, "rounds": 7}
TESTED = [0, 1, 1, 2, 2, 2]
"""A client's test classes: whoever says class c is right for (c + 1) of 6 samples."""


def one_of_each_class(clients: int, test: Sequence[int] = TESTED) -> Partition:
    """Every client trains on one sample of each of the four classes."""
    return split_by_class(
        "synthetic:classes=4,side=8,samples=160",
        [[0, 1, 2, 3]] * clients,
        [list(test)] * clients,
    )


class Listing(Serial):
    """Keeps all jobs."""

    def __init__(self, setup: Any) -> None:
        super().__init__(setup)
        self.jobs: list[ClientJob] = []

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        self.jobs += jobs
        return super().run(jobs)


class SaysItsRound(Constant):
    """A personal model says class 3 before the first round and class 0 later; right after training
    a model says the number of the round modulo 3.
    """

    def personal_model(self, client: Any, message: Any) -> Any:
        return 3 if client.round == 0 else 0

    def trained_model(self, client: Any, message: Any, reply: Any) -> Any:
        return client.round % 3


# Selection


def test_a_cohort_depends_on_seed_and_round_only():
    one, other = toy("fedavg", clients=8, participation=0.5), toy("local", clients=8)
    other.run = one.run
    cohorts = []
    for round in range(3):
        one.round = other.round = round
        assert one.select() == other.select()
        cohorts.append(one.select())
    assert cohorts == [(1, 5, 6, 7), (0, 1, 5, 7), (2, 3, 4, 5)]  # results refer to them
    assert toy("fedavg", clients=8, participation=0.5, seed=1).select() != cohorts[0]


def test_a_client_without_training_samples_is_in_no_cohort():
    split = split_by_class(TOY["dataset"], [[0], [], [1], [2]], [[0], [0], [1], [2]])
    federation = toy("fedavg", split=split)
    assert federation.select() == (0, 2, 3)
    assert federation.start()[0]["accuracy"]["pre"][1] is not None
    assert federation.step()[0]["cohort"] == [0, 2, 3]


# Evaluation


def test_between_evaluations_post_is_the_accuracy_of_each_clients_latest_training():
    federation = federation_of(SaysItsRound, one_of_each_class(4), **HALF)
    assert federation.start()[0]["accuracy"] == {"pre": [0.0] * 4}
    latest = [0.0] * 4
    for number in range(1, 8):
        record, _ = federation.step()
        for id in record["cohort"]:
            latest[id] = ((number - 1) % 3 + 1) / 6
        if number in (3, 6, 7):  # every third round, and the last
            assert record["accuracy"] == {"pre": [1 / 6] * 4, "post": latest}
        else:
            assert "accuracy" not in record
    assert len(set(latest)) > 1


def test_a_client_that_never_trained_has_the_untrained_accuracy_at_post():
    federation = federation_of(SaysItsRound, one_of_each_class(4, [0, 0, 3]), participation=0.25)
    federation.start()
    record, _ = federation.step()
    (trained,) = record["cohort"]
    assert record["accuracy"]["post"] == [2 / 3 if id == trained else 1 / 3 for id in range(4)]


def test_of_a_sample_that_never_trained_post_is_the_untrained_accuracy_from_the_first_round_on():
    """Of eight clients one is evaluated, and two train per round."""
    settings = {"participation": 0.25, "evaluate_clients": 1, "rounds": 30}
    federation = federation_of(SaysItsRound, one_of_each_class(8, [0, 0, 3]), **settings)
    (evaluated,) = federation.evaluated
    assert [*federation.start()[0]["accuracy"]] == ["pre"]
    number, cohort = 0, []
    while evaluated not in cohort:
        record, _ = federation.step()
        number, cohort = record["round"], record["cohort"]
        expected = [2 / 3, 0.0, 0.0][(number - 1) % 3] if evaluated in cohort else 1 / 3
        assert record["accuracy"]["post"][evaluated] == expected
    assert number > 1


@pytest.mark.parametrize("participation", [1.0, 0.25])
def test_a_method_whose_trained_model_is_none_has_no_post(participation):
    class Nothing(Constant):
        def trained_model(self, client: Any, message: Any, reply: Any) -> Any:
            return None

    federation = federation_of(Nothing, participation=participation)
    assert [*federation.step()[0]["accuracy"]] == ["pre"]


@pytest.mark.parametrize(
    "participation, evaluated", [(1.0, [False, False, True, True]), (0.5, [True] * 4)]
)
def test_trained_models_are_evaluated_when_due_and_always_if_not_all_take_part(
    participation, evaluated
):
    """Where all take part, the next evaluation's round trains everybody anew."""
    settings = {"participation": participation, "eval_every": 3, "rounds": 4}
    federation = federation_of(SaysItsRound, one_of_each_class(4), Listing, **settings)
    played(federation, 4)
    trainings = [job for job in federation.engine.jobs if job.stage == "client_update"]
    flags = [{job.evaluate for job in trainings if job.round == round} for round in range(4)]
    assert flags == [{flag} for flag in evaluated]


def test_accuracy_is_over_the_samples_that_a_client_has():
    split = split_by_class(TOY["dataset"], [[0], [0], [0]], [[0, 1], [], [0]])
    assert federation_of(Constant, split).start()[0]["accuracy"] == {"pre": [0.5, None, 1.0]}


def test_a_method_without_a_trained_model_has_no_post():
    settings = {"clients": 8, "participation": 0.25, "evaluate_clients": 1, "rounds": 1}
    assert [*federation_of(Constant, **settings).step()[0]["accuracy"]] == ["pre"]


def test_clients_are_evaluated_in_chunks_which_changes_no_number(monkeypatch):
    whole = toy("fedcosr", clients=5).start()[0]
    monkeypatch.setattr(federation, "CHUNK", 2)
    asked = []

    class Asking(type(toy("fedcosr").algorithm)):
        def evaluation_messages(self, server: Any, cohort: Any) -> Any:
            asked.append(cohort.ids)
            return super().evaluation_messages(server, cohort)

    chunked = toy("fedcosr", clients=5)
    chunked.algorithm.__class__ = Asking
    assert chunked.start()[0] == whole
    assert asked == [(0, 1), (2, 3), (4,)]


class LogsEvaluation(Constant):
    def personal_model(self, client: Any, message: Any) -> Any:
        if client.id != 1:
            log(b=client.id, a=0.5)
        return 0

    def extra_models(self, client: Any, message: Any) -> Any:
        return {"other": 1} if client.id == 2 else {}


class Backwards(Serial):
    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        return super().run(jobs)[::-1]


@pytest.mark.parametrize("engine", [Serial, Backwards])
def test_what_is_logged_in_an_evaluation_is_listed_by_client(engine):
    record = federation_of(LogsEvaluation, one_of_each_class(3), engine).start()[0]
    assert record["evaluated"] == {"a": [0.5, None, 0.5], "b": [0.0, None, 2.0]}
    assert [*record["evaluated"]] == ["a", "b"]
    assert record["accuracy"] == {"pre": [1 / 6] * 3, "other": [None, None, 2 / 6]}
    assert "notes" not in record


def test_nothing_logged_nothing_written():
    assert federation_of(Constant).start()[0].keys() == {"round", "accuracy"}


# Notes


class Notes(Constant):
    """Everybody notes something, twice."""

    def client_update(self, client: Any, message: Any) -> Any:
        note("a client trains")
        note(f"client {client.id}")
        return {}, {}

    def aggregate(self, server: Any, replies: Any) -> Any:
        note("the server aggregates")
        note("the server aggregates")
        return server

    def asked(self, client: Any, message: Any) -> Any:
        note("a client is asked")
        return {}, {}

    def evaluation_messages(self, server: Any, cohort: Any) -> Any:
        note("the server evaluates")
        cohort.call(self.asked, {id: {} for id in cohort.ids})
        return {id: {} for id in cohort.ids}

    def personal_model(self, client: Any, message: Any) -> Any:
        note("a client evaluates")
        return 0


IN_A_ROUND = ["the server aggregates", "a client trains", "client 0", "client 1"]
IN_AN_EVALUATION = ["the server evaluates", "a client is asked", "a client evaluates"]


@pytest.mark.parametrize("engine", [Serial, Backwards])
def test_every_note_is_once_in_the_record_of_its_round(engine):
    split = split_by_class(TOY["dataset"], [[0], [1]], [[0], [1]])
    federation = federation_of(Notes, split, engine, eval_every=2)
    assert federation.start()[0]["notes"] == IN_AN_EVALUATION
    assert federation.step()[0]["notes"] == IN_A_ROUND
    assert federation.step()[0]["notes"] == [*IN_A_ROUND, *IN_AN_EVALUATION]
    assert federation.step()[0]["notes"] == [*IN_A_ROUND, *IN_AN_EVALUATION]  # the last one


def test_clients_that_have_never_trained_are_noted_until_they_do():
    """Of clients 0 to 3, client 1 has no training data, and is not waited for."""
    split = split_by_class(TOY["dataset"], [[0], [], [1], [2]], [[0], [0], [1], [2]])
    federation = federation_of(Constant, split, participation=0.25, rounds=30)
    assert "notes" not in federation.start()[0]
    seen: set[int] = set()
    while len(seen) < 3:
        record, _ = federation.step()
        seen |= {*record["cohort"]}
        left = 3 - len(seen)
        said = [f"{left} of 4 evaluated clients have never trained"] if left else None
        assert record.get("notes") == said


def test_of_clients_that_have_never_trained_only_evaluated_ones_are_noted():
    settings = {"clients": 8, "participation": 0.25, "evaluate_clients": 3}
    federation = federation_of(Constant, **settings)
    record, _ = federation.step()
    left = len({*federation.evaluated} - {*record["cohort"]})
    assert record["notes"] == [f"{left} of 3 evaluated clients have never trained"]


# The record of a round


class Logs(Constant):
    def client_update(self, client: Any, message: Any) -> Any:
        if client.id != 1:
            log(loss=client.id, norm=2.0 * client.id)
        return {"theta": torch.zeros(client.id), "n": client.n}, {}

    def download(self, server: Any, ids: Any) -> Any:
        return {id: {"theta": torch.zeros(3), "m": torch.zeros(id)} for id in ids}

    def aggregate(self, server: Any, replies: Any) -> Any:
        log(lr=0.5, gap=torch.tensor(2.0))
        return server


def test_the_record_of_a_round_by_hand():
    """Loss: clients 0, 2 and 3 with 1, 2 and 5 samples: (0 + 2 * 2 + 3 * 5) / 8."""
    split = split_by_class(TOY["dataset"], [[0], [1], [0, 1], [0, 1, 2, 3, 0]], [[0]] * 4)
    record, _ = federation_of(Logs, split, eval_every=2).step()
    assert record == {
        "round": 1,
        "cohort": [0, 1, 2, 3],
        "loss": 19 / 8,
        "bytes": {
            "down": {"theta": 4 * 3 * 4, "m": 4 * 6},
            "up": {"theta": 4 * 6, "n": 4 * 4},
        },
        "logs": {"norm": [0.0, None, 4.0, 6.0]},
        "server": {"lr": 0.5, "gap": 2.0},
    }


class LogsMuch(Constant):
    def client_update(self, client: Any, message: Any) -> Any:
        log(**dict.fromkeys("hgfedcba", 1.0))
        return {}, {}

    def personal_model(self, client: Any, message: Any) -> Any:
        log(**dict.fromkeys("hgfedcba", 1.0))
        return 0


def test_logs_come_in_the_order_of_their_names():
    record, _ = federation_of(LogsMuch).step()
    assert "".join(record["logs"]) == "".join(record["evaluated"]) == "abcdefgh"


class TwoPasses(Constant):
    def client_update(self, client: Any, message: Any) -> Any:
        log(loss_head=1.0, norm=9.0)
        if client.id == 1:
            log(loss_body=4.0)
        return {}, {}


def test_without_a_loss_of_its_own_a_round_has_the_mean_of_all_passes():
    """Clients with 1 and 2 samples: (1 * 1 + 2 * 1 + 2 * 4) / (1 + 2 + 2)."""
    split = split_by_class(TOY["dataset"], [[0], [1, 2]], [[0], [1]])
    record, _ = federation_of(TwoPasses, split).step()
    assert record["loss"] == 11 / 5
    assert record["logs"] == {
        "loss_body": [None, 4.0],
        "loss_head": [1.0, 1.0],
        "norm": [9.0, 9.0],
    }
    assert federation_of(Constant, split).step()[0]["loss"] is None


# Ends


class Spoils(Constant):
    """In its second round something becomes infinite."""

    where = "clients"

    def init_server(self) -> Any:
        return {"v": torch.zeros(1)}

    def client_update(self, client: Any, message: Any) -> Any:
        bad = self.where == "clients" and client.round == 1 and client.id in (1, 2)
        return {"v": torch.tensor([math.inf if bad else 1.0])}, {
            "round": torch.tensor(client.round)
        }

    def aggregate(self, server: Any, replies: Any) -> Any:
        last = server["v"] == 1.0
        return {"v": torch.tensor([math.nan if self.where == "server" and last else 1.0])}


class SpoilsServer(Spoils):
    where = "server"


class SpoilsStates(Spoils):
    """What a client keeps for itself, and never sends, becomes nan."""

    where = "nowhere"

    def client_update(self, client: Any, message: Any) -> Any:
        reply, state = super().client_update(client, message)
        bad = client.round == 1 and client.id in (1, 2)
        return reply, {**state, "v": torch.tensor(math.nan if bad else 1.0)}


@pytest.mark.parametrize(
    "method, who",
    [
        (Spoils, r"clients \[1, 2\]"),
        (SpoilsStates, r"clients \[1, 2\]"),
        (SpoilsServer, "the server"),
    ],
)
def test_numbers_that_are_not_finite_end_the_run_before_anything_is_taken_over(method, who):
    federation = federation_of(method)
    federation.step()
    before = federation.server
    with pytest.raises(Diverged, match=f"^numbers that are not finite from {who} in round 2$"):
        federation.step()
    assert federation.round == 1
    assert federation.server is before
    assert {int(state["round"]) for state in federation.states.values()} == {0}


class Scores(Constant):
    """The scores of all classes are `score`, but for the first class, which has `first`."""

    score, first = 0.0, 1.0

    def predict(self, model: Any, x: torch.Tensor) -> torch.Tensor:
        scores = torch.full((len(x), self.task.classes), self.score)
        scores[:, 0] = self.first
        return scores


@pytest.mark.parametrize(
    "score, first", [(math.nan, 1.0), (1.0, math.nan), (0.0, math.inf), (-math.inf, -math.inf)]
)
def test_scores_that_are_not_finite_are_no_prediction_of_any_class(score, first):
    method = type("Broken", (Scores,), {"score": score, "first": first})
    said = (
        r"^numbers that are not finite from clients \[0, 1, 2, 3\] in the evaluation after round 0$"
    )
    with pytest.raises(Diverged, match=said):
        federation_of(method).start()


def test_a_class_may_be_ruled_out_by_a_score_of_minus_infinity():
    method = type("Sure", (Scores,), {"score": -math.inf})
    assert federation_of(method).start()[0]["accuracy"].keys() == {"pre"}


class FewScores(Constant):
    def predict(self, model: Any, x: torch.Tensor) -> torch.Tensor:
        return super().predict(model, x)[:, :2]


def test_scores_of_too_few_classes_are_a_failure_of_the_method():
    said = r"failed in .*personal_model\(\): ValueError: predict\(\) returned scores of the shape"
    with pytest.raises(RunFailed, match=said):
        federation_of(FewScores).start()


class Fails(Constant):
    error: Exception = ValueError("no luck\nat all")
    place = "aggregate"

    def aggregate(self, server: Any, replies: Any) -> Any:
        self._fail("aggregate")
        return server

    def evaluation_messages(self, server: Any, cohort: Any) -> Any:
        self._fail("evaluation_messages")
        return super().evaluation_messages(server, cohort)

    def init_server(self) -> Any:
        self._fail("init_server")
        return {}

    def _fail(self, place: str) -> None:
        if place == self.place:
            raise self.error


@pytest.mark.parametrize(
    "place, moment",
    [
        ("init_server", r"init_server\(\)"),
        ("aggregate", "round 1"),
        ("evaluation_messages", "the evaluation after round 0"),
    ],
)
def test_a_failure_on_the_server_names_the_method_and_the_moment(place, moment):
    method = type("Broken", (Fails,), {"title": "Broken", "place": place})
    line = r"\(\S*test_federation\.py, line \d+\)"
    said = rf"^Broken failed in {moment}, on the server: ValueError: no luck {line}$"

    def run() -> None:
        federation = federation_of(method)
        federation.start()
        federation.step()

    with pytest.raises(RunFailed, match=said) as caught:
        run()
    assert "self._fail(" in caught.value.details


@pytest.mark.parametrize("error", [RunFailed("as it is", "details"), Unwritable("full")])
def test_failures_that_are_not_the_servers_are_passed_on(error):
    method = type("Broken", (Fails,), {"error": error})
    with pytest.raises(type(error)) as caught:
        federation_of(method).step()
    assert caught.value is error


def test_a_server_state_that_is_no_tensor_is_refused():
    class Number(Constant):
        def aggregate(self, server: Any, replies: Any) -> Any:
            return {"v": 1.0}

    with pytest.raises(
        RunFailed, match=r"in round 1, on the server: NotATensor: .* 'v' is a float"
    ):
        federation_of(Number).step()


# Snapshots


class Counts(SaysItsRound):
    """A client's state is the number of its rounds."""

    def init_client(self) -> Any:
        return {"rounds": torch.tensor(0)}

    def init_server(self) -> Any:
        return {"rounds": torch.tensor(0)}

    def client_update(self, client: Any, message: Any) -> Any:
        return {}, {"rounds": client.state["rounds"] + 1}

    def aggregate(self, server: Any, replies: Any) -> Any:
        return {"rounds": server["rounds"] + 1}


def counts(federation: Federation) -> dict[int, int]:
    return {id: int(state["rounds"]) for id, state in federation.states.items()}


def test_a_snapshot_is_not_changed_by_later_rounds_and_restores_all_of_them():
    settings = {"participation": 0.5, "rounds": 9}
    federation = federation_of(Counts, one_of_each_class(4), **settings)
    federation.start()
    early, early_counts = federation.snapshot(), counts(federation)
    middle = played(federation, 2).snapshot()
    middle_counts = counts(federation)
    expected = [federation.step()[0] for _ in range(3)]
    for _ in range(2):
        federation.restore(middle)
        assert (federation.round, int(federation.server["rounds"])) == (2, 2)
        assert counts(federation) == middle_counts
        assert [federation.step()[0] for _ in range(3)] == expected
    federation.restore(early)
    assert (counts(federation), federation.correct["post"]) == (early_counts, {}) == ({}, {})


def test_a_client_that_never_trained_has_its_first_state():
    federation = federation_of(Counts, participation=0.25)
    (trained,) = federation.step()[0]["cohort"]
    assert [int(federation.state(id)["rounds"]) for id in range(4)] == [
        int(id == trained) for id in range(4)
    ]


def test_the_view_of_a_client_is_a_copy():
    federation = federation_of(Counts)
    federation.step()
    federation.client(0).state["rounds"].add_(5)
    assert int(federation.states[0]["rounds"]) == 1
    assert federation.client(0).round == 1


# Copies at hand-over


class EditsInPlace(Constant):
    """Client and server edit whatever they have been given, and return what others hold."""

    def init_server(self) -> Any:
        return {"v": torch.zeros(2)}

    def init_client(self) -> Any:
        return {"kept": torch.zeros(2)}

    def client_update(self, client: Any, message: Any) -> Any:
        shared = message["v"].add_(1.0)
        return {"v": shared}, {"kept": shared}

    def aggregate(self, server: Any, replies: Any) -> Any:
        for reply in replies.values():
            reply["v"].mul_(10.0)
        return {"v": replies[0]["v"]}

    def trained_model(self, client: Any, message: Any, reply: Any) -> Any:
        client.state["kept"].fill_(-1.0)
        reply["v"].fill_(-1.0)
        message["v"].fill_(-1.0)
        return 0

    def personal_model(self, client: Any, message: Any) -> Any:
        client.state["kept"].fill_(-2.0)
        message["v"].fill_(-2.0)
        return 0


def test_what_one_party_edits_no_other_party_sees():
    """Each of two clients is sent 0, replies 1 and keeps 1; the server then makes 10 of the
    replies.
    """
    federation = federation_of(EditsInPlace, one_of_each_class(2))
    federation.start()
    federation.step()
    assert federation.server["v"].tolist() == [10.0, 10.0]
    assert [federation.states[id]["kept"].tolist() for id in (0, 1)] == [[1.0, 1.0]] * 2
    federation.step()
    assert federation.server["v"].tolist() == [110.0, 110.0]
    assert [federation.states[id]["kept"].tolist() for id in (0, 1)] == [[11.0, 11.0]] * 2


# Seconds


class Takes(Constant):
    """Time passes: 1 in a client function, 10 on the server, 100 in a model's evaluation."""

    now = 0.0

    def client_update(self, client: Any, message: Any) -> Any:
        Takes.now += 1.0
        return {}, {}

    def aggregate(self, server: Any, replies: Any) -> Any:
        Takes.now += 10.0
        return server

    def trained_model(self, client: Any, message: Any, reply: Any) -> Any:
        Takes.now += 100.0
        return 0

    def personal_model(self, client: Any, message: Any) -> Any:
        Takes.now += 100.0
        return 0


def test_seconds_go_to_clients_server_and_evaluation(monkeypatch):
    clock = SimpleNamespace(perf_counter=lambda: Takes.now)
    for module in (federation, cohort, client_worker):
        monkeypatch.setattr(module, "time", clock)
    made = federation_of(Takes, one_of_each_class(3), eval_every=2)
    assert made.start()[1] == {"round": 0, "evaluation": 300.0}
    first = {"round": 1, "client": 3.0, "server": 10.0, "evaluation": 0.0, "wall": 13.0}
    assert made.step()[1] == first
    second = {"round": 2, "client": 3.0, "server": 10.0, "evaluation": 600.0, "wall": 613.0}
    assert made.step()[1] == second
