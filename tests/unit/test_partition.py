"""Partitions: hand-computed numbers, properties over random requests, and one line for every impossible request."""

import json
import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pflbench.data import class_counts, label_skew, partition, scarcity
from pflbench.errors import UserError
from pflbench.rng import numpy_stream
from pflbench.simulation.description import described
from pflbench.testing import TOY, split_by_class, toy

BALANCED = np.arange(1000) % 10


def make(spec: str, y: Any, classes: int, **options: Any) -> partition.Partition:
    return partition.make(spec, y, classes, partition.Options(**options))


def everything(made, client):
    return np.concatenate([made.train[client], made.test[client]])


def sizes(made):
    return [len(train) + len(test) for train, test in zip(made.train, made.test, strict=True)]


def label_sets(made, y):
    return [frozenset(y[everything(made, i)].tolist()) for i in range(len(made.train))]


def assert_covers(made, samples):
    """Every sample is somewhere, once, and all index arrays are sorted int64."""
    arrays = [*made.train, *made.test]
    assert np.array_equal(np.sort(np.concatenate(arrays)), np.arange(samples))
    assert all(a.dtype == np.int64 and (np.diff(a) > 0).all() for a in arrays)


labels = st.builds(
    lambda seed, classes, n: np.concatenate(
        [np.arange(classes), np.random.default_rng(seed).integers(0, classes, n)]
    ).astype(np.int64),
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(20, 400),
)


@settings(max_examples=60, deadline=None)
@given(
    y=labels,
    spec=st.sampled_from(["dir:0.001", "dir:0.1", "dir:1", "dir:1000", "iid"]),
    clients=st.integers(1, 20),
    minimum=st.integers(1, 20),
    seed=st.integers(0, 99),
)
def test_dirichlet_and_iid_divide_all_samples_with_the_minimum(y, spec, clients, minimum, seed):
    assume(clients * minimum <= len(y))
    made = make(spec, y, int(y.max()) + 1, clients=clients, seed=seed, min_samples=minimum)
    assert len(made.train) == len(made.test) == clients
    assert_covers(made, len(y))
    assert min(sizes(made)) >= minimum
    for train, test in zip(made.train, made.test, strict=True):
        assert len(train) >= 1
        assert len(test) >= (len(train) + len(test) >= 2)


