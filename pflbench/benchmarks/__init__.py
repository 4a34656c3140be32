"""What `pflbench bench` measures, one question per file.

In a checkout the files are in the top-level `benchmarks/`, which this package adds to its path; in an installed wheel
they are in this folder. See docs/decisions/0001-top-level-folders.md.
"""

from pathlib import Path

_root = Path(__file__).resolve().parents[2]
if (_root / "pyproject.toml").is_file() and (_root / "benchmarks").is_dir():
    __path__.append(str(_root / "benchmarks"))
