"""What `pflbench new` writes: files that work as they are and say what to change."""

METHOD = '''"""$title (authors, "title of the paper", venue $year), Algorithm 1.

Idea: what the method does, in a line.
Paper: its DOI or arXiv address
Code: the authors' repository
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model on every client's test data (pre).
Deviations: none.
"""

# This file is a complete method: as it stands, it is FedAvg. Read it from `client_update` down,
# change what your method does differently, then run
#     pflbench check FILE     tests that it follows the contract
#     pflbench run FILE       runs it once, on the embedded digits data
# `pflbench algorithms show` prints the lines above; fill them in for others.
#
# Names: theta holds all parameters of the network, phi those of its body and pi those of its head,
# each as a dict of tensors. ops.phi(theta), ops.pi(theta) and ops.join(phi, pi) convert.
# Client functions are pure: nothing is stored on self, no argument is changed in place.

from dataclasses import dataclass

from torch import Tensor

from pflbench import ops
from pflbench.api import Algorithm, Client, Hparams, Message, Model, Net, Replies, State, hparam


@dataclass(frozen=True)
class ${title}Hparams(Hparams):
    # A hyperparameter has a default, a range (low, high) or [choices], and a meaning, e.g.
    #     mu: float = hparam(0.1, (0.0, 10.0), "pull of the local model to the global one")
    # It is self.hp.mu in the code, --set mu=0.5 on the command line, and `pflbench tune` searches
    # the range. Those that all methods have (epochs, batch_size, optimizer, ...) are inherited.
    lr: float = hparam(0.01, (1e-4, 1.0), "eta, learning rate of local training")


class $title(Algorithm):
    title = "$title"  # in tables
    family = "the technique in two words"
    evaluation_point = "pre"  # "post" if the paper evaluates right after local training
    hp: ${title}Hparams

    def costs(self) -> tuple[str, str]:
        """How many numbers a client receives and sends per round; `check` compares what is sent."""
        return "theta", "theta + 1"

    def init_server(self) -> State:
        """The state of the server before the first round. By default all of it is sent to clients;
        override `download` to send something else.
        """
        return {"theta": self.task.initial}

    def init_client(self) -> State:
        """The private state of a client before its first round, e.g. its own head:
        {"pi": ops.pi(self.task.initial)}.
        """
        return {}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """A client in a round: from the message and client.state to the reply, which is sent, and
        the new private state, which stays on the client.
        """
        theta = ops.local_sgd(self.loss, message["theta"], client, self.hp)
        reply = {"theta": theta, "n": client.n}  # everything in it is counted; leaves are tensors
        return reply, {}

    def loss(self, net: Net, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch. net(x) are the logits, net.body(x) the representations."""
        return ops.cross_entropy(net(x), y)

    def aggregate(self, server: State, replies: Replies) -> State:
        """The new state of the server, from the replies by client id; here their mean, weighted by
        the number of samples n.
        """
        return {"theta": ops.weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        """The model that a client uses, from the newest message and client.state: evaluated at
        `pre`, before local training.
        """
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        """The model right after `client_update`, evaluated at `post`; client.state is the new one."""
        return reply["theta"]
'''
