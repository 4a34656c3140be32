"""MOON (Li, He and Song, "Model-contrastive federated learning", CVPR 2021), Algorithm 1.

Down: theta. Up: theta, n. Private: the client's parameters after its previous round. Evaluated: the new global model on
every client's test data (pre).
Deviations: no projection head, so that the network is that of all methods: the representation z itself is contrasted;
before a client's first round its previous model is the common initial one (in round 0 the term then has no gradient);
plain SGD without momentum and decay; mu and the temperature are the FedCoSR paper's.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, softplus

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Message,
    Model,
    Net,
    Replies,
    State,
    log,
    hparam,
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

    def client_update(
        self, client: Client, message: Message
    ) -> tuple[Message, State]:  # PartyLocalTraining(i, w^t)
        frozen = (client.task.net(theta) for theta in (message["theta"], client.state["previous"]))
        body_glob, body_prev = (net.requires_grad_(False).body for net in frozen)

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:  # l_sup + mu l_con
            with torch.no_grad():
                z_glob, z_prev = body_glob(x), body_prev(x)
            z = net.body(x)  # (B, k)
            contrast = self.contrast(z, z_glob, z_prev)
            log(contrast=contrast.detach())
            return cross_entropy(net.head(net.drop(z)), y) + self.hp.mu * contrast

        theta = local_sgd(loss, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {"previous": theta}

    def contrast(self, z: Tensor, z_glob: Tensor, z_prev: Tensor) -> Tensor:
        """Mean of -log(e^{s_glob/tau} / (e^{s_glob/tau} + e^{s_prev/tau})) = log(1 + e^{(s_prev - s_glob)/tau})."""
        s_glob, s_prev = (
            cosine_similarity(z.flatten(1), other.flatten(1)) for other in (z_glob, z_prev)
        )  # (B,)
        return softplus((s_prev - s_glob) / self.hp.temperature).mean()

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
