"""Two unaligned views, labels in one: hotview against Gromov-Wasserstein, time and accuracy.

    python benchmarks/against_gromov_wasserstein.py [--quick] [--out FILE]    # 25 minutes; "bench"

View A has the class of every row, view B has none; columns differ, rows are shuffled, and what is
asked for is the class of every row of B. Handwritten with 1,000 and 2,000 rows per view (pix → fac
and fac → kar) and a synthetic pair with 5,000 (``make_views``, bent differently in either view).
Both views show the same people, which suits plans that match rows one to one.

- Nothing linked: POT's entropic Gromov-Wasserstein between distances on graphs of neighbors (SCOT),
  or between squared Euclidean distances of standardized columns; moscot's ``TranslationProblem`` as
  it stands. Rows of B become plan-weighted means of rows of A, and 5 nearest neighbors vote. Beside
  them ``MultiViewEncoder``, neighbors voting in the common space. hotview does not recommend this:
  its classifier refuses to be fitted without a linked row.
- 5 % of the rows linked: ``MultiViewClassifier`` as it stands, and with one replica; POT's fused
  Gromov-Wasserstein, to whose cost the distances from the linked rows are given; and, because
  linked rows have labels, logistic regression on these alone, which needs no other row.

Accuracy is over the rows of B that are not linked. Time is from arrays to classes. POT gets at most
20 outer iterations (its own limit, and SCOT's, is 1,000) and all are stopped after 2 minutes; a
contestant that was stopped counts with that time and has no accuracy. Compilation, not imports,
counts for moscot, as it does for whoever has one problem to solve. Floors: an outer iteration
multiplies two pairs of N × N matrices, 4 N³ operations in all (32 · 10⁹ for N = 2,000), and reads
two N × N matrices in every step of Sinkhorn; hotview needs neighbors, O(N² D) once, and steps on
batches of 400, whose number grows with N.
"""

from __future__ import annotations

import argparse
import logging
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ot  # type: ignore[import-untyped]
from measuring import RESULTS, write_part
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from without_links import MOST_NEIGHBORS, SETTINGS, graph_distances

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import load_handwritten, make_views

SHARE_LINKED = 0.05
ITERATIONS = 20
ENTROPY = 0.01  # moscot's default, relative to the mean cost as its is
LIMIT = 120  # seconds
DEFAULT, ONE_REPLICA = "hotview", "hotview, one replica"
NEIGHBORS_VOTE = 5
TARGET, TARGET_ROWS = 10.0, 2000


@dataclass(frozen=True)
class Pair:
    """Two views; the first `n_linked` rows of both are linked, the others are in no order."""

    name: str
    A: Any
    B: Any
    known: Any
    truth: Any
    n_linked: int

    @property
    def standardized(self) -> list[Any]:
        """Both views with columns of mean 0 and variance 1."""
        return [StandardScaler().fit_transform(X) for X in (self.A, self.B)]


def handwritten(a: str, b: str, n: int) -> Pair:
    digits = load_handwritten()
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(digits.target))[:n]
    n_linked = int(SHARE_LINKED * n)
    others = np.concatenate([rows[:n_linked], rng.permutation(rows[n_linked:])])
    A, B = digits.views[a][rows].astype(float), digits.views[b][others].astype(float)
    y = digits.target
    return Pair(f"Handwritten, {a} → {b}", A, B, y[rows], y[others], n_linked)


def synthetic(n: int) -> Pair:
    share = SHARE_LINKED / (1 - SHARE_LINKED)
    data = make_views(
        round(n * (1 - SHARE_LINKED)),
        n_views=2,
        n_groups=1,
        n_classes=10,
        n_latent=8,
        n_columns=[100, 60],
        nonlinear=True,
        labeled=share,
        random_state=0,
    )
    A, B = (np.vstack([data.linked[v], data.views[v]]).astype(float) for v in data.view_names)
    ys = [np.concatenate([data.linked_target, data.target[v]]) for v in data.view_names]
    return Pair("synthetic", A, B, ys[0], ys[1], len(data.linked_target))


def vote(A: Any, y: Any, rows: Any) -> Any:
    return KNeighborsClassifier(NEIGHBORS_VOTE).fit(A, y).predict(rows)


