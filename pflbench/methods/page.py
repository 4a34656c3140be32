"""`docs/methods.md`, made from the plugins: `python -m pflbench.methods.page > docs/methods.md`."""

import re
from collections.abc import Sequence
from typing import Any

from pflbench.methods import describe, registry
from pflbench.papers.fedcosr.tables import paper_table

HEAD = """# The methods

Made from the plugins by `python -m pflbench.methods.page`; do not edit. Type, technique and marks are those of the
FedCoSR paper's table of methods. A formula counts numbers of 4 bytes that are sent to (down) and by (up) a client in a
round: theta is the network, phi its base, pi its head, C the classes, C_i those of the client, k the size of a
representation, N the clients. The paper's claim is for both ways together. Scored is the moment (pre: before local
training, post: right after it) at which the headline accuracy is taken; both are recorded.
"""


def page() -> str:
    """The whole page."""
    methods = [describe.details(registry.load(name)) for name in registry.names()]
    claims = {row["method"]: plain(row["communication"]) for row in paper_table("efficiency")}
    order = [row["method"] for row in paper_table("methods")]
    methods.sort(
        key=lambda method: order.index(method["title"]) if method["title"] in order else len(order)
    )
    parts = [HEAD, taxonomy(methods), costs(methods, claims)]
    return "\n".join([*parts, *(section(method) for method in methods)])


def taxonomy(methods: list[dict[str, Any]]) -> str:
    """The table of all methods."""
    rows = [
        (
            f"[{m['title']}](#{anchor(m['title'])})",
            m["type"],
            m["technique"],
            m["label_skew"],
            m["data_scarcity"],
        )
        for m in methods
    ]
    return "## All methods\n\n" + markdown(
        ("method", "type", "technique", "label skew", "data scarcity"), rows
    )


def costs(methods: list[dict[str, Any]], claims: dict[str, str]) -> str:
    """What each method sends, beside the paper's claim."""
    rows = [
        (
            m["title"],
            f"`{m['down']['numbers']}`",
            f"`{m['up']['numbers']}`",
            claims.get(m["title"], ""),
            m["cost_note"],
        )
        for m in methods
    ]
    return "## Communication\n\n" + markdown(
        ("method", "down", "up", "the paper's claim", "why they differ"), rows
    )


def section(method: dict[str, Any]) -> str:
    """One method in full."""
    said = [
        ("Down", method["down"]["what"]),
        ("Up", method["up"]["what"]),
        ("Private", method["private"]),
        ("Scored", method["scored_model"]),
        ("Deviations", method["deviations"]),
    ]
    lines = [
        f"## {method['title']}",
        "",
        method["citation"],
        "",
        *(f"- **{name}.** {text}" for name, text in said),
        "",
    ]
    headers, rows = describe.hyperparameter_table(method)
    return "\n".join(lines) + "\n" + markdown(headers, [(f"`{row[0]}`", *row[1:]) for row in rows])


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    cells = [
        [cell.replace("|", "\\|") for cell in row]
        for row in (headers, ["---"] * len(headers), *rows)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"


def anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def plain(latex: str) -> str:
    r"""`2$\varphi(\boldsymbol{\Omega}+\phi)$` as `2 (Omega + phi)`."""
    text = re.sub(r"\\boldsymbol\{(.*?)\}", r"\1", latex).replace("$", "").replace("\\varphi", " ")
    text = text.replace("\\thickapprox", "about").replace("\\", "").replace("+", " + ")
    return f"`{text}`" if text != "-" else "nothing"


if __name__ == "__main__":
    print(page(), end="")
