"""StateOnSelf (nobody, 2000): FedPer whose clients' heads stay on the object.

Down: phi. Up: phi, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, Task
from pflbench.ops import cross_entropy_loss, local_sgd, phi, pi, weighted_mean


class StateOnSelf(Algorithm):
    title = "StateOnSelf"
    family = "Model splitting"

    def costs(self) -> tuple[str, str]:
        return "phi", "phi + 1"

    def __init__(self, hp: Hparams, task: Task) -> None:
        super().__init__(hp, task)
        self.heads: dict[int, Params] = {}

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, self.personal_model(client, message), client, self.hp)
        self.heads[client.id] = pi(theta)
        return {"phi": phi(theta), "n": client.n}, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"phi": weighted_mean(replies, "phi")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return {**message["phi"], **self.heads.get(client.id, pi(self.task.initial))}
