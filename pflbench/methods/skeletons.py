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
