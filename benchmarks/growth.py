"""How time and memory grow: with rows, with views, with the batch and with directions.

    python benchmarks/growth.py                  # one thread of the CPU; 15 GB of files meanwhile
    python benchmarks/growth.py --quick          # smaller ends of the same lines
    python benchmarks/growth.py --device cuda
    python benchmarks/growth.py --plot           # docs/pictures/growth.png, of the record
    python benchmarks/growth.py --data DIR       # where the files are written meanwhile

Views of 64 columns of float32, `MultiViewEncoder` with its defaults where nothing else is said:

- rows: 6 views of 10³ to 10⁷ rows, memory-mapped, batches of 1,000; seconds of an epoch, and the
  most anonymous memory of the process (one each), most of which is Python, torch and scikit-learn;
- views: 2 to 256 of 2,000 rows, batches of 400, for both couplings of the paper; a step;
- batch: 256 to 65,536 of 131,072 rows; a step;
- directions: 3 to 500, batches of 1,000; a step.

A line's slope is that of log time against log size over its upper half, where overheads that do not
grow are behind. The floor is 1 in each, a row of a view that is looked at once per epoch, and 2 for
pairs of views, of which there are S (S − 1) / 2. A slope below means that overheads are not behind
yet. Epochs are whole. The first one is not counted where there is more than one: a GPU records it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring import RESULTS, write_part
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from stored_views import N_COLUMNS, PeakMemory, alone, bytes_of, folder_with_room, write_views

OUT = RESULTS / "growth.json"
PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "growth.png"
ROWS = (10**3, 10**4, 10**5, 10**6, 10**7)
ROWS_QUICK = (10**4, 10**5)
VIEWS = (2, 4, 8, 16, 32, 64, 128, 256)
VIEWS_QUICK = (2, 8, 32)
BATCHES = (256, 1024, 4096, 16_384, 65_536)
BATCHES_QUICK = (256, 1024, 4096)
DIRECTIONS = (3, 10, 50, 100, 200, 500)
DIRECTIONS_QUICK = (3, 50, 200)
STEPS = 20  # at least, that are timed
#: of each line: what grows, its unit, and the slope that the work itself has
LINES = {
    "rows": ("rows of every view", "seconds of an epoch", 1),
    "hot-reference": ("views", "ms of a step", 1),
    "hot-pairwise": ("views", "ms of a step", 2),
    "batch": ("rows in a batch", "ms of a step", 1),
    "directions": ("directions", "ms of a step", 1),
}


def epoch_seconds(views: Sequence[Any], device: str, n_steps: int, **options: Any) -> float:
    """Best seconds of a whole epoch."""
    from hotview import MultiViewEncoder

    warnings.simplefilter("ignore")
    n_epochs = max(1 if n_steps > 1000 and device == "cpu" else 2, math.ceil(STEPS / n_steps))
    model = MultiViewEncoder(
        max_epochs=n_epochs, random_state=0, device=device, verbose=False, **options
    ).fit(views)
    seconds = [row["seconds"] for row in model.history_]
    return float(min(seconds[1:] or seconds))


def grow_rows(folder: Path, n: int, device: str) -> dict[str, Any]:
    """One point of the first line, and the memory that it took, in a process of its own."""
    views = [np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))]
    with PeakMemory() as peak:
        seconds = epoch_seconds(views, device, math.ceil(n / 1000), batch_size=1000)
    return {"size": n, "seconds": seconds, "peak_bytes": peak.bytes}


def rows_line(folder: Path, sizes: Sequence[int], device: str) -> Iterator[dict[str, Any]]:
    for n in sizes:
        here = folder / str(n)
        paths = write_views(here, n)
        yield alone(grow_rows, here, n, device)
        for path in paths:
            path.unlink()


def make(n_views: int, n_rows: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    A = random.normal(size=(10, N_COLUMNS))
    return [
        (random.normal(size=(n_rows, 10)) @ A + random.normal(size=(n_rows, N_COLUMNS))).astype(
            np.float32
        )
        for _ in range(n_views)
    ]


def views_line(sizes: Sequence[int], coupling: str, device: str) -> Iterator[dict[str, Any]]:
    for n_views in sizes:
        seconds = epoch_seconds(make(n_views, 2000), device, 5, coupling=coupling, batch_size=400)
        yield {"size": n_views, "seconds": seconds / 5}


def batch_line(sizes: Sequence[int], device: str) -> Iterator[dict[str, Any]]:
    n = 2 * max(sizes)
    views = make(6, n)
    for size in sizes:
        yield {
            "size": size,
            "seconds": epoch_seconds(views, device, n // size, batch_size=size) / (n // size),
        }


def directions_line(sizes: Sequence[int], device: str) -> Iterator[dict[str, Any]]:
    from hotview import HOTReferenceSpec

    views = make(6, 10_000)
    for n in sizes:
        seconds = epoch_seconds(
            views, device, 10, batch_size=1000, coupling=HOTReferenceSpec(n_projections=n)
        )
        yield {"size": n, "seconds": seconds / 10}


def slope(points: Sequence[dict[str, Any]]) -> float:
    """Slope of log seconds against log size over the upper half of a line."""
    upper = points[len(points) // 2 :] if len(points) > 3 else points[-2:]
    x, y = (np.log([point[key] for point in upper]) for key in ("size", "seconds"))
    return float(np.polyfit(x, y, 1)[0])


def run(folder: Path, device: str, *, quick: bool) -> dict[str, list[dict[str, Any]]]:
    rows, views, batches, directions = (
        (ROWS_QUICK, VIEWS_QUICK, BATCHES_QUICK, DIRECTIONS_QUICK)
        if quick
        else (ROWS, VIEWS, BATCHES, DIRECTIONS)
    )
    lines = {
        "directions": (directions_line(directions, device), directions),
        "batch": (batch_line(batches, device), batches),
        "hot-reference": (views_line(views, "hot-reference", device), views),
        "hot-pairwise": (views_line(views, "hot-pairwise", device), views),
        "rows": (rows_line(folder, rows, device), rows),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in LINES}
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=sum(len(sizes) for _, sizes in lines.values()))
        for name, (points, sizes) in lines.items():
            for size in sizes:
                bar.update(task, description=f"{name}: {size:,}")
                found[name].append(next(points))
                bar.update(task, advance=1)
    return found


def ratios_of(found: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    ratios = {
        f"{name}: slope of the work over slope of the time": LINES[name][2] / slope(points)
        for name, points in found.items()
    }
    peaks = [point["peak_bytes"] for point in found["rows"]]
    ratios["rows: memory for the fewest over memory for the most"] = peaks[0] / peaks[-1]
    return ratios


def show(found: dict[str, list[dict[str, Any]]]) -> None:
    table = Table(title="How time grows")
    for column in ("what grows", "from … to", "time from … to", "slope, upper half", "of the work"):
        table.add_column(column)
    for name, points in found.items():
        what, unit, work = LINES[name]
        factor = 1 if unit.startswith("seconds") else 1e3
        first, last = points[0], points[-1]
        table.add_row(
            what if name not in ("hot-reference", "hot-pairwise") else f"{what}, {name}",
            f"{first['size']:,} … {last['size']:,}",
            f"{factor * first['seconds']:.3g} … {factor * last['seconds']:.3g} {unit}",
            f"{slope(points):.2f}",
            str(work),
        )
    Console().print(table)
    for point in found["rows"]:
        print(f"{point['size']:>12,} rows: {point['peak_bytes'] / 1e6:,.0f} MB of its own")


def plot(record: dict[str, Any]) -> None:
    """Draw all lines, one device beside the other, with the slope of each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from hotview.report.canvas import VIEW_COLORS

    panels = (("rows",), ("hot-reference", "hot-pairwise"), ("batch",), ("directions",))
    figure, grid = plt.subplots(2, 3, figsize=(10.5, 6), layout="constrained")
    grid[1, 2].axis("off")
    axes = grid.flat[:5]
    colors = [light for light, _ in VIEW_COLORS]
    marks = {"cpu": "-", "cuda": "--"}
    for k, (axis, names) in enumerate(zip(axes, panels, strict=False)):
        for device, part in record.items():
            for j, name in enumerate(names):
                points = part["lines"][name]
                label = f"{name}, " if len(names) > 1 else ""
                axis.loglog(
                    [point["size"] for point in points],
                    [(1 if k == 0 else 1e3) * point["seconds"] for point in points],
                    marks.get(device, ":"),
                    color=colors[j],
                    marker="o",
                    markersize=3,
                    label=f"{label}{_called(device)}: slope {slope(points):.2f}",
                )
        axis.set(xlabel=LINES[names[0]][0], ylabel=LINES[names[0]][1])
    for device, part in record.items():
        points = part["lines"]["rows"]
        axes[-1].semilogx(
            [point["size"] for point in points],
            [point["peak_bytes"] / 1e9 for point in points],
            marks.get(device, ":"),
            color=colors[0],
            marker="o",
            markersize=3,
            label=_called(device),
        )
    axes[-1].set(xlabel=LINES["rows"][0], ylabel="GB of its own memory", ylim=(0, None))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    print(f"Drawn to {PICTURE}")


def _called(device: str) -> str:
    return {"cpu": "CPU", "cuda": "GPU"}.get(device, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--data", type=Path, help="a folder on a disk with room for the views")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plot", action="store_true", help="only draw what was measured")
    arguments = parser.parse_args()
    if arguments.plot:
        plot(json.loads(arguments.out.read_text()))
        return
    n_rows = max(ROWS_QUICK if arguments.quick else ROWS)
    with folder_with_room(arguments.data, bytes_of(n_rows)) as folder:
        found = run(folder, arguments.device, quick=arguments.quick)
    show(found)
    write_part(
        arguments.out,
        arguments.device,
        ratios=ratios_of(found),
        targets={name: 0.95 for name in ratios_of(found) if "slope" in name},
        quick=arguments.quick,
        slopes={name: slope(points) for name, points in found.items()},
        lines=found,
    )


if __name__ == "__main__":
    main()
