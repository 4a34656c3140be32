"""Random streams: the same names give the same numbers, other names others."""

import subprocess
import sys

import torch

from pflbench.rng import numpy_stream, seed_of, stream


def test_same_names_same_numbers():
    assert torch.equal(
        torch.rand(5, generator=stream(0, "a", 1)), torch.rand(5, generator=stream(0, "a", 1))
    )
    assert (numpy_stream(0, "a").random(5) == numpy_stream(0, "a").random(5)).all()


def test_order_type_and_grouping_of_names_count():
    names = [(0, "a", 1), (0, 1, "a"), (0, "a", "1"), (0, "a1"), (1, "a", 0), (0, "a")]
    assert len({seed_of(*n) for n in names}) == len(names)


def test_global_generator_is_left_alone():
    before = torch.get_rng_state()
    torch.rand(3, generator=stream("x"))
    assert torch.equal(before, torch.get_rng_state())


def test_another_process_draws_the_same():
    code = "from pflbench.rng import seed_of; print(seed_of(7, 'cohort', 3))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(out) == seed_of(7, "cohort", 3)
