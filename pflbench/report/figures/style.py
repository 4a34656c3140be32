"""How figures look: seaborn's theme at the sizes of a two-column paper, one look per method."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, ParamSpec

COLUMN, PAGE = 3.5, 7.16  # inches: the width of a column and of a page
WIDE = 4.7  # inches: narrower figures have their panels and their legend below each other
LINE = 0.135  # inches of a line of a legend
FONT, SMALL = 8, 7  # points
DPI = 300

# Okabe and Ito's colours without yellow, which is too faint for a line, and a brown: also people
# who confuse red and green, or blue and yellow, can tell any two apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#6B4226")
PROPOSED, STAR = "#D55E00", "*"  # colour and marker that only the proposed method has
CLASSES = (*PALETTE, PROPOSED, "#F0E442", "#999999")  # of ten labels
SCARCE = "#D00000"  # clients with little data
DASHES: tuple[Any, ...] = ("-", (0, (4.5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
FURTHER_DASHES: tuple[Any, ...] = (  # where all colours have all of these: from 29 methods on
    (0, (9, 2)),
    (0, (1.2, 3)),
    (0, (6, 1.5, 1.2, 1.5, 1.2, 1.5)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
RANGE = ("pi", 100)  # seaborn's error bar from the lowest to the highest seed

AXES = {
    "axes.grid": True,
    "axes.edgecolor": "black",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "0.9",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same letters on every machine
}
SIZES = {
    "font.size": FONT,
    "axes.labelsize": FONT,
    "axes.titlesize": FONT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.title_fontsize": SMALL,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
OTHERS: dict[Any, Any] = {
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.labelspacing": 0.3,
    "pdf.fonttype": 42,  # publishers refuse fonts of type 3
    "svg.hashsalt": "pflbench",
}

Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class Look:
    """Of a line or point; dash and marker are matplotlib's."""

    colour: str
    dash: Any = "-"
    marker: str = "o"


def looks(methods: Sequence[str], proposed: str = "") -> dict[str, Look]:
    """By order: seven methods have colours of their own, the next seven other dashes and markers; 49
    have lines and markers of their own.

    The proposed method has a colour and a marker that no other one has.
    """
    others = [method for method in methods if method != proposed]
    found = {method: _look(place) for place, method in enumerate(others)}
    return {**found, proposed: Look(PROPOSED, "-", STAR)} if proposed in methods else found


def _look(place: int, palette: Sequence[str] = PALETTE) -> Look:
    turn, colour = divmod(place, len(palette))
    dashes = DASHES if turn < len(DASHES) else FURTHER_DASHES
    dash = dashes[(colour + turn) % len(dashes)]
    return Look(palette[colour], dash, MARKERS[(colour + turn) % len(MARKERS)])


def variant_looks(variants: Sequence[str], taken: str = "") -> dict[str, Look]:
    """Values of a hyperparameter are shades of one colour, other variants have a colour each.

    `taken` is the colour of the method without a variant.
    """
    free = [colour for colour in PALETTE if colour != taken]
    families: dict[tuple[str, ...], list[str]] = {}
    for variant in variants:
        names = tuple(word.partition("=")[0] for word in variant.split())
        families.setdefault(names if is_assignments(variant) else (variant, ""), []).append(variant)
    found = {}
    for place, family in enumerate(families.values()):
        look = _look(place, free)
        for variant, colour in zip(family, shades(look.colour, len(family)), strict=True):
            found[variant] = Look(colour, look.dash, look.marker)
    return found


def is_assignments(variant: str) -> bool:
    """Whether a variant is named by what it sets ("alpha=0.5"), and not by a label."""
    return bool(variant) and all("=" in word for word in variant.split())


def shades(colour: str, number: int) -> list[str]:
    """From light to dark, the colour itself alone where one is asked for."""
    if number == 1:
        return [colour]
    import seaborn as sns

    light, dark = sns.light_palette(colour, 3)[1], sns.dark_palette(colour, 3)[1]
    return list(sns.blend_palette([light, colour, dark], number).as_hex())


def class_colours(number: int) -> list[Any]:
    """A colour for every label; from eleven on neighbours are hard to tell apart."""
    if number <= len(CLASSES):
        return list(CLASSES[:number])
    import seaborn as sns

    return list(sns.color_palette("turbo", number))


@contextmanager
def theme() -> Iterator[None]:
    """Matplotlib's defaults, seaborn's, then ours; at its end all are as they were before."""
    import seaborn as sns
    from matplotlib import rc_context, rcdefaults, rcParams

    with rc_context():
        rcdefaults()  # whatever the user's matplotlibrc says
        rcParams.update(sns.axes_style("ticks", AXES))
        rcParams.update(sns.plotting_context("paper", rc=SIZES))
        rcParams.update(OTHERS)
        yield


