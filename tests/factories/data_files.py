"""Files of data sets, as tests make them, and what the tests of data sets share."""

import gzip

import numpy as np

from pflbench.data import datasets


def module(name):
    return datasets._find(name).module


def one_line(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_idx(path, array):
    """The idx format of MNIST: 0, 0, type 8 (uint8), number of axes, sizes as big-endian int32, bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def counts(monkeypatch, name, samples, classes):
    monkeypatch.setattr(module(name), "SAMPLES", samples)
    monkeypatch.setattr(module(name), "CLASSES", classes)
