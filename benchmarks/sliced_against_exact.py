"""How well sliced matching stands in for exact assignment, equations (4) and (5), on Handwritten.

    python benchmarks/sliced_against_exact.py            # about 10 minutes on one core
    python benchmarks/sliced_against_exact.py --quick    # a smoke run; writes only where --out says

Three questions, in the common space (d = 10), on batches of 400 rows as in training:

cost: over the 15 pairs of views, does the sliced cost follow exact W₂² (linear_sum_assignment)?
    Correlations for 3 iid directions (the paper's), 10 and 50 orthogonal ones, 20 draws each.
partners: when rows whose correspondence is known are shuffled, is the partner that the assignment
    finds the same individual, or of the same class? Of training rows, and of validation rows.
training: the semi-supervised objective with the paper's settings, (8) with exact assignment held
    fixed in each step against (8) with the sliced cost, on the same splits, weights and batches;
    beside them the constraint of (8) without any transport, and transport 100 times as heavy.

Latents are principal components, those of an untrained network, and those of encoders trained
without labels. Test rows serve for nothing but the accuracies of the last question. Splits are
``unalign(random_state=t)``; every number of a run follows from the seeds in this file.
"""

from __future__ import annotations

import os

# Before anything is imported: one thread for everybody.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn.functional import cross_entropy

from hotview import MultiViewEncoder
from hotview._types import Array, IntArray
from hotview.datasets import load_handwritten, unalign
from hotview.losses import LSCCA, Coupling, NoCoupling, SWPairwise, Terms
from hotview.losses.coupling import orthogonality
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.ot import draw_directions, sliced_cost
from hotview.preprocessing.pca import align_signs, effective_rank
from paper.estimators import constructor_parameters
from paper.models import SETTINGS
from paper.statistics import half_width

RESULTS = Path(__file__).parent.parent / "results" / "bench" / "sliced_against_exact.json"
#: directions of the sliced cost: how many, and how they are drawn
SLICED = {
    "3 iid": (3, "iid"),
    "10 orthogonal": (10, "orthogonal"),
    "50 orthogonal": (50, "orthogonal"),
}
D, HIDDEN = SETTINGS["n_components"], (128,)
Clouds = dict[str, Array]


@dataclass(frozen=True)
class Plan:
    """How much to do."""

    latent_splits: tuple[int, ...] = (0, 1, 2)
    training_splits: tuple[int, ...] = (0, 1, 2, 3, 4)
    batch_size: int = SETTINGS["batch_size"]
    n_batches: int = 3
    draws: int = 20
    max_epochs: int = SETTINGS["max_epochs"]


QUICK = Plan((0,), (0, 1), batch_size=100, n_batches=2, draws=3, max_epochs=2)


# The data, and the latents whose costs and partners are looked at.


@dataclass(frozen=True)
class Trial:
    """One split: all training rows without and with their correspondence, and the rest."""

    seed: int
    data: Any
    target: IntArray

    @property
    def names(self) -> list[str]:
        """The views."""
        return list(self.data.linked)

    @property
    def rows(self) -> Clouds:
        """Training rows, linked ones first, the others shuffled in every view."""
        return stack(self.data.linked, self.data.unaligned)

    @property
    def paired(self) -> Clouds:
        """The same rows, still aligned."""
        return stack(self.data.linked, self.data.paired)

    def aligned(self, n: int) -> dict[str, tuple[Clouds, IntArray]]:
        """Rows with known correspondence, and their classes: trained on, and never seen."""
        y = self.target[self.data.split.unlabeled]
        seen = {name: X[:n] for name, X in self.data.paired.items()}
        unseen = {name: X[:n] for name, X in self.data.validation.items()}
        return {
            "training": (seen, y[:n]),
            "validation": (unseen, self.data.validation_target[:n]),
        }


def stack(first: Mapping[str, Array], second: Mapping[str, Array]) -> Clouds:
    return {name: np.concatenate([X, second[name]]) for name, X in first.items()}


def make_trial(seed: int) -> Trial:
    digits = load_handwritten()
    return Trial(seed, unalign(digits.views, digits.target, random_state=seed), digits.target)


