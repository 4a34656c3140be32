"""FedCP (Zhang et al., "FedCP: Separating feature information for personalized federated learning
via conditional policy", KDD 2023).

Idea: a policy network divides each representation between the global and the own head.
Paper: https://arxiv.org/abs/2307.01217
Code: https://github.com/TsingZ0/FedCP
Down: phi, the global head pi, the policy Q. Up: phi, the mean of own and received head, Q, n.
Private: pi_i.
Evaluated: the sum of both heads' logits on their parts of the new representations (pre).
Deviations: the policy's noise is drawn in training only; in the authors' code also at test time. A
client that has not trained has the initial head, not a random context.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import layer_norm, linear, normalize, relu

from pflbench.api import Algorithm, Client, Hparams, Loss, Message, Model, Net, Params
from pflbench.api import Replies, State, hparam
from pflbench.ops import blend, cross_entropy, initial_linear, join, leaves, local_sgd, phi, pi
from pflbench.ops import values, weighted_mean

WIDTHS = (10.0, 15.0, 20.0, 50.0)


@dataclass(frozen=True)
class FedCPHparams(Hparams):
    lam: float = hparam(5.0, (0.0, 10.0), "lambda, pull of representations to the global body's")
    tau: float = hparam(1.0, (0.1, 10.0), "temperature of the policy's masks")


class FedCP(Algorithm):
    title = "FedCP"
    family = "Feature separation"
    batch_norm = "body"
    hp: FedCPHparams

    def costs(self) -> tuple[str, str]:
        return "theta + Q", "theta + Q + 1"

    def sizes(self) -> dict[str, int]:
        k = self.task.width
        return {"Q": 2 * k * k + 6 * k}

    def init_server(self) -> State:
        initial = self.task.initial
        return {"phi": phi(initial), "pi": pi(initial), "Q": self.initial_policy()}

    def initial_policy(self) -> Params:
        """ReLU(LayerNorm(A u + a)), with two outputs per entry of a representation."""
        k = self.task.width
        layer = initial_linear("policy", k, 2 * k, self.task.generator("policy"))
        return {**layer, "policy.scale": torch.ones(2 * k), "policy.shift": torch.zeros(2 * k)}

    def init_client(self) -> State:
        return {"pi": pi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        Q = leaves(message["Q"])
        start = join(message["phi"], client.state["pi"])
        loss = self.loss(client, message, Q)
        theta = local_sgd(loss, start, client, self.hp, besides=[(Q, self.hp.lr)])
        head = blend(0.5, pi(theta), message["pi"])
        reply = {"phi": phi(theta), "pi": head, "Q": values(Q), "n": client.n}
        return reply, {"pi": pi(theta)}

    def loss(self, client: Client, message: Message, Q: Params) -> Loss:
        """CE(pi_i(s z) + pi(r z), y) + lambda MMD(z, u), u being the global body's representations."""
        context = context_of(client.state["pi"], self.task.width).to(client.y.device)
        frozen = self.net(join(message["phi"], message["pi"])).requires_grad_(False)
        draws = client.generator("gumbel")

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            u = frozen.body(x)
            scores = policy(Q, z.flatten(1), context)
            noise = gumbel(scores, draws)
            s, r = masks(scores + noise, self.hp.tau)
            logits = divided_logits(net, message["pi"], net.drop(z), s, r)
            pull = mmd(z.flatten(1), u.flatten(1))
            return cross_entropy(logits, y) + self.hp.lam * pull

        return loss

    def aggregate(self, server: State, replies: Replies) -> State:
        return {part: weighted_mean(replies, part) for part in ("phi", "pi", "Q")}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = join(message["phi"], client.state["pi"])
        return {"theta": theta, "pi": message["pi"], "Q": message["Q"]}

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        theta = join(reply["phi"], client.state["pi"])
        return {"theta": theta, "pi": message["pi"], "Q": reply["Q"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        net = self.net(model["theta"])
        z = net.body(x)
        context = context_of(pi(model["theta"]), self.task.width).to(z.device)
        scores = policy(model["Q"], z.flatten(1), context)
        s, r = masks(scores, self.hp.tau)
        return divided_logits(net, model["pi"], z, s, r)


def context_of(head: Params, width: int) -> Tensor:
    """v = the sum of a head's rows, normalised; of several layers the product of their weights.

    Ones where there is no such product, as for an empty head.
    """
    product = torch.eye(width)
    for p in head.values():
        if p.dim() > 1:
            if p.dim() > 2 or p.shape[1] != len(product):
                return torch.ones(width)
            product = p.cpu() @ product
    return normalize(product.sum(0), dim=0) if head else torch.ones(width)


def policy(Q: Params, z: Tensor, context: Tensor) -> Tensor:
    """Q(z v): the two scores of every entry, (B, 2, k)."""
    hidden = linear(z * context, Q["policy.weight"], Q["policy.bias"])
    normed = layer_norm(hidden, hidden.shape[1:], Q["policy.scale"], Q["policy.shift"])
    return relu(normed).reshape(len(z), 2, z.shape[1])


def gumbel(scores: Tensor, draws: torch.Generator) -> Tensor:
    """Standard Gumbel noise, -log(-log U), of the shape of the scores."""
    uniform = torch.rand(scores.shape, generator=draws).clamp(min=1e-20)
    return (-(-uniform.log()).log()).to(scores.device)


def masks(scores: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """(s, r), the softmax of each pair of scores: s + r = 1."""
    pair = (scores / tau).softmax(1)
    return pair[:, 0], pair[:, 1]


def divided_logits(net: Net, head: Params, z: Tensor, s: Tensor, r: Tensor) -> Tensor:
    """pi_i(s z) + pi(r z): the network's own head, and another one."""
    other = {name.removeprefix("head."): p for name, p in head.items()}
    own_part = (s * z.flatten(1)).reshape(z.shape)
    other_part = (r * z.flatten(1)).reshape(z.shape)
    own_logits: Tensor = net.head(own_part)
    other_logits: Tensor = functional_call(net.head, other, (other_part,))
    return own_logits + other_logits


def mmd(z: Tensor, u: Tensor) -> Tensor:
    """Mean over all pairs of kernel(z, z') + kernel(u, u') - 2 kernel(z, u')."""
    within = kernel(z, z) + kernel(u, u)
    between = kernel(z, u)
    return (within - 2 * between).mean()


def kernel(first: Tensor, second: Tensor) -> Tensor:
    """sum over w of exp(-d^2 / (2 w)), d being the distance of two rows."""
    norms = first.square().sum(1)
    other_norms = second.square().sum(1)
    d2 = norms[:, None] + other_norms[None] - 2 * first @ second.T
    parts = [torch.exp(-d2 / (2 * w)) for w in WIDTHS]
    return torch.stack(parts).sum(0)
