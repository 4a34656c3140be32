"""Options of training that all methods have: momentum, weight decay, a bound of the gradient, rates
that change over the rounds, augmentation.

That no method ignores one of them is a check of the kit, `training-options`.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from pflbench import ops
from pflbench.api import OPTIONS, Hparams, Params
from pflbench.errors import UserError
from pflbench.methods import describe, registry
from pflbench.methods.hyperparameters import complete, stored
from pflbench.optim import collect_states
from pflbench.simulation import messages
from pflbench.simulation.engine import Processes
from pflbench.simulation.federation import Federation
from pflbench.testing import equal, played, toy
from pflbench.testing.compare import difference
from pflbench.testing.problem import TOY_CNN, toy_setup
from tests.factories import quadratic

ALL_ON: dict[str, Any] = {
    **{"local_momentum": 0.9, "keep_optimizer": True, "weight_decay": 0.01, "clip": 1.0},
    **{"schedule": "cosine", "schedule_rounds": 3, "augment": "flip+crop", "crop_padding": 2},
}
COSINE = {"schedule": "cosine", "schedule_rounds": 4}


def trained_by_torch(federation: Federation, id: int, clip: float, **of_sgd: Any) -> Params:
    """theta of a client after an epoch of torch's SGD."""
    client, task = federation.client(id), federation.algorithm.task
    net = task.net(task.initial).train()
    optimizer = torch.optim.SGD(net.parameters(), **of_sgd)
    for x, y in client.batches(4, 3):
        optimizer.zero_grad()
        ops.cross_entropy_loss(net, x, y).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
    return net.parameters_now()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_local_training_is_that_of_torch(momentum: float, decay: float, clip: float):
    hparams = {"local_momentum": momentum, "weight_decay": decay, "clip": clip, "lr": 0.05}
    federation = toy("local", {**hparams, "batch_size": 4, "epochs": 3})
    hp, client = federation.algorithm.hp, federation.client(0)
    mine = ops.local_sgd(ops.cross_entropy_loss, federation.algorithm.task.initial, client, hp)
    theirs = trained_by_torch(federation, 0, clip, lr=0.05, momentum=momentum, weight_decay=decay)
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("keep", [False, True])
def test_two_rounds_with_momentum_by_hand(keep: bool):
    """On (theta - 2)^2 / 2 from theta = 0 with lr 0.1 and momentum 0.5, one step per round.

    v = -2, theta = 0.2; then g = -1.8 and v = -1.8, or -1 - 1.8 = -2.8 where v is kept.
    """
    hparams = {"local_momentum": 0.5, "keep_optimizer": keep, "lr": 0.1, "batch_size": 4}
    federation = quadratic.two_clients("local", hparams)
    theta = quadratic.constant(federation.algorithm.task.initial, 0.0)
    optimizers: Any = {}
    for _ in range(2):
        client = replace(federation.client(1), optimizers=optimizers)
        with collect_states() as kept:
            theta = ops.local_sgd(quadratic.loss, theta, client, federation.algorithm.hp)
        optimizers = dict(kept)
    assert quadratic.only(theta) == pytest.approx(0.48 if keep else 0.38)
    assert set(optimizers) == ({"train"} if keep else set())


def test_weight_decay_leaves_running_statistics_and_frozen_parts_alone():
    federation = toy("fedavg", {"weight_decay": 0.1, "lr": 0.1}, **{**TOY_CNN, "model": "resnet8"})
    task, client, hp = federation.algorithm.task, federation.client(0), federation.algorithm.hp

    def no_gradient(net, x, y):
        return 0.0 * ops.cross_entropy_loss(net.eval(), x, y)

    decayed = ops.local_sgd(no_gradient, task.initial, client, hp, part="body")
    steps = len(list(client.batches(hp.batch_size)))
    for name, p in task.initial.items():
        still = name in task.statistics or name.startswith("head.")
        factor = 1.0 if still else (1 - 0.1 * 0.1) ** steps
        torch.testing.assert_close(decayed[name].float(), factor * p.float())


