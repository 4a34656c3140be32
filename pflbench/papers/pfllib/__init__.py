"""The leaderboard of PFLlib: accuracies from the benchmark page of the public repository
TsingZ0/PFLlib. Those of CIFAR-10 are from FedALA's Table 2 as a third party copied it.
"""

import dataclasses
from pathlib import Path

from pflbench.papers.paper import Config, dataset_of
from pflbench.papers.published import Published, by_source
from pflbench.records.published import read_csv

PAGE = "PFLlib's leaderboard"
DATASETS = ("cifar10", "cifar100", "fashion_mnist")
CONDITIONS = {
    PAGE: (
        "It states: a CNN with two convolutions of 5x5 and a hidden layer of 512; 20 clients, all in"
        " every round; batches of 10; one local epoch; SGD with rate 0.005; 2,000 rounds; three"
        " trials; the best round on the test samples, weighted by test samples. Its FedAMP trains"
        " without its penalty, its pFedMe may be the global model, and its FedAvg at Dirichlet 0.5"
        " looks like a misprint. Its partitions are not known."
    ),
    "FedALA, Table 2": "These are as a third party copied them, and less certain.",
}


def leaderboard() -> list[Published]:
    """The leaderboard, and FedALA's table."""
    found = by_source(read_csv(Path(__file__).parent / "leaderboard.csv"))
    return [
        dataclasses.replace(
            one,
            conditions=CONDITIONS[one.source],
            scenario_of=scenario_of,
            best_round_weighted=one.source == PAGE,
        )
        for one in found
    ]


def scenario_of(config: Config) -> str:
    """A run's scenario as the leaderboard has it: 20 clients, all in every round, with all of their
    data; "" for any other.
    """
    usual = config["clients"] == 20 and config["participation"] == 1.0
    if not usual or config["data_fraction"] != 1.0:
        return ""
    dataset = dataset_of(config["dataset"], DATASETS)
    return f"{dataset} {config['partition']}" if dataset else ""