def themed(draw: Callable[Arguments, Any]) -> Callable[Arguments, Any]:
    """A function that draws, within the theme."""

    @wraps(draw)
    def within(*args: Arguments.args, **options: Arguments.kwargs) -> Any:
        with theme():
            return draw(*args, **options)

    return within


def canvas(width: float, height: float, rows: int = 1, columns: int = 1, **how: Any) -> Any:
    """A figure of that many inches, and its axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.03, h_pad=0.03, wspace=0.03, hspace=0.03)
    return figure, list(figure.subplots(rows, columns, squeeze=False, **how).flat)


def panels(number: int, across: int, width: float, height: float, **how: Any) -> Any:
    """A figure with that many axes, at most so many in a row of that height."""
    columns = min(across, number)
    rows = -(-number // columns)
    figure, found = canvas(width, height * rows, rows, columns, **how)
    for axes in found[number:]:
        axes.remove()
    return figure, found[:number]


def with_legend(number: int, labels: Sequence[str], width: float, least: float) -> Any:
    """A figure with that many axes and room for a legend of the labels: next to each other, at least
    so high, with the legend beside them; or, in a narrow figure, all below each other.
    """
    if width >= WIDE:
        return canvas(width, max(least, LINE * len(labels) + 0.45), columns=number)
    rows = -(-len(labels) // legend_columns(labels, width))
    return canvas(width, 1.8 * number + LINE * (rows + 1), rows=number)


def legend_columns(labels: Sequence[str], width: float) -> int:
    """How many fit below a figure, with handles of 0.45 inches."""
    widest = max((text_width(label, SMALL) for label in labels), default=0.0)
    return max(1, min(len(labels), int(width / (widest + 0.45))))


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family="DejaVu Sans", weight=weight)
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().width) / 72


def ticks(number: int, inches: float) -> range:
    """Of so many clients or classes on an axis, those whose numbers fit."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    fitting = [step for step in steps if step * inches / number >= 0.18]
    return range(0, number, fitting[0] if fitting else steps[-1])


def mapping(looks: Mapping[str, Look], lines: bool = True, markers: bool = False) -> dict[str, Any]:
    """The looks of labels as seaborn takes them: hue for colours, style for dashes and markers."""
    found: dict[str, Any] = {"hue_order": list(looks), "style_order": list(looks)}
    found["palette"] = {label: look.colour for label, look in looks.items()}
    if lines:
        dashes = {label: look.dash for label, look in looks.items()}
        found["dashes"] = {label: "" if dash == "-" else dash[1] for label, dash in dashes.items()}
    if markers:
        found["markers"] = {label: look.marker for label, look in looks.items()}
    return found


def even_sizes(axes: Any) -> None:
    """A star looks smaller than other markers of its size."""
    for line in axes.get_lines():
        if line.get_marker() == STAR:
            line.set_markersize(1.6 * line.get_markersize())


def legend(
    figure: Any,
    looks: Mapping[str, Look],
    place: str = "",
    lines: bool = True,
    markers: bool = False,
    **how: Any,
) -> Any:
    """Of labels: beside the axes, or below them in a narrow figure, where no place is asked for."""
    from matplotlib.lines import Line2D

    width = figure.get_figwidth()
    if not place and width < WIDE:
        place = "lower center"
        how = {"ncols": legend_columns(list(looks), width), "columnspacing": 1.0, **how}

    handles = [
        Line2D(
            [],
            [],
            color=look.colour,
            linestyle=look.dash if lines else "none",
            linewidth=1.3,
            marker=look.marker if markers or look.marker == STAR else "none",
            markersize=6 if look.marker == STAR else 4,
            markeredgewidth=0,
        )
        for look in looks.values()
    ]
    how = {"alignment": "left", "handlelength": 2.4 if lines else 1.0, **how}
    return figure.legend(handles, list(looks), loc=f"outside {place or 'right upper'}", **how)


def lay_out(figure: Any) -> None:
    """Place all that is in a figure, once: to save it would do so twice for every file."""
    if engine := figure.get_layout_engine():
        with theme():
            engine.execute(figure)
        figure.set_layout_engine(None)


def rendered(figure: Any, form: Literal["pdf", "png", "svg"]) -> bytes:
    """The content of a file: the same whenever and wherever it is made."""
    how: dict[str, Any] = {"metadata": {"CreationDate": None}}
    if form == "svg":
        how = {"metadata": {"Date": None}}
    if form == "png":
        how = {
            "metadata": {"Software": None},
            "pil_kwargs": {"compress_level": 3},
        }  # half the time, 4 % larger
    lay_out(figure)
    buffer = io.BytesIO()
    with theme():
        figure.savefig(buffer, format=form, dpi=DPI, **how)
    return buffer.getvalue()
