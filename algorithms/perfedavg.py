"""PerFedAvg (Fallah et al., "Personalized federated learning with theoretical guarantees: a model-agnostic
meta-learning approach", NeurIPS 2020), Algorithm 1.

Down: w. Up: theta, n. Private: nothing. Evaluated: w after `adapt_steps` steps on the client's training data (pre).
Deviations: first-order by default, without the Hessian term (`variant` "hessian_free" has it); clients weigh by samples
(option `uniform`); a round is a pass over batches whose halves are the inner and the outer batch. The FedCoSR paper's
"meta learning steps" are read as the steps before scoring. A client whose adaptation is not finite is scored with w
(logged as `not_adapted`). The score right after training is of the client's own theta, adapted likewise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Message,
    Model,
    Net,
    Params,
    Replies,
    State,
    log,
    hparam,
)
from pflbench.ops import gradient, weighted_mean

Batch = tuple[Tensor, Tensor]
Gradient = Callable[[Params], Params]
ALPHA = {"cifar10": 0.2, "emnist": 0.05, "cifar100": 0.01}
STEPS = {"cifar10": 5, "emnist": 10, "cifar100": 20}


@dataclass(frozen=True)
class PerFedAvgHparams(Hparams):
    lr: float = hparam(0.01, (1e-4, 1.0), "beta, rate of the outer step")
    alpha: float = hparam(0.05, (1e-3, 1.0), "rate of the inner steps and of the adaptation", ALPHA)
    batch_size: int = hparam(
        32, (2, 1024), "b, samples in a batch; half for the inner, half for the outer gradient"
    )
    optimizer: str = hparam("sgd", ["sgd"], "the method is made of gradient steps of its own")
    keep_optimizer: bool = hparam(False, [False], "its gradient steps have no state", tune=False)
    inner_steps: int = hparam(1, (0, 20), "inner steps before each outer one")
    outer_steps: int | None = hparam(
        None, (1, 1000), "outer steps in a round; none: all batches of the passes"
    )
    adapt_steps: int = hparam(10, (0, 100), "r_meta, steps of adaptation before scoring", STEPS)
    variant: str = hparam(
        "first_order", ["first_order", "hessian_free"], "whether the Hessian term is left out"
    )
    difference: float = hparam(
        1e-3, (1e-5, 0.1), "d of the difference quotient that stands for the Hessian"
    )
    uniform: bool = hparam(False, [False, True], "clients weigh equally; false: by samples")


class PerFedAvg(Algorithm):
    title = "PerFedAvg"
    family = "Meta-learning"
    hp: PerFedAvgHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        net, theta = self.prepared(client, message["theta"], "train")
        others = self.batches(client, "hessian")
        for x, y in self.batches(client, "train"):
            (x1, x2), (y1, y2) = (t.tensor_split(2) for t in (x, y))
            third = gradient(net, *next(others), "") if self.hp.variant == "hessian_free" else None
            theta = self.step(theta, gradient(net, x1, y1, ""), gradient(net, x2, y2), third)
        return {"theta": plain(message["theta"], theta), "n": client.n}, {}

    def batches(self, client: Client, stream: str) -> Iterator[Batch]:
        """Batches of two samples or more: one sample cannot be split."""
        passes = max(self.hp.epochs, self.hp.outer_steps or 0)
        usable = (
            batch
            for batch in client.batches(self.hp.batch_size, passes, stream)
            if len(batch[1]) > 1
        )
        return islice(usable, self.hp.outer_steps)

    def step(
        self, theta: Params, inner: Gradient, outer: Gradient, third: Gradient | None = None
    ) -> Params:
        """theta' = theta - alpha inner(theta); theta <- theta - beta (I - alpha H(theta)) outer(theta').

        The factor with H, the derivative of `third`, is left out if there is none. With several inner steps there is
        one factor for each.
        """
        hp, path = self.hp, [theta]
        for _ in range(hp.inner_steps):
            path.append(moved(path[-1], -hp.alpha, inner(path[-1])))
        g = outer(path[-1])
        if third is not None:
            for point in reversed(path[:-1]):
                ahead, behind = (third(moved(point, d, g)) for d in (hp.difference, -hp.difference))
                Hg = {name: (ahead[name] - behind[name]) / (2 * hp.difference) for name in g}
                g = moved(g, -hp.alpha, Hg)
        return moved(theta, -hp.lr, g)

    def aggregate(self, server: State, replies: Replies) -> State:
        weights = dict.fromkeys(replies, torch.ones(())) if self.hp.uniform else None
        return {"theta": weighted_mean(replies, "theta", weights)}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta, finite = self.adapted(client, message["theta"])
        log(not_adapted=1.0 - finite.float())
        return theta

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.adapted(client, reply["theta"])[0]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}

    def adapted(self, client: Client, w: Params) -> tuple[Params, Tensor]:
        """A copy of w after r_meta steps theta <- theta - alpha grad CE(theta; b), b of the inner batches' size.

        And whether it is finite; w itself if not.
        """
        net, theta = self.prepared(client, w, "adapt")
        if len(client.y):
            size, steps = max(1, self.hp.batch_size // 2), self.hp.adapt_steps
            for batch in islice(client.batches(size, steps, "adapt"), steps):
                theta = moved(theta, -self.hp.alpha, gradient(net, *batch, "")(theta))
        finite = torch.stack([p.isfinite().all() for p in theta.values()]).all()
        return {
            name: torch.where(finite, p, w[name]) for name, p in plain(w, theta).items()
        }, finite

    def prepared(self, client: Client, w: Params, stream: str) -> tuple[Net, Params]:
        net = client.task.net(w, self.hp.dropout, client.generator("dropout", stream)).train()
        return net, {name: p.detach() for name, p in net.named_parameters()}


def moved(theta: Params, rate: float, g: Params) -> Params:
    return {name: p.add(g[name], alpha=rate) for name, p in theta.items()}


def plain(whole: Params, theta: Params) -> Params:
    """theta in row-major layout, with what else (buffers) belongs to the model."""
    return {**whole, **{name: p.contiguous() for name, p in theta.items()}}
