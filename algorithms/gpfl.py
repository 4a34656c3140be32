"""GPFL (Zhang et al., "GPFL: Simultaneously learning generic and personalized feature information
for personalized federated learning", ICCV 2023).

Idea: a valve splits features into generic ones, guided by class embeddings, and personal ones.
Paper: https://arxiv.org/abs/2308.10279
Code: https://github.com/TsingZ0/GPFL
Down: phi, the class embeddings E, the valve V. Up: phi, E, V, n. Private: pi_i.
Evaluated: the own head on the personal features of the new body, embeddings and valve (pre).
Deviations: the conditions of a round come from the embeddings received; in the authors' code from
those that the client itself trained last, and 0 in its first round (`conditions`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear, normalize, relu

from pflbench.api import Algorithm, Client, Hparams, Loss, Message, Model, Net, Params
from pflbench.api import Replies, State, hparam
from pflbench.ops import cross_entropy, initial_linear, join, leaves, local_sgd, phi, pi, values
from pflbench.ops import weighted_mean


@dataclass(frozen=True)
class GPFLHparams(Hparams):
    lam: float = hparam(0.01, (0.0, 1.0), "lambda, pull of generic features to the embeddings")
    mu: float = hparam(0.1, (0.0, 1.0), "decay of embeddings and valve")
    guide: float = hparam(1.0, (0.0, 2.0), "weight of the angles to the embeddings", tune=False)
    conditions: str = hparam(
        "received", ["received", "own"], "embeddings behind the conditions", tune=False
    )


class GPFL(Algorithm):
    title = "GPFL"
    family = "Feature separation"
    hp: GPFLHparams

    def costs(self) -> tuple[str, str]:
        return "phi + C*k + V", "phi + C*k + V + 1"

    def sizes(self) -> dict[str, int]:
        k = self.task.width
        return {"V": 2 * k * k + 6 * k}

    def init_server(self) -> State:
        task = self.task
        E = torch.randn(task.classes, task.width, generator=task.generator("embeddings"))
        return {"phi": phi(task.initial), "E": E, "V": self.initial_valve()}

    def initial_valve(self) -> Params:
        """Two times LayerNorm(ReLU(A u + a)): for gamma(u) and beta(u)."""
        k = self.task.width
        draws = self.task.generator("valve")
        valve: Params = {}
        for part in ("gamma", "beta"):
            valve.update(initial_linear(part, k, k, draws))
            valve.update({f"{part}.scale": torch.ones(k), f"{part}.shift": torch.zeros(k)})
        return valve

    def init_client(self) -> State:
        return {"pi": pi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        E = leaves({"E": message["E"]})
        V = leaves(message["V"])
        generic, personal = self.conditions(client, message["E"])
        loss = self.loss(E["E"], V, message["E"], generic, personal)
        start = join(message["phi"], client.state["pi"])
        besides = [(E, self.hp.lr), (V, self.hp.lr)]
        theta = local_sgd(loss, start, client, self.hp, besides=besides)
        state: State = {"pi": pi(theta)}
        if self.hp.conditions == "own":
            state.update(values(E))
        return {"phi": phi(theta), **values(E), "V": values(V), "n": client.n}, state

    def conditions(self, client: Client, received: Tensor) -> tuple[Tensor, Tensor]:
        """g = mean_c E_c and p_i = sum_c p_i(c) E_c, constant in a round."""
        E = received
        if self.hp.conditions == "own":
            E = client.state.get("E", torch.zeros_like(received))
        shares = client.counts / client.n.clamp(min=1)
        return E.mean(0), shares @ E

    def loss(self, E: Tensor, V: Params, F: Tensor, generic: Tensor, personal: Tensor) -> Loss:
        """CE of the own head on z_P, and what guides z_G: angles to E, distance to F, decay."""
        hp = self.hp

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            z_G = valve(V, z, generic).flatten(1)
            z_P = valve(V, z, personal)
            task = cross_entropy(net.head(net.drop(z_P)), y)
            guiding = hp.guide * angle_loss(z_G, E, y) + hp.lam * magnitude_loss(z_G, F, y)
            squares = [p.square().sum() for p in (E, *V.values())]
            decay = torch.stack(squares).sum()
            return task + guiding + hp.mu / 2 * decay

        return loss

    def aggregate(self, server: State, replies: Replies) -> State:
        return {part: weighted_mean(replies, part) for part in ("phi", "E", "V")}

    def personal_model(self, client: Client, message: Message) -> Model:
        _, personal = self.conditions(client, message["E"])
        theta = join(message["phi"], client.state["pi"])
        return {"theta": theta, "V": message["V"], "u": personal}

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        _, personal = self.conditions(client, message["E"])
        theta = join(reply["phi"], client.state["pi"])
        return {"theta": theta, "V": reply["V"], "u": personal}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        net = self.net(model["theta"])
        z = net.body(x)
        z_P = valve(model["V"], z, model["u"])
        scores: Tensor = net.head(z_P)
        return scores


def valve(V: Params, z: Tensor, u: Tensor) -> Tensor:
    """ReLU(z (1 + gamma(u)) + beta(u)): features z (B, k), of any shape, under a condition u (k,)."""
    gamma = conditional(V, "gamma", u)
    beta = conditional(V, "beta", u)
    conditioned = relu(z.flatten(1) * (1 + gamma) + beta)
    return conditioned.reshape(z.shape)


def conditional(V: Params, part: str, u: Tensor) -> Tensor:
    """LayerNorm(ReLU(A u + a))."""
    hidden = relu(linear(u, V[f"{part}.weight"], V[f"{part}.bias"]))
    return layer_norm(hidden, u.shape, V[f"{part}.scale"], V[f"{part}.shift"])


def angle_loss(z: Tensor, E: Tensor, y: Tensor) -> Tensor:
    """Cross entropy of the cosines of features (B, k) and embeddings (C, k)."""
    return cross_entropy(normalize(z) @ normalize(E).T, y)


def magnitude_loss(z: Tensor, F: Tensor, y: Tensor) -> Tensor:
    """||z - F_y||, the norm of the whole batch; its gradient at 0 is 0."""
    norm: Tensor = torch.linalg.vector_norm(z - F[y])
    return norm