Encode = Callable[[Clouds], Clouds]


def principal_components(trial: Trial, *, whiten: bool) -> Encode:
    """Components of every view's standardized training rows, all views of the same total variance.

    Signs are those on which the views agree; a view with fewer columns is filled up with zeros.
    """
    scalers = {name: StandardScaler().fit(X) for name, X in trial.rows.items()}
    fitted = {
        name: PCA(min(D, X.shape[1]), whiten=whiten).fit(scalers[name].transform(X))
        for name, X in trial.rows.items()
    }
    scores = {
        name: fitted[name].transform(scalers[name].transform(X)) for name, X in trial.rows.items()
    }
    signs = dict(zip(scores, align_signs(list(scores.values())), strict=True))
    sizes = {name: np.sqrt(D / Y.var(0).sum()) for name, Y in scores.items()}

    def encode(views: Clouds) -> Clouds:
        found = {}
        for name, X in views.items():
            Y = fitted[name].transform(scalers[name].transform(X)) * signs[name] * sizes[name]
            found[name] = np.pad(Y, ((0, 0), (0, D - Y.shape[1])))
        return found

    return encode


def untrained(trial: Trial) -> Encode:
    scalers = {name: StandardScaler().fit(X) for name, X in trial.rows.items()}
    network = new_network([X.shape[1] for X in trial.rows.values()], trial.names, trial.seed)

    def encode(views: Clouds) -> Clouds:
        with torch.no_grad():
            Xs = [to_tensor(scalers[name].transform(X)) for name, X in views.items()]
            Zs = network.latents(Xs)
        return {name: Z.numpy() for name, Z in zip(views, Zs, strict=True)}

    return encode


def trained(trial: Trial, coupling: str, settings: Mapping[str, Any], max_epochs: int) -> Encode:
    encoder = MultiViewEncoder(
        **constructor_parameters({"coupling": coupling, **settings, "max_epochs": max_epochs}),
        random_state=trial.seed,
        device="cpu",
        verbose=False,
    )
    if coupling == "lscca":
        encoder.fit(trial.paired, paired=True)
    else:
        encoder.fit(trial.rows)
    return lambda views: encoder.transform(views, "common")


def latents(plan: Plan) -> dict[str, Callable[[Trial], Encode]]:
    """Encoders by name; "robust" are the estimator's defaults."""
    paper = {**SETTINGS, "view_regularizer": "none"}
    found: dict[str, Callable[[Trial], Encode]] = {
        "principal components": lambda t: principal_components(t, whiten=False),
        "principal components, whitened": lambda t: principal_components(t, whiten=True),
        "untrained network": untrained,
    }
    models = {"HOT (11)": "hot-reference", "HOT (10)": "hot-pairwise", "LSCCA": "lscca"}
    for name, coupling in models.items():
        for kind, settings in {"paper": paper, "robust": {}}.items():
            found[f"{name}, {kind}"] = lambda t, c=coupling, s=settings: trained(  # type: ignore[misc]
                t, c, s, plan.max_epochs
            )
    return found


def to_tensor(X: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))


# Matching two clouds.


def match(Z: Array, other: Array) -> tuple[IntArray, float]:
    """The exact partner of every row, and W₂², the mean squared distance between partners."""
    M = cdist(Z, other, "sqeuclidean")
    rows, partner = linear_sum_assignment(flatten(M))
    return partner, float(M[rows, partner].mean())


def flatten(M: Array, n_iter: int = 20, reg: float = 0.02) -> Array:
    """Subtract from rows and columns what Sinkhorn finds: as cheap an assignment, sooner found."""
    M = M - M.min(1, keepdims=True)
    M -= M.min(0)
    scale = reg * M.mean()
    with np.errstate(all="ignore"):
        K = np.exp(M.astype(np.float32) / np.float32(-scale))
        u = np.ones(len(M), dtype=np.float32)
        for _ in range(n_iter):
            v = 1 / (u @ K)
            u = 1 / (K @ v)
        f, g = (scale * np.log(x.astype(np.float64)) for x in (u, v))
        flat: Array = M - f[:, None] - g
    return flat if np.isfinite(flat).all() else M


