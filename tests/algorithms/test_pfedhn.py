"""pFedHN: the identities of a hypernetwork that learns from clients' changes."""

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from pflbench.testing import equal, personal, played, toy

PLAIN = {"momentum": 0.0, "decay": 0.0, "server_clip": 0.0, "clip": 0.0}


def close(first, second, rtol=1e-4, atol=1e-6) -> None:
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=rtol, atol=atol)


def test_the_network_has_the_authors_form():
    federation = toy("pfedhn", clients=9)
    w = federation.server["w"]
    assert w["v"].shape == (9, 3)  # 1 + N // 4
    assert w["layer0.weight"].shape == (100, 3)
    assert [w[f"layer{place}.weight"].shape for place in (1, 2, 3)] == [(100, 100)] * 3
    sizes = {name: p.numel() for name, p in federation.algorithm.task.initial.items()}
    found = {name: w[f"output.{name}.weight"].shape[0] for name in sizes}
    assert found == sizes
    assert len(w) == 1 + 2 * 4 + 2 * len(sizes)


def test_models_are_generated_by_hand():
    federation = toy("pfedhn", {"layers": 1})
    w = federation.server["w"]
    features = w["layer0.weight"] @ w["v"][2] + w["layer0.bias"]
    features = w["layer1.weight"] @ features.clamp(min=0) + w["layer1.bias"]
    name = "body.fc1.weight"
    flat = w[f"output.{name}.weight"] @ features + w[f"output.{name}.bias"]
    torch.testing.assert_close(personal(federation, 2)[name], flat.reshape(8, 64))


def test_equal_embeddings_give_equal_models():
    federation = toy("pfedhn")
    v = federation.server["w"]["v"].clone()
    v[1] = v[0]
    federation.server = {**federation.server, "w": {**federation.server["w"], "v": v}}
    assert equal(personal(federation, 0), personal(federation, 1))
    assert not equal(personal(federation, 0), personal(federation, 2))


def test_the_pulled_back_gradient_is_that_of_the_product_with_d():
    federation = toy("pfedhn")
    algorithm: Any = federation.algorithm
    w = federation.server["w"]
    D = {name: torch.randn_like(p) for name, p in algorithm.task.initial.items()}
    found = algorithm.pulled_back(w, 1, D)
    variables = {name: p.clone().requires_grad_() for name, p in w.items()}
    theta = algorithm.generated(variables, variables["v"][1])
    sum((D[name] * p).sum() for name, p in theta.items()).backward()
    close(found, {name: p.grad for name, p in variables.items()})
    assert found["v"][1].abs().min() > 0
    assert found["v"][[0, 2, 3]].abs().max() == 0