@pytest.mark.parametrize(
    "hparams, expected",
    [
        ({}, [1, 1, 1, 1, 1, 1]),
        ({"schedule": "step", "schedule_rounds": 2}, [1, 1, 0.1, 0.1, 0.01, 0.01]),
        ({"schedule": "step", "schedule_rounds": 3, "schedule_factor": 0.5}, [1, 1, 1, 0.5]),
        (
            COSINE,
            [
                1,
                0.1 + 0.45 * (1 + math.sqrt(0.5)),
                0.55,
                0.1 + 0.45 * (1 - math.sqrt(0.5)),
                0.1,
                0.1,
            ],
        ),
    ],
)
def test_rates_over_the_rounds(hparams: dict[str, Any], expected: list[float]):
    hp = Hparams(**hparams)
    assert [hp.rate_factor(t) for t in range(len(expected))] == pytest.approx(expected)


def test_a_schedule_does_not_depend_on_the_rounds_of_the_run():
    short, long = (toy("fedavg", COSINE, rounds=rounds) for rounds in (2, 3))
    for federation in (short, long):
        played(federation, 2)
    assert difference(short.server, long.server) is None


RATES = {  # all local rates of a method
    **{"fedavg": ["lr"], "fedrod": ["lr", "head_lr"], "fedpac": ["lr", "head_lr"]},
    **{"fedas": ["lr", "align_lr"], "pfedme": ["lr", "personal_lr"], "feddbe": ["lr", "m_lr"]},
    **{"perfedavg": ["lr", "alpha"], "apfl": ["lr", "alpha_lr"], "scaffold": ["lr"]},
    **{"fedgh": ["lr"], "pfedhn": ["lr"], "pefll": ["lr"]},
}


@pytest.mark.parametrize("name", RATES)
def test_a_round_at_a_part_of_the_rate_is_one_with_smaller_rates(name: str):
    """The second round of a run in which rates fall by a factor, and of one whose rates are lower
    from the second round on.
    """
    rates = dict.fromkeys(RATES[name], 0.05)
    scheduled = toy(
        name, {**rates, "schedule": "step", "schedule_rounds": 1, "schedule_factor": 0.5}
    )
    played(scheduled, 2)
    constant = played(toy(name, rates), 1)
    lower = toy(name, dict.fromkeys(rates, 0.025))
    lower.restore(constant.snapshot())
    lower.step()
    assert difference(scheduled.server, lower.server) is None
    assert difference(dict(scheduled.states), dict(lower.states)) is None
    messages_of = [one.algorithm.download(one.server, (0,))[0] for one in (scheduled, lower)]
    if name != "pefll":  # its personal model needs another message
        models = [
            one.algorithm.personal_model(replace(one.client(0), round=1), message)
            for one, message in zip((scheduled, lower), messages_of, strict=True)
        ]
        assert difference(*models) is None


def test_fine_tuning_has_the_rate_of_its_round():
    rates = {"ft_lr": 0.1, "ft_epochs": 1}
    step = {"schedule": "step", "schedule_rounds": 1, "schedule_factor": 0.5}
    scheduled, lower = (toy("fedavgft", hp) for hp in ({**rates, **step}, {**rates, "ft_lr": 0.05}))
    message = {"theta": scheduled.algorithm.task.initial}
    client = replace(scheduled.client(0), round=1)
    first, second = (one.algorithm.personal_model(client, message) for one in (scheduled, lower))
    assert equal(first, second)


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedrod", "fedrep"])
def test_a_run_that_goes_on_from_a_snapshot_equals_one_that_never_stopped(name: str):
    whole, resumed = (toy(name, ALL_ON, **{**TOY_CNN, "clients": 2}) for _ in range(2))
    whole.start()
    whole.step()
    snapshot = whole.snapshot()
    read = {id: messages.unpacked(messages.packed(s)) for id, s in snapshot["clients"].items()}
    resumed.restore({**snapshot, "clients": read})
    assert whole.step()[0] == resumed.step()[0]
    assert difference(whole.server, resumed.server) is None
    assert difference(dict(whole.states), dict(resumed.states)) is None
    assert all(set(kept) == {"v"} for kept in whole.client(0).optimizers.values())


