"""FedCoSR: the identities of shared prototypes and of the blended body."""

import dataclasses
import math

import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from pflbench.algorithms.fedcosr import mean_contrast
from pflbench.errors import UserError
from pflbench.ops import aggregate_prototypes, phi, pi, prototypes
from pflbench.privacy import epsilon, noised_class_sums
from pflbench.simulation.client_worker import Setup
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy
from pflbench.testing.problem import toy_setup
from pflbench.testing.subject import Subject
from pflbench.testing.traffic import measured_bytes_equal_formula

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


def test_min_clients_1_without_noise_is_the_plain_run():
    plain = played(toy("fedcosr"))
    options = played(
        toy(
            "fedcosr", {"min_clients": 1, "announce_first": True, "min_samples": 1, "dp_sigma": 0.0}
        )
    )
    assert equal(plain.server["phi"], options.server["phi"])
    assert all(equal(plain.states[i]["theta"], options.states[i]["theta"]) for i in range(4))


@pytest.mark.parametrize("announce", [False, True])
def test_min_clients_above_n_is_fedper_with_adam(announce):
    ours = toy("fedcosr", {**PLAIN, "min_clients": 5, "announce_first": announce})
    fedper = played(toy("fedper", ADAM))
    played(ours)
    assert "omega" not in ours.server
    assert equal(ours.server["phi"], fedper.server["phi"])
    assert all(equal(personal(ours, i), personal(fedper, i)) for i in range(4))


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
    expected, _ = federation.algorithm.info_nce(
        z, client.y, message["omega"]
    )  # nothing moved: any order is the same
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


def test_announced_classes_keep_rare_prototypes_on_the_client():
    held = [[0, 0, 1, 1], [1, 1, 2, 2], [1, 2, 2, 3]]  # classes 0 and 3: one client each
    split = split_by_class(TOY["dataset"], held, [[0], [1], [2]])
    federation = toy("fedcosr", {"min_clients": 2, "announce_first": True}, split)
    record, _ = federation.step()
    assert federation.server["omega"]["labels"].tolist() == [1, 2]
    assert record["bytes"]["up"]["omega"] == (1 + 2 + 2) * (8 + 2) * 4


def test_a_client_sends_prototypes_of_allowed_classes_only():
    federation = toy("fedcosr", {"announce_first": True})
    client = federation.client(0)
    held = client.counts.nonzero().flatten().tolist()
    allowed = torch.ones(4, dtype=torch.int32)
    allowed[held[0]] = 0
    message = {**federation.server, "allowed": allowed}
    reply, _ = federation.algorithm.client_update(client, message)
    assert reply["omega"]["labels"].tolist() == held[1:]


def test_classes_below_min_samples_are_neither_announced_nor_sent():
    counts = toy("fedcosr").client(0).counts
    least = int(counts[counts > 0].min()) + 1
    federation = toy("fedcosr", {"min_samples": least, "announce_first": True})
    announced, _ = federation.algorithm.announce(federation.client(0), {})
    assert announced["held"].tolist() == (counts >= least).int().tolist()
    reply, _ = federation.algorithm.client_update(federation.client(0), federation.server)
    assert reply["omega"]["labels"].tolist() == (counts >= least).nonzero().flatten().tolist()
    assert 0 < (counts >= least).sum() < (counts > 0).sum()


class Variant(Subject):
    """FedCoSR with hyperparameters, as the conformance kit takes it."""

    def __init__(self, hparams: dict[str, object]) -> None:
        super().__init__("fedcosr")
        self.hparams = hparams

    def setup(self, split=None, **settings) -> Setup:
        return toy_setup("fedcosr", self.hparams, split, **settings)


@pytest.mark.parametrize(
    "hparams",
    [
        {},
        {"separate": False},
        {"announce_first": True},
        {"separate": False, "announce_first": True},
    ],
    ids=str,
)
def test_what_is_sent_is_what_the_formulas_say(hparams):
    measured_bytes_equal_formula(Variant(hparams))


QUIET = {**PLAIN, "dp_sigma": 1e-9, "dp_clip_body": 1e3, "dp_clip_z": 1e3, "dp_clip_sums": 1e6}
NOISY = {**PLAIN, "dp_sigma": 0.5, "dp_clip_body": 0.1, "dp_clip_z": 0.2, "dp_clip_sums": 4.0}


