"""Ditto (Li et al., "Ditto: fair and robust federated learning through personalization", ICML 2021), Algorithm 1,
with FedAvg for the global model.

Down: w. Up: u_i (w after local training), n. Private: v_i, the personal model. Evaluated: v_i after training (post).
Deviations: both branches make passes over the data, not a few iterations, and each shuffles for itself (option
`shared_batches`); clients weigh by samples, not equally. The FedCoSR paper's r = 2 is read as one pass for each branch.
"""

from dataclasses import dataclass, replace

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, local_sgd, proximal, weighted_mean


@dataclass(frozen=True)
class DittoHparams(Hparams):
    epochs: int = hparam(1, (0, 50), "passes of the global branch over the local data in a round")
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
        return {"theta": u, "n": client.n}, {"v": v}

    def global_branch(self, client: Client, w: Params) -> Params:
        return local_sgd(cross_entropy_loss, w, client, self.hp)

    def personal_branch(
        self, client: Client, w: Params
    ) -> Params:  # v <- v - eta (grad CE(v; b) + lam (v - w))
        loss = proximal(cross_entropy_loss, w, self.hp.lam)  # w as received
        hp = replace(self.hp, epochs=self.hp.personal_epochs)
        stream = "train" if self.hp.shared_batches else "personal"
        return local_sgd(loss, client.state["v"], client, hp, stream=stream)

    def aggregate(self, server: State, replies: Replies) -> State:  # w <- sum_i p_i u_i
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.state["v"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["v"]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}
