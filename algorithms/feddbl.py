"""FedDBL (Deng et al., "FedDBL: Communication and data efficient federated deep-broad learning for histopathological
tissue classification", IEEE Transactions on Cybernetics 2024), the one-shot procedure.

Down: W_G, once. Up: W_i, n, once. Private: W_i, W~_i. Evaluated: W~_i, the client's ridge regression pulled to W_G (pre);
series "global" is W_G, the published model, and "own" is W_i. The first round does all work, and the curve is flat.
Deviations: the published extractor is pretrained on public images; a plugin cannot load such data, so it is the common
initial network or the result of FedAvg rounds, frozen (`extractor`; their theta is then sent as well, and until there
is a W_G the network itself is scored). W~_i is ours, as is the exact pooled ridge (`exact`: up A^T A and A^T Y in
float64). Clients beyond the first cohort add nothing to W_G. The FedCoSR paper describes features that are uploaded and
37.5 iterations to converge; neither fits the published method, in which clients solve once and send weights.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from pflbench.api import (
    Algorithm,
    Client,
    Cohort,
    Hparams,
    Message,
    Model,
    Net,
    Params,
    Replies,
    State,
)
from pflbench.api import hparam
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


@dataclass(frozen=True)
class FedDBLHparams(Hparams):
    lam: float = hparam(0.001, (1e-6, 1e3), "lambda of a client's ridge regression")
    lambda_p: float = hparam(1.0, (1e-3, 1e3), "pull of W~_i to W_G, in units of tr(A^T A) / F")
    features: str = hparam(
        "multi", ["multi", "last"], "A: pooled output of every convolution and z, or z alone"
    )
    extractor: str = hparam(
        "random", ["random", "fed_warmup"], "the initial network, or one from rounds of FedAvg"
    )
    warmup_rounds: int = hparam(
        10, (1, 200), "R_0, rounds of FedAvg before the one of broad learning, if any"
    )
    exact: bool = hparam(
        False, [False, True], "W_G is the ridge regression of all data instead of the mean of W_i"
    )


class FedDBL(Algorithm):
    title = "FedDBL"
    family = "Representation sharing"
    exceptions: ClassVar = {
        "measured-bytes-equal-formula": "one shot: the formulas are the first round's, later ones send nothing"
    }
    hp: FedDBLHparams

    def costs(self) -> tuple[str, str]:
        return "F * C", "F * C + 1"

    def sizes(self) -> dict[str, int]:
        return {
            "F": self.features(
                self.task.skeleton, torch.empty(1, *self.task.shape, device="meta")
            ).shape[1]
        }

    def init_server(self) -> State:
        return {"theta": self.task.initial} if self.hp.extractor == "fed_warmup" else {}

    def round(self, server: State, cohort: Cohort) -> State:
        if "W" in server:
            return server
        if "theta" in server and cohort.round < self.hp.warmup_rounds:
            return {
                "theta": weighted_mean(
                    cohort.call(self.warm_up, self.download(server, cohort.ids)), "theta"
                )
            }
        server = self.aggregate(
            server, cohort.call(self.client_update, self.download(server, cohort.ids))
        )
        cohort.call(self.receive, {id: {"W": server["W"].float()} for id in cohort.ids})
        return server

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        return {
            id: {part: tree.float() if part == "W" else tree for part, tree in server.items()}
            for id in ids
        }

    def warm_up(self, client: Client, message: Message) -> tuple[Message, State]:
        return {
            "theta": local_sgd(cross_entropy_loss, message["theta"], client, self.hp),
            "n": client.n,
        }, {}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:  # W_i
        gram, cross = self.sums(client, self.theta(client, message))
        W = ridge(gram, cross, self.hp.lam).float()
        reply = {"gram": gram, "cross": cross} if self.hp.exact else {"W": W, "n": client.n}
        return reply, {**message, "own": W}

    def aggregate(self, server: State, replies: Replies) -> State:  # W_G = sum_i (n_i / n) W_i
        if not self.hp.exact:
            return {**server, "W": weighted_mean(replies, "W")}
        gram, cross = (
            torch.stack([replies[id][part] for id in sorted(replies)]).sum(0)
            for part in ("gram", "cross")
        )
        return {**server, "W": ridge(gram, cross, self.hp.lam)}

    def receive(self, client: Client, message: Message) -> tuple[Message, State]:
        return {}, {"own": client.state["own"], "personal": self.pulled(client, message)}

    def theta(self, client: Client, message: Message) -> Params:
        """The extractor: sent now or earlier in the round, or known to all."""
        theta: Params = {"theta": self.task.initial, **client.state, **message}["theta"]
        return theta

    def pulled(self, client: Client, message: Message) -> Tensor:
        """W~_i = W_G + (A^T A + lambda_p I)^-1 A^T (Y - A W_G)."""
        gram, cross = self.sums(client, self.theta(client, message))
        unit = gram.trace() / len(gram)
        return ridge(
            gram, cross, (self.hp.lambda_p * unit).clamp(min=1e-12), message["W"].double()
        ).float()

    def features(self, net: Net, x: Tensor) -> Tensor:
        """A (B, F): the output of each convolutional stage after its ReLU, averaged over the image, and z = body(x)."""
        stages: list[Tensor] = []
        latest: list[Tensor] = []
        for layer in net.body.children():
            if latest and any(
                True for _ in layer.parameters()
            ):  # only here: a last stage that is z itself counts once
                stages += latest
                latest = []
            x = layer(x)
            if x.dim() == 4 and (isinstance(layer, nn.ReLU) or any(True for _ in layer.children())):
                latest = [x.mean((2, 3))]
        return torch.cat([*(stages if self.hp.features == "multi" else []), x.flatten(1)], 1)

    @torch.no_grad()
    def sums(self, client: Client, theta: Params) -> tuple[Tensor, Tensor]:
        """A^T A (F, F) and A^T Y (F, C) over the client's data, in float64; Y is one-hot over all classes."""
        net, total = self.net(theta), torch.zeros((), dtype=torch.float64, device=client.y.device)
        gram, cross = total, total
        for x, y in client.samples():
            A = self.features(net, x).double()
            gram, cross = gram + A.T @ A, cross + A.T @ one_hot(y, self.task.classes).double()
        return gram, cross

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = self.theta(client, message)
        if "W" not in message:
            return theta
        known = client.state.get("personal")  # none if the client was not in the cohort
        return {"theta": theta, "W": self.pulled(client, message) if known is None else known}

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        if "W" not in message:
            return {}
        theta, own = self.theta(client, message), client.state.get("own")
        own = ridge(*self.sums(client, theta), self.hp.lam) if own is None else own
        return {"global": {"theta": theta, "W": message["W"]}, "own": {"theta": theta, "W": own}}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "W" not in model:
            return super().predict(model, x)
        scores: Tensor = self.features(self.net(model["theta"]), x).double() @ model["W"].double()
        return scores


def ridge(
    gram: Tensor, cross: Tensor, lam: float | Tensor, towards: Tensor | None = None
) -> Tensor:
    """argmin over W of ||A W - Y||^2 + lambda ||W - W_0||^2 = W_0 + (A^T A + lambda I)^-1 (A^T Y - A^T A W_0)."""
    L = torch.linalg.cholesky(
        gram + lam * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    )
    if towards is None:
        return torch.cholesky_solve(cross, L)
    return towards + torch.cholesky_solve(cross - gram @ towards, L)
