"""Deep generalized CCA: hotview's ``"dgcca"`` against cca-zoo's ``DGCCA`` under Lightning.

    python benchmarks/against_cca_zoo.py [--device cuda] [--quick] [--out FILE]

About 4 minutes, ``--quick`` half a minute; needs the extra "bench". All contestants get the same
standardized aligned rows, encoders of the same layers (D → 128 → 20 → 10), Adam with the same
learning rate, batches of 400 and the same number of epochs, and begin at random weights. The clock
runs from arrays to trained encoders. Contestants take turns, every turn has a seed of its own, the
best turn counts for time and the mean over turns for quality.

cca-zoo is run as its documentation does (``MultiviewDataset`` in a ``DataLoader``, a ``Trainer``
without logger, bars, checkpoints and summary), and once more with batches cut whole from the
tensors by a ``BatchSampler``, the fastest that its parts allow. The two losses differ: cca-zoo
whitens every view and adds the largest eigenvalues of an n × n matrix, whose decomposition costs
O(n³) for a batch of n; hotview's G, by the same Procrustes problem as the paper's equation (2),
costs O(n d²). So quality stands beside time: on held-out rows, the canonical correlations between
views (linear CCA of training latents, as cca-zoo advises; their sum over 10 components, mean over
pairs of views), and the accuracy of logistic regression on the latents of all views.

The floor is a bare loop with the same encoders, batches and Adam steps and a loss that costs
nothing: per step 6 · n · (weights of the encoders) operations, 0.24 · 10⁹ for Handwritten.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from cca_zoo.deep import DGCCA, MultiviewDataset
from measuring import RESULTS, best_times, write_part
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from hotview import DGCCASpec, MultiViewEncoder
from hotview.datasets import load_handwritten, make_views

HIDDEN, N_FEATURES, N_COMPONENTS = 128, 20, 10
BATCH_SIZE, LEARNING_RATE = 400, 1e-3
ROUNDS = 5
OURS, DOCUMENTED, SLICED, FLOOR = (
    "hotview",
    "cca-zoo, as documented",
    "cca-zoo, batches cut whole",
    "encoders alone",
)
TARGET = 2.0


@dataclass(frozen=True)
class Case:
    """Aligned rows to train on and to evaluate on, and for how long to train."""

    name: str
    train: list[Any]
    test: list[Any]
    y: tuple[Any, Any]
    epochs: int

    @property
    def n_steps(self) -> int:
        """Steps of the whole training."""
        return self.epochs * (len(self.train[0]) // BATCH_SIZE)


@dataclass
class Contestant:
    """Train with a seed, keep what encodes; every call has the next seed."""

    train: Callable[[int], Callable[[list[Any]], list[Any]]]
    trained: list[Callable[[list[Any]], list[Any]]] = field(default_factory=list)

    def __call__(self) -> None:
        """Train once more."""
        self.trained.append(self.train(len(self.trained)))


def handwritten(epochs: int) -> Case:
    digits = load_handwritten()
    return make_case("Handwritten, 6 views", list(digits.views.values()), digits.target, epochs)


def synthetic(epochs: int) -> Case:
    data = make_views(
        20_000, n_views=3, n_groups=1, n_latent=10, n_columns=100, nonlinear=True, random_state=0
    )
    orders = {name: np.argsort(who) for name, who in data.individuals.items()}  # aligned again
    views = [X[orders[name]] for name, X in data.views.items()]
    y = data.target["view_0"][orders["view_0"]]
    return make_case("synthetic, 20,000 × 3 views × 100", views, y, epochs)


def make_case(name: str, views: list[Any], y: Any, epochs: int) -> Case:
    """Four fifths of the rows to train on, columns standardized over these."""
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 5])
    scalers = [StandardScaler().fit(X[train].astype(np.float64)) for X in views]
    tables = [
        [
            scale.transform(X[rows]).astype(np.float32)
            for scale, X in zip(scalers, views, strict=True)
        ]
        for rows in (train, test)
    ]
    return Case(name, tables[0], tables[1], (y[train], y[test]), epochs)


def make_encoders(case: Case, seed: int) -> list[nn.Module]:
    torch.manual_seed(seed)
    return [
        nn.Sequential(
            nn.Linear(X.shape[1], HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, N_FEATURES),
            nn.Linear(N_FEATURES, N_COMPONENTS, bias=False),
        )
        for X in case.train
    ]


def encode(encoders: Sequence[nn.Module], Xs: list[Any]) -> list[Any]:
    with torch.no_grad():
        return [f.cpu()(torch.as_tensor(X)).numpy() for f, X in zip(encoders, Xs, strict=True)]


def train_ours(case: Case, device: str, seed: int) -> Callable[[list[Any]], list[Any]]:
    model = MultiViewEncoder(
        DGCCASpec(1.0),
        "none",
        hidden=(HIDDEN,),
        encoder_dim=N_FEATURES,
        n_components=N_COMPONENTS,
        initialization="random",
        preprocessing="none",
        max_epochs=case.epochs,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        device=device,
        random_state=seed,
        verbose=False,
    ).fit(case.train, paired=True)
    return lambda Xs: [np.asarray(Z) for Z in model.transform(Xs, space="common")]


def train_cca_zoo(
    case: Case, device: str, whole: bool, seed: int
) -> Callable[[list[Any]], list[Any]]:
    encoders = make_encoders(case, seed)
    rows = MultiviewDataset(case.train)
    if whole:
        batches = BatchSampler(RandomSampler(rows), BATCH_SIZE, drop_last=False)
        loader = DataLoader(rows, sampler=batches, batch_size=None)
    else:
        loader = DataLoader(rows, batch_size=BATCH_SIZE, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=case.epochs,
        accelerator="gpu" if device == "cuda" else "cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    trainer.fit(DGCCA(N_COMPONENTS, encoders, learning_rate=LEARNING_RATE), loader)
    return lambda Xs: encode(encoders, Xs)


def train_floor(case: Case, device: str, seed: int) -> Callable[[list[Any]], list[Any]]:
    """The loop of both without what is theirs: loading, losses, records."""
    encoders = [f.to(device) for f in make_encoders(case, seed)]
    Xs = [torch.as_tensor(X, device=device) for X in case.train]
    weights = nn.ModuleList(encoders).parameters()
    optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE, fused=True)
    for _ in range(case.epochs):
        for rows in torch.randperm(len(Xs[0]), device=device).split(BATCH_SIZE):
            Zs = [f(X[rows]) for f, X in zip(encoders, Xs, strict=True)]
            optimizer.zero_grad()
            torch.stack(Zs).sum().backward()
            optimizer.step()
    return lambda Xs: encode(encoders, Xs)


def canonical_correlation(train: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """Sum of the correlations, on test rows, of the canonical variates of the training rows."""
    means = [Z.mean(0) for Z in train]
    whiteners = [whitener(Z - mean) for Z, mean in zip(train, means, strict=True)]
    A, B = ((Z - m) @ T for Z, m, T in zip(train, means, whiteners, strict=True))
    U, _, Vt = np.linalg.svd(A.T @ B)
    A, B = ((Z - m) @ T for Z, m, T in zip(test, means, whiteners, strict=True))
    A, B = A @ U, B @ Vt.T
    A, B = A - A.mean(0), B - B.mean(0)
    sizes = np.linalg.norm(A, axis=0) * np.linalg.norm(B, axis=0)
    return float(((A * B).sum(0)[sizes > 0] / sizes[sizes > 0]).sum())


def whitener(Z: Any) -> Any:
    """What makes centered columns orthonormal; directions that they do not have become zero."""
    values, V = np.linalg.eigh(Z.T @ Z)
    kept = values > 1e-6 * values[-1]
    return np.where(kept, V, 0.0) / np.sqrt(np.where(kept, values, 1.0))


def evaluate(case: Case, transform: Callable[[list[Any]], list[Any]]) -> dict[str, float]:
    train, test = ([Z.astype(np.float64) for Z in transform(Xs)] for Xs in (case.train, case.test))
    correlations = [
        canonical_correlation((train[s], train[t]), (test[s], test[t]))
        for s, t in combinations(range(len(train)), 2)
    ]
    scaler = StandardScaler().fit(np.hstack(train))
    model = LogisticRegression(max_iter=1000)
    model.fit(scaler.transform(np.hstack(train)), case.y[0])
    accuracy = model.score(scaler.transform(np.hstack(test)), case.y[1])
    return {"correlation": float(np.mean(correlations)), "accuracy": float(accuracy)}


def run(case: Case, device: str, rounds: int, progress: Progress) -> dict[str, Any]:
    contestants = {
        OURS: Contestant(lambda seed: train_ours(case, device, seed)),
        DOCUMENTED: Contestant(lambda seed: train_cca_zoo(case, device, False, seed)),
        SLICED: Contestant(lambda seed: train_cca_zoo(case, device, True, seed)),
        FLOOR: Contestant(lambda seed: train_floor(case, device, seed)),
    }
    turns = progress.track(range(rounds), description=case.name)
    times = [best_times(contestants, 1, device=device) for _ in turns]
    found: dict[str, dict[str, Any]] = {}
    for name, contestant in contestants.items():
        seconds = min(turn[name] for turn in times)
        quality = [] if name == FLOOR else [evaluate(case, f) for f in contestant.trained]
        found[name] = {"seconds": seconds, "ms_per_step": 1000 * seconds / case.n_steps}
        if quality:
            found[name] |= {k: [round(q[k], 4) for q in quality] for k in quality[0]}
    rows, views = len(case.train[0]), [X.shape[1] for X in case.train]
    return {"rows": rows, "columns": views, "steps": case.n_steps, "contestants": found}


def make_table(name: str, found: dict[str, Any]) -> Table:
    table = Table(title=f"{name}: {found['rows']:,} rows, {found['steps']} steps")
    for column in ("", "seconds", "ms a step", "times ours", "correlations of 10", "accuracy"):
        table.add_column(column, justify="right" if column else "left")
    ours = found["contestants"][OURS]["seconds"]
    for who, line in found["contestants"].items():
        quality = [f"{np.mean(line[k]):.3f}" for k in ("correlation", "accuracy") if k in line]
        ratio = f"{line['seconds'] / ours:.2f}"
        table.add_row(who, f"{line['seconds']:.2f}", f"{line['ms_per_step']:.2f}", ratio, *quality)
    return table


def ratios_of(cases: dict[str, Any]) -> dict[str, float]:
    """How many times as long as ours the peers took; the floor is shown, but is no peer."""
    times = {
        name: {who: line["seconds"] for who, line in found["contestants"].items()}
        for name, found in cases.items()
    }
    return {
        f"{name}: {who}": seconds[who] / seconds[OURS]
        for name, seconds in times.items()
        for who in (DOCUMENTED, SLICED)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="Handwritten alone, one turn.")
    parser.add_argument("--out", type=Path, default=RESULTS / "against_cca_zoo.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Lightning's advice about workers, which would only slow it
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    cases = [handwritten(100)] if options.quick else [handwritten(100), synthetic(5)]
    rounds = 1 if options.quick else ROUNDS
    with Progress(transient=True) as progress:
        found = {case.name: run(case, options.device, rounds, progress) for case in cases}
    for name, case in found.items():
        Console().print(make_table(name, case))
    ratios = ratios_of(found)
    write_part(
        options.out,
        options.device,
        "cca-zoo",
        "lightning",
        "scikit-learn",
        ratios=ratios,
        targets=dict.fromkeys(ratios, TARGET),
        what="seconds from arrays to trained encoders; ratios are the peer's over hotview's",
        rounds=rounds,
        cases=found,
    )


if __name__ == "__main__":
    main()