@pytest.mark.filterwarnings("ignore:Optimal order is the smallest")  # there is no privacy
def test_privacy_without_noise_and_bounds_is_the_plain_method_with_equal_weights():
    plain, private = toy("fedcosr", PLAIN), toy("fedcosr", QUIET)
    replies = {
        id: plain.algorithm.client_update(plain.client(id), plain.server)[0] for id in range(4)
    }
    equal_weights = {id: {**reply, "n": torch.tensor(1)} for id, reply in replies.items()}
    expected = plain.algorithm.aggregate(plain.server, equal_weights)
    private.step()
    assert private.server["omega"]["labels"].tolist() == expected["omega"]["labels"].tolist()
    for name, p in expected["phi"].items():
        torch.testing.assert_close(private.server["phi"][name], p, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        private.server["omega"]["means"], expected["omega"]["means"], rtol=1e-3, atol=1e-4
    )


def test_under_privacy_a_message_has_the_same_form_whatever_the_data():
    dataset = TOY["dataset"]
    split = split_by_class(dataset, [[0] * 9, [0, 1, 2, 3] * 5], [[0], [1]])
    federation = toy("fedcosr", NOISY, split)
    forms = []
    for id in (0, 1):
        reply, _ = federation.algorithm.client_update(federation.client(id), federation.server)
        assert set(reply) == {"phi", "sums"}  # neither n nor labels
        forms.append({name: (t.shape, t.dtype) for name, t in reply["sums"].items()})
    assert forms[0] == forms[1]
    assert forms[0]["counts"] == (torch.Size([4]), torch.float32)


def test_under_privacy_the_change_of_the_body_is_clipped():
    federation = toy("fedcosr", {**QUIET, "dp_clip_body": 0.05})
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    start = federation.server["phi"]

    def distance(body):
        return (
            torch.stack([(body[name] - start[name]).square().sum() for name in start]).sum() ** 0.5
        )

    assert distance(phi(state["theta"])) > 0.05
    torch.testing.assert_close(distance(reply["phi"]).item(), 0.05, rtol=1e-3, atol=0)


def test_under_privacy_representations_are_those_of_the_released_body():
    federation = toy("fedcosr", NOISY)
    algorithm, client = federation.algorithm, federation.client(0)
    reply, state = algorithm.client_update(client, federation.server)
    released = algorithm.net({**state["theta"], **reply["phi"]})
    expected = noised_class_sums(released, client, 0.2, 4.0, 0.5)
    assert torch.equal(reply["sums"]["sums"], expected["sums"])
    assert torch.equal(reply["sums"]["counts"], expected["counts"])


def test_epsilon_of_a_sample_and_of_a_client_accumulate_over_the_rounds_of_a_client():
    federation = toy("fedcosr", {**NOISY, "dp_delta": 1e-4, "participation": 0.5})
    rounds = dict.fromkeys(range(4), 0)
    for _ in range(5):
        record, _ = federation.step()
        for place, id in enumerate(record["cohort"]):
            rounds[id] += 1
            sample = epsilon((0.5, 0.5), rounds[id], 1e-4)
            client = epsilon((0.5, 0.5 * 0.2 / 4.0), rounds[id], 1e-4)
            assert record["logs"]["epsilon_sample"][place] == pytest.approx(sample)
            assert record["logs"]["epsilon_client"][place] == pytest.approx(client)
    assert len(set(rounds.values())) > 1


def test_a_bound_of_a_client_below_that_of_a_sample_protects_the_sample_as_well():
    federation = toy("fedcosr", {**NOISY, "dp_clip_sums": 0.1})
    record, _ = federation.step()
    both = pytest.approx(epsilon((0.5, 1.0), 1, 1e-5))
    assert record["logs"]["epsilon_client"][0] == both
    assert record["logs"]["epsilon_sample"][0] == both


@pytest.mark.parametrize(
    "option", [{"announce_first": True}, {"min_clients": 2}, {"min_samples": 2}], ids=str
)
def test_privacy_excludes_options_that_show_labels(option):
    with pytest.raises(UserError, match=f"excludes {next(iter(option))}: a client's labels"):
        toy("fedcosr", {**NOISY, **option})


def test_records_carry_tau_contrast_and_the_information_bound():
    federation = played(toy("fedcosr"), 1)
    record, _ = federation.step()
    logs = record["logs"]
    assert all(0.0 <= tau <= 1.0 for tau in logs["tau"])
    for contrast, information in zip(logs["contrast"], logs["information"], strict=True):
        torch.testing.assert_close(information, math.log(4) - contrast, rtol=1e-5, atol=1e-6)
