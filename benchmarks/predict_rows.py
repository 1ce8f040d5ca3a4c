"""Predictions for a million rows of six views: time, memory, and what the time is spent on.

    python benchmarks/predict_rows.py [--device cuda] [--rows 1000000] [--quick] [--out FILE]

Models are fitted to 10,000 rows of 6 views with 64 columns and 10 classes: the default classifier
(5 members, one nearest-neighbor predictor of every view with at most 1,000 points), a plain one
(heads of one network) and an encoder.

The floor, per row:

- default: 6 × (64 × 640 + 5 × (128 × 20 + 20 × 10)) = 330,000 products with their sums in float64
  for encoders and heads, 6 × (164 × 20 + 64 × 20) = 27,000 for coordinates and ridge regressions,
  and 6 × 1,000 × 20 = 120,000 in float32 for distances;
- plain and encoder: 6 × (64 × 128 + 128 × 20) = 64,500 in float32;
- 6 × 64 × 4 = 1,536 bytes of input, which have to be read at least once.

"floor" is these products, plus one pass over the input, timed in the same run. Peers are what one
would write: "naive torch" encodes in float32 and asks ``torch.cdist`` and ``topk`` for neighbors
among the same points; "scikit-learn" is six pipelines of ``StandardScaler``, ``PCA(20)`` and
``KNeighborsClassifier(10, algorithm="brute")``, one per view, fitted to the same 10,000 rows. All
take turns on the same rows.

A service asks for one row, or a few, at a time: "latency" is the median of 200 calls.

What the time is spent on, by the operator's own time in torch's profiler:

- products: products of matrices;
- moves: copies, gathers, concatenations, fills, and reading the tables (standardization, and the
  look for what is not finite);
- passes: at most one arithmetic operation per number that is read (sums, differences, minima);
- selection: topk, sort, nonzero;
- functions: exponentials, logarithms and their like;
- rest: anything else, and Python (or, on a GPU, the time in which it waits for rows or Python).

On a GPU a row's distances to points, and the choice of the nearest, are one kernel, which counts as
products.

Memory traffic is moves and passes. The record is ``results/bench/predict_rows.json``.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import RESULTS, best_times, wait_for, write_part
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.model import model as model_module
from hotview.preprocessing.column_scaler import ColumnScaler

N_VIEWS, N_COLUMNS, N_CLASSES, N_FIT, N_LABELED = 6, 64, 10, 10_000, 200
PLAIN: dict[str, Any] = {"pseudo_labels": False, "n_estimators": 1, "fusion": "average"}
CLASSES = {
    "products": "mm addmm bmm baddbmm _nearest_kernel",  # whose distances select in place
    "moves": "copy_ clone cat stack gather index index_select index_put_ _index_put_impl_ fill_ "
    "zero_ masked_fill_ scatter constant_pad_nd repeat arange where Memcpy Memset read",
    "passes": "sub sub_ add add_ mul mul_ div div_ neg pow square sqrt clamp_min clamp relu "
    "nan_to_num isnan ne eq le lt gt ge sum mean amin amax aminmax max abs clamp_min_ any all "
    "bitwise_not bitwise_and bitwise_or logical_not sum_out",
    "selection": "topk sort argsort nonzero",
    "functions": "exp exp_ log log_ log_softmax _log_softmax logsumexp",
}
CLASS_OF = {name: group for group, names in CLASSES.items() for name in names.split()}
Views = dict[str, np.ndarray]
CONSOLE = Console()


def doing(what: str) -> AbstractContextManager[object]:
    """Tell what is being done: for as long as it takes, or, in a file, in a line."""
    if CONSOLE.is_terminal:
        return CONSOLE.status(what)
    CONSOLE.print(what)
    return nullcontext()


def make_views(n: int, seed: int) -> tuple[Views, np.ndarray]:
    """Classes with centers of their own in every view, under noise in all columns."""
    random = np.random.default_rng(seed)
    y = random.integers(N_CLASSES, size=n)
    views = {}
    for s in range(N_VIEWS):
        fixed = np.random.default_rng(1000 + s)
        centers, mix = fixed.normal(size=(N_CLASSES, 8)), fixed.normal(size=(8, N_COLUMNS))
        X = random.standard_normal((n, N_COLUMNS), dtype=np.float32)
        for rows in np.array_split(np.arange(n), max(1, n // 50_000)):
            Z = centers[y[rows]] + 0.6 * random.normal(size=(len(rows), 8))
            X[rows] += (Z @ mix).astype(np.float32)
        views[f"view_{s}"] = X
    return views, y


def fit_models(device: str, n_estimators: int) -> dict[str, Any]:
    views, y = make_views(N_FIT, 0)
    y[N_LABELED:] = -1
    common: dict[str, Any] = {"max_epochs": 1, "random_state": 0, "device": device}
    default = MultiViewClassifier(**common, verbose=False, n_estimators=n_estimators).fit(views, y)
    plain = MultiViewClassifier(**common, verbose=False, **PLAIN).fit(views, y)
    encoder = MultiViewEncoder(**common, verbose=False).fit(views)
    return {"default": default, "plain": plain, "encoder": encoder}


def call_of(model: Any) -> Callable[[Views], Any]:
    return model.transform if isinstance(model, MultiViewEncoder) else model.predict_proba


# peers and floors


def tensors_of(model: Any, views: Views) -> list[torch.Tensor]:
    """Rows standardized by a user who knows how."""
    found = []
    scalers = {view.name: view.scaler for view in model.model_.views}
    for name, X in views.items():
        columns = scalers[name]
        mean, scale = (torch.from_numpy(a).float() for a in (columns.mean, columns.scale))
        found.append(((torch.from_numpy(X) - mean) / scale).to(model.model_.device))
    return found


def naive_torch(model: Any, views: Views, size: int = 4096) -> torch.Tensor:
    """Encoders and heads of every member, and the distances of every view to all points."""
    parts = []
    with torch.inference_mode():
        for start in range(0, len(views["view_0"]), size):
            Xs = tensors_of(model, {name: X[start : start + size] for name, X in views.items()})
            parts.append(_naive_part(model, Xs).cpu())
    return torch.cat(parts)


def _naive_part(model: Any, Xs: list[torch.Tensor]) -> torch.Tensor:
    if isinstance(model, MultiViewEncoder):
        network = model.network_
        return torch.cat([network.encoders[s](X) for s, X in enumerate(Xs)], dim=1)
    total = 0.0
    for s, X in enumerate(Xs):
        F = [network.encoders[s](X) for network in model.networks_]
        for network, features in zip(model.networks_, F, strict=True):
            total = total + network.view_heads[s](features).log_softmax(1)
        knn = model.model_.learner.predictors.views[s].get("neighbors")
        if knn is not None:
            Y = knn.coordinates.project(X, torch.cat(F, dim=1)).float()
            near = torch.cdist(Y, knn.points).topk(knn.n_neighbors, dim=1, largest=False).indices
            total = total + (knn.soft_labels[near].mean(1) + 0.01).log()
    return total.log_softmax(1)


class ScikitLearn:
    """Nearest neighbors of every view among its training rows, by principal components."""

    def __init__(self) -> None:
        views, y = make_views(N_FIT, 0)
        self.search = {
            name: make_pipeline(
                StandardScaler(), PCA(20), KNeighborsClassifier(10, algorithm="brute")
            ).fit(X, y)
            for name, X in views.items()
        }

    def __call__(self, views: Views) -> np.ndarray:
        """Sums of logarithms of their probabilities."""
        return sum(np.log(self.search[name].predict_proba(X) + 0.01) for name, X in views.items())


class Floor:
    """The products that are needed and one pass over the input, with nothing in between."""

    def __init__(self, model: Any, rows: int) -> None:
        self.rows, self.n_networks = rows, len(model.networks_)
        self.size = min(4096 if model.model_.device.type == "cpu" else 65536, rows)
        learner = model.model_.learner
        self.searches = learner is not None and "neighbors" in learner.predictors.views[0]
        self.dtype = torch.float64 if self.searches else torch.float32
        self.device = model.model_.device
        R = self.n_networks
        self.A, self.B, self.C = (
            self._ones(64, 128 * R),
            self._ones(R, 128, 20),
            self._ones(R, 20, 10),
        )
        self.X, self.K, self.P = (
            self._ones(self.size, 64),
            self._ones(64, 40),
            self._ones(20 * R, 20),
        )
        self.Y, self.points = self._ones(self.size, 20).float(), self._ones(20, 1000).float()
        self.scores = torch.empty(self.size, 1000, device=self.device)

    def _ones(self, *shape: int) -> torch.Tensor:
        return torch.ones(shape, dtype=self.dtype, device=self.device)

    def __call__(self, views: Views) -> None:
        """Compute them, and forget them."""
        for X in views.values():
            torch.from_numpy(X).sum()
        for _ in range(N_VIEWS):
            for _ in range(0, self.rows, self.size):
                H = (self.X @ self.A).view(self.size, self.n_networks, 128).transpose(0, 1)
                F = H @ self.B
                if self.searches:
                    F @ self.C
                    self.X @ self.K
                    F.transpose(0, 1).flatten(1) @ self.P
                    torch.mm(self.Y, self.points, out=self.scores)


def measure_latency(model: Any) -> dict[str, float]:
    """Median milliseconds of a call with one row, and with 64."""
    found = {}
    for n in (1, 64):
        views, _ = make_views(n, 4)
        times = []
        for _ in range(200):
            start = time.perf_counter()
            model.predict_proba(views)
            times.append(time.perf_counter() - start)
        found[str(n)] = round(1e3 * float(np.median(times)), 3)
    return found


# what the time is spent on


@contextmanager
def named_reading() -> Iterator[None]:
    """Give what is done to tables on the CPU, which is partly numpy's, a name in the profile."""
    places = [(ColumnScaler, "transform"), (model_module, "check_finite")]

    def named(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            with record_function("read"):
                return function(*arguments)

        return wrapped

    before = [getattr(owner, name) for owner, name in places]
    for (owner, name), function in zip(places, before, strict=True):
        setattr(owner, name, named(function))
    try:
        yield
    finally:
        for (owner, name), function in zip(places, before, strict=True):
            setattr(owner, name, function)


def spend(call: Callable[[Views], Any], views: Views, device: str, best: float) -> dict[str, float]:
    """Shares of the time of a call, by operator; the rest is under "rest".

    On a GPU, copies run beside computations, and the profiler slows Python down: the rest is the
    best time without it, less the time in which the GPU works at something.
    """
    on_gpu = device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with named_reading(), profile(activities=activities) as profiler:
        wait_for(device)
        start = time.perf_counter()
        call(views)
        wait_for(device)
        seconds = time.perf_counter() - start
    found = Counter[str]()
    for event in profiler.key_averages():
        found[event.key.removeprefix("aten::").split(" ")[0]] += _own_seconds(event, on_gpu)
    total = sum(found.values())
    busy = min(1.0, _busy_seconds(profiler.events()) / best if on_gpu else total / seconds)
    shares = {name: busy * t / total for name, t in found.most_common()}
    return dict(sorted({**shares, "rest": 1 - busy}.items(), key=lambda item: -item[1]))


def _own_seconds(event: Any, on_gpu: bool) -> float:
    """Time of an operator on the device; kernels, which come beside them, count as theirs.

    But for copies to a GPU, which are made in threads that read, and kernels that no operator has.
    """
    if not on_gpu:
        return float(event.self_cpu_time_total) / 1e6
    alone = event.key.startswith("Memcpy HtoD") or event.key == "_nearest_kernel"
    if event.device_type == DeviceType.CPU or alone:
        return float(event.self_device_time_total) / 1e6
    return 0.0


def _busy_seconds(events: Any) -> float:
    """Length of the union of all intervals in which a GPU works."""
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type == DeviceType.CUDA
    )
    total, end = 0.0, 0.0
    for first, last in spans:
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total / 1e6


