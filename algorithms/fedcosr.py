"""FedCoSR (Huang et al., "FedCoSR: Personalized federated learning with contrastive shareable
representations for label heterogeneity in non-IID data", IEEE Transactions on Cybernetics 2025),
Algorithm 1.

Idea: a shared body, mixed with the own one, and shared prototypes in a contrastive loss.
Paper: https://arxiv.org/abs/2404.17916 (an earlier version)
Code: none of the authors found
Down: phi, the prototypes Omega of all classes that have one. Up: phi, the prototypes Omega_i of the
client's classes and their counts, n. Private: theta_i, its last contrastive loss L_i, the number of
rounds it has trained. Evaluated: theta_i after local training (post).
Deviations: weights are not clipped into [0, 1] after training, as line 22 has it if read literally;
the weights of the bodies are renormalised over the cohort, and a class that nobody refreshed keeps
its prototype (both matter only below full participation). Line 17 needs a contrastive loss in the
first round after line 5, which has none: there it comes from one pass over the data.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pflbench import ops, privacy
from pflbench.api import Algorithm, Client, Cohort, Hparams, Loss, Message, Model, Net, Params
from pflbench.api import Replies, State, hparam, log, note
from pflbench.ops import cross_entropy


@dataclass(frozen=True)
class FedCoSRHparams(Hparams):
    lr: float = hparam(0.003, (1e-4, 0.1), "eta, learning rate of local training")
    optimizer: str = hparam("adam", ["sgd", "adam"], "local optimizer")
    dropout: float = hparam(0.3, (0.0, 0.9), "dropout between body and head, not for prototypes")
    alpha: float = hparam(
        1.0, (0.0, 2.0), "weight of the contrastive loss; at 0 it only drives tau"
    )
    temperature: float = hparam(0.1, (0.01, 1.0), "tau_CL, temperature of the contrastive loss")
    gamma: float = hparam(0.8, (0.1, 5.0), "sensitivity of tau to the contrastive loss")
    stale: str = hparam("keep", ["keep", "drop"], "prototypes of classes that no client refreshed")
    # ablations
    tau: str = hparam(
        "exp", ["exp", "linear", "fixed"], "share of the own body: exp(-gamma L), 1 - L or constant"
    )
    tau_value: float = hparam(
        0.0, (0.0, 1.0), "tau where it is fixed; 0: the global body, 1: the own one", tune=False
    )
    separate: bool = hparam(True, [True, False], "share the body only; false: the head too")
    use_ce: bool = hparam(True, [True, False], "cross entropy also after the first round")
    # rare classes
    min_clients: int = hparam(1, (1, 100), "clients that a prototype needs, or the server drops it")
    min_samples: int = hparam(1, (1, 100), "samples that a prototype needs, or it is not sent")
    announce_first: bool = hparam(
        False, [True, False], "clients announce their classes and send allowed ones only"
    )
    # measurement
    measure: bool = hparam(
        False,
        [True, False],
        "log what the convergence theorem needs, at thrice the work",
        tune=False,
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
        100.0, (0.01, 1e4), "S_Omega, bound of the norm of a client's class sums", tune=False
    )
    dp_delta: float = hparam(1e-5, (1e-8, 1e-2), "delta for which epsilon is logged", tune=False)

    def __post_init__(self) -> None:
        if self.dp_sigma > 0:
            rare = {"min_clients": self.min_clients > 1, "min_samples": self.min_samples > 1}
            privacy.exclude({"announce_first": self.announce_first, **rare})
            privacy.require_positive(self, "dp_clip_body", "dp_clip_z", "dp_clip_sums", "dp_delta")
            privacy.require_accountant()


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
        if self.hp.measure and omega is not None:
            self.log_convergence(client, message, start, theta)
        state = {**client.state, "theta": theta, "rounds": client.state["rounds"] + 1}
        if contrast is not None:  # else the previous one stays
            state["L"] = contrast
            log_contrast(contrast, client, message["omega"])
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
            contrasts = [self.info_nce(net.body(x), y, omega) for x, y in client.samples()]
        return mean_contrast(contrasts, omega)

    def local_aggregation(self, client: Client, message: Message, tau: Tensor) -> Params:
        """phi_i <- tau phi_i + (1 - tau) phi, with the client's own head (equation 9)."""
        own: Params = client.state["theta"]
        return {**own, **ops.blend(tau, self.shared(own), message[self.part])}

    def local_training(
        self, client: Client, start: Params, omega: Message | None
    ) -> tuple[Params, Tensor | None]:
        """theta_i <- theta_i - eta grad (L_Per + alpha L_Reg) (equation 13); and the mean L_Reg."""
        contrasts: list[tuple[Tensor, Tensor]] = []
        theta = ops.local_sgd(self.objective(omega, contrasts), start, client, self.hp)
        return theta, mean_contrast(contrasts, omega)

    def objective(self, omega: Message | None, contrasts: list[tuple[Tensor, Tensor]]) -> Loss:
        """L_Per + alpha L_Reg (equation 12), L_Per in the first round (line 5); collects L_Reg."""

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)  # (B, k)
            if omega is None:
                return cross_entropy(net.head(net.drop(z)), y)
            contrast, known = self.info_nce(z, y, omega)
            contrasts.append((contrast.detach(), known))
            if not self.hp.use_ce:
                return self.hp.alpha * contrast
            return cross_entropy(net.head(net.drop(z)), y) + self.hp.alpha * contrast

        return loss

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
        omega = ops.prototypes(self.net(state["theta"]), client, self.hp.min_samples)
        if "allowed" in message:
            omega = allowed_rows(omega, message["allowed"])
        return {self.part: self.shared(state["theta"]), "omega": omega, "n": client.n}

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

    # Ablation: without cross entropy the head is not trained; the nearest prototype decides too.

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
        if not self.hp.announce_first:
            return super().round(server, cohort)
        announced = cohort.call(self.announce, {id: {} for id in cohort.ids})
        if not announced:
            return server
        clients = torch.stack([reply["held"] for reply in announced.values()]).sum(0)  # (C,)
        message = {**server, "allowed": (clients >= self.hp.min_clients).int()}
        replies = cohort.call(self.client_update, dict.fromkeys(announced, message))
        return self.aggregate(server, replies)

    def announce(self, client: Client, message: Message) -> tuple[Message, State]:
        held = client.counts >= max(self.hp.min_samples, 1)
        return {"held": held.int()}, client.state

    # Option `dp_sigma`: differential privacy of all that is sent; see docs/privacy.md.

    def private_upload(self, client: Client, message: Message, state: State) -> Message:
        hp = self.hp
        sigma, bounds = hp.dp_sigma, (hp.dp_clip_z, hp.dp_clip_sums)
        trained, received = self.shared(state["theta"]), message[self.part]
        body = privacy.noised_update(trained, received, hp.dp_clip_body, sigma, client)
        net = self.net({**state["theta"], **body})  # z of the released body, which is public
        sums = privacy.noised_class_sums(net, client, *bounds, sigma)
        privacy.log_epsilon(sigma, *bounds, int(state["rounds"]), hp.dp_delta)
        return {self.part: body, "sums": sums}

    def pooled(self, replies: Replies) -> Replies:
        """All replies as one without noise would be; the bodies have equal weights, n being private."""
        body = ops.weighted_mean(replies, self.part, {id: torch.ones(()) for id in replies})
        omega = privacy.pooled_prototypes(replies, "sums", self.hp.dp_sigma)
        return {0: {self.part: body, "omega": omega, "n": torch.ones(())}}

    # Option `measure`: what the convergence theorem assumes, as far as it can be measured.

    def log_convergence(self, client: Client, message: Message, start: Params, end: Params) -> None:
        """The constants of Theorem 2 at the start of local training, and Corollary 1's condition."""
        loss = self.objective(message["omega"], [])
        gradient, variance = gradient_and_variance(loss, start, client, self.hp.batch_size)
        apart = distance(self.shared(client.state["theta"]), message[self.part])
        log(gradient_norm=gradient.norm(), gradient_variance=variance, body_distance=apart)
        step = distance(start, end)
        if step == 0:
            return
        later, _ = gradient_and_variance(loss, end, client, self.hp.batch_size)
        smoothness = (later - gradient).norm() / step  # at most L_1
        bound = eta_bound(gradient.square().sum(), variance, smoothness, apart, self.hp)
        holds = self.hp.lr * self.hp.rate_factor(client.round) < bound
        log(smoothness=smoothness, eta_bound=bound, eta_holds=holds.double())
        if not holds:
            note("Corollary 1's condition on eta fails in some rounds of some clients (eta_holds)")


