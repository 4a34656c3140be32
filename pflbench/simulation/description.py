"""What a run is, as its record describes it."""

from typing import Any

from pflbench import config
from pflbench.data import class_counts, natural
from pflbench.methods import costs, describe, given
from pflbench.methods.hyperparameters import defaults
from pflbench.records import provenance
from pflbench.simulation.client_worker import Setup


def described(setup: Setup, workers: int, scale: str | None = None) -> dict[str, Any]:
    """The content of `run.json`, but for the run's id; `scale` is the tier of a sweep."""
    return {
        "config": config.as_json(setup.run),
        "scale": scale,
        "method": _method(setup),
        "data": _data(setup),
        "partition": _partition(setup),
        **provenance.environment(setup.device, workers),
    }


def _data(setup: Setup) -> dict[str, Any]:
    """What is known of the data set and, of features, by what they are standardized."""
    data = setup.data
    about: dict[str, Any] = {"title": data.title, "digest": data.digest, "classes": data.classes}
    if data.kind != "images":
        about.update(kind=data.kind, shape=list(data.shape))
    if data.vocabulary is not None:
        about["vocabulary"] = data.vocabulary
    if data.class_names:
        about["class_names"] = list(data.class_names)
    if data.kind == "features":
        scale = setup.standard
        about["standardized"] = scale and {"mean": list(scale.mean), "std": list(scale.std)}
    return about


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
    return {"digest": setup.partition.digest, **sizes, **classes, **_owners(setup)}


def _owners(setup: Setup) -> dict[str, Any]:
    """Whose samples every client of a natural partition has, by the names in the data."""
    data = setup.data
    if data.client is None or setup.run.partition.partition(":")[0] not in natural.KINDS:
        return {}
    return {"owners": [data.client_names[data.client[rows[0]]] for rows in setup.partition.train]}
