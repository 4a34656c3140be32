"""PeFLL (Scott et al., "PeFLL: personalized federated learning by learning to learn", ICLR 2024), Algorithms 1 and 2.

A hypernetwork h on the server makes a client's whole model, theta_i = h(v_i; H), from a descriptor v_i: the mean of an
embedding network e(x, y; E) over the client's data. E and H learn end to end from local training.

Down: E, then theta_i, then dv_i. Up: v_i, then D_i, then dE_i. Private: nothing (E, while a round lasts).
Evaluated: theta_i = h(v_i) with v_i over all training data, without fine-tuning (pre).
Deviations: the server standardises descriptors, by the first it ever gets (lowest id of round 1; until then each by
itself). Local training is an epoch of plain SGD, in the public code 50 steps with momentum. The L2 terms act, unlike
there; lambda_h is h's and lambda_v is e's, the reverse of the FedCoSR paper (both 0.001). Images under 32x32 are padded
with zeros. Classes that a client lacks may be predicted (option). The networks are sized for the FedCoSR paper's CNN;
its cost 2(Omega + theta) has no prototypes to count here: it is 2(E + l + theta).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d, linear, max_pool2d, one_hot, pad, relu

from pflbench.api import (
    Algorithm,
    Client,
    Cohort,
    Hparams,
    Message,
    Model,
    Net,
    Params,
    State,
    Task,
    hparam,
)
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


@dataclass(frozen=True)
class PeFLLHparams(Hparams):
    batch_size: int = hparam(
        32, (1, 1024), "b, samples in a batch, of local training and of a round's descriptor"
    )
    clip: float = hparam(
        50.0, (0.0, 1000.0), "bound on the gradient norm in local training; 0: none"
    )
    server_lr: float = hparam(2e-4, (1e-5, 1e-2), "learning rate of the server's Adam on E and H")
    server_clip: float = hparam(
        50.0, (0.0, 1000.0), "bound on the joint gradient norm of E and H; 0: none"
    )
    lambda_h: float = hparam(0.001, (0.0, 0.1), "weight of ||H||^2, the hypernetwork's")
    lambda_v: float = hparam(0.001, (0.0, 0.1), "weight of ||E||^2, the embedding network's")
    lambda_theta: float = hparam(0.0, (0.0, 0.1), "weight of ||theta||^2 in the local loss")
    embed: str = hparam(
        "cnn", ["cnn", "labels"], "e: a CNN on image and label, or a linear map of the label"
    )
    standardise: str = hparam(
        "first", ["first", "own"], "descriptors by mean and std of the first one, or their own"
    )
    output_scale: float = hparam(1.0, (0.01, 1.0), "factor on the initial output layers of h")
    mask_absent: bool = hparam(
        False, [False, True], "never predict a class that the client has no sample of"
    )


class PeFLL(Algorithm):
    title = "PeFLL"
    family = "Meta-learning"
    hp: PeFLLHparams

    def costs(self) -> tuple[str, str]:
        return "E + theta + l", "l + theta + E"

    def __init__(self, hp: Hparams, task: Task) -> None:
        super().__init__(hp, task)
        self.l = 1 + task.clients // 4  # entries of a descriptor
        flat = 32 * math.prod(((max(side, 32) - 4) // 2 - 4) // 2 for side in task.shape[1:])
        convs = {"conv1": (16, task.shape[0] + task.classes, 5, 5), "conv2": (32, 16, 5, 5)}
        cnn = {**convs, "fc1": (120, flat), "fc2": (84, 120), "fc3": (self.l, 84)}
        self.e = (
            cnn if self.hp.embed == "cnn" else {"fc": (self.l, task.classes)}
        )  # weights of layers: (out, in, ...)
        hidden = {f"hidden{j}": (100, 100 if j else self.l) for j in range(4)}
        self.h = {
            **hidden,
            **{name: (p.numel(), 100) for name, p in task.initial.items()},
        }  # one output per tensor

    def sizes(self) -> dict[str, int]:
        return {"E": sum(math.prod(shape) + shape[0] for shape in self.e.values()), "l": self.l}

    def init_server(self) -> State:  # as PyTorch does: uniform in +-1 / sqrt(inputs of the layer)
        draws, w = self.task.generator("initial networks"), {}
        for layer, shape in {**self.e, **self.h}.items():
            bound = (self.hp.output_scale if layer in self.task.initial else 1.0) / math.sqrt(
                math.prod(shape[1:])
            )
            for part, size in (("weight", shape), ("bias", shape[:1])):
                w[f"{layer}.{part}"] = torch.empty(size).uniform_(-bound, bound, generator=draws)
        zeros = {name: torch.zeros_like(p) for name, p in w.items()}
        return {
            **self.nets(w),
            "m": zeros,
            "s": zeros,
            "t": torch.tensor(0),
        }  # after round 1 also mu0 and sd0

    def nets(self, w: Params) -> dict[str, Params]:
        E = {name: p for name, p in w.items() if name.rpartition(".")[0] in self.e}
        return {"E": E, "H": {name: p for name, p in w.items() if name not in E}}

    def round(self, server: State, cohort: Cohort) -> State:
        described = cohort.call(self.describe, self.download(server, cohort.ids))
        ids, v = (
            list(described),
            torch.stack([reply["v"] for reply in described.values()]),
        )  # (N, l), ascending ids
        if self.hp.standardise == "first" and "mu0" not in server:
            server = {**server, **dict(zip(("mu0", "sd0"), moments(v[0]), strict=True))}
        theta, pullback = torch.func.vjp(
            lambda H, v: self.generated({**server, "H": H}, v), server["H"], v
        )[:2]
        replies = cohort.call(
            self.client_update, {id: {"theta": row(theta, i)} for i, id in enumerate(ids)}
        )
        D = {name: torch.stack([replies[id]["D"][name] for id in ids]) for name in theta}
        dH, dv = torch.no_grad()(pullback)(
            D
        )  # sum_i D_i^T d theta_i / dH; for each i, D_i^T d theta_i / d v_i
        answers = cohort.call(self.backprop, {id: {"dv": dv[i]} for i, id in enumerate(ids)})
        dE = weighted_mean(answers, "dE", dict.fromkeys(ids, torch.ones(())))
        return self.adam(server, {**dE, **{name: g.div_(len(ids)) for name, g in dH.items()}})

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        return {id: {"E": server["E"]} for id in ids}

    def describe(self, client: Client, message: Message) -> tuple[Message, State]:
        return {"v": self.embedded(message["E"], *self.batch(client)).mean(0)}, {"E": message["E"]}

    def client_update(
        self, client: Client, message: Message
    ) -> tuple[Message, State]:  # D_i = start - end
        theta = local_sgd(self.loss, message["theta"], client, self.hp, clip=self.hp.clip)
        return {"D": {name: p - theta[name] for name, p in message["theta"].items()}}, client.state

    def backprop(
        self, client: Client, message: Message
    ) -> tuple[Message, State]:  # dE_i = dv_i^T d v_i / dE
        x, y = self.batch(client)
        _, pullback = torch.func.vjp(lambda E: self.embedded(E, x, y).mean(0), client.state["E"])[
            :2
        ]
        return {"dE": {name: g.contiguous() for name, g in pullback(message["dv"])[0].items()}}, {}

    def batch(self, client: Client) -> tuple[Tensor, Tensor]:  # the same whenever asked in a round
        return next(client.batches(self.hp.batch_size, stream="descriptor"))

    def loss(self, net: Net, x: Tensor, y: Tensor) -> Tensor:  # CE + lambda_theta ||theta||^2
        squares = [p.square().sum() for p in net.parameters()] if self.hp.lambda_theta else []
        return cross_entropy_loss(net, x, y) + self.hp.lambda_theta * sum(squares)

    def embedded(self, E: Params, x: Tensor, y: Tensor) -> Tensor:
        """e(x, y): (B, l). The CNN's input is the image and C constant planes, the one-hot label."""
        layers = [(E[f"{layer}.weight"], E[f"{layer}.bias"]) for layer in self.e]
        if self.hp.embed == "labels":
            return linear(one_hot(y, self.task.classes).float(), *layers[0])
        (weight, bias), conv2, fc1, fc2, fc3 = layers
        high, wide = (max(0, 32 - side) for side in x.shape[2:])
        x = pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
        labels = (
            weight[:, x.shape[1] :].sum((2, 3)).T[y]
        )  # (B, 16): a plane of ones adds the sum of its kernel
        z = conv2d(x, weight[:, : x.shape[1]], bias) + labels[:, :, None, None]
        z = relu(max_pool2d(conv2d(relu(max_pool2d(z, 2)), *conv2), 2)).flatten(1)
        return linear(relu(linear(relu(linear(z, *fc1)), *fc2)), *fc3)

    def generated(self, server: State, v: Tensor) -> Params:
        """h of the standardised descriptors v (N, l): every parameter of theta, with a leading dimension N."""
        mu, sd = (server["mu0"], server["sd0"]) if "mu0" in server else moments(v)
        layers = {
            layer: (server["H"][f"{layer}.weight"], server["H"][f"{layer}.bias"])
            for layer in self.h
        }
        a = linear((v - mu) / sd, *layers["hidden0"])
        for j in (1, 2, 3):
            a = linear(relu(a), *layers[f"hidden{j}"])
        return {
            name: linear(a, *layers[name]).view(-1, *p.shape)
            for name, p in self.task.initial.items()
        }

    def adam(
        self, server: State, g: Params, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
    ) -> State:
        """g <- clip(g + 2 lambda w); m <- b1 m + (1 - b1) g; s <- b2 s + (1 - b2) g^2;
        w <- w - lr m / (1 - b1^t) / (sqrt(s / (1 - b2^t)) + eps), where w is E and H."""
        hp, w, t = self.hp, {**server["E"], **server["H"]}, int(server["t"]) + 1
        weight = {name: hp.lambda_v if name in server["E"] else hp.lambda_h for name in w}
        g = {name: g[name].add(w[name], alpha=2 * weight[name]) for name in w}
        norm = torch.stack([part.norm() for part in g.values()]).norm()
        scale = (
            (hp.server_clip / (norm + 1e-6)).clamp(max=1.0) if hp.server_clip else torch.ones(())
        )
        m = {name: server["m"][name].lerp(g[name].mul_(scale), 1 - b1) for name in w}
        s = {name: (b2 * server["s"][name]).addcmul_(g[name], g[name], value=1 - b2) for name in w}
        rate, root = hp.server_lr / (1 - b1**t), math.sqrt(1 - b2**t)
        w = {
            name: p.addcdiv(m[name], s[name].sqrt().div_(root).add_(eps), value=-rate)
            for name, p in w.items()
        }
        return {**server, **self.nets(w), "m": m, "s": s, "t": torch.tensor(t)}

    def evaluation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        described = cohort.call(self.describe_all, self.download(server, cohort.ids))
        theta = self.generated(server, torch.stack([reply["v"] for reply in described.values()]))
        return {id: {"theta": row(theta, i)} for i, id in enumerate(described)}

    def describe_all(self, client: Client, message: Message) -> tuple[Message, State]:
        zero = torch.zeros(self.l, dtype=torch.float64, device=client.y.device)
        total = sum(
            (self.embedded(message["E"], x, y).double().sum(0) for x, y in client.samples()), zero
        )
        return {"v": (total / client.n.clamp(min=1)).float()}, client.state

    def personal_model(self, client: Client, message: Message) -> Model:
        theta, absent = message["theta"], client.counts == 0
        last = list(theta)[-1]  # the bias of the logits
        return (
            {**theta, last: theta[last].masked_fill(absent, -math.inf)}
            if self.hp.mask_absent
            else theta
        )

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.personal_model(
            client, {"theta": {name: p - reply["D"][name] for name, p in message["theta"].items()}}
        )


def row(theta: Params, i: int) -> Params:
    return {name: p[i] for name, p in theta.items()}


def moments(v: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std over the l entries of each descriptor: (..., 1); std 1 where it would be 0, as for l = 1."""
    sd = v.std(-1, keepdim=True, correction=min(1, v.shape[-1] - 1))
    return v.mean(-1, keepdim=True), torch.where(sd > 0, sd, 1.0)