def pairs(clouds: Mapping[str, Any]) -> list[tuple[str, str]]:
    return list(combinations(clouds, 2))


def exact_costs(clouds: Clouds) -> Array:
    return np.array([match(clouds[a], clouds[b])[1] for a, b in pairs(clouds)])


def sliced_costs(clouds: Clouds, n: int, kind: str, generator: torch.Generator) -> Array:
    theta = draw_directions(n, D, kind=kind, generator=generator, dtype=torch.float64)
    Zs = [torch.from_numpy(Z.astype(np.float64)) for Z in clouds.values()]
    C = sliced_cost(Zs, directions=theta).numpy()
    costs: Array = C[np.triu_indices(len(C), 1)]
    return costs


# The first question: costs.


def compare_costs(clouds: Clouds, draws: int, seed: int) -> dict[str, Any]:
    """Correlation over pairs of views of exact and sliced costs, draw by draw."""
    exact = exact_costs(clouds)
    found: dict[str, Any] = {"exact": exact}
    for name, (n, kind) in SLICED.items():
        generator = torch.Generator().manual_seed(seed)
        sliced = np.stack([sliced_costs(clouds, n, kind, generator) for _ in range(draws)])
        found[name] = {
            "pearson": np.array([stats.pearsonr(exact, row).statistic for row in sliced]),
            "spearman": np.array([stats.spearmanr(exact, row).statistic for row in sliced]),
            "pearson_of_mean": stats.pearsonr(exact, sliced.mean(0)).statistic,
            "relative_spread": (sliced.std(0, ddof=1) / sliced.mean(0)).mean(),
            "d_times_sliced_over_exact": (D * sliced.mean(0) / exact).mean(),
            "draws_above_exact": int((sliced > exact).sum()),
            "mean": sliced.mean(0),
        }
    return found


def sampling_floor(encoded: Clouds, n: int) -> dict[str, float]:
    """Costs between two batches of one view, which are costs of sampling alone; mean of views."""
    generator = torch.Generator().manual_seed(0)
    theta = draw_directions(50, D, generator=generator, dtype=torch.float64)
    halves = [(Z[:n].astype(np.float64), Z[n : 2 * n].astype(np.float64)) for Z in encoded.values()]
    sliced = [
        float(sliced_cost([torch.from_numpy(X) for X in both], directions=theta)[0, 1])
        for both in halves
    ]
    return {
        "exact": float(np.mean([match(*both)[1] for both in halves])),
        "sliced": float(np.mean(sliced)),
    }


def ask_costs(trial: Trial, encode: Encode, plan: Plan) -> list[dict[str, Any]]:
    random = np.random.default_rng(trial.seed)
    encoded = {name: Z[random.permutation(len(Z))] for name, Z in encode(trial.rows).items()}
    floor = sampling_floor(encoded, plan.batch_size)
    found = []
    for i in range(plan.n_batches):
        part = slice(i * plan.batch_size, (i + 1) * plan.batch_size)
        clouds = {name: Z[part] for name, Z in encoded.items()}
        found.append(compare_costs(clouds, plan.draws, seed=100 * trial.seed + i))
    ranks = [effective_rank(torch.from_numpy(Z)) for Z in encoded.values()]
    return [{**batch, "floor": floor, "ranks": ranks, "split": trial.seed} for batch in found]


