"""FedCoSR's options: rare classes, differential privacy, measurements; and what each of them sends."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from pflbench.algorithms.fedcosr import FedCoSRHparams, eta_bound, gradient_and_variance
from pflbench.errors import UserError
from pflbench.ops import cross_entropy_loss, phi, pi
from pflbench.privacy import epsilon, noised_class_sums
from pflbench.simulation.client_worker import Setup
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy
from pflbench.testing.problem import toy_setup
from pflbench.testing.subject import Subject
from pflbench.testing.traffic import measured_bytes_equal_formula

PLAIN = {"dropout": 0.0}
ADAM = {"lr": 0.003, "optimizer": "adam"}


# Rare classes


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


# What is sent


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
        {"dp_sigma": 0.01},  # so little that every class is clearly there
        {"separate": False, "dp_sigma": 0.01},
    ],
    ids=str,
)
def test_what_is_sent_is_what_the_formulas_say(hparams):
    measured_bytes_equal_formula(Variant(hparams))


# Differential privacy

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


def test_under_privacy_the_change_from_the_received_body_is_clipped():
    """Not from the client's own: that one is private."""
    federation = toy("fedcosr", {**QUIET, "dp_clip_body": 0.05})
    start = {name: p + 0.1 for name, p in federation.server["phi"].items()}
    reply, state = federation.algorithm.client_update(federation.client(0), {"phi": start})

    def distance(body):
        return (
            torch.stack([(body[name] - start[name]).square().sum() for name in start]).sum() ** 0.5
        )

    assert distance(phi(state["theta"])) > 0.05
    torch.testing.assert_close(distance(reply["phi"]).item(), 0.05, rtol=1e-3, atol=0)


def test_under_privacy_the_body_has_noise_of_2_s_sigma():
    federation = toy("fedcosr", {**NOISY, "lr": 0.0})  # what is sent is the received body, noised
    start = federation.server["phi"]
    reply, _ = federation.algorithm.client_update(federation.client(0), federation.server)
    noise = torch.cat([(reply["phi"][name] - start[name]).flatten() for name in start])
    assert noise.std().item() == pytest.approx(2 * 0.1 * 0.5, rel=0.1)
    assert len(noise.unique()) > 0.9 * len(noise)


def test_under_privacy_representations_are_those_of_the_released_body():
    federation = toy("fedcosr", NOISY)
    algorithm, client = federation.algorithm, federation.client(0)
    reply, state = algorithm.client_update(client, federation.server)
    released = algorithm.net({**state["theta"], **reply["phi"]})
    expected = noised_class_sums(released, client, 0.2, 4.0, 0.5)
    assert torch.equal(reply["sums"]["sums"], expected["sums"])
    assert torch.equal(reply["sums"]["counts"], expected["counts"])


def test_under_privacy_the_server_weights_bodies_equally_and_drops_classes_that_could_be_noise():
    algorithm = toy("fedcosr", {**NOISY, "dp_sigma": 0.5}).algorithm
    limit = 3 * 2 * 0.5 * math.sqrt(2)  # three standard deviations of the sum of two counts

    def reply(value, counts):
        body = {name: torch.full_like(p, value) for name, p in phi(algorithm.task.initial).items()}
        return {"phi": body, "sums": {"sums": torch.full((4, 8), value), "counts": counts}}

    few = torch.tensor([limit - 0.1, limit + 0.1, -limit, 3.0])
    replies = {0: reply(1.0, few), 1: reply(4.0, torch.tensor([0.0, 0.0, 0.0, 7.0]))}
    server = algorithm.aggregate({}, replies)
    assert all((p == 2.5).all() for p in server["phi"].values())
    assert server["omega"]["labels"].tolist() == [1, 3]
    torch.testing.assert_close(server["omega"]["means"][1], torch.full((8,), 5.0 / 10.0))


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
    with pytest.raises(
        UserError, match=f"cannot be used with {next(iter(option))}, which would reveal"
    ):
        toy("fedcosr", {**NOISY, **option})