@settings(max_examples=60, deadline=None)
@given(
    classes=st.integers(1, 12),
    each=st.integers(25, 60),
    clients=st.integers(1, 25),
    per_client=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_pathological_has_exact_class_counts_and_balanced_holders(
    classes, each, clients, per_client, seed
):
    assume(per_client <= classes <= clients * per_client)
    y = np.arange(classes * each) % classes
    made = make(f"path:{per_client}", y, classes, clients=clients, seed=seed, min_samples=1)
    assert_covers(made, len(y))
    sets = label_sets(made, y)
    assert {len(labels) for labels in sets} == {per_client}
    holders = np.bincount([label for labels in sets for label in labels], minlength=classes)
    assert holders.min() >= 1
    assert np.ptp(holders) <= 1
    for label in range(classes):
        shares = [n for i in range(clients) if (n := np.sum(y[everything(made, i)] == label))]
        assert np.ptp(shares) <= 1


def test_pathological_label_sets_are_not_a_few_repeated_groups():
    for seed in range(5):
        made = make("path:2", BALANCED, 10, clients=20, seed=seed)
        assert len(set(label_sets(made, BALANCED))) >= 12
    pairs = {
        pair
        for seed in range(40)
        for pair in label_sets(make("path:2", BALANCED, 10, clients=20, seed=seed), BALANCED)
    }
    assert len(pairs) == 45  # all pairs of 10 classes occur


def test_pathological_extra_holders_go_to_the_largest_classes():
    y = np.repeat([0, 1, 2], [30, 3, 3])
    for seed in range(10):
        made = make("path:1", y, 3, clients=10, seed=seed, min_samples=1)
        assert sorted(map(sorted, label_sets(made, y))) == [[0]] * 4 + [[1]] * 3 + [[2]] * 3


def test_iid_sizes_and_split_by_hand():
    made = make("iid", np.zeros(43, dtype=np.int64), 1, clients=4)
    assert sorted(sizes(made)) == [10, 11, 11, 11]
    # round(0.25 * 10) = 2 (half to even), round(0.25 * 11) = 3
    assert sorted(len(test) for test in made.test) == [2, 3, 3, 3]


def test_one_and_two_samples_split():
    one = make("iid", np.zeros(1, dtype=np.int64), 1, clients=1, min_samples=1)
    assert [one.train[0].tolist(), one.test[0].tolist()] == [[0], []]
    for fraction in (0.01, 0.99):
        two = make(
            "iid", np.zeros(2, dtype=np.int64), 1, clients=1, min_samples=1, test_fraction=fraction
        )
        assert len(two.train[0]) == len(two.test[0]) == 1


class FixedShares(np.random.Generator):
    """A generator whose Dirichlet draws are given and whose permutations do not permute."""

    def __init__(self, *draws):
        super().__init__(np.random.PCG64(0))
        self.draws = list(draws)

    def dirichlet(self, alpha, size=None):
        return np.array(self.draws.pop(0))

    def permutation(self, x, axis=0):
        return np.arange(x)


def test_dirichlet_by_hand():
    # 3 clients, 2 classes of 6: client 0 has 4 = 12 / 3 after class 0 and gets none of class 1
    rng = FixedShares([4 / 6, 1 / 6, 1 / 6], [0.8, 0.05, 0.15])
    counts = label_skew.dirichlet("1", np.array([6, 6]), 3, rng)
    assert counts.tolist() == [
        [4, 0],
        [1, 2],
        [1, 4],
    ]  # 0.05 : 0.15 of 6 is 1.5 : 4.5, cut at rint(1.5) = 2


def test_dirichlet_that_underflows_goes_evenly_to_clients_that_are_not_full():
    rng = FixedShares([1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    counts = label_skew.dirichlet("1e-9", np.array([6, 6]), 3, rng)
    assert counts.tolist() == [[6, 0], [0, 3], [0, 3]]


def test_dirichlet_limits():
    y = np.arange(10_000) % 10
    even = make("dir:1e6", y, 10, clients=5)
    table = [np.bincount(y[everything(even, i)], minlength=10) for i in range(5)]
    assert np.ptp(table) <= 20
    largest = []  # mean share of a client's largest class: 1 / 10 when even, 1 when a client has one class
    for beta in (0.01, 0.3, 10):
        made = make(f"dir:{beta}", y, 10, clients=20)
        tables = [np.bincount(y[everything(made, i)]) for i in range(20)]
        largest.append(np.mean([table.max() / table.sum() for table in tables]))
    assert largest[0] > largest[1] + 0.1 > largest[2] + 0.2
    for extreme in ("1e-300", "1.7e308"):
        assert_covers(make(f"dir:{extreme}", y, 10, clients=5), len(y))


def test_repair_takes_from_the_largest_client():
    counts = np.array([[20, 4], [3, 5], [0, 1]])
    label_skew.repair(counts, 3, fixed=False)
    assert counts.tolist() == [[18, 4], [3, 5], [2, 1]]


def test_repair_of_pathological_moves_held_classes_only():
    # client 2 holds class 2 only; the largest client 0 does not hold it, client 1 does
    counts = np.array([[40, 40, 0], [0, 5, 9], [0, 0, 2]])
    label_skew.repair(counts, 6, fixed=True)
    assert counts.tolist() == [[40, 40, 0], [0, 5, 5], [0, 0, 6]]
    # the largest client keeps its last sample of class 1, so the next one gives too
    counts = np.array([[50, 2], [5, 4], [0, 1]])
    label_skew.repair(counts, 3, fixed=True)
    assert counts.tolist() == [[50, 1], [5, 3], [0, 3]]
    lone = np.array([[40, 0], [0, 2]])
    with pytest.raises(
        UserError, match="client 1 has 2 samples of its classes 1, below min_samples = 6"
    ):
        label_skew.repair(lone, 6, fixed=True)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(2, 15), minimum=st.integers(1, 12))
def test_pathological_repair_keeps_label_sets_on_unbalanced_classes(seed, clients, minimum):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(6), rng.integers(15, 200, 6))
    assume(clients * 3 >= 6)
    try:
        made = make("path:3", y, 6, clients=clients, seed=seed, min_samples=minimum)
    except UserError as error:
        assert "no other holder can spare one" in str(error)  # noqa: PT017
        return
    assert min(sizes(made)) >= minimum
    assert {len(labels) for labels in label_sets(made, y)} == {3}
    assert_covers(made, len(y))


@pytest.mark.parametrize("spec", ["dir:0.1", "path:2", "iid"])
def test_deterministic_and_seeded(spec):
    made = make(spec, BALANCED, 10, seed=3)
    again = make(spec, BALANCED, 10, seed=3)
    assert made.digest == again.digest
    assert all(np.array_equal(a, b) for a, b in zip(made.train, again.train, strict=True))
    assert len({make(spec, BALANCED, 10, seed=seed).digest for seed in range(5)}) == 5


def test_stored_digest():
    """The partition of a seed must not change between versions: results refer to it."""
    assert make("dir:0.1", BALANCED, 10).digest == "1a86ee7b3a9fd255"
    assert make("path:2", BALANCED, 10, data_fraction=0.5).digest == "3f0b7cf960453fbe"
    assert make("dir:0.1", BALANCED, 10, validation=0.2).digest == "68bc94f162cec660"
    assert make("iid", BALANCED, 10, max_samples=20).digest == "97b11d3ee93857f8"
    drawn = make("dir:0.5", BALANCED, 10, clients=10, samples_per_client=(10, 20))
    assert drawn.digest == "c4a0bd8dd9370639"


def test_digest_sees_the_boundaries():
    def digest(*parts):
        train, test = zip(
            *[(np.array(a, dtype=np.int64), np.array(b, dtype=np.int64)) for a, b in parts],
            strict=True,
        )
        return partition.Partition(train, test).digest

    whole = digest(([0, 1], [2]), ([3], [4]))
    assert len(whole) == 16
    assert whole != digest(([0], [1, 2]), ([3], [4]))
    assert whole != digest(([0, 1], [2, 3]), ([4], []))
    assert whole == digest(([0, 1], [2]), ([3], [4]))


def test_digest_sees_the_validation_part():
    one, other = (np.array([row], dtype=np.int64) for row in (5, 6))
    digests = {
        partition.Partition((one,), (one,), *held).digest for held in ((), ((one,),), ((other,),))
    }
    assert len(digests) == 3


def test_data_fraction_by_hand():
    y = np.repeat([0, 1, 2], [50, 30, 20])
    train = np.arange(100)
    for keep, counts in {0.1: [5, 3, 2], 0.5: [25, 15, 10], 0.2: [10, 6, 4]}.items():
        kept = scarcity.choose(train, y, round(keep * 100), numpy_stream("test"))
        assert np.bincount(y[kept]).tolist() == counts
    made = make("iid", y, 3, clients=2, data_fraction=0.001)
    assert [len(rows) for rows in made.train] == [1, 1]


def test_quota_has_no_alabama_paradox():
    # 6 : 6 : 2 of 10 is 4.29, 4.29, 1.43, so the third gets the rest; of 11 it is 4.71, 4.71, 1.57, and it loses it
    have = np.array([6, 6, 2])
    assert partition.largest_remainder(have, 10).tolist() == [4, 4, 2]
    assert partition.largest_remainder(have, 11).tolist() == [5, 5, 1]
    totals = [scarcity.quota(have, total) for total in range(15)]
    assert all((b >= a).all() and b.sum() == a.sum() + 1 for a, b in pairwise(totals))
    assert totals[14].tolist() == [6, 6, 2]
    y = np.repeat([0, 1, 2], have)
    ten, eleven = (
        scarcity.choose(np.arange(14), y, total, numpy_stream("test")) for total in (10, 11)
    )
    assert (len(ten), len(eleven)) == (10, 11)
    assert set(ten) < set(eleven)


@settings(max_examples=50, deadline=None)
@given(
    y=labels,
    spec=st.sampled_from(["dir:0.5", "iid"]),
    fractions=st.tuples(st.floats(0.001, 1.0), st.floats(0.001, 1.0)),
    seed=st.integers(0, 99),
)
def test_data_fraction_is_nested_proportional_and_leaves_the_test_part(y, spec, fractions, seed):
    low, high = sorted(fractions)
    options = {"clients": 2, "seed": seed, "min_samples": 5}
    classes = int(y.max()) + 1
    whole = make(spec, y, classes, **options)
    small = make(spec, y, classes, data_fraction=low, **options)
    large = make(spec, y, classes, data_fraction=high, **options)
    for i in range(2):
        assert set(small.train[i]) <= set(large.train[i]) <= set(whole.train[i])
        assert np.array_equal(small.test[i], whole.test[i])
        n = len(whole.train[i])
        total = max(1, round(low * n))
        assert len(small.train[i]) == total
        exact = np.bincount(y[whole.train[i]], minlength=classes) * total / n
        assert (np.abs(np.bincount(y[small.train[i]], minlength=classes) - exact) < 1).all()


def test_scarce_clients_are_the_last_ones_only():
    whole = make("iid", BALANCED, 10, clients=5)
    made = make("iid", BALANCED, 10, clients=5, data_fraction=0.1, scarce_clients=2)
    everyone = make("iid", BALANCED, 10, clients=5, data_fraction=0.1)
    assert [len(train) for train in whole.train] == [150] * 5
    assert [len(train) for train in made.train] == [150, 150, 150, 15, 15]
    assert [len(train) for train in everyone.train] == [15] * 5
    assert all(np.array_equal(a, b) for a, b in zip(made.train[:3], whole.train[:3], strict=True))
    assert all(
        np.array_equal(a, b) for a, b in zip(made.train[3:], everyone.train[3:], strict=True)
    )


@pytest.mark.parametrize("scarce", [1, 4, 5])
def test_one_to_all_clients_can_be_scarce(scarce):
    made = make("iid", BALANCED, 10, clients=5, data_fraction=0.1, scarce_clients=scarce)
    assert [len(train) for train in made.train] == [150] * (5 - scarce) + [15] * scarce


@settings(max_examples=50, deadline=None)
@given(
    y=labels,
    spec=st.sampled_from(["dir:0.5", "iid"]),
    data_fraction=st.sampled_from([1.0, 0.6]),
    fractions=st.tuples(st.floats(0.2, 0.99), st.floats(0.2, 0.99)),
    seed=st.integers(0, 99),
)
def test_validation_is_a_nested_proportional_piece_of_what_is_kept_for_training(
    y, spec, data_fraction, fractions, seed
):
    low, high = sorted(fractions)
    options = {"clients": 2, "seed": seed, "min_samples": 8, "data_fraction": data_fraction}
    classes = int(y.max()) + 1
    whole = make(spec, y, classes, **options)
    small = make(spec, y, classes, validation=low, **options)
    large = make(spec, y, classes, validation=high, **options)
    for i in range(2):
        assert [len(rows) for rows in whole.validation] == [0, 0]
        assert set(small.validation[i]) <= set(large.validation[i])
        for made, fraction in ((small, low), (large, high)):
            assert np.array_equal(made.test[i], whole.test[i])
            assert np.array_equal(
                np.sort(np.concatenate([made.train[i], made.validation[i]])), whole.train[i]
            )
            assert all(
                (np.diff(rows) > 0).all() and rows.dtype == np.int64
                for rows in (made.train[i], made.validation[i])
            )
            n = len(whole.train[i])
            total = min(round(fraction * n), n - 1)
            assert len(made.validation[i]) == total
            exact = np.bincount(y[whole.train[i]], minlength=classes) * total / n
            assert (np.abs(np.bincount(y[made.validation[i]], minlength=classes) - exact) < 1).all()


def test_validation_by_hand(tmp_path):
    # 50 : 30 : 20 divides evenly; of 20 : 1 the rare class stays for training; of two samples, and of one, one stays
    y = np.repeat([0, 1, 2, 0, 1, 0, 0], [50, 30, 20, 20, 1, 2, 1])
    train = np.split(np.arange(124), [100, 121, 123])
    partition.Partition(tuple(train), (np.zeros(0, dtype=np.int64),) * 4).save(tmp_path / "p.npz")
    made = make(f"file:{tmp_path / 'p.npz'}", y, 3, clients=None, validation=0.2)
    assert [np.bincount(y[rows]).tolist() for rows in made.validation] == [[10, 6, 4], [4], [], []]
    made = make(f"file:{tmp_path / 'p.npz'}", y, 3, clients=None, validation=0.99)
    assert [len(rows) for rows in made.train] == [1, 1, 1, 1]


def test_samples_per_client_shrinks_in_proportion():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = make("path:2", BALANCED, 10, clients=10, samples_per_client=(20, 40))
    whole = make("path:2", BALANCED, 10, clients=10)
    assert len(set(sizes(made))) > 1
    for i, size in enumerate(sizes(made)):
        assert 20 <= size <= 40
        assert set(everything(made, i)) <= set(everything(whole, i))
        counts = np.bincount(BALANCED[everything(made, i)])
        assert np.ptp(counts[counts > 0]) <= 1
    joined = np.concatenate([*made.train, *made.test])
    assert len(joined) == len(set(joined.tolist()))


def test_samples_per_client_with_overlap():
    with pytest.warns(UserWarning, match="training and test samples of different clients overlap"):
        made = make("path:2", BALANCED, 10, clients=20, samples_per_client=(150, 160), overlap=True)
    assert all(150 <= size <= 160 for size in sizes(made))
    for i in range(20):
        own = everything(made, i)
        assert len(own) == len(set(own.tolist()))
    assert {len(labels) for labels in label_sets(made, BALANCED)} == {2}
    assert sum(sizes(made)) > len(BALANCED)


def test_max_samples_by_hand():
    # client 0 has 6 : 3 : 1 of 10, of 8 that is 4.8, 2.4, 0.8: 4 + 1, 2, 0 + 1; client 1 has 7 and keeps them
    y = np.repeat([0, 1, 2], [6, 3, 1])
    owned = [np.arange(10), np.arange(10, 17)]
    cut = partition.resize(
        owned, np.concatenate([y, np.zeros(7, dtype=np.int64)]), [8, 7], False, 0
    )
    assert np.bincount(y[cut[0]]).tolist() == [5, 2, 1]
    assert cut[1].tolist() == owned[1].tolist()


@pytest.mark.parametrize("spec", ["dir:0.1", "path:2", "iid"])
def test_max_samples_bounds_train_and_test_together(spec):
    whole = make(spec, BALANCED, 10, clients=12)
    made = make(spec, BALANCED, 10, clients=12, max_samples=30)
    assert sizes(made) == [min(size, 30) for size in sizes(whole)]
    assert {len(test) for test, size in zip(made.test, sizes(made), strict=True) if size == 30} == {
        8
    }  # round(7.5)
    for i, size in enumerate(sizes(whole)):
        assert set(everything(made, i)) <= set(everything(whole, i))
        before, after = (
            np.bincount(BALANCED[everything(p, i)], minlength=10) for p in (whole, made)
        )
        assert np.abs(after - before * min(30 / size, 1)).max() < 1


def test_max_samples_that_nobody_has_changes_nothing():
    assert make("dir:0.1", BALANCED, 10, max_samples=1000).digest == "1a86ee7b3a9fd255"


def test_max_samples_that_all_exceed_is_one_size_for_all():
    made = make("iid", BALANCED, 10, max_samples=20)
    assert made.digest == make("iid", BALANCED, 10, samples_per_client=(20, 20)).digest


def test_classes_of_clients_by_hand():
    y = np.array([2, 0, 2, 1, 2])
    rows = [np.array([0, 1, 2]), np.array([], dtype=np.int64), np.array([3])]
    counts = class_counts.sparse(rows, y, 3)
    assert counts == [{"0": 1, "2": 2}, {}, {"1": 1}]
    assert class_counts.dense(counts, 4).tolist() == [[1, 0, 2, 0], [0, 0, 0, 0], [0, 1, 0, 0]]


def test_majority_by_hand():
    train = [{"10": 3, "2": 3}, {"0": 1, "1": 2}, {"1": 9}, {"5": 1}]
    test = [{"2": 1, "10": 3}, {"1": 3, "0": 1}, {}, {"4": 2}]
    assert class_counts.majority(train, test) == [0.25, 0.75, None, 0.0]


def test_run_json_has_the_classes_of_every_client():
    setup = toy(
        "fedavg", split=split_by_class(TOY["dataset"], [[0, 0, 3], [2]], [[3, 3], []])
    ).setup
    about = json.loads(json.dumps(described(setup, 1)))["partition"]
    assert about["train_classes"] == [{"0": 2, "3": 1}, {"2": 1}]
    assert about["test_classes"] == [{"3": 2}, {}]


def test_ten_thousand_clients_are_quick():
    y = np.random.default_rng(0).integers(0, 10, 60_000)
    start = time.perf_counter()
    for spec in ("dir:0.1", "path:2"):
        made = make(spec, y, 10, clients=10_000, min_samples=3)
        assert min(sizes(made)) >= 3
        assert class_counts.dense(class_counts.sparse(made.train, y, 10), 10).sum() == sum(
            map(len, made.train)
        )
    assert time.perf_counter() - start < 15


def test_file_round_trip(tmp_path):
    made = make("dir:0.1", BALANCED, 10, clients=7, min_samples=2)
    path = tmp_path / "partition.bin"
    made.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["partition.bin"]
    for clients in (7, None):
        back = make(f"file:{path}", BALANCED, 10, clients=clients, seed=99)
        assert back.digest == made.digest
        assert back.train[0].dtype == np.int64
    scarce = make(f"file:{path}", BALANCED, 10, clients=None, data_fraction=0.5)
    direct = make("dir:0.1", BALANCED, 10, clients=7, min_samples=2, data_fraction=0.5)
    assert scarce.digest == direct.digest


def test_file_with_a_validation_part(tmp_path):
    made = make("dir:0.1", BALANCED, 10, clients=7, validation=0.3)
    made.save(tmp_path / "p.npz")
    spec = f"file:{tmp_path / 'p.npz'}"
    assert make(spec, BALANCED, 10, clients=None).digest == made.digest
    scarce = make(spec, BALANCED, 10, clients=None, data_fraction=0.1)
    assert scarce.validation[0].tolist() == made.validation[0].tolist()
    with pytest.raises(
        UserError, match="validation cannot be used with a file:PATH that has a validation part"
    ):
        make(spec, BALANCED, 10, clients=None, validation=0.1)


def test_save_says_where_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    made = make("iid", BALANCED, 10)
    with pytest.raises(UserError, match="cannot write the partition to"):
        made.save(tmp_path / "file" / "p.npz")


BAD_FILES = {
    "gap": ({"train_0": [0], "test_0": [1], "train_2": [2], "test_2": [3]}, "without a gap"),
    "odd": ({"train_0": [0], "test_0": [1], "train_1": [2]}, "two for each client"),
    "empty": ({}, "train_0, test_0"),
    "range": ({"train_0": [0], "test_0": [1000]}, "outside 0..999"),
    "negative": ({"train_0": [-1], "test_0": [3]}, "outside 0..999"),
    "float": ({"train_0": [0.5], "test_0": [1]}, "must be integers"),
    "matrix": ({"train_0": [[0, 1]], "test_0": [3]}, "one axis"),
    "repeated": ({"train_0": [5, 5], "test_0": [1]}, "sample twice"),
    "leak": ({"train_0": [5, 6], "test_0": [6]}, "sample twice"),
    "no validation_1": (
        {"train_0": [0], "test_0": [1], "validation_0": [2], "train_1": [3], "test_1": [4]},
        "or three, with validation_0",
    ),
    "held out twice": (
        {"train_0": [5, 6], "test_0": [1], "validation_0": [6]},
        "test_0 and validation_0",
    ),
    "no train": ({"train_0": np.zeros(0, dtype=int), "test_0": [6]}, "no training sample"),
    "objects": ({"train_0": np.array([{}], dtype=object), "test_0": [6]}, "plain arrays"),
}


@pytest.mark.parametrize("arrays, words", BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(tmp_path, arrays, words):
    path = tmp_path / "bad.npz"
    plain: Any = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(path, **plain)
    with pytest.raises(UserError, match=words) as caught:
        make(f"file:{path}", BALANCED, 10, clients=None)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"text\nmore text", b"PK\x03\x04 cut"])
