"""FedDBL: the identities of one-shot ridge regressions on frozen features."""

from typing import Any

import numpy as np
import pytest
import torch

from pflbench import testing
from pflbench.data.partition import Partition
from pflbench.methods import costs, registry
from pflbench.testing import TOY, equal, played, split_by_class, toy
from pflbench.testing.problem import TOY_CNN


def data_of(federation, *ids):
    """A (n, F) and one-hot Y (n, C) of these clients together, in float64."""
    net = federation.algorithm.net(federation.algorithm.task.initial)
    A, Y = [], []
    for i in ids:  # client by client, as in the method: rounding depends on the batch
        x, y = next(federation.client(i).samples())
        A.append(federation.algorithm.features(net, x).detach().double())
        Y.append(torch.eye(4, dtype=torch.float64)[y])
    return torch.cat(A), torch.cat(Y)


def ridge(A, Y, lam):
    """Through the normal equations' augmented least-squares problem: no Gram matrix is formed."""
    F = A.shape[1]
    tall = torch.cat([A, lam**0.5 * torch.eye(F, dtype=A.dtype)])
    return torch.linalg.lstsq(
        tall, torch.cat([Y, torch.zeros(F, Y.shape[1], dtype=A.dtype)]), driver="gelsd"
    ).solution


def models(federation, id=0):
    """The client's models by series, from the newest download."""
    algorithm, client = federation.algorithm, federation.client(id)
    message = algorithm.download(federation.server, (id,))[id]
    return {
        "pre": algorithm.personal_model(client, message),
        **algorithm.extra_models(client, message),
    }


def weights(federation, series, id=0):
    return models(federation, id)[series]["W"]


def test_one_client_average_own_and_pooled_ridge_are_one():
    federation = played(toy("feddbl", {"lam": 0.1}, clients=1), 1)
    W = federation.server["W"]
    assert torch.equal(W, federation.states[0]["own"])
    torch.testing.assert_close(
        W.double(), ridge(*data_of(federation, 0), 0.1), rtol=1e-5, atol=1e-6
    )


def test_identical_clients_average_is_own_and_the_pooled_ridge_of_as_much_more_lambda():
    one = toy("feddbl", clients=1).partition
    federation = played(toy("feddbl", {"lam": 0.1}, Partition(one.train * 3, one.test * 3)), 1)
    W = federation.server["W"]
    torch.testing.assert_close(W, federation.states[0]["own"])
    torch.testing.assert_close(
        W.double(), ridge(*data_of(federation, 0, 1, 2), 0.3), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "settings", [{"partition": "dir:0.1", "clients": 5, "min_samples": 2}, {"partition": "iid"}]
)
def test_exact_is_the_centralised_ridge_for_any_split(settings):
    federation = played(toy("feddbl", {"exact": True}, **settings), 1)
    expected = ridge(*data_of(federation, *range(federation.run.clients)), 0.001)
    torch.testing.assert_close(federation.server["W"], expected, rtol=1e-8, atol=1e-8)
    average = played(toy("feddbl", **settings), 1).server["W"]
    assert not torch.allclose(average.double(), expected, atol=1e-3)


def test_column_of_an_absent_class_is_exactly_0():
    split = split_by_class(TOY["dataset"], [[0, 1] * 8, [1, 2, 3] * 5], [[0], [1]])
    federation = played(toy("feddbl", split=split), 1)
    absent = [federation.client(i).counts == 0 for i in range(2)]
    for i in range(2):
        own = federation.states[i]["own"]
        assert torch.all(own[:, absent[i]] == 0)
        assert torch.all((own != 0).any(0) == ~absent[i])


def test_large_lambda_times_own_weights_is_a_transposed_y():
    federation = played(toy("feddbl", {"lam": 1e9}), 1)
    A, Y = data_of(federation, 0)
    torch.testing.assert_close(
        1e9 * federation.states[0]["own"].double(), A.T @ Y, rtol=1e-5, atol=1e-4
    )


