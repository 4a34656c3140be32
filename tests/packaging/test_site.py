"""The documentation site: it builds, every page is in its navigation, and it loads nothing from a network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = [
    "Home",
    "Tutorial",
    "Write a method",
    "Own data and networks",
    "Experiments",
    "Reports",
    "Reproducibility",
    "Privacy",
    "Clusters and GPUs",
    "Methods",
    "Decisions",
    "FAQ",
]


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--config-file", str(config), "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


class Page(HTMLParser):
    """What a page loads, where it links to, and the sections of its navigation."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(found.get("href", ""))
        elif tag == "link":
            self.loads.append(found.get("href", ""))
        else:
            self.loads.append(found.get("src", ""))


def outside(address: str) -> bool:
    return re.match(r"(https?:)?//", address) is not None


def test_pages_load_nothing_from_a_network(site: Path):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for path in pages:
        page = Page(path.read_text(encoding="utf-8"))
        assert [address for address in page.loads if outside(address)] == [], path
    for path in site.rglob("*.css"):
        addresses = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", path.read_text("utf-8"))
        assert [address for address in addresses if outside(address)] == [], path


def test_what_is_loaded_from_outside_would_be_found():
    page = Page(
        '<script src="https://a.b/c.js"></script><link href="//a.b/d.css"><img src="e.png">'
    )
    assert [address for address in page.loads if outside(address)] == [
        "https://a.b/c.js",
        "//a.b/d.css",
    ]


def test_every_page_is_in_the_navigation(site: Path):
    home = (site / "index.html").read_text(encoding="utf-8")
    links = {link.partition("#")[0] for link in Page(home).links}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {name.removesuffix("md") + "html" for name in pages} - {"index.html"} - links == set()
    assert {path.name for path in (ROOT / "docs").rglob("*.ipynb")} - links == set()
    assert (site / "notebook.ipynb").read_bytes() == (ROOT / "docs/notebook.ipynb").read_bytes()


def test_the_sections_of_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    found = re.findall(r"^  - ([^:\n]+):", text, re.MULTILINE)
    assert [section for section in found if section in SECTIONS] == SECTIONS


def test_a_link_that_leads_nowhere_fails(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# Home\n\n[nowhere](index.md#nowhere)\n")
    checks = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    checks = checks[checks.index("\nvalidation:") : checks.index("\nnav:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: small\n{checks}\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "nowhere" in done.stdout + done.stderr
