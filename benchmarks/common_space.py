"""Are rows of different views comparable in the common space? hotview beside what people have.

    python benchmarks/common_space.py --data PATH [--jobs 2] [--splits 5] [--links 0 10 20 50 200]
        [--datasets multiome] [--methods hotview] [--out results/default/common_space.jsonl]

PATH is a folder with the files that `FILES` names; without it only Handwritten and the simulation
are run. A quarter of the individuals is for testing and in no training, so many are linked as the
setting says, and every other one is in one view alone. All methods get the same rows. Settings of
hotview were chosen on MSRC-v1, Caltech, MNIST, prokaryotic and another simulation.

Methods: `hotview` is ``MultiViewEncoder()``; `hotview, no transport` the same with
``coupling="none"``; `hotview, unlinked` without the aligned term (``alignment_weight=0``);
`CCA` a regularized one of the linked rows, its penalty by cross-validation over these; `DGCCA`
hotview's deep one, of the linked rows alone; `ridge` predicts the columns of one view from those of
the other; `fused GW` is POT's fused Gromov-Wasserstein between all rows, distances to the linked
ones as features, which projects test rows to the other view and gets these without
correspondence. `SCOT` has what its authors' notebooks print for all rows of these data, no links.

Measures, means over pairs of views and both directions: `foscttm`, the share of test rows of the
other view that are nearer than the individual's own; `accuracy`, of labels by the 5 nearest
training rows of the other view; `mixing`, the inverse Simpson index of views among the 30 nearest
test rows (LISI; between 1 and 2); `kept`, the share of the 15 nearest test rows
within a view that stay among them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # splits run side by side

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import inv, sqrtm
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV

from hotview import MultiViewEncoder
from hotview.datasets import load_handwritten

OUT = Path(__file__).parent.parent / "results" / "default" / "common_space.jsonl"
FILES = {
    "snareseq": ("rna", "atac"),
    "scgem": ("expression", "methylation"),
    "wikipedia": ("image", "text"),
}
DATASETS = ("multiome", *FILES, "handwritten")
LINKS = (0, 10, 20, 50, 200)
KEYS = ("dataset", "links", "split", "method")
SCOT = {"snareseq": 0.149, "scgem": 0.216}  # FOSCTTM in the notebooks of its authors
N_COMPONENTS, PENALTIES = 20, (0.01, 0.1, 1.0, 10.0)
N_VOTES, N_MIXED, N_KEPT, MAX_FGW = 5, 30, 15, 1000

Pair = tuple[Any, Any]


def simulate_multiome(seed: int, n: int = 6300, n_types: int = 8) -> tuple[dict[str, Any], Any]:
    """Counts of genes and peaks of cells of 8 types, 40 to 1 % of the cells."""
    random = np.random.default_rng(seed)
    shares = np.geomspace(40, 1, n_types)
    y = random.choice(n_types, n, p=shares / shares.sum())
    state = 2 * random.normal(size=(n_types, 8))[y] + 0.8 * random.normal(size=(n, 8))
    views = {}
    for name, n_columns, depth in (("rna", 400, 4000), ("atac", 600, 1500)):
        own = random.normal(size=(n, 4))  # what the other view does not see
        log_rate = 0.35 * state @ random.normal(size=(8, n_columns))
        log_rate += (
            0.25 * np.tanh(state @ random.normal(size=(8, 8))) @ random.normal(size=(8, n_columns))
        )
        log_rate += 0.2 * own @ random.normal(size=(4, n_columns)) + random.normal(size=n_columns)
        rate = np.exp(log_rate - log_rate.max(axis=1, keepdims=True))
        size = random.lognormal(np.log(depth), 0.4, size=(n, 1))
        views[name] = random.poisson(size * rate / rate.sum(axis=1, keepdims=True)).astype(float)
    return views, y


def load(name: str, split: int, data: Path | None) -> tuple[dict[str, Any], Any]:
    """Aligned views and classes; a new simulation for every split."""
    if name == "multiome":
        return simulate_multiome(split)
    if name == "handwritten":
        found = load_handwritten()
        return {view: found.views[view] for view in ("fac", "fou", "zer")}, found.target
    if data is None:
        raise ValueError(f"Expected --data with {name}.npz, but it is not given.")
    with np.load(data / f"{name}.npz") as file:
        return {v: file[f"view_{i}"].astype(float) for i, v in enumerate(FILES[name])}, file["y"]


class Split:
    """Linked rows, other rows of every view, and test rows, of one random split."""

    def __init__(self, name: str, links: int, split: int, data: Path | None) -> None:
        views, y = load(name, split, data)
        order = np.random.default_rng([split, 24]).permutation(len(y))
        n_test = min(800, len(y) // 4)
        test, linked, rest = np.split(order, [n_test, n_test + links])
        own = np.array_split(rest, len(views))  # in one view alone
        pairs = list(zip(views.items(), own, strict=True))
        self.names = list(views)
        self.linked = {v: X[linked] for v, X in views.items()}
        self.unlinked = {v: X[rows] for (v, X), rows in pairs}
        self.test = {v: X[test] for v, X in views.items()}
        self.y_test = y[test]
        self.y_train = {v: y[np.r_[linked, rows]] for (v, _), rows in pairs}
        #: the same as principal components, for methods that would overfit the columns
        self.train_pcs, self.test_pcs = {}, {}
        for v in self.names:
            train = np.vstack([self.linked[v], self.unlinked[v]])
            self.train_pcs[v], self.test_pcs[v] = components(train, self.test[v])


def components(train: Any, test: Any) -> Pair:
    """Principal components of standardized columns, of counts after the root of their shares."""
    if (train >= 0).all() and (train == np.round(train)).all() and train.shape[1] > 256:
        train, test = (np.sqrt(X / X.sum(axis=1, keepdims=True)) for X in (train, test))
    std = train.std(axis=0)
    mean, std = train.mean(axis=0), np.where(std > 0, std, 1.0)
    train, test = (train - mean) / std, (test - mean) / std
    pca = PCA(min(N_COMPONENTS, *train.shape), random_state=0).fit(train)
    scale = np.sqrt(pca.explained_variance_.sum())
    return pca.transform(train) / scale, pca.transform(test) / scale


def hotview_spaces(split: Split, **options: Any) -> Callable[[str, str], tuple[Pair, Pair]]:
    """Training and test rows of two views in the common space of an encoder of all views."""
    model = MultiViewEncoder(random_state=0, device="cpu", verbose=False, **options)
    if options.get("coupling") == "dgcca":
        model.fit(split.linked, paired=True)
    elif len(next(iter(split.linked.values()))) == 0:
        model.fit(split.unlinked)
    else:
        model.fit(split.unlinked, linked=split.linked)
    train = {v: np.vstack([split.linked[v], split.unlinked[v]]) for v in split.names}
    Z, Z_test = (model.transform(views, space="common") for views in (train, split.test))
    return lambda a, b: ((Z[a], Z[b]), (Z_test[a], Z_test[b]))


def cca_spaces(split: Split) -> Callable[[str, str], tuple[Pair, Pair]]:
    """The same by regularized CCA of the linked rows of two views."""

    def spaces(a: str, b: str) -> tuple[Pair, Pair]:
        n = len(split.linked[a])
        X, Y = split.train_pcs[a][:n], split.train_pcs[b][:n]
        folds = np.arange(n) % min(5, n)
        errors = [
            np.mean([_left_out(X, Y, folds == k, penalty) for k in range(folds.max() + 1)])
            for penalty in PENALTIES
        ]
        project = fit_cca(X, Y, PENALTIES[int(np.argmin(errors))])
        return tuple(project(rows[a], rows[b]) for rows in (split.train_pcs, split.test_pcs))

    return spaces


def _left_out(X: Any, Y: Any, out: Any, penalty: float) -> float:
    """FOSCTTM of linked rows that a CCA does not see, among all linked rows."""
    project = fit_cca(X[~out], Y[~out], penalty)
    Zx, Zy = project(X, Y)
    D = cdist(Zx, Zy)
    true = np.diag(D)
    return float(((true[:, None] > D).mean(axis=1) + (true > D).mean(axis=0))[out].mean() / 2)


def fit_cca(X: Any, Y: Any, penalty: float) -> Callable[[Any, Any], Pair]:
    """Canonical variables, weighted by the root of their correlations."""
    means = X.mean(axis=0), Y.mean(axis=0)
    A, B = X - means[0], Y - means[1]
    roots = []
    for Z in (A, B):
        S = Z.T @ Z / len(Z)
        roots.append(inv(sqrtm(S + penalty * np.trace(S) / len(S) * np.eye(len(S))).real))
    U, correlations, Vt = np.linalg.svd(roots[0] @ (A.T @ B / len(A)) @ roots[1])
    k = min(10, len(correlations))
    weights = np.sqrt(np.clip(correlations[:k], 0, 1))
    maps = roots[0] @ U[:, :k] * weights, roots[1] @ Vt[:k].T * weights
    return lambda x, y: ((x - means[0]) @ maps[0], (y - means[1]) @ maps[1])


def predicted_spaces(
    split: Split, predict: Callable[[str, str], tuple[Any, Any]]
) -> Callable[[str, str], list[tuple[Pair, Pair]]]:
    """Spaces of methods that map one view to the other, in both directions."""

    def spaces(a: str, b: str) -> list[tuple[Pair, Pair]]:
        (train, test), (train_b, test_b) = predict(a, b), predict(b, a)
        return [
            ((train, split.train_pcs[b]), (test, split.test_pcs[b])),
            ((split.train_pcs[a], train_b), (split.test_pcs[a], test_b)),
        ]

    return spaces


def ridge_spaces(split: Split) -> Callable[[str, str], list[tuple[Pair, Pair]]]:
    """The columns of the other view by a ridge regression of the linked rows."""

    def predict(a: str, b: str) -> tuple[Any, Any]:
        n = len(split.linked[a])
        found = RidgeCV(np.logspace(-3, 3, 13)).fit(split.train_pcs[a][:n], split.train_pcs[b][:n])
        return found.predict(split.train_pcs[a]), found.predict(split.test_pcs[a])

    return predicted_spaces(split, predict)


def fused_gw_spaces(split: Split) -> Callable[[str, str], list[tuple[Pair, Pair]]]:
    """Barycenters in the other view by fused Gromov-Wasserstein of at most 1,000 rows a view."""
    import ot

    n = len(next(iter(split.linked.values())))
    plans: dict[tuple[str, str], Any] = {}

    def rows_of(v: str) -> Any:
        n_test = len(split.y_test)
        return np.vstack([split.test_pcs[v], split.train_pcs[v][: max(MAX_FGW - n_test, n + 100)]])

    def plan(a: str, b: str) -> Any:
        if (b, a) in plans:
            return plans[b, a].T
        if (a, b) not in plans:
            A, B = rows_of(a), rows_of(b)
            inner = [cdist(X, X) for X in (A, B)]
            inner = [D / D.mean() for D in inner]
            if n > 0:
                at = slice(len(split.y_test), len(split.y_test) + n)
                M = cdist(inner[0][:, at], inner[1][:, at]) ** 2 / n
                T = ot.gromov.fused_gromov_wasserstein(M / M.mean(), *inner, alpha=0.5, max_iter=50)
            else:
                T = ot.gromov.gromov_wasserstein(*inner, max_iter=50)
            plans[a, b] = T
        return plans[a, b]

    def predict(a: str, b: str) -> tuple[Any, Any]:
        T = plan(a, b)
        mapped = T / np.maximum(T.sum(axis=1, keepdims=True), 1e-12) @ rows_of(b)
        n_test, n_train = len(split.y_test), len(split.train_pcs[a])
        near = cdist(split.train_pcs[a], rows_of(a)).argmin(axis=1)
        return mapped[near][:n_train], mapped[:n_test]

    return predicted_spaces(split, predict)


METHODS: dict[str, Callable[[Split], Any]] = {
    "hotview": hotview_spaces,
    "hotview, pairwise": lambda split: hotview_spaces(split, coupling="sw-pairwise"),
    "hotview, no transport": lambda split: hotview_spaces(split, coupling="none"),
    "hotview, unlinked": lambda split: hotview_spaces(split, alignment_weight=0.0),
    "CCA": cca_spaces,
    "DGCCA": lambda split: hotview_spaces(split, coupling="dgcca"),
    "ridge": ridge_spaces,
    "fused GW": fused_gw_spaces,
}
WITHOUT_LINKS = ("hotview", "fused GW")


def run(name: str, links: int, split_number: int, methods: list[str], data: Path | None) -> Any:
    """All methods on one split."""
    warnings.simplefilter("ignore")
    split = Split(name, links, split_number, data)
    lines = []
    for method in methods:
        start = time.perf_counter()
        where = dict(zip(KEYS, (name, links, split_number, method), strict=True))
        try:
            spaces = METHODS[method](split)
            found = [
                x for a, b in combinations(split.names, 2) for x in measure(split, spaces, a, b)
            ]
            values = {key: round(float(np.mean([x[key] for x in found])), 4) for key in found[0]}
        except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:
            values = {"error": f"{error}"[:200]}
        seconds = round(time.perf_counter() - start, 2)
        lines.append({**where, **values, "seconds": seconds})
    return lines


def measure(split: Split, spaces: Any, a: str, b: str) -> list[dict[str, float]]:
    """Measures of a pair of views, of each direction where these have spaces of their own."""
    found = spaces(a, b)
    found = found if isinstance(found, list) else [found]
    lines = []
    for (Za, Zb), (Ta, Tb) in found:
        D = cdist(Ta, Tb)
        true = np.diag(D)
        nearer = ((true[:, None] > D).mean() + (true > D).mean()) / 2
        votes = [
            vote(source, split.y_train[s], target)
            for source, s, target in ((Za, a, Tb), (Zb, b, Ta))
        ]
        kept = [kept_neighbors(split.test_pcs[v], T) for v, T in ((a, Ta), (b, Tb))]
        lines.append(
            {
                "foscttm": nearer,
                "accuracy": np.mean([(found == split.y_test).mean() for found in votes]),
                "mixing": mixing(Ta, Tb),
                "kept": np.mean(kept),
            }
        )
    return lines


def vote(Z: Any, y: Any, targets: Any) -> Any:
    """Classes of targets by their nearest rows Z."""
    near = np.argpartition(cdist(targets, Z), N_VOTES - 1, axis=1)[:, :N_VOTES]
    counts = (y[near][:, :, None] == np.arange(y.max() + 1)).sum(axis=1)
    return counts.argmax(axis=1)


def nearest(Z: Any, k: int) -> Any:
    """The k nearest other rows of every row."""
    D = cdist(Z, Z)
    np.fill_diagonal(D, np.inf)
    return np.argpartition(D, k - 1, axis=1)[:, :k]


def kept_neighbors(X: Any, Z: Any) -> float:
    """Share of the nearest rows by X that are nearest by Z."""
    k = min(N_KEPT, len(X) - 1)
    pairs = zip(nearest(X, k), nearest(Z, k), strict=True)
    return float(np.mean([len(np.intersect1d(x, z)) / k for x, z in pairs]))


def mixing(A: Any, B: Any) -> float:
    """Inverse Simpson index of two views among the nearest rows."""
    of_second = nearest(np.vstack([A, B]), min(N_MIXED, 2 * len(A) - 1)) >= len(A)
    p = of_second.mean(axis=1)
    return float(np.mean(1 / (p**2 + (1 - p) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--links", type=int, nargs="+", default=list(LINKS))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    lines = (
        [json.loads(x) for x in given.out.read_text().splitlines()] if given.out.exists() else []
    )
    done = {tuple(line[key] for key in KEYS) for line in lines}
    jobs = []
    for name in given.datasets if given.data else ("multiome", "handwritten"):
        for links in given.links:
            if (name, links) == ("scgem", 200):  # 177 cells
                continue
            methods = [m for m in given.methods if links > 0 or m in WITHOUT_LINKS]
            for split in range(given.splits):
                left = [m for m in methods if (name, links, split, m) not in done]
                if left:
                    jobs.append((name, links, split, left, given.data))
    for found in Parallel(given.jobs, return_as="generator")(delayed(run)(*job) for job in jobs):
        lines += found
        with given.out.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in found)
    print("\n".join(summarize(lines)))


def summarize(lines: list[dict[str, Any]]) -> list[str]:
    """FOSCTTM and accuracy of every method, means over splits and then over datasets."""
    texts = []
    for links in sorted({line["links"] for line in lines}):
        texts.append(f"{links} links: FOSCTTM, accuracy, mixing, neighbors kept")
        for method in METHODS:
            cells = {}
            for line in lines:
                if line["links"] == links and line["method"] == method and "error" not in line:
                    values = [line[k] for k in ("foscttm", "accuracy", "mixing", "kept")]
                    cells.setdefault(line["dataset"], []).append(values)
            if cells:
                means = {name: np.mean(values, axis=0) for name, values in cells.items()}
                total = np.mean(list(means.values()), axis=0)
                each = ", ".join(f"{name} {x[0]:.3f}/{x[1]:.3f}" for name, x in means.items())
                texts.append(f"  {method:22s} {' '.join(f'{x:.3f}' for x in total)} | {each}")
    return texts


if __name__ == "__main__":
    main()
