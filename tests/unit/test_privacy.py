"""Differential privacy: bounds that hold, noise of the stated scale, and the epsilon of all releases."""

import dataclasses
import math

import pytest
import torch
from torch.nn.functional import normalize

from pflbench import privacy
from pflbench.errors import UserError
from pflbench.testing import toy

QUIET = 1e-12
LARGE = 1e6


@pytest.fixture(scope="module")
def federation():
    return toy("fedavg", dataset="synthetic:classes=40,side=8,samples=400", width=64)


@pytest.fixture
def client(federation):
    return federation.client(0)


@pytest.fixture
def net(federation):
    return federation.algorithm.net(federation.algorithm.task.initial)


def flat(params):
    return torch.cat([p.flatten() for p in params.values()])


def representations(net, client):
    return torch.cat([net.body(x) for x, _ in client.samples()]).detach().double()


def release(net, client, bound_z=1.0, bound_sums=LARGE, sigma=QUIET):
    """What is released, as one matrix in which counts are in units of the bound: (C, k + 1)."""
    sent = privacy.noised_class_sums(net, client, bound_z, bound_sums, sigma)
    return torch.cat([sent["sums"], bound_z * sent["counts"][:, None]], 1).double()


# The change of the parameters


@pytest.mark.parametrize("length, kept", [(0.2, 0.2), (0.5, 0.5), (7.0, 0.5)])
def test_change_of_parameters_is_clipped_as_a_whole(client, length, kept):
    old = {"a": torch.ones(30), "b": torch.zeros(5, 4)}
    direction = normalize(torch.arange(50.0) - 20, dim=0)
    new = {"a": old["a"] + length * direction[:30]}
    new["b"] = old["b"] + length * direction[30:].reshape(5, 4)
    change = flat(privacy.noised_update(new, old, 0.5, QUIET, client)) - flat(old)
    torch.testing.assert_close(change, kept * direction, rtol=1e-4, atol=1e-6)


def test_noise_of_the_parameters_is_2_s_sigma(client):
    old = {"a": torch.zeros(100, 100), "b": torch.zeros(10_000)}
    released = privacy.noised_update(old, old, bound=0.5, sigma=3.0, client=client)
    for values in released.values():
        torch.testing.assert_close(values.std().item(), 2 * 0.5 * 3.0, rtol=0.03, atol=0)
    assert not torch.equal(released["a"].flatten(), released["b"])


# Class sums and counts


def test_every_representation_is_clipped_before_it_is_summed(net, client):
    z = representations(net, client)
    bound = z.norm(dim=1).median().item()  # above it and below it there are samples
    expected = torch.zeros(40, 64, dtype=torch.float64)
    for row, label in zip(z, client.y, strict=True):
        expected[label] += row * min(1.0, bound / row.norm().item())
    sums = release(net, client, bound)[:, :-1]
    torch.testing.assert_close(sums, expected, rtol=1e-4, atol=1e-5)


def test_counts_of_all_classes_are_released_also_of_absent_ones(net, client):
    sent = privacy.noised_class_sums(net, client, 0.5, LARGE, QUIET)
    assert (client.counts == 0).any()
    torch.testing.assert_close(sent["counts"], client.counts.float())
    assert sent["sums"].shape == (40, 64)


def test_sums_and_counts_together_are_clipped_to_the_bound_of_a_client(net, client):
    loose, tight = release(net, client), release(net, client, bound_sums=2.5)
    assert loose.norm() > 2.5
    torch.testing.assert_close(tight, loose * 2.5 / loose.norm(), rtol=1e-4, atol=1e-6)


def test_noise_of_sums_is_2_s_sigma_and_of_counts_2_sigma(net, client):
    rounds = [dataclasses.replace(client, round=number) for number in range(50)]
    noise = [
        privacy.noised_class_sums(net, one, 0.5, LARGE, sigma=3.0)["counts"] - client.counts
        for one in rounds
    ]
    torch.testing.assert_close(torch.stack(noise).std().item(), 2 * 3.0, rtol=0.05, atol=0)
    quiet = release(net, client, bound_z=0.5)[:, :-1]
    loud = release(net, client, bound_z=0.5, sigma=3.0)[:, :-1]
    torch.testing.assert_close((loud - quiet).std().item(), 2 * 0.5 * 3.0, rtol=0.05, atol=0)


def test_noise_is_new_in_every_round_and_of_every_client(federation, net, client):
    later = dataclasses.replace(client, round=1)
    other = dataclasses.replace(client, id=1)
    first = release(net, client, sigma=1.0)
    assert not torch.equal(first, release(net, later, sigma=1.0))
    assert not torch.equal(first, release(net, other, sigma=1.0))
    old = {"a": torch.zeros(9)}
    noised = [privacy.noised_update(old, old, 1.0, 1.0, one)["a"] for one in (client, later, other)]
    assert not torch.equal(noised[0], noised[1])
    assert not torch.equal(noised[0], noised[2])


def test_noise_of_the_sums_is_not_that_of_the_parameters(net, client):
    """Else who knows the one could take the other away."""
    old = {"a": torch.zeros(40, 65)}
    of_parameters = privacy.noised_update(old, old, 0.5, 1.0, client)["a"].double()
    of_sums = release(net, client, sigma=1.0) - release(net, client)
    both = torch.stack([of_parameters.flatten(), of_sums.flatten()])
    assert both.corrcoef()[0, 1].abs() < 0.1


