"""StateOnSelf (nobody, 2000): FedPer whose clients' heads stay on the object.

Down: phi. Up: phi, n. Private: nothing. Scored: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, Task, Taxonomy
from pflbench.ops import cross_entropy_loss, local_sgd, phi, pi, weighted_mean


class StateOnSelf(Algorithm):
    title = "StateOnSelf"
    taxonomy = Taxonomy("PFL", "Model splitting")
    down, up = "phi", "phi + 1"

    def __init__(self, hp: Hparams, task: Task) -> None:
        super().__init__(hp, task)
        self.heads: dict[int, Params] = {}

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial)}

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, self.personal(client, message), client, self.hp)
        self.heads[client.id] = pi(theta)
        return {"phi": phi(theta), "n": client.n}, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"phi": weighted_mean(replies, "phi")}

    def personal(self, client: Client, message: Message) -> Model:
        return {**message["phi"], **self.heads.get(client.id, pi(self.task.initial))}
