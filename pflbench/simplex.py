"""The best mixture: a quadratic program over the simplex."""

import torch
from torch import Tensor


def simplex_qp(R: Tensor) -> tuple[Tensor, float]:
    """argmin of a^T P a over a >= 0, sum a = 1, for P = R^T R, R: (rows, m); in float64.

    If x >= 0 minimises ||R x||^2 + (sum x - 1)^2, then a = x / sum x: the two problems have the
    same conditions of optimality, and that of x is solved in finitely many steps. Returns a and the
    relative gap (g.a - min g) / g.a, g = P a, which is 0 at the optimum (values of a^T P a below
    1e-9 of the smallest on the diagonal count as 0).
    """
    from scipy.optimize import nnls

    m = R.shape[1]
    uniform = torch.full((m,), 1 / m, dtype=torch.float64)
    diagonal = R.double().square().sum(0)
    if not diagonal.isfinite().all():
        return uniform, float("inf")
    if not diagonal.any():
        return uniform, 0.0
    R = R.double() / diagonal[diagonal > 0].min().sqrt()
    goal = torch.zeros(len(R) + 1, dtype=torch.float64)
    goal[-1] = 1.0
    try:
        x, _ = nnls(torch.cat([R, torch.ones(1, m, dtype=torch.float64)]).numpy(), goal.numpy())
    except RuntimeError:  # too many steps
        return uniform, float("inf")
    a = torch.from_numpy(x) / x.sum()
    g = R.T @ (R @ a)
    value = g @ a
    return a, float((value - g.min()) / value.clamp(min=1e-9))
