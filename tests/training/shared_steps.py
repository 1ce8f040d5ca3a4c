"""Twenty steps of trainings whose rows are shared out among the processes that torchrun starts.

    torchrun --nproc-per-node 2 shared_steps.py FOLDER

writes what every process found into FOLDER/rank-0.npz, FOLDER/rank-1.npz, …. The numbers are
float64, so that what is not the same mathematics cannot hide behind rounding.
"""

import json
import signal
import sys
from pathlib import Path

import numpy as np
import torch

import hotview as hv
from hotview import _processes as processes
from hotview._types import LazyRows
from hotview._validation import check_tables
from hotview.datasets import make_views
from hotview.estimators.fit import prepare
from hotview.estimators.randomness import member_states, seeded
from hotview.preprocessing.table_scan import scan_tables
from hotview.training.ddp import DDPTrainer
from hotview.training.loop import Schedule, train

N_STEPS = 20
LOOSE = make_views([50, 70, 60, 45], n_views=4, random_state=0)
PEOPLE = make_views(60, n_views=4, labeled=0.3, random_state=1)
SMALL = {"hidden": (16,), "encoder_dim": 6, "n_components": 4, "device": "cpu", "random_state": 5}


def encoder(**settings):
    """An encoder of rows without correspondence."""
    model = hv.MultiViewEncoder(**{"batch_size": 32, **SMALL, **settings})
    return lambda: start(model, LOOSE.views)


class Pairs(torch.nn.Module):
    """An encoder that no table without rows can go through."""

    def __init__(self, n_columns):
        super().__init__()
        self.map = torch.nn.Linear(n_columns, 6)

    def forward(self, X):
        """Features that a reshape has seen."""
        F = self.map(X)
        return F.reshape(len(X), 3, -1).flatten(1)


def few_rows():
    """Batches so small that a process often has no row of a view, if it has one of any."""
    torch.manual_seed(3)
    encoders = {name: Pairs(X.shape[1]) for name, X in list(LOOSE.views.items())[:2]}
    return encoder(batch_size=2, encoders=encoders)()


def classifier(**settings):
    """A classifier of some labeled, some linked and many other rows."""
    model = hv.MultiViewClassifier(batch_size=32, n_estimators=1, **SMALL, **settings)
    # Nobody is there twice: whose of two equal points comes first is a matter of rounding.
    return lambda: start(model, PEOPLE.linked, PEOPLE.linked_target, unaligned=LOOSE.views)


def start(model, *data, **more):
    """What an estimator would train, in float64, all of whose rows this process has seen."""
    p = seeded(model._parameters())
    with processes.use_processes():
        fit = prepare(model._data(p, *data, **more), p, member_states(p), 0.0)
    training = fit.members[0].training
    for module in training.modules:
        module.double()
    data = training.sampler.data
    for view in data.views:
        view.ready = view.ready.double()
    data.soft_labels[:] = [lesson.double() for lesson in data.soft_labels]
    data.coordinates[:] = [place.double() for place in data.coordinates]
    data.link_targets[:] = [target.double() for target in data.link_targets]
    return training


def linked():
    """An encoder of rows some of which are the same individuals in some views."""
    views = {name: X.copy() for name, X in PEOPLE.linked.items()}
    views["view_0"][::3], views["view_2"][1::4] = np.nan, np.nan
    model = hv.MultiViewEncoder(batch_size=32, **SMALL)
    return start(model, LOOSE.views, linked=views)


CASES = {
    "linked": linked,
    "reference": encoder(),
    "pairwise, manifold": encoder(coupling="hot-pairwise", view_regularizer="manifold"),
    "uncoupled": encoder(coupling="none"),
    "few rows": few_rows,
    "soft_labels, decoded": classifier(view_regularizer="autoencoder"),
    "labels, sums": classifier(
        pseudo_labels=False, class_weight="balanced", coupling=hv.HOTReferenceSpec(reduction="sum")
    ),
}


