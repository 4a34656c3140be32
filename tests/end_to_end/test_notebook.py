"""The notebook of the documentation runs from its first cell to its last, in a kernel of its own."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """The notebook with the outputs of this run."""
    found = nbformat.read(PATH, as_version=4)
    where = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    NotebookClient(found, timeout=120, kernel_name="python3", resources=where).execute()
    return found


def outputs(notebook, word):
    """What the cell with this word shows, by kind, and what it prints."""
    (cell,) = [one for one in notebook.cells if one.cell_type == "code" and word in one.source]
    kinds = {kind: value for one in cell.outputs for kind, value in one.get("data", {}).items()}
    printed = "".join(one["text"] for one in cell.outputs if one.output_type == "stream")
    return kinds, printed


def test_the_notebook_is_kept_without_outputs():
    kept = nbformat.read(PATH, as_version=4)
    assert [cell for cell in kept.cells if cell.get("outputs") or cell.get("execution_count")] == []


def test_nothing_complains(notebook):
    streams = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    assert [one["text"] for one in streams if one.get("name") == "stderr"] == []


def test_cells_show_frames_plots_tables_and_predictions(notebook):
    kinds, printed = outputs(notebook, "pflbench.sweep(")
    assert all(method in kinds["text/html"] for method in ("fedavg", "ditto", "near"))
    assert printed.count(": finished, ") == 12
    assert "image/png" in outputs(notebook, 'title="Ditto')[0]
    assert "Near" in outputs(notebook, "pflbench.report(")[0]["text/html"]
    assert outputs(notebook, "pflbench.load(")[1].startswith("[")
    assert "'round': 5" in outputs(notebook, "extended_from")[0]["text/plain"]
