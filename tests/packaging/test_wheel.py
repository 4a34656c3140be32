"""What the wheel holds, and that the top-level `datasets/` never hides a package of that name."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, cwd: Path, *path: Path) -> str:
    """What a fresh interpreter prints, started in `cwd` with `path` in front of the installed packages."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(out),
        str(ROOT),
    ]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_of_the_source_archive_runs_where_nothing_else_is(tmp_path: Path):
    """As pipx does it: an environment of its own; its dependencies are those of this one."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # the archive, then a wheel from it
    (file,) = tmp_path.glob("*.whl")
    assert len([*tmp_path.glob("*.tar.gz")]) == 1
    room = tmp_path / "room"
    venv.create(room, with_pip=True)
    (packages,) = room.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def said(*words: str, **more: str) -> str:
        env = environment | more
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    said(
        str(room / "bin/pip"), "install", "--no-deps", "--no-index", "--force-reinstall", str(file)
    )
    pflbench = str(room / "bin/pflbench")
    assert said(pflbench, "--version") == "pflbench 0.1.0\n"
    typed = {"COMP_WORDS": "pflbench sw", "COMP_CWORD": "1"}  # and the tab key, in bash
    assert said(pflbench, **typed, _PFLBENCH_COMPLETE="complete_bash") == "sweep\n"
    where = said(str(room / "bin/python"), "-c", "import pflbench; print(pflbench.__file__)")
    assert where.startswith(str(packages))
    small = ["--clients", "4", "--rounds", "1", "--model", "mlp", "--width", "8", "--quiet"]
    assert "FedAvg on Digits" in said(pflbench, "run", "fedavg", "--workers", "1", *small)


@pytest.mark.parametrize(
    "folder, pattern, package",
    [
        ("pflbench", "**/*.py", "pflbench"),
        ("algorithms", "*.py", "pflbench/algorithms"),
        ("benchmarks", "*.py", "pflbench/benchmarks"),
        ("datasets", "*.py", "pflbench/datasets"),
        ("experiments", "*.toml", "pflbench/experiments"),
        ("pflbench/papers/fedcosr", "*.csv", "pflbench/papers/fedcosr"),
    ],
)
def test_every_file_is_in_the_wheel(
    wheel: zipfile.ZipFile, folder: str, pattern: str, package: str
):
    files = [path.relative_to(ROOT / folder).as_posix() for path in (ROOT / folder).glob(pattern)]
    assert files
    assert {f"{package}/{name}" for name in files} <= set(wheel.namelist())


def test_the_wheel_holds_one_package_and_nothing_else(wheel: zipfile.ZipFile):
    names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {"pflbench", "pflbench-0.1.0.dist-info"}
    assert len(names) == len(set(names))
    assert not [name for name in names if "test_" in name or "__pycache__" in name]
    assert "pflbench/py.typed" in names
    assert "pflbench-0.1.0.dist-info/licenses/LICENSE" in names


def test_the_wheel_declares_its_command(wheel: zipfile.ZipFile):
    entry_points = wheel.read("pflbench-0.1.0.dist-info/entry_points.txt").decode()
    assert "[console_scripts]\npflbench = pflbench.cli.main:main" in entry_points


def test_plugins_are_found_in_an_unpacked_wheel(wheel: zipfile.ZipFile, tmp_path: Path):
    wheel.extractall(tmp_path / "site")
    code = (
        "import pkgutil, pflbench.algorithms as a\n"
        "print(*a.__path__)\n"
        "print(*sorted(m.name for m in pkgutil.iter_modules(a.__path__)))"
    )
    folders, names = python(code, tmp_path, tmp_path / "site").split("\n")
    assert folders == str(tmp_path / "site/pflbench/algorithms")
    assert names.split() == sorted(path.stem for path in (ROOT / "algorithms").glob("*.py"))


@pytest.mark.parametrize("folder", ["algorithms", "benchmarks", "datasets"])
def test_the_shim_adds_the_folder_of_a_checkout_only(folder: str, tmp_path: Path):
    shutil.copytree(ROOT / "pflbench" / folder, tmp_path / "pflbench" / folder)
    (tmp_path / "pflbench/__init__.py").touch()
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "brand_new.py").write_text("here = True\n")
    find = (
        f"import importlib.util as u; print(u.find_spec('pflbench.{folder}.brand_new') is not None)"
    )
    assert python(find, tmp_path, tmp_path) == "False"
    (tmp_path / "pyproject.toml").touch()
    assert python(find, tmp_path, tmp_path) == "True"


@pytest.mark.parametrize("folder", ["algorithms", "benchmarks", "datasets"])
def test_top_level_folders_have_no_init(folder: str):
    assert (ROOT / folder).is_dir()
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize("start", ["elsewhere", "checkout root", "checkout first on the path"])
def test_a_package_named_datasets_is_not_shadowed(start: str, tmp_path: Path):
    fake = tmp_path / "site" / "datasets" / "__init__.py"
    fake.parent.mkdir(parents=True)
    fake.write_text("def load_dataset(): ...\n")
    cwd = ROOT if start == "checkout root" else tmp_path
    first = [ROOT] if start == "checkout first on the path" else []
    code = "import pflbench.datasets, datasets; print(datasets.__file__, hasattr(datasets, 'load_dataset'))"
    assert python(code, cwd, *first, tmp_path / "site") == f"{fake} True"
