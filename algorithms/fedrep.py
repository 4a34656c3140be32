"""FedRep (Collins et al., "Exploiting shared representations for personalized federated learning", ICML 2021),
Algorithm 1.

Down: phi. Up: phi, n. Private: pi_i. Evaluated: the new global base with the client's own head (pre).
Deviations: bases are weighed by n_i, in the box equally; both phases are passes over the data. The FedCoSR paper's
r = 5 is read as 4 passes for the head and 1 for the base; its regularization factor lambda = 1 has no place in the
method and is left out. The authors' code tunes the heads once more after the last round; here that is an option.
"""

from dataclasses import dataclass, replace

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import (
    cross_entropy_loss,
    head_sgd,
    local_sgd,
    phi,
    pi,
    representations,
    weighted_mean,
)


@dataclass(frozen=True)
class FedRepHparams(Hparams):
    head_epochs: int = hparam(
        4, (0, 50), "passes over the local data for the head, first, the base being frozen"
    )
    epochs: int = hparam(
        1, (0, 50), "passes over the local data for the base, then, the new head being frozen"
    )
    final_head_epochs: int = hparam(
        0, (0, 50), "passes that fit a copy of the head to the newest base for scoring"
    )


class FedRep(Algorithm):
    title = "FedRep"
    family = "Model splitting"
    hp: FedRepHparams

    def costs(self) -> tuple[str, str]:
        return "phi", "phi + 1"

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial)}

    def init_client(self) -> State:
        return {"pi": pi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = {**message["phi"], **client.state["pi"]}
        theta = self.fit_head(
            theta, client, self.hp.head_epochs, "head"
        )  # pi_i <- pi_i - eta grad_pi CE(phi, pi_i)
        # phi_i <- phi_i - eta grad_phi CE(phi_i, pi_i)
        theta = local_sgd(cross_entropy_loss, theta, client, self.hp, part="body", stream="base")
        return {"phi": phi(theta), "n": client.n}, {"pi": pi(theta)}

    def fit_head(self, theta: Params, client: Client, epochs: int, stream: str) -> Params:
        """Passes over the head; the base stays as it is, so that z = phi(x) is computed once."""
        if not epochs or not len(client.y):
            return theta
        return head_sgd(
            theta,
            representations(theta, client),
            client,
            replace(self.hp, epochs=epochs),
            stream=stream,
        )

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"phi": weighted_mean(replies, "phi")}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = {**message["phi"], **client.state["pi"]}
        return self.fit_head(theta, client, self.hp.final_head_epochs, "adapt")

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return {**reply["phi"], **client.state["pi"]}
