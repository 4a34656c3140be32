"""pFedHN (Shamsian et al., "Personalized federated learning using hypernetworks", ICML 2021).

Idea: a hypernetwork on the server makes each client's model from a learned embedding of the client.
Paper: https://arxiv.org/abs/2103.04628
Code: https://github.com/AvivSham/pFedHN
Down: theta_i = h(v_i; H). Up: D_i, the change of theta_i by local training. Private: nothing.
Evaluated: the newest h(v_i), without fine-tuning (pre).
Deviations: a round has a server step for every client of its cohort, one after another in random
order, so that clients do not work in parallel (`server_step` "mean" and "sum" take one step for all).
Local training is a pass of plain SGD; in the authors' code 50 steps with momentum and decay.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import linear, relu

from pflbench.api import Algorithm, Client, Cohort, Hparams, Message, Model, Params, State, hparam
from pflbench.ops import cross_entropy_loss, difference, initial_linear, leaves, local_sgd, values
from pflbench.ops import zeros


@dataclass(frozen=True)
class pFedHNHparams(Hparams):
    server_lr: float = hparam(0.01, (1e-4, 1.0), "rate of the hypernetwork")
    embed_lr: float | None = hparam(None, (1e-4, 1.0), "rate of the embeddings; none: server_lr")
    momentum: float = hparam(0.9, (0.0, 0.99), "momentum of the server's steps")
    decay: float = hparam(1e-3, (0.0, 0.1), "weight decay of hypernetwork and embeddings")
    clip: float = hparam(50.0, (0.0, 100.0), "bound of local gradients; 0: none")
    server_clip: float = hparam(50.0, (0.0, 100.0), "bound of the server's gradients; 0: none")
    server_step: str = hparam(
        "sequential",
        ["sequential", "mean", "sum"],
        "a step for every client in turn, or one for their mean or sum",
    )
    hidden: int = hparam(100, (10, 500), "units of the hypernetwork's layers", tune=False)
    layers: int = hparam(3, (0, 5), "hidden layers after the first", tune=False)
    output_scale: float = hparam(1.0, (0.01, 1.0), "factor on the initial output layers")


class pFedHN(Algorithm):
    title = "pFedHN"
    family = "Hypernetwork"
    batch_norm = "nowhere"  # running statistics are not generated
    hp: pFedHNHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta"

    def init_server(self) -> State:
        """H, an embedding of 1 + N // 4 entries for each client, and the momentum of both."""
        clients = self.task.clients
        v = torch.randn(clients, 1 + clients // 4, generator=self.task.generator("embeddings"))
        w = {**self.initial_hypernetwork(v.shape[1]), "v": v}
        return {"w": w, "momentum": zeros(w)}

    def initial_hypernetwork(self, inputs: int) -> Params:
        """Linear layers, with ReLU between them, and an output layer for every tensor of theta."""
        draws = self.task.generator("hypernetwork")
        hidden = self.hp.hidden
        H = initial_linear("layer0", inputs, hidden, draws)
        for place in range(1, self.hp.layers + 1):
            H.update(initial_linear(f"layer{place}", hidden, hidden, draws))
        for name, p in self.task.initial.items():
            output = initial_linear(f"output.{name}", hidden, p.numel(), draws)
            H.update({key: self.hp.output_scale * values for key, values in output.items()})
        return H

    def embedding(self, w: Params, id: int) -> Tensor:
        """v_i; of a client that is new, the mean of all."""
        return w["v"][id] if id < len(w["v"]) else w["v"].mean(0)

    def generated(self, w: Params, v_i: Tensor) -> Params:
        """theta_i = h(v_i; H)."""
        features = linear(v_i, w["layer0.weight"], w["layer0.bias"])
        for place in range(1, self.hp.layers + 1):
            layer = f"layer{place}"
            features = linear(relu(features), w[f"{layer}.weight"], w[f"{layer}.bias"])
        theta = {}
        for name, p in self.task.initial.items():
            output = f"output.{name}"
            values = linear(features, w[f"{output}.weight"], w[f"{output}.bias"])
            theta[name] = values.reshape(p.shape)
        return theta

    @torch.no_grad()
    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        w = server["w"]
        return {id: {"theta": self.generated(w, self.embedding(w, id))} for id in ids}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """D_i = theta_i before local training less theta_i after it."""
        start = message["theta"]
        end = local_sgd(cross_entropy_loss, start, client, self.hp)
        return {"D": difference(start, end)}, {}

    def round(self, server: State, cohort: Cohort) -> State:
        for ids in self.groups(cohort):
            replies = cohort.call(self.client_update, self.download(server, ids))
            gradients = [
                self.pulled_back(server["w"], id, reply["D"]) for id, reply in replies.items()
            ]
            if gradients:
                server = self.descended(server, self.combined(gradients))
        return server

    def groups(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """The clients of each server step."""
        ids = sorted(cohort.ids)
        if self.hp.server_step != "sequential":
            return [tuple(ids)]
        draws = self.task.generator("order", cohort.round)
        order = torch.randperm(len(ids), generator=draws)
        return [(ids[place],) for place in order.tolist()]

    def pulled_back(self, w: Params, id: int, D: Params) -> Params:
        """(dH, dv) = D_i^T d theta_i / d (H, v): of v only the client's row is not 0."""
        variables = leaves(w)
        theta = self.generated(variables, variables["v"][id])
        outputs = list(theta.values())
        directions = [D[name] for name in theta]
        found = torch.autograd.grad(outputs, list(variables.values()), directions)
        return dict(zip(variables, found, strict=True))

    def combined(self, gradients: list[Params]) -> Params:
        """Their sum, or mean, in the order given."""
        share = 1 / len(gradients) if self.hp.server_step == "mean" else 1.0
        return {
            name: share * torch.stack([one[name] for one in gradients]).sum(0)
            for name in gradients[0]
        }

    def descended(self, server: State, gradient: Params) -> State:
        """m <- momentum m + clip(g) + decay w; w <- w - rate m, for all of H and v."""
        hp = self.hp
        factor = clip_factor(gradient, hp.server_clip)
        w = {}
        momentum = {}
        for name, p in server["w"].items():
            step = factor * gradient[name] + hp.decay * p
            momentum[name] = hp.momentum * server["momentum"][name] + step
            is_embedding = name == "v" and hp.embed_lr is not None
            rate = hp.embed_lr if is_embedding else hp.server_lr
            w[name] = p - rate * momentum[name]
        return {"w": w, "momentum": momentum}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def adaptation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        """H, and the embedding from which a new client starts."""
        H = {name: p for name, p in server["w"].items() if name != "v"}
        return {id: {"H": H, "v": self.embedding(server["w"], id)} for id in cohort.ids}

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """h of the new client's own embedding, which learns while H is frozen, as in the paper: a
        server step after each pass.
        """
        server: State = {
            "w": {"v": message["v"]},
            "momentum": {"v": torch.zeros_like(message["v"])},
        }
        hp = replace(self.hp, epochs=1)
        for step in range(epochs):
            v = leaves(server["w"])["v"]
            theta = self.generated(message["H"], v)
            start = values(theta)
            stream = f"adapt {step}"
            end = local_sgd(cross_entropy_loss, start, client, hp, stream=stream)
            D = difference(start, end)
            (gradient,) = torch.autograd.grad(list(theta.values()), v, list(D.values()))
            server = self.descended(server, {"v": gradient})
        return values(self.generated(message["H"], server["w"]["v"]))

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return difference(message["theta"], reply["D"])


def clip_factor(gradient: Mapping[str, Tensor], bound: float) -> float:
    """By which a gradient is multiplied so that its norm is at most the bound; 0: there is none."""
    if not bound:
        return 1.0
    squares = [g.double().square().sum() for g in gradient.values()]
    norm = float(torch.stack(squares).sum().sqrt())
    return min(1.0, bound / max(norm, 1e-12))
