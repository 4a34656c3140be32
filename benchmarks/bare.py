"""The least that training needs: one network, batches from a tensor in memory, a step. No server, no copies."""

import torch
from torch.nn.functional import cross_entropy

from pflbench.simulation.client_worker import Setup


class BareLoop:
    """One pass over the samples of every client of a run with the harness's network and batches of 16."""

    def __init__(self, setup: Setup, batch: int = 16, lr: float = 0.01) -> None:
        algorithm = setup.algorithm()
        self.net = algorithm.net(algorithm.task.initial).train()
        self.batch = batch
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr)
        self.data = [
            (
                algorithm.task.pixels(torch.from_numpy(setup.data.x[rows])),
                torch.from_numpy(setup.data.y[rows]),
            )
            for rows in setup.partition.train
        ]

    def train(self) -> float:
        """One pass; the number of samples."""
        for x, y in self.data:
            for rows in torch.randperm(len(y)).split(self.batch):
                self.optimizer.zero_grad()
                cross_entropy(self.net(x[rows]), y[rows]).backward()
                self.optimizer.step()
        return float(sum(len(y) for _, y in self.data))