def test_privacy_and_only_privacy_needs_the_accountant(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    FedCoSRHparams(dp_sigma=0.0)
    with pytest.raises(UserError, match="dp_sigma above 0 needs Opacus"):
        FedCoSRHparams(dp_sigma=1.0)


@pytest.mark.parametrize("bound", ["dp_clip_body", "dp_clip_z", "dp_clip_sums", "dp_delta"])
def test_privacy_needs_bounds_above_0(bound):
    with pytest.raises(UserError, match=f"{bound}: must be above 0"):
        toy("fedcosr", {**NOISY, bound: 0.0})


# Measurements

MEASURED = ["gradient_norm", "gradient_variance", "body_distance", "smoothness", "eta_bound"]


def test_measuring_changes_no_number_and_only_adds_to_the_log():
    plain, measured = toy("fedcosr"), toy("fedcosr", {"measure": True})
    for number in range(3):
        without, _ = plain.step()
        with_it, _ = measured.step()
        added = set(with_it["logs"]) - set(without["logs"])
        assert added == ({*MEASURED, "eta_holds"} if number else set())
        assert {name: with_it["logs"][name] for name in without["logs"]} == without["logs"]
    assert equal(plain.server["phi"], measured.server["phi"])
    assert all(equal(plain.states[i]["theta"], measured.states[i]["theta"]) for i in range(4))


def test_measured_gradient_and_variance_are_those_of_the_batches():
    federation = toy("fedcosr", PLAIN)
    theta, client = federation.algorithm.task.initial, federation.client(0)
    batches = list(client.batches(16, stream="measure"))
    assert len({len(y) for _, y in batches}) > 1  # the last one is shorter
    net = federation.algorithm.net(theta)

    def gradient(x, y):
        gradients = torch.autograd.grad(cross_entropy(net(x), y), list(net.parameters()))
        return torch.cat([g.double().flatten() for g in gradients])

    whole = gradient(*next(client.samples()))
    shares = [len(y) / len(client.y) for _, y in batches]
    spread = [(gradient(x, y) - whole).square().sum() for x, y in batches]
    expected = sum(share * one for share, one in zip(shares, spread, strict=True))
    found, variance = gradient_and_variance(cross_entropy_loss, theta, client, 16)
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(variance, expected, rtol=1e-4, atol=1e-6)


def test_measured_distance_is_between_own_and_global_body_and_smoothness_of_the_training_step():
    federation = played(toy("fedcosr", {**PLAIN, "measure": True}), 1)
    algorithm, client, server = federation.algorithm, federation.client(0), federation.server
    own = phi(client.state["theta"])
    apart = sum(float((own[name] - p).square().sum()) for name, p in server["phi"].items()) ** 0.5
    start = algorithm.personal_model(client, server)
    logs = federation.step()[0]["logs"]
    end = federation.states[0]["theta"]
    loss = algorithm.objective(server["omega"], [])
    gradients = [gradient_and_variance(loss, theta, client, 16)[0] for theta in (start, end)]
    step = sum(float((end[name] - p).square().sum()) for name, p in start.items()) ** 0.5
    assert logs["body_distance"][0] == pytest.approx(apart, rel=1e-4)
    assert logs["gradient_norm"][0] == pytest.approx(float(gradients[0].norm()), rel=1e-4)
    smoothness = float((gradients[1] - gradients[0]).norm()) / step
    assert logs["smoothness"][0] == pytest.approx(smoothness, rel=1e-4)


def eta_bound_of(S, sigma2, L_1, eps, **hparams):
    hp = FedCoSRHparams(**{"alpha": 1.0, "temperature": 0.1, "epochs": 2, **hparams})
    return float(
        eta_bound(*(torch.tensor(v, dtype=torch.float64) for v in (S, sigma2, L_1, eps)), hp)
    )


def test_eta_bound_is_where_the_decrease_of_theorem_2_vanishes():
    S, sigma2, L_1, eps = 900.0, 4.0, 3.0, 0.5
    eta = eta_bound_of(S, sigma2, L_1, eps)
    decrease = (eta - L_1 * eta**2 / 2) * S
    increase = 2 * L_1 * eta**2 * sigma2 / 2 + L_1 * (eps**2 + eps) / 2 + 2 * 1.0 / 0.1
    assert decrease == pytest.approx(increase)
    assert eta > 0.5


def test_eta_bound_is_0_where_the_corollary_allows_no_learning_rate():
    # S^2 < 4 alpha / tau_CL L_1 (S + R sigma^2) + ...
    assert eta_bound_of(1.0, 4.0, 3.0, 0.5) == 0.0
    assert eta_bound_of(1.0, 4.0, 3.0, 0.0, alpha=0.0) == pytest.approx(2 / (3.0 * (1.0 + 2 * 4.0)))


def test_eta_bound_is_0_where_the_gradient_vanishes():
    assert eta_bound_of(0.0, 0.0, 3.0, 0.5) == 0.0


def test_where_training_moves_nothing_no_smoothness_is_measured():
    federation = played(toy("fedcosr", {**PLAIN, "measure": True, "lr": 0.0}, clients=1), 1)
    federation.server["phi"] = phi(federation.states[0]["theta"])
    logs = federation.step()[0]["logs"]
    assert logs["gradient_norm"][0] > 0
    assert not {"smoothness", "eta_bound", "eta_holds"} & logs.keys()


def test_a_head_that_is_not_trained_has_no_part_in_the_measured_gradient():
    federation = played(toy("fedcosr", {**PLAIN, "use_ce": False, "measure": True}), 1)
    algorithm, client = federation.algorithm, federation.client(0)
    loss = algorithm.objective(federation.server["omega"], [])
    gradient, _ = gradient_and_variance(loss, client.state["theta"], client, 16)
    head = sum(p.numel() for p in pi(client.state["theta"]).values())
    assert not gradient[-head:].any()
    assert gradient[:-head].any()
    assert federation.step()[0]["logs"]["gradient_norm"][0] > 0


@pytest.mark.parametrize("alpha, holds", [(0.0, True), (1.0, False)])
def test_the_run_says_whether_the_condition_on_eta_holds(alpha, holds):
    """At alpha = 0 and with the global body kept as it is, a small rate meets the condition."""
    hparams = {**PLAIN, "measure": True, "optimizer": "sgd", "lr": 1e-4, "alpha": alpha}
    federation = played(toy("fedcosr", hparams, clients=1), 1)
    federation.server["phi"] = phi(federation.states[0]["theta"])
    record, _ = federation.step()
    assert (record["logs"]["eta_holds"] == [1.0]) == holds
    names = ("gradient_norm", "gradient_variance", "smoothness", "body_distance")
    norm, variance, smoothness, distance = (record["logs"][name][0] for name in names)
    bound = eta_bound_of(norm**2, variance, smoothness, distance, alpha=alpha, epochs=1)
    assert record["logs"]["eta_bound"][0] == pytest.approx(bound, rel=1e-4)
    assert ("notes" in record and "Corollary 1" in record["notes"][0]) != holds
