"""How a report grows: 22 methods x 12 settings x 5 seeds x 200 rounds x 100 clients in a minute,
and a page to mail.

The whole of it takes minutes and a gigabyte of disk: PFLBENCH_SCALE=1 pytest
tests/end_to_end/test_report_scale.py -s
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pflbench.report.load import runs
from pflbench.report.load.runs import Choice
from pflbench.report.page.html import as_script
from pflbench.report.page.run_data import embedded
from tests.factories.run_files import write_sweep

LARGE = {"algorithms": "fedcosr-paper", "clients": 100, "rounds": 200}
RUNS = 22 * 12 * 5
SECONDS, MEMORY, PAGE = 60, 2e9, 25e6


def test_a_run_takes_its_share_of_the_page(tmp_path: Path):
    write_sweep(tmp_path, "large", {**LARGE, "algorithms": ["fedavg", "fedcosr"]})
    found = runs.collect(tmp_path, Choice())
    assert [run.evaluated.size for run in found[0].runs] == [201, 201]
    # the other half is for tables and figures
    assert len(as_script(embedded(found))) / 2 < PAGE / RUNS / 2


@pytest.mark.skipif(
    "PFLBENCH_SCALE" not in os.environ, reason="takes minutes; PFLBENCH_SCALE=1 runs it"
)
def test_a_report_of_1320_runs(tmp_path: Path):
    settings = {
        "dataset": ["cifar10", "emnist", "cifar100"],
        "partition": ["dir:0.01", "dir:0.1", "dir:1", "path:2"],
    }
    assert (
        len(write_sweep(tmp_path / "runs", "large", {**LARGE, "seeds": 5, "scenarios": [settings]}))
        == RUNS
    )
    begin = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "pflbench",
        "report",
        str(tmp_path / "runs"),
        "--out",
        str(tmp_path / "out"),
    ]
    subprocess.run(command, capture_output=True, check=True)
    seconds = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    size = (tmp_path / "out" / "index.html").stat().st_size
    cpu = used.ru_utime + used.ru_stime
    print(
        f"\n{seconds:.0f} s ({cpu:.0f} s on all cores), {used.ru_maxrss / 1e3:.0f} MB, page {size / 1e6:.1f} MB"
    )
    assert (seconds < SECONDS, used.ru_maxrss * 1e3 < MEMORY, size < PAGE) == (True, True, True)