def cosine(z: Tensor, omega: Message) -> Tensor:
    """Cosines (B, K) of representations (B, k) and prototypes (K, k)."""
    return normalize(z, eps=1e-8) @ normalize(omega["means"], eps=1e-8).T


def mean_contrast(contrasts: list[tuple[Tensor, Tensor]], omega: Message | None) -> Tensor | None:
    """L_i over the samples of all batches: of each batch its mean, and over how many samples.

    None without a usable sample, or with one prototype only, where L = 0 whatever the body is.
    """
    if omega is None or len(omega["labels"]) < 2 or not any(known for _, known in contrasts):
        return None
    means = torch.stack([mean for mean, _ in contrasts])
    known = torch.stack([known for _, known in contrasts])
    return (means * known).sum() / known.sum()


def log_contrast(contrast: Tensor, client: Client, omega: Message) -> None:
    """L, log|C| - L, and the entropy H of the labels over which L is a mean.

    H - L, not log|C| - L, bounds the mutual information from below; see docs/paper-notes.md.
    """
    labels = omega["labels"].long()
    counts = client.counts[labels].double()
    log(
        contrast=contrast,
        contrast_gap=math.log(len(labels)) - contrast,
        label_entropy=torch.special.entr(counts / counts.sum()).sum(),
    )


