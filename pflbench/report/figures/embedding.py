"""Representations in the plane by t-SNE: the raw pixels, then every method."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError
from pflbench.report.figures import style
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.overview import Group, Overview
from pflbench.report.load.runs import Floats, Numbers
from pflbench.report.render.parts import FigurePart

FILE = "representations.npz"  # of a run that stores them
MOST = 1000  # points of a panel
FEWEST = 10
WIDTH = 50  # dimensions that PCA leaves
RAW = "raw data"
Arrays = dict[str, npt.NDArray[np.generic]]
"""x, y and z of the same samples."""


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """A figure for every scenario whose runs store representations."""
    for scenario, groups in seen.scenarios.items():
        if not any(group.config.get("representations") for group in groups):
            continue
        seed, runs = _runs(groups)
        panels: dict[str, Arrays] = {}
        for label, run in runs.items():
            try:
                panels[label] = read(run.folder / FILE)
            except UserError as error:
                yield f"No t-SNE of {label} on {scenario.line}: {error}."
        lacking = [group.label for group in groups if group.label not in runs]
        if lacking:
            what = f"No t-SNE of {', '.join(lacking)} on {scenario.line}"
            yield f"{what}: no run of seed {seed} stored them."
        if panels:
            text = seen.caption(_caption(scenario, seed, panels), groups)
            name = seen.name("representations", scenario)
            title = f"Representations, {scenario.line}"
            make = partial(_figure, Plane(panels))
            yield FigurePart(name, title, text, make, seen.width(style.COLUMN))


def _caption(scenario: Heading, seed: int, panels: Mapping[str, Arrays]) -> str:
    points = max(len(arrays["y"]) for arrays in panels.values())
    return (
        f"t-SNE of raw test samples (pixels) and of their representations on {scenario.line}, seed"
        f" {seed}: at most {points} samples of all clients, coloured by label. More than {WIDTH}"
        f" dimensions are first reduced to {WIDTH} by PCA; perplexity 30 where there are enough"
        " points. Distances between clusters mean little."
    )


def _runs(groups: Sequence[Group]) -> tuple[int, dict[str, Numbers]]:
    """The runs of the seed for which most methods have representations; of equals, the lowest."""
    seeds: dict[int, dict[str, Numbers]] = {}
    for group in groups:
        for run in group.runs:
            there = seeds.setdefault(run.planned.config["seed"], {})
            if run.status == "finished" and (run.folder / FILE).is_file():
                there[group.label] = run
    best = max(sorted(seeds), key=lambda seed: len(seeds[seed]))
    return best, seeds[best]


def read(path: Path) -> Arrays:
    """At most so many samples, evenly over the clients."""
    arrays = plain_arrays(str(path))
    if missing := {"x", "y", "z"} - set(arrays):
        raise UserError(f"{path} has no array {min(missing)!r}")
    number = len(arrays["y"])
    if number < FEWEST or not np.isfinite(arrays["z"].astype(float)).all():
        raise UserError(f"{path} has fewer than {FEWEST} samples, or numbers that are not finite")
    rows = np.linspace(0, number - 1, min(MOST, number)).round().astype(int)
    return {name: arrays[name][rows] for name in ("x", "y", "z")}


def embedded(vectors: npt.NDArray[np.generic]) -> Floats:
    """(m, 2), the same whenever it is computed: with one thread, as sums depend on their order."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    flat = np.asarray(vectors, dtype=float).reshape(len(vectors), -1)
    with threadpool_limits(1):
        if flat.shape[1] > WIDTH and len(flat) > WIDTH:
            flat = PCA(WIDTH, random_state=0).fit_transform(flat)
        perplexity = min(30.0, (len(flat) - 1) / 3)
        found = TSNE(2, init="pca", random_state=0, perplexity=perplexity).fit_transform(flat)
    return np.asarray(found, dtype=float)


@dataclass(frozen=True)
class Plane:
    """The samples of every panel, by its title."""

    panels: Mapping[str, Arrays]

    @cached_property
    def points(self) -> dict[str, tuple[Floats, npt.NDArray[np.generic]]]:
        """Their places and labels; found once, however often they are drawn."""
        whole = max(self.panels.values(), key=lambda arrays: len(arrays["y"]))
        found = {RAW: (embedded(whole["x"]), whole["y"])}
        for label, arrays in self.panels.items():
            found[label] = embedded(arrays["z"]), arrays["y"]
        return found


@style.themed
def _figure(plane: Plane, width: float) -> Any:
    import seaborn as sns

    shown = plane.points
    classes = sorted({int(label) for _, labels in shown.values() for label in labels})
    colours = dict(zip(classes, style.class_colours(len(classes)), strict=True))
    figure, found = style.panels(len(shown), max(1, int(width / 1.15)), width, 1.35)
    for axes, (title, (places, labels)) in zip(found, shown.items(), strict=True):
        x, y = places.T
        how = {"palette": colours, "s": 2.5, "linewidth": 0, "legend": False}
        sns.scatterplot(x=x, y=y, hue=labels.astype(int), **how, ax=axes)
        axes.set_title(title, loc="center")
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
        axes.spines[:].set(visible=True, linewidth=0.5, color="0.6")
    if len(classes) <= len(style.CLASSES):
        names = {str(label): style.Look(colour) for label, colour in colours.items()}
        tight = {"ncols": len(classes), "handletextpad": 0.0, "columnspacing": 0.5}
        style.legend(figure, names, "lower center", lines=False, markers=True, **tight)
    return figure
