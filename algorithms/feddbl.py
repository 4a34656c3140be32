"""FedDBL (Deng et al., "FedDBL: Communication and data efficient federated deep-broad learning for
histopathological tissue classification", IEEE Transactions on Cybernetics 2024), the one-shot
procedure.

Idea: fixed features and a ridge regression on top, averaged once.
Paper: https://ieeexplore.ieee.org/document/10572001
Code: https://github.com/tianpeng-deng/FedDBL
Down: W_G, once. Up: W_i, n, once. Private: W_i, W~_i. Evaluated: W_G, the published model (pre);
series "own" is W_i, and series "personalized" is W~_i, the client's ridge regression pulled to W_G,
which is ours. All work is done in one round, and the curve is flat from there on.
Deviations: the published extractor is a network pretrained on public images. Here it is the common
initial network, frozen: a random one, unless `--body-weights` gives pretrained values, or rounds of
FedAvg come first (`extractor`; their theta is then sent as well, and until there is a W_G the network
itself is evaluated). The record says when features are those of a random network. The exact ridge
regression of all data is ours too (`exact`: up A^T A and A^T Y in float64). Clients outside the
cohort of the round of broad learning add nothing to W_G.
"""

from dataclasses import dataclass

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
    hparam,
    note,
    refuse_options,
)
from pflbench.ops import cross_entropy_loss, layers, local_sgd, weighted_mean


@dataclass(frozen=True)
class FedDBLHparams(Hparams):
    lam: float = hparam(0.001, (1e-6, 1e3), "lambda of a client's ridge regression")
    lambda_p: float = hparam(
        1.0, (1e-3, 1e3), "pull of W~_i to W_G, in units of tr(A^T A) / F", tune=False
    )
    features: str = hparam(
        "multi", ["multi", "last"], "A: pooled output of every convolution and z, or z alone"
    )
    extractor: str = hparam(
        "initial", ["initial", "fed_warmup"], "the initial network, or one from rounds of FedAvg"
    )
    warmup_rounds: int = hparam(
        10, (1, 200), "R_0, rounds of FedAvg before the one of broad learning, if any"
    )
    exact: bool = hparam(
        False, [False, True], "W_G is the ridge regression of all data instead of the mean of W_i"
    )

    def __post_init__(self) -> None:
        if self.extractor == "initial":
            refuse_options(self, "FedDBL trains no network unless extractor = fed_warmup")


