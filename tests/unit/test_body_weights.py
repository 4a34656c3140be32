"""Initial values of the network's body from a file: for every method, by content, and never executed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pflbench.errors import UserError
from pflbench.ops import phi, pi
from pflbench.testing import equal, toy


def body(seed: int = 5) -> dict[str, torch.Tensor]:
    """Random values for the body of the toy network."""
    draws = torch.Generator().manual_seed(seed)
    names = phi(toy("fedavg").algorithm.task.initial)
    return {name: torch.randn(p.shape, generator=draws) for name, p in names.items()}


def save_npz(path: Path, tensors: dict[str, torch.Tensor]) -> str:
    arrays: dict[str, Any] = {name: values.numpy() for name, values in tensors.items()}
    np.savez(path, **arrays)
    return str(path)


def save_torch(path: Path, content: object) -> str:
    torch.save(content, path)
    return str(path)


def initial(file: str) -> dict[str, torch.Tensor]:
    return toy("fedavg", body_weights=file).algorithm.task.initial


def bare(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.removeprefix("body."): values for name, values in tensors.items()}


@pytest.mark.parametrize("method", ["fedavg", "local", "feddbl"])
def test_every_method_starts_with_the_files_body_and_the_seeds_head(tmp_path, method):
    file = save_npz(tmp_path / "body.npz", body())
    given = toy(method, body_weights=file).algorithm.task
    drawn = toy(method).algorithm.task
    assert equal(phi(given.initial), body())
    assert equal(pi(given.initial), pi(drawn.initial))
    assert (given.pretrained, drawn.pretrained) == (True, False)


def test_names_may_lack_body_and_the_head_of_a_whole_network_is_left_out(tmp_path):
    whole = {**body(), "head.fc2.weight": torch.zeros(4, 8), "head.fc2.bias": torch.zeros(4)}
    files = [
        save_npz(tmp_path / "bare.npz", bare(body())),
        save_npz(tmp_path / "whole.npz", whole),
        save_torch(tmp_path / "bare.pt", bare(body())),
        save_torch(tmp_path / "whole.pth", whole),
    ]
    assert all(equal(phi(initial(file)), body()) for file in files)
    assert all(equal(pi(initial(file)), pi(toy("fedavg").algorithm.task.initial)) for file in files)


def test_a_run_trains_from_it(tmp_path):
    file = save_npz(tmp_path / "body.npz", body())
    given = toy("fedavg", {"epochs": 0}, body_weights=file)
    given.step()
    torch.testing.assert_close(phi(given.server["theta"]), body())


def test_other_number_formats_are_converted(tmp_path):
    doubles = {name: values.double() for name, values in body().items()}
    assert equal(phi(initial(save_npz(tmp_path / "body.npz", doubles))), body())


def test_the_file_counts_in_the_id_by_content_and_not_by_path(tmp_path):
    first = save_npz(tmp_path / "first.npz", body())
    copy = tmp_path / "copy.npz"
    copy.write_bytes(Path(first).read_bytes())
    other = save_npz(tmp_path / "other.npz", body(seed=6))
    ids = [toy("fedavg", body_weights=file).run.id for file in (first, str(copy), other, None)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


class Harmful:
    """An object whose unpickling would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("suffix", ["pt", "npz"])
def test_a_file_is_never_executed(tmp_path, suffix):
    path, harm = tmp_path / f"body.{suffix}", tmp_path / "harm"
    if suffix == "pt":
        torch.save({"fc1.weight": Harmful(harm)}, path)
    else:
        np.savez(path, **{"fc1.weight": np.array([Harmful(harm)], dtype=object)})
    with pytest.raises(UserError):
        initial(str(path))
    assert not harm.exists()


def without(name: str) -> dict[str, torch.Tensor]:
    return {other: values for other, values in body().items() if other != name}


BAD = {
    "lacks a parameter": (
        without("body.fc1.bias"),
        "missing body.fc1.bias; not in the network: no",
    ),
    "has another one": (
        {**body(), "fc9.bias": torch.zeros(1)},
        "missing nothing; not in the network: body.fc9.bias",
    ),
    "has another shape": (
        {**body(), "body.fc1.bias": torch.zeros(9)},
        r"body.fc1.bias has the shape \(9,\), the network's has \(8,\)",
    ),
    "has integers": (
        {**body(), "body.fc1.bias": torch.zeros(8, dtype=torch.int64)},
        "body.fc1.bias has torch.int64, not torch.float32",
    ),
    "is not finite": (
        {**body(), "body.fc1.bias": torch.full((8,), float("nan"))},
        "body.fc1.bias has values that are not finite",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("suffix", ["npz", "pt"])
def test_a_file_that_does_not_fit_is_refused_in_one_line(tmp_path, case, suffix):
    content, says = BAD[case]
    save = save_npz if suffix == "npz" else save_torch
    file = save(tmp_path / f"body.{suffix}", content)
    with pytest.raises(UserError, match=says) as refused:
        initial(file)
    assert file in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("body.npz", b"no archive", "is not a readable .npz archive"),
        ("body.pt", b"no archive", "is not a torch file of plain tensors"),
        ("body.bin", b"", r"must end in one of .npz, .pt, .pth"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=says) as refused:
        initial(str(tmp_path / name))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["missing.npz", "missing.pt"])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(UserError, match=r"cannot read .*missing.*No such file") as refused:
        initial(str(tmp_path / name))
    assert "\n" not in str(refused.value)


def test_something_else_than_a_state_dict_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a state dict"):
        initial(save_torch(tmp_path / "body.pt", [torch.zeros(3)]))


def test_text_in_place_of_numbers_is_refused(tmp_path):
    np.savez(tmp_path / "body.npz", **{"fc1.weight": np.array(["a"])})
    with pytest.raises(UserError, match=r"fc1.weight has <U1, not numbers"):
        initial(str(tmp_path / "body.npz"))


def test_other_draws_of_the_start_have_the_files_body_too(tmp_path):
    task = toy("fedavg", body_weights=save_npz(tmp_path / "body.npz", body())).algorithm.task
    drawn = task.another(1)
    assert equal(phi(drawn), body())
    assert not equal(pi(drawn), pi(task.initial))
