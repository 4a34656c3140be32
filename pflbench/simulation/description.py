"""What a run is, as its record describes it."""

from typing import Any

from pflbench import config
from pflbench.data import class_counts
from pflbench.methods import costs, describe, given
from pflbench.methods.hyperparameters import defaults
from pflbench.records import provenance
from pflbench.simulation.client_worker import Setup


def described(setup: Setup, workers: int, scale: str | None = None) -> dict[str, Any]:
    """The content of `run.json`, but for the run's id; `scale` is the tier of a sweep."""
    data = setup.data
    return {
        "config": config.as_json(setup.run),
        "scale": scale,
        "method": _method(setup),
        "data": {"title": data.title, "digest": data.digest, "classes": data.classes},
        "partition": _partition(setup),
        **provenance.environment(setup.device, workers),
    }


def _method(setup: Setup) -> dict[str, Any]:
    method = setup.algorithm()
    down, up = costs.stated(method)
    source = given.source_of(type(method)) if isinstance(setup.plugin, given.Given) else ""
    return {
        "title": method.title,
        "family": method.family,
        "evaluated_model": describe.documented(describe.docstring(type(method)))[1].get(
            "Evaluated", ""
        ),
        "evaluation_point": method.evaluation_point,
        "one_shot": method.one_shot,
        "costs": {"down": down, "up": up},
        "defaults": defaults(type(method.hp), setup.run.dataset),
        **({"source": source} if source else {}),
    }


def _partition(setup: Setup) -> dict[str, Any]:
    """Its digest and, for every client, how many samples it has, in all and of each class."""
    data, parts = setup.data, setup.partition.parts
    sizes = {f"n_{part}": [len(rows) for rows in clients] for part, clients in parts.items()}
    classes = {
        f"{part}_classes": class_counts.sparse(clients, data.y, data.classes)
        for part, clients in parts.items()
    }
    return {"digest": setup.partition.digest, **sizes, **classes}
