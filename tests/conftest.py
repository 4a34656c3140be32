"""What all tests share: a data root of their own, one torch thread as in a worker."""

import os

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def data_root(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Prepared data go to a folder of this session, also those of commands that a test starts."""
    os.environ["PFLBENCH_DATA"] = str(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