def test_large_lambda_p_gives_the_average_and_a_small_one_does_not():
    far, near = played(toy("feddbl", {"lambda_p": 1e9}), 1), played(toy("feddbl"), 1)
    torch.testing.assert_close(weights(far, "personalized"), far.server["W"], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(weights(near, "personalized"), near.server["W"], atol=1e-2)


def test_zero_average_and_lambda_p_equal_to_lambda_gives_own_weights():
    federation = toy("feddbl", {"lam": 0.1})
    A, _ = data_of(federation, 0)
    unit = float(A.square().sum() / A.shape[1])  # tr(A^T A) / F
    federation = played(toy("feddbl", {"lam": 0.1, "lambda_p": 0.1 / unit}), 1)
    zero = {"W": torch.zeros_like(federation.server["W"])}
    pulled = federation.algorithm.pulled(federation.client(0), zero)
    torch.testing.assert_close(pulled, federation.states[0]["own"], rtol=1e-4, atol=1e-6)


def test_personal_weights_have_gradient_0():
    federation = played(toy("feddbl", {"lambda_p": 0.3}), 1)
    for i in range(4):
        A, Y = data_of(federation, i)
        W, W_G = weights(federation, "personalized", i).double(), federation.server["W"].double()
        lam = 0.3 * A.square().sum() / A.shape[1]
        gradient = A.T @ (A @ W - Y) + lam * (W - W_G)
        assert gradient.abs().max() < 1e-5 * (A.T @ Y).abs().max()


def test_features_that_all_vanish_leave_the_average_as_it_is():
    federation = played(toy("feddbl"), 1)
    nothing = {name: torch.zeros_like(p) for name, p in federation.algorithm.task.initial.items()}
    message = {"theta": nothing, "W": federation.server["W"]}
    pulled = federation.algorithm.pulled(federation.client(0), message)
    assert torch.equal(pulled, federation.server["W"])


def test_rotation_of_the_features_leaves_predictions_unchanged(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(60, 1, 8, 8, generator=torch.Generator().manual_seed(1))

    def scores(federation):
        predict = federation.algorithm.predict
        return {name: predict(model, x) for name, model in models(federation, 1).items()}

    plain = scores(played(toy("feddbl", {"lam": 0.1}), 1))
    cls: Any = registry.load("feddbl")
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(2))).Q
    features = cls.features
    monkeypatch.setattr(cls, "features", lambda self, net, x: features(self, net, x) @ turn)
    turned = scores(played(toy("feddbl", {"lam": 0.1}), 1))
    assert set(plain) == {"pre", "personalized", "own"}
    for name, values in plain.items():
        torch.testing.assert_close(turned[name], values, rtol=1e-4, atol=1e-4)
        assert torch.equal(turned[name].argmax(1), values.argmax(1))


def test_the_headline_is_the_published_average_for_every_client_and_the_rest_are_series_of_their_own():
    federation = played(toy("feddbl"), 1)
    W = federation.server["W"]
    for i in range(4):
        assert torch.equal(weights(federation, "pre", i), W)
        assert not torch.allclose(weights(federation, "personalized", i), W, atol=1e-2)
        assert torch.equal(weights(federation, "own", i), federation.states[i]["own"])
    record, _ = federation.step()
    assert list(record["accuracy"]) == ["pre", "personalized", "own"]
    assert registry.load("feddbl").evaluation_point == "pre"


@pytest.mark.parametrize(
    "hp",
    [
        {},
        {"exact": True},
        {"features": "last"},
        {"extractor": "fed_warmup", "warmup_rounds": 2},
        {"extractor": "fed_warmup", "warmup_rounds": 1, "exact": True},
    ],
)
def test_what_a_client_is_sent_and_sends_in_the_whole_run_is_what_the_formulas_say(hp):
    federation = toy("feddbl", hp, clients=1, rounds=5)
    assert federation.algorithm.one_shot
    names = costs.names_of(federation.algorithm, federation.client(0).counts)
    measured = {"down": 0, "up": 0}
    for _ in range(5):
        record, _ = federation.step()
        for way, parts in record["bytes"].items():
            measured[way] += sum(parts.values())
    down, up = (costs.NUMBER * costs.evaluate(each, names) for each in federation.algorithm.costs())
    assert measured == {"down": down, "up": up}


def test_the_conformance_kit_counts_a_one_shot_method_over_all_rounds(monkeypatch):
    name = "measured-bytes-equal-formula"
    found = testing.run_check("feddbl", name)
    assert (found.passed, found.expected_failure) == (True, None)
    monkeypatch.setattr(registry.load("feddbl"), "costs", lambda self: ("F * C", "F * C"))
    found = testing.run_check("feddbl", name)
    assert not found.passed
    assert "says 2240 numbers of 4 bytes, measured are 2241 (W 2240, n 1)" in found.message
    assert "all rounds together, client 0" in found.message


RANDOM = "features are those of a random network; --body-weights gives pretrained ones"


def test_the_record_says_that_features_are_random_unless_they_are_pretrained_or_warmed_up(tmp_path):
    def notes(hp, **settings):
        record, _ = played(toy("feddbl", hp, **settings), 2).step()
        assert set(record["accuracy"]) == {"pre", "personalized", "own"}
        return record.get("notes", [])

    initial = toy("feddbl", seed=9).algorithm.task.initial
    body = {name: p.numpy() for name, p in initial.items() if name.startswith("body.")}
    np.savez(tmp_path / "body.npz", **body)
    assert notes({}) == [RANDOM]
    assert notes({}, body_weights=str(tmp_path / "body.npz")) == []
    assert notes({"extractor": "fed_warmup", "warmup_rounds": 2}) == []


def test_pretrained_features_are_used(tmp_path):
    initial = toy("feddbl", seed=9).algorithm.task.initial
    body = {name: p.numpy() for name, p in initial.items() if name.startswith("body.")}
    np.savez(tmp_path / "body.npz", **body)
    federation = played(toy("feddbl", {"lam": 0.1}, body_weights=str(tmp_path / "body.npz")), 1)
    net = toy("feddbl", seed=9).algorithm.net(initial)
    x, y = next(federation.client(0).samples())
    expected = ridge(net.body(x).detach().double(), torch.eye(4, dtype=torch.float64)[y], 0.1)
    own = federation.states[0]["own"].double()
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)


