"""FedBN (Li et al., "FedBN: Federated learning on non-IID features via local batch normalization",
ICLR 2021).

Idea: FedAvg in which everything of batch norm stays on the client: scale, shift and statistics.
Paper: https://arxiv.org/abs/2102.07623
Code: https://github.com/med-air/FedBN
Down: theta without beta. Up: the same, n. Private: beta_i, all parameters and running statistics of
batch norm layers.
Evaluated: the new shared part with the client's own beta_i (pre).
Deviations: clients are weighted by n_i, in the authors' code equally. Layers are known by their
type, theirs by "bn" in their names. On a network without batch norm it is FedAvg, and a note says so.
"""

from dataclasses import dataclass

import torch
from torch import nn

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Net, Params
from pflbench.api import Replies, State, hparam, note
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean

BATCH = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
OTHERS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.GroupNorm, nn.LayerNorm)
PRIVATE = {"batch": BATCH, "all": (*BATCH, *OTHERS)}


@dataclass(frozen=True)
class FedBNHparams(Hparams):
    layers: str = hparam("batch", ["batch", "all"], "private: batch norm, or all normalisation")
    refresh: bool = hparam(
        False, [False, True], "evaluate with statistics of the own data under the new model"
    )


class FedBN(Algorithm):
    title = "FedBN"
    family = "Model splitting"
    check_model = "resnet8"
    hp: FedBNHparams

    def costs(self) -> tuple[str, str]:
        return "theta - bn", "theta - bn + 1"

    def sizes(self) -> dict[str, int]:
        return {"bn": sum(p.numel() for p in self.beta(self.task.initial).values())}

    def init_server(self) -> State:
        return {"theta": self.shared(self.task.initial)}

    def init_client(self) -> State:
        return {"beta": self.beta(self.task.initial)}

    def beta(self, theta: Params) -> Params:
        """What stays on the client: parameters and buffers of normalisation layers."""
        private = names_in(self.task.skeleton, PRIVATE[self.hp.layers])
        return {name: p for name, p in theta.items() if name in private}

    def shared(self, theta: Params) -> Params:
        """What is sent: all the rest."""
        private = self.beta(theta)
        return {name: p for name, p in theta.items() if name not in private}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """All of theta is trained, in training mode; beta_i is kept and the rest is sent."""
        theta = self.with_own_norms(client, message)
        theta = local_sgd(cross_entropy_loss, theta, client, self.hp)
        reply = {"theta": self.shared(theta), "n": client.n}
        return reply, {"beta": self.beta(theta)}

    def with_own_norms(self, client: Client, message: Message) -> Params:
        return {**message["theta"], **client.state["beta"]}

    def aggregate(self, server: State, replies: Replies) -> State:
        if not self.sizes()["bn"]:
            note("the network has no batch norm: without it FedBN is FedAvg")
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = self.with_own_norms(client, message)
        return refreshed(self.net(theta), client) if self.hp.refresh else theta

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.with_own_norms(client, reply)


def names_in(net: Net, kinds: tuple[type[nn.Module], ...]) -> set[str]:
    """Names of the parameters and buffers of a network's layers of these types."""
    layers = [(name, layer) for name, layer in net.named_modules() if isinstance(layer, kinds)]
    return {f"{name}.{own}" for name, layer in layers for own in layer.state_dict()}


@torch.no_grad()
def refreshed(net: Net, client: Client) -> Params:
    """The network with the statistics of the client's training samples, which need no labels."""
    net.train()
    seen = 0
    for x, _ in client.samples():
        seen += len(x)
        for layer in net.modules():
            if isinstance(layer, BATCH):
                layer.momentum = len(x) / seen  # the mean over batches, by their samples
        net(x)
    return net.parameters_now()