def take_steps(trainer):
    """Terms of every step, and all weights in the end."""
    steps = [trainer.step().terms for _ in range(N_STEPS)]
    weights = [p.detach().reshape(-1) for m in trainer.trainings[0].modules for p in m.parameters()]
    terms = [[part.detach() for part in step.parts.values()] for step in steps]
    return {"terms": torch.tensor(terms).numpy(), "weights": torch.cat(weights).numpy()}


class Lazy(LazyRows):
    """Rows that are there when they are asked for, two at a time."""

    def __init__(self, X):
        super().__init__(np.empty_like(X), np.append(np.arange(0, len(X), 2), len(X)))
        self.X = X

    def fill(self, block):
        rows = slice(*self._edges[block : block + 2])
        self._array[rows] = self.X[rows]


def scan():
    """What is seen in two tables with holes, of sizes that nobody can divide."""
    random = np.random.default_rng(0)
    tables = [random.normal(5, 2, size=(n, 3)) for n in (1, 7)]
    tables[1][2] = np.nan
    tables[1][4, 1] = np.nan
    statistics = []
    for views in (tables, [tables[0], Lazy(tables[1])]):
        for impute in ("mean", "median+indicator"):
            how = {"preprocessing": "standardize", "impute": impute}
            found = scan_tables("x", list(check_tables(views).values()), **how)
            statistics += [found.scaler.mean, found.scaler.scale, found.scaler.fill]
    return np.concatenate(statistics), found.present


def refuse():
    """What is said of an entry that only the last process sees."""
    X = np.ones((9, 2))
    X[8, 1] = np.inf
    how = {"preprocessing": "standardize", "impute": None}
    try:
        scan_tables("x", [check_tables([X])["view_0"]], **how)
    except ValueError as error:
        return str(error)


def stop_in_one():
    """How many steps every process takes when the last one hears Ctrl-C in the seventh."""
    training, n = CASES["reference"](), [0]
    draw = training.sampler.draw_indices

    def count():
        n[0] += 1
        if n[0] == 7 and processes.rank() == processes.world_size() - 1:
            signal.raise_signal(signal.SIGINT)
        return draw()

    training.sampler.draw_indices = count
    trainer = DDPTrainer(training, 0.003, "float32")
    train(trainer, Schedule(100, 10))
    return [n[0], len(training.history), training.interrupted]


def fail_in_first():
    """The error of the first process, in all of them."""

    def fail():
        raise FileNotFoundError("no such file")

    try:
        processes.on_rank_zero(fail)
    except FileNotFoundError as error:
        return str(error)


def main(folder):
    """Take all steps, and ask the other processes about this and that."""
    rank, found = processes.rank(), {}
    for name, make in CASES.items():
        trainer = DDPTrainer(make(), 0.003, "float32")
        found |= {f"{name}.{k}": x for k, x in take_steps(trainer).items()}
    found["scan"], present = scan()
    mixed = {"a": torch.arange(3) == 1, "b": torch.tensor(2.5), "c": torch.zeros(0, 4)}
    mixed["d"] = torch.tensor(7).expand(1)  # of stride 0
    wrong = {name: torch.zeros(()) for name in ("e", "f")}
    shared = processes.broadcast(mixed if rank == 0 else wrong)
    told = {
        "present": [None if rows is None else rows.tolist() for rows in present],
        "refused": refuse(),
        "steps": stop_in_one(),
        "error": fail_in_first(),
        "first": processes.on_rank_zero(lambda: {"größe": float("inf"), "rank": rank}),
        "collected": [x.tolist() for x in processes.all_gather_arrays(np.arange(rank * 2))],
        "shared": {name: [str(x.dtype), x.tolist()] for name, x in shared.items()},
    }
    np.savez(folder / f"rank-{rank}.npz", told=json.dumps(told), **found)


if __name__ == "__main__":
    with processes.use_processes(torch.device("cpu"), 1):
        main(Path(sys.argv[1]))
