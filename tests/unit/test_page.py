"""The page: all is escaped, nothing is fetched, runs are small, the same bytes every time."""

import base64
import hashlib
import io
import json
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pflbench.records.status import STATES
from pflbench.report.figures.learning import POINTS, thinned
from pflbench.report.load.runs import Choice, Numbers
from pflbench.report.page.html import (
    TEMPLATE,
    Picture,
    Sheet,
    as_script,
    card,
    render,
    small,
)
from pflbench.report.page.run_data import embedded
from pflbench.report.render.parts import Section, TablePart
from tests.factories import runs

HOSTILE = "</script><script>alert('1')</script>&\"<!--"
NAN = float("nan")


def run(id: str = "fedavg-1", status: str = "finished", **how: Any) -> Numbers:
    """A run of three clients that was evaluated three times; the second client was not, nor was the
    last round.
    """
    shown = runs.run(
        "fedavg",
        [0.123456, NAN, 1.0],
        id=id,
        status=status,
        curves={"pre": [0.1, 0.20004, NAN]},
        first=0,
        loss=[2.0, 1.23456789],
        sent={"down theta": [1e6, 3e6], "up theta": [5e5, 5e5]},
        seconds={"wall": [0.25, 0.75]},
        about={"n_train": [9, 8, 7], "n_test": [1, 2, 3]},
        **{"partition": "iid", "clients": 3, "rounds": 2, "hparams": {"lr": 0.1}, **how},
    )
    return replace(shown, chosen=1.0)


experiment = partial(runs.experiment, name="main", title="All", command="pflbench sweep main")


def table(**parts: Any) -> TablePart:
    rows, numbers = (("A", "1.00"), ("B", "none")), ((None, 1.0), (None, NAN))
    return TablePart(
        **{
            "name": "t",
            "title": "T",
            "caption": "C",
            "headers": ("m", "x"),
            "rows": rows,
            "numbers": numbers,
            **parts,
        }
    )


def png(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (height, width, 4), dtype=np.uint8)
    Image.fromarray(noise, "RGBA").save(buffer, "png")
    return buffer.getvalue()