class FedDBL(Algorithm):
    title = "FedDBL"
    family = "Representation sharing"
    one_shot = True
    hp: FedDBLHparams

    def costs(self) -> tuple[str, str]:
        down = "F * C"
        up = "2 * F * (F + C)" if self.hp.exact else "F * C + 1"  # 2: of 8 bytes each
        if self.hp.extractor == "fed_warmup":
            rounds = self.hp.warmup_rounds
            down = f"{rounds + 1} * theta + {down}"
            up = f"{rounds} * (theta + 1) + {up}"
        return down, up

    def sizes(self) -> dict[str, int]:
        return {"F": self.features(self.task.skeleton, self.task.blank()).shape[1]}

    def init_server(self) -> State:
        return {"theta": self.task.initial} if self.hp.extractor == "fed_warmup" else {}

    def round(self, server: State, cohort: Cohort) -> State:
        if "W" in server:
            return server  # one shot: nothing is left to do
        if "theta" in server and cohort.round < self.hp.warmup_rounds:
            return self.warm_up(server, cohort)
        return self.broad_learning(server, cohort)

    def warm_up(self, server: State, cohort: Cohort) -> State:
        """A round of FedAvg."""
        replies = cohort.call(self.train, self.download(server, cohort.ids))
        return {"theta": weighted_mean(replies, "theta")} if replies else server

    def train(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {}

    def broad_learning(self, server: State, cohort: Cohort) -> State:
        """Clients solve and send W_i, and get W_G."""
        replies = cohort.call(self.client_update, self.download(server, cohort.ids))
        if not replies:
            return server
        server = self.aggregate(server, replies)
        cohort.call(self.receive, {id: {"W": server["W"].float()} for id in replies})
        return server

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        message = dict(server)
        if "W" in server:
            message["W"] = server["W"].float()
        return dict.fromkeys(ids, message)

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """W_i = (A^T A + lambda I)^-1 A^T Y."""
        gram, cross = self.sums(client, self.extractor(client, message))
        W = ridge(gram, cross, self.hp.lam).float()
        reply = {"gram": gram, "cross": cross} if self.hp.exact else {"W": W, "n": client.n}
        return reply, {**message, "own": W}

    def aggregate(self, server: State, replies: Replies) -> State:
        """W_G = sum_i (n_i / n) W_i, or the ridge regression of all data."""
        if self.hp.exact:
            ids = sorted(replies)
            gram = torch.stack([replies[id]["gram"] for id in ids]).sum(0)
            cross = torch.stack([replies[id]["cross"] for id in ids]).sum(0)
            W = ridge(gram, cross, self.hp.lam)
        else:
            W = weighted_mean(replies, "W")
        return {**server, "W": W}

    def receive(self, client: Client, message: Message) -> tuple[Message, State]:
        personalized = self.pulled(client, message)
        return {}, {"own": client.state["own"], "personalized": personalized}

    def pulled(self, client: Client, message: Message) -> Tensor:
        """W~_i = W_G + (A^T A + lambda_p I)^-1 A^T (Y - A W_G)."""
        gram, cross = self.sums(client, self.extractor(client, message))
        unit = gram.trace() / len(gram)
        lam = (self.hp.lambda_p * unit).clamp(min=1e-12)
        return ridge(gram, cross, lam, message["W"].double()).float()

    def extractor(self, client: Client, message: Message) -> Params:
        """The frozen network: sent now or earlier in the round, or known to all."""
        for place in (message, client.state):
            if "theta" in place:
                theta: Params = place["theta"]
                return theta
        return self.task.initial

    def features(self, net: Net, x: Tensor) -> Tensor:
        """A (B, F): the output of each convolutional stage, averaged over the image, and z."""
        stages: list[Tensor] = []
        latest: Tensor | None = None  # of the stage that x has just passed
        for layer in layers(net.body):
            # Only where another stage follows: one whose output is z itself counts once.
            if latest is not None and any(True for _ in layer.parameters()):
                stages.append(latest)
                latest = None
            x = layer(x)
            if x.dim() > 2 and ends_stage(layer):
                latest = x.mean(tuple(range(2, x.dim())))
        z = x.flatten(1)
        return torch.cat([*stages, z], 1) if self.hp.features == "multi" else z

    @torch.no_grad()
    def sums(self, client: Client, theta: Params) -> tuple[Tensor, Tensor]:
        """A^T A (F, F) and A^T Y (F, C) over the client's data, in float64; Y is one-hot."""
        net = self.net(theta)
        gram = torch.zeros((), dtype=torch.float64, device=client.y.device)
        cross = torch.zeros((), dtype=torch.float64, device=client.y.device)
        for x, y in client.samples():
            A = self.features(net, x).double()
            Y = one_hot(y, self.task.classes).double()
            gram = gram + A.T @ A
            cross = cross + A.T @ Y
        return gram, cross

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = self.extractor(client, message)
        if "W" not in message:
            return theta
        if self.hp.extractor == "initial" and not self.task.pretrained:
            note("features are those of a random network; --body-weights gives pretrained ones")
        return {"theta": theta, "W": message["W"]}

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """W~_i of a new client: a solution, which has no passes."""
        if "W" not in message:
            return self.personal_model(client, message)
        return {"theta": self.extractor(client, message), "W": self.pulled(client, message)}

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        if "W" not in message:
            return {}
        theta = self.extractor(client, message)
        if "own" in client.state:
            own = client.state["own"]
            personalized = client.state["personalized"]
        else:  # not in the cohort of the round of broad learning
            own = ridge(*self.sums(client, theta), self.hp.lam)
            personalized = self.pulled(client, message)
        return {
            "personalized": {"theta": theta, "W": personalized},
            "own": {"theta": theta, "W": own},
        }

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "W" not in model:
            return super().predict(model, x)
        A = self.features(self.net(model["theta"]), x).double()
        scores: Tensor = A @ model["W"].double()
        return scores


def ends_stage(layer: nn.Module) -> bool:
    """Whether a stage ends with this layer: a ReLU, or a block of layers (ResNet)."""
    return isinstance(layer, nn.ReLU) or any(True for _ in layer.children())


def ridge(
    gram: Tensor, cross: Tensor, lam: float | Tensor, towards: Tensor | None = None
) -> Tensor:
    """argmin over W of ||A W - Y||^2 + lambda ||W - W_0||^2, for A^T A, A^T Y and W_0 (or 0).

    It is W_0 + (A^T A + lambda I)^-1 (A^T Y - A^T A W_0).
    """
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    L = torch.linalg.cholesky(gram + lam * identity)
    if towards is None:
        return torch.cholesky_solve(cross, L)
    return towards + torch.cholesky_solve(cross - gram @ towards, L)
