"""The code blocks of a page, and a walk through them: commands are given, Python is executed.

A comment on the line above a block says what else is to be done with it:

    <!-- file: mine.toml -->                a file of the walk's folder, for later blocks
    <!-- from: algorithms/ditto.py -->      an excerpt of a file that other tests run; `...` leaves parts out
    <!-- run with: --rounds 1 (a reason) -->    these options are added to `run`, `sweep`, `tune` and `report`
    <!-- not run: it needs a network -->    a reason, for readers of the source
"""

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflbench.cli import main

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[a-z ]+): (?P<value>[^\n]+?) -->\n)?"
    r"^(?P<fence>`{3,}) ?(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
COMMANDS = {"", "console", "sh", "bash"}
LONG = {"run", "sweep", "tune", "report"}  # commands that may be shortened
MARKS = {"", "file", "from", "run with", "not run"}


@dataclass(frozen=True)
class Block:
    where: str  # page and line
    language: str
    text: str
    mark: str
    value: str

    def commands(self) -> Iterator[tuple[list[str], list[str]]]:
        """Each command as words, with the lines of output that the page shows below it."""
        lines = self.text.replace("\\\n", " ").splitlines()
        with_prompt = any(line.startswith("$ ") for line in lines)
        found: list[tuple[list[str], list[str]]] = []
        for line in lines:
            if with_prompt and not line.startswith("$ "):
                found[-1][1].append(line)
            elif words := shlex.split(line.removeprefix("$ "), comments=True):
                found.append((words, []))
        yield from found


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("fence")) + 1
        where = f"{page.relative_to(ROOT)}:{line}"
        mark, value = match["mark"] or "", match["value"] or ""
        assert mark in MARKS, f"{where}: unknown mark {mark!r}"
        found.append(Block(where, match["language"], match["text"], mark, value))
    return found


def walk(page: Path) -> None:
    """Do what the blocks of a page say, in this folder. Whatever fails says where."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        try:
            _do(block, names)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{block.where}: {error}") from error


def _do(block: Block, names: dict[str, Any]) -> None:
    if block.mark == "not run":
        return
    if block.mark == "from":
        _excerpt(block)
    elif block.mark == "file":
        path = Path(block.value)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        exec(compile(block.text, block.where, "exec"), names)
    elif block.language == "pycon":
        _examples(block, names)
    elif block.language in COMMANDS:
        for words, output in block.commands():
            _command(words, output, block.value if block.mark == "run with" else "")
    else:
        raise ValueError(f"a block of {block.language} needs a mark: see {__name__}")


def _excerpt(block: Block) -> None:
    text = (ROOT / block.value).read_text(encoding="utf-8")
    for part in re.split(r"^ *\.\.\.\n", block.text, flags=re.MULTILINE):
        assert part.strip("\n") in text, f"not in {block.value}:\n{part}"


def _examples(block: Block, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, names, block.where, block.where, 0)
    test.globs = names  # what one block defines, later ones use
    said = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False)
    assert test.examples, "no example"
    assert runner.run(test, out=said.write, clear_globs=False).failed == 0, said.getvalue()


def _command(words: list[str], shown: list[str], options: str) -> None:
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(re.search(rf"^{word}:", makefile, re.MULTILINE) for word in words[1:])
        return
    if words[0] != "pflbench":
        raise ValueError(f"{words[0]}: only pflbench and make are run; mark the block")
    more = shlex.split(options.partition("(")[0]) if words[1] in LONG else []
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main([*words[1:], *more])
        except SystemExit as end:
            code = end.code
    said = out.getvalue() + err.getvalue()
    command = shlex.join([*words, *more])
    assert code == 0, f"{command} ended with {code}: {said}"
    printed = [without_numbers(line) for line in said.splitlines()]
    lacking = [line for line in shown if line != "..." and without_numbers(line) not in printed]
    assert not lacking, f"{command} did not print {lacking}, but:\n{said}"


def without_numbers(line: str) -> str:
    """A line whose numbers, hashes and runs of blanks do not count: they depend on the machine."""
    line = re.sub(r"[0-9a-f]{10}", "#", line.strip())
    return re.sub(r"\s+|-{2,}", " ", re.sub(r"\d+([.,:]\d+)*", "#", line))
