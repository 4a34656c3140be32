"""Whole rounds of FedAvg with evaluation: one worker, two workers, and FedAvg as other libraries write it."""

import time

from pflbench.methods.hyperparameters import make_run
from pflbench.simulation import runner
from pflbench.simulation.client_worker import Setup
from pflbench.simulation.engine import Processes, Serial
from pflbench.simulation.federation import Federation

from .bare import BareLoop
from .interleave import Finding, at_least, at_most, ratio, speeds, spread
from .peers import OneProcess, TwoProcesses
from .problem import NEVER, THREADS, step


def measure(turns: int) -> list[Finding]:
    """Contenders do the same work: 20 clients, Dir(0.1), 4,501 images of CIFAR-10's size, each round evaluated."""
    run = problem()
    bare = BareLoop(run)
    pool, loader, tensors = Processes(run, 2), TwoProcesses(run, True), TwoProcesses(run, False)
    try:
        one, two = Federation(run, Serial(run)), Federation(run, pool)
        for federation in (one, two):
            federation.start()
        contenders = {
            "two": step(two),
            "one": step(one),
            "bare": bare.round,
            f"one process, {THREADS} threads, DataLoader": OneProcess(run, True).round,
            f"one process, {THREADS} threads, tensors": OneProcess(run, False).round,
            "two processes, DataLoader": loader.round,
            "two processes, tensors": tensors.round,
        }
        seen = speeds(contenders, turns, time.perf_counter)
    finally:
        for engine in (pool, loader, tensors):
            engine.close()
    return _findings(seen)


def problem() -> Setup:
    """The run that all contenders do."""
    dataset = "synthetic:classes=10,side=32,channels=3,samples=4501"
    settings = {"dataset": dataset, "clients": 20, "partition": "dir:0.1", "rounds": NEVER}
    return runner.prepare(make_run("fedavg", settings, {}))


def _findings(seen: dict[str, list[float]]) -> list[Finding]:
    rest = [1 - two / (2 * bare) for two, bare in zip(seen["two"], seen["bare"], strict=True)]
    found = [
        Finding("seconds per round, two workers", spread([1 / speed for speed in seen["two"]])),
        at_least("two workers / one", ratio(seen["two"], seen["one"]), 1.8),
        at_most("share of a round that is no step and no evaluation", spread(rest), 0.08),
    ]
    peers = [name for name in seen if "process" in name]
    fastest = max(peers, key=lambda name: spread(seen[name]).median)
    for name in peers:
        against, what = ratio(seen["two"], seen[name]), f"two workers / {name}"
        found.append(at_least(what, against, 2.2) if name == fastest else Finding(what, against))
    return found
