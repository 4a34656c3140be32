"""FedRep (Collins et al., "Exploiting shared representations for personalized federated learning",
ICML 2021), Algorithm 1.

Idea: a shared body; each client first fits its own head, then the body.
Paper: https://arxiv.org/abs/2102.07078
Code: https://github.com/lgcollins/FedRep
Down: phi. Up: phi, n. Private: pi_i.
Evaluated: the new global body with the client's own head (pre).
Deviations: bodies are weighted by n_i, in the box equally. Both phases are passes over the data: by
default 4 for the head and 1 for the body, the authors' default. The authors' code fits the heads
once more after the last round; here that is an option (`final_head_epochs`).
"""

from dataclasses import dataclass, replace

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import (
    cross_entropy_loss,
    head_sgd,
    join,
    local_sgd,
    phi,
    pi,
    representations,
    weighted_mean,
)


@dataclass(frozen=True)
class FedRepHparams(Hparams):
    head_epochs: int = hparam(
        4, (0, 50), "passes over the local data for the head, first, the body being frozen"
    )
    epochs: int = hparam(
        1, (0, 50), "passes over the local data for the body, then, the new head being frozen"
    )
    final_head_epochs: int = hparam(
        0, (0, 50), "passes that fit a copy of the head to the newest body for evaluation"
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
        theta = join(message["phi"], client.state["pi"])
        theta = self.fit_head(theta, client, self.hp.head_epochs, "head")
        theta = self.fit_body(theta, client)
        reply = {"phi": phi(theta), "n": client.n}
        return reply, {"pi": pi(theta)}

    def fit_head(self, theta: Params, client: Client, epochs: int, stream: str) -> Params:
        """pi_i <- pi_i - eta grad_pi CE(phi, pi_i); phi is fixed, so z is computed once."""
        if not epochs or not len(client.y):
            return theta
        z = representations(theta, client)
        hp = replace(self.hp, epochs=epochs)
        return head_sgd(theta, z, client, hp, stream=stream)

    def fit_body(self, theta: Params, client: Client) -> Params:
        """phi_i <- phi_i - eta grad_phi CE(phi_i, pi_i), with the new head."""
        return local_sgd(cross_entropy_loss, theta, client, self.hp, part="body", stream="base")

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"phi": weighted_mean(replies, "phi")}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = join(message["phi"], client.state["pi"])
        return self.fit_head(theta, client, self.hp.final_head_epochs, "adapt")

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """A new client fits a head to the body that it is sent, as in the paper."""
        theta = join(message["phi"], client.state["pi"])
        return self.fit_head(theta, client, epochs, "head")

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return join(reply["phi"], client.state["pi"])
