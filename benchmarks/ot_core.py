"""Speed of the transport core against POT, geomloss and OTT-JAX, on one thread, in one run.

    python benchmarks/ot_core.py                  # tables, and results/bench/ot_core.json
    python benchmarks/ot_core.py --only small     # without the million-point case
    python benchmarks/ot_core.py --only sinkhorn

Contestants get the same inputs in the same process, take turns, and are timed equally often; each
counts with its best time, because whatever else the machine does only adds to it. The claim is the
ratio of the two.
"""

from __future__ import annotations

import os

# Before anything is imported: one thread for everybody.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["XLA_FLAGS"] = (
    "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1 "
    + os.environ.get("XLA_FLAGS", "")
)

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import ot
import torch
from machine import machine
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hotview.ot import draw_directions, sinkhorn, sliced_cost

RESULTS = Path(__file__).parent.parent / "results" / "bench" / "ot_core.json"


@dataclass(frozen=True)
class Case:
    name: str
    sizes: tuple[int, ...]
    n_directions: int
    target: float
    rounds: int
    burst: int = 1
    dimension: int = 10


CASES = (
    Case("S=6 n=400 M=3 (the paper's size)", (400,) * 6, 3, 15, 40, 10),
    Case("S=6 n=1,000 M=50", (1000,) * 6, 50, 25, 30),
    Case("S=12 n=1,000 M=50", (1000,) * 12, 50, 45, 10),
    Case("S=6 n=500…1,500 M=50", (500, 700, 900, 1100, 1300, 1500), 50, 15, 30),
    Case("S=2 n=1,000 M=50 (one pair)", (1000,) * 2, 50, 4, 100),
    Case("S=6 n=10,000 M=50", (10_000,) * 6, 50, 50, 5),
    Case("S=6 n=1,000,000 M=3", (1_000_000,) * 6, 3, 70, 2),
)


