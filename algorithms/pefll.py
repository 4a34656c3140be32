"""PeFLL (Scott et al., "PeFLL: personalized federated learning by learning to learn", ICLR 2024),
Algorithms 1 and 2.

A hypernetwork h on the server makes a client's whole model, theta_i = h(v_i; H), from a descriptor
v_i: the mean of an embedding network e(x, y; E) over the client's data. E and H learn end to end
from local training.

Idea: a hypernetwork makes a client's model from a description of its data.
Paper: https://arxiv.org/abs/2306.05515
Code: https://github.com/jonnyascott/PeFLL
Down: E, then theta_i, then dv_i. Up: v_i, then D_i, then dE_i. Private: nothing (E, while an
exchange lasts).
Evaluated: theta_i = h(v_i) with v_i over all training data, without fine-tuning; a class that the
client has no sample of is never predicted (pre).
Deviations: as in the authors' code, a server step takes 5 clients: the cohort of a round goes
through in random groups, 20 clients in 4 steps, each client once (the authors: 5000 steps with 5 of
90 clients, 278 exchanges per client; `exchanges` sets more of them per round). As there, classes
that a client lacks are masked, here by -inf, there by a factor of 0; descriptors are of one batch
in training; the server standardises them by the first it ever gets (lowest id of the first step;
until then each by itself). Otherwise than there, local training is a pass of plain SGD, not 50
steps with momentum, and the L2 terms act, lambda_h being h's and lambda_v e's (both 0.001). Images
under 32x32 are padded with zeros; features that are no images go through an MLP, tokens need
embed=labels. The networks are sized for the benchmark's CNN.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp
from torch.nn.functional import conv2d, max_pool2d, one_hot, pad, relu

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
    UserError,
    hparam,
)
from pflbench.ops import cross_entropy_loss, difference, local_sgd, optimizer_of, weighted_mean


@dataclass(frozen=True)
class PeFLLHparams(Hparams):
    batch_size: int = hparam(
        32, (1, 1024), "b, samples in a batch, of local training and of a descriptor"
    )
    epochs: int = hparam(1, (0, 50), "r, passes over the local data per exchange")
    clip: float = hparam(
        50.0, (0.0, 1000.0), "bound on the gradient norm in local training; 0: none"
    )
    clients_per_step: int = hparam(
        5, (1, 1000), "clients in a server step, at most; a round has as many steps as that takes"
    )
    exchanges: int = hparam(
        1, (1, 50), "server steps per round that each client of the cohort takes part in"
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
        True, [True, False], "never predict a class that the client has no sample of"
    )


class EmbeddingCNN(nn.Module):
    """e(x, y): a CNN on the image and C constant planes, the one-hot label."""

    def __init__(self, shape: tuple[int, ...], classes: int, length: int) -> None:
        super().__init__()
        self.channels, height, width = shape
        rows = convolved(max(height, 32))
        columns = convolved(max(width, 32))
        self.conv1 = nn.Conv2d(self.channels + classes, 16, 5)
        self.conv2 = nn.Conv2d(16, 32, 5)
        self.fc1 = nn.Linear(32 * rows * columns, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, length)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = self.first_layer(padded(x), y)
        z = relu(max_pool2d(z, 2))
        z = relu(max_pool2d(self.conv2(z), 2))
        z = relu(self.fc1(z.flatten(1)))
        z = relu(self.fc2(z))
        embedded: Tensor = self.fc3(z)  # (B, l)
        return embedded

    def first_layer(self, x: Tensor, y: Tensor) -> Tensor:
        """conv1 of image and planes: a plane of ones adds the sum of its kernel."""
        of_image = self.conv1.weight[:, : self.channels]
        of_planes = self.conv1.weight[:, self.channels :]
        label_term = of_planes.sum((2, 3)).T[y]  # (B, 16)
        return conv2d(x, of_image, self.conv1.bias) + label_term[:, :, None, None]


class EmbeddingMLP(nn.Module):
    """e(x, y) of samples that are no images: fully connected layers on x and the one-hot label."""

    def __init__(self, shape: tuple[int, ...], classes: int, length: int) -> None:
        super().__init__()
        self.classes = classes
        self.fc1 = nn.Linear(math.prod(shape) + classes, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, length)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        label = one_hot(y, self.classes).to(x.dtype)
        z = relu(self.fc1(torch.cat([x.flatten(1), label], 1)))
        z = relu(self.fc2(z))
        embedded: Tensor = self.fc3(z)  # (B, l)
        return embedded


class LabelEmbedding(nn.Module):
    """e(x, y): a linear map of the one-hot label."""

    def __init__(self, classes: int, length: int) -> None:
        super().__init__()
        self.fc = nn.Linear(classes, length)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        label = one_hot(y, self.fc.in_features)
        embedded: Tensor = self.fc(label.float())
        return embedded


class Hypernetwork(nn.Module):
    """h: standardised descriptors (N, l) -> N models, each parameter by an output layer of its own."""

    def __init__(self, length: int, theta: Params) -> None:
        super().__init__()
        self.shapes = {name: tuple(p.shape) for name, p in theta.items()}
        self.hidden = nn.Sequential(nn.Linear(length, 100))
        for _ in range(3):
            self.hidden.append(nn.ReLU())
            self.hidden.append(nn.Linear(100, 100))
        outputs = [nn.Linear(100, p.numel()) for p in theta.values()]
        self.outputs = nn.ModuleList(outputs)

    def forward(self, v: Tensor) -> Params:
        a = self.hidden(v)
        values = [output(a) for output in self.outputs]
        named = zip(self.shapes, values, strict=True)
        return {name: value.view(-1, *self.shapes[name]) for name, value in named}


class PeFLL(Algorithm):
    title = "PeFLL"
    family = "Meta-learning"
    batch_norm = "nowhere"  # running statistics are not generated
    hp: PeFLLHparams

    def __init__(self, hp: Hparams, task: Task) -> None:
        super().__init__(hp, task)
        self.length = 1 + task.clients // 4  # l, entries of a descriptor
        with torch.device("meta"):  # structure alone: values are in the server's state
            self.e = self.embedding()
            self.h = Hypernetwork(self.length, task.initial)

    def embedding(self) -> nn.Module:
        """e, for the samples of the task."""
        shape, classes = self.task.shape, self.task.classes
        if self.hp.embed == "labels":
            return LabelEmbedding(classes, self.length)
        if self.task.dtype is torch.int64:
            raise UserError("PeFLL's embedding network takes no tokens; use --set embed=labels")
        if len(shape) != 3:
            return EmbeddingMLP(shape, classes, self.length)
        return EmbeddingCNN(shape, classes, self.length)

    def costs(self) -> tuple[str, str]:
        exchanges = self.hp.exchanges
        if exchanges == 1:
            return "E + theta + l", "l + theta + E"
        return f"{exchanges} * (E + theta + l)", f"{exchanges} * (l + theta + E)"

    def sizes(self) -> dict[str, int]:
        E = sum(p.numel() for p in self.e.parameters())
        return {"E": E, "l": self.length}

    def init_server(self) -> State:
        draws = self.task.generator("initial networks")
        E = initial_values(self.e, draws)
        H = initial_values(self.h, draws)
        for name, p in H.items():
            if name.startswith("outputs."):
                p.mul_(self.hp.output_scale)
        return {"E": E, "H": H}  # after the first step also Adam's m, s, t, and mu0, sd0

    def round(self, server: State, cohort: Cohort) -> State:
        for exchange in range(self.hp.exchanges):
            for ids in self.groups(cohort, exchange):
                server = self.server_step(server, cohort, ids)
        return server

    def groups(self, cohort: Cohort, exchange: int) -> Iterator[tuple[int, ...]]:
        """The cohort in random groups of about equal size, `clients_per_step` at most."""
        ids = torch.tensor(sorted(cohort.ids))
        draws = self.task.generator("groups", cohort.round, exchange)
        shuffled = ids[torch.randperm(len(ids), generator=draws)]
        steps = math.ceil(len(ids) / self.hp.clients_per_step)
        for group in shuffled.tensor_split(steps):
            yield tuple(sorted(group.tolist()))

    def server_step(self, server: State, cohort: Cohort, ids: tuple[int, ...]) -> State:
        """One step of E and H: an exchange with these clients, in three round trips."""
        described = cohort.call(self.describe, self.download(server, ids))
        ids = tuple(described)  # those that answer
        if not ids:
            return server
        v = torch.stack([described[id]["v"] for id in ids])  # (N, l)
        server = self.with_first_moments(server, v)

        def generate(H: Params, v: Tensor) -> Params:
            return self.generated(server, H, v)

        models, pull_back = vjp(generate, server["H"], v)[:2]
        starts = {id: {"theta": model_of(models, i)} for i, id in enumerate(ids)}
        trained = cohort.call(self.client_update, starts)
        D = {name: torch.stack([trained[id]["D"][name] for id in ids]) for name in models}
        with torch.no_grad():
            # sum_i D_i^T d theta_i / dH; for each i, D_i^T d theta_i / d v_i
            total, dv = pull_back(D)
        gradients = {id: {"dv": dv[i]} for i, id in enumerate(ids)}
        answers = cohort.call(self.backprop, gradients)
        equal = dict.fromkeys(ids, torch.ones(()))
        dE = weighted_mean(answers, "dE", equal)
        dH = {name: g / len(ids) for name, g in total.items()}
        return self.adam_step(server, dE, dH)

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        message = {"E": server["E"]}
        return dict.fromkeys(ids, message)

    def describe(self, client: Client, message: Message) -> tuple[Message, State]:
        """v_i = mean of e(x, y; E) over a batch."""
        x, y = self.descriptor_batch(client)
        v = self.embedded(message["E"], x, y).mean(0)
        return {"v": v}, {"E": message["E"]}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """D_i = theta_i before minus after local training."""
        start = message["theta"]
        end = local_sgd(self.local_loss, start, client, self.hp)
        return {"D": difference(start, end)}, client.state

    def backprop(self, client: Client, message: Message) -> tuple[Message, State]:
        """dE_i = dv_i^T d v_i / dE, on the batch of the descriptor."""
        x, y = self.descriptor_batch(client)

        def descriptor(E: Params) -> Tensor:
            return self.embedded(E, x, y).mean(0)

        _, pull_back = vjp(descriptor, client.state["E"])[:2]
        (gradients,) = pull_back(message["dv"])
        dE = {name: g.contiguous() for name, g in gradients.items()}
        return {"dE": dE}, {}

    def descriptor_batch(self, client: Client) -> tuple[Tensor, Tensor]:
        """The same batch in all exchanges of a round (as are the batches of local training)."""
        return next(client.batches(self.hp.batch_size, stream="descriptor"))

    def local_loss(self, net: Net, x: Tensor, y: Tensor) -> Tensor:
        """CE + lambda_theta ||theta||^2."""
        loss = cross_entropy_loss(net, x, y)
        if self.hp.lambda_theta:
            for p in net.parameters():
                loss = loss + self.hp.lambda_theta * p.square().sum()
        return loss

    def embedded(self, E: Params, x: Tensor, y: Tensor) -> Tensor:
        """e(x, y; E): (B, l)."""
        embedded: Tensor = functional_call(self.e, E, (x, y))
        return embedded

    def generated(self, server: State, H: Params, v: Tensor) -> Params:
        """h of the standardised descriptors v (N, l); parameters have a leading dimension N."""
        mean, std = moments(v)
        if "mu0" in server:
            mean = server["mu0"]
            std = server["sd0"]
        standardised = (v - mean) / std
        models: Params = functional_call(self.h, H, (standardised,))
        return models

    def with_first_moments(self, server: State, v: Tensor) -> State:
        """The server's state with mu0 and sd0, the moments of the first descriptor it ever got."""
        if self.hp.standardise == "own" or "mu0" in server:
            return server
        mu0, sd0 = moments(v[0])
        return {**server, "mu0": mu0, "sd0": sd0}

    def adam_step(self, server: State, dE: Params, dH: Params) -> State:
        """A step of Adam on E and H along clip(g + 2 lambda w), the norm being that of both."""
        E = with_gradient(server["E"], dE, self.hp.lambda_v)
        H = with_gradient(server["H"], dH, self.hp.lambda_h)
        w = {**E, **H}
        if self.hp.server_clip:
            torch.nn.utils.clip_grad_norm_(w.values(), self.hp.server_clip)
        hp = replace(self.hp, optimizer="adam", lr=self.hp.server_lr, weight_decay=0.0)
        optimizer = optimizer_of(hp, w.values())
        if "m" in server:
            kept = {key: list(server[key].values()) for key in ("m", "s", "t")}
            optimizer.load(kept)
        optimizer.step()
        optimizer.zero_grad()
        new = {**server, "E": E, "H": H}
        for key, tensors in optimizer.state().items():
            new[key] = dict(zip(w, tensors, strict=True))
        return new

    def evaluation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        described = cohort.call(self.describe_all, self.download(server, cohort.ids))
        v = torch.stack([reply["v"] for reply in described.values()])
        models = self.generated(server, server["H"], v)
        return {id: {"theta": model_of(models, i)} for i, id in enumerate(described)}

    def adaptation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        """A new client is served as any other: its model comes from its descriptor."""
        return self.evaluation_messages(server, cohort)

    def describe_all(self, client: Client, message: Message) -> tuple[Message, State]:
        """v_i = mean of e(x, y; E) over all training data."""
        total = torch.zeros(self.length, dtype=torch.float64, device=client.y.device)
        for x, y in client.samples():
            embedded = self.embedded(message["E"], x, y)
            total += embedded.double().sum(0)
        v = total / client.n.clamp(min=1)
        return {"v": v.float()}, client.state

    def personal_model(self, client: Client, message: Message) -> Model:
        absent = client.counts == 0
        if not self.hp.mask_absent or absent.all():  # without data, no class can be ruled out
            return message["theta"]
        theta = dict(message["theta"])
        bias = list(theta)[-1]  # of the logits
        theta[bias] = theta[bias].masked_fill(absent, -math.inf)
        return theta

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        end = difference(message["theta"], reply["D"])
        return self.personal_model(client, {"theta": end})


