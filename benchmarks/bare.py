"""The least that training needs: one network, batches from a tensor in memory, a step. No server, no copies."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pflbench.api import LARGE
from pflbench.data.label_skew import Ints
from pflbench.simulation.client_worker import Setup


class BareLoop:
    """One pass over the samples of every client of a run with the harness's network and batches of 16."""

    def __init__(self, setup: Setup, batch: int = 16, lr: float = 0.01) -> None:
        algorithm = setup.algorithm()
        self.net = algorithm.net(algorithm.task.initial).train()
        self.batch = batch
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr)
        self.inputs = algorithm.task.inputs
        self.data = [self._part(setup, rows) for rows in setup.partition.train]
        self.test = [self._part(setup, rows) for rows in setup.partition.test]

    def train(self) -> float:
        """One pass; the number of samples."""
        for x, y in self.data:
            for rows in torch.randperm(len(y)).split(self.batch):
                self.optimizer.zero_grad()
                cross_entropy(self.net(x[rows]), y[rows]).backward()
                self.optimizer.step()
        return float(sum(len(y) for _, y in self.data))

    def round(self) -> float:
        """The steps and the evaluation of a round: every client's test part twice; one round done."""
        torch.set_num_threads(1)
        self.train()
        self._evaluate()
        self._evaluate()
        return 1.0

    @torch.no_grad()
    def _evaluate(self) -> None:
        for x, y in self.test:
            for rows in torch.arange(len(y)).split(LARGE):
                (self.net(x[rows]).argmax(1) == y[rows]).sum()

    def _part(self, setup: Setup, rows: Ints) -> tuple[Tensor, Tensor]:
        x, y = setup.data.x[rows], setup.data.y[rows]
        return self.inputs(torch.from_numpy(x)), torch.from_numpy(y)
