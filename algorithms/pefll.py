"""PeFLL (Scott et al., "PeFLL: personalized federated learning by learning to learn", ICLR 2024), Algorithms 1 (predict)
and 2 (train). A hypernetwork h (parameters H) on the server makes a whole model theta_i = h(v_i) from a descriptor v_i,
the mean of an embedding network e (parameters E) over the client's data; both learn from the clients' local steps.

Down: E; theta_i; dv_i. Up: v_i; D_i; dE_i (three exchanges). Private: nothing (E, from the first to the third).
Scored: theta_i = h(v_i), v_i over all training data, without any fine-tuning (pre).
Deviations: descriptors are divided by the number of samples and standardised on the server, by the first one it
ever gets (of the lowest id in round 1; before that, each by itself). Inner loop: an epoch of plain SGD, where the
public code takes 50 steps with momentum. The L2 terms act, unlike there; lambda_h is of h and lambda_v of e, as in
PeFLL (the FedCoSR paper has it the other way round; both 0.001). Images under 32x32 are padded with zeros. Classes that
a client lacks are not masked in its predictions (option). The FedCoSR paper's 2(Omega + theta) has E and v for Omega.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d, linear, max_pool2d, one_hot, pad, relu

from pflbench.api import Algorithm, Client, Cohort, Hparams, Message, Model, Net, Params, State, Task, Taxonomy, setting
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean

Shapes = dict[str, tuple[int, ...]]
"""Shape of each layer's weight: (out, in, ...)."""
SIDE, HIDDEN = 32, 100  # least side of e's input; width of h


@dataclass(frozen=True)
class Settings(Hparams):
    batch_size: int = setting(32, (1, 1024), "b, samples in a batch, of the inner steps and of a round's descriptor")
    clip: float = setting(50.0, (0.0, 1000.0), "bound on the gradient norm of an inner step; 0: none")
    server_lr: float = setting(2e-4, (1e-5, 1e-2), "beta, learning rate of the server's Adam on E and H")
    server_clip: float = setting(50.0, (0.0, 1000.0), "bound on the joint gradient norm of E and H; 0: none")
    lambda_h: float = setting(0.001, (0.0, 0.1), "weight of ||H||^2, the hypernetwork's")
    lambda_v: float = setting(0.001, (0.0, 0.1), "weight of ||E||^2, the embedding network's")
    lambda_theta: float = setting(0.0, (0.0, 0.1), "weight of ||theta||^2 in the inner loss")
    embed: str = setting("cnn", ["cnn", "labels"], "e: a CNN on image and label, or linear on the label alone")
    standardise: str = setting("first", ["first", "own"], "descriptors by mean and std of the first one, or their own")
    output_scale: float = setting(1.0, (0.01, 1.0), "factor on the initial output layers of h")
    mask_absent: bool = setting(False, [False, True], "never predict a class that the client has no sample of")


