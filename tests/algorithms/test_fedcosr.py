"""FedCoSR: the identities of shared prototypes and of the blended body."""

import dataclasses
import math

import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from pflbench.algorithms.fedcosr import mean_contrast
from pflbench.ops import aggregate_prototypes, phi, pi, prototypes
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy

PLAIN = {"dropout": 0.0}
ADAM = {"lr": 0.003, "optimizer": "adam"}


def omega_of(classes=4, k=8, seed=0):
    draws = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes, dtype=torch.int32)
    return {"means": torch.rand(classes, k, generator=draws), "labels": labels}


def z_of(n=12, k=8, seed=1):
    return torch.rand(n, k, generator=torch.Generator().manual_seed(seed)), torch.arange(n) % 4


def trained_once(client):
    """The client, as if it had trained in a round without prototypes."""
    return dataclasses.replace(client, state={**client.state, "rounds": torch.tensor(1)})


def tau_at(federation, loss):
    """tau of a client whose last contrastive loss was this."""
    state = {**federation.algorithm.init_client(), "L": torch.tensor(loss)}
    client = dataclasses.replace(federation.client(0), state=state)
    return float(federation.algorithm.tau(client, omega_of()))


def test_alpha_0_and_tau_0_is_fedper_with_adam():
    hp = {**PLAIN, "alpha": 0.0, "tau": "fixed", "tau_value": 0.0}
    ours, fedper = played(toy("fedcosr", hp)), played(toy("fedper", ADAM))
    assert equal(ours.server["phi"], fedper.server["phi"])
    for i in range(4):
        assert equal({**phi(personal(ours, i)), **fedper.states[i]["pi"]}, personal(ours, i))
        assert equal(personal(ours, i), personal(fedper, i))


def test_tau_1_and_alpha_0_is_local_with_adam_whatever_the_server_does():
    hp = {**PLAIN, "alpha": 0.0, "tau": "fixed", "tau_value": 1.0}
    ours, local = toy("fedcosr", hp), toy("local", ADAM)
    for _ in range(3):
        ours.step()
        local.step()
        ours.server["phi"] = {name: p + 1.0 for name, p in ours.server["phi"].items()}
    assert all(equal(ours.states[i]["theta"], local.states[i]["theta"]) for i in range(4))


def test_without_separation_alpha_0_and_tau_0_is_fedavg_with_adam():
    hp = {**PLAIN, "alpha": 0.0, "tau": "fixed", "tau_value": 0.0, "separate": False}
    ours, fedavg = played(toy("fedcosr", hp)), played(toy("fedavg", ADAM))
    assert equal(ours.server["theta"], fedavg.server["theta"])


def test_one_body_for_all_gives_pooled_class_means_and_the_grand_mean():
    federation = toy("fedcosr", PLAIN)
    net = federation.algorithm.task.net(federation.algorithm.task.initial)
    clients = [federation.client(i) for i in range(4)]
    omega = aggregate_prototypes({c.id: {"omega": prototypes(net, c)} for c in clients}, "omega", 4)
    x, y = (torch.cat(column) for column in zip(*(next(c.samples()) for c in clients), strict=True))
    z = net.body(x).detach()
    for mean, label in zip(omega["means"], omega["labels"], strict=True):
        torch.testing.assert_close(mean, z[y == label].mean(0))
    counts = y.bincount()[omega["labels"].long()]
    grand = (counts[:, None] * omega["means"]).sum(0) / counts.sum()
    torch.testing.assert_close(grand, z.mean(0))


def test_equal_prototypes_give_log_k_no_gradient_and_tau_k_to_minus_gamma():
    federation = toy("fedcosr", PLAIN)
    omega = omega_of()
    omega["means"][:] = omega["means"][0]
    z, y = z_of()
    z.requires_grad_()
    value, known = federation.algorithm.info_nce(z, y, omega)
    value.backward()
    assert known == 12
    torch.testing.assert_close(value.item(), math.log(4))
    assert z.grad.abs().max() < 1e-6
    trained = trained_once(federation.client(0))
    tau = federation.algorithm.tau(trained, omega)
    torch.testing.assert_close(tau.item(), 4**-0.8)


def test_info_nce_is_cross_entropy_of_cosines_over_temperature():
    algorithm = toy("fedcosr").algorithm
    omega, (z, y) = omega_of(), z_of()
    cosines = cosine_similarity(z[:, None], omega["means"][None], dim=2)
    torch.testing.assert_close(algorithm.info_nce(z, y, omega)[0], cross_entropy(cosines / 0.1, y))


