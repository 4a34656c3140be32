"""FedAvg as most code for it is written, to compare with: clients one after another in eager PyTorch with all threads,
a DataLoader, samples in NCHW, ReLU before pooling, and after every round the accuracy on the training and test parts.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from pflbench.data.label_skew import Ints
from pflbench.simulation.client_worker import Setup


class SequentialFedAvg:
    """Whole rounds over all clients of a run."""

    def __init__(self, setup: Setup, batch: int = 16, lr: float = 0.01) -> None:
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
        self.batch = batch
        self.lr = lr
        self.train_parts = [self._dataset(setup, rows) for rows in setup.partition.train]
        self.test_parts = [self._dataset(setup, rows) for rows in setup.partition.test]

    def round(self) -> float:
        """Train every client, average, evaluate; one round done."""
        total = sum(len(part) for part in self.train_parts)
        average = {name: torch.zeros_like(p) for name, p in self.model.state_dict().items()}
        for part in self.train_parts:
            trained = self._trained(part)
            for name, p in trained.state_dict().items():
                average[name] += len(part) / total * p
        self.model.load_state_dict(average)
        for part in (*self.train_parts, *self.test_parts):
            self._accuracy(part)
        return 1.0

    def _trained(self, part: TensorDataset) -> nn.Module:
        model = copy.deepcopy(self.model)
        optimizer = torch.optim.SGD(model.parameters(), self.lr)
        for x, y in DataLoader(part, self.batch, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
        return model

    @torch.no_grad()
    def _accuracy(self, part: TensorDataset) -> float:
        right = 0
        for x, y in DataLoader(part, self.batch):
            right += int((self.model(x).argmax(1) == y).sum())
        return right / len(part)

    @staticmethod
    def _dataset(setup: Setup, rows: Ints) -> TensorDataset:
        x: Tensor = torch.from_numpy(setup.data.x[rows]).float() / 127.5 - 1.0
        return TensorDataset(x, torch.from_numpy(setup.data.y[rows]))