def test_a_linear_hypernetwork_by_hand():
    federation = toy("pfedhn", {"layers": 0})
    algorithm: Any = federation.algorithm
    w = federation.server["w"]
    names = list(algorithm.task.initial)
    D = {name: torch.randn_like(p) for name, p in algorithm.task.initial.items()}
    found = algorithm.pulled_back(w, 0, D)
    v = w["v"][0]
    features = w["layer0.weight"] @ v + w["layer0.bias"]
    by_features = sum(w[f"output.{name}.weight"].T @ D[name].flatten() for name in names)
    name = names[0]
    torch.testing.assert_close(
        found[f"output.{name}.weight"], torch.outer(D[name].flatten(), features)
    )
    torch.testing.assert_close(
        found["layer0.weight"], torch.outer(by_features, v), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(found["v"][0], w["layer0.weight"].T @ by_features)


@pytest.mark.parametrize("server_step", ["sequential", "mean", "sum"])
def test_without_passes_nothing_moves(server_step: str):
    federation = toy("pfedhn", {"epochs": 0, "decay": 0.0, "server_step": server_step})
    start = federation.server["w"]
    reply, _ = federation.algorithm.client_update(
        federation.client(0), {"theta": personal(federation)}
    )
    assert all(p.abs().max() == 0 for p in reply["D"].values())
    played(federation, 2)
    assert equal(federation.server["w"], start)


def test_d_is_start_less_end_and_one_full_step_descends_the_clients_loss():
    hparams = {**PLAIN, "lr": 0.1, "batch_size": 1000}
    federation = toy("pfedhn", hparams)
    algorithm: Any = federation.algorithm
    w, client = federation.server["w"], federation.client(1)
    theta = personal(federation, 1)
    reply, _ = algorithm.client_update(client, {"theta": theta})
    found = algorithm.pulled_back(w, 1, reply["D"])
    variables = {name: p.clone().requires_grad_() for name, p in w.items()}
    x, y = next(client.samples())
    generated = algorithm.generated(variables, variables["v"][1])
    logits = torch.func.functional_call(algorithm.task.net(theta), generated, (x,))
    cross_entropy(logits, y).backward()
    close(found, {name: 0.1 * p.grad for name, p in variables.items()}, rtol=1e-3, atol=1e-5)
    trained = algorithm.trained_model(client, {"theta": theta}, reply)
    close(trained, {name: p - reply["D"][name] for name, p in theta.items()})


def test_a_cohort_of_one_is_the_same_for_every_kind_of_step():
    first, *others = (
        played(toy("pfedhn", {"lr": 0.1, "server_step": step}, clients=4, participation=0.25), 2)
        for step in ("sequential", "mean", "sum")
    )
    assert all(equal(first.server["w"], other.server["w"]) for other in others)


def test_one_step_for_all_is_the_mean_or_the_sum_of_theirs():
    ends = {}
    for step in ("mean", "sum"):
        federation = toy("pfedhn", {**PLAIN, "lr": 0.1, "server_step": step})
        algorithm: Any = federation.algorithm
        w = federation.server["w"]
        gradients = []
        for id in range(4):
            message = {"theta": personal(federation, id)}
            reply, _ = algorithm.client_update(federation.client(id), message)
            gradients.append(algorithm.pulled_back(w, id, reply["D"]))
        federation.step()
        share = 0.25 if step == "mean" else 1.0
        total = {name: share * sum(one[name] for one in gradients) for name in w}
        close(federation.server["w"], {name: w[name] - 0.01 * total[name] for name in w})
        ends[step] = federation.server["w"]["v"]
    assert not torch.equal(ends["mean"], ends["sum"])


def test_in_sequence_each_client_gets_a_model_of_the_newest_hypernetwork():
    federation = toy("pfedhn", {**PLAIN, "lr": 0.1})
    algorithm: Any = federation.algorithm
    order = torch.randperm(4, generator=algorithm.task.generator("order", 0)).tolist()
    server = federation.server
    for id in order:
        message = algorithm.download(server, (id,))[id]
        reply, _ = algorithm.client_update(federation.client(id), message)
        g = algorithm.pulled_back(server["w"], id, reply["D"])
        server = {**server, "w": {name: p - 0.01 * g[name] for name, p in server["w"].items()}}
    federation.step()
    assert equal(federation.server["w"], server["w"])
    assert order != sorted(order)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_absent_clients_embeddings_stay_but_for_decay(decay: float):
    federation = toy("pfedhn", {**PLAIN, "decay": decay, "lr": 0.1}, participation=0.25)
    before = federation.server["w"]["v"]
    cohort = set(federation.select())
    federation.step()
    after = federation.server["w"]["v"]
    for id in set(range(4)) - cohort:
        torch.testing.assert_close(after[id], (1 - 0.01 * decay) * before[id])
        assert torch.equal(after[id], before[id]) == (decay == 0)
    assert all(not torch.equal(after[id], before[id]) for id in cohort)


def test_the_servers_step_by_hand():
    algorithm: Any = toy("pfedhn", {"momentum": 0.5, "decay": 0.1, "server_clip": 5.0}).algorithm
    one = {"a": torch.tensor([2.0]), "v": torch.tensor([1.0])}
    server = {"w": one, "momentum": {"a": torch.tensor([4.0]), "v": torch.tensor([0.0])}}
    new = algorithm.descended(server, {"a": torch.tensor([6.0]), "v": torch.tensor([8.0])})
    # the norm is 10: half of it is left; m = 0.5 * 4 + 3 + 0.2 and 4 + 0.1
    assert new["momentum"]["a"].item() == pytest.approx(5.2)
    assert new["momentum"]["v"].item() == pytest.approx(4.1)
    assert new["w"]["a"].item() == pytest.approx(2.0 - 0.052)
    assert new["w"]["v"].item() == pytest.approx(1.0 - 0.041)
    other: Any = toy("pfedhn", {"momentum": 0.0, "decay": 0.0, "embed_lr": 0.5}).algorithm
    new = other.descended(server, {"a": torch.tensor([6.0]), "v": torch.tensor([8.0])})
    assert new["w"]["a"].item() == pytest.approx(2.0 - 0.06)
    assert new["w"]["v"].item() == pytest.approx(1.0 - 4.0)


def test_local_gradients_are_clipped():
    federation = toy("pfedhn", {"lr": 1.0, "clip": 1e-3, "batch_size": 1000})
    reply, _ = federation.algorithm.client_update(
        federation.client(0), {"theta": personal(federation)}
    )
    moved = torch.cat([p.flatten() for p in reply["D"].values()])
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_output_scale_makes_the_first_models_smaller():
    usual, small = (toy("pfedhn", {"output_scale": scale}) for scale in (1.0, 0.1))
    close(personal(small), {name: 0.1 * p for name, p in personal(usual).items()})


def test_one_client_learns():
    federation = toy("pfedhn", {"lr": 0.1, "epochs": 3, "server_lr": 0.05}, clients=1)
    losses = []
    for _ in range(6):
        record, _ = federation.step()
        losses.append(record["loss"])
    assert losses[-1] < losses[0]


def test_only_a_model_goes_down_and_a_change_of_it_up():
    federation = toy("pfedhn")
    record, _ = federation.step()
    size = 4 * 4 * sum(p.numel() for p in federation.algorithm.task.initial.values())
    assert record["bytes"] == {"down": {"theta": size}, "up": {"D": size}}