def test_two_rounds_give_the_same_weights_and_messages_are_counted_once():
    federation = toy("feddbl")
    F, C = federation.algorithm.sizes()["F"], 4
    first, _ = federation.step()
    server = {name: p.clone() for name, p in federation.server.items()}
    states = dict(federation.states)
    second, _ = federation.step()
    assert equal(federation.server, server)
    assert all(equal(federation.states[i], states[i]) for i in range(4))
    assert first["bytes"] == {"down": {"W": 4 * 4 * F * C}, "up": {"W": 4 * 4 * F * C, "n": 4 * 4}}
    assert second["bytes"] == {"down": {}, "up": {}}
    assert first["accuracy"] == second["accuracy"]


def test_extractor_never_changes_and_with_warm_up_is_fedavgs():
    # no network is sent or kept: all know the initial one
    assert set(played(toy("feddbl"), 2).server) == {"W"}
    federation = toy("feddbl", {"extractor": "fed_warmup", "warmup_rounds": 2, "lr": 0.05})
    fedavg = played(toy("fedavg", {"lr": 0.05}), 2)
    size = 4 * sum(p.numel() for p in fedavg.server["theta"].values()) * 4
    for number in range(1, 5):
        record, _ = federation.step()
        sent = record["bytes"]["down"].get("theta", 0), record["bytes"]["up"].get("theta", 0)
        assert sent == {1: (size, size), 2: (size, size), 3: (size, 0)}.get(number, (0, 0))
        assert ("W" in federation.server) == (number > 2)
    assert equal(federation.server["theta"], fedavg.server["theta"])
    random = played(toy("feddbl"), 1).server["W"]
    assert not torch.allclose(random, federation.server["W"], atol=1e-3)


def test_features_are_pooled_stages_and_the_representation():
    federation = toy("feddbl", **TOY_CNN)
    algorithm, x = federation.algorithm, next(federation.client(0).samples())[0]
    net = algorithm.net(algorithm.task.initial)
    layers = dict(net.body.named_children())
    one = torch.relu(layers["pool1"](layers["conv1"](x)))
    two = torch.relu(layers["pool2"](layers["conv2"](one)))
    expected = torch.cat([one.mean((2, 3)), two.mean((2, 3)), net.body(x)], 1)
    assert torch.equal(algorithm.features(net, x), expected)
    assert algorithm.sizes() == {"F": 32 + 64 + 16}
    last = toy("feddbl", {"features": "last"}, **TOY_CNN).algorithm
    assert torch.equal(last.features(net, x), net.body(x))
    assert last.sizes() == {"F": 16}


def test_features_of_a_resnet_are_its_stem_its_blocks_and_z_once():
    settings = {"dataset": "synthetic:classes=4,side=8,channels=3,samples=160"}
    algorithm = toy("feddbl", model="resnet18", **settings).algorithm
    assert algorithm.sizes() == {"F": 64 + 64 + 128 + 256 + 512}


def test_personalized_weights_use_the_features_of_the_warm_up():
    hp = {"extractor": "fed_warmup", "warmup_rounds": 2, "lr": 0.5, "lambda_p": 0.3}
    federation = played(toy("feddbl", hp), 3)
    net = federation.algorithm.net(federation.server["theta"])
    x, y = next(federation.client(0).samples())
    A = federation.algorithm.features(net, x).detach().double()
    Y = torch.eye(4, dtype=torch.float64)[y]
    W, W_G = federation.states[0]["personalized"].double(), federation.server["W"].double()
    lam = 0.3 * A.square().sum() / A.shape[1]
    gradient = A.T @ (A @ W - Y) + lam * (W - W_G)
    assert gradient.abs().max() < 1e-4 * (A.T @ Y).abs().max()


def test_average_is_weighted_by_samples_of_the_first_cohort_and_others_fit_on_their_own():
    federation = played(toy("feddbl", participation=0.5), 3)
    ids = sorted(federation.states)
    n = np.array([len(federation.partition.train[i]) for i in ids])
    expected = sum(
        w * federation.states[i]["own"].double() for i, w in zip(ids, n / n.sum(), strict=True)
    )
    torch.testing.assert_close(federation.server["W"].double(), expected, rtol=1e-5, atol=1e-6)
    (absent, *_) = set(range(4)) - set(ids)
    message = federation.algorithm.download(federation.server, (absent,))[absent]
    own = federation.algorithm.extra_models(federation.client(absent), message)["own"]["W"]
    assert torch.equal(own.float(), played(toy("feddbl"), 1).states[absent]["own"])
    personalized = weights(federation, "personalized", absent)
    assert not torch.allclose(personalized, federation.server["W"], atol=1e-2)
