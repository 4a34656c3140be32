"""Rounds with a cohort of 20 of more and more clients, each number of clients in a process of its own."""

import resource
import time
from multiprocessing.connection import Connection

import torch

from pflbench.simulation import fork_server
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation

from .interleave import Finding, at_most, ratio
from .problem import setup

CLIENTS = (20, 100, 1_000, 10_000)
COHORT = 20


def measure(turns: int) -> list[Finding]:
    """Seconds of a round over those at 100 clients, and resident memory; 20 clients are evaluated."""
    context = fork_server.context()  # a child of this process would start with its peak of memory
    pipes: dict[int, Connection] = {}
    for clients in CLIENTS:
        pipes[clients], theirs = context.Pipe()
        context.Process(target=_play, args=(theirs, clients), daemon=True).start()
    seconds: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    memory: dict[int, float] = {}
    for turn in range(2 * turns + 1):
        for clients, pipe in pipes.items():
            pipe.send("round")
            spent, memory[clients] = pipe.recv()
            if turn:
                seconds[clients].append(spent)
    for pipe in pipes.values():
        pipe.close()
    found = []
    for clients in CLIENTS:
        cost = ratio(seconds[clients], seconds[100])
        if clients == max(CLIENTS):
            found.append(at_most(f"seconds per round, {clients} clients / 100", cost, 1.3))
            found.append(at_most(f"resident GB, {clients} clients", memory[clients], 3.0))
        elif clients != 100:
            found.append(Finding(f"seconds per round, {clients} clients / 100", cost))
    per_client = (memory[max(CLIENTS)] - memory[100]) / (max(CLIENTS) - 100) * 1e6
    found.append(Finding("resident kB for every further client", per_client))
    return found


def _play(pipe: Connection, clients: int) -> None:
    """A round whenever one is asked for; answers with its seconds and the most memory so far, in GB."""
    torch.set_num_threads(1)
    run = setup(
        algorithm="ditto",
        clients=clients,
        train=30,
        test=10,
        cohort=COHORT,
        evaluate_clients=COHORT,
    )
    federation = Federation(run, Serial(run))
    federation.start()
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        start = time.perf_counter()
        federation.step()
        spent = time.perf_counter() - start
        pipe.send((spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9))
