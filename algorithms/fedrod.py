"""FedRoD (Chen and Chao, "On bridging generic and personalized federated learning for image
classification", ICLR 2022), with a linear personalized head.

Idea: a shared model trained with a balanced loss, and a private head added to its logits.
Paper: https://arxiv.org/abs/2107.00778
Code: https://github.com/hongyouc/Fed-RoD (a README only)
Down: theta. Up: theta, n. Private: psi_i, the second head.
Evaluated: the sum of the shared and the own head's logits, on the new global body (pre); series
"global" is the shared head alone.
Deviations: a round is one pass in which both heads take a step on every batch; psi_i starts at 0.
The personalized head that a hypernetwork makes is left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from pflbench.api import Algorithm, Client, Hparams, Loss, Message, Model, Net, Params
from pflbench.api import Replies, State, hparam, log
from pflbench.ops import cross_entropy, leaves, local_sgd, pi, values, weighted_mean


@dataclass(frozen=True)
class FedRoDHparams(Hparams):
    gamma: float = hparam(1.0, (0.0, 2.0), "strength of the balance; 0: plain cross entropy")
    head_lr: float | None = hparam(None, (0.0, 1.0), "rate of the private head; none: lr")


class FedRoD(Algorithm):
    title = "FedRoD"
    family = "Model decoupling"
    batch_norm = "body"
    hp: FedRoDHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def init_client(self) -> State:
        return {"psi": silent(pi(self.task.initial))}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        psi = leaves(client.state["psi"])
        loss = both_losses(psi, class_offsets(client.counts, self.hp.gamma))
        rate = self.hp.lr if self.hp.head_lr is None else self.hp.head_lr
        theta = local_sgd(loss, message["theta"], client, self.hp, besides=[(psi, rate)])
        log(one_class=((client.counts > 0).sum() == 1).float())  # it learns no balanced logits
        return {"theta": theta, "n": client.n}, {"psi": values(psi)}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return {"theta": message["theta"], "psi": client.state["psi"]}

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return {"theta": reply["theta"], "psi": client.state["psi"]}

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "psi" not in model:
            return super().predict(model, x)
        net = self.net(model["theta"])
        z = net.body(x)
        scores: Tensor = net.head(z) + private_logits(net, model["psi"], z)
        return scores


def class_offsets(counts: Tensor, gamma: float) -> Tensor:
    """o_c = log(n_c^gamma): -inf for an absent class, which then gets no gradient; 0 if gamma is."""
    return counts.float().pow(gamma).log()


def both_losses(psi: Params, offsets: Tensor) -> Loss:
    """CE(q + o, y) + CE(stop(q) + psi(stop(z)), y), where q = head(z): each trains its own part."""

    def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
        z = net.drop(net.body(x))
        q = net.head(z)
        balanced = cross_entropy(q + offsets, y)
        personal = cross_entropy(q.detach() + private_logits(net, psi, z.detach()), y)
        return balanced + personal

    return loss


def private_logits(net: Net, psi: Params, z: Tensor) -> Tensor:
    """psi(z): the network's head with other parameters."""
    own = {name.removeprefix("head."): p for name, p in psi.items()}
    logits: Tensor = functional_call(net.head, own, (z,))
    return logits


def silent(head: Params) -> Params:
    """A head whose logits are 0: its last layer is."""
    layers = [name.rpartition(".")[0] for name in head]
    return {
        name: torch.zeros_like(p) if layer == layers[-1] else p
        for layer, (name, p) in zip(layers, head.items(), strict=True)
    }