def convolved(side: int) -> int:
    """The side of an image after two convolutions 5x5, each with a pooling 2x2."""
    return ((side - 4) // 2 - 4) // 2


def padded(x: Tensor) -> Tensor:
    """Images under 32x32 with zeros around."""
    height = max(0, 32 - x.shape[2])
    width = max(0, 32 - x.shape[3])
    left = width // 2
    top = height // 2
    return pad(x, (left, width - left, top, height - top))


def initial_values(network: nn.Module, draws: torch.Generator) -> Params:
    """As PyTorch does: uniform in +-1 / sqrt(inputs of the layer)."""
    values = {}
    for layer, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(module.weight[0].numel())
            for part, p in module.named_parameters():
                value = torch.empty(p.shape).uniform_(-bound, bound, generator=draws)
                values[f"{layer}.{part}"] = value
    return values


def model_of(models: Params, i: int) -> Params:
    """The i-th of the models that were generated together."""
    return {name: p[i] for name, p in models.items()}


def moments(v: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std over the l entries of each descriptor: (..., 1); std 1 where it would be 0."""
    correction = min(1, v.shape[-1] - 1)
    mean = v.mean(-1, keepdim=True)
    std = v.std(-1, keepdim=True, correction=correction)
    return mean, torch.where(std > 0, std, 1.0)


def with_gradient(w: Params, g: Params, weight: float) -> Params:
    """A copy of w whose gradient is g + 2 lambda w."""
    new = {name: p.detach().clone() for name, p in w.items()}
    for name, p in new.items():
        p.grad = g[name].add(p, alpha=2 * weight)
    return new
