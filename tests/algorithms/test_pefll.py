"""PeFLL: the identities of its split chain rule, of its networks and of its evaluation."""

import math
from typing import Any

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import conv2d, cross_entropy, linear, max_pool2d, one_hot, pad, relu

from pflbench import models
from pflbench.api import Task
from pflbench.data.partition import Partition
from pflbench.methods import costs
from pflbench.methods.registry import hparams_type, load
from pflbench.simulation import messages as wire
from pflbench.simulation.cohort import Cohort
from pflbench.testing import played, toy

PLAIN = {"lambda_h": 0.0, "lambda_v": 0.0, "clip": 0.0, "server_clip": 0.0}


def method_of(federation) -> Any:
    """The method, with the functions of its own."""
    return federation.algorithm


def layer(params, name):
    return params[f"{name}.weight"], params[f"{name}.bias"]


def plain_e(E, x, y, classes):
    """The embedding network as published: label planes next to the image's channels."""
    sides = [max(0, 32 - side) for side in x.shape[2:]]
    x = pad(x, (sides[1] // 2, sides[1] - sides[1] // 2, sides[0] // 2, sides[0] - sides[0] // 2))
    planes = one_hot(y, classes).float()[:, :, None, None].expand(-1, -1, *x.shape[2:])
    z = max_pool2d(relu(conv2d(torch.cat([x, planes], 1), *layer(E, "conv1"))), 2)
    z = max_pool2d(relu(conv2d(z, *layer(E, "conv2"))), 2).flatten(1)
    return linear(
        relu(linear(relu(linear(z, *layer(E, "fc1"))), *layer(E, "fc2"))), *layer(E, "fc3")
    )


def plain_h(H, v, initial):
    """The hypernetwork for one standardised descriptor v (l,)."""
    a = linear(v, *layer(H, "hidden.0"))
    for place in (2, 4, 6):  # a ReLU lies between two layers
        a = linear(relu(a), *layer(H, f"hidden.{place}"))
    theta = {}
    for place, (name, p) in enumerate(initial.items()):
        theta[name] = linear(a, *layer(H, f"outputs.{place}")).reshape(p.shape)
    return theta


def joint(federation, data):
    """E and H as leaves, and theta_i of every client as one differentiable function of them; data(client) -> (x, y)."""
    task, standardise = federation.algorithm.task, federation.algorithm.hp.standardise
    E, H = (
        {name: p.clone().requires_grad_() for name, p in federation.server[net].items()}
        for net in ("E", "H")
    )
    clients = [federation.client(i) for i in range(federation.run.clients)]
    samples = [data(client) for client in clients]
    v = [plain_e(E, x, y, task.classes).mean(0) for x, y in samples]
    given = [
        (u.mean(), u.std()) if standardise == "own" else (v[0].detach().mean(), v[0].detach().std())
        for u in v
    ]
    thetas = [plain_h(H, (u - mu) / sd, task.initial) for u, (mu, sd) in zip(v, given, strict=True)]
    return {**E, **H}, clients, thetas


def assert_gradient_is(federation, expected, rtol):
    """Adam's first moment after its first step is (1 - b1) g."""
    for name, g in expected.items():
        found = federation.server["m"][name] / (1 - 0.9)
        assert (found - g).abs().max() <= 1e-6
        assert (found - g).norm() <= rtol * g.norm(), name
        assert g.norm() > 0


def asked(federation):
    """The messages of an evaluation."""
    ids = tuple(range(federation.run.clients))
    cohort = Cohort(
        federation.algorithm, federation.engine, federation.states, ids, federation.round
    )
    return federation.algorithm.evaluation_messages(federation.server, cohort)


def same(first, second):
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    return torch.equal(first, second)


def bare(clients=20, shape=(3, 32, 32), classes=10, **hparams):
    """The method on the CNN, without any server state."""
    cls = load("pefll")
    skeleton, initial, width = models.build("cnn", shape, classes)
    return cls(
        hparams_type(cls)(**hparams),
        Task(skeleton, initial, classes, width, shape, clients, "none", 0),
    )


def test_zero_inner_steps_leave_E_and_H_unchanged():
    federation = toy("pefll", {"epochs": 0, "lambda_h": 0.0, "lambda_v": 0.0})
    before = wire.sent(federation.server)
    federation.step()
    server = federation.server
    assert all(not part.any() for kind in ("m", "s") for part in server[kind].values())
    assert all(t == 1 for t in server["t"].values())
    assert same(federation.server["E"], before["E"]) and same(federation.server["H"], before["H"])


@pytest.mark.parametrize("standardise", ["first", "own"])
def test_split_gradients_equal_joint_autograd(standardise):
    settings = {
        **PLAIN,
        "standardise": standardise,
        "lr": 0.1,
        "batch_size": 6,  # less than a client has
        "clients_per_step": 8,
    }
    federation = toy("pefll", settings, clients=8)
    w, clients, thetas = joint(federation, method_of(federation).descriptor_batch)
    total = torch.zeros(())
    for client, theta in zip(clients, thetas, strict=True):
        start = {name: p.detach() for name, p in theta.items()}
        D = federation.algorithm.client_update(client, {"theta": start})[0]["D"]
        total = total + sum((D[name] * p).sum() for name, p in theta.items()) / len(clients)
    expected = dict(zip(w, torch.autograd.grad(total, list(w.values())), strict=True))
    federation.step()
    assert_gradient_is(federation, expected, rtol=1e-4)


def test_one_full_batch_step_gives_eta_times_the_gradient_of_the_composed_loss():
    federation = toy("pefll", {**PLAIN, "lr": 0.1, "batch_size": 1000})
    w, clients, thetas = joint(federation, lambda client: next(client.samples()))
    net, losses = federation.algorithm.net(federation.algorithm.task.initial), []
    for client, theta in zip(clients, thetas, strict=True):
        x, y = next(client.samples())
        losses.append(cross_entropy(functional_call(net, theta, (x,)), y))
    loss = torch.stack(losses).mean()
    expected = dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))
    federation.step()
    assert_gradient_is(federation, {name: 0.1 * g for name, g in expected.items()}, rtol=1e-4)


