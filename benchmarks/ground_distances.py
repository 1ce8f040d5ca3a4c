"""What one matrix C of ground distances costs: sliced, exact assignment and Sinkhorn, in one run.

    python benchmarks/ground_distances.py            # about 3 minutes; needs the extra "bench"
    python benchmarks/ground_distances.py --quick    # a smoke run; writes only where --out says

The paper's algorithm 2 compares S = 6 views with K references, N points of dimension 10 in each,
and says that with sliced Wasserstein C costs O(S K M N), with Wasserstein O(S K N³) and with
Sinkhorn's J iterations O(S K J N²); W, solved from C, costs O(S K J) in all of them. Here N, K and
J grow one at a time. A contestant computes C and the gradient of its mean in all points; where a
plan between points is found, it is held fixed in the gradient, which is exact and the cheapest.
Contestants get the same inputs in the same process, on one thread, and take turns, equally many; a
turn is one call, or as many as fit into 20 ms, and each counts with its best turn. The claims are
ratios of these times, and slopes of log time against log N, log K and log J.
"""

from __future__ import annotations

import os

# Before anything is imported: one thread for everybody.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mode
from typing import Any

import numpy as np
import ot  # type: ignore[import-untyped]
import torch
from machine import machine
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from hotview.ot import draw_directions, sinkhorn, sliced_cost

RESULTS = Path(__file__).parent.parent / "results" / "bench" / "ground_distances.json"
N_VIEWS, DIMENSION = 6, 10
REG = 0.05  # of Sinkhorn between points, relative to their mean squared distance
BETA = 0.02  # of W, relative to the mean of C: so that no iteration is superfluous
TURN = 0.02  # seconds that a turn lasts at least
CONTESTANTS = {
    "sliced_3": "hotview.ot.sliced_cost, 3 iid directions (the paper's), drawn anew",
    "sliced_50": "hotview.ot.sliced_cost, 50 orthogonal directions, drawn anew",
    "assignment": "scipy.optimize.linear_sum_assignment of every pair of clouds",
    "emd2": "POT, ot.emd2 (network simplex) of every pair of clouds",
    "sinkhorn": "POT, ot.sinkhorn on arrays, J iterations, exponentials",
    "sinkhorn_log": "POT, ot.sinkhorn on tensors, J iterations, in the log domain",
    "plan": "hotview.ot.sinkhorn, W from a given C, J iterations; every step needs it",
}
#: whose time depends on what
GROWS_WITH = {
    "n": [name for name in CONTESTANTS if name != "plan"],
    "k": list(CONTESTANTS),
    "j": ["sinkhorn", "sinkhorn_log", "plan"],
}


@dataclass(frozen=True)
class Case:
    n: int
    k: int
    j: int
    rounds: int


def make_cases(quick: bool) -> list[Case]:
    if quick:
        return [Case(50, 3, 20, 2), Case(100, 3, 20, 2), Case(100, 6, 20, 2), Case(100, 3, 50, 2)]
    return [
        *(Case(n, 3, 20, rounds) for n, rounds in ((100, 20), (200, 10), (400, 6), (800, 4))),
        Case(1600, 3, 20, 3),
        *(Case(400, k, 20, 6) for k in (1, 6, 12)),
        *(Case(400, 3, j, 6) for j in (10, 50, 100)),
    ]


def mean_time(work: Callable[[], object]) -> float:
    """Mean time of the calls of one turn, which lasts a call, or as many as fit into it."""
    n, start = 0, time.perf_counter()
    while n == 0 or time.perf_counter() - start < TURN:
        work()
        n += 1
    return (time.perf_counter() - start) / n