class Seen(HTMLParser):
    """The tags of a page with their attributes, and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.tags += [("", {})] if tag == "script" else []

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def page(
    *sheets: Sheet, title: str = "results", choice: Choice | None = None, newest: float = 0.0
) -> str:
    return render(sheets, title, choice or Choice(), newest)


def test_whatever_users_named_stays_text():
    sheet, harmless = sheet_of(HOSTILE), sheet_of("a")
    found, plain = Seen(page(sheet, title=HOSTILE)), Seen(page(harmless, title="a"))
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags]
    assert [sorted(values) for _, values in found.tags] == [
        sorted(values) for _, values in plain.tags
    ]
    assert found.text.count(HOSTILE) >= 9
    data = json.loads(found.scripts[0])
    assert data["runs"][HOSTILE]["hparams"] == {HOSTILE: HOSTILE}
    assert data["files"][sheet.anchor]["t"] == {
        "latex": HOSTILE,
        "csv": HOSTILE,
        "markdown": HOSTILE,
    }


def sheet_of(text: str) -> Sheet:
    """A section in which all that users can name is this text."""
    parts: dict[str, Any] = dict.fromkeys(("title", "caption", "latex", "csv", "markdown"), text)
    parts |= {"headers": (text, "x"), "rows": ((text, text),), "numbers": ((None, None),)}
    section = Section(text, text, (text,), (table(**parts, notes=(text,)),))
    one = run(text, dataset=text, words="digits iid", hparams={text: text}, notes=[text])
    found = experiment(one, name=text, title=text, command=f"{text} all")
    return Sheet(section, (Picture(text, text, text, 3.5, png(2, 2)),), found)


def test_nothing_is_fetched_and_only_our_script_may_run():
    found = Seen(
        page(
            Sheet(
                Section("main", "Main", (), (table(latex="x"),)),
                (Picture("p", "P", "", 7.0, png(2, 2), png(2, 3), b"%PDF"),),
                experiment(run()),
            )
        )
    )
    addresses = [
        str(values[name])
        for _, values in found.tags
        for name in ("src", "srcset", "href")
        if name in values
    ]
    kinds = {address.partition(";")[0] for address in addresses if not address.startswith("#")}
    assert kinds == {"data:image/png", "data:application/pdf"}
    (policy,) = [values["content"] for tag, values in found.tags if values.get("http-equiv")]
    digest = base64.b64encode(hashlib.sha256(found.scripts[1].encode()).digest()).decode()
    allowed = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
    assert policy == f"{allowed} 'sha256-{digest}'"


def test_links_within_the_page_lead_somewhere():
    sheets = [
        Sheet(Section(name, name), (), experiment(run(), name=name))
        for name in ("a b", "a-b", "caf\u00e9")
    ]
    found = Seen(page(*sheets, Sheet(Section("methods", "Methods", (), (table(),)))))
    names = [values["id"] for _, values in found.tags if "id" in values]
    assert len(names) == len(set(names))
    assert {str(values["href"])[1:] for tag, values in found.tags if tag == "a"} <= set(names)


def test_numbers_to_sort_by_are_next_to_the_text():
    found = Seen(page(Sheet(Section("main", "Main", (), (table(),)))))
    cells = [values for tag, values in found.tags if tag == "td"]
    assert cells == [
        {"class": "n", "data-n": "1.0"},
        {"class": "n"},
    ]  # what is not a number has none


def test_only_long_texts_are_broken_into_lines_and_short_names_stay_in_sight():
    words = "Digits, 2 classes per client, N=20"
    rows = ((words, "FedAvg", "x" * 60, "1"), ("b", "Local", "y", "2"))
    numbers = ((None, None, None, 1.0), (None, None, None, 2.0))
    made = table(headers=("scenario", "method", "reason", "n"), rows=rows, numbers=numbers)
    found = Seen(page(Sheet(Section("main", "Main", (), (made,)))))
    heads = [values["class"] for tag, values in found.tags if values.get("scope") == "col"]
    assert heads == ["text", "text stuck", "long", "n"]


def test_what_latex_prints_bold_or_underlined_is_so_on_the_page():
    rows = (("<Mine>", "81.20 \u00b1 0.40"), ("Other", "80.00"))
    made = table(rows=rows, looks=(("bold", "bold"), ("", "underlined")))
    written = page(Sheet(Section("main", "Main", (), (made,))))
    found = ("<b>&lt;Mine&gt;</b>", "<b>81.20</b> \u00b1 0.40", ">Other<", "<u>80.00</u>")
    assert [text for text in found if text not in written] == []


def test_the_same_records_give_the_same_bytes_and_the_time_is_that_of_the_newest():
    sheet = Sheet(
        Section("main", "Main", (), (table(),)),
        (Picture("p", "P", "", 3.5, png(3, 2)),),
        experiment(run()),
    )
    first = page(sheet, newest=1_700_000_000)
    assert first == page(sheet, newest=1_700_000_000)
    assert "Newest record: 2023-11-14 22:13 UTC" in first


def test_json_survives_in_a_script():
    value = {"a": HOSTILE, "b": [1.5, None, "\u2028\u00e9"]}
    text = as_script(value)
    assert not set("<>&") & set(text) and text.isascii()
    assert json.loads(text) == value
    assert json.loads(as_script([NAN, float("inf")])) == [None, None]


@pytest.mark.parametrize("length", [0, 1, 2, POINTS - 1, POINTS, POINTS + 1, 200, 1001])
def test_a_curve_keeps_its_ends_and_at_most_so_many_points(length: int):
    kept = thinned(length)
    assert len(kept) == min(length, POINTS)
    assert (
        kept == sorted(set(kept))
        and kept[:1] == [0][:length]
        and kept[-1:] == [length - 1][:length]
    )
    assert max(np.diff(kept), default=0) <= -(-length // POINTS) + 1


def test_a_run_is_carried_with_few_digits_and_without_what_is_unknown():
    data = json.loads(as_script(embedded([experiment(run())])))
    one = data["runs"]["fedavg-1"]
    assert one["clients"] == [0.1235, None, 1.0]
    assert (one["evaluated"], one["curves"]) == ([0, 1, 2], {"pre": [0.1, 0.2, None]})
    assert one["loss"] == [[1, 2.0], [2, 1.235]]
    assert one["accuracy"] == pytest.approx((0.123456 + 1) / 2)
    assert one["std"] == pytest.approx((1 - 0.123456) / 2)
    assert (one["megabytes"], one["seconds"]) == (
        {"down theta": 2.0, "up theta": 0.5},
        {"wall": 0.5},
    )
    assert (one["status"], one["point"], one["chosen"], one["round"]) == ("finished", "pre", 1, 2)
    assert (
        one["hparams"] == {"lr": 0.1}
        and "hparams" not in one["config"]
        and one["config"]["dataset"] == "digits"
    )
    assert data["sizes"][one["sizes"]] == {"train": [9, 8, 7], "test": [1, 2, 3]}
    made_with = runs.made_with().values()
    assert data["environments"][one["environment"]] == {
        k: v for d in made_with for k, v in d.items()
    }


def test_weights_are_test_samples():
    data = embedded([experiment(run())], weighted=True)
    assert data["runs"]["fedavg-1"]["accuracy"] == pytest.approx((1 * 0.123456 + 3 * 1.0) / 4)


def test_what_runs_share_is_carried_once():
    shared, other = run("a"), run("b", "missing")
    data = embedded([experiment(shared, run("c"), other), experiment(shared, name="second")])
    assert sorted(data["runs"]) == ["a", "b", "c"]
    assert [one["name"] for one in data["experiments"]] == ["main", "second"]
    assert data["experiments"][1]["runs"] == [["a", "digits iid", ""]]
    # and those of a run that has not started: none
    assert len(data["sizes"]) == 2 and len(data["environments"]) == 2
    assert data["runs"]["a"]["sizes"] == data["runs"]["c"]["sizes"] != data["runs"]["b"]["sizes"]


def test_a_failure_is_carried_with_its_traceback(tmp_path: Path):
    (tmp_path / "status.json").write_text(
        '{"status": "failed", "reason": "why", "details": "Traceback ..."}'
    )
    data = embedded([experiment(run("a", "failed", folder=tmp_path), run("b", folder=tmp_path))])
    assert data["runs"]["a"]["details"] == "Traceback ..."
    assert data["runs"]["b"]["details"] == ""


def test_an_experiment_at_a_glance():
    some = [run("a", seed=0), run("b", "failed", seed=1), run("c", "missing", seed=2)]
    some += [run("a", seed=0), run("d", seed=1, outdated=True)]
    found = card(experiment(*some))
    counts = {"finished": 1, "failed": 1, "outdated": 1, "missing": 1}
    assert (found["total"], found["counts"]) == (4, counts)
    assert found["size"] == "1 method; 1 scenario; seeds 0, 1, 2"


def test_a_run_is_carried_with_its_notes_its_state_and_the_version_of_its_method():
    noted = run(notes=["all weights are <uniform>"], version="r1", outdated=True)
    one = embedded([experiment(noted)])["runs"]["fedavg-1"]
    assert one["notes"] == ["all weights are <uniform>"]
    assert (one["status"], one["state"], one["version"]) == ("outdated", "finished", "r1")
    assert "version" not in one["config"]


def test_notes_are_below_their_table():
    noted = table(notes=("FedAvg, seed 0: all weights are uniform",))
    seen = Seen(page(Sheet(Section("main", "Main", (), (noted, table(name="u", title="U"))))))
    assert seen.text.count("FedAvg, seed 0: all weights are uniform") == 1
    labels = [values.get("aria-label") for tag, values in seen.tags if tag == "ul"]
    assert "Notes on T" in labels and "Notes on U" not in labels


def test_every_state_of_a_run_has_a_colour():
    style = (TEMPLATE / "page.css").read_text()
    assert [state for state in STATES if f".dot.{state}" not in style] == []


def test_a_picture_is_made_small_for_the_screen():
    big = small(png(2000, 100))
    with Image.open(io.BytesIO(big)) as picture:
        assert (picture.size, picture.mode) == ((1600, 80), "P")
    with Image.open(io.BytesIO(small(png(300, 20)))) as picture:
        assert picture.size == (300, 20)


def test_script_and_style_are_ascii_and_bring_no_markup_of_their_own():
    for path in TEMPLATE.iterdir():
        text = path.read_text(encoding="ascii")
        assert not [
            word
            for word in ("innerHTML", "document.write", "eval(", "fetch(", "import(")
            if word in text
        ]
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "")
