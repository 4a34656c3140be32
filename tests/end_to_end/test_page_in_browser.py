"""The page in a real browser: sorting, filtering, single runs, copies, both themes, a narrow screen."""

import base64
import fcntl
import io
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pflbench.report.load import runs
from pflbench.report.load.runs import Choice
from pflbench.report.page.html import Picture, Sheet, render
from pflbench.report.render.parts import Section, TablePart
from tests.factories.run_files import write_sweep

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium is installed: the page is not tested in a browser"
)

PATIENCE = 300.0  # seconds, on a busy machine
HOSTILE = "<img src=x onerror=alert(1)>"
LONG = "synthetic:" + "channels=3," * 9
LATEX = "\\begin{tabular}{l}\n100\\,\\% & <b> \u00b1\n\\end{tabular}\n"
# Moves the pipe to the numbers that chromium reads from and writes to.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    """Chromium at its DevTools pipe: commands, answers and events are JSON, each with a zero byte at its end."""

    def __init__(self, folder: Path) -> None:
        read, self._commands = os.pipe()
        self._answers, write = os.pipe()
        # away from 3 and 4
        read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read, write))
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "--window-size=1280,900"]
        command = [
            sys.executable,
            "-c",
            LAUNCH,
            str(read),
            str(write),
            str(CHROMIUM),
            *flags,
            "about:blank",
        ]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(read, write), **silent)  # type: ignore[call-overload]
        self._left, self._number = b"", 0
        self.events: list[dict[str, Any]] = []
        self._session: dict[str, str] = {}
        target = self("Target.createTarget", url="about:blank")["targetId"]
        session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == self._number)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, address: str) -> None:
        self.events.clear()
        self("Page.navigate", url=address)
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._until(lambda message: message.get("method") == "Page.loadEventFired")

    def js(self, code: str) -> Any:
        """The value of an expression in the page, as if the user had caused it."""
        found = self(
            "Runtime.evaluate",
            expression=code,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def key(self, key: str) -> None:
        codes = {"Enter": 13, "Escape": 27, "ArrowRight": 39}
        text = {"text": "\r"} if key == "Enter" else {}
        shared = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self("Input.dispatchKeyEvent", type="keyDown", **shared, **text)
        self("Input.dispatchKeyEvent", type="keyUp", **shared)

    def close(self) -> None:
        self._session = {}
        self("Browser.close")
        self._process.wait(PATIENCE)

    def _until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while True:
            message, end, rest = self._left.partition(b"\0")
            if end:
                self._left = rest
                found: dict[str, Any] = json.loads(message)
                if "method" in found:
                    self.events.append(found)
                if fits(found):
                    return found
                continue
            ready, _, _ = select.select(
                [self._answers], [], [], max(0.0, deadline - time.monotonic())
            )
            assert ready, "the browser does not answer"
            self._left += os.read(self._answers, 1 << 20)


TABLE = TablePart(
    "accuracy",
    "Accuracy",
    "What it is.",
    ("Method", "CIFAR-10"),
    (
        ("B", "9.50*"),
        ("a10", "10.25"),
        ("a9", "\u2013f"),
        (HOSTILE, "88.00"),
        ("Average", "35.92"),
    ),
    ((None, 9.5), (None, 10.25), (None, None), (None, 88.0), (None, 35.9166)),
    latex=LATEX,
    csv="method,accuracy\nB,9.5\n",
)


PDF = b"%PDF-1.4 made up"
SCENARIOS = (("Synthetic data, 2 classes per client, N=100", "1.00"), ("Digits, IID, N=5", "2.00"))
RANKS = replace(
    TABLE,
    name="ranks",
    title="Ranks",
    headers=("Scenario", "Rank"),
    rows=SCENARIOS,
    numbers=((None, 1.0), (None, 2.0)),
)


def picture(width: int = 1600) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, 600), (255, 255, 255)).save(buffer, "png")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    settings = [{"partition": ["dir:0.1", "path:2"]}]
    table = {
        "title": HOSTILE,
        "algorithms": ["local", "fedavg"],
        "clients": 6,
        "rounds": 30,
        "scenarios": settings,
    }
    write_sweep(folder / "runs", "mine", table, {1: "failed", 2: "missing", 3: "diverged"})
    (experiment,) = runs.collect(folder / "runs", Choice())
    first, *others, last = experiment.runs
    logs = {"tau": np.linspace(0, 1, 30), "moved (server)": np.full(30, 2.0)}
    first = replace(first, notes=(f"all weights are {HOSTILE}",), logs=logs)
    experiment = replace(experiment, runs=(first, *others, replace(last, outdated=True)))
    section = Section("mine", HOSTILE, (f"A note on {HOSTILE} and {LONG}",), (TABLE, RANKS))
    pictures = (
        Picture("curves-a", f"Curves, {LONG}", LONG, 7.0, picture(), picture(1000), PDF),
        Picture("curves-b", "Curves, b", "", 3.5, picture(1000), b"", PDF),
    )
    methods = ["local", "fedavg", "ditto"]
    many = {**table, "title": "Many", "algorithms": methods, "seeds": 3, "proposed": "ditto"}
    write_sweep(folder / "many", "many", many, {0: "failed", 3: "failed", 6: "failed"})
    (other,) = runs.collect(folder / "many", Choice())
    sheets = [Sheet(section, pictures, experiment), Sheet(Section("many", "Many"), (), other)]
    path = folder / "index.html"
    page = render(sheets, HOSTILE, Choice(), 1.7e9)
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("profile"))
    found("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    found("Emulation.setFocusEmulationEnabled", enabled=True)
    yield found
    found.close()


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    """The page from disk; whatever a test does with it, there is no error, and nothing is fetched."""
    browser.open(page.as_uri())
    yield browser
    methods = {event["method"]: event["params"] for event in browser.events}
    assert "Runtime.exceptionThrown" not in methods, methods
    assert "Log.entryAdded" not in methods, methods
    assert "Runtime.consoleAPICalled" not in methods, methods
    asked = [
        e["params"]["request"]["url"]
        for e in browser.events
        if e["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [page.as_uri()]
    browser("Emulation.setEmulatedMedia", features=[])
    browser("Emulation.clearDeviceMetricsOverride")
    browser.js("try { localStorage.clear(); } catch {}")


MAIN, CHART = "table:not(.chart-table)", "#experiment-many .chart-table"


def column(browser: Browser, place: int, table: str = MAIN) -> list[str]:
    """The cells of a table that can be seen."""
    rows = f"[...document.querySelector('{table}').tBodies[0].rows].filter(row => row.getClientRects().length)"
    found: list[str] = browser.js(f"{rows}.map(row => row.cells[{place}].textContent)")
    return found


def press(browser: Browser, selector: str) -> None:
    """Give an element the focus and press Enter, as one does who has no mouse."""
    browser.js(f"document.querySelector({json.dumps(selector)}).focus()")
    browser.key("Enter")


def test_a_column_is_sorted_by_its_numbers_then_the_other_way_then_as_it_was(opened: Browser):
    as_written = ["B", "a10", "a9", HOSTILE, "Average"]
    assert column(opened, 0) == as_written
    orders = [
        ["88.00", "35.92", "10.25", "9.50*", "\u2013f"],
        ["9.50*", "10.25", "35.92", "88.00", "\u2013f"],
        ["9.50*", "10.25", "\u2013f", "88.00", "35.92"],
    ]
    for order, sorting in zip(orders, ("descending", "ascending", None), strict=True):
        press(opened, f"{MAIN} th:nth-child(2) button")
        assert column(opened, 1) == order
        assert opened.js(f"document.querySelector('{MAIN} th:nth-child(2)').ariaSort") == sorting


def test_the_chart_is_sorted_by_any_panel(opened: Browser):
    """Of the first scenario Local has no numbers, and so no mean of both."""
    heads = opened.js(f"[...document.querySelectorAll('{CHART} .sort')].map(b => b.textContent)")
    scenarios = ["Digits, Dirichlet 0.1, N=6", "Digits, 2 classes per client, N=6"]
    assert heads == ["Method", "Mean of all scenarios", *scenarios]
    means = numbers(opened, 1)
    assert means == [*sorted(means[:2], reverse=True), "\u2013"]
    press(opened, f"{CHART} th:nth-child(4) button")
    second = numbers(opened, 3)
    assert second == sorted(second, reverse=True) and len(set(second)) == 3
    press(opened, f"{CHART} th:nth-child(1) button")
    assert column(opened, 0, CHART) == ["Ditto", "FedAvg", "Local"]


def numbers(browser: Browser, place: int) -> list[str]:
    """Those of a panel of the chart."""
    cells = f"[...document.querySelectorAll('{CHART} tbody tr')].map(row => row.cells[{place}])"
    found: list[str] = browser.js(f"{cells}.map(cell => cell.querySelector('span').textContent)")
    return found


def test_the_chart_shows_mean_interval_and_seeds_at_their_places(opened: Browser):
    code = f"""(() => {{
      const strip = document.querySelector('{CHART} tbody td:nth-child(3) svg');
      const all = (name) => [...strip.querySelectorAll(name)].map((mark) => {{
        const box = mark.getBoundingClientRect(); return [box.left, box.right]; }});
      return [strip.getAttribute('aria-label'), all('.mean'), all('.interval'), all('.seed')];
    }})()"""
    said, ((left, right),), ((low, high),), seeds = opened.js(code)
    assert said.count("interval") == 1 and len(seeds) == 3
    middles = [(a + b) / 2 for a, b in seeds]
    assert (left + right) / 2 == pytest.approx(sum(middles) / 3, abs=0.5)
    assert (low, high) == pytest.approx((min(middles), max(middles)), abs=0.5)  # of three seeds


def test_the_proposed_method_is_a_star_of_another_colour(opened: Browser):
    shown = "[...document.querySelectorAll('{} tr.proposed {}')].map(e => e.textContent)"
    assert opened.js(shown.format(CHART, "th")) == ["Ditto"]
    colour = "getComputedStyle(document.querySelector('{} {}.mean')).fill"
    assert opened.js(colour.format(CHART, "path")) != opened.js(colour.format(CHART, "circle"))
    assert len(opened.js(shown.format(CHART, "path.mean"))) == 3


def test_all_but_chart_and_main_table_is_folded_figures_first(opened: Browser):
    heads = "[...document.querySelectorAll('section:first-of-type h3')]"
    seen = opened.js(
        f"{heads}.map(h => [h.textContent, !h.closest('details') || h.closest('details').open])"
    )
    assert seen == [
        ["All methods", True],
        ["Accuracy", True],
        ["Notes", True],  # of few notes
        ["Curves", False],
        ["Ranks", False],
        ["Single runs", False],
    ]
    press(opened, ".fold:has(figure) summary")
    shown = "[...document.querySelectorAll('img')].filter(i => i.checkVisibility()).length"
    assert opened.js(shown) == 2
    widths = opened.js("[...document.images].map(image => image.getBoundingClientRect().width)")
    assert widths == [910, 455]  # 130 pixels for an inch


def test_scenarios_stay_on_one_line(opened: Browser):
    opened.js("document.querySelector('.fold:has(.sortable)').open = true")
    lines = (
        "[...document.querySelectorAll('.fold .sortable tbody th')].map(cell => cell.offsetHeight)"
    )
    assert max(opened.js(lines)) < 40  # pixels


def test_names_are_sorted_as_people_do(opened: Browser):
    press(opened, f"{MAIN} th:nth-child(1) button")
    assert column(opened, 0)[1:] == ["a9", "a10", "Average", "B"]


def test_a_filter_keeps_the_rows_that_have_all_words(opened: Browser):
    write = "const i = document.querySelector('input'); i.value = {}; i.dispatchEvent(new Event('input')); i.ariaLabel"
    opened.js("{ " + write.format(json.dumps("A 5")) + " }")
    assert column(opened, 0) == ["a10", "Average"]
    assert opened.js("document.querySelector('.found').textContent") == "2 of 5 rows"
    press(opened, f"{MAIN} th:nth-child(2) button")
    assert column(opened, 0) == ["Average", "a10"]
    opened.js("{ " + write.format("''") + " }")
    assert len(column(opened, 0)) == 5
    assert opened.js("document.querySelector('.found').hidden") is True


def test_latex_is_copied_and_files_are_saved_letter_for_letter(opened: Browser, tmp_path: Path):
    press(opened, "[data-copy=latex]")
    waited = "new Promise(r => setTimeout(r, 100)).then(() => navigator.clipboard.readText())"
    assert opened.js(waited) == LATEX
    assert opened.js("document.querySelector('[data-copy=latex]').textContent") == "Copied"
    press(opened, "[data-copy-text]")
    assert opened.js(waited) == "pflbench sweep mine.toml"
    opened("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for form, name, text in (
        ("latex", "mine-accuracy.tex", LATEX),
        ("csv", "mine-accuracy.csv", TABLE.csv),
    ):
        press(opened, f"[data-save={form}]")
        content_of(tmp_path / name, text.encode())
    press(opened, ".fold:has(figure) summary")
    press(opened, "[data-picture]")
    content_of(tmp_path / "mine-curves-a.png", picture())
    press(opened, "a[download]")
    content_of(tmp_path / "mine-curves-a.pdf", PDF)


def content_of(path: Path, expected: bytes) -> None:
    deadline = time.monotonic() + PATIENCE
    while (
        not (path.exists() and path.stat().st_size == len(expected)) and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    assert path.read_bytes() == expected


def run_list(browser: Browser) -> list[list[str]]:
    rows = "[...document.querySelectorAll('.runs tbody tr')].filter(row => !row.hidden)"
    found: list[list[str]] = browser.js(
        f"{rows}.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


def test_single_runs_are_listed_and_chosen_by_status(opened: Browser):
    # made when they are asked for
    assert opened.js("document.querySelectorAll('.runs table').length") == 0
    press(opened, ".runs summary")
    opened.js("new Promise(done => setTimeout(done, 50))")
    rows = run_list(opened)
    assert [(row[0], row[3]) for row in rows] == [
        ("Local", "finished"),
        ("FedAvg", "failed"),
        ("local", "missing"),
        ("FedAvg", "outdated"),
    ]
    assert rows[0][6:] == ["30 of 30", "0.8", "1.25"]  # 400 kB and a few bytes, each way
    assert rows[1][6] == "15 of 30"
    code = "const s = document.querySelector('.runs select'); s.value = 'failed'; s.dispatchEvent(new Event('change'));"
    opened.js("{" + code + "}")
    assert [row[0] for row in run_list(opened)] == ["FedAvg"]


def test_a_run_shows_its_curve_its_clients_and_its_configuration(opened: Browser):
    press(opened, ".runs summary")
    opened.js("new Promise(done => setTimeout(done, 50))")
    press(opened, ".runs tbody tr:nth-child(1) button")
    assert opened.js("document.querySelector('dialog').open") is True
    assert (
        opened.js("document.querySelector('dialog h2').textContent")
        == "Local: digits, dir:0.1, seed 0"
    )
    assert opened.js("document.querySelectorAll('dialog .client').length") == 6
    lines = opened.js(
        "[...document.querySelectorAll('dialog path')].map(line => line.getAttribute('d'))"
    )
    assert [line.count("L") for line in lines] == [
        30,
        30,
        29,
        29,
        29,
    ]  # pre and post with round 0; loss and what was logged without
    titles = opened.js("[...document.querySelectorAll('dialog h3')].map(head => head.textContent)")
    assert titles[3:6] == ["Logged by the method, mean over clients", "tau", "moved (server)"]
    text = opened.js("document.querySelector('dialog').innerText")
    assert "dir:0.1" in text and "batch_size" in text and "2.4.0" in text and "0.1.0" in text
    accuracy = opened.js("document.querySelector('dialog .figures b').textContent")
    shown = opened.js(
        "[...document.querySelectorAll('dialog .legend')].map(legend => legend.textContent)"
    )
    assert (
        f"post {accuracy.removesuffix(' %')}" in shown[0]
        and f"mean {accuracy.removesuffix(' %')}" in shown[1]
    )
    opened.js("document.querySelectorAll('dialog svg')[1].focus()")
    opened.key("ArrowRight")
    client = opened.js("document.querySelectorAll('dialog .legend')[1].textContent")
    assert client.startswith("client 0: ") and client.endswith(" test samples")
    opened.key("Escape")
    assert opened.js("document.querySelector('dialog').open") is False


def test_a_run_that_failed_shows_why_as_text(opened: Browser):
    press(opened, ".runs summary")
    opened.js("new Promise(done => setTimeout(done, 50))")
    press(opened, ".runs tbody tr:nth-child(2) button")
    assert opened.js("document.querySelector('dialog .failure p').textContent") == "out of <luck>"
    assert (
        opened.js("document.querySelector('dialog pre').textContent")
        == "Traceback: line 1\n  boom()"
    )
    press(opened, ".run-head button")
    press(opened, ".runs tbody tr:nth-child(3) button")  # it has not started
    assert opened.js("document.querySelectorAll('dialog svg').length") == 0
    assert "missing" in opened.js("document.querySelector('dialog').innerText")


def test_a_run_shows_its_notes_and_that_its_method_has_changed_since(opened: Browser):
    press(opened, ".runs summary")
    opened.js("new Promise(done => setTimeout(done, 50))")
    shown = "[...document.querySelectorAll('dialog .notes li')].map(item => item.textContent)"
    press(opened, ".runs tbody tr:nth-child(1) button")
    assert opened.js(shown) == [f"all weights are {HOSTILE}"]
    press(opened, ".run-head button")
    press(opened, ".runs tbody tr:nth-child(4) button")
    assert opened.js(shown) == ["The method has changed since this run."]
    assert opened.js("document.querySelector('dialog .failure h3').textContent") == "It diverged"


def test_markup_in_names_is_shown_and_not_obeyed(opened: Browser):
    assert opened.js("document.querySelectorAll('img').length") == 2  # the figures
    assert opened.js("document.querySelector('h1').textContent") == HOSTILE
    assert opened.js("document.title").startswith(HOSTILE)


def test_the_theme_is_the_systems_until_the_reader_chooses(opened: Browser):
    colour = "getComputedStyle(document.body).backgroundColor"
    opened(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}]
    )
    light = opened.js(colour)
    opened(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    dark = opened.js(colour)
    assert (light, dark) == ("rgb(247, 247, 245)", "rgb(20, 22, 26)")
    press(opened, "#theme")
    assert opened.js(colour) == light
    press(opened, "#theme")
    assert opened.js(colour) == dark


# Text whose contrast with what is behind it is below 4.5 : 1 (WCAG AA).
FAINT = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (node) => {
    const colour = node ? parts(getComputedStyle(node).backgroundColor) : [255, 255, 255];
    return colour[3] === 0 ? behind(node.parentElement) : colour;
  };
  return [...document.querySelectorAll("body *")].filter((node) => {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest("svg, script, option")) return false;
    const [a, b] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
  }).map((node) => node.outerHTML.slice(0, 80));
})()"""
NAMELESS = """[...document.querySelectorAll("button, input, select, [role=region], [role=img], img")].filter((node) =>
  !(node.textContent.trim() || node.ariaLabel || node.alt || node.labels?.length || node.matches("[aria-labelledby]"))
).map((node) => node.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_and_controls_have_names(opened: Browser, theme: str):
    opened(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}]
    )
    press(opened, ".runs summary")
    opened.js("new Promise(done => setTimeout(done, 50))")
    press(opened, ".runs tbody tr:nth-child(2) button")
    assert opened.js(FAINT) == []
    assert opened.js(NAMELESS) == []