def best_times(
    contestants: dict[str, Callable[[], object]], rounds: int, burst: int = 1
) -> dict[str, float]:
    """Best time of a call, each contestant making `burst` calls in a row, in turns."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, work in contestants.items():
            start = time.perf_counter()
            for _ in range(burst):
                work()
            best[name] = min(best[name], (time.perf_counter() - start) / burst)
    return best


def touch_memory(gigabytes: float) -> None:
    """Have the system hand out its pages once, so that no contestant pays for being first."""
    np.ones(int(gigabytes * 2**27)).sum()


def pot_costs(Zs: list[torch.Tensor], theta: torch.Tensor) -> list[torch.Tensor]:
    return [
        ot.sliced_wasserstein_distance(X, Y, projections=theta.T, p=2) ** 2
        for i, X in enumerate(Zs)
        for Y in Zs[i + 1 :]
    ]


def run_case(case: Case) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    # Each cloud a little apart, so that all costs differ from rounding.
    Zs = [
        (torch.randn(n, case.dimension, generator=generator) + 0.1 * s).requires_grad_()
        for s, n in enumerate(case.sizes)
    ]
    theta = draw_directions(case.n_directions, case.dimension, generator=generator)

    def forward(costs: Callable[[], object]) -> Callable[[], None]:
        def work() -> None:
            with torch.no_grad():
                costs()

        return work

    def both(total: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def work() -> None:
            for Z in Zs:
                Z.grad = None
            total().backward()

        return work

    ours = {
        "ours_forward": forward(lambda: sliced_cost(Zs, directions=theta)),
        "ours_both": both(lambda: sliced_cost(Zs, directions=theta).sum() / 2),
    }
    pot = {
        "pot_forward": forward(lambda: pot_costs(Zs, theta)),
        "pot_both": both(lambda: torch.stack(pot_costs(Zs, theta)).sum()),
    }
    ours["ours_both"]()
    grads = torch.cat([Z.grad for Z in Zs])
    times = best_times({**ours, **pot}, case.rounds, case.burst)
    pot_grads = torch.cat([Z.grad for Z in Zs])
    return {
        **asdict(case),
        **{f"{name}_ms": 1e3 * seconds for name, seconds in times.items()},
        "ratio_forward": times["pot_forward"] / times["ours_forward"],
        "ratio_both": times["pot_both"] / times["ours_both"],
        "gradient_difference": ((grads - pot_grads).norm() / pot_grads.norm()).item(),
    }


def run_sinkhorn(dtype: torch.dtype) -> dict[str, object]:
    """6 × 4, reg 0.1, tol 1e-6: plan (forward), and value with gradient (both)."""
    import jax
    import jax.numpy as jnp
    from geomloss import ot as geomloss
    from ott.geometry.geometry import Geometry
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.sinkhorn import Sinkhorn

    jax.config.update("jax_enable_x64", dtype == torch.float64)
    generator = torch.Generator().manual_seed(0)
    C = torch.rand(6, 4, generator=generator, dtype=torch.float64).to(dtype)
    a, b = torch.full((6,), 1 / 6, dtype=dtype), torch.full((4,), 1 / 4, dtype=dtype)
    C_grad = C.clone().requires_grad_()
    jC, ja, jb = (jnp.asarray(x.numpy()) for x in (C, a, b))

    def ott(C: jax.Array) -> object:
        return Sinkhorn(threshold=1e-6)(LinearProblem(Geometry(C, epsilon=0.1), ja, jb))

    ott_plan = jax.jit(lambda C: ott(C).matrix)
    ott_value = jax.jit(jax.value_and_grad(lambda C: ott(C).reg_ot_cost))

    def backward(value: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def work() -> None:
            C_grad.grad = None
            value().backward()

        return work

    def pot_value(method: str) -> torch.Tensor:
        W = ot.sinkhorn(a, b, C_grad, 0.1, method=method, stopThr=1e-6)
        return (W * C_grad).sum()

    contestants: dict[str, Callable[[], object]] = {
        "ours_forward": lambda: sinkhorn(C, reg=0.1, tol=1e-6).W,
        "pot_forward": lambda: ot.sinkhorn(a, b, C, 0.1, stopThr=1e-6),
        "pot_log_forward": lambda: ot.sinkhorn(a, b, C, 0.1, method="sinkhorn_log", stopThr=1e-6),
        # geomloss has no tolerance for explicit costs: as many iterations as the others make.
        "geomloss_forward": lambda: geomloss.solve(C, reg=0.1, max_iter=30).plan,
        "ott_forward": lambda: jax.block_until_ready(ott_plan(jC)),
        "ours_both": backward(lambda: sinkhorn(C_grad, reg=0.1, tol=1e-6).value),
        "pot_both": backward(lambda: pot_value("sinkhorn")),
        "pot_log_both": backward(lambda: pot_value("sinkhorn_log")),
        "geomloss_both": backward(lambda: geomloss.solve(C_grad, reg=0.1, max_iter=30).value),
        "ott_both": lambda: jax.block_until_ready(ott_value(jC)),
    }
    for work in contestants.values():  # compile what compiles
        work()
    times = best_times(contestants, rounds=40, burst=25)
    reference = sinkhorn(C.double(), reg=0.1, tol=1e-12).W
    plans = {
        "ours": sinkhorn(C, reg=0.1, tol=1e-6).W,
        "pot": ot.sinkhorn(a, b, C, 0.1, stopThr=1e-6),
        "geomloss": geomloss.solve(C, reg=0.1, max_iter=30).plan,
        "ott": torch.tensor(np.asarray(ott_plan(jC))),
    }
    return {
        "name": f"Sinkhorn 6×4, reg 0.1, tol 1e-6, {str(dtype).removeprefix('torch.')}",
        **{f"{name}_us": 1e6 * seconds for name, seconds in times.items()},
        "plan_error": {k: (W.double() - reference).abs().sum().item() for k, W in plans.items()},
    }


def sliced_table(rows: list[dict[str, object]]) -> Table:
    table = Table(title="Sliced cost, all pairs: milliseconds, and POT's time over ours")
    columns = ("case", "ours fwd", "POT fwd", "ratio", "ours f+b", "POT f+b", "ratio", "target")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right")
    for r in rows:
        met = "" if r["ratio_both"] >= r["target"] else " missed"
        table.add_row(
            r["name"],
            *(f"{r[k]:,.2f}" for k in ("ours_forward_ms", "pot_forward_ms")),
            f"{r['ratio_forward']:.1f}×",
            *(f"{r[k]:,.2f}" for k in ("ours_both_ms", "pot_both_ms")),
            f"[bold]{r['ratio_both']:.1f}×[/bold]",
            f"{r['target']:g}×{met}",
        )
    return table


def sinkhorn_table(rows: list[dict[str, object]]) -> Table:
    table = Table(title="Sinkhorn 6×4, reg 0.1, tol 1e-6: microseconds (their time over ours)")
    table.add_column("")
    for r in rows:
        for pass_ in ("forward", "forward+backward"):
            table.add_column(f"{str(r['name']).split(', ')[-1]} {pass_}", justify="right")
    for who in ("ours", "pot", "pot_log", "geomloss", "ott"):
        cells = []
        for r in rows:
            for pass_ in ("forward", "both"):
                ours, theirs = r[f"ours_{pass_}_us"], r.get(f"{who}_{pass_}_us")
                cells.append("–" if theirs is None else f"{theirs:.0f} ({theirs / ours:.2f}×)")
        table.add_row(who, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=("small", "sinkhorn"), help="leave the long cases out")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # POT warns at every call that has not converged
    cases = {None: CASES, "small": CASES[:-1], "sinkhorn": ()}[options.only]
    console = Console()
    sliced, small = [], []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("warming up", total=len(cases) + 3)
        touch_memory(8)
        progress.advance(task)
        for dtype in (torch.float32, torch.float64):
            progress.update(task, description="Sinkhorn")
            small.append(run_sinkhorn(dtype))
            progress.advance(task)
        for case in cases:
            progress.update(task, description=case.name)
            sliced.append(run_case(case))
            progress.advance(task)
    if sliced:
        console.print(sliced_table(sliced))
    console.print(sinkhorn_table(small))
    if options.only is None or options.out != RESULTS:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        draft = options.out.with_suffix(".tmp")
        record = {
            "machine": machine("POT", "geomloss", "ott-jax", "jax"),
            "sliced_cost": sliced,
            "sinkhorn": small,
        }
        draft.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        draft.replace(options.out)
        console.print(f"Written to {options.out}", soft_wrap=True)


if __name__ == "__main__":
    main()