class PeFLL(Algorithm):
    title = "PeFLL"
    taxonomy = Taxonomy("PFL", "Meta-learning", label_skew="no", data_scarcity="yes")
    down, up = "E + theta + l", "l + theta + E"
    hp: Settings

    def __init__(self, hp: Hparams, task: Task) -> None:
        super().__init__(hp, task)
        channels, *sides = task.shape
        self.l = 1 + task.clients // 4  # entries of a descriptor
        flat = 32 * math.prod(((max(side, SIDE) - 4) // 2 - 4) // 2 for side in sides)
        cnn: Shapes = {"conv1": (16, channels + task.classes, 5, 5), "conv2": (32, 16, 5, 5)}
        cnn |= {"fc1": (120, flat), "fc2": (84, 120), "fc3": (self.l, 84)}
        self.e: Shapes = cnn if self.hp.embed == "cnn" else {"fc": (self.l, task.classes)}
        self.h: Shapes = {"fc1": (HIDDEN, self.l), **dict.fromkeys(("fc2", "fc3", "fc4"), (HIDDEN, HIDDEN))}
        self.outputs: Shapes = {name: (p.numel(), HIDDEN) for name, p in task.initial.items()}

    def sizes(self) -> dict[str, int]:
        return {"E": sum(math.prod(shape) + shape[0] for shape in self.e.values()), "l": self.l}

    def init_server(self) -> State:
        E = drawn(self.e, self.task.generator("embedding network"))
        H = drawn(self.h, self.task.generator("hypernetwork"))
        outputs = drawn(self.outputs, self.task.generator("output layers"), self.hp.output_scale)
        nets = {"E": E, "H": {**H, **outputs}}
        zeros = {net: {name: torch.zeros_like(p) for name, p in params.items()} for net, params in nets.items()}
        return {**nets, "m": zeros, "s": zeros, "t": torch.tensor(0)}  # Adam's moments and steps; later mu0, sd0 too

    def embedded(self, E: Params, x: Tensor, y: Tensor) -> Tensor:
        """e(x, y): (B, l). The CNN sees the image and C planes that are constant: the one-hot label."""
        if self.hp.embed == "labels":
            return linear(one_hot(y, self.task.classes).float(), *layer(E, "fc"))
        (high, wide), (W, b) = (max(0, SIDE - side) for side in x.shape[2:]), layer(E, "conv1")
        x = pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
        labels = W[:, x.shape[1] :].sum((2, 3)).T[y]  # (B, 16): a plane of ones adds the sum of its kernel
        z = max_pool2d(relu(conv2d(x, W[:, : x.shape[1]], b) + labels[:, :, None, None]), 2)
        z = max_pool2d(relu(conv2d(z, *layer(E, "conv2"))), 2).flatten(1)
        for name in ("fc1", "fc2"):
            z = relu(linear(z, *layer(E, name)))
        return linear(z, *layer(E, "fc3"))

    def generated(self, server: State, v: Tensor) -> Params:
        """h(v) for descriptors v (N, l), standardised first: every parameter of theta with a leading N."""
        mu, sd = (server["mu0"], server["sd0"]) if "mu0" in server else moments(v)
        H, a = server["H"], (v - mu) / sd
        for name in self.h:
            a = linear(a if name == "fc1" else relu(a), *layer(H, name))
        return {name: linear(a, *layer(H, name)).view(-1, *p.shape) for name, p in self.task.initial.items()}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        return {id: {"E": server["E"]} for id in ids}

    def round(self, server: State, cohort: Cohort) -> State:
        server, gradient = self.gradients(server, cohort)
        return self.updated(server, gradient)

    def gradients(self, server: State, cohort: Cohort) -> tuple[State, dict[str, Params]]:
        """Mean over clients of D_i^T d theta_i / d(E, H), by the chain rule through dv_i = D_i^T d theta_i / dv_i."""
        ids = tuple(sorted(cohort.ids))
        described = cohort.call(self.describe, self.download(server, ids))
        v = torch.stack([described[id]["v"] for id in ids]).requires_grad_()  # (N, l)
        if self.hp.standardise == "first" and "mu0" not in server:
            server = {**server, **dict(zip(("mu0", "sd0"), moments(v[0].detach()), strict=True))}
        H = {name: p.detach().requires_grad_() for name, p in server["H"].items()}
        theta = self.generated({**server, "H": H}, v)
        replies = cohort.call(self.local, {id: {"theta": rows(theta, place)} for place, id in enumerate(ids)})
        D = [torch.stack([replies[id]["D"][name] for id in ids]) for name in theta]
        dv, *dH = torch.autograd.grad(list(theta.values()), [v, *H.values()], D)  # dH: summed over clients
        answers = cohort.call(self.backprop, {id: {"dv": dv[place]} for place, id in enumerate(ids)})
        gE = weighted_mean(answers, "dE", dict.fromkeys(ids, torch.ones(())))
        return server, {"E": gE, "H": {name: g.div_(len(ids)) for name, g in zip(H, dH, strict=True)}}

    def describe(self, client: Client, message: Message) -> tuple[Message, State]:  # v_i over one batch
        with torch.no_grad():
            return {"v": self.embedded(message["E"], *self.batch(client)).mean(0)}, {"E": message["E"]}

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(self.loss, message["theta"], client, self.hp, clip=self.hp.clip)
        return {"D": {name: p - theta[name] for name, p in message["theta"].items()}}, client.state

    def backprop(self, client: Client, message: Message) -> tuple[Message, State]:  # dv_i^T d v_i / dE
        E = {name: p.detach().requires_grad_() for name, p in client.state["E"].items()}
        v = self.embedded(E, *self.batch(client)).mean(0)
        dE = torch.autograd.grad(v, list(E.values()), message["dv"])
        return {"dE": {name: g.contiguous() for name, g in zip(E, dE, strict=True)}}, {}

    def batch(self, client: Client) -> tuple[Tensor, Tensor]:
        return next(client.batches(self.hp.batch_size, stream="descriptor"))  # the same whenever asked in a round

    def loss(self, net: Net, x: Tensor, y: Tensor) -> Tensor:
        squares = [p.square().sum() for p in net.parameters()] if self.hp.lambda_theta else []
        return cross_entropy_loss(net, x, y) + self.hp.lambda_theta * sum(squares)

    @torch.no_grad()
    def updated(self, server: State, gradient: dict[str, Params], betas: tuple[float, float] = (0.9, 0.999)) -> State:
        """One step of Adam on E and H, g clipped: m <- b1 m + (1-b1) g, s <- b2 s + (1-b2) g^2,
        w <- w - lr m / (1-b1^t) / (sqrt(s / (1-b2^t)) + 1e-8)."""
        weights = {"E": self.hp.lambda_v, "H": self.hp.lambda_h}
        gs = {
            net: {n: g.add(server[net][n], alpha=2 * weights[net]) for n, g in gradient[net].items()} for net in weights
        }
        norm = torch.stack([g.norm() for net in gs.values() for g in net.values()]).norm()
        scale = (self.hp.server_clip / (norm + 1e-6)).clamp(max=1) if self.hp.server_clip else torch.ones(())
        (b1, b2), t = betas, int(server["t"]) + 1
        new: State = {
            **server,
            "E": {},
            "H": {},
            "m": {"E": {}, "H": {}},
            "s": {"E": {}, "H": {}},
            "t": server["t"] + 1,
        }
        for net, params in gs.items():
            for name, g in params.items():
                g = g.mul_(scale)
                m = new["m"][net][name] = server["m"][net][name].lerp(g, 1 - b1)
                s = new["s"][net][name] = (server["s"][net][name] * b2).addcmul_(g, g, value=1 - b2)
                root = s.sqrt().div_(math.sqrt(1 - b2**t)).add_(1e-8)
                new[net][name] = server[net][name].addcdiv(m, root, value=-self.hp.server_lr / (1 - b1**t))
        return new

    def evaluation(self, server: State, cohort: Cohort) -> dict[int, Message]:
        described = cohort.call(self.describe_all, self.download(server, cohort.ids))
        theta = self.generated(server, torch.stack([described[id]["v"] for id in cohort.ids]))
        return {id: {"theta": rows(theta, place)} for place, id in enumerate(cohort.ids)}

    @torch.no_grad()
    def describe_all(self, client: Client, message: Message) -> tuple[Message, State]:  # v_i over all samples
        total = torch.zeros(self.l, dtype=torch.float64, device=client.y.device)
        for x, y in client.samples():
            total += self.embedded(message["E"], x, y).double().sum(0)
        return {"v": (total / client.n.clamp(min=1)).float()}, client.state

    def personal(self, client: Client, message: Message) -> Model:
        return self.masked(client, message["theta"])

    def trained(self, client: Client, message: Message, reply: Message) -> Model:
        return self.masked(client, {name: p - reply["D"][name] for name, p in message["theta"].items()})

    def masked(self, client: Client, theta: Params) -> Params:
        """theta, or with the output bias of absent classes at -inf."""
        last = list(theta)[-1]
        absent = (client.counts == 0) & self.hp.mask_absent
        return {**theta, last: theta[last].masked_fill(absent, -math.inf)}


def layer(params: Params, name: str) -> tuple[Tensor, Tensor]:
    return params[f"{name}.weight"], params[f"{name}.bias"]


def rows(theta: Params, place: int) -> Params:
    return {name: p[place].detach() for name, p in theta.items()}


def moments(v: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std over the entries of each descriptor (..., 1); std 1 where there is none."""
    sd = v.std(-1, keepdim=True, correction=min(1, v.shape[-1] - 1))
    return v.mean(-1, keepdim=True), torch.where(sd > 0, sd, 1.0)


def drawn(shapes: Shapes, generator: torch.Generator, scale: float = 1.0) -> Params:
    """PyTorch's default: weight and bias uniform in +-1 / sqrt(number of inputs), here times `scale`."""
    params = {}
    for name, shape in shapes.items():
        bound = scale / math.sqrt(math.prod(shape[1:]))
        params[f"{name}.weight"] = torch.empty(shape).uniform_(-bound, bound, generator=generator)
        params[f"{name}.bias"] = torch.empty(shape[0]).uniform_(-bound, bound, generator=generator)
    return params
