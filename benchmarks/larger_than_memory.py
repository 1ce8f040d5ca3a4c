"""Views larger than memory: how much a process takes of its own, and how long it waits for rows.

    python benchmarks/larger_than_memory.py                  # 15 GB of files; needs as much disk
    python benchmarks/larger_than_memory.py --quick          # 2 GB, the encoder alone
    python benchmarks/larger_than_memory.py --data DIR       # where the files are written meanwhile
    python benchmarks/larger_than_memory.py --device cuda

Six views of 10⁷ rows and 64 columns of float32, memory-mapped npy files, in one epoch of
`MultiViewEncoder`. What the system keeps of the files in memory is dropped before the first look at
them and again before the first step, as if memory were too small. Every part runs in a process of
its own, whose anonymous memory (RssAnon, as Linux counts it) is looked at every 20 ms; before
hotview does anything, Python with torch and scikit-learn has some 240 MB.

The floors, measured in the same run: an epoch has to read all bytes once (the files from beginning
to end, by numpy), and to take its steps (the same number of steps, all on one batch that lies in
memory). How long a step waits for its rows is the time within `Sampler.draw`. The first step is
reported separately.

The classifier learns without pseudo-labels, one replica, all rows linked and labeled. Parquet has
1.2 million rows: it is unpacked once into a mapped file, by row groups, and then is as any other.
On a GPU with room for them the views are copied there at once, so that nobody waits for rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measuring import RESULTS, write_part
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from stored_views import (
    PeakMemory,
    alone,
    bytes_of,
    folder_with_room,
    forget,
    read_through,
    write_parquet,
    write_views,
)

OUT = RESULTS / "larger_than_memory.json"
N_ROWS, N_QUICK, N_PARQUET = 10_000_000, 1_200_000, 1_200_000
BOUND = 2e9  # bytes
STEPS, STEPS_QUICK = 2000, 100  # of what is not a whole epoch
TARGETS = {
    "encoder: 2 GB over its memory": 1.0,
    "classifier: 2 GB over its memory": 1.0,
    "parquet: 2 GB over its memory": 1.0,
    "step on rows in memory over step on rows read": 0.9,
}


def fit_encoder(views: list[np.memmap], device: str, steps: int | None) -> Any:
    from hotview import MultiViewEncoder

    return MultiViewEncoder(**options(device, steps)).fit(views)


def fit_classifier(views: list[np.memmap], device: str, steps: int | None) -> Any:
    from hotview import MultiViewClassifier

    y = (views[0][:, 0] > 0).astype(np.int8)
    model = MultiViewClassifier(pseudo_labels=False, n_estimators=1, **options(device, steps))
    return model.fit(views, y)


def options(device: str, steps: int | None) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    return {
        "max_epochs": 1,
        "steps_per_epoch": steps,
        "random_state": 0,
        "verbose": False,
        "device": device,
    }


FITS: dict[str, Callable[..., Any]] = {"encoder": fit_encoder, "classifier": fit_classifier}


def measure(
    kind: str, paths: list[Path], device: str, steps: int | None, rows: str
) -> dict[str, Any]:
    """Fit once; `rows` are "read" in every step, or "in memory"."""
    views = [np.load(path, mmap_mode="r") for path in paths]
    is_cold = forget(paths)
    start = time.perf_counter()
    with (
        watched_draws(lambda: forget(paths, views), once=rows == "in memory") as waits,
        PeakMemory() as peak,
    ):
        model = FITS[kind](views, device, steps)
    total = time.perf_counter() - start
    first, *others = waits or [0.0]
    seconds = model.history_[-1]["seconds"] - first
    n_steps = len(others) or steps
    return {
        "kind": kind,
        "rows": rows,
        "cold": is_cold,
        "steps": n_steps,
        "first_wait_s": first,
        "epoch_s": seconds,
        "step_ms": 1e3 * seconds / n_steps if n_steps else None,
        "waiting_share": sum(others) / seconds,
        "fit_s": total,
        "peak_bytes": peak.bytes,
    }


@contextmanager
def watched_draws(begin: Callable[[], object], *, once: bool) -> Iterator[list[float]]:
    """How long each batch is waited for; `once`: the first one is taken again and again."""
    from hotview.training.batches import Sampler

    waits: list[float] = []
    original = Sampler.draw
    kept: dict[str, Any] = {}

    def draw(self: Sampler) -> Any:
        start = time.perf_counter()
        if not waits:
            begin()
        batch = kept.get("batch") if once else None
        if batch is None:
            batch = kept["batch"] = original(self)
        waits.append(time.perf_counter() - start)
        return batch

    Sampler.draw = draw  # type: ignore[method-assign]
    try:
        yield waits
    finally:
        Sampler.draw = original  # type: ignore[method-assign]


def measure_reading(paths: list[Path]) -> dict[str, Any]:
    """Seconds to read all files from the disk, and one from memory, and to look at its rows."""
    from hotview._validation import check_tables
    from hotview.preprocessing.table_scan import scan_tables

    found = {}
    if forget(paths):
        found["read_from_disk_s"] = seconds_of(lambda: read_through(paths))
    (table,) = check_tables([np.load(paths[0], mmap_mode="r")]).values()

    def scan() -> None:
        scan_tables("view", [table], preprocessing="standardize", impute=None)

    # One file surely stays in memory: what is measured is not the disk.
    first = paths[:1]
    read_through(first)
    found["read_one_view_s"] = min(seconds_of(lambda: read_through(first)) for _ in range(2))
    found["scan_one_view_s"] = min(seconds_of(scan) for _ in range(2))
    return found


def measure_parquet(paths: list[Path], device: str, steps: int) -> dict[str, Any]:
    from hotview import MultiViewEncoder
    from hotview.datasets import read_views

    n_bytes = sum(path.with_suffix(".npy").stat().st_size for path in paths)
    forget(paths)
    with PeakMemory() as peak:
        start = time.perf_counter()
        views = read_views(paths, mmap=True)
        read = time.perf_counter() - start
        model = MultiViewEncoder(**options(device, steps)).fit(views)
    assert not any(isinstance(X, np.ndarray) for X in views.values())  # they stayed on disk
    return {
        "bytes": n_bytes,
        "read_s": read,
        "epoch_s": model.history_[-1]["seconds"],
        "steps": steps,
        "peak_bytes": peak.bytes,
    }


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(folder: Path, device: str, *, quick: bool) -> dict[str, Any]:
    n_rows, steps = (N_QUICK, STEPS_QUICK) if quick else (N_ROWS, STEPS)
    jobs = jobs_of(device, steps, quick=quick)
    found: dict[str, Any] = {"n_rows": n_rows, "bytes": bytes_of(n_rows)}
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("writing the views", total=len(jobs) + 3)
        paths = write_views(folder, n_rows)
        bar.update(task, advance=1, description="reading")
        found |= alone(measure_reading, paths)
        fits = []
        bar.update(task, advance=1)
        for kind, what, n, rows in jobs:
            bar.update(task, description=f"{kind} {what}, rows {rows}")
            fits.append({"what": what, **alone(measure, kind, paths, device, n, rows)})
            bar.update(task, advance=1)
        bar.update(task, description="parquet")
        if not quick:
            paths = write_parquet(write_views(folder / "fewer", N_PARQUET))
            found["parquet"] = alone(measure_parquet, paths, device, steps)
        bar.update(task, advance=1)
    return {**found, "fits": fits}


def jobs_of(device: str, steps: int, *, quick: bool) -> list[tuple[str, str, int | None, str]]:
    """What is fitted: who, which time, how many steps (None: an epoch), and how rows come."""
    is_short = quick or device == "cuda"  # where all rows are
    turns = [1] if is_short else [1, 2]
    ways = ["read"] + ["in memory"] * (device == "cpu")
    jobs: list[tuple[str, str, int | None, str]] = [
        ("encoder", f"turn {i}", steps, rows) for i in turns for rows in ways
    ]
    if not quick:
        jobs.append(("classifier", "", steps, "read"))
        jobs.append(("encoder", "whole epoch", None, "read"))
    return jobs


def ratios_of(found: dict[str, Any]) -> dict[str, float]:
    fits = found["fits"]
    ratios = {
        f"{kind}: 2 GB over its memory": BOUND
        / max(f["peak_bytes"] for f in fits if f["kind"] == kind)
        for kind in dict.fromkeys(fit["kind"] for fit in fits)
    }
    if "parquet" in found:
        ratios["parquet: 2 GB over its memory"] = BOUND / found["parquet"]["peak_bytes"]
    name = "reading over the first look at all rows"
    ratios[name] = found["read_one_view_s"] / found["scan_one_view_s"]
    turns = [fit for fit in fits if fit["what"].startswith("turn")]
    best = {
        rows: min(fit["step_ms"] for fit in turns if fit["rows"] == rows)
        for rows in dict.fromkeys(fit["rows"] for fit in turns)
    }
    if "in memory" in best:
        name = "step on rows in memory over step on rows read"
        ratios[name] = best["in memory"] / best["read"]
    return ratios


def show(found: dict[str, Any], ratios: dict[str, float]) -> None:
    console = Console()
    table = Table(title=f"{found['bytes'] / 1e9:.1f} GB of views, {found['n_rows']:,} rows each")
    for column in ("fit", "rows", "steps", "epoch s", "ms a step", "waiting", "fit s", "memory MB"):
        table.add_column(column, justify="left" if column in ("fit", "rows") else "right")
    for fit in found["fits"]:
        table.add_row(
            f"{fit['kind']} {fit['what']}",
            fit["rows"],
            f"{fit['steps'] or 0:,}",
            f"{fit['epoch_s']:.1f}",
            "" if fit["step_ms"] is None else f"{fit['step_ms']:.2f}",
            f"{100 * fit['waiting_share']:.1f} %",
            f"{fit['fit_s']:.1f}",
            f"{fit['peak_bytes'] / 1e6:,.0f}",
        )
    console.print(table)
    if parquet := found.get("parquet"):
        console.print(
            f"parquet: {parquet['bytes'] / 1e9:.1f} GB read in {parquet['read_s']:.1f} s, "
            f"{parquet['peak_bytes'] / 1e6:,.0f} MB"
        )
    for name, ratio in ratios.items():
        console.print(f"{name}: {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--data", type=Path, help="a folder on a disk with room for the views")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    n_rows = N_QUICK if arguments.quick else N_ROWS + N_PARQUET
    with folder_with_room(arguments.data, bytes_of(n_rows) + 2.2 * bytes_of(N_PARQUET)) as folder:
        found = run(folder, arguments.device, quick=arguments.quick)
    ratios = ratios_of(found)
    show(found, ratios)
    targets = {name: target for name, target in TARGETS.items() if name in ratios}
    write_part(
        arguments.out,
        arguments.device,
        "pyarrow",
        ratios=ratios,
        targets=targets,
        quick=arguments.quick,
        **found,
    )


if __name__ == "__main__":
    main()