def test_equal_data_give_identical_theta_and_order_changes_v_by_rounding_only():
    split = toy("pefll").partition
    rows, others = split.train[0], split.train[1]
    split = Partition((rows, others, rows, rows[::-1].copy()), split.test)
    federation = toy("pefll", split=split)
    federation.step()
    messages = asked(federation)
    assert same(messages[0], messages[2])
    assert not same(messages[0], messages[1])
    describe = method_of(federation).describe_all
    v, backwards = (
        describe(federation.client(i), {"E": federation.server["E"]})[0]["v"] for i in (0, 3)
    )
    torch.testing.assert_close(v, backwards, rtol=1e-5, atol=1e-6)


def test_output_layers_are_as_many_as_theta_and_the_generated_dict_loads_strictly():
    federation = toy("pefll")
    initial, H = federation.algorithm.task.initial, federation.server["H"]
    outputs = [H[f"outputs.{place}.bias"].numel() for place in range(len(initial))]
    assert outputs == [p.numel() for p in initial.values()]
    net = federation.algorithm.net(initial)
    for message in asked(federation).values():
        assert not any(net.load_state_dict(message["theta"], strict=True))


def test_evaluation_twice_is_equal_and_leaves_every_state_untouched():
    federation = toy("pefll")
    federation.start()
    assert "mu0" not in federation.server
    for _ in range(2):
        federation.step()
        server, states = wire.sent(federation.server), wire.sent(federation.states)
        assert federation.evaluation() == federation.evaluation()
        assert same(federation.server, server) and same(federation.states, states)
        assert {"E", "H", "mu0", "sd0"} <= server.keys()