def project(plan: Any, A: Any) -> Any:
    """Every row of B as the mean of the rows of A that the plan, of shape A × B, moves to it."""
    return plan.T @ A / np.maximum(plan.sum(0), 1e-300)[:, None]


def mean_one(C: Any) -> Any:
    return C / C.mean()


def scot(pair: Pair) -> Any:
    """With SCOT's own numbers of neighbors and entropy."""
    k, entropy = SETTINGS[0]
    k = min(k, int(MOST_NEIGHBORS * len(pair.A)))
    costs = [graph_distances(X, k) for X in (pair.A, pair.B)]
    plan = ot.gromov.entropic_gromov_wasserstein(
        *costs, epsilon=entropy, max_iter=ITERATIONS, warn=False
    )
    return vote(pair.A, pair.known, project(plan, pair.A))


def gromov(pair: Pair) -> Any:
    A, B = pair.standardized
    costs = [mean_one(cdist(X, X, "sqeuclidean")) for X in (A, B)]
    plan = ot.gromov.entropic_gromov_wasserstein(
        *costs, epsilon=ENTROPY, max_iter=ITERATIONS, warn=False
    )
    return vote(A, pair.known, project(plan, A))


def fused_gromov(pair: Pair) -> Any:
    """Rows are described by their distances from the linked rows, which mean the same in both."""
    A, B = pair.standardized
    CA, CB = (mean_one(cdist(X, X, "sqeuclidean")) for X in (A, B))
    M = mean_one(cdist(CA[:, : pair.n_linked], CB[:, : pair.n_linked], "sqeuclidean"))
    plan = ot.gromov.entropic_fused_gromov_wasserstein(
        M, CA, CB, epsilon=ENTROPY, alpha=0.5, max_iter=ITERATIONS, warn=False
    )
    return vote(A, pair.known, project(plan, A))


def moscot(pair: Pair) -> Any:
    from anndata import AnnData
    from moscot.problems.cross_modality import TranslationProblem  # type: ignore[import-untyped]

    A, B = pair.standardized
    tables = [AnnData(X.astype(np.float32)) for X in (B, A)]
    for table in tables:
        table.obsm["X_rows"] = table.X
    problem = TranslationProblem(*tables).prepare(src_attr="X_rows", tgt_attr="X_rows")
    moved = problem.solve().translate(source="src", target="tgt", forward=True)
    return vote(A, pair.known, np.asarray(moved))


def has_moscot() -> bool:
    """Whether it is installed; it is imported here, off the clock."""
    try:
        import moscot.problems.cross_modality
    except ImportError:
        return False
    return bool(moscot)


def encoder(pair: Pair) -> Any:
    views = {"A": pair.A, "B": pair.B}
    model = MultiViewEncoder(random_state=0, device="cpu", verbose=False).fit(views)
    Z = model.transform(views, space="common")
    return vote(Z["A"], pair.known, Z["B"])


def classifier(pair: Pair, **options: Any) -> Any:
    n = pair.n_linked
    model = MultiViewClassifier(random_state=0, device="cpu", verbose=False, **options).fit(
        {"A": pair.A[:n], "B": pair.B[:n]},
        pair.known[:n],
        unaligned={"A": pair.A[n:], "B": pair.B[n:]},
        unaligned_y={"A": pair.known[n:]},
    )
    return model.predict({"B": pair.B})


def linked_alone(pair: Pair) -> Any:
    n = pair.n_linked
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return model.fit(pair.B[:n], pair.known[:n]).predict(pair.B)


#: name → what classifies B, and whether it knows the linked rows
CONTESTANTS: dict[str, tuple[Callable[[Pair], Any], bool]] = {
    "hotview, encoder": (encoder, False),
    "POT, as SCOT": (scot, False),
    "POT, Euclidean": (gromov, False),
    "moscot": (moscot, False),
    DEFAULT: (classifier, True),
    ONE_REPLICA: (partial(classifier, n_estimators=1), True),
    "POT, fused": (fused_gromov, True),
    "logistic regression on linked rows": (linked_alone, True),
}
PEERS = ("POT, as SCOT", "POT, Euclidean", "moscot", "POT, fused")
QUICK = ("POT, as SCOT", DEFAULT, ONE_REPLICA)
#: moscot cannot be stopped from Python while it computes, and would take the better part of an hour
MOST_ROWS = {"moscot": 2000}


class OverTimeError(Exception):
    """Raised in the middle of a contestant's work."""


