"""pFedMe: the identities of the Moreau envelope."""

from typing import Any

import pytest
import torch

from pflbench import ops
from pflbench.api import Client
from pflbench.testing import equal, toy

ONE_BATCH = {"batch_size": 1000, "inner_steps": 1}


def method(hp: dict[str, Any]) -> Any:
    """The algorithm by itself, for functions of its own."""
    return toy("pfedme", hp).algorithm


def close(first, second, **tolerance) -> None:
    for name in first:
        torch.testing.assert_close(
            first[name], second[name], **(tolerance or {"rtol": 1e-5, "atol": 1e-7})
        )


def answered(federation, id=0):
    """w_i and theta_i of a client's answer to the first message."""
    reply, state = federation.algorithm.client_update(federation.client(id), federation.server)
    return reply["theta"], state["theta"]


def full_gradient(federation, theta, id=0):
    net = federation.algorithm.task.net(theta)
    ops.cross_entropy_loss(net, *next(federation.client(id).samples())).backward()
    return {name: p.grad for name, p in net.named_parameters()}


def quadratic(a, c):
    return lambda theta: {"x": a * (theta["x"] - c)}


def scalar(x):
    return {"x": torch.tensor(x, dtype=torch.float64)}


def test_beta_0_keeps_the_global_model_bit_for_bit():
    federation = toy("pfedme", {"beta": 0.0, "lr": 0.1})
    federation.step()
    federation.step()
    assert equal(federation.server["theta"], federation.algorithm.task.initial)


def test_beta_1_is_the_mean_by_samples_of_what_clients_send():
    federation = toy("pfedme", {"lr": 0.1})
    replies = {
        i: federation.algorithm.client_update(federation.client(i), federation.server)[0]
        for i in range(4)
    }
    federation.step()
    assert equal(federation.server["theta"], ops.weighted_mean(replies, "theta"))
    halfway = toy("pfedme", {"lr": 0.1, "beta": 0.5})
    halfway.step()
    initial = halfway.algorithm.task.initial
    close(
        halfway.server["theta"],
        {name: (p + initial[name]) / 2 for name, p in federation.server["theta"].items()},
    )


def test_eta_0_keeps_w_i_and_the_global_model_while_theta_i_learns():
    federation = toy("pfedme", {"lr": 0.0, "personal_lr": 0.05})
    w = federation.algorithm.task.initial
    w_i, theta_i = answered(federation)
    assert equal(w_i, w)
    samples = next(federation.client(0).samples())
    before, after = (
        ops.cross_entropy_loss(federation.algorithm.net(model), *samples) for model in (w, theta_i)
    )
    assert after < before
    federation.step()
    close(federation.server["theta"], w, rtol=1e-6, atol=0)


def test_eta_lambda_1_makes_w_i_the_personal_model_exactly_after_each_batch():
    hp = {"lr": 0.1, "lam": 10.0, "batch_size": 4}
    assert equal(*answered(toy("pfedme", hp)))
    w, v, grad = scalar(0.3), scalar(-1.7), quadratic(3.0, 0.1)
    for _ in range(3):
        w, v = method(hp).step(w, v, grad)
        assert equal(w, v)
    # far apart: rounding would show
    w, v = method({**hp, "personal_lr": 0.0}).step(scalar(1e9), scalar(1 / 3), grad)
    assert equal(w, v)


def test_first_batch_with_one_inner_step_is_sgd_of_rate_eta_lambda_eta_p():
    federation = toy("pfedme", {**ONE_BATCH, "lr": 0.05, "lam": 4.0, "personal_lr": 0.1})
    w = federation.algorithm.task.initial
    g = full_gradient(federation, w)
    w_i, theta_i = answered(federation)
    close(theta_i, {name: p - 0.1 * g[name] for name, p in w.items()})
    close(w_i, {name: p - 0.05 * 4.0 * 0.1 * g[name] for name, p in w.items()})


def test_scalar_quadratic_inner_problem_is_solved_and_w_follows():
    a, c, lam, eta, start = 3.0, 2.0, 10.0, 0.01, -1.0
    algorithm = method({"lam": lam, "lr": eta, "personal_lr": 0.05, "inner_steps": 500})
    w, v = algorithm.step(scalar(start), scalar(5.0), quadratic(a, c))
    torch.testing.assert_close(v["x"].item(), (a * c + lam * start) / (a + lam))
    torch.testing.assert_close(w["x"].item(), start - eta * lam * a / (lam + a) * (start - c))


def test_inner_variable_goes_on_from_batch_to_batch():
    algorithm = method({"inner_steps": 1, "personal_lr": 0.1, "lam": 2.0})
    _, v = algorithm.step(scalar(1.0), scalar(3.0), quadratic(1.0, 0.0))
    torch.testing.assert_close(v["x"].item(), 3.0 - 0.1 * (3.0 + 2.0 * (3.0 - 1.0)))


def test_lambda_0_keeps_w_i_and_theta_i_is_plain_sgd_with_k_repeats_of_each_batch(
    monkeypatch: pytest.MonkeyPatch,
):
    ours = toy("pfedme", {"lam": 0.0, "inner_steps": 3, "personal_lr": 0.05})
    local = toy("local", {"lr": 0.05})
    w_i, theta_i = answered(ours)
    assert equal(w_i, ours.algorithm.task.initial)
    batches = Client.batches

    def repeated(*arguments):
        for batch in batches(*arguments):
            yield from [batch] * 3

    monkeypatch.setattr(Client, "batches", repeated)
    assert equal(theta_i, local.algorithm.client_update(local.client(0), {})[1]["theta"])


def test_after_a_round_theta_i_w_i_and_w_differ_and_share_no_storage():
    federation = toy("pfedme", {"lr": 0.05})
    answers = [answered(federation, i) for i in range(4)]
    federation.step()
    models = [federation.server["theta"], *(model for answer in answers for model in answer)]
    models += [federation.states[i]["theta"] for i in range(4)]
    assert len({p["head.fc2.weight"].untyped_storage().data_ptr() for p in models}) == len(models)
    for i, (w_i, theta_i) in enumerate(answers):
        assert equal(federation.states[i]["theta"], theta_i)
        assert not equal(theta_i, w_i)
        assert not equal(theta_i, federation.server["theta"])
        assert not equal(w_i, federation.server["theta"])


def test_theta_i_survives_later_downloads_byte_for_byte():
    federation = toy("pfedme", {"lr": 0.05}, participation=0.25)
    federation.step()
    (chosen,) = federation.states
    theta_i = {name: p.clone() for name, p in federation.states[chosen]["theta"].items()}
    while federation.select() != (chosen,) and federation.round < 3:
        federation.step()
        message = federation.algorithm.download(federation.server, (chosen,))[chosen]
        assert equal(
            federation.algorithm.personal_model(federation.client(chosen), message), theta_i
        )
    assert federation.round > 1


def test_weight_decay_acts_in_the_inner_steps():
    algorithm = method(
        {"inner_steps": 1, "personal_lr": 0.1, "lam": 0.0, "inner_weight_decay": 0.01}
    )
    _, v = algorithm.step(scalar(1.0), scalar(3.0), quadratic(1.0, 0.0))
    torch.testing.assert_close(v["x"].item(), 3.0 - 0.1 * (3.0 + 0.01 * 3.0))
