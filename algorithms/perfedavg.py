"""PerFedAvg (Fallah et al., "Personalized federated learning with theoretical guarantees: a
model-agnostic meta-learning approach", NeurIPS 2020), Algorithm 1.

Idea: a global model that a few local gradient steps adapt well (MAML).
Paper: https://arxiv.org/abs/2002.07948
Code: none of the authors found
Down: w. Up: theta, n. Private: nothing. Evaluated: w after `adapt_steps` gradient steps on the
client's training data (pre).
Deviations: first-order by default, without the Hessian term (`variant` "hessian_free" has it);
clients are weighted by samples (option `uniform`); a round is a pass over batches whose halves are
the inner and the outer batch. A client whose adaptation is not finite is evaluated with w (logged as
`not_adapted`). At `post` the client's own theta is evaluated, adapted in the same way.
"""

from collections.abc import Callable, Iterable, Iterator
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
from pflbench.ops import completed, gradient, weighted_mean

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
    local_momentum: float = hparam(0.0, [0.0], "its gradient steps have no state", tune=False)
    weight_decay: float = hparam(0.0, [0.0], "its gradient steps are written out", tune=False)
    clip: float = hparam(0.0, [0.0], "its gradient steps are written out", tune=False)
    inner_steps: int = hparam(1, (0, 20), "inner steps before each outer one")
    outer_steps: int | None = hparam(
        None, (1, 1000), "outer steps per round; none: all batches of the passes"
    )
    adapt_steps: int = hparam(10, (0, 100), "r_meta, steps of adaptation before evaluation", STEPS)
    variant: str = hparam(
        "first_order", ["first_order", "hessian_free"], "whether the Hessian term is left out"
    )
    difference: float = hparam(
        1e-3, (1e-5, 0.1), "d of the difference quotient that stands for the Hessian", tune=False
    )
    uniform: bool = hparam(False, [False, True], "weight clients equally; false: by samples")


class PerFedAvg(Algorithm):
    title = "PerFedAvg"
    family = "Meta-learning"
    hp: PerFedAvgHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        net = self.training_net(client, message["theta"], "train")
        theta = trained_parameters(net)
        factor = self.hp.rate_factor(client.round)
        hessian_batches = self.batches(client, "hessian")
        for x, y in self.batches(client, "train"):
            x_inner, x_outer = x.tensor_split(2)
            y_inner, y_outer = y.tensor_split(2)
            inner = gradient(net, x_inner, y_inner, name="")
            outer = gradient(net, x_outer, y_outer)
            third = None
            if self.hp.variant == "hessian_free":
                x_third, y_third = next(hessian_batches)
                third = gradient(net, x_third, y_third, name="")
            theta = self.step(theta, inner, outer, third, factor)
        return {"theta": completed(net, theta), "n": client.n}, {}

    def batches(self, client: Client, stream: str) -> Iterator[Batch]:
        """The batches of a round, of two samples or more: one sample cannot be split."""
        passes = max(self.hp.epochs, self.hp.outer_steps or 0)
        drawn = client.batches(self.hp.batch_size, passes, stream)
        splittable = ((x, y) for x, y in drawn if len(y) > 1)
        steps = self.hp.outer_steps
        return islice(splittable, None if steps is None else client.steps(steps))

    def step(
        self,
        theta: Params,
        inner: Gradient,
        outer: Gradient,
        third: Gradient | None = None,
        factor: float = 1.0,
    ) -> Params:
        """theta' = theta - alpha inner(theta); theta <- theta - beta (I - alpha H) outer(theta').

        H is the derivative of `third` at theta; without `third` the factor is left out. Several
        inner steps have one factor each. Alpha and beta are multiplied by `factor`, the round's.
        """
        alpha = factor * self.hp.alpha
        points = [theta]
        for _ in range(self.hp.inner_steps):
            point = points[-1]
            points.append(moved(point, -alpha, inner(point)))
        g = outer(points[-1])
        if third is not None:
            for point in reversed(points[:-1]):
                g = moved(g, -alpha, self.hessian_product(third, point, g))
        return moved(theta, -factor * self.hp.lr, g)

    def hessian_product(self, third: Gradient, point: Params, g: Params) -> Params:
        """H g ~ [third(point + d g) - third(point - d g)] / (2 d)."""
        d = self.hp.difference
        ahead = third(moved(point, d, g))
        behind = third(moved(point, -d, g))
        return {name: (ahead[name] - behind[name]) / (2 * d) for name in g}

    def aggregate(self, server: State, replies: Replies) -> State:
        weights = None  # by samples
        if self.hp.uniform:
            weights = dict.fromkeys(replies, torch.ones(()))
        return {"theta": weighted_mean(replies, "theta", weights)}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta, finite = self.adapted(client, message["theta"])
        log(not_adapted=1.0 - finite.float())
        return theta

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """A new client adapts w as any other, by these passes instead of `adapt_steps` steps."""
        theta, _ = self.stepped(client, message["theta"], self.inner_batches(client, epochs))
        return theta

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        theta, _ = self.adapted(client, reply["theta"])
        return theta

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}

    def adapted(self, client: Client, w: Params) -> tuple[Params, Tensor]:
        """A copy of w after r_meta steps, and whether it is finite."""
        steps = self.hp.adapt_steps
        return self.stepped(client, w, islice(self.inner_batches(client, steps), steps))

    def inner_batches(self, client: Client, epochs: int) -> Iterator[Batch]:
        return client.batches(max(1, self.hp.batch_size // 2), epochs, "adapt")

    def stepped(self, client: Client, w: Params, batches: Iterable[Batch]) -> tuple[Params, Tensor]:
        """A copy of w after theta <- theta - alpha grad CE(theta; b) for every batch, and whether it
        is finite; if it is not, the copy is w itself."""
        alpha = self.hp.alpha * self.hp.rate_factor(client.round)
        net = self.training_net(client, w, "adapt")
        theta = trained_parameters(net)
        for x, y in batches:
            g = gradient(net, x, y, name="")(theta)
            theta = moved(theta, -alpha, g)
        finite = torch.stack([p.isfinite().all() for p in theta.values()]).all()
        whole = completed(net, theta)
        return {name: torch.where(finite, p, w[name]) for name, p in whole.items()}, finite

    def training_net(self, client: Client, w: Params, stream: str) -> Net:
        draws = client.generator("dropout", stream)
        return client.task.net(w, self.hp.dropout, draws).train()


def trained_parameters(net: Net) -> Params:
    return {name: p.detach() for name, p in net.named_parameters()}


def moved(theta: Params, rate: float, direction: Params) -> Params:
    """theta + rate * direction."""
    return {name: p.add(direction[name], alpha=rate) for name, p in theta.items()}