def allowed_rows(omega: dict[str, Tensor], allowed: Tensor) -> dict[str, Tensor]:
    """The prototypes of the classes that the server allows; `allowed` is (C,), 0 or 1."""
    kept = allowed[omega["labels"].long()] > 0
    return {name: rows[kept] for name, rows in omega.items()}


def distance(first: Params, second: Params) -> Tensor:
    """||first - second|| over all parameters."""
    squares = [(first[name] - second[name]).double().square().sum() for name in first]
    return torch.stack(squares).sum().sqrt()


def gradient_and_variance(
    loss: Loss, theta: Params, client: Client, batch_size: int
) -> tuple[Tensor, Tensor]:
    """g, the gradient of the loss over all data, and sigma^2 = E ||g_b - g||^2 over batches b.

    Batches count by their size. In evaluation mode: dropout adds nothing to the variance.
    """
    net = client.task.net(theta)
    parameters = list(net.parameters())
    mean = torch.cat([torch.zeros_like(p).double().flatten() for p in parameters])
    square = torch.zeros_like(mean[0])
    whole = replace(client, work=1.0)  # also of a slow client
    for x, y in whole.batches(batch_size, stream="measure"):
        gradients = torch.autograd.grad(loss(net, x, y), parameters, materialize_grads=True)
        gradient = torch.cat([g.double().flatten() for g in gradients])
        mean += len(y) / len(client.y) * gradient
        square += len(y) / len(client.y) * gradient.square().sum()
    return mean, (square - mean.square().sum()).clamp(min=0)


def eta_bound(S: Tensor, sigma2: Tensor, L_1: Tensor, eps: Tensor, hp: FedCoSRHparams) -> Tensor:
    """What eta must be below in Corollary 1, where S = ||grad L||^2; 0 if it allows no eta."""
    quadratic = L_1 * (S + hp.epochs * sigma2)
    constant = L_1 * (eps.square() + eps) + 4 * hp.alpha / hp.temperature
    discriminant = S.square() - quadratic * constant
    if discriminant < 0 or quadratic == 0:
        return torch.zeros_like(S)
    return (S + discriminant.sqrt()) / quadratic
