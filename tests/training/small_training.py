"""A training of three small views, and tables as rows that trainings read."""

import numpy as np
import torch

from hotview._types import LazyRows
from hotview._validation import ViewTable
from hotview.losses import DGCCA, HOTPairwise, HOTReference, NoCoupling, SWPairwise
from hotview.losses.objective import Objective
from hotview.losses.specifications import REGULARIZERS
from hotview.nn.multiview import Widths, make_network
from hotview.preprocessing.column_scaler import ColumnScaler
from hotview.preprocessing.rows import ViewRows
from hotview.training.batches import Sampler, TrainingRows

COLUMNS, N, NAMES = (4, 3, 5), 40, ("a", "b", "c")
COUPLINGS = {
    "none": NoCoupling,
    "dgcca": DGCCA,
    "sw-pairwise": SWPairwise,
    "hot-pairwise": HOTPairwise,
    "hot-reference": lambda: HOTReference(2, 2, n_points=20),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def as_rows(X, mean=0.0, scale=1.0, *, table=ViewTable, device="cpu", **options):
    """The rows of one table, all columns of which are scaled alike."""
    D = X.shape[1]
    scaler = ColumnScaler(np.full(D, mean), np.full(D, scale), None)
    return ViewRows([table(X)], scaler, torch.device(device), **options)


class Lazy(LazyRows):
    """Rows that are there when they are asked for, a block of some at a time."""

    def __init__(self, X, size=5):
        super().__init__(np.zeros_like(X), np.append(np.arange(0, len(X), size), len(X)))
        self.X = X

    def fill(self, block):
        rows = slice(*self._edges[block : block + 2])
        self._array[rows] = self.X[rows]


def make_data():
    random = np.random.default_rng(0)
    views = [as_rows(random.normal(size=(N, D)).astype(np.float32)) for D in COLUMNS]
    return TrainingRows(views, np.stack([np.arange(N)] * 3, axis=1), np.arange(N) % 2)


def make_network_of_views(n_classes=2):
    widths = Widths(COLUMNS, [(6,)] * 3, 5, 2, n_classes, False)
    return make_network(widths, seeded(), [None] * 3, NAMES)


def make_objective(coupling="hot-reference", weight=1.0, **options):
    torch.manual_seed(0)
    options = {"coupling_weight": weight, "regularizer_weight": 0.0} | options
    return Objective(COUPLINGS[coupling](), REGULARIZERS["none"]().build(), **options)


def make_sampler(data=None, batch_size=20, seed=1, **options):
    options = {"couples": True, "aligned": True} | options
    return Sampler(data or make_data(), batch_size, np.random.default_rng(seed), **options)


def weights_of(*modules):
    return [p.detach().clone() for module in modules for p in module.parameters()]
