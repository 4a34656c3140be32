"""The hyperparameter `dropout`, which all methods have: it acts wherever a method trains."""

from typing import Any

import pytest

from pflbench.methods import files
from pflbench.testing import played, toy
from pflbench.testing.compare import difference

OPTIONS = {"feddbl": {"extractor": "fed_warmup"}}  # else it trains nothing


def learned(name: str, dropout: float) -> tuple[Any, Any]:
    """The states of server and clients after a round."""
    federation = played(toy(name, {**OPTIONS.get(name, {}), "dropout": dropout}), 1)
    return federation.server, federation.snapshot()["clients"]


@pytest.mark.parametrize("name", files.shipped())
def test_dropout_changes_what_training_leads_to(name: str):
    without = learned(name, 0.0)
    assert difference(without, learned(name, 0.0)) is None
    assert difference(without, learned(name, 0.5)) is not None
