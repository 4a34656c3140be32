"""How figures look: a method has one colour, dash and marker everywhere; sizes are those of a two-column paper."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

COLUMN, PAGE = 3.5, 7.16  # inches: the width of a column and of a page
FONT, SMALL = 8, 7  # points
DPI = 300

# Okabe and Ito's colours without yellow, which is too faint for a line, and a brown: also those who confuse red and
# green, or blue and yellow, can tell any two apart. FedCoSR has one for itself.
PALETTE = ("#000000", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#6B4226")
PROPOSED = "#D55E00"
CLASSES = (*PALETTE, PROPOSED, "#F0E442", "#999999")  # of ten labels
SCARCE = "#D00000"  # clients with little data
DASHES: tuple[Any, ...] = ("-", (0, (4.5, 1.5)), (0, (1.2, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
NEW_DASH, NEW_MARKERS = (
    (0, (6, 1.5, 1.2, 1.5)),
    ("p", "h", "<", ">", "d"),
)  # of methods that are not in the list
FAMILIES = ("#0072B2", "#6B4226", PROPOSED, "#009E73", "#CC79A7")  # of varied hyperparameters

# Methods of a column have the same colour, with another dash and marker. No two of a column are together in the FedCoSR
# paper's figures of few methods.
METHODS = (
    *("local", "fedavg", "fedprox", "moon", "fedrcl", "pfedme", "ditto"),
    *("perfedavg", "pefll", "fedrep", "lgfedavg", "fedper", "fedamp", "fedala"),
    *("fedgh", "feddbl", "fedproto", "fedas", "pfedfda", "fedpac", "fedstream"),
)


@dataclass(frozen=True)
class Look:
    """Of a line or point; dash and marker are matplotlib's."""

    colour: str
    dash: Any = "-"
    marker: str = "o"


def look(method: str) -> Look:
    """A method's, by its title or name; that of an unknown one follows from its name, and may be another's."""
    plain = "".join(character for character in method.lower() if character.isalnum())
    if plain == "fedcosr":
        return Look(PROPOSED, "-", "*")
    if plain in METHODS:
        turn, place = divmod(METHODS.index(plain), len(PALETTE))
        return Look(
            PALETTE[place],
            DASHES[(place + turn) % len(DASHES)],
            MARKERS[(place + turn) % len(MARKERS)],
        )
    digest = hashlib.sha256(plain.encode()).digest()
    return Look(
        PALETTE[digest[0] % len(PALETTE)], NEW_DASH, NEW_MARKERS[digest[1] % len(NEW_MARKERS)]
    )


def variant_looks(variants: Sequence[str]) -> dict[str, Look]:
    """Of variants of one method: values of a hyperparameter are shades of one colour, others have a colour each."""
    families: dict[tuple[str, ...], list[str]] = {}
    for variant in variants:
        names = tuple(word.partition("=")[0] for word in variant.split())
        families.setdefault(names if is_assignments(variant) else ("", variant), []).append(variant)
    looks = {}
    named = [family[0] for names, family in families.items() if names[0] == ""]
    for place, variant in enumerate(named):
        turn, step = divmod(place, len(PALETTE))
        looks[variant] = Look(
            PALETTE[step], DASHES[turn % len(DASHES)], MARKERS[(step + turn) % len(MARKERS)]
        )
    valued = [family for names, family in families.items() if names[0] != ""]
    taken = {look.colour for look in looks.values()}
    free = [colour for colour in FAMILIES if colour not in taken] or FAMILIES
    for place, family in enumerate(valued):
        colours = shades(free[place % len(free)], len(family))
        for variant, colour in zip(family, colours, strict=True):
            looks[variant] = Look(
                colour, DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]
            )
    return looks


def is_assignments(variant: str) -> bool:
    """Whether a variant is named by what it sets ("alpha=0.5"), and not by a label."""
    return bool(variant) and all("=" in word for word in variant.split())


def shades(colour: str, number: int) -> list[str]:
    """From light to dark, the colour itself in the middle: c + t (white - c), then c (1 - t)."""
    channels = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    found = []
    for step in range(number):
        t = 1 - 2 * step / (number - 1) if number > 1 else 0.0  # 1 to -1
        mixed = [c + 0.5 * t * (255 - c) if t > 0 else c * (1 + 0.6 * t) for c in channels]
        found.append("#" + "".join(f"{round(c):02X}" for c in mixed))
    return found


def class_colours(number: int) -> list[Any]:
    """A colour for every label; from eleven on neighbours are hard to tell apart."""
    if number <= len(CLASSES):
        return list(CLASSES[:number])
    from matplotlib import colormaps

    return [colormaps["turbo"]((label + 0.5) / number) for label in range(number)]


def canvas(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Any, list[Any]]:
    """A figure of that many inches, and its axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.03, hspace=0.03)  # type: ignore[union-attr, call-arg]
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def dress(axes: Any, x: str = "", y: str = "", title: str = "") -> None:
    """Sizes are set here, and not by matplotlib's global settings, as a figure may be saved anywhere."""
    axes.set_xlabel(x, fontsize=FONT)
    axes.set_ylabel(y, fontsize=FONT)
    if title:
        axes.set_title(title, fontsize=FONT, loc="left")
    axes.tick_params(labelsize=SMALL, length=2.5, width=0.6)
    axes.grid(color="0.9", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.6)


def legend(
    figure: Any,
    handles: Sequence[Any],
    labels: Sequence[str],
    place: str = "right upper",
    **how: Any,
) -> Any:
    """Beside the axes."""
    usual = {
        "fontsize": SMALL,
        "title_fontsize": SMALL,
        "frameon": False,
        "labelspacing": 0.3,
        "alignment": "left",
    }
    return figure.legend(handles, labels, loc=f"outside {place}", **{**usual, **how})


def settle(figure: Any) -> None:
    """Find the places of all that is in a figure, once: to save it would look for them twice for every file."""
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine(None)


def rendered(figure: Any, form: Literal["pdf", "png"]) -> bytes:
    """The content of a file: the same whenever it is made, with fonts that publishers take (no Type 3)."""
    from matplotlib import rc_context

    how: dict[str, Any] = {"metadata": {"CreationDate": None}}
    if form == "png":
        how = {
            "metadata": {"Software": None},
            "pil_kwargs": {"compress_level": 3},
        }  # half the time, 4 % larger
    settle(figure)
    buffer = io.BytesIO()
    with rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format=form, dpi=DPI, **how)
    return buffer.getvalue()
