"""`docs/methods.md`, made from the plugins: `python -m pflbench.methods.page > docs/methods.md`."""

import re
from collections.abc import Sequence
from typing import Any

from pflbench.methods import describe, registry

HEAD = """# The methods

Made from the plugins by `python -m pflbench.methods.page`; do not edit. "Evaluated" says when the reported
accuracy is measured: pre, before local training, or post, right after it; both are recorded.
"""
COMMUNICATION = """## Communication

Numbers of 4 bytes that one client receives (down) and sends (up) per round, at the default hyperparameters; of a
one-shot method in total. theta is the network, phi its body, pi its head, C the classes, C_i those of the client, k the
size of a representation, N the clients.

"""
OPTIONS = """## Training options

Hyperparameters that all methods have besides those in their own tables; by default they do nothing. A method whose
table has one of them has another default, or refuses it and says why. [Experiments](experiments.md#training-options)
explains them.

"""


def page() -> str:
    """The whole page."""
    classes = [registry.load(name) for name in registry.names()]
    found = [{**describe.details(cls), "one_shot": cls.one_shot} for cls in classes]
    found.sort(key=lambda method: (method["family"], method["title"].lower()))
    parts = [HEAD, overview(found), communication(found), options(), *map(section, found)]
    return "\n".join(parts)


def overview(methods: Sequence[dict[str, Any]]) -> str:
    """The table of all methods."""
    rows = []
    for method in methods:
        link = f"[{method['title']}](#{anchor(method['title'])})"
        name = f"`{method['name']}`"
        rows.append((method["family"], link, name, method["evaluated"], method["idea"]))
    headers = ("family", "method", "name", "evaluated", "idea")
    return "## All methods\n\n" + markdown(headers, rows)


def by_family() -> str:
    """The table of the README: the methods of every family, with links to their papers."""
    families: dict[str, list[str]] = {}
    for name in registry.names():
        method = describe.details(registry.load(name))
        found = re.search(r"https://\S+", method["paper"])
        link = f"[{method['title']}]({found[0]})" if found else method["title"]
        families.setdefault(method["family"], []).append(link)
    rows = [(family, ", ".join(families[family])) for family in sorted(families)]
    return markdown(("family", "methods"), rows)


def communication(methods: Sequence[dict[str, Any]]) -> str:
    """What each method sends."""
    rows = []
    for method in methods:
        down, up = (f"`{method[way]['numbers']}`" for way in ("down", "up"))
        rows.append((method["title"], down, up, "total" if method["one_shot"] else "per round"))
    return COMMUNICATION + markdown(("method", "down", "up", "counted"), rows)


def options() -> str:
    """The options of training that all methods have."""
    return OPTIONS + table(describe.common_options())


def section(method: dict[str, Any]) -> str:
    """One method in full."""
    said = {
        "Idea": method["idea"],
        "Paper": linked(method["paper"]),
        "Code": linked(method["code"]),
        "Down": method["down"]["what"],
        "Up": method["up"]["what"],
        "Private": method["private"],
        "Evaluated": method["evaluated_model"],
        "Deviations": method["deviations"],
    }
    lines = [f"## {method['title']}", "", method["citation"], ""]
    lines += [f"- **{name}.** {text}" for name, text in said.items() if text]
    return "\n".join([*lines, "", table(method)])


def table(method: dict[str, Any]) -> str:
    """The hyperparameters of a method."""
    headers, rows = describe.hyperparameter_table(method)
    return markdown(headers, [(f"`{row[0]}`", *row[1:]) for row in rows])


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [headers, ["---"] * len(headers), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def linked(text: str) -> str:
    """A text whose addresses are links."""
    return re.sub(r"https://\S+", r"<\g<0>>", text)


def anchor(title: str) -> str:
    """The address of a section, as hosts of Markdown make it."""
    return title.lower().replace(" ", "-")


if __name__ == "__main__":
    print(page(), end="")
