"""The FedCoSR paper's published numbers, as data."""

import csv
from pathlib import Path

from pflbench.papers.paper import Costs, Pair

AVERAGED = "Averaged"  # the paper's row of means
SEEDS = 5  # as its text says
PROPOSED = "FedCoSR"
# Rows of its tables, divided as by the rules in them; its own method stands alone in the last row.
GROUPS = {
    "alone": ("Local",),
    "one model": ("FedAvg", "FedProx", "MOON"),
    "one model, contrastive": ("FedRCL",),
    "regularized": ("pFedMe", "Ditto"),
    "meta-learned": ("PerFedAvg", "PeFLL"),
    "split": ("FedRep", "LG-FedAvg", "FedPer"),
    "aggregated for each client": ("FedAMP", "FedALA", "FedAS"),
    "sharing representations": (
        *("FedProto", "FedPAC", "FedGH", "pFedFDA", "FedDBL", "FedStream", PROPOSED),
    ),
}


def paper_table(name: str) -> list[dict[str, str]]:
    """The rows of a file: `accuracy`, `marks`, `efficiency`, `methods` or `cost_notes`."""
    path = Path(__file__).parent / f"{name}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column_key(line: dict[str, str]) -> str:
    """The scenario of a row of `accuracy` or `marks`: practical/cifar10/beta=0.1/20."""
    return "/".join(line[part] for part in ("setting", "dataset", "heterogeneity", "clients"))


def accuracy() -> dict[tuple[str, str], Pair]:
    """Accuracy and std in percent, by method and scenario."""
    found: dict[tuple[str, str], Pair] = {}
    for line in paper_table("accuracy"):
        if line["method"] != AVERAGED:
            mean, std = (float(line[name]) if line[name] else None for name in ("accuracy", "std"))
            found[line["method"], column_key(line)] = (mean, std)
    return found


def costs() -> dict[str, Costs]:
    """Rounds, seconds and communication of every method, and why its formula differs from the
    claim.
    """
    notes = {line["method"]: line["note"] for line in paper_table("cost_notes")}
    return {
        line["method"]: Costs(
            float(line["convergence_rounds"]),
            float(line["seconds_per_round"]),
            line["communication"],
            notes.get(line["method"], ""),
        )
        for line in paper_table("efficiency")
        if line["method"] != AVERAGED
    }
