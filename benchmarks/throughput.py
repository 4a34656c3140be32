"""Training alone: samples per second of the harness (FedAvg, the paper's CNN, batches of 16, one thread) against a bare
loop over the same samples, and how much of the core's peak that is.
"""

import time

import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from pflbench.simulation.client_worker import Setup
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation

from .bare import BareLoop
from .interleave import Finding, Turn, at_least, ratio, speeds, spread
from .problem import CIFAR, EMNIST, NEVER, setup, step

SIZE = 1024  # of the square matrices whose product may be the peak; larger ones are no quicker


def measure(turns: int) -> list[Finding]:
    """Harness over bare loop for both sizes of images; share of the peak for CIFAR-10's."""
    found = []
    for name, dataset in (("CIFAR-10", CIFAR), ("EMNIST", EMNIST)):
        contest = contenders(setup(dataset, eval_every=NEVER))
        peaks = {"product": matrix_product, "convolution": convolution}
        seen = speeds({**contest, **peaks}, turns, time.process_time)
        found += [
            Finding(f"training, images of {name}'s size, samples/s", spread(seen["harness"])),
            at_least(
                f"harness / bare loop, {name}", ratio(seen["harness"], seen["bare loop"]), 0.95
            ),
        ]
        if dataset == CIFAR:
            work = flops_per_sample(setup(dataset))
            peak = [max(pair) for pair in zip(seen["product"], seen["convolution"], strict=True)]
            share = ratio([speed * work / 1e9 for speed in seen["harness"]], peak)
            note = f"{work / 1e6:.1f} MFLOP per sample, peak {spread(peak)} GFLOPS"
            found.append(at_least("share of the core's peak", share, 0.68, note))
    return found


def contenders(run: Setup) -> dict[str, Turn]:
    """The harness and the bare loop: a pass over all clients' samples each."""
    federation, bare = Federation(run, Serial(run)), BareLoop(run)
    samples = float(sum(map(len, run.partition.train)))
    return {"harness": step(federation, samples), "bare loop": bare.train}


def matrix_product() -> float:
    """Products of square matrices on one thread; 10^9 floating-point operations."""
    torch.set_num_threads(1)
    a, b = torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE)
    for _ in range(20):
        torch.mm(a, b)
    return 20 * 2 * SIZE**3 / 1e9


def convolution() -> float:
    """A large convolution on one thread, which may use wider instructions; 10^9 floating-point operations."""
    torch.set_num_threads(1)
    x = torch.ones(16, 128, 16, 16).contiguous(memory_format=torch.channels_last)
    weight = torch.ones(128, 128, 3, 3).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        for _ in range(20):
            torch.conv2d(x, weight)
    return 20 * 2 * 16 * 14 * 14 * 128 * 128 * 9 / 1e9


def flops_per_sample(run: Setup, batch: int = 16) -> float:
    """Floating-point operations of convolutions and matrix products, forward and backward."""
    algorithm = run.algorithm()
    net = algorithm.net(algorithm.task.initial).train()
    with FlopCounterMode(display=False) as counter:
        cross_entropy(
            net(torch.zeros(batch, *run.data.shape)), torch.zeros(batch, dtype=torch.int64)
        ).backward()
    return float(counter.get_total_flops()) / batch
