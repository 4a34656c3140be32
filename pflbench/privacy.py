"""Differential privacy of what a client sends: bounds, Gaussian noise, and the epsilon that follows.

docs/privacy.md says what is protected against whom, and derives the sensitivities stated here.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pflbench.api import Client, Hparams, Net, Params, Replies, log
from pflbench.errors import UserError

ORDERS = [1 + 10 ** (step / 20) for step in range(-160, 61)]
"""Renyi orders among which epsilon is minimised: near 1 where much is spent, high where little is."""
CLEAR = 3.0
"""A class counts as present if its noised count is so many standard deviations of the noise above 0."""


def require_accountant() -> None:
    """Refuse privacy without the package that computes epsilon."""
    if importlib.util.find_spec("opacus") is None:
        raise UserError(
            "dp_sigma above 0 needs Opacus; get it with: pip install 'pflbench[privacy]'"
        )


def require_positive(hparams: Hparams, *names: str) -> None:
    """Refuse bounds of 0, which would leave nothing to send."""
    for name in names:
        if getattr(hparams, name) <= 0:
            raise UserError(f"hyperparameter {name}: must be above 0 if dp_sigma is")


def exclude(used: Mapping[str, bool]) -> None:
    """Refuse hyperparameters by which what a client sends shows its labels in the clear."""
    names = [name for name, is_used in used.items() if is_used]
    if names:
        raise UserError(
            f"dp_sigma above 0 cannot be used with {', '.join(names)},"
            " which would reveal a client's labels"
        )


def noised_update(new: Params, old: Params, bound: float, sigma: float, client: Client) -> Params:
    """old + clip(new - old, S) + N(0, (2 S sigma)^2), for the parameters that a client sends.

    Whatever the client's data are, the clipped change moves by at most 2 S: noise multiplier sigma.
    """
    change = {name: new[name] - old[name] for name in new}
    norm = torch.stack([d.square().sum() for d in change.values()]).sum().sqrt()
    scale = (bound / norm.clamp(min=1e-12)).clamp(max=1.0)
    generator = client.generator("noise of the parameters")
    released = {}
    for name, d in change.items():
        noise = torch.randn(d.shape, generator=generator).to(d.device)
        released[name] = old[name] + scale * d + 2 * bound * sigma * noise
    return released


@torch.no_grad()
def noised_class_sums(
    net: Net, client: Client, bound_z: float, bound_sums: float, sigma: float
) -> dict[str, Tensor]:
    """T + N(0, (2 S_z sigma)^2), T[c] = sum of (clip(z, S_z), S_z) over the samples of class c.

    T, (C, k + 1), holds the class sums and, times S_z, the counts; it is clipped to the norm
    `bound_sums`. One sample moves it by at most 2 S_z and the whole data by at most 2 bound_sums,
    if `net` depends on nothing but what is public. Returns `sums` (C, k) and `counts` (C,) of all
    classes, whether the client holds them or not.
    """
    classes = client.task.classes
    device = client.y.device
    total = torch.zeros(classes, client.task.width + 1, dtype=torch.float64, device=device)
    for x, y in client.samples():
        z = clip_rows(net.body(x).flatten(1).double(), bound_z)  # (B, k)
        samples = torch.cat([z, torch.full_like(z[:, :1], bound_z)], 1)  # (B, k + 1)
        total += one_hot(y, classes).double().T @ samples
    total = clip_rows(total.reshape(1, -1), bound_sums).reshape(total.shape)
    noise = torch.randn(total.shape, generator=client.generator("noise of the class sums"))
    released = (total + 2 * bound_z * sigma * noise.to(device)).float()
    return {"sums": released[:, :-1], "counts": released[:, -1] / bound_z}


def clip_rows(rows: Tensor, bound: float) -> Tensor:
    """The rows, those of a norm above the bound scaled down to it."""
    norm: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows * (bound / norm.clamp(min=1e-12)).clamp(max=1.0)


def pooled_prototypes(replies: Replies, part: str, sigma: float) -> dict[str, Tensor]:
    """Omega[c] = sum_i sums_ic / sum_i counts_ic, of the classes that are clearly there.

    Those are the classes whose summed count is CLEAR standard deviations of its noise above 0.
    Returns `means`, `labels` and `counts`, as prototypes are sent without noise.
    """
    sent = [replies[id][part] for id in sorted(replies)]
    sums = torch.stack([one["sums"].double() for one in sent]).sum(0)  # (C, k)
    counts = torch.stack([one["counts"].double() for one in sent]).sum(0)  # (C,)
    deviation = 2 * sigma * math.sqrt(len(sent))
    present = (counts > CLEAR * deviation).nonzero().flatten()
    means = (sums[present] / counts[present, None]).float()
    return {"means": means, "labels": present.to(torch.int32), "counts": counts[present]}


def log_epsilon(sigma: float, bound_z: float, bound_sums: float, rounds: int, delta: float) -> None:
    """epsilon after some rounds with a noised update and noised class sums in each.

    `epsilon_sample` where one sample of a client may differ, `epsilon_client` where all may: the
    class sums then move by 2 bound_sums, under noise of 2 S_z sigma.
    """
    of_client = sigma * bound_z / bound_sums
    of_sample = max(sigma, of_client)
    log(
        epsilon_sample=epsilon((sigma, of_sample), rounds, delta),
        epsilon_client=epsilon((sigma, of_client), rounds, delta),
    )


@functools.cache
def epsilon(multipliers: tuple[float, ...], rounds: int, delta: float) -> float:
    """epsilon of (epsilon, delta)-differential privacy after some rounds, by Renyi accounting.

    In each round there is one Gaussian release with each of the noise multipliers: the standard
    deviation of the noise over the sensitivity of what is released.
    """
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    for multiplier in multipliers:
        for _ in range(rounds):
            accountant.step(noise_multiplier=multiplier, sample_rate=1.0)
    return float(accountant.get_epsilon(delta, alphas=ORDERS))