def sum_up_costs(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over splits and batches; the spread is that between the draws of one batch."""
    by_split: dict[int, list[Array]] = {}
    for batch in batches:
        by_split.setdefault(batch["split"], []).append(batch["exact"])
    again = [
        stats.pearsonr(a, b).statistic
        for same in by_split.values()
        for a, b in combinations(same, 2)
    ]
    exact = np.stack([batch["exact"] for batch in batches])
    summary: dict[str, Any] = {
        "effective_rank": {
            "mean": mean_of(b["ranks"] for b in batches),
            "least": float(np.min([b["ranks"] for b in batches])),
        },
        "exact": {
            "by_pair": tidy(exact.mean(0)),
            "pearson_between_batches": mean_of(again),
            "share_that_is_sampling": mean_of(b["floor"]["exact"] for b in batches) / exact.mean(),
        },
    }
    for name in SLICED:
        each = [batch[name] for batch in batches]
        summary[name] = {
            **{
                key: {
                    "mean": mean_of(b[key] for b in each),
                    "spread_over_draws": mean_of(b[key].std(ddof=1) for b in each),
                    "least": float(np.min([b[key] for b in each])),
                    "by_batch": tidy([b[key].mean() for b in each]),
                }
                for key in ("pearson", "spearman")
            },
            **{
                key: mean_of(b[key] for b in each)
                for key in ("pearson_of_mean", "relative_spread", "d_times_sliced_over_exact")
            },
            "draws_above_exact": sum(b["draws_above_exact"] for b in each),
            "by_pair": tidy(np.mean([b["mean"] for b in each], axis=0)),
        }
    total = np.mean([batch["50 orthogonal"]["mean"] for batch in batches])
    floor = mean_of(b["floor"]["sliced"] for b in batches)
    summary["50 orthogonal"]["share_that_is_sampling"] = float(floor / total)
    return summary


# The second question: partners.


def share_matched(clouds: Clouds, y: IntArray, seed: int) -> dict[str, Array]:
    """For every pair of views, how many rows get themselves, and their class, as partner.

    Exact partners are those of the assignment; sliced ones have the same rank along a direction,
    and the share is the mean over 50 directions.
    """
    random = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    theta = draw_directions(50, D, generator=generator, dtype=torch.float64).numpy()
    found: dict[str, list[float]] = {}
    for a, b in pairs(clouds):
        order = random.permutation(len(y))  # so that ties do not help
        partner = order[match(clouds[a], clouds[b][order])[0]]
        here = np.argsort(clouds[a] @ theta.T, axis=0)
        there = order[np.argsort(clouds[b][order] @ theta.T, axis=0)]
        shares = {
            "exact_individual": partner == np.arange(len(y)),
            "exact_class": y[partner] == y,
            "sliced_individual": here == there,
            "sliced_class": y[here] == y[there],
        }
        for key, share in shares.items():
            found.setdefault(key, []).append(float(np.mean(share)))
    return {key: np.array(values) for key, values in found.items()}


def chance_of(y: IntArray) -> dict[str, float]:
    shares = np.bincount(y) / len(y)
    return {"individual": 1 / len(y), "class": float(np.square(shares).sum())}


def ask_partners(trial: Trial, encode: Encode, plan: Plan) -> dict[str, dict[str, Array]]:
    return {
        rows: share_matched(encode(views), y, trial.seed)
        for rows, (views, y) in trial.aligned(plan.batch_size).items()
    }


def sum_up_partners(splits: list[dict[str, dict[str, Array]]]) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for rows in splits[0]:
        summary[rows] = {}
        for key in splits[0][rows]:
            values = np.stack([split[rows][key] for split in splits])
            summary[rows][key] = {
                "mean": float(values.mean()),
                "by_split": tidy(values.mean(1)),
                "by_pair": tidy(values.mean(0)),
            }
    return summary


# The third question: training.


class Constraint(Coupling):
    """The constraint of (8) alone, without any transport."""

    def __init__(self, orthogonality_weight: float) -> None:
        super().__init__()
        self.orthogonality_weight = orthogonality_weight

    def forward(
        self,
        Zs: Sequence[Tensor],
        *,
        generator: torch.Generator | None = None,
        directions: Tensor | None = None,
    ) -> Terms:
        """The constraint, as in `SWPairwise`."""
        return Terms({"orthogonality": self.orthogonality_weight * orthogonality(Zs, "sum")})


class AssignedPairwise(Constraint):
    """Equation (8) with (4) in place of the sliced cost: rows are assigned to each other exactly.

    The assignment is held fixed in the gradient, which is exact because it is optimal. Sum over
    rows, mean over pairs of views.
    """

    def forward(
        self,
        Zs: Sequence[Tensor],
        *,
        generator: torch.Generator | None = None,
        directions: Tensor | None = None,
    ) -> Terms:
        """Squared distances between assigned rows, and the constraint."""
        costs = []
        for Z, other in combinations(Zs, 2):
            partner, _ = match(Z.detach().numpy(), other.detach().numpy())
            costs.append((Z - other[torch.from_numpy(partner)]).square().sum())
        return Terms({"transport": torch.stack(costs).mean(), **super().forward(Zs).parts})


@dataclass(frozen=True)
class Arm:
    """A coupling, made from α, and how many times as heavy its transport is as in the paper."""

    make: Callable[[float], Coupling]
    heavier: float = 1.0


def sliced_pairwise(name: str) -> Callable[[float], Coupling]:
    n, kind = SLICED[name]
    return lambda alpha: SWPairwise(alpha, n_projections=n, projections=kind, reduction="sum")


ARMS = {
    "no coupling": Arm(lambda alpha: NoCoupling()),
    "constraint alone": Arm(Constraint),
    "sliced, 3 iid": Arm(sliced_pairwise("3 iid")),
    "sliced, 50 orthogonal": Arm(sliced_pairwise("50 orthogonal")),
    "exact": Arm(AssignedPairwise),
    "aligned (LSCCA)": Arm(lambda alpha: LSCCA(alpha, reduction="sum")),
    "sliced, 3 iid, × 100": Arm(sliced_pairwise("3 iid"), 100.0),
    "sliced, 50 orthogonal, × 100": Arm(sliced_pairwise("50 orthogonal"), 100.0),
    "exact, × 100": Arm(AssignedPairwise, 100.0),
    "aligned (LSCCA), × 100": Arm(lambda alpha: LSCCA(alpha, reduction="sum"), 100.0),
}
#: whose test accuracies are compared
DIFFERENCES = (
    ("exact", "sliced, 3 iid"),
    ("exact", "sliced, 50 orthogonal"),
    ("exact, × 100", "sliced, 3 iid, × 100"),
    ("exact, × 100", "sliced, 50 orthogonal, × 100"),
    *((name, "constraint alone") for name in ARMS if name != "constraint alone"),
)


def new_network(columns: Sequence[int], names: Sequence[str], seed: int) -> MultiViewNetwork:
    widths = Widths(columns, [HIDDEN] * len(columns), SETTINGS["encoder_dim"], D, 10, False)
    generator = torch.Generator().manual_seed(seed)
    return make_network(widths, generator, [None] * len(columns), names)


@dataclass(frozen=True)
class Tables:
    """Standardized rows of every view, as tensors: to couple, labeled, aligned, for the test."""

    rows: list[Tensor]
    linked: list[Tensor]
    target: Tensor
    test: list[Tensor]
    aligned: dict[str, tuple[list[Tensor], IntArray]]


def make_tables(trial: Trial, *, paired: bool, n: int) -> Tables:
    rows = trial.paired if paired else trial.rows
    scalers = {name: StandardScaler().fit(X) for name, X in rows.items()}

    def standard(views: Clouds) -> list[Tensor]:
        return [to_tensor(scalers[name].transform(X)) for name, X in views.items()]

    return Tables(
        standard(rows),
        standard(trial.data.linked),
        torch.from_numpy(trial.data.target),
        standard(trial.data.test),
        {name: (standard(views), y) for name, (views, y) in trial.aligned(n).items()},
    )


def train(
    trial: Trial, tables: Tables, coupling: Coupling, gamma: float, plan: Plan
) -> MultiViewNetwork:
    """Minimize L + γ R_M. Whatever the coupling, weights begin alike and batches are the same."""
    random, generator = np.random.default_rng(trial.seed), torch.Generator().manual_seed(trial.seed)
    network = new_network([X.shape[1] for X in tables.rows], trial.names, trial.seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=SETTINGS["learning_rate"])
    n = len(tables.rows[0])
    for _ in range(plan.max_epochs):
        orders = [random.permutation(n) for _ in tables.rows]
        if coupling.needs_alignment:
            orders = orders[:1] * len(orders)
        for start in range(0, n - plan.batch_size + 1, plan.batch_size):
            batch = [order[start : start + plan.batch_size] for order in orders]
            Xs = [X[torch.from_numpy(i)] for X, i in zip(tables.rows, batch, strict=True)]
            loss = cross_entropy(network.score(network.encode(tables.linked)), tables.target)
            if not isinstance(coupling, NoCoupling):
                Zs = network.latents(Xs)
                loss = loss + gamma * coupling(Zs, generator=generator).total
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()
    return network


def ask_training(trial: Trial, plan: Plan, name: str) -> dict[str, Any]:
    """Predictions and accuracy on the test rows, and what has become of the latents."""
    arm = ARMS[name]
    coupling = arm.make(SETTINGS["coupling__orthogonality_weight"] / arm.heavier)
    tables = make_tables(trial, paired=coupling.needs_alignment, n=plan.batch_size)
    start = time.perf_counter()
    network = train(trial, tables, coupling, SETTINGS["coupling__weight"] * arm.heavier, plan)
    seconds = time.perf_counter() - start
    with torch.no_grad():
        found = network.score(network.encode(tables.test)).argmax(1).numpy()
        views, y = tables.aligned["training"]
        Zs = [Z.double() for Z in network.latents(views)]
    clouds = {view: Z.numpy() for view, Z in zip(trial.names, Zs, strict=True)}
    shares = share_matched(clouds, y, trial.seed)
    generator = torch.Generator().manual_seed(0)
    exact = exact_costs(clouds).mean()
    variance = np.mean([Z.var(0).sum() for Z in clouds.values()])
    return {
        "predictions": found,
        "accuracy": float(np.mean(found == trial.data.test_target)),
        "same_individual": float(shares["exact_individual"].mean()),
        "same_class": float(shares["exact_class"].mean()),
        "exact_cost_over_variance": float(exact / variance),
        "sliced_cost_over_variance": float(
            D * sliced_costs(clouds, 50, "orthogonal", generator).mean() / variance
        ),
        "effective_rank": mean_of(effective_rank(Z) for Z in Zs),
        "seconds": seconds,
    }


def sum_up_training(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"models": {}}
    for name, splits in found.items():
        for split, other in zip(splits, found["constraint alone"], strict=True):
            differs = split["predictions"] != other["predictions"]
            split["predictions_unlike_constraint_alone"] = float(np.mean(differs))
        summary["models"][name] = {
            key: {"mean": mean_of(each), "std": float(np.std(each, ddof=1)), "by_split": tidy(each)}
            for key in splits[0]
            if key != "predictions"
            for each in [[split[key] for split in splits]]
        }
    summary["paired_differences"] = {
        f"{a} − {b}": paired_difference(found, a, b) for a, b in DIFFERENCES
    }
    return summary


def paired_difference(found: dict[str, list[dict[str, Any]]], a: str, b: str) -> dict[str, Any]:
    """Difference in test accuracy on the same splits, with the interval of Nadeau and Bengio."""
    pairs_of = zip(found[a], found[b], strict=True)
    gaps = np.array([x["accuracy"] - y["accuracy"] for x, y in pairs_of])
    half = half_width(gaps)
    return {
        "mean": float(gaps.mean()),
        "std": float(gaps.std(ddof=1)),
        "interval": [float(gaps.mean() - half), float(gaps.mean() + half)],
        "by_split": tidy(gaps),
    }


# What is written and shown.


def mean_of(values: Any) -> float:
    return float(np.mean(list(values)))


def tidy(values: Any) -> list[float]:
    return [float(f"{x:.5g}") for x in values]


def write(record: dict[str, Any]) -> str:
    """JSON in which a list of numbers or words takes one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)


