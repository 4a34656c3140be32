"""`pflbench new`: the file of a new method, complete but for three lines."""

import contextlib
import keyword
from datetime import date
from pathlib import Path

from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.methods.files import plain

SKELETON = '''"""{title} (authors, "title of the paper", venue {year}), Algorithm 1.

Idea: what the method does, in a line.
Paper: its DOI or arXiv address
Code: the authors' repository
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model on every client's test data (pre).
Deviations: none.
"""

from dataclasses import dataclass

from torch import Tensor

from pflbench import ops
from pflbench.api import Algorithm, Client, Hparams, Message, Model, Net, Replies, State, hparam


@dataclass(frozen=True)
class {title}Hparams(Hparams):
    # hparam(default, (low, high) or [choices], "meaning"); batch_size, epochs, ... are inherited
    lr: float = hparam(0.01, (1e-4, 1.0), "eta, learning rate of local training")


class {title}(Algorithm):
    title = "{title}"
    family = "the technique in two words"
    evaluation_point = "pre"  # "post": the paper reports models right after local training
    hp: {title}Hparams

    def costs(self) -> tuple[str, str]:
        """Numbers sent to and by a client per round; phi and pi are the body and the head."""
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """Local training of a client: its reply, and the private state that it keeps."""

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            # FILL IN 1 of 3, the loss of a batch; FedAvg: return ops.cross_entropy(net(x), y)
            raise TypeError("fill in line 1 of 3 in {file}: the loss of a batch")

        theta = ops.local_sgd(loss, message["theta"], client, self.hp)
        reply = {{"theta": theta, "n": client.n}}
        return reply, {{}}

    def aggregate(self, server: State, replies: Replies) -> State:
        """The server's new state, from the replies by client id."""
        # FILL IN 2 of 3; FedAvg: return {{"theta": ops.weighted_mean(replies, "theta")}}
        raise TypeError("fill in line 2 of 3 in {file}: the new server state")

    def personal_model(self, client: Client, message: Message) -> Model:
        """The model evaluated at `pre`: from the private state and the newest message."""
        # FILL IN 3 of 3; FedAvg: return message["theta"]
        raise TypeError("fill in line 3 of 3 in {file}: the model that is evaluated")

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        """The model evaluated at `post`: right after `client_update`."""
        return reply["theta"]
'''


def new(name: str, folder: Path | None = None) -> Path:
    """Write the skeleton of a method and return its path."""
    if (
        not name.isidentifier()
        or not name.isascii()
        or keyword.iskeyword(name.lower())
        or name.startswith("_")
    ):
        raise UserError(
            f"{name!r} cannot name a method: use letters, digits and underscores, as in my_method"
        )
    taken = {plain(known): known for known in registry.names()}
    if plain(name) in taken:
        raise UserError(f"the name {name!r} is taken by the method {taken[plain(name)]!r}")
    if folder is None:
        folder = Path("algorithms") if is_checkout(Path()) else Path()
    path = folder / f"{name.lower()}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(
                SKELETON.format(title=class_name(name), file=path.name, year=date.today().year)
            )
    except FileExistsError as error:
        there = path if path.exists() else folder
        raise UserError(f"{there} is there already and is not overwritten") from error
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()  # an empty file, of a full disk
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    return path


def is_checkout(folder: Path) -> bool:
    """Whether a folder is the top of a checkout of pflbench, where methods are in `algorithms/`."""
    return all(
        (folder / name).exists() for name in ("pflbench/api.py", "algorithms", "pyproject.toml")
    )


def class_name(name: str) -> str:
    """FedALA as it is; my_method as MyMethod."""
    return name if name != name.lower() else "".join(word.capitalize() for word in name.split("_"))
