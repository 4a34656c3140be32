"""The harness costs little beside training itself."""

import importlib
import time

import pytest

throughput = importlib.import_module("pflbench.benchmarks.throughput")
interleave = importlib.import_module("pflbench.benchmarks.interleave")
problem = importlib.import_module("pflbench.benchmarks.problem")


def share_of_bare_loop(contest):
    """Samples per second of the harness over those of the bare loop."""
    seen = interleave.speeds(contest, 3, time.process_time)
    return interleave.ratio(seen["harness"], seen["bare loop"]).median


@pytest.fixture(scope="module")
def contest():
    return throughput.contenders(
        problem.setup(clients=4, train=96, test=2, eval_every=problem.NEVER)
    )


def test_training_in_the_harness_is_at_least_half_as_fast_as_a_bare_loop(contest):
    # noise may hit one contender more, but not always
    assert any(share_of_bare_loop(contest) > 0.5 for _ in range(3))


def test_a_harness_of_a_third_of_its_speed_is_found_out(contest):
    def slow():
        contest["harness"]()
        contest["harness"]()
        return contest["harness"]()  # of three passes one counts

    assert share_of_bare_loop({**contest, "harness": slow}) < 0.5
