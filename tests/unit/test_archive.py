"""Archives of records: what is in them, the same bytes, and no file that does not belong there."""

import io
import json
import lzma
import tarfile

import pytest

from pflbench.errors import UserError
from pflbench.methods import versions
from pflbench.records import archive, integrity
from tests.factories.data_files import one_line
from tests.factories.run_files import write_sweep

TABLE = {"algorithms": ["local", "fedavg"], "seeds": 2, "clients": 4, "rounds": 3}
FAILED, DIVERGED, MISSING = 0, 1, 2


@pytest.fixture
def folder(tmp_path):
    """A sweep with a run that failed, one that diverged, one that is missing and one that is
    finished; and what archives leave out.
    """
    ended = {FAILED: "failed", DIVERGED: "diverged", MISSING: "missing"}
    write_sweep(tmp_path / "mine", "mine", TABLE, ended)
    for run in (tmp_path / "mine").glob("*-*"):
        (run / "checkpoint-000001-0123456789abcdef.pt").write_bytes(b"large")
        (run / "attempts.jsonl").write_text('{"owner": "somebody"}\n')
    (tmp_path / "mine" / "leases").mkdir()
    (tmp_path / "mine" / "report").mkdir()
    (tmp_path / "mine" / "report" / "index.html").write_text("a page")
    return tmp_path / "mine"


def write(folder, file):
    return archive.write(folder, file, versions.current)


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), int(path.stat().st_mtime))
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_archive_has_plans_and_the_records_of_runs_that_have_ended(folder, tmp_path):
    file = tmp_path / "mine.tar.xz"
    made = write(folder, file)
    assert (made.runs, made.unfinished, made.bytes) == (2, 2, file.stat().st_size)
    archive.unpack(file, tmp_path / "again")
    found = contents(tmp_path / "again")
    plan = json.loads(found["plans/mine.json"][0])
    kept = [run["id"] for place, run in enumerate(plan["runs"]) if place not in (FAILED, MISSING)]
    records = ("run.json", "rounds.jsonl", "timing.jsonl", "status.json")
    assert sorted(found) == sorted(
        ["plans/mine.json", *(f"{run}/{record}" for run in kept for record in records)]
    )
    whole = contents(folder)
    assert found == {name: whole[name] for name in found}


def test_representations_belong_to_the_records(folder, tmp_path):
    run = next(path.parent for path in folder.glob("*/status.json"))
    (run / "status.json").write_text(
        json.dumps({"status": "finished", "round": 3, "records": integrity.sums(run)})
    )
    (run / "representations.npz").write_bytes(b"arrays")
    write(folder, tmp_path / "a.tar.xz")
    archive.unpack(tmp_path / "a.tar.xz", tmp_path / "again")
    assert (tmp_path / "again" / run.name / "representations.npz").read_bytes() == b"arrays"


def test_the_same_records_give_the_same_bytes(folder, tmp_path):
    first, second = tmp_path / "first.tar.xz", tmp_path / "second.tar.xz"
    write(folder, first)
    for run in folder.glob("*/run.json"):
        run.chmod(0o600)
    write(folder, second)
    assert first.read_bytes() == second.read_bytes()
    archive.unpack(first, tmp_path / "again")
    write(tmp_path / "again", second)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as members:
        names = members.getnames()
        assert names == sorted(names)
        assert {(m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, "", "")}


def test_a_folder_is_opened_as_it_is_and_an_archive_under_its_name(folder, tmp_path):
    with archive.opened(folder) as there:
        assert there == folder
    with archive.opened(tmp_path / "none") as there:
        assert there == tmp_path / "none"
    file = tmp_path / "other.tar.xz"
    write(folder, file)
    with archive.opened(file) as there:
        assert there.name == "other" and (there / "plans" / "mine.json").exists()
    assert not there.exists()
    assert archive.stem(file) == tmp_path / "other" and archive.stem(folder) == folder


def test_nothing_is_overwritten(folder, tmp_path):
    file = tmp_path / "a.tar.xz"
    write(folder, file)
    before = contents(folder)
    with pytest.raises(UserError, match="already; choose another --out") as caught:
        archive.unpack(file, folder)
    one_line(caught)
    assert contents(folder) == before


def test_nothing_to_archive(tmp_path):
    write_sweep(tmp_path / "runs", "mine", TABLE, dict.fromkeys(range(4), "missing"))
    for folder in (tmp_path / "runs", tmp_path / "none"):
        with pytest.raises(UserError, match=f"no finished run in {folder}") as caught:
            write(folder, tmp_path / "a.tar.xz")
        one_line(caught)
    assert not (tmp_path / "a.tar.xz").exists()


def packed(*members):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as file:
        for member in members:
            file.addfile(member, io.BytesIO(bytes(member.size)))
    return content.getvalue()


def member(name, kind=tarfile.REGTYPE, size=0, **more):
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size
    for key, value in more.items():
        setattr(made, key, value)
    return made


STRANGE = [
    "/etc/run.json",
    "../run.json",
    "a/../run.json",
    "./run.json",
    "run.json",
    "a/b/run.json",
    "a/other.txt",
    "a/checkpoint-000001-0123456789abcdef.pt",
    "plans/../a.json",
    "plans/a.txt",
    "..\\run.json",
    "a\\b/run.json",
    "C:/run.json",
    "a//run.json",
]


@pytest.mark.parametrize("name", STRANGE)
def test_strange_names_are_refused(tmp_path, name):
    refused(tmp_path, packed(member("b/run.json"), member(name)), "not an archive of records")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_all_but_plain_files_are_refused(tmp_path, kind):
    link = member("a/run.json", kind, linkname="/etc/passwd")
    refused(tmp_path, packed(link), "not an archive of records: it has 'a/run.json'")


def test_bounds_hold_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "BYTES", 100_000)
    refused(tmp_path, packed(member("a/run.json", size=100_001)), "unpacks to more than 100000")
    sparse = member(
        "a/run.json", pax_headers={"GNU.sparse.size": "100001", "GNU.sparse.map": "0,0"}
    )
    refused(tmp_path, packed(sparse), "more than 100000 files or 100000 bytes")
    monkeypatch.setattr(archive, "FILES", 1)
    refused(tmp_path, packed(member("a/run.json"), member("b/run.json")), "more than 1 files")
    monkeypatch.setattr(archive, "MEMORY", 1 << 20)
    refused(tmp_path, packed(member("a/run.json")), "cannot unpack .*[Mm]emory")


def test_a_folder_that_no_archive_may_hold(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "BYTES", 100)
    with pytest.raises(UserError, match="more than 100 bytes") as caught:
        write(folder, tmp_path / "a.tar.xz")
    one_line(caught)
    assert not (tmp_path / "a.tar.xz").exists()


def test_what_is_no_archive(tmp_path):
    whole = packed(member("a/run.json", size=5000))
    refused(tmp_path, b"", "cannot unpack .* cut short")
    refused(tmp_path, b"hello", "cannot unpack")
    refused(tmp_path, whole[:-20], "cannot unpack .* cut short")
    refused(tmp_path, lzma.compress(b"hello"), "cannot unpack")
    refused(tmp_path, packed(member("a/run.json"), member("a/run.json")), "exists")
    refused(tmp_path, packed(member("a/run.json", mtime=1e30)), "cannot unpack")


def refused(tmp_path, content, words):
    """Unpacking stops in one line, and has written nothing outside the folder."""
    file = tmp_path / "in" / "bad.tar.xz"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    with pytest.raises(UserError, match=words) as caught, archive.opened(file):
        pytest.fail("it was read")
    assert str(file) in one_line(caught)
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "bad.tar.xz"]
