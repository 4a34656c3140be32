"""Every block of code in the README and the documentation is run, or says why it is not."""

import inspect
from pathlib import Path
from types import ModuleType

import pytest

from pflbench import api, ops
from tests.factories.markdown import ROOT, blocks, walk, without_numbers

PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
]
ELSEWHERE = {"docs/tutorial.md"}  # test_examples.py walks through it, and looks at what it leaves


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


WITH_CODE = [page for page in PAGES if blocks(page) and name(page) not in ELSEWHERE]


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    walk(page)


@pytest.mark.parametrize(
    "text, said",
    [
        ("```python\nassert False\n```", ":3: "),
        ("```pycon\n>>> 1 + 1\n3\n```", "Expected:\n    3\nGot:\n    2"),
        ("```\npflbench algorithms show nothing\n```", "unknown"),
        ("```\nrm -r results\n```", "mark the block"),
        ("```\nmake nothing\n```", ":3: "),
        ("```toml\nrounds = 1\n```", "needs a mark"),
        ("<!-- from: LICENSE -->\n```\nAll rights reserved\n```", "not in LICENSE"),
        ("<!-- because: of this -->\n```\nls\n```", "unknown mark 'because'"),
        ("```\n$ pflbench --version\npflbench of tomorrow\n```", "did not print"),
    ],
)
def test_a_block_that_is_wrong_is_found(text: str, said: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("tests.factories.markdown.ROOT", tmp_path)
    for file in ("Makefile", "LICENSE"):
        (tmp_path / file).write_text((ROOT / file).read_text(encoding="utf-8"))
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{text}\n")
    with pytest.raises(AssertionError) as failure:
        walk(page)
    assert said in str(failure.value)


def test_numbers_of_shown_output_do_not_count():
    shown = "accuracy 81.2 of fedavg-658529b198  12 s"
    assert without_numbers(shown) == without_numbers("accuracy 80.96 of fedavg-0123456789 7 s")
    assert without_numbers(shown) != without_numbers("accuracy 81.2 of ditto-658529b198 12 s")


def public(module: ModuleType) -> set[str]:
    """Functions and classes that a plugin may take from a module."""
    here = {*getattr(module, "__all__", ())} | {
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    found = {name for name in here if inspect.isroutine(vars(module)[name])}
    found |= {name for name in here if inspect.isclass(vars(module)[name])}
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("module", [api, ops], ids=["api", "ops"])
def test_the_reference_has_every_function(module: ModuleType):
    page = (ROOT / f"docs/reference/{module.__name__.partition('.')[2]}.md").read_text()
    torchs = {"cosine_similarity", "cross_entropy"}
    types = {"Samples", "Loss", "Message", "State", "Model", "Replies", "Params", "ClientFunction"}
    missing = {
        name
        for name in public(module) - torchs - types
        if f"\n::: {module.__name__}.{name}\n" not in page
    }
    assert missing == set()