def cost_table(costs: dict[str, Any]) -> Table:
    table = Table(title="Correlation of sliced with exact cost over pairs of views (± over draws)")
    for i, name in enumerate(("latents", *SLICED, "50: d·SW/W₂²", "exact, of sampling", "rank")):
        table.add_column(name, justify="left" if i == 0 else "right")
    for name, found in costs.items():
        table.add_row(
            name,
            *(
                "{mean:.2f} ± {spread_over_draws:.2f}".format(**found[name]["pearson"])
                for name in SLICED
            ),
            f"{found['50 orthogonal']['d_times_sliced_over_exact']:.2f}",
            f"{found['exact']['share_that_is_sampling']:.2f}",
            f"{found['effective_rank']['mean']:.1f}",
        )
    return table


def partner_table(partners: dict[str, Any], chance: dict[str, float]) -> Table:
    table = Table(
        title="Same partner, % (chance: individual {individual:.2%}, class {class:.1%})".format(
            **chance
        )
    )
    columns = ("individual", "class", "class, best pair", "class, sliced")
    for i, name in enumerate(("latents", *(f"{c}{u}" for u in ("", " (unseen)") for c in columns))):
        table.add_column(name, justify="left" if i == 0 else "right")
    for name, found in partners.items():
        cells = []
        for rows in found.values():
            cells += [rows[key]["mean"] for key in ("exact_individual", "exact_class")]
            cells += [max(rows["exact_class"]["by_pair"]), rows["sliced_class"]["mean"]]
        table.add_row(name, *(f"{100 * x:.1f}" for x in cells))
    return table


