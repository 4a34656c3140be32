"""Local optimizers against torch's, and a start without its compiler."""

import subprocess
import sys

import pytest
import torch

from pflbench.optim import SGD, Adam


def trained(kind, steps: int = 7, anew_after: int | None = None):
    """Two parameters after some steps; the second has a gradient in every other step only.

    With `anew_after`, another optimizer takes over then, in the state of the first.
    """
    draws = torch.Generator().manual_seed(0)
    a, b = (torch.randn(4, 3, generator=draws).requires_grad_() for _ in range(2))
    optimizer = kind([a, b], lr=0.05)
    for step in range(steps):
        if step == anew_after:
            first, optimizer = optimizer, kind([a, b], lr=0.05)
            optimizer.load(first.state())
        loss = (a - 1).square().sum() + ((a * b).sin().sum() if step % 2 else 0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return a.detach(), b.detach()


@pytest.mark.parametrize(("ours", "theirs"), [(SGD, torch.optim.SGD), (Adam, torch.optim.Adam)])
def test_steps_are_those_of_torch_also_where_gradients_are_missing(ours, theirs):
    for mine, reference in zip(trained(ours), trained(theirs), strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_an_optimizer_that_loads_the_state_of_another_takes_its_next_steps(kind):
    for mine, reference in zip(trained(kind, anew_after=3), trained(kind), strict=True):
        assert torch.equal(mine, reference)


def test_a_loaded_state_is_a_copy():
    a = torch.zeros(3, requires_grad=True)
    first, second = Adam([a], lr=0.1), Adam([a], lr=0.1)
    second.load(first.state())
    a.sum().backward()
    second.step()
    assert [int(t) for t in first.state()["t"]] == [0]
    assert [int(t) for t in second.state()["t"]] == [1]
    assert not first.state()["m"][0].any()


def test_adam_of_channels_last_weights_is_that_of_torch():
    draws = torch.Generator().manual_seed(0)
    first, x = torch.randn(6, 4, 3, 3, generator=draws), torch.randn(5, 4, 8, 8, generator=draws)
    found = []
    for kind, layout in ((Adam, torch.channels_last), (torch.optim.Adam, torch.contiguous_format)):
        w = first.clone().contiguous(memory_format=layout).requires_grad_()
        optimizer = kind([w], lr=0.05)
        for _ in range(5):
            optimizer.zero_grad()
            torch.nn.functional.conv2d(
                x.contiguous(memory_format=layout), w
            ).square().mean().backward()
            optimizer.step()
        found.append(w.detach())
    torch.testing.assert_close(*found, check_stride=False)


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_without_a_gradient_nothing_moves(kind):
    a = torch.ones(3, requires_grad=True)
    optimizer = kind([a], lr=0.1)
    optimizer.step()
    assert a.tolist() == [1.0, 1.0, 1.0]
    assert not any(t.any() for tensors in optimizer.state().values() for t in tensors)


def test_first_step_of_adam_moves_every_entry_by_the_rate():
    a = torch.zeros(5, requires_grad=True)
    (a * torch.tensor([1.0, -2.0, 3.0, 100.0, -0.01])).sum().backward()
    Adam([a], lr=0.1).step()
    torch.testing.assert_close(a.detach(), torch.tensor([-0.1, 0.1, -0.1, -0.1, 0.1]))


def test_a_client_trains_without_importing_the_compiler():
    code = """
import sys
from pflbench.testing.problem import toy
for method in ("fedavg", "fedcosr"):
    toy(method).step()
print("torch._dynamo" in sys.modules)
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "False"