def test_evaluated_theta_is_h_of_the_descriptor_of_all_training_data():
    federation = toy("pefll", {"batch_size": 4, "mask_absent": False})
    federation.step()
    server, task = federation.server, federation.algorithm.task
    for id, message in asked(federation).items():
        client = federation.client(id)
        v = plain_e(server["E"], *next(client.samples()), task.classes).mean(0)
        expected = plain_h(server["H"], (v - server["mu0"]) / server["sd0"], task.initial)
        assert same(federation.algorithm.personal_model(client, message), message["theta"])
        for name, p in message["theta"].items():
            torch.testing.assert_close(p, expected[name], rtol=1e-4, atol=1e-5)


def test_first_descriptor_of_the_lowest_id_standardises_for_good():
    federation = toy("pefll", participation=0.5)
    first = min(federation.select())
    v = method_of(federation).describe(federation.client(first), {"E": federation.server["E"]})[0][
        "v"
    ]
    federation.step()
    kept = {name: federation.server[name] for name in ("mu0", "sd0")}
    torch.testing.assert_close(kept["mu0"], v.mean().reshape(1))
    torch.testing.assert_close(kept["sd0"], v.std().reshape(1))
    federation.step()
    assert same({name: federation.server[name] for name in kept}, kept)


def test_adam_with_l2_and_joint_clip_is_pytorchs():
    hp = {"lambda_h": 0.01, "lambda_v": 0.03, "server_clip": 5.0, "server_lr": 0.01}
    federation = toy("pefll", hp)
    server = federation.server
    w = {name: p.clone().requires_grad_() for net in ("E", "H") for name, p in server[net].items()}
    optimizer, draws = torch.optim.Adam(w.values(), lr=0.01), torch.Generator().manual_seed(0)
    for size in (1.0, 1e-4, 0.1):  # clipped, not clipped, clipped
        g = {name: size * torch.randn(p.shape, generator=draws) for name, p in w.items()}
        dE = {name: g[name] for name in server["E"]}
        dH = {name: g[name] for name in server["H"]}
        server = method_of(federation).adam_step(server, dE, dH)
        for name, p in w.items():
            p.grad = g[name] + 2 * (0.03 if name in server["E"] else 0.01) * p.detach()
        assert (torch.nn.utils.clip_grad_norm_(w.values(), 5.0) > 5.0) == (size > 1e-3)
        optimizer.step()
    for net in ("E", "H"):
        for name, p in server[net].items():
            torch.testing.assert_close(p, w[name].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exchanges", [1, 3])
def test_an_exchange_sends_E_theta_and_l_both_ways_never_H_and_leaves_no_private_state(exchanges):
    federation = toy("pefll", {"exchanges": exchanges, "clients_per_step": 3})
    record, _ = federation.step()
    theta = sum(p.numel() for p in federation.algorithm.task.initial.values())
    size = federation.algorithm.sizes()
    assert size["E"] == sum(p.numel() for p in federation.server["E"].values())
    numbers = {
        "down": {"E": size["E"], "theta": theta, "dv": size["l"]},
        "up": {"v": size["l"], "D": theta, "dE": size["E"]},
    }
    stated = federation.algorithm.costs()
    for formula, (way, parts) in zip(stated, numbers.items(), strict=True):
        per_client = 4 * exchanges  # bytes of a number, times
        assert record["bytes"][way] == {part: 4 * per_client * n for part, n in parts.items()}
        assert costs.evaluate(formula, {**size, "theta": theta}) == exchanges * sum(parts.values())
    assert federation.states == {id: {} for id in range(4)}


class Spy:
    """A cohort that remembers the calls of `describe`: the clients and the E that they got."""

    def __init__(self, cohort):
        self.cohort = cohort
        self.ids = cohort.ids
        self.round = cohort.round
        self.steps = []

    def call(self, function, messages):
        if function.__name__ == "describe":
            sent = [message["E"] for message in messages.values()]
            assert all(same(E, sent[0]) for E in sent)
            self.steps.append((set(messages), wire.sent(sent[0])))
        return self.cohort.call(function, messages)


def spied(federation, ids):
    """A round with these clients: the new server state and the steps."""
    method = federation.algorithm
    spy = Spy(Cohort(method, federation.engine, federation.states, ids, federation.round))
    return method.round(federation.server, spy), spy.steps


def test_by_default_a_server_step_takes_five_clients_as_the_authors_do():
    hp = bare().hp
    assert (hp.clients_per_step, hp.exchanges, hp.mask_absent) == (5, 1, True)
    federation = toy("pefll", clients=12)
    _, steps = spied(federation, tuple(range(12)))
    assert [len(ids) for ids, _ in steps] == [4, 4, 4]


@pytest.mark.parametrize("exchanges", [1, 2])
def test_every_client_of_the_cohort_is_in_one_server_step_per_exchange(exchanges):
    federation = toy("pefll", {"clients_per_step": 2, "exchanges": exchanges}, clients=7)
    cohort = (0, 2, 3, 4, 6)
    server, steps = spied(federation, cohort)
    groups = [ids for ids, _ in steps]
    assert len(groups) == 3 * exchanges
    assert all(t == 3 * exchanges for t in server["t"].values())
    for first in range(0, len(groups), 3):
        assert all(0 < len(ids) <= 2 for ids in groups[first : first + 3])
        assert sorted(id for ids in groups[first : first + 3] for id in ids) == list(cohort)
    assert groups[:3] != groups[3:]
    federation.round = 1
    assert groups[:3] != [ids for ids, _ in spied(federation, cohort)[1]][:3]


def test_every_server_step_starts_from_the_networks_of_the_one_before():
    federation = toy("pefll", {"clients_per_step": 2})
    method, engine = federation.algorithm, federation.engine
    server, steps = spied(federation, (0, 1, 2, 3))
    assert same(steps[0][1], federation.server["E"])
    expected = federation.server
    for ids, E in steps:
        assert same(E, expected["E"])
        group = tuple(sorted(ids))
        cohort = Cohort(method, engine, federation.states, group, federation.round)
        expected = method.server_step(expected, cohort, group)
    assert same(server, expected)


@pytest.mark.parametrize(
    "clients, shape, classes, length, E, millions",
    [
        (20, (3, 32, 32), 10, 6, 124_842, 26.3),
        (20, (1, 28, 28), 47, 6, None, 19.2),
        (100, (3, 32, 32), 100, 26, None, 27.5),
    ],
)
def test_networks_have_the_expected_sizes(clients, shape, classes, length, E, millions):
    method = bare(clients, shape, classes)
    assert method.sizes()["l"] == length
    assert E is None or method.sizes()["E"] == E
    H = sum(p.numel() for p in method.h.parameters())
    assert pytest.approx(millions * 1e6, rel=5e-3) == H


@pytest.mark.parametrize("side", [27, 28, 32, 37])
def test_label_planes_are_the_sums_of_their_kernels(side):
    method = bare(shape=(3, side, side))
    draws = torch.Generator().manual_seed(side)
    E = {}
    for name, p in method.e.named_parameters():
        scale = math.sqrt(p[0].numel())
        E[name] = torch.randn(p.shape, generator=draws) / scale
    x, y = torch.randn(12, 3, side, side, generator=draws), torch.arange(12) % 10
    torch.testing.assert_close(method.embedded(E, x, y), plain_e(E, x, y, 10), rtol=1e-4, atol=1e-5)


def test_label_embedding_is_linear_in_the_class_shares():
    federation = toy("pefll", {"embed": "labels"})
    federation.step()
    W, b = layer(federation.server["E"], "fc")
    assert federation.algorithm.sizes()["E"] == W.numel() + b.numel() == 2 * (4 + 1)
    client = federation.client(0)
    v = method_of(federation).describe_all(client, {"E": federation.server["E"]})[0]["v"]
    torch.testing.assert_close(v, W @ (client.counts / client.n) + b)


def test_half_the_output_scale_is_half_of_theta_exactly():
    whole, half = (asked(toy("pefll", {"output_scale": scale})) for scale in (1.0, 0.5))
    for id, message in whole.items():
        assert same({name: 0.5 * p for name, p in message["theta"].items()}, half[id]["theta"])


def test_a_clipped_step_is_as_long_as_rate_times_bound():
    federation = toy("pefll", {"clip": 0.01, "lr": 0.1, "batch_size": 1000})
    theta = federation.algorithm.task.initial
    D = federation.algorithm.client_update(federation.client(0), {"theta": theta})[0]["D"]
    assert float(torch.cat([d.flatten() for d in D.values()]).norm()) == pytest.approx(
        0.1 * 0.01, rel=1e-3
    )


def test_lambda_theta_adds_its_gradient_to_the_step():
    D = {}
    for weight in (0.0, 0.05):
        federation = toy(
            "pefll", {"lambda_theta": weight, "lr": 0.1, "clip": 0.0, "batch_size": 1000}
        )
        theta = federation.algorithm.task.initial
        D[weight] = federation.algorithm.client_update(federation.client(0), {"theta": theta})[0][
            "D"
        ]
    for name, p in theta.items():
        torch.testing.assert_close(
            D[0.05][name] - D[0.0][name], 0.1 * 2 * 0.05 * p, rtol=1e-3, atol=1e-6
        )


def test_masked_classes_are_never_predicted_at_pre_and_post():
    split = toy("pefll").partition
    labels = toy("pefll").client(0).y
    split = Partition((split.train[0][(labels == labels[0]).numpy()], *split.train[1:]), split.test)
    federation = toy("pefll", split=split)
    client, method = federation.client(0), federation.algorithm
    x, y = next(federation.client(1).samples())
    message = asked(federation)[0]
    reply = method.client_update(client, message)[0]
    for model in (
        method.personal_model(client, message),
        method.trained_model(client, message, reply),
    ):
        assert (method.predict(model, x).argmax(1) == labels[0]).all()
    assert (y != labels[0]).any()
    record = federation.step()[0]
    assert all(score is None or math.isfinite(score) for score in record["accuracy"]["pre"])


def test_trained_model_is_the_end_of_local_training():
    federation = toy("pefll", {"lr": 0.1, "mask_absent": False})
    message, client = asked(federation)[0], federation.client(0)
    reply = federation.algorithm.client_update(client, message)[0]
    net = federation.algorithm.net(method_of(federation).trained_model(client, message, reply))
    x, y = next(client.samples())
    before, after = (
        cross_entropy(n(x), y) for n in (federation.algorithm.net(message["theta"]), net)
    )
    assert after < before
    for name, p in message["theta"].items():
        assert (reply["D"][name] != 0).any(), name
        torch.testing.assert_close(net.state_dict()[name], p - reply["D"][name])


@pytest.mark.parametrize("standardise", ["first", "own"])
def test_one_entry_descriptors_and_clients_without_training_data_stay_finite(standardise):
    split = toy("pefll", clients=3).partition
    split = Partition((split.train[0], split.train[1][:1], split.train[2][:0]), split.test)
    federation = toy("pefll", {"standardise": standardise}, split=split)
    federation.start()
    federation.step()
    assert federation.algorithm.sizes()["l"] == 1
    assert wire.finite(federation.server) and wire.finite(asked(federation))


def test_images_above_32_and_the_cnn_run():
    federation = toy(
        "pefll",
        dataset="synthetic:classes=4,side=40,samples=80",
        model="cnn",
        clients=2,
        min_samples=4,
    )
    federation.step()
    assert wire.finite(federation.server)


def test_six_rounds_on_the_digits_lead_well_above_the_majority_class():
    federation = toy(
        "pefll",
        dataset="digits",
        partition="path:2",
        clients=20,
        width=32,
        rounds=6,
        eval_every=6,
    )
    labels, split = federation.setup.data.y, federation.partition
    majority = []
    for train, test in zip(split.train, split.test, strict=True):
        most_frequent = torch.bincount(torch.as_tensor(labels[train])).argmax()
        majority.append(float((torch.as_tensor(labels[test]) == most_frequent).float().mean()))
    before = mean_accuracy(federation)
    played(federation, 6)
    after = mean_accuracy(federation)
    assert after > before + 0.2
    assert after > sum(majority) / len(majority) + 0.3


def mean_accuracy(federation):
    accuracies = federation.evaluation()["accuracy"]["pre"]
    return sum(accuracies) / len(accuracies)