def test_workers_give_the_same_bits():
    setup = toy_setup("fedavg", ALL_ON, **TOY_CNN)
    serial = toy("fedavg", ALL_ON, **TOY_CNN)
    engine = Processes(setup, 2)
    try:
        parallel = Federation(setup, engine)
        assert [serial.step()[0] for _ in range(2)] == [parallel.step()[0] for _ in range(2)]
        assert difference(serial.server, parallel.server) is None
        assert difference(dict(serial.states), dict(parallel.states)) is None
    finally:
        engine.close()


@pytest.mark.parametrize(
    "method, hparams, message",
    [
        ("fedavg", {"schedule": "cosine"}, "schedule = cosine: set schedule_rounds too"),
        ("fedavg", {"schedule": "step"}, "schedule = step: set schedule_rounds too"),
        ("fedavg", {"schedule_rounds": 5}, "schedule_rounds = 5: does nothing with schedule ="),
        ("fedavg", {"schedule_factor": 0.5}, "schedule_factor = 0.5: does nothing with schedule ="),
        ("fedavg", {**COSINE, "schedule_factor": 0}, "schedule_factor = 0.0: must be above 0"),
        ("fedavg", {"crop_padding": 2}, "crop_padding = 2: does nothing with augment = none"),
        ("fedavg", {"augment": "flip", "crop_padding": 2}, "does nothing with augment = flip"),
        ("fedavg", {"local_momentum": 0.9, "optimizer": "adam"}, "is of optimizer = sgd, not adam"),
        ("fedcosr", {"local_momentum": 0.9}, "is of optimizer = sgd, not adam"),
        ("fedavg", {"local_momentum": 1}, "local_momentum = 1.0: must be below 1"),
        ("fedavg", {"momentum": 0.9}, "did you mean 'local_momentum'?"),
        (
            "apfl",
            {"clip": 1},
            "clip = 1.0: must be 0.0 in APFL (its gradient steps are written out)",
        ),
        ("pfedme", {"weight_decay": 1e-3}, "must be 0.0 in pFedMe (it has inner_weight_decay)"),
        ("perfedavg", {"local_momentum": 0.9}, "must be 0.0 in PerFedAvg"),
        ("scaffold", {"clip": 1}, "must be 0.0 in SCAFFOLD (c_i is computed from plain gradient"),
        ("fedrcl", {**COSINE, "lr_decay": 0.998}, "FedRCL's rate has lr_decay already; use one"),
        (
            "feddbl",
            {"weight_decay": 1e-3},
            "FedDBL trains no network unless extractor = fed_warmup",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(method: str, hparams, message: str):
    with pytest.raises(UserError) as told:
        toy(method, hparams)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_feddbl_takes_options_where_it_trains():
    on, off = (
        played(toy("feddbl", {"extractor": "fed_warmup", "clip": clip}), 1) for clip in (0.01, 0.0)
    )
    assert not equal(on.server["theta"], off.server["theta"])


def test_options_that_are_on_are_stored_with_what_belongs_to_them():
    hp = complete(Hparams, {"schedule": "step", "schedule_rounds": "5"}, "digits", "FedAvg")
    kept = {name: value for name, value in stored(hp).items() if name in OPTIONS}
    assert kept == {"schedule": "step", "schedule_rounds": 5, "schedule_factor": 0.1}
    assert not stored(Hparams()).keys() & set(OPTIONS)


def test_the_server_of_pefll_decays_by_its_own_hyperparameters_alone():
    federations = [toy("pefll", {"epochs": 0, "weight_decay": decay}) for decay in (0.0, 0.1)]
    first, second = (played(federation, 2).server["H"] for federation in federations)
    assert equal(first, second)


def test_a_method_shows_the_options_that_it_has_by_name_and_those_it_refuses_with_the_reason():
    fedavg, scaffold = (describe.details(registry.load(name)) for name in ("fedavg", "scaffold"))
    assert tuple(fedavg["options"]) == OPTIONS
    assert not {found["name"] for found in fedavg["hyperparameters"]} & set(OPTIONS)
    refused = {f["name"]: f["meaning"] for f in scaffold["hyperparameters"] if f["name"] in OPTIONS}
    assert set(refused.values()) == {"c_i is computed from plain gradient steps"}
    assert set(scaffold["options"]) == set(OPTIONS) - refused.keys()
