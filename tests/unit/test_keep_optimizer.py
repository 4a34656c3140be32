"""`keep_optimizer`: a client's local optimizer goes on in its next round where it stopped."""

from typing import Any

import pytest
import torch

from pflbench import ops
from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.optim import collect_states
from pflbench.simulation import messages
from pflbench.simulation.client_worker import OPTIMIZERS
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY, equal, played, toy
from pflbench.testing.compare import difference
from pflbench.testing.problem import TOY_CNN

KEEP: dict[str, Any] = {"optimizer": "adam", "keep_optimizer": True}
OWN_STEPS = ("apfl", "pfedme", "perfedavg", "scaffold")  # theirs are plain gradient steps
B1, B2, EPS = 0.9, 0.999, 1e-8


def adam_by_hand(federation: Federation, id: int, rounds: int, keep: bool, lr: float):
    """theta of a client of Local after some rounds of Adam, its formulas written out."""
    task = federation.algorithm.task
    theta = task.initial
    for federation.round in range(rounds):
        if federation.round == 0 or not keep:
            m = {name: torch.zeros_like(p) for name, p in theta.items()}
            s = {name: torch.zeros_like(p) for name, p in theta.items()}
            t = 0
        for x, y in federation.client(id).batches(16):
            net = task.net(theta)
            ops.cross_entropy_loss(net, x, y).backward()
            g = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
            t += 1
            m = {name: B1 * m[name] + (1 - B1) * g[name] for name in g}
            s = {name: B2 * s[name] + (1 - B2) * g[name] ** 2 for name in g}
            for name in g:
                step = (m[name] / (1 - B1**t)) / ((s[name] / (1 - B2**t)).sqrt() + EPS)
                theta = {**theta, name: theta[name] - lr * step}
    return theta


@pytest.mark.parametrize("keep", [True, False])
def test_later_rounds_are_adam_continued_if_kept_and_adam_anew_if_not(keep: bool):
    hp = {"optimizer": "adam", "keep_optimizer": keep, "lr": 0.01}
    local = played(toy("local", hp), 3)
    continued, anew = (adam_by_hand(toy("local", hp), 1, 3, kept, 0.01) for kept in (True, False))
    expected, other = (continued, anew) if keep else (anew, continued)
    for name, p in local.states[1]["theta"].items():
        torch.testing.assert_close(p, expected[name], rtol=1e-4, atol=1e-6)
    weight = "body.fc1.weight"
    assert (local.states[1]["theta"][weight] - other[weight]).abs().max() > 1e-3


def test_off_by_default_and_nothing_is_stored_then():
    federation = played(toy("local", {"optimizer": "adam"}), 1)
    assert federation.algorithm.hp.keep_optimizer is False
    assert all(state.keys() == {"theta"} for state in federation.states.values())


def test_sgd_has_no_state_to_keep():
    kept, plain = (
        played(toy("local", {"keep_optimizer": keep, "lr": 0.1}), 2) for keep in (True, False)
    )
    assert difference(dict(kept.states), dict(plain.states)) is None


def test_the_kept_state_is_the_clients_own_and_the_method_does_not_see_it():
    federation = played(toy("fedavg", KEEP, clients=6, participation=0.34), 1)
    first = set(federation.states)
    assert len(first) == 2
    for id in range(6):
        client = federation.client(id)
        assert client.state == {}
        assert set(client.optimizers) == ({"train"} if id in first else set())
    for id in first:
        kept = federation.client(id).optimizers["train"]
        steps = len(list(federation.client(id).batches(16)))
        assert set(kept) == {"m", "s", "t"}
        assert kept["m"].keys() == federation.algorithm.task.initial.keys()
        assert {int(t) for t in kept["t"].values()} == {steps}


def test_a_client_function_that_does_not_train_keeps_the_state_for_the_next_one():
    federation = played(toy("fedcosr", {**KEEP, "announce_first": True}), 2)
    steps = len(list(federation.client(0).batches(16)))
    kept = federation.client(0).optimizers["train"]
    assert {int(t) for t in kept["t"].values()} == {2 * steps}


def test_kept_states_are_never_sent():
    kept, plain = (toy("fedavg", {**KEEP, "keep_optimizer": keep}) for keep in (True, False))
    for _ in range(2):
        assert kept.step()[0]["bytes"] == plain.step()[0]["bytes"]


ACCEPTING = [(name, TOY) for name in registry.names() if name not in OWN_STEPS]


@pytest.mark.parametrize("name, settings", [*ACCEPTING, ("fedrep", TOY_CNN)])
def test_a_run_that_goes_on_from_a_snapshot_equals_one_that_never_stopped(name, settings):
    whole, resumed = (toy(name, KEEP, **{**settings, "clients": 2}) for _ in range(2))
    whole.start()
    whole.step()
    snapshot = whole.snapshot()
    read = {id: messages.unpacked(messages.packed(s)) for id, s in snapshot["clients"].items()}
    resumed.restore({**snapshot, "clients": read})  # in row-major layout, as from a file
    assert whole.step()[0] == resumed.step()[0]
    assert difference(whole.server, resumed.server) is None
    assert difference(dict(whole.states), dict(resumed.states)) is None


@pytest.mark.parametrize("name", OWN_STEPS)
@pytest.mark.parametrize("hparams", [{"optimizer": "adam"}, {"keep_optimizer": True}], ids=str)
def test_methods_of_plain_gradient_steps_refuse_another_optimizer(name: str, hparams):
    (only,) = hparams
    with pytest.raises(UserError, match=f"hyperparameter {only} = .*: must be (sgd|False) in"):
        toy(name, hparams)


@pytest.mark.parametrize("shared", [True, False])
def test_the_branches_of_ditto_keep_optimizers_of_their_own(shared: bool):
    ditto = played(toy("ditto", {**KEEP, "lr": 0.01, "shared_batches": shared}))
    fedavg = played(toy("fedavg", {**KEEP, "lr": 0.01}))
    assert equal(ditto.server["theta"], fedavg.server["theta"])
    assert ditto.client(0).optimizers.keys() == {"train", "personal"}


def test_body_and_head_keep_optimizers_of_their_own():
    optimizers = played(toy("fedrep", KEEP), 1).client(0).optimizers
    parts = {
        name: {key.partition(".")[0] for key in kept["m"]} for name, kept in optimizers.items()
    }
    assert parts == {"head": {"head"}, "base": {"body"}}


def test_training_in_an_evaluation_does_not_advance_what_is_kept():
    often, rarely = (
        played(toy("fedas", {**KEEP, "epochs": 1}, eval_every=every)) for every in (1, 3)
    )
    assert OPTIMIZERS in often.states[0]
    assert difference(dict(often.states), dict(rarely.states)) is None


def test_two_trainings_under_one_name_are_refused():
    federation = toy("fedavg", KEEP)
    theta, client, hp = federation.server["theta"], federation.client(0), federation.algorithm.hp
    with collect_states() as kept:
        ops.local_sgd(ops.cross_entropy_loss, theta, client, hp)
        ops.local_sgd(ops.cross_entropy_loss, theta, client, hp, kept_as="again")
        with pytest.raises(ValueError, match="two local trainings keep their optimizer as 'train'"):
            ops.local_sgd(ops.cross_entropy_loss, theta, client, hp)
    assert kept.keys() == {"train", "again"}
