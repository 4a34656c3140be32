"""FedCoSR (Federated contrastive shareable representations, IEEE Transactions on Cybernetics 2025), Algorithm 1.

Down: phi, the prototypes Omega of all classes that have one. Up: phi, the prototypes Omega_i of the client's classes and
their counts, n. Private: theta_i, its last contrastive loss L_i. Evaluated: theta_i after local training (post).
Deviations: weights are not clipped into [0, 1] after training, as the box has it if read literally; the base's weights
are renormalised over the cohort, and a class that nobody refreshed keeps its prototype (both matter only below full
participation); the first tau, which the paper leaves open, comes from a pass over the data (`first_tau`).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pflbench import ops
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
from pflbench.api import log, hparam
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
    tau: str = hparam(
        "exp", ["exp", "linear", "fixed"], "share of the own base: exp(-gamma L), 1 - L or constant"
    )
    tau_value: float = hparam(
        0.0, (0.0, 1.0), "tau where it is fixed: 0 takes the global base, 1 keeps the own"
    )
    first_tau: str = hparam(
        "eval", ["eval", "0", "1"], "tau before there is a loss: by a pass over the data, 0 or 1"
    )
    separate: bool = hparam(
        True, [True, False], "share the base only; false: the head too (ablation)"
    )
    use_ce: bool = hparam(
        True, [True, False], "cross entropy after the first round; false: ablation"
    )
    stale: str = hparam(
        "data_fraction",
        ["data_fraction", "drop"],
        "the prototype of a class that no client of the cohort holds",
    )
    min_clients: int = hparam(1, (1, 100), "clients that a prototype needs, or the server drops it")
    min_samples: int = hparam(
        1, (1, 100), "samples that a class needs, or the client does not send its prototype"
    )
    announce_first: bool = hparam(
        False, [True, False], "clients announce their classes and send allowed ones only"
    )
    dp_sigma: float = hparam(
        0.0, (0.0, 10.0), "noise multiplier for base and prototypes; 0: no clipping, no noise"
    )
    dp_clip_base: float = hparam(
        1.0, (0.01, 100.0), "S_phi, bound of the norm of the base's change"
    )
    dp_clip_z: float = hparam(1.0, (0.01, 100.0), "S_z, bound of the norm of a representation")
    dp_delta: float = hparam(1e-5, (1e-8, 1e-2), "delta for which epsilon is logged")


class FedCoSR(Algorithm):
    title = "FedCoSR"
    family = "Representation sharing"
    evaluation_point = "post"
    hp: FedCoSRHparams

    def costs(self) -> tuple[str, str]:
        return "phi + C*(k + 1)", "phi + C_i*(k + 2) + 1"

    def init_server(self) -> State:
        return {self.part: self.shared(self.task.initial)}

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    @property
    def part(self) -> str:
        return "phi" if self.hp.separate else "theta"

    def shared(self, theta: Params) -> Params:
        return ops.phi(theta) if self.hp.separate else theta

    def round(self, server: State, cohort: Cohort) -> State:
        messages = self.download(server, cohort.ids)  # (2)
        if self.hp.announce_first:
            held = cohort.call(self.announce, {id: {} for id in cohort.ids})
            support = torch.stack([reply["held"].int() for reply in held.values()]).sum(0)  # (C,)
            messages = {
                id: {**messages[id], "allowed": support >= self.hp.min_clients} for id in cohort.ids
            }
        return self.aggregate(server, cohort.call(self.client_update, messages))

    def aggregate(self, server: State, replies: Replies) -> State:  # (1) global aggregation
        stale = server.get("omega") if self.hp.stale == "keep" else None
        omega = ops.aggregate_prototypes(
            replies, "omega", self.task.classes, stale, self.hp.min_clients
        )
        known = {"omega": omega} if len(omega["labels"]) else {}
        return {self.part: ops.weighted_mean(replies, self.part), **known}

    def announce(self, client: Client, message: Message) -> tuple[Message, State]:
        return {"held": client.counts >= self.hp.min_samples}, client.state

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        omega = message.get("omega")  # none before the first upload: round 0 is cross entropy alone
        contrasts: list[tuple[Tensor, Tensor]] = []

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:  # L_Per + alpha L_Reg
            z = net.body(x)  # (B, k)
            if omega is None:
                return cross_entropy(net.head(net.drop(z)), y)
            with torch.set_grad_enabled(self.hp.alpha > 0):
                contrast, known = self.info_nce(z, y, omega)
            contrasts.append((contrast.detach(), known))
            regular = self.hp.alpha * contrast if self.hp.alpha > 0 else 0.0 * z.sum()
            return cross_entropy(net.head(net.drop(z)), y) + regular if self.hp.use_ce else regular

        tau = self.tau(client, message)
        theta = ops.local_sgd(loss, self.merged(client, message, tau), client, self.hp)  # (3), (4)
        log(tau=tau)
        net, state = self.net(theta), {**client.state, "theta": theta}
        contrast = self.mean_contrast(contrasts, omega)
        if contrast is not None:  # else the previous one stays
            state["L"] = contrast
            log(
                contrast=contrast, information=math.log(len(message["omega"]["labels"])) - contrast
            )  # log|C| - L <= I
        base, omega_i = self.shared(theta), self.prototypes(net, client, message)
        if self.hp.dp_sigma > 0:
            base = ops.noised_update(
                base, message[self.part], self.hp.dp_clip_base, self.hp.dp_sigma, client
            )
            state["releases"] = client.state.get("releases", 0 * client.n) + 1
            log(
                epsilon=ops.gaussian_epsilon(
                    self.hp.dp_sigma, int(state["releases"]), self.hp.dp_delta
                )
            )
        return {self.part: base, "omega": omega_i, "n": client.n}, state  # (5)

    def tau(self, client: Client, message: Message) -> Tensor:
        """tau = exp(-gamma L): the higher the loss, the less of the client's own base."""
        omega, contrast = message.get("omega"), client.state.get("L")
        if self.hp.tau == "fixed":
            return torch.full((), self.hp.tau_value, device=client.y.device)
        if contrast is None and omega is not None and self.hp.first_tau == "eval":
            net = self.net(client.state["theta"])
            with torch.no_grad():
                contrast = self.mean_contrast(
                    [self.info_nce(net.body(x), y, omega) for x, y in client.samples()], omega
                )
        if contrast is None:
            return torch.full(
                (), float(self.hp.first_tau == "1" and omega is not None), device=client.y.device
            )
        return (
            1 - contrast if self.hp.tau == "linear" else torch.exp(-self.hp.gamma * contrast)
        ).clamp(0, 1)

    def merged(self, client: Client, message: Message, tau: Tensor) -> Params:
        """phi_i <- tau phi_i + (1 - tau) phi, with the client's own head."""
        own: Params = client.state["theta"]
        return {**own, **ops.blend(tau, self.shared(own), message[self.part])}

    def info_nce(self, z: Tensor, y: Tensor, omega: Message) -> tuple[Tensor, Tensor]:
        """Mean of -log softmax(cos(z, w) / tau_CL)_y over the samples whose class has a prototype; and their number."""
        rows, known = ops.prototype_rows(omega, y, self.task.classes)
        each = cross_entropy(cosine(z, omega) / self.hp.temperature, rows, reduction="none") * known
        return each.sum() / known.sum().clamp(min=1), known.sum()

    def mean_contrast(
        self, contrasts: list[tuple[Tensor, Tensor]], omega: Message | None
    ) -> Tensor | None:
        """L_i over samples; none without a usable sample, or with one prototype only (L = 0 whatever the base)."""
        if omega is None or len(omega["labels"]) < 2 or not any(known for _, known in contrasts):
            return None
        means, known = (torch.stack(column) for column in zip(*contrasts, strict=True))
        return (means * known).sum() / known.sum()

    def prototypes(self, net: Net, client: Client, message: Message) -> dict[str, Tensor]:
        """Omega_i: of the classes with enough samples that the server allows, with noise if asked for."""
        clip = self.hp.dp_clip_z if self.hp.dp_sigma > 0 else None
        omega = ops.prototypes(net, client, self.hp.min_samples, clip)
        if "allowed" in message:
            allowed = message["allowed"][omega["labels"].long()]
            omega = {name: rows[allowed] for name, rows in omega.items()}
        return ops.noised_means(omega, clip, self.hp.dp_sigma, client) if clip else omega

    def personal_model(self, client: Client, message: Message) -> Model:
        return self.merged(client, message, self.tau(client, message))

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        if self.hp.use_ce or "omega" not in message:
            return {}
        return {
            "prototype": {"theta": client.state["theta"], "omega": message["omega"]}
        }  # the head is untrained

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "omega" not in model:
            return super().predict(model, x)
        scores = torch.full((len(x), self.task.classes), -2.0, device=x.device)  # below any cosine
        scores[:, model["omega"]["labels"].long()] = cosine(
            self.net(model["theta"]).body(x), model["omega"]
        )
        return scores


def cosine(z: Tensor, omega: Message) -> Tensor:
    return normalize(z, eps=1e-8) @ normalize(omega["means"], eps=1e-8).T  # (B, K)
