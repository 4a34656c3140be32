"""What `pflbench data show` shows of a partition."""

import json

import numpy as np
import pytest

from .commands import Call

WORDS = [
    "data",
    "show",
    "synthetic:classes=4,side=8,samples=160",
    "--partition",
    "iid",
    "--clients",
    "4",
]


@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_every_part_that_there_is_has_a_row(call: Call, validation: float):
    """40 samples a client: 30 to train on and 10 to test, of the 30 a fifth held out."""
    code, out, _ = call(*WORDS, "--validation", str(validation))
    assert code == 0
    rows = {
        line.rsplit(maxsplit=3)[0]: line.split()[-3:]
        for line in out.splitlines()
        if line[-1].isdigit()
    }
    parts = {"training samples": "30", "test samples": "10"}
    if validation:
        parts = {"training samples": "24", "test samples": "10", "validation samples": "6"}
    assert rows == {
        part: [number, f"{number}.0", number] for part, number in {**parts, "classes": "4"}.items()
    }

    shown = json.loads(call(*WORDS, "--validation", str(validation), "--json")[1])
    assert [*shown["summary"]] == [*parts, "classes"]
    counts = {part: np.array(table) for part, table in shown["counts"].items()}
    assert [*counts] == ["train", "test", "validation"][: len(parts)]
    assert sum(int(table.sum()) for table in counts.values()) == 160
