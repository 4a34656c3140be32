"""Ditto (Li et al., "Ditto: fair and robust federated learning through personalization", ICML
2021), Algorithm 1, with FedAvg for the global model.

Idea: a personal model next to FedAvg, pulled to the global one.
Paper: https://arxiv.org/abs/2012.04221
Code: https://github.com/litian96/ditto
Down: w. Up: u_i (w after local training), n. Private: v_i, the personal model.
Evaluated: v_i after training (post).
Deviations: both branches make passes over the data, not a few iterations: by default one each. Each
shuffles for itself (option `shared_batches`). Clients are weighted by samples, not equally.
"""

from dataclasses import dataclass, replace

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, local_sgd, proximal, weighted_mean


@dataclass(frozen=True)
class DittoHparams(Hparams):
    epochs: int = hparam(1, (0, 50), "passes of the global branch over the local data per round")
    personal_epochs: int = hparam(1, (0, 50), "passes of the personal branch")
    lam: float = hparam(
        1.0, (0.0, 10.0), "lambda, pull of the personal model to the global one; eta lam < 2"
    )
    shared_batches: bool = hparam(False, [False, True], "both branches see the same batches")


class Ditto(Algorithm):
    title = "Ditto"
    family = "Multi-task learning"
    evaluation_point = "post"
    hp: DittoHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def init_client(self) -> State:
        return {"v": self.task.initial}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        v = self.personal_branch(client, message["theta"])
        u = self.global_branch(client, message["theta"])
        reply = {"theta": u, "n": client.n}
        return reply, {"v": v}

    def global_branch(self, client: Client, w: Params) -> Params:
        """u <- u - eta grad CE(u; b), from u = w."""
        return local_sgd(cross_entropy_loss, w, client, self.hp)

    def personal_branch(self, client: Client, w: Params) -> Params:
        """v <- v - eta (grad CE(v; b) + lam (v - w)), w being the model received."""
        loss = proximal(cross_entropy_loss, w, self.hp.lam)
        hp = replace(self.hp, epochs=self.hp.personal_epochs)
        stream = "train" if self.hp.shared_batches else "personal"
        v = client.state["v"]
        return local_sgd(loss, v, client, hp, stream=stream, kept_as="personal")

    def aggregate(self, server: State, replies: Replies) -> State:
        """w <- sum_i p_i u_i."""
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.state["v"]

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """v_i of a new client after these passes of the personal branch."""
        alone = Ditto(replace(self.hp, personal_epochs=epochs), self.task)
        return alone.personal_branch(client, message["theta"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["v"]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}