def best_times(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Best turn of each contestant."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, work in contestants.items():
            best[name] = min(best[name], mean_time(work))
    return best


def make_clouds(n: int, k: int, seed: int = 0) -> tuple[list[Tensor], list[Tensor]]:
    """Views and references, each a little apart."""
    generator = torch.Generator().manual_seed(seed)
    clouds = [
        (torch.randn(n, DIMENSION, generator=generator) + 0.1 * s).requires_grad_()
        for s in range(N_VIEWS + k)
    ]
    return clouds[:N_VIEWS], clouds[N_VIEWS:]


def all_pairs(
    distance: Callable[[Tensor, Tensor], Tensor], Zs: Sequence[Tensor], Gs: Sequence[Tensor]
) -> Tensor:
    return torch.stack([torch.stack([distance(Z, G) for G in Gs]) for Z in Zs])


def by_assignment(Z: Tensor, G: Tensor) -> Tensor:
    with torch.no_grad():
        _, partner = linear_sum_assignment(ot.dist(Z, G).numpy())
    return (Z - G[torch.from_numpy(partner)]).square().sum(1).mean()


def by_emd2(Z: Tensor, G: Tensor) -> Tensor:
    a, b = (torch.full((len(X),), 1 / len(X)) for X in (Z, G))
    cost: Tensor = ot.emd2(a, b, ot.dist(Z, G), numItermax=10**7)
    return cost


def point_plan(M: Tensor, method: str, j: int, reg: float = REG) -> Tensor:
    """POT's entropic plan between points, by whichever of its backends is the faster."""
    with torch.no_grad():
        marginals = [torch.full((n,), 1 / n) for n in M.shape]
        beta = reg * M.mean().item()
        options = {"method": method, "numItermax": j, "stopThr": 0, "warn": False}
        if method == "sinkhorn_log":
            plan: Tensor = ot.sinkhorn(*marginals, M, beta, **options)
            return plan
        arrays = [x.detach().numpy() for x in (*marginals, M)]
        return torch.as_tensor(ot.sinkhorn(*arrays, beta, **options))


def by_sinkhorn(method: str, j: int) -> Callable[[Tensor, Tensor], Tensor]:
    def distance(Z: Tensor, G: Tensor) -> Tensor:
        M: Tensor = ot.dist(Z, G)
        return (point_plan(M, method, j) * M).sum()

    return distance


def run_case(case: Case) -> dict[str, Any]:
    Zs, Gs = make_clouds(case.n, case.k)
    generator = torch.Generator().manual_seed(1)

    def sliced(n: int, kind: str) -> Tensor:
        theta = draw_directions(n, DIMENSION, kind=kind, generator=generator)
        return sliced_cost(Zs, Gs, directions=theta)

    def both(costs: Callable[[], Tensor]) -> Callable[[], None]:
        def work() -> None:
            for cloud in (*Zs, *Gs):
                cloud.grad = None
            torch.autograd.backward(costs().mean())

        return work

    C = sliced(50, "orthogonal").detach()
    beta = BETA * C.mean().item()
    times = best_times(
        {
            "sliced_3": both(lambda: sliced(3, "iid")),
            "sliced_50": both(lambda: sliced(50, "orthogonal")),
            "assignment": both(lambda: all_pairs(by_assignment, Zs, Gs)),
            "emd2": both(lambda: all_pairs(by_emd2, Zs, Gs)),
            "sinkhorn": both(lambda: all_pairs(by_sinkhorn("sinkhorn", case.j), Zs, Gs)),
            "sinkhorn_log": both(lambda: all_pairs(by_sinkhorn("sinkhorn_log", case.j), Zs, Gs)),
            "plan": lambda: sinkhorn(C, reg=beta, max_iter=case.j, tol=1e-300),
        },
        case.rounds,
    )
    made = sinkhorn(C, reg=beta, max_iter=case.j, tol=1e-300).n_iter
    return {
        **asdict(case),
        "plan_iterations": made,
        "ms": {name: 1e3 * seconds for name, seconds in times.items()},
        "over_sliced_3": {name: t / times["sliced_3"] for name, t in times.items()},
        "over_sliced_50": {name: t / times["sliced_50"] for name, t in times.items()},
    }


def fit_slopes(cases: list[dict[str, Any]], axis: str) -> dict[str, Any]:
    """Slopes of log time against the log of n, k or j, where the others are at their usual."""
    usual = {x: mode([c[x] for c in cases]) for x in ("n", "k", "j") if x != axis}
    line = [c for c in cases if all(c[x] == usual[x] for x in usual)]
    line.sort(key=lambda c: c[axis])
    x = np.log([c[axis] for c in line])
    slopes = {}
    for name in GROWS_WITH[axis]:
        y = np.log([c["ms"][name] for c in line])
        slopes[name] = {
            "all": float(np.polyfit(x, y, 1)[0]),
            "last_two": float((y[-1] - y[-2]) / (x[-1] - x[-2])),
        }
    return {"along": [c[axis] for c in line], "at": usual, "slope": slopes}


def marginal_error(W: Tensor) -> float:
    """What rows and columns that should have equal sums are off by, added up."""
    return sum(float((W.sum(i) - 1 / W.shape[1 - i]).abs().sum()) for i in (0, 1))


def check_values(n: int) -> dict[str, Any]:
    """Whether the exact solvers agree, how far below sliced is, where Sinkhorn needs logarithms."""
    Zs, Gs = make_clouds(n, 3)
    with torch.no_grad():
        exact, other = (all_pairs(f, Zs, Gs) for f in (by_assignment, by_emd2))
        theta = draw_directions(50, DIMENSION, generator=torch.Generator().manual_seed(1))
        share = sliced_cost(Zs, Gs, directions=theta) * DIMENSION / exact
        M = ot.dist(Zs[0], Gs[0])
        errors = {
            f"{reg:g}": {
                method: marginal_error(point_plan(M, method, 1000, reg))
                for method in ("sinkhorn", "sinkhorn_log")
            }
            for reg in (REG, 0.02, 0.01, 0.002)
        }
    return {
        "n": n,
        "assignment_against_emd2": float((exact / other - 1).abs().max()),
        "d_times_sliced_over_exact": [float(share.min()), float(share.max())],
        "marginal_error_by_reg_after_1000_iterations": errors,
    }


def time_table(cases: list[dict[str, Any]], slopes: dict[str, Any]) -> Table:
    table = Table(title="C and its gradient, S = 6: ms (over 3 directions), and slopes")
    for i, name in enumerate(("N, K, J", *CONTESTANTS)):
        table.add_column(name, justify="left" if i == 0 else "right")
    for c in cases:
        table.add_row(
            f"{c['n']}, {c['k']}, {c['j']}",
            *(f"{c['ms'][x]:.2f} ({c['over_sliced_3'][x]:.1f}×)" for x in CONTESTANTS),
        )
    for axis, found in slopes.items():
        table.add_row(
            f"slope in {axis}",
            *(
                f"{s['all']:.2f} (last {s['last_two']:.2f})" if s else ""
                for s in (found["slope"].get(name) for name in CONTESTANTS)
            ),
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run with tiny clouds")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # POT warns at every call that has not converged
    console = Console()
    start = time.perf_counter()
    cases = []
    with Progress(console=console, transient=True) as progress:
        for case in progress.track(make_cases(options.quick), description="cases"):
            cases.append(run_case(case))
    slopes = {axis.upper(): fit_slopes(cases, axis) for axis in ("n", "k", "j")}
    console.print(time_table(cases, slopes))
    record = {
        "machine": machine("scipy", "POT"),
        "seconds": round(time.perf_counter() - start, 1),
        "what": "ms for C (S x K) and the gradient of its mean; the best of some rounds in turns",
        "n_views": N_VIEWS,
        "dimension": DIMENSION,
        "dtype": "float32",
        "sinkhorn_reg_relative": REG,
        "contestants": CONTESTANTS,
        "cases": cases,
        "slopes": slopes,
        "checks": check_values(100 if options.quick else 400),
    }
    if not options.quick or options.out != RESULTS:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        draft = options.out.with_suffix(".tmp")
        draft.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        draft.replace(options.out)
        console.print(f"Written to {options.out}", soft_wrap=True)


if __name__ == "__main__":
    main()