def test_info_nce_ignores_positive_scale_and_common_rotation_and_keeps_its_bounds():
    algorithm = toy("fedcosr").algorithm
    omega, (z, y) = omega_of(), z_of()
    value = algorithm.info_nce(z, y, omega)[0]
    scaled = {**omega, "means": omega["means"] * torch.tensor([1.0, 2.0, 5.0, 0.1])[:, None]}
    torch.testing.assert_close(algorithm.info_nce(3 * z, y, scaled)[0], value)
    rotation, _ = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(2)))
    turned = {**omega, "means": omega["means"] @ rotation}
    torch.testing.assert_close(algorithm.info_nce(z @ rotation, y, turned)[0], value)
    assert math.log(1 + 3 * math.exp(-10)) <= value <= math.log(1 + 3 * math.exp(10))
    own = {**omega, "means": torch.eye(4, 8)}
    torch.testing.assert_close(
        algorithm.info_nce(own["means"], torch.arange(4), own)[0].item(),
        math.log(1 + 3 * math.exp(-10)),
    )


def test_info_nce_reaches_neither_the_head_nor_the_prototypes():
    federation = toy("fedcosr", {**PLAIN, "use_ce": False})
    algorithm, client = federation.algorithm, federation.client(0)
    omega = omega_of()
    before = omega["means"].clone()
    message = {"phi": phi(algorithm.task.initial), "omega": omega}
    _, state = algorithm.client_update(client, message)
    head = {name: p for name, p in algorithm.task.initial.items() if name.startswith("head.")}
    assert equal(head, {name: state["theta"][name] for name in head})
    assert not equal(phi(algorithm.task.initial), phi(state["theta"]))
    assert torch.equal(omega["means"], before)
    assert not omega["means"].requires_grad


def test_blended_body_lies_tau_of_the_way_and_tau_falls_with_the_loss():
    federation = played(toy("fedcosr", {**PLAIN, "lr": 0.01}), 2)
    algorithm, client = federation.algorithm, federation.client(1)
    message = algorithm.download(federation.server, (1,))[1]
    tau = algorithm.tau(client, message["omega"])
    blend = phi(algorithm.local_aggregation(client, message, tau))
    own = phi(client.state["theta"])
    for name in own:
        far = (own[name] - message["phi"][name]).norm()
        torch.testing.assert_close(
            (blend[name] - message["phi"][name]).norm(), tau * far, rtol=1e-3, atol=1e-6
        )

    assert tau_at(federation, 0.0) == 1.0
    assert tau_at(federation, 0.5) > tau_at(federation, 1.0) > tau_at(federation, 3.0) > 0.0
    torch.testing.assert_close(tau_at(federation, 1.0), math.exp(-0.8))


@pytest.mark.parametrize(
    "rule", [{"gamma": 5.0}, {"tau": "linear"}, {"tau": "fixed", "tau_value": 0.5}]
)
def test_one_client_does_not_depend_on_the_tau_rule(rule):
    usual, other = (played(toy("fedcosr", {**PLAIN, **hp}, clients=1)) for hp in ({}, rule))
    for name, p in usual.states[0]["theta"].items():
        torch.testing.assert_close(p, other.states[0]["theta"][name], rtol=1e-4, atol=1e-5)


def test_negatives_include_classes_that_the_client_does_not_hold():
    algorithm = toy("fedcosr").algorithm
    omega, (z, _) = omega_of(), z_of()
    y = torch.zeros(len(z), dtype=torch.int64)
    fewer = {name: rows[:2] for name, rows in omega.items()}
    assert algorithm.info_nce(z, y, fewer)[0] < algorithm.info_nce(z, y, omega)[0] - 0.01


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
def test_round_0_is_one_local_epoch_with_adam_for_every_alpha(alpha):
    ours, local = (
        played(toy("fedcosr", {**PLAIN, "alpha": alpha}), 1),
        played(toy("local", ADAM), 1),
    )
    assert all(equal(ours.states[i]["theta"], local.states[i]["theta"]) for i in range(4))


def test_dropout_acts_and_representations_are_taken_before_it():
    with_it, without = played(toy("fedcosr", {"dropout": 0.5}), 1), played(toy("fedcosr", PLAIN), 1)
    assert not equal(with_it.states[0]["theta"], without.states[0]["theta"])
    net = with_it.algorithm.task.net(with_it.states[0]["theta"], dropout=0.5)
    sent = prototypes(net.train(), with_it.client(0))
    again = prototypes(with_it.algorithm.task.net(with_it.states[0]["theta"]), with_it.client(0))
    assert torch.equal(sent["means"], again["means"])


def test_class_without_prototype_is_not_counted_and_a_lone_prototype_gives_no_loss():
    algorithm = toy("fedcosr").algorithm
    omega, (z, y) = omega_of(), z_of()
    some = {name: rows[1:3] for name, rows in omega.items()}  # classes 1 and 2
    value, known = algorithm.info_nce(z, y, some)
    held = (y == 1) | (y == 2)
    assert known == held.sum()
    torch.testing.assert_close(value, algorithm.info_nce(z[held], y[held], some)[0])
    alone = {name: rows[:1] for name, rows in omega.items()}
    assert mean_contrast([algorithm.info_nce(z, y, alone)], alone) is None
    none = algorithm.info_nce(z[y == 0], y[y == 0], some)
    assert mean_contrast([none], some) is None


