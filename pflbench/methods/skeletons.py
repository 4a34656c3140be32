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

NETWORK = '''"""$title: what the network is, in a line."""

# This file is a whole network: as it is, it has two hidden layers and takes samples of any shape.
# Change what is between, then `pflbench check`.

import math

from torch import nn

# Which samples `pflbench check` tries it on; without SHAPES, usual ones are tried.
SHAPES = [(1, 28, 28), (30,)]


def build(shape: tuple[int, ...], classes: int, width: int) -> tuple[nn.Module, nn.Module]:
    """The body, which gives representations (samples, k), and the head, which gives logits.

    `shape` is that of a sample: (channels, height, width) of an image, (channels, length) of a
    series, (entries,) of features. For tokens, shape is (length,), and a parameter `vocabulary`
    says how many there are. `width` is what --width asks for as k.
    """
    body = nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), 2 * width),
        nn.ReLU(),
        nn.Linear(2 * width, width),
        nn.ReLU(),
    )
    head = nn.Linear(width, classes)
    return body, head
'''

DATASET = '''"""$title: what the data are, and where they come from, in a line."""

# This file is a whole data set: as it is, it makes up features of 12 people who do 3 things.
# Make `load` read your own, then `pflbench check`.

from pathlib import Path
from typing import Any

import numpy as np

TITLE = "$title"  # in tables
# The arrays are kept in the data folder, and made again when this file changes, or one of these:
FILES: list[str] = []  # files that `load` reads, as seen from this one: ["measured.csv"]


def load(root: Path) -> dict[str, Any]:
    """The arrays of all samples, training and test together; clients and tests are chosen later.

    `root` is the data folder of pflbench, a place for downloads. Nothing may be random but by a
    seed of its own, as here.
    """
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(12), 40)
    y = rng.integers(0, 3, len(person))
    # What every person adds to the features of a class: feature skew between clients.
    centre = rng.normal(size=(3, 20)) + 0.5 * rng.normal(size=(12, 1, 20))
    x = centre[person, y] + rng.normal(size=(len(y), 20))
    return {
        # The type says what samples are, the first axis counts them:
        #     uint8    images (height, width), with channels first or last; networks see [-1, 1]
        #     float32  features of any shape: (entries,), (channels, length), ...; standardized
        #     int64    rows of tokens (length,), 0 filling short ones up; --model text
        "x": x.astype(np.float32),
        # Labels 0, 1, 2, ... or texts, which are sorted and numbered.
        "y": np.array(["sit", "stand", "walk"])[y],
        # Optional: whose a sample is, a number or a text, for --partition natural or domains:K.
        "client": person,
    }
'''
