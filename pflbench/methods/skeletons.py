"""What `pflbench new` writes: files that work as they are and say what to change."""

METHOD = '''"""$title (authors, "title of the paper", venue $year), Algorithm 1.

Idea: what the method does, in a line.
Paper: its DOI or arXiv address
Code: the authors' repository
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model on every client's test data (pre).
Deviations: none.
"""

# This file is a whole method: as it is, it does what FedAvg does. Change what your method does
# differently, and the lines above, which `pflbench algorithms show` prints; then `pflbench check`.
# theta, phi and pi are the parameters of the network, of its body and of its head, by name.

from dataclasses import dataclass

from torch import Tensor

from pflbench import ops
from pflbench.api import Algorithm, Client, Hparams, Message, Model, Net, Replies, State, hparam


@dataclass(frozen=True)
class ${title}Hparams(Hparams):
    # A hyperparameter has its default, its range (low, high) or [choices], and its meaning, as
    #     mu: float = hparam(0.1, (0.0, 10.0), "pull of the local model to the global one")
    # In the code it is self.hp.mu, on the command line --set mu=0.5. Those that all methods have
    # (epochs, batch_size, optimizer, ...) are inherited.
    lr: float = hparam(0.01, (1e-4, 1.0), "eta, learning rate of local training")


class $title(Algorithm):
    title = "$title"  # in tables
    family = "the technique in two words"
    evaluation_point = "pre"  # "post": the paper reports models right after local training
    hp: ${title}Hparams

    def costs(self) -> tuple[str, str]:
        """Numbers sent to and by a client per round, which are compared with what is measured."""
        return "theta", "theta + 1"

    def init_server(self) -> State:
        """The server's state before the first round; all of it is sent, or what `download` says."""
        return {"theta": self.task.initial}

    def init_client(self) -> State:
        """A client's private state before its first round, as {"pi": ops.pi(self.task.initial)}."""
        return {}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """A client's work in a round: what it sends, and the private state that it keeps."""
        theta = ops.local_sgd(self.loss, message["theta"], client, self.hp)
        reply = {"theta": theta, "n": client.n}  # all that is sent is counted; leaves are tensors
        return reply, {}

    def loss(self, net: Net, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch; net.body(x) are the representations, net(x) the logits."""
        return ops.cross_entropy(net(x), y)

    def aggregate(self, server: State, replies: Replies) -> State:
        """The server's new state, from the replies by client id: here their mean by samples."""
        return {"theta": ops.weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        """What is evaluated at `pre`, before local training, from message and client.state."""
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        """What is evaluated at `post`, right after `client_update`; client.state is the new one."""
        return reply["theta"]
'''
