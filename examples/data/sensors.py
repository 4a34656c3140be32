"""Made-up wearable sensors: 12 people do 4 things, each in a way of their own.

A sample is a window of two signals at 32 points in time. What a person does sets the pace of the
signals; the person sets their strength, offset and noise. So clients have the same classes and
different features.
"""

from pathlib import Path
from typing import Any

import numpy as np

TITLE = "Sensors"
PEOPLE, WINDOWS, LENGTH = 12, 60, 32
PACE = {"rest": 0.0, "walk": 1.0, "run": 2.0, "cycle": 3.0}  # turns per window


def load(root: Path) -> dict[str, Any]:
    """Windows (720, 2, 32), what was done, and by whom."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(PEOPLE), WINDOWS)
    activity = rng.choice(list(PACE), len(person))
    return {
        "x": windows(person, activity, rng).astype(np.float32),
        "y": activity,  # texts: the classes are cycle, rest, run, walk
        "client": np.array([f"person {number:02}" for number in range(PEOPLE)])[person],
    }


def windows(person: Any, activity: Any, rng: np.random.Generator) -> Any:
    """strength sin(2 pi pace t + phase) + offset + noise, the second signal a quarter turn later."""
    n = len(person)
    strength = rng.uniform(0.5, 2.0, PEOPLE)[person][:, None, None]
    offset = rng.normal(0.0, 1.0, (PEOPLE, 2))[person][:, :, None]
    spread = rng.uniform(0.2, 0.6, PEOPLE)[person][:, None, None]
    pace = np.array([PACE[name] for name in activity])[:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (n, 1, 1)) + np.array([0, np.pi / 2])[:, None]
    time = np.linspace(0, 2 * np.pi, LENGTH)
    return (
        strength * np.sin(pace * time + phase) + offset + spread * rng.normal(size=(n, 2, LENGTH))
    )
