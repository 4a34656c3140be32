"""What can be known of runs on a GPU without one: its settings, its name in records, where data lie."""

import os

import numpy as np
import pytest
import torch

from pflbench.records import provenance
from pflbench.simulation import gpu
from pflbench.simulation.client_worker import Rows
from pflbench.testing import played, toy
from pflbench.testing.compare import difference


@pytest.fixture
def settings(monkeypatch):
    """Settings of torch as they are by default, and put back afterwards."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    kept = [torch.backends.cudnn, torch.backends.cuda.matmul]
    before = [one.allow_tf32 for one in kept]
    for one in kept:
        one.allow_tf32 = True
    yield
    for one, value in zip(kept, before, strict=True):
        one.allow_tf32 = value
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def fake(monkeypatch):
    """A GPU that only says its name."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Fake {device}")
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)


def test_a_gpu_computes_deterministically_with_whole_products(settings):
    gpu.prepare("cuda:1")
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32


def test_a_cpu_is_left_as_it_is(settings):
    gpu.prepare("cpu")
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("free, fits", [(4 * 600, True), (4 * 600 - 4, False)])
def test_data_are_on_the_gpu_if_a_quarter_of_its_free_memory_holds_them(monkeypatch, free, fits):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10**9))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: self)
    x = np.zeros((600, 1, 1, 1), np.uint8)
    assert (gpu.resident(x, torch.device("cuda")) is not None) == fits
    assert gpu.resident(x, torch.device("cpu")) is None


def test_rows_of_data_on_a_device_are_those_of_the_memory_map():
    x = np.arange(40, dtype=np.uint8).reshape(10, 4)
    indices, rows = np.array([7, 2, 9, 4]), torch.tensor([3, 0, 0])
    there = gpu.RowsThere(torch.from_numpy(x), indices)
    assert torch.equal(there[rows], Rows(x, indices)[rows])
    meta = gpu.RowsThere(torch.from_numpy(x).to("meta"), indices)
    assert meta[rows].device.type == "meta"


def test_a_run_on_data_that_were_copied_once_is_the_same(monkeypatch):
    plain, copies = played(toy("fedcosr"), 2), []

    def resident(x, device):
        copies.append(torch.from_numpy(np.array(x)))
        return copies[-1]

    monkeypatch.setattr(gpu, "resident", resident)
    there = played(toy("fedcosr"), 2)
    assert len(copies) == 1
    assert isinstance(there.client(0).x, gpu.RowsThere)
    assert difference(there.server, plain.server) is None
    assert difference(dict(there.states), dict(plain.states)) is None


def test_another_gpu_is_another_kind_of_machine(fake):
    cpu = provenance.kind_of_machine()
    assert provenance.kind_of_machine("cpu") == cpu
    kinds = {cpu, *map(provenance.kind_of_machine, ("cuda:0", "cuda:1"))}
    assert len(kinds) == 3
    assert "Fake cuda:1, CUDA 12.9, cuDNN 91002" in provenance.kind_of_machine("cuda:1")


def test_records_name_the_gpu(fake):
    machine = provenance.environment("cuda:0", 1)["machine"]
    assert (machine["gpu"]["model"], machine["gpu"]["cuda"]) == ("Fake cuda:0", "12.9")
    assert "driver" in machine["gpu"]
    assert "gpu" not in provenance.environment("cpu", 1)["machine"]
