"""Documents that pdflatex compiles, where it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed"
)


def compile_latex(source: str, folder: Path, **others: str) -> str:
    """What pdflatex says of a document (`paper.tex`) next to others; fails if it does."""
    for name, text in {"paper": source, **others}.items():
        (folder / f"{name}.tex").write_text(text, encoding="utf-8")
    how = ["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    command = ["pdflatex", *how, "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    said = done.stdout.decode("latin-1")
    assert done.returncode == 0, said[-2000:]
    return said
