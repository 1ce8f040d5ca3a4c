"""Speed of the transport core against POT, geomloss and OTT-JAX, in one run.

    python benchmarks/ot_core.py                  # one thread of the CPU
    python benchmarks/ot_core.py --quick          # without the long cases
    python benchmarks/ot_core.py --device cuda    # sliced costs on a GPU, against POT on it

Contestants get the same inputs in the same process, take turns, and are timed equally often; each
counts with its best time, because whatever else the machine does only adds to it. The claim is the
ratio of the two. POT is asked pair by pair, and goes back through the sum of all; on a GPU through
each pair by itself, because all do not fit with a million points. There, on any device, it gets one
turn, because that takes so long. On a GPU pairs by hand take part, too: project, sort, subtract,
which is enough for clouds of equal size.

The floor is the sort of all S·M·N projected values with the places they came from, by torch, on the
same device in the same turns: what is sorted has to be projected before and compared after. On a
GPU torch's sort moves some 170 bytes a value (six passes, each of which reads the keys, then reads
and writes a float32 and an int64), and all the rest about 60: written when projected (4), read for
all pairs (4), read and written for the gradient (8), scattered by its int64 (8 + 4 + a sector of 32
at worst), read to be turned back (4). A lower floor would need a sort of fewer passes.
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
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import ot
import torch
from measuring import RESULTS, best_times, write_part
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hotview.ot import draw_directions, sinkhorn, sliced_cost

OUT = RESULTS / "ot_core.json"


@dataclass(frozen=True)
class Case:
    name: str
    sizes: tuple[int, ...]
    n_directions: int
    target: float
    rounds: int
    burst: int = 1
    dimension: int = 10
    quick: bool = True
    pot: bool = True
    pot_rounds: int | None = None


CASES = (
    Case("S=6 n=400 M=3 (the paper's size)", (400,) * 6, 3, 15, 40, 10),
    Case("S=6 n=1,000 M=50", (1000,) * 6, 50, 25, 30),
    Case("S=12 n=1,000 M=50", (1000,) * 12, 50, 45, 10),
    Case("S=6 n=500…1,500 M=50", (500, 700, 900, 1100, 1300, 1500), 50, 15, 30),
    Case("S=2 n=1,000 M=50 (one pair)", (1000,) * 2, 50, 4, 100),
    Case("S=6 n=10,000 M=50", (10_000,) * 6, 50, 50, 5, quick=False),
    Case("S=6 n=1,000,000 M=3", (1_000_000,) * 6, 3, 70, 3, quick=False, pot_rounds=1),
)
CASES_ON_GPU = (
    Case("S=6 n=400 M=3 (the paper's size)", (400,) * 6, 3, 0, 20, 10),
    Case("S=6 n=400 M=50", (400,) * 6, 50, 0, 20, 10),
    Case("S=6 n=4,096 M=50", (4096,) * 6, 50, 0, 20, 5),
    Case("S=6 n=10,000 M=50", (10_000,) * 6, 50, 15, 20, 5),
    Case("S=6 n=1,000,000 M=50", (1_000_000,) * 6, 50, 6, 3, quick=False, pot_rounds=1),
    # 2,016 pairs are too many for POT to wait for.
    Case("S=64 n=100,000 M=50", (100_000,) * 64, 50, 0, 5, quick=False, pot=False),
)
MOST_MS = {"S=64 n=100,000 M=50": 40.0}  # on an H200


def touch_memory(gigabytes: float) -> None:
    """Have the system hand out its pages once, so that no contestant pays for being first."""
    np.ones(int(gigabytes * 2**27)).sum()


def pot_costs(Zs: list[torch.Tensor], theta: torch.Tensor) -> Iterator[torch.Tensor]:
    for i, X in enumerate(Zs):
        for Y in Zs[i + 1 :]:
            yield ot.sliced_wasserstein_distance(X, Y, projections=theta.T, p=2) ** 2


def pot_backward(Zs: list[torch.Tensor], theta: torch.Tensor) -> None:
    if Zs[0].device.type == "cpu":
        torch.stack(list(pot_costs(Zs, theta))).sum().backward()
        return
    for cost in pot_costs(Zs, theta):  # all pairs at once would not fit
        cost.backward()


def pairs_by_hand(Zs: list[torch.Tensor], theta: torch.Tensor) -> None:
    """What POT does for clouds of equal size, without its generality."""
    for i, X in enumerate(Zs):
        for Y in Zs[i + 1 :]:
            x, y = ((theta @ Z.T).sort(dim=1).values for Z in (X, Y))
            (x - y).square().mean().backward()


def run_case(case: Case, device: str) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    # Each cloud a little apart, so that all costs differ from rounding.
    Zs = [
        (torch.randn(n, case.dimension, generator=generator) + 0.1 * s).to(device).requires_grad_()
        for s, n in enumerate(case.sizes)
    ]
    theta = draw_directions(case.n_directions, case.dimension, generator=generator).to(device)
    projected = [(Z.detach() @ theta.T).T.contiguous() for Z in Zs]

    def forward(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            with torch.no_grad():
                work()

        return run

    def both(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for Z in Zs:
                Z.grad = None
            work()

        return run

    contestants: dict[str, Callable[[], object]] = {
        "ours_forward": forward(lambda: sliced_cost(Zs, directions=theta)),
        "ours_both": both(lambda: (sliced_cost(Zs, directions=theta).sum() / 2).backward()),
    }
    if len(set(case.sizes)) == 1:
        keys = torch.cat(projected)
        contestants["sort"] = lambda: torch.sort(keys, dim=-1)
    if case.pot:
        contestants["pot_forward"] = forward(lambda: list(pot_costs(Zs, theta)))
        contestants["pot_both"] = both(lambda: pot_backward(Zs, theta))
    if device == "cuda" and case.pot:
        by_hand = both(lambda: pairs_by_hand(Zs, theta))
        contestants["by_hand_both"] = by_hand
    contestants["ours_both"]()  # which compiles what compiles
    grads = torch.cat([Z.grad for Z in Zs])
    slow = {k: contestants.pop(k) for k in list(contestants) if case.pot_rounds and "pot" in k}
    times = best_times(contestants, case.rounds, case.burst, device)
    times |= best_times(slow, case.pot_rounds or 1, 1, device)
    found: dict[str, object] = {
        **asdict(case),
        **{f"{name}_ms": 1e3 * seconds for name, seconds in times.items()},
    }
    if "sort" in times:
        found["over_sort"] = times["ours_both"] / times["sort"]
    if "by_hand_both" in times:
        found["ratio_by_hand"] = times["by_hand_both"] / times["ours_both"]
    if case.pot:
        if "by_hand_both" in times:  # which came last; else these gradients are POT's already
            both(lambda: pot_backward(Zs, theta))()
        theirs = torch.cat([Z.grad for Z in Zs])
        found |= {
            "ratio_forward": times["pot_forward"] / times["ours_forward"],
            "ratio_both": times["pot_both"] / times["ours_both"],
            "gradient_difference": ((grads - theirs).norm() / theirs.norm()).item(),
        }
    return found


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
    table = Table(title="Sliced cost, all pairs: milliseconds, POT's time over ours, and the sort")
    columns = (
        "case",
        "fwd",
        "POT",
        "ratio",
        "fwd + bwd",
        "POT",
        "ratio",
        "target",
        "by hand",
        "sort",
        "over",
    )
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right")

    def cell(r: dict[str, object], name: str, layout: str) -> str:
        return layout.format(r[name]) if r.get(name) is not None else "–"

    for r in rows:
        table.add_row(
            r["name"],
            cell(r, "ours_forward_ms", "{:,.2f}"),
            cell(r, "pot_forward_ms", "{:,.2f}"),
            cell(r, "ratio_forward", "{:.1f}×"),
            cell(r, "ours_both_ms", "{:,.2f}"),
            cell(r, "pot_both_ms", "{:,.2f}"),
            cell(r, "ratio_both", "[bold]{:.1f}×[/bold]"),
            f"{r['target']:g}×" if r["target"] else "–",
            cell(r, "ratio_by_hand", "{:.1f}×"),
            cell(r, "sort_ms", "{:,.2f}"),
            cell(r, "over_sort", "{:.2f}×"),
        )
    return table


def judge(rows: list[dict[str, object]], device: str) -> tuple[dict[str, float], dict[str, float]]:
    """Ratios by which the sliced costs are judged, and what they were meant to be."""
    ratios = {f"POT, {r['name']}": r["ratio_both"] for r in rows if r["pot"]}
    targets = {f"POT, {r['name']}": r["target"] for r in rows if r["pot"] and r["target"]}
    if device == "cuda":
        ratios |= {f"sort, {r['name']}": 1 / r["over_sort"] for r in rows}
        ratios |= {f"pairs by hand, {r['name']}": r["ratio_by_hand"] for r in rows if r["pot"]}
        targets |= {f"sort, {r['name']}": 1 / 1.5 for r in rows if r["sizes"][0] >= 100_000}
        for r in rows:
            if r["name"] in MOST_MS:
                name = f"at most {MOST_MS[r['name']]:g} ms, {r['name']}"
                ratios[name], targets[name] = MOST_MS[r["name"]] / r["ours_both_ms"], 1.0
    return ratios, targets


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
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="leave the long cases out")
    parser.add_argument("--out", type=Path, default=OUT, help="where to write the JSON file")
    options = parser.parse_args()
    device = options.device
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # POT warns at every call that has not converged
    every = CASES if device == "cpu" else CASES_ON_GPU
    cases = [case for case in every if case.quick or not options.quick]
    dtypes = (torch.float32, torch.float64) if device == "cpu" else ()  # small: sooner on the CPU
    console = Console()
    sliced, small = [], []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("warming up", total=len(cases) + len(dtypes) + 1)
        touch_memory(1 if options.quick else 8)
        progress.advance(task)
        for dtype in dtypes:
            progress.update(task, description="Sinkhorn")
            small.append(run_sinkhorn(dtype))
            progress.advance(task)
        for case in cases:
            progress.update(task, description=case.name)
            sliced.append(run_case(case, device))
            progress.advance(task)
    console.print(sliced_table(sliced))
    ratios, targets = judge(sliced, device)
    if small:
        console.print(sinkhorn_table(small))
        exact = small[-1]
        ratios["Sinkhorn, POT"] = exact["pot_both_us"] / exact["ours_both_us"]
    write_part(
        options.out,
        device,
        *(("POT", "geomloss", "ott-jax", "jax") if device == "cpu" else ("POT",)),
        ratios=ratios,
        targets=targets,
        sliced_cost=sliced,
        sinkhorn=small,
    )


if __name__ == "__main__":
    main()