def by_class(shares: dict[str, float]) -> dict[str, float]:
    groups = dict.fromkeys((*CLASSES, "rest"), 0.0)
    for name, share in shares.items():
        groups[CLASS_OF.get(name, "rest")] += share
    return groups


# memory


class Memory:
    """The most memory that is not of a file, beyond that at the beginning: results and all else."""

    def __enter__(self) -> Memory:
        gc.collect()
        self.first = self.most = self._now()
        self.done = threading.Event()
        self.watch = threading.Thread(target=self._look)
        self.watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.watch.join()

    def _look(self) -> None:
        while not self.done.wait(0.02):
            self.most = max(self.most, self._now())

    @staticmethod
    def _now() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0])

    @property
    def megabytes(self) -> float:
        """What was needed, results included."""
        return (self.most - self.first) / 1024


def run_all(models: dict[str, Any], n_all: int, device: str) -> list[dict[str, Any]]:
    """All rows at once, from memory and from mapped files; a tenth, where it takes long."""
    found = []
    views, _ = make_views(n_all, 2)
    with tempfile.TemporaryDirectory() as folder:
        mapped = {}
        for name, X in views.items():
            np.save(Path(folder) / f"{name}.npy", X)
            mapped[name] = np.load(Path(folder) / f"{name}.npy", mmap_mode="r")
        for name, model in models.items():
            n_rows = n_all // 10 if name == "default" and device == "cpu" else n_all
            for kind, all_given in {"memory": views, "npy files": mapped}.items():
                given = {view: X[:n_rows] for view, X in all_given.items()}
                with doing(f"{name}, {n_rows:,} rows from {kind} …"), Memory() as memory:
                    call_of(model)({view: X[:500] for view, X in given.items()})
                    start = time.perf_counter()
                    output = call_of(model)(given)
                    seconds = time.perf_counter() - start
                arrays = output.values() if isinstance(output, dict) else [output]
                facts = {
                    "model": name,
                    "from": kind,
                    "rows": n_rows,
                    "seconds": round(seconds, 2),
                    "rows_per_second": round(n_rows / seconds),
                    "output_mb": round(sum(Y.nbytes for Y in arrays) / 2**20),
                    "peak_mb": round(memory.megabytes),
                }
                CONSOLE.print(facts)
                found.append(facts)
                del output, arrays
    return found