def test_another_label_of_one_sample_moves_the_release_by_2_s(net, client):
    bound = representations(net, client).norm(dim=1).min().item()  # every z is clipped
    y = client.y.clone()
    y[0] = (y[0] + 1) % 40
    moved = release(net, client, bound) - release(net, dataclasses.replace(client, y=y), bound)
    torch.testing.assert_close(moved.norm().item(), 2 * bound, rtol=1e-4, atol=0)


def test_another_sample_moves_the_release_by_at_most_2_s(net, client):
    bound, release_of = 0.3, {}
    for shade in (0, 255):
        x = client.x[torch.arange(len(client.y))].clone()
        x[0] = shade
        release_of[shade] = release(net, dataclasses.replace(client, x=x), bound)
    moved = (release_of[0] - release_of[255]).norm()
    assert 0 < moved <= 2 * bound * (1 + 1e-4)


def test_clipping_the_sums_of_a_client_lets_a_sample_move_them_no_more(net, client):
    y = client.y.clone()
    y[0] = (y[0] + 1) % 40
    other = dataclasses.replace(client, y=y)
    loose = (release(net, client) - release(net, other)).norm()
    tight = (release(net, client, bound_sums=2.5) - release(net, other, bound_sums=2.5)).norm()
    assert 0 < tight <= loose * (1 + 1e-4)


# The server


def test_pooled_prototypes_weigh_clients_by_their_counts():
    first = {"sums": torch.tensor([[4.0, 0.0], [0.0, 2.0]]), "counts": torch.tensor([4.0, 2.0])}
    second = {"sums": torch.tensor([[0.0, 2.0], [0.0, 0.0]]), "counts": torch.tensor([1.0, 0.0])}
    omega = privacy.pooled_prototypes({0: {"s": first}, 1: {"s": second}}, "s", QUIET)
    torch.testing.assert_close(omega["means"], torch.tensor([[0.8, 0.4], [0.0, 1.0]]))
    assert omega["counts"].tolist() == [5.0, 2.0]


def test_classes_that_could_be_noise_have_no_prototype():
    limit = 3 * 2 * 0.5 * math.sqrt(4)  # three standard deviations of four counts
    counts = torch.tensor([limit - 0.1, limit + 0.1, -2 * limit]) / 4
    sent = {"sums": torch.ones(3, 2), "counts": counts}
    omega = privacy.pooled_prototypes({id: {"s": sent} for id in range(4)}, "s", sigma=0.5)
    assert omega["labels"].tolist() == [1]
    assert omega["labels"].dtype == torch.int32


# Accounting


def test_epsilon_of_one_release_against_values_computed_by_hand():
    # Renyi: the minimum over a of a/2 + log((a - 1)/a) - (log(delta) + log(a))/(a - 1) is 4.7284;
    # exactly, Phi(1/2 - e) - exp(e) Phi(-1/2 - e) = delta at e = 4.3772: the bound is not below it.
    assert privacy.epsilon((1.0,), 1, 1e-5) == pytest.approx(4.7284, rel=1e-3)
    assert privacy.epsilon((1.0,), 1, 1e-5) > 4.3772
    # one release with noise multiplier 2 in each of 3 rounds: 3 a/8 in place of a/2
    assert privacy.epsilon((2.0,), 3, 1e-5) == pytest.approx(4.0113, rel=1e-3)


@pytest.mark.parametrize("multiplier", [0.002, 100.0])
def test_epsilon_is_tight_where_much_and_where_little_is_spent(multiplier: float):
    """The minimum over a is near 1, or in the hundreds; here it is found on a finer grid."""

    def bound(a: float) -> float:
        spent = a / (2 * multiplier**2)
        return spent + math.log((a - 1) / a) - (math.log(1e-5) + math.log(a)) / (a - 1)

    least = min(bound(1 + math.exp(step / 100)) for step in range(-900, 900))
    assert privacy.epsilon((multiplier,), 1, 1e-5) == pytest.approx(least, rel=2e-3)


def test_both_releases_of_a_round_are_counted():
    assert privacy.epsilon((1.0, 1.0), 1, 1e-5) == pytest.approx(7.0772, rel=1e-3)
    assert privacy.epsilon((1.0, 1.0), 1, 1e-5) == privacy.epsilon((1.0,), 2, 1e-5)


@pytest.mark.parametrize("multipliers, rounds", [((1.0, 0.5), 1), ((2.0, 0.02), 7), ((8.0,), 200)])
def test_releases_and_rounds_add_up_to_one_gaussian_release(multipliers, rounds):
    together = 1 / math.sqrt(rounds * sum(1 / m**2 for m in multipliers))
    ours = privacy.epsilon(multipliers, rounds, 1e-5)
    assert ours == pytest.approx(privacy.epsilon((together,), 1, 1e-5), rel=1e-9)


def test_epsilon_grows_with_rounds_and_falls_with_noise_and_delta():
    assert privacy.epsilon((1.0,), 2, 1e-5) > privacy.epsilon((1.0,), 1, 1e-5)
    assert privacy.epsilon((2.0,), 1, 1e-5) < privacy.epsilon((1.0,), 1, 1e-5)
    assert privacy.epsilon((1.0,), 1, 1e-3) < privacy.epsilon((1.0,), 1, 1e-5)


def test_a_missing_accountant_is_said_with_how_to_get_it(monkeypatch):
    privacy.require_accountant()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'pflbench\[privacy\]'"):
        privacy.require_accountant()