def test_files_that_are_no_archives(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"bad\.npz") as caught:
        make(f"file:{path}", BALANCED, 10, clients=None)
    assert "\n" not in str(caught.value)


def test_file_with_another_number_of_clients(tmp_path):
    make("iid", BALANCED, 10, clients=4).save(tmp_path / "p.npz")
    with pytest.raises(UserError, match="has 4 clients, but clients = 20"):
        make(f"file:{tmp_path / 'p.npz'}", BALANCED, 10)


BAD_REQUESTS = [
    ("dir:0", {}, "dir:BETA"),
    ("dir:-1", {}, "above 0"),
    ("dir:nan", {}, "above 0"),
    ("dir:inf", {}, "finite"),
    ("dir:a", {}, "given: 'a'"),
    ("dir", {}, "dir:BETA"),
    ("path:0", {}, "1..10"),
    ("path:-2", {}, "1..10"),
    ("path:11", {}, "1..10"),
    ("path:2.5", {}, "whole number"),
    ("path", {}, "path:CLASSES"),
    ("path:1", {"clients": 9}, "room for 9 of the 10 classes"),
    ("path:10", {"clients": 200, "min_samples": 1}, "class 0 has 100 samples for the 200 clients"),
    ("iid:3", {}, "takes no argument"),
    ("idd", {}, "did you mean 'iid'"),
    ("zipf:2", {}, "known: dir:BETA, domains:K, file:PATH, iid, natural, path:CLASSES"),
    ("file:", {}, "file:PATH"),
    ("file:/no/such.npz", {}, "cannot read /no/such.npz"),
    ("iid", {"clients": 0}, "at least 1, not 0"),
    ("iid", {"clients": None}, "at least 1, not None"),
    ("iid", {"clients": 1001}, "1001 clients are more than the 1000 samples"),
    (
        "iid",
        {"clients": 101},
        "101 clients with min_samples = 10 need 1010 samples, but there are 1000",
    ),
    ("iid", {"min_samples": 0}, "min_samples must be at least 1"),
    ("iid", {"test_fraction": 0.0}, "test_fraction"),
    ("iid", {"test_fraction": 1.0}, "test_fraction"),
    ("iid", {"test_fraction": float("nan")}, "test_fraction"),
    ("iid", {"data_fraction": 0.0}, "data_fraction must be above 0"),
    ("iid", {"data_fraction": 1.1}, "data_fraction must be above 0"),
    ("iid", {"scarce_clients": 0}, "scarce_clients must be 1..20"),
    ("iid", {"scarce_clients": 21, "data_fraction": 0.5}, "scarce_clients must be 1..20"),
    ("iid", {"validation": 1.0}, "validation must be at least 0 and below 1, not 1.0"),
    ("iid", {"validation": -0.1}, "validation must be at least 0"),
    ("iid", {"validation": float("nan")}, "validation must be at least 0"),
    ("iid", {"validation": 0.01}, "validation = 0.01 holds out no sample"),
    ("iid", {"overlap": True}, "samples_per_client"),
    ("iid", {"samples_per_client": (30, 20)}, "LO <= HI"),
    ("iid", {"samples_per_client": (5, 20)}, "below min_samples = 10"),
    ("iid", {"samples_per_client": (51, 60)}, "has 50 samples, fewer than the .* set overlap"),
    ("file:x", {"samples_per_client": (20, 30)}, "cannot be used with file:PATH"),
    ("file:x", {"max_samples": 20}, "max_samples cannot be used with file:PATH"),
    ("iid", {"max_samples": 9}, "max_samples = 9 is below min_samples = 10"),
    (
        "iid",
        {"max_samples": 20, "samples_per_client": (20, 30)},
        "max_samples .* together with samples_per_client",
    ),
]


@pytest.mark.parametrize("spec, options, words", BAD_REQUESTS)
def test_impossible_requests_say_why_in_one_line(spec, options, words):
    with pytest.raises(UserError, match=words) as caught:
        make(spec, BALANCED, 10, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "spec, options, size",
    [
        ("iid", {"samples_per_client": (1, 1), "min_samples": 1}, 1),
        ("iid", {"samples_per_client": (10, 10)}, 10),
        ("iid", {"max_samples": 10}, 10),
        ("iid", {"clients": 100}, 10),
        ("iid", {"clients": 1000, "min_samples": 1}, 1),
        ("path:1", {"clients": 10}, 100),
        ("path:10", {"clients": 100, "min_samples": 1}, 10),
    ],
)
def test_requests_at_the_limit_are_possible(spec, options, size):
    assert set(sizes(make(spec, BALANCED, 10, **options))) == {size}


@pytest.mark.filterwarnings("ignore:overlap")
def test_overlap_cannot_exceed_a_class():
    with pytest.raises(
        UserError, match=r"needs 101 samples of class \d to have 202 samples .* the class has 100"
    ):
        make("path:2", BALANCED, 10, samples_per_client=(202, 202), overlap=True)