def compare(
    name: str, model: Any, n_rows: int, rounds: int, device: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds per row of ours, the floor and the peers; and shares of time by operator."""
    views, _ = make_views(n_rows, 3)
    ours, floor = call_of(model), Floor(model, n_rows)
    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(views),
        "floor": lambda: floor(views),
        "naive torch": lambda: naive_torch(model, views),
    }
    if name == "default" and device == "cpu":
        sklearn = ScikitLearn()
        contestants["scikit-learn"] = lambda: sklearn(views)
    with doing(f"{name} and peers, {n_rows:,} rows, in turns …"):
        ours({view: X[:500] for view, X in views.items()})
        best = best_times(contestants, rounds, device=device)
        shares = spend(ours, views, device, best["ours"])
    return {who: 1e6 * seconds / n_rows for who, seconds in best.items()}, shares


def print_tables(times: dict[str, dict[str, float]], shares: dict[str, dict[str, float]]) -> None:
    table = Table("model", "who", "µs per row", "over ours", title="Time")
    for name, best in times.items():
        for who, t in best.items():
            table.add_row(name, who, f"{t:.2f}", f"{t / best['ours']:.2f}")
    CONSOLE.print(table)
    table = Table("model", *CLASSES, "rest", "operators", title="What the time is spent on")
    for name, found in shares.items():
        groups = by_class(found)
        most = ", ".join(f"{op} {100 * share:.0f} %" for op, share in list(found.items())[:8])
        table.add_row(name, *(f"{100 * share:.0f} %" for share in groups.values()), most)
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="ratios only, with one member")
    parser.add_argument("--out", type=Path, default=RESULTS / "predict_rows.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    device, quick = arguments.device, arguments.quick
    with doing("fitting …"):
        models = fit_models(device, 1 if quick else 5)
    times, shares, ratios = {}, {}, {}
    few = {"default": 20_000, "plain": 50_000, "encoder": 50_000}
    scale = 40 if device == "cuda" else 1
    for name, model in models.items():
        n_rows = few[name] * scale
        best, spent = compare(name, model, n_rows, 2 if quick else 5, device)
        times[name], shares[name] = best, spent
        groups = by_class(spent)
        ratios |= {f"{who} over {name}": t / best["ours"] for who, t in best.items()}
        del ratios[f"ours over {name}"]
        ratios[f"{name}: share of products and memory traffic"] = sum(
            groups[group] for group in ("products", "moves", "passes")
        )
    print_tables(times, shares)
    targets = {f"{name}: share of products and memory traffic": 0.8 for name in models}
    all_rows = [] if quick else run_all(models, arguments.rows, device)
    if not quick:
        speed = {(x["model"], x["from"]): x["rows_per_second"] for x in all_rows}
        ratios["rows a second, default over plain"] = (
            speed["default", "memory"] / speed["plain", "memory"]
        )
        ratios["rows a second, default"] = speed["default", "memory"]
    if device == "cpu":
        targets |= {"scikit-learn over default": 2.5, "rows a second, default": 20_000}
    else:
        targets["rows a second, default over plain"] = 0.8
    write_part(
        arguments.out,
        device,
        "scikit-learn",
        ratios=ratios,
        targets=targets,
        microseconds_per_row=times,
        shares={name: by_class(found) for name, found in shares.items()},
        operators=shares,
        all_rows=all_rows,
        latency_ms=measure_latency(models["default"]),
    )


if __name__ == "__main__":
    main()
