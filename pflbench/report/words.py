"""Phrases that captions of tables, figures and lists share."""

import re
from collections.abc import Iterable

ROUND = {
    "last": "in the last round",
    "last10": "as the mean of the last ten evaluated rounds",
    "best": "in the round that is best on the test samples, which is optimistic",
    "validation": "in the round that is best on held-out training samples",
}
POINTS = {"pre": "before local training (pre)", "post": "right after local training (post)"}


LONGEST_NAME = 100  # letters of a file's name


def slug(text: str) -> str:
    """A text as the name of a file: letters, digits, dots and dashes, and no folder."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.")[:LONGEST_NAME] or "unnamed"


def csv_text(text: str) -> str:
    """A text as a cell of a CSV file: one that a spreadsheet would take for a formula is quoted."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def span(numbers: Iterable[int]) -> str:
    """ "5", "1 to 5", "6,000"."""
    found = sorted(set(numbers)) or [0]
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
