"""Two views without a single linked row: whose labels can be carried over to the other.

    python benchmarks/without_links.py --data PATH    # about 2 minutes; needs the extra "bench"

PATH is a folder with snareseq.npz and scgem.npz. All rows of both views are matched by a plan, and
each row of one view gets the class for which the plan's mass from the rows of the other votes. The
plans are (a) entropic transport between principal components whose signs hotview made agree, and
(b) POT's entropic Gromov-Wasserstein between distances on graphs of neighbors. Nothing learns from
a class; classes only judge. The result is ``results/default/without_links.json``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import ot  # type: ignore[import-untyped]
import torch
from machine import machine
from scipy.sparse import diags_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

from hotview.datasets import read_views
from hotview.ot import sinkhorn
from hotview.preprocessing.pca import align_signs
from paper.json_files import write_json

OUT = Path(__file__).parent.parent / "results" / "default" / "without_links.json"
DATASETS = ("snareseq", "scgem")
COMPONENTS = (3, 5, 10)
REG = 0.02  # of the transport between components, relative to the mean cost
SETTINGS = ((110, 1e-3), (30, 1e-3), (50, 5e-3))  # neighbors and entropy, Gromov-Wasserstein
MOST_NEIGHBORS = 0.2  # as a share of the rows


def load(name: str, data: Path) -> tuple[dict[str, Any], list[Any], int]:
    """Both views, their classes, numbered, and how many there are."""
    views = read_views(data / f"{name}.npz")
    with np.load(data / f"{name}.npz", allow_pickle=False) as arrays:
        known, y = np.unique(arrays["y"], return_inverse=True)
    (a, A), (b, B) = views.items()
    # Rows of the file are linked, and methods that break ties by position would see that.
    order = np.random.default_rng(0).permutation(len(y))
    return {a: A.astype(float), b: B[order].astype(float)}, [y, y[order]], len(known)


def match_components(views: dict[str, Any], n: int) -> tuple[Any, dict[str, Any]]:
    """Plan between principal components, scaled to variance 1, and what to know of them."""
    clouds, ratios = [], {}
    for name, X in views.items():
        Z = PCA(n, random_state=0).fit_transform(StandardScaler().fit_transform(X))
        spread = Z.std(axis=0)
        ratios[name] = round(float((spread[0] / spread[-1]) ** 2), 4)
        clouds.append(Z / spread)
    ZA, ZB = (Z * signs for Z, signs in zip(clouds, align_signs(clouds), strict=True))
    C = torch.as_tensor(cdist(ZA, ZB, "sqeuclidean") / n)
    plan = sinkhorn(C, reg=REG, relative=True)
    # Components of equal variances are arbitrary, and so is what follows from them.
    return plan.W.numpy(), {
        "variance_of_first_over_last": ratios,
        "converged": bool(plan.converged),
    }


def graph_distances(X: Any, k: int) -> Any:
    """Numbers of steps between rows on the graph of the k rows that correlate most, at most 1."""
    D = cdist(X, X, "correlation")
    D[np.isnan(D)] = 3.0  # a row of equal values correlates with none: farther than any
    np.fill_diagonal(D, 0.0)
    graph = kneighbors_graph(D, k, metric="precomputed", include_self=False)
    graph = diags_array(1.0 * (np.ptp(X, axis=1) > 0)) @ graph  # its neighbors would be arbitrary
    steps = shortest_path(graph.maximum(graph.T), directed=False, unweighted=True)
    reached = np.isfinite(steps)
    steps[~reached] = steps[reached].max()
    return steps / steps.max()


def match_graphs(A: Any, B: Any, k: int, entropy: float, iterations: int) -> tuple[Any, float]:
    """Plan, and its cost without the entropy."""
    plan, log = ot.gromov.entropic_gromov_wasserstein(
        graph_distances(A, k),
        graph_distances(B, k),
        epsilon=entropy,
        max_iter=iterations,
        log=True,
        warn=False,
    )
    return plan, float(log["gw_dist"])


def judge(plan: Any, names: list[str], ys: list[Any], n_classes: int) -> dict[str, Any]:
    """Share of the rows that get their own class, both ways, and what the plan's rows are off."""
    a, b = names
    one_hot = [np.eye(n_classes)[y] for y in ys]
    told = [(plan @ one_hot[1]).argmax(axis=1), (plan.T @ one_hot[0]).argmax(axis=1)]
    right = [float((guess == y).mean()) for guess, y in zip(told, ys, strict=True)]
    off = sum(float(np.abs(plan.sum(i) - 1 / plan.shape[1 - i]).sum()) for i in (0, 1))
    return {
        "accuracy": {f"{a} to {b}": round(right[1], 4), f"{b} to {a}": round(right[0], 4)},
        "marginal_error": float(f"{off:.2g}"),
    }


def run(name: str, data: Path, iterations: int) -> dict[str, Any]:
    views, ys, n_classes = load(name, data)
    names, (A, B) = list(views), views.values()
    components, graphs = [], []
    for n in COMPONENTS:
        plan, about = match_components(views, n)
        found = {"components": n, **about, **judge(plan, names, ys, n_classes)}
        components.append(found)
        print(name, found, flush=True)
    for k, entropy in SETTINGS:
        start = time.perf_counter()
        used = min(k, int(MOST_NEIGHBORS * len(A)))
        plan, cost = match_graphs(A, B, used, entropy, iterations)
        found = {"neighbors": k, "neighbors_used": used, "entropy": entropy, "cost": cost}
        found |= judge(plan, names, ys, n_classes)
        found["seconds"] = round(time.perf_counter() - start, 1)
        graphs.append(found)
        print(name, found, flush=True)
    return {
        "rows": len(A),
        "classes": n_classes,
        "majority": round(float(np.bincount(ys[0]).max() / len(A)), 4),
        "components": components,
        "gromov_wasserstein": graphs,
        "gromov_wasserstein_of_lowest_cost": min(graphs, key=lambda found: found["cost"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--iterations", type=int, default=15, help="of Gromov-Wasserstein")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # correlations of a row of equal values, and unconnected graphs
    found = {name: run(name, arguments.data, arguments.iterations) for name in DATASETS}
    record = {
        "machine": machine("scipy", "scikit-learn", "POT"),
        "what": "share of the rows of a view that get their class from the other, no row linked",
        "gromov_wasserstein_iterations": arguments.iterations,
        "transport_reg_relative": REG,
        "datasets": found,
    }
    write_json(arguments.out, record)


if __name__ == "__main__":
    main()
