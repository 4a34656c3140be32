"""FedAvg as other libraries write it, to compare with: NCHW, ReLU before pooling, `torch.optim.SGD`, batches from a
`DataLoader` or from tensors in memory; clients one after another with all threads, or in processes of one thread each.
All do the work of a round of the harness: every client's test part before and after its training.
"""

import copy
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from pflbench.data.label_skew import Ints
from pflbench.simulation import fork_server
from pflbench.simulation.client_worker import Setup

from .problem import THREADS

Weights = dict[str, Tensor]
BATCH = 16
LR = 0.01


class PeerClient:
    """One client after another: a round of training, and evaluation."""

    def __init__(self, setup: Setup, loader: bool) -> None:
        channels, side, _ = setup.data.shape
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv2d(channels, 32, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (((side - 4) // 2 - 4) // 2) ** 2, 128),
            nn.ReLU(),
            nn.Linear(128, setup.data.classes),
        )
        self.loader = loader
        self.train = [_dataset(setup, rows) for rows in setup.partition.train]
        self.test = [_dataset(setup, rows) for rows in setup.partition.test]

    def trained(self, weights: Weights, client: int) -> Weights:
        """The model after a pass over the client's samples, evaluated at the end."""
        model = copy.deepcopy(self.model)
        model.load_state_dict(weights)
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), LR)
        for x, y in self._batches(self.train[client], BATCH, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
        self._evaluate(model, client)
        return model.state_dict()

    def evaluated(self, weights: Weights, client: int) -> int:
        """Correct samples of a global model."""
        self.model.load_state_dict(weights)
        return self._evaluate(self.model, client)

    @torch.no_grad()
    def _evaluate(self, model: nn.Module, client: int) -> int:
        model.eval()
        batches = self._batches(self.test[client], 10 * BATCH, shuffle=False)
        return sum(int((model(x).argmax(1) == y).sum()) for x, y in batches)

    def _batches(self, part: TensorDataset, size: int, shuffle: bool) -> Any:
        if self.loader:
            return DataLoader(part, size, shuffle=shuffle)
        x, y = part.tensors
        order = torch.randperm(len(y)) if shuffle else torch.arange(len(y))
        return [(x[rows], y[rows]) for rows in order.split(size)]


class OneProcess:
    """All clients in this process, with all threads of torch."""

    def __init__(self, setup: Setup, loader: bool) -> None:
        self.client = PeerClient(setup, loader)
        self.weights: Weights = dict(self.client.model.state_dict())

    def round(self) -> float:
        """Evaluate, train and average; one round done."""
        torch.set_num_threads(THREADS)
        ids = range(len(self.client.train))
        for id in ids:
            self.client.evaluated(self.weights, id)
        trained = {id: self.client.trained(self.weights, id) for id in ids}
        sizes = {id: len(self.client.train[id]) for id in ids}
        self.weights = _average(trained, sizes)
        return 1.0


class TwoProcesses:
    """Clients in two processes of one thread each; the model is sent along with every job."""

    def __init__(self, setup: Setup, loader: bool) -> None:
        client = PeerClient(setup, loader)
        self.sizes = {id: len(part) for id, part in enumerate(client.train)}
        self.weights: Weights = dict(client.model.state_dict())
        context = fork_server.context()
        self.pipes, self.processes = [], []
        for _ in range(2):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, setup, loader), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def round(self) -> float:
        """Evaluate, train and average; one round done."""
        self._call("evaluated")
        self.weights = _average(self._call("trained"), self.sizes)
        return 1.0

    def _call(self, function: str) -> dict[int, Any]:
        """Every client once; the next one goes to the process that is free."""
        waiting = sorted(self.sizes, key=self.sizes.__getitem__)
        found: dict[int, Any] = {}
        busy: dict[Connection, int] = {}
        free = list(self.pipes)
        while waiting or busy:
            while free and waiting:
                pipe = free.pop()
                busy[pipe] = waiting.pop()
                pipe.send((function, _plain(self.weights), busy[pipe]))
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                found[busy.pop(ready)] = ready.recv()
                free.append(ready)
        return {id: _tensors(answer) for id, answer in found.items()}

    def close(self) -> None:
        """Stop the processes."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.kill()
            process.join()


def _serve(pipe: Connection, setup: Setup, loader: bool) -> None:
    torch.set_num_threads(1)
    client = PeerClient(setup, loader)
    while True:
        try:
            function, weights, id = pipe.recv()
        except EOFError:
            return
        answer = getattr(client, function)(_tensors(weights), id)
        pipe.send(_plain(answer) if isinstance(answer, dict) else answer)


def _plain(weights: Weights) -> dict[str, Any]:
    """Arrays: torch would send each tensor as a file of shared memory."""
    return {name: p.numpy() for name, p in weights.items()}


def _tensors(answer: Any) -> Any:
    if not isinstance(answer, dict):
        return answer
    return {name: torch.from_numpy(p) for name, p in answer.items()}


def _average(trained: dict[int, Weights], sizes: dict[int, int]) -> Weights:
    total = sum(sizes.values())
    average = {name: torch.zeros_like(p) for name, p in trained[0].items()}
    for id, weights in trained.items():
        for name, p in weights.items():
            average[name] += sizes[id] / total * p
    return average


def _dataset(setup: Setup, rows: Ints) -> TensorDataset:
    x: Tensor = torch.from_numpy(setup.data.x[rows]).float() / 127.5 - 1.0
    return TensorDataset(x, torch.from_numpy(setup.data.y[rows]))
