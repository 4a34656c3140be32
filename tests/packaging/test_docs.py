"""Pages that are made from the code are up to date."""

from pathlib import Path

from pflbench.report import methods

ROOT = Path(__file__).resolve().parents[2]


def test_page_of_methods_is_what_the_plugins_say():
    page = (ROOT / "docs" / "methods.md").read_text()
    assert page == methods.page(), "make it anew: python -m pflbench.report.methods > docs/methods.md"
