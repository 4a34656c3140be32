"""Messages: what may be in them, what they weigh, and that sending copies."""

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pflbench.simulation import messages

DTYPES = [
    torch.float32,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.uint8,
]


def test_bytes_are_counted_per_part():
    message = {
        "phi": {"a": torch.zeros(3, 4), "b": torch.zeros(2)},
        "n": torch.tensor(5, dtype=torch.int32),
        "m": {},
    }
    assert messages.parts(message) == {"phi": 4 * 14, "n": 4, "m": 0}


@pytest.mark.parametrize("leaf", [1, 2.0, "x", None, [torch.zeros(1)], (torch.zeros(1),)])
def test_leaf_that_is_no_tensor_is_refused_by_its_path(leaf):
    with pytest.raises(messages.NotATensor, match=r"'omega\.means'"):
        messages.parts({"omega": {"means": leaf}})


def test_message_that_is_no_dict_is_refused():
    with pytest.raises(messages.NotATensor, match=r"^it is a list; messages and states are dicts"):
        messages.check([torch.zeros(1)])


@given(st.lists(st.integers(0, 4), max_size=3), st.sampled_from(DTYPES))
def test_packing_keeps_shape_type_and_bits(shape, dtype):
    tensor = (torch.arange(torch.Size(shape).numel()).reshape(shape) - 1).to(dtype)
    tree = {"part": {"x": tensor}, 3: {"y": tensor.clone()}}
    back = messages.unpacked(pickle.loads(pickle.dumps(messages.packed(tree))))
    for got in (back["part"]["x"], back[3]["y"]):
        assert got.dtype == dtype
        assert got.shape == tensor.shape
        assert torch.equal(got, tensor)


def test_packing_a_view_sends_the_view_only():
    whole = torch.zeros(1000, 10)
    assert len(pickle.dumps(messages.packed({"x": whole[:2, ::2]}))) < 500


def test_packing_leaves_the_graph_of_a_gradient_behind():
    x = torch.ones(3, requires_grad=True)
    assert messages.unpacked(messages.packed({"x": 2 * x}))["x"].tolist() == [2.0, 2.0, 2.0]


def test_sending_copies():
    x = torch.zeros(3, requires_grad=True)
    copy = messages.sent({"x": x})["x"]
    assert not copy.requires_grad
    assert copy.data_ptr() != x.data_ptr()


def test_finite():
    assert messages.finite({"a": torch.ones(2), "b": {"c": torch.tensor(3)}})
    assert not messages.finite({"a": torch.tensor([1.0, float("nan")])})
    assert not messages.finite({"b": {"c": torch.tensor(float("inf"))}})
    assert not messages.finite({"a": torch.tensor([float("inf"), float("-inf")])})
    assert messages.finite({"a": torch.tensor([3e38, 3e38])})  # only their sum is not