def training_table(training: dict[str, Any]) -> Table:
    table = Table(title="Semi-supervised, paper settings: test accuracy and latents after training")
    keys = (
        "accuracy",
        "predictions_unlike_constraint_alone",
        "same_individual",
        "same_class",
        "exact_cost_over_variance",
        "sliced_cost_over_variance",
        "effective_rank",
        "seconds",
    )
    for i, name in enumerate(("coupling", *keys)):
        table.add_column(name, justify="left" if i == 0 else "right")
    for name, found in training["models"].items():
        table.add_row(name, *(f"{found[key]['mean']:.4g}" for key in keys))
    for name, gap in training["paired_differences"].items():
        table.add_row(name, "{:+.4f} [{:+.4f}, {:+.4f}]".format(gap["mean"], *gap["interval"]))
    return table


def run(plan: Plan, console: Console) -> dict[str, Any]:
    costs: dict[str, list[dict[str, Any]]] = {}
    partners: dict[str, list[dict[str, dict[str, Array]]]] = {}
    training: dict[str, list[dict[str, Any]]] = {}
    encoders = latents(plan)
    total = len(encoders) * len(plan.latent_splits) + len(ARMS) * len(plan.training_splits)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        for t in plan.latent_splits:
            trial = make_trial(t)
            for name, make in encoders.items():
                progress.update(task, description=f"{name}, split {t}")
                encode = make(trial)
                costs.setdefault(name, []).extend(ask_costs(trial, encode, plan))
                partners.setdefault(name, []).append(ask_partners(trial, encode, plan))
                progress.advance(task)
        for t in plan.training_splits:
            trial = make_trial(t)
            for name in ARMS:
                progress.update(task, description=f"training, {name}, split {t}")
                training.setdefault(name, []).append(ask_training(trial, plan, name))
                progress.advance(task)
    trials = [make_trial(t).aligned(plan.batch_size)["training"][1] for t in plan.latent_splits]
    chances = [chance_of(y) for y in trials]
    return {
        "pairs": [f"{a}–{b}" for a, b in pairs(load_handwritten().views)],
        "costs": {name: sum_up_costs(found) for name, found in costs.items()},
        "chance": {key: mean_of(c[key] for c in chances) for key in chances[0]},
        "partners": {name: sum_up_partners(found) for name, found in partners.items()},
        "training": sum_up_training(training),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run with hardly any training")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # plans do not converge in the paper's 20 iterations
    console = Console()
    plan = QUICK if options.quick else Plan()
    start = time.perf_counter()
    found = run(plan, console)
    console.print(cost_table(found["costs"]))
    console.print(partner_table(found["partners"], found["chance"]))
    console.print(training_table(found["training"]))
    record = {
        "machine": machine("scipy", "scikit-learn"),
        "seconds": round(time.perf_counter() - start, 1),
        "data": "Handwritten; splits of unalign(random_state=t), 1,200 training rows, 60 labeled",
        "plan": vars(plan),
        **found,
    }
    if not options.quick or options.out != RESULTS:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        draft = options.out.with_suffix(".tmp")
        draft.write_text(write(record) + "\n")
        draft.replace(options.out)
        console.print(f"Written to {options.out}", soft_wrap=True)


if __name__ == "__main__":
    main()