def limited(work: Callable[[Pair], Any], pair: Pair) -> tuple[float, Any]:
    """Seconds that it took, and classes; None where it had to be stopped."""

    def stop(*_: object) -> None:
        raise OverTimeError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    start = time.perf_counter()
    try:
        told = work(pair)
    except OverTimeError:
        told = None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return time.perf_counter() - start, told


def run(pair: Pair, names: list[str], rounds: int, progress: Progress) -> dict[str, Any]:
    """Every contestant in turns, the best of whose times count; classes are the same every time."""
    where = f"{pair.name}, {len(pair.A):,} rows"
    task = progress.add_task(where, total=rounds * len(names))
    found: dict[str, Any] = {}
    for _ in range(rounds):
        for name in names:
            work, linked = CONTESTANTS[name]
            seconds, told = limited(work, pair)
            judged = slice(pair.n_linked, None)
            right = None if told is None else float((told[judged] == pair.truth[judged]).mean())
            best = min(seconds, found.get(name, {}).get("seconds", seconds))
            found[name] = {"knows_links": linked, "seconds": best, "accuracy": right}
            progress.console.print(f"{where}, {name}: {seconds:.1f} s, accuracy {_share(right)}")
            progress.advance(task)
    majority = float(np.bincount(pair.truth).max() / len(pair.truth))
    about = {"pair": pair.name, "rows": len(pair.A), "linked": pair.n_linked, "majority": majority}
    return {**about, "contestants": found}


def make_table(cases: list[dict[str, Any]]) -> Table:
    table = Table(title="Classes of B from A: seconds, and accuracy (– means it was stopped)")
    for column in ("", "links", *(f"{c['pair']}, {c['rows']:,}" for c in cases)):
        table.add_column(column, justify="right" if column else "left")
    for name, (_, linked) in CONTESTANTS.items():
        lines = [case["contestants"].get(name) for case in cases]
        if any(lines):
            cells = [f"{x['seconds']:.1f}  {_share(x['accuracy'])}" if x else "" for x in lines]
            table.add_row(name, "5 %" if linked else "none", *cells)
    return table


def _share(accuracy: float | None) -> str:
    return "–" if accuracy is None else f"{accuracy:.3f}"


def ratios_of(cases: list[dict[str, Any]]) -> dict[str, float]:
    """The seconds of peers over ours, where both were run."""
    return {
        f"{case['pair']}, {case['rows']:,}: {peer} over {ours}": (
            case["contestants"][peer]["seconds"] / case["contestants"][ours]["seconds"]
        )
        for case in cases
        for ours in (DEFAULT, ONE_REPLICA)
        for peer in PEERS
        if peer in case["contestants"]
    }


def make_pairs(quick: bool) -> list[Pair]:
    pairs = [handwritten("pix", "fac", 1000)]
    if not quick:
        pairs += [handwritten(a, b, 2000) for a, b in (("pix", "fac"), ("fac", "kar"))]
        pairs += [synthetic(5000)]
    return pairs


def contestants_for(pair: Pair, quick: bool) -> list[str]:
    names = QUICK if quick else [n for n in CONTESTANTS if n != "moscot" or has_moscot()]
    return [name for name in names if len(pair.A) <= MOST_ROWS.get(name, len(pair.A))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,000 rows, three contestants.")
    parser.add_argument("--out", type=Path, default=RESULTS / "against_gromov_wasserstein.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # unconnected graphs, plans that have not converged
    logging.getLogger("moscot").setLevel(logging.ERROR)
    cases = []
    with Progress(transient=True) as progress:
        for pair in make_pairs(options.quick):
            rounds = 2 if len(pair.A) <= 1000 and not options.quick else 1
            cases.append(run(pair, contestants_for(pair, options.quick), rounds, progress))
    Console().print(make_table(cases))
    ratios = ratios_of(cases)
    write_part(
        options.out,
        "cpu",
        "POT",
        "moscot",
        "ott-jax",
        "scikit-learn",
        ratios=ratios,
        targets={name: TARGET for name in ratios if f" {TARGET_ROWS:,}: " in name},
        what="seconds from arrays to classes of B; ratios are the peer's over hotview's",
        limit_seconds=LIMIT,
        outer_iterations=ITERATIONS,
        cases=cases,
    )


if __name__ == "__main__":
    main()