def test_figures_do_not_glare_in_the_dark(opened: Browser):
    """A white figure has the colour of the card that it is on."""
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    opened("Emulation.setEmulatedMedia", features=dark)
    press(opened, ".fold:has(figure) summary")
    box = "document.querySelector('{}').getBoundingClientRect()"
    code = f"(box => [box.x + scrollX, box.y + scrollY])({box})"
    opened.js("Promise.all([...document.images].map(image => image.decode()))")
    image, card = (
        opened.js(code.format(name)) for name in ("picture img", "details:has(figure) > figure")
    )
    colours = [colour_at(opened, x, y) for x, y in ((image[0] + 50, image[1] + 50), card)]
    assert colours[0] == colours[1] == (27, 30, 35)


def colour_at(browser: Browser, x: float, y: float) -> tuple[int, ...]:
    clip = {"x": x, "y": y, "width": 1, "height": 1, "scale": 1}
    shot = browser("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as found:
        colour: tuple[int, ...] = found.convert("RGB").getpixel((0, 0))  # type: ignore[assignment]
        return colour


def test_a_narrow_screen_needs_no_sideways_scrolling_of_the_page(opened: Browser):
    opened(
        "Emulation.setDeviceMetricsOverride",
        width=360,
        height=780,
        deviceScaleFactor=2,
        mobile=True,
    )
    opened.js("document.querySelectorAll('.fold').forEach(fold => { fold.open = true; })")
    assert opened.js("document.documentElement.scrollWidth") <= 360
    assert opened.js("document.querySelector('img').getBoundingClientRect().right") <= 360
    width = opened.js(
        "document.querySelector('img').decode().then(() => document.images[0].naturalWidth)"
    )
    assert width == 1000  # the narrow one
    opened.js("document.querySelector('.runs').open = false")
    press(opened, ".runs summary")
    opened.js("new Promise(done => setTimeout(done, 50))")
    press(opened, ".runs tbody tr:nth-child(1) button")
    assert opened.js("document.documentElement.scrollWidth") <= 360
    assert opened.js("document.querySelector('dialog').scrollWidth") <= 360
    assert opened.js("document.querySelector('dialog').getBoundingClientRect().right") <= 360


def test_a_run_has_an_address(opened: Browser, page: Path):
    press(opened, ".runs summary")
    opened.js("new Promise(done => setTimeout(done, 50))")
    press(opened, ".runs tbody tr:nth-child(1) button")
    address = opened.js("location.href")
    assert "#run/local-" in address
    opened.open("about:blank")
    opened.open(address)
    assert (
        opened.js("document.querySelector('dialog h2').textContent")
        == "Local: digits, dir:0.1, seed 0"
    )
    opened.open(page.as_uri())