def test_contrastive_loss_that_drives_tau_is_the_mean_over_the_epochs_samples():
    federation = played(toy("fedcosr", {**PLAIN, "lr": 0.0}), 2)
    client, server = federation.client(0), federation.server
    message = federation.algorithm.download(server, (0,))[0]
    _, state = federation.algorithm.client_update(client, message)
    z = federation.algorithm.net(state["theta"]).body(next(client.samples())[0])
    # nothing moved: any order is the same
    expected, _ = federation.algorithm.info_nce(z, client.y, message["omega"])
    torch.testing.assert_close(state["L"], expected)


def test_without_cross_entropy_the_nearest_prototype_is_evaluated_too():
    federation = toy("fedcosr", {"use_ce": False})
    federation.start()
    played(federation, 2)
    assert set(federation.evaluation()["accuracy"]) == {"pre", "post", "prototype"}


def test_stale_prototypes_are_kept_or_dropped():
    sent = {
        "means": torch.ones(1, 8),
        "labels": torch.tensor([2]),
        "counts": torch.tensor([3], dtype=torch.int32),
    }
    old = {"means": torch.zeros(2, 8), "labels": torch.tensor([1, 2])}
    for stale, labels in (("keep", [1, 2]), ("drop", [2])):
        algorithm = toy("fedcosr", {"stale": stale}).algorithm
        reply = {"phi": phi(algorithm.task.initial), "omega": sent, "n": torch.tensor(3)}
        omega = algorithm.aggregate({"omega": old}, {0: reply})["omega"]
        assert omega["labels"].tolist() == labels
        assert torch.equal(omega["means"][-1], torch.ones(8))


def newcomer(federation):
    """A client that has not trained yet, and what it is sent: there are prototypes by now."""
    played(federation, 2)
    late = next(id for id in range(4) if id not in federation.states)
    message = federation.algorithm.download(federation.server, (late,))[late]
    assert "omega" in message
    assert not equal(message["phi"], phi(federation.algorithm.task.initial))
    return federation.client(late), message


def test_a_late_client_is_evaluated_with_the_global_body_and_the_initial_head():
    federation = toy("fedcosr", {"participation": 0.25})
    client, message = newcomer(federation)
    model = federation.algorithm.personal_model(client, message)
    assert equal(phi(model), message["phi"])
    assert equal(pi(model), pi(federation.algorithm.task.initial))


def test_a_late_client_starts_its_first_training_from_the_global_body():
    federation = toy("fedcosr", {"participation": 0.25, "lr": 0.0})
    federation.server["phi"] = {name: p + 1.0 for name, p in federation.server["phi"].items()}
    client, message = newcomer(federation)
    reply, state = federation.algorithm.client_update(client, message)
    assert equal(reply["phi"], message["phi"])
    assert state["rounds"] == 1
    assert federation.algorithm.tau(dataclasses.replace(client, state=state), message["omega"]) > 0


def test_after_a_round_without_prototypes_tau_comes_from_a_pass_over_the_data():
    federation = played(toy("fedcosr", PLAIN), 1)
    client, omega = federation.client(0), federation.server["omega"]
    assert "L" not in client.state
    x, y = next(client.samples())
    z = federation.algorithm.net(client.state["theta"]).body(x)
    loss, _ = federation.algorithm.info_nce(z, y, omega)
    torch.testing.assert_close(federation.algorithm.tau(client, omega), torch.exp(-0.8 * loss))


def test_tau_is_clamped_to_0_and_1():
    linear, exponential = toy("fedcosr", {"tau": "linear"}), toy("fedcosr")
    assert tau_at(linear, 0.25) == 0.75
    assert tau_at(linear, 3.0) == 0.0
    assert tau_at(exponential, -0.01) == 1.0  # a rounding error below 0


def test_records_carry_tau_contrast_its_gap_and_the_entropy_of_the_labels():
    federation = played(toy("fedcosr"), 1)
    record, _ = federation.step()
    logs = record["logs"]
    for id, (tau, contrast) in enumerate(zip(logs["tau"], logs["contrast"], strict=True)):
        assert 0.0 <= tau <= 1.0
        assert logs["contrast_gap"][id] == pytest.approx(math.log(4) - contrast, rel=1e-5)
        counts = federation.client(id).counts.tolist()
        shares = [count / sum(counts) for count in counts if count]
        entropy = -sum(share * math.log(share) for share in shares)
        assert logs["label_entropy"][id] == pytest.approx(entropy)


def test_the_gap_is_no_lower_bound_of_the_information_under_label_skew():
    one_class, others = [0] * 20, [1, 2, 3] * 8
    split = split_by_class(TOY["dataset"], [one_class, others], [[0], [1]])
    federation = played(toy("fedcosr", {**PLAIN, "epochs": 5}, split), 2)
    logs = federation.step()[0]["logs"]
    assert logs["label_entropy"][0] == 0.0  # so the label tells nothing: the information is 0
    assert logs["contrast_gap"][0] > 0.5
    assert logs["label_entropy"][0] - logs["contrast"][0] <= 0.0
