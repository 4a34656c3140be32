"""ParallelLists (nobody, 2000): a server that remembers heads by their place in the cohort.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Message, Model, Replies, State
from pflbench.ops import cross_entropy_loss, local_sgd, phi, pi, weighted_mean


class ParallelLists(Algorithm):
    title = "ParallelLists"
    family = "Model splitting"

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial), "heads": {}}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        heads = [server["heads"].get(place, pi(self.task.initial)) for place in range(len(ids))]
        return {
            id: {"theta": {**server["phi"], **head}} for id, head in zip(ids, heads, strict=True)
        }

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        return {
            "theta": local_sgd(cross_entropy_loss, message["theta"], client, self.hp),
            "n": client.n,
        }, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        heads = [pi(reply["theta"]) for reply in replies.values()]
        return {"phi": phi(weighted_mean(replies, "theta")), "heads": dict(enumerate(heads))}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]
