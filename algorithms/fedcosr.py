"""FedCoSR (Huang et al., "FedCoSR: Personalized federated learning with contrastive shareable
representations for label heterogeneity in non-IID data", IEEE Transactions on Cybernetics 2025),
Algorithm 1.

Down: phi, the prototypes Omega of all classes that have one. Up: phi, the prototypes Omega_i of the
client's classes and their counts, n. Private: theta_i, its last contrastive loss L_i, the number of
rounds it has trained. Evaluated: theta_i after local training (post).
Deviations: weights are not clipped into [0, 1] after training, as line 22 has it if read literally;
the weights of the bodies are renormalised over the cohort, and a class that nobody refreshed keeps
its prototype (both matter only below full participation). Line 17 needs a contrastive loss in the
first round after line 5, which has none: there it comes from one pass over the data.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pflbench import ops, privacy
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
    log,
)
from pflbench.ops import cross_entropy


@dataclass(frozen=True)
class FedCoSRHparams(Hparams):
    lr: float = hparam(0.003, (1e-4, 0.1), "eta, learning rate of local training")
    optimizer: str = hparam("adam", ["sgd", "adam"], "local optimizer, new in every round")
    dropout: float = hparam(
        0.3, (0.0, 0.9), "dropout between body and head; representations are taken before it"
    )
    alpha: float = hparam(
        1.0, (0.0, 2.0), "weight of the contrastive loss; 0: ablation, it then only drives tau"
    )
    temperature: float = hparam(0.1, (0.01, 1.0), "tau_CL, temperature of the contrastive loss")
    gamma: float = hparam(0.8, (0.1, 5.0), "sensitivity of tau to the loss")
    stale: str = hparam(
        "keep", ["keep", "drop"], "the prototype of a class that no client of the cohort holds"
    )
    # ablations
    tau: str = hparam(
        "exp", ["exp", "linear", "fixed"], "share of the own body: exp(-gamma L), 1 - L or constant"
    )
    tau_value: float = hparam(
        0.0,
        (0.0, 1.0),
        "tau where it is fixed: 0 takes the global body, 1 keeps the own",
        tune=False,
    )
    separate: bool = hparam(
        True, [True, False], "share the body only; false: the head too (ablation)"
    )
    use_ce: bool = hparam(
        True, [True, False], "cross entropy after the first round; false: ablation"
    )
    # rare classes
    min_clients: int = hparam(1, (1, 100), "clients that a prototype needs, or the server drops it")
    min_samples: int = hparam(
        1, (1, 100), "samples that a class needs, or the client does not send its prototype"
    )
    announce_first: bool = hparam(
        False, [True, False], "clients announce their classes and send allowed ones only"
    )
    # differential privacy
    dp_sigma: float = hparam(
        0.0, (0.0, 10.0), "noise multiplier of all that is sent; 0: no noise", tune=False
    )
    dp_clip_body: float = hparam(
        1.0, (0.01, 100.0), "S_phi, bound of the norm of the body's change", tune=False
    )
    dp_clip_z: float = hparam(
        1.0, (0.01, 100.0), "S_z, bound of the norm of a representation", tune=False
    )
    dp_clip_sums: float = hparam(
        100.0, (0.01, 10000.0), "S_Omega, bound of the norm of a client's class sums", tune=False
    )
    dp_delta: float = hparam(1e-5, (1e-8, 1e-2), "delta for which epsilon is logged", tune=False)

    def __post_init__(self) -> None:
        if self.dp_sigma > 0:
            privacy.require_accountant()
            privacy.exclude(
                announce_first=self.announce_first,
                min_clients=self.min_clients > 1,
                min_samples=self.min_samples > 1,
            )


class FedCoSR(Algorithm):
    title = "FedCoSR"
    family = "Representation sharing"
    evaluation_point = "post"
    hp: FedCoSRHparams

    def init_server(self) -> State:
        return {self.part: self.shared(self.task.initial)}

    def init_client(self) -> State:
        return {"theta": self.task.initial, "rounds": torch.zeros((), dtype=torch.int32)}

    def aggregate(self, server: State, replies: Replies) -> State:
        """(1) Global aggregation, equations 6 and 7."""
        if self.hp.dp_sigma > 0:
            replies = self.pooled(replies)
        body = ops.weighted_mean(replies, self.part)
        stale = server.get("omega") if self.hp.stale == "keep" else None
        omega = ops.aggregate_prototypes(
            replies, "omega", self.task.classes, stale, self.hp.min_clients
        )
        if len(omega["labels"]) == 0:
            return {self.part: body}
        return {self.part: body, "omega": omega}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        omega = message.get("omega")  # none in the first round (lines 3 to 7)
        tau = self.tau(client, omega)
        start = self.local_aggregation(client, message, tau)  # (3)
        theta, contrast = self.local_training(client, start, omega)  # (4)
        log(tau=tau)
        state = {**client.state, "theta": theta, "rounds": client.state["rounds"] + 1}
        if contrast is not None:  # else the previous one stays
            state["L"] = contrast
            log_contrast(contrast, message["omega"])
        return self.upload(client, message, state), state  # (5)

    def tau(self, client: Client, omega: Message | None) -> Tensor:
        """tau = exp(-gamma L) (equation 8); 0, so that the body is overwritten, at first contact."""
        if self.hp.tau == "fixed":
            return torch.full((), self.hp.tau_value, device=client.y.device)
        contrast = self.last_contrast(client, omega)
        if contrast is None:
            return torch.zeros((), device=client.y.device)
        own = 1 - contrast if self.hp.tau == "linear" else torch.exp(-self.hp.gamma * contrast)
        return own.clamp(0, 1)

    def last_contrast(self, client: Client, omega: Message | None) -> Tensor | None:
        """L_i of the client's last round; none before it has trained (line 4)."""
        if "L" in client.state or omega is None or client.state["rounds"] == 0:
            return client.state.get("L")
        net = self.net(client.state["theta"])
        with torch.no_grad():
            losses = [self.info_nce(net.body(x), y, omega) for x, y in client.samples()]
        return mean_contrast(losses, omega)

    def local_aggregation(self, client: Client, message: Message, tau: Tensor) -> Params:
        """phi_i <- tau phi_i + (1 - tau) phi, with the client's own head (equation 9)."""
        own: Params = client.state["theta"]
        return {**own, **ops.blend(tau, self.shared(own), message[self.part])}

    def local_training(
        self, client: Client, start: Params, omega: Message | None
    ) -> tuple[Params, Tensor | None]:
        """theta_i <- theta_i - eta grad (L_Per + alpha L_Reg) (equations 12, 13); and the mean L_Reg."""
        losses: list[tuple[Tensor, Tensor]] = []

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)  # (B, k)
            if omega is None:
                return cross_entropy(net.head(net.drop(z)), y)
            contrast, known = self.info_nce(z, y, omega)
            losses.append((contrast.detach(), known))
            if not self.hp.use_ce:
                return self.hp.alpha * contrast
            return cross_entropy(net.head(net.drop(z)), y) + self.hp.alpha * contrast

        theta = ops.local_sgd(loss, start, client, self.hp)
        return theta, mean_contrast(losses, omega)

    def info_nce(self, z: Tensor, y: Tensor, omega: Message) -> tuple[Tensor, Tensor]:
        """Mean of -log softmax(cos(z, w) / tau_CL)_y (equation 11), and over how many samples.

        Only samples whose class has a prototype count.
        """
        rows, known = ops.prototype_rows(omega, y, self.task.classes)
        each = cross_entropy(cosine(z, omega) / self.hp.temperature, rows, reduction="none") * known
        return each.sum() / known.sum().clamp(min=1), known.sum()

    def upload(self, client: Client, message: Message, state: State) -> Message:
        """(5) phi_i and the prototypes Omega_i (equations 4 and 5)."""
        if self.hp.dp_sigma > 0:
            return self.private_upload(client, message, state)
        theta = state["theta"]
        omega = ops.prototypes(self.net(theta), client, self.hp.min_samples)
        if "allowed" in message:
            omega = allowed_rows(omega, message["allowed"])
        return {self.part: self.shared(theta), "omega": omega, "n": client.n}

    def personal_model(self, client: Client, message: Message) -> Model:
        tau = self.tau(client, message.get("omega"))
        return self.local_aggregation(client, message, tau)

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]

    def costs(self) -> tuple[str, str]:
        down = f"{self.part} + C*(k + 1)"
        up = f"{self.part} + C_i*(k + 2) + 1"
        if self.hp.dp_sigma > 0:
            up = f"{self.part} + C*(k + 1)"
        if self.hp.announce_first:
            return f"{down} + C", f"{up} + C"
        return down, up

    # Ablation: without separation the whole network is shared.

    @property
    def part(self) -> str:
        return "phi" if self.hp.separate else "theta"

    def shared(self, theta: Params) -> Params:
        return ops.phi(theta) if self.hp.separate else theta

    # Ablation: without cross entropy the head is not trained, so the nearest prototype is evaluated too.

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        if self.hp.use_ce or "omega" not in message:
            return {}
        return {"prototype": {"theta": client.state["theta"], "omega": message["omega"]}}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "omega" not in model:
            return super().predict(model, x)
        z = self.net(model["theta"]).body(x)
        scores = torch.full((len(x), self.task.classes), -2.0, device=x.device)  # below any cosine
        scores[:, model["omega"]["labels"].long()] = cosine(z, model["omega"])
        return scores

    # Option `announce_first`: prototypes of classes that few clients hold never leave a client.

    def round(self, server: State, cohort: Cohort) -> State:
        messages = self.download(server, cohort.ids)  # (2)
        if self.hp.announce_first:
            announced = cohort.call(self.announce, {id: {} for id in cohort.ids})
            clients = torch.stack([reply["held"] for reply in announced.values()]).sum(0)  # (C,)
            allowed = (clients >= self.hp.min_clients).int()
            messages = {id: {**messages[id], "allowed": allowed} for id in cohort.ids}
        return self.aggregate(server, cohort.call(self.client_update, messages))

    def announce(self, client: Client, message: Message) -> tuple[Message, State]:
        held = client.counts >= max(self.hp.min_samples, 1)
        return {"held": held.int()}, client.state

    # Option `dp_sigma`: differential privacy of all that is sent; see docs/privacy.md.

    def private_upload(self, client: Client, message: Message, state: State) -> Message:
        hp = self.hp
        body = privacy.noised_update(
            self.shared(state["theta"]), message[self.part], hp.dp_clip_body, hp.dp_sigma, client
        )
        net = self.net({**state["theta"], **body})  # z of the released body, which is public
        sums = privacy.noised_class_sums(net, client, hp.dp_clip_z, hp.dp_clip_sums, hp.dp_sigma)
        self.log_epsilon(int(state["rounds"]))
        return {self.part: body, "sums": sums}

    def log_epsilon(self, rounds: int) -> None:
        """Of both releases of all rounds, where a sample or the whole data of a client may differ."""
        sigma, delta = self.hp.dp_sigma, self.hp.dp_delta
        sigma_client = sigma * self.hp.dp_clip_z / self.hp.dp_clip_sums
        sigma_sample = max(sigma, sigma_client)
        log(
            epsilon_sample=privacy.epsilon((sigma, sigma_sample), rounds, delta),
            epsilon_client=privacy.epsilon((sigma, sigma_client), rounds, delta),
        )

    def pooled(self, replies: Replies) -> Replies:
        """All replies as one without noise would be; the bodies have equal weights, n being private."""
        equal = {id: torch.ones(()) for id in replies}
        body = ops.weighted_mean(replies, self.part, equal)
        omega = privacy.pooled_prototypes(replies, "sums", self.hp.dp_sigma)
        return {0: {self.part: body, "omega": omega, "n": torch.ones(())}}


def cosine(z: Tensor, omega: Message) -> Tensor:
    """Cosines (B, K) of representations (B, k) and prototypes (K, k)."""
    return normalize(z, eps=1e-8) @ normalize(omega["means"], eps=1e-8).T


def mean_contrast(losses: list[tuple[Tensor, Tensor]], omega: Message | None) -> Tensor | None:
    """L_i over the samples of all batches: of each batch its mean, and over how many samples.

    None without a usable sample, or with one prototype only, where L = 0 whatever the body is.
    """
    if omega is None or len(omega["labels"]) < 2 or not any(known for _, known in losses):
        return None
    means = torch.stack([mean for mean, _ in losses])
    known = torch.stack([known for _, known in losses])
    return (means * known).sum() / known.sum()


def log_contrast(contrast: Tensor, omega: Message) -> None:
    classes = len(omega["labels"])
    log(contrast=contrast, information=math.log(classes) - contrast)


def allowed_rows(omega: dict[str, Tensor], allowed: Tensor) -> dict[str, Tensor]:
    """The prototypes of the classes that the server allows; `allowed` is (C,), 0 or 1."""
    kept = allowed[omega["labels"].long()] > 0
    return {name: rows[kept] for name, rows in omega.items()}
