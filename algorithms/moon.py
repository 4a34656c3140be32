"""MOON (Li, He and Song, "Model-contrastive federated learning", CVPR 2021), Algorithm 1.

Idea: FedAvg with a loss that brings representations close to those of the global model.
Paper: https://arxiv.org/abs/2103.16257
Code: https://github.com/QinbinLi/MOON
Down: theta. Up: theta, n. Private: the client's parameters after its previous round.
Evaluated: the new global model on every client's test data (pre).
Deviations: there is no projection head, so that the network is that of all methods: the
representation z itself is contrasted. Before a client's first round its previous model is the
common initial one; in round 1 the term then has no gradient. Plain SGD without momentum and decay.
The defaults of mu and the temperature follow the benchmark's reference table (the authors: 5 and
0.5 on CIFAR-10).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, softplus

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Loss,
    Message,
    Model,
    Net,
    Params,
    Replies,
    State,
    hparam,
    log,
)
from pflbench.ops import local_sgd, weighted_mean


@dataclass(frozen=True)
class MOONHparams(Hparams):
    mu: float = hparam(0.01, (0.0, 10.0), "weight of the model-contrastive loss; 0: FedAvg")
    temperature: float = hparam(1.0, (0.05, 5.0), "tau, temperature of the model-contrastive loss")


class MOON(Algorithm):
    title = "MOON"
    family = "Contrastive learning"
    hp: MOONHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def init_client(self) -> State:
        return {"previous": self.task.initial}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """PartyLocalTraining(i, w^t) of the box."""
        loss = self.local_loss(message["theta"], client.state["previous"])
        theta = local_sgd(loss, message["theta"], client, self.hp)
        reply = {"theta": theta, "n": client.n}
        return reply, {"previous": theta}

    def local_loss(self, theta_glob: Params, theta_prev: Params) -> Loss:
        """l_sup + mu l_con, against the representations of the global and the previous model."""
        body_glob = self.net(theta_glob).body
        body_prev = self.net(theta_prev).body

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            with torch.no_grad():
                z_glob = body_glob(x)
                z_prev = body_prev(x)
            z = net.body(x)  # (B, k)
            l_con = self.contrast(z, z_glob, z_prev)
            log(contrast=l_con.detach())
            l_sup = cross_entropy(net.head(net.drop(z)), y)
            return l_sup + self.hp.mu * l_con

        return loss

    def contrast(self, z: Tensor, z_glob: Tensor, z_prev: Tensor) -> Tensor:
        """l_con: mean over the batch of -log(e^{s_glob/tau} / (e^{s_glob/tau} + e^{s_prev/tau})).

        = log(1 + e^{(s_prev - s_glob)/tau}), where s is the cosine to z.
        """
        s_glob = cosine_similarity(z.flatten(1), z_glob.flatten(1))  # (B,)
        s_prev = cosine_similarity(z.flatten(1), z_prev.flatten(1))
        return softplus((s_prev - s_glob) / self.hp.temperature).mean()

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
