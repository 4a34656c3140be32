"""What a round of every method costs, relative to FedAvg's, beside the FedCoSR paper's seconds; and what it keeps."""

import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from pflbench.methods import registry
from pflbench.papers.fedcosr.tables import paper_table
from pflbench.simulation import messages
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation

from .interleave import Finding, Spread, ratio, speeds
from .problem import NEVER, setup, step

SLACK = 1.05  # of a measured ratio, for noise


def measure(turns: int) -> list[Finding]:
    """Seconds of training rounds of all methods over FedAvg's: 4 clients, 750 samples of CIFAR-10's size each.

    A method whose operations alone exceed the paper's ratio cannot meet it with the paper's hyperparameters: that is
    said, and it is then held against its operations.
    """
    published = {
        row["method"]: float(row["seconds_per_round"]) for row in paper_table("efficiency")
    }
    federations = {}
    for name in registry.names():
        run = setup(algorithm=name, clients=4, train=750, test=10, eval_every=NEVER)
        federations[name] = Federation(run, Serial(run))
    seen = speeds(
        {name: step(federation) for name, federation in federations.items()},
        turns,
        time.process_time,
    )
    work = {name: _operations(federation) for name, federation in federations.items()}
    found = []
    for name, federation in federations.items():
        title = federation.algorithm.title
        cost, paper = ratio(seen["fedavg"], seen[name]), published[title] / published["FedAvg"]
        found.append(
            _finding(title, cost, paper, work[name] / work["fedavg"], _private(federation))
        )
    return found


def _finding(title: str, cost: Spread, paper: float, operations: float, private: int) -> Finding:
    goal = max(paper, operations)
    what = "the paper's" if paper >= operations else "its operations"
    note = f"the paper's {paper:.2f}, operations {operations:.2f}; keeps {private / 1e6:.2f} MB a client"
    met = cost.median <= SLACK * goal
    return Finding(f"seconds of {title} / FedAvg", cost, f"<= {goal:.2f} ({what})", met, note)


def _operations(federation: Federation) -> float:
    """Floating-point operations of a round, of convolutions and matrix products."""
    torch.set_num_threads(1)
    with FlopCounterMode(display=False) as counter:
        federation.step()
    return float(counter.get_total_flops())


def _private(federation: Federation) -> int:
    """Bytes of a client's private state."""
    return sum(messages.parts(federation.state(0)).values())
