"""Files of an earlier report: removed if a report wrote them, nobody changed them and this one is
in their place.
"""

import json
from pathlib import Path, PurePosixPath

import pytest

from pflbench.report import manifest


def everything(file: PurePosixPath) -> bool:
    return True


def wrote(out: Path, *names: str) -> list[Path]:
    paths = [out / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    return paths


def there(out: Path) -> set[str]:
    return {
        path.relative_to(out).as_posix() for path in out.rglob("*") if path.name != manifest.NAME
    }


def test_what_is_not_written_again_goes_and_so_does_its_empty_folder(tmp_path: Path):
    assert (
        manifest.replace(tmp_path, wrote(tmp_path, "a/x.md", "a/y.md", "b/z.md"), everything) == []
    )
    wrote(tmp_path, "a/mine.md")
    removed = manifest.replace(tmp_path, wrote(tmp_path, "a/x.md"), everything)
    assert removed == [tmp_path / "a/y.md", tmp_path / "b/z.md"]
    assert there(tmp_path) == {"a", "a/x.md", "a/mine.md"}


def test_what_was_changed_stays_for_good(tmp_path: Path):
    manifest.replace(tmp_path, wrote(tmp_path, "x.md", "y.md"), everything)
    (tmp_path / "x.md").write_text("by hand")
    assert manifest.replace(tmp_path, wrote(tmp_path, "y.md"), everything) == []
    (tmp_path / "x.md").write_text("x.md")  # as it was, but the report has forgotten it
    assert manifest.replace(tmp_path, wrote(tmp_path, "y.md"), everything) == []
    assert there(tmp_path) == {"x.md", "y.md"}


def test_what_a_report_is_not_about_is_remembered(tmp_path: Path):
    manifest.replace(tmp_path, wrote(tmp_path, "x.md", "y.pdf"), everything)
    assert manifest.replace(
        tmp_path, wrote(tmp_path, "z.md"), lambda file: file.suffix == ".md"
    ) == [tmp_path / "x.md"]
    assert there(tmp_path) == {"y.pdf", "z.md"}
    assert manifest.replace(tmp_path, [], everything) == [tmp_path / "y.pdf", tmp_path / "z.md"]


def test_a_report_of_nothing_leaves_no_list(tmp_path: Path):
    assert manifest.replace(tmp_path / "out", [], everything) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["{half", "[]", '["x.md"]', '{"x.md": 1}'])
def test_a_list_that_is_not_sound_removes_nothing(tmp_path: Path, content: str):
    manifest.replace(tmp_path, wrote(tmp_path, "x.md"), everything)
    (tmp_path / manifest.NAME).write_text(content)
    assert manifest.replace(tmp_path, wrote(tmp_path, "y.md"), everything) == []
    assert there(tmp_path) == {"x.md", "y.md"}
    assert [*json.loads((tmp_path / manifest.NAME).read_text())] == ["y.md"]


def test_nothing_outside_the_folder_is_removed(tmp_path: Path):
    out = tmp_path / "out"
    (aside,) = wrote(tmp_path, "aside.md")
    manifest.replace(out, wrote(out, "x.md"), everything)
    checksum = json.loads((out / manifest.NAME).read_text())["x.md"]
    (out / "link.md").symlink_to(aside)
    for path in (aside, out / "x.md"):
        path.write_text("x.md")
    names = ["../aside.md", str(aside), "link.md"]
    (out / manifest.NAME).write_text(json.dumps(dict.fromkeys(names, checksum)))
    assert manifest.replace(out, [], everything) == []
    assert aside.exists() and (out / "link.md").is_symlink()
