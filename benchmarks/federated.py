"""Federated training of the six views of Handwritten: accuracy, bytes and seconds.

    python benchmarks/federated.py [--quick] [--splits N] [--jobs N] [--out FILE]

Six organizations have one view each, on splits of the paper's protocol: 60 linked people, whose
labels one organization knows, 1,140 others in another order everywhere, 400 test people whom nobody
has seen. Messages are carried in process, as the bytes that a wire would carry. Compared with the
same networks trained centrally, by as many steps, with late fusion (`MultiViewClassifier` with a
head per view and no joint one, all labels teaching, the views' judgments averaged), with the
default `MultiViewClassifier`, which spreads labels and has five networks, and with the control
without coupling. All runs on the same splits and seeds.

What a round costs through Flower itself is measured by ``benchmarks/federated_flower.py``.

Half an hour on two cores (--jobs 2); --quick takes a minute (one split, the first ways).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from measuring import RESULTS, write_part
from rich.console import Console
from rich.progress import track
from rich.table import ViewTable

from hotview import MultiViewClassifier, load
from hotview.datasets import load_handwritten, unalign
from hotview.federated import (
    Client,
    ClientData,
    InProcessChannel,
    Privacy,
    Server,
    Settings,
    join_partial_models,
)

HOLDER = "pix"
MOST_BYTES = 64 * 1024
SPLITS = 10


@dataclass(frozen=True)
class Run:
    """One way to train."""

    group: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    epsilon: float | None = None


EVERY = (
    Run("ways", "central, the default MultiViewClassifier"),
    Run("ways", "central, late fusion"),
    Run("ways", "central, late fusion, without coupling"),
    Run("ways", "federated"),
    Run("ways", "federated, without coupling", {"coupling": "none"}),
    Run("ways", "federated, hot-pairwise", {"coupling": "hot-pairwise"}),
    Run("ways", "federated, features shared", {"share_features": True}),
    Run("ways", "federated, labels shared", {"share_labels": True}),
    Run(
        "ways",
        "federated, labels shared, without coupling",
        {"share_labels": True, "coupling": "none"},
    ),
    *(Run("rounds", str(n), {"rounds": n}) for n in (1, 2, 5, 10, 40)),
    *(Run("local_steps", str(n), {"local_steps": n}) for n in (1, 5, 50)),
    *(Run("quantiles", str(n), {"quantiles": n}) for n in (16, 256)),
    *(Run("epsilon", f"{e:g}", epsilon=e) for e in (1, 4, 16)),
)
USUAL = {"rounds": "20", "local_steps": "20", "quantiles": "64", "epsilon": "∞"}


def clients(data: Any, folder: Path, epsilon: float | None) -> dict[str, Client]:
    """One organization per view; the order of its rows is its own."""
    n = len(data.target)
    found = {}
    for s, name in enumerate(data.linked):
        X = np.vstack([data.linked[name], data.unaligned[name]])
        who = [*(f"linked-{i}" for i in range(n)), *(f"{name}-{i}" for i in range(len(X) - n))]
        labels = [*data.target.tolist(), *[None] * (len(X) - n)]
        order = np.random.default_rng(s).permutation(len(X))
        own = ClientData.from_table(
            name,
            X[order],
            ids=[who[i] for i in order],
            linked_ids=who[:n],
            labels=[labels[i] for i in order] if name == HOLDER else None,
        )
        privacy = None if epsilon is None else Privacy(epsilon, seed=s)
        found[name] = Client(
            own, folder / name, privacy=privacy, device="cpu", shares=("features", "labels")
        )
    return found


def federate(run: Run, split: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=split)
    settings = Settings(label_holder=HOLDER, random_state=split, **run.settings)
    with tempfile.TemporaryDirectory() as folder:
        each = clients(data, Path(folder), run.epsilon)
        start = time.perf_counter()
        result = Server(InProcessChannel(each), settings).run()
        seconds = time.perf_counter() - start
        parts = [one.model_path for one in each.values()]
        model = load(join_partial_models(parts, Path(folder) / "joint.hotview"), device="cpu")
        alone = {
            name: load(one.model_path, device="cpu").score(
                {name: data.test[name]}, data.test_target
            )
            for name, one in each.items()
        }
    return {
        "accuracy": model.score(data.test, data.test_target),
        "alone": alone,
        "bytes": max(result.history["bytes"]),
        "seconds_per_round": seconds / settings.rounds,
        "privacy": result.privacy.get(HOLDER),
        "dropped": len(result.dropped),
    }


def centrally(split: int, coupling: str) -> dict[str, Any]:
    """The same networks with all views in one place, as many steps, and late fusion."""
    torch.set_num_threads(1)
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=split)
    n, usual = len(data.target), Settings()
    labels = np.full(n + len(next(iter(data.unaligned.values()))), -1)
    labels[:n] = data.target
    views = {name: np.vstack([X, data.unaligned[name]]) for name, X in data.linked.items()}
    model = MultiViewClassifier(
        coupling=coupling,
        pseudo_labels=False,
        fusion="average",
        n_estimators=1,
        max_epochs=usual.rounds,
        steps_per_epoch=usual.local_steps,
        random_state=split,
        verbose=False,
        device="cpu",
    )
    # Labels that each view knows by itself, so that there is a head per view, and no joint one.
    model.fit(None, None, unaligned=views, unaligned_y=dict.fromkeys(views, labels))
    return {"accuracy": model.score(data.test, data.test_target)}


def by_default(split: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=split)
    model = MultiViewClassifier(random_state=split, verbose=False, device="cpu")
    model.fit(data.linked, data.target, unaligned=data.unaligned)
    return {"accuracy": model.score(data.test, data.test_target)}


CENTRAL: dict[str, Callable[[int], dict[str, Any]]] = {
    "central, the default MultiViewClassifier": by_default,
    "central, late fusion": partial(centrally, coupling="hot-reference"),
    "central, late fusion, without coupling": partial(centrally, coupling="none"),
}


def summarize(run: Run, found: list[dict[str, Any]]) -> dict[str, Any]:
    accuracies = [one["accuracy"] for one in found]
    told = {
        "group": run.group,
        "name": run.name,
        "accuracies": accuracies,
        "mean": float(np.mean(accuracies)),
    }
    if "bytes" not in found[0]:
        return told
    views = found[0]["alone"]
    return {
        **told,
        "settings": run.settings,
        "alone": {name: float(np.mean([one["alone"][name] for one in found])) for name in views},
        "bytes": max(one["bytes"] for one in found),
        "seconds_per_round": float(np.median([one["seconds_per_round"] for one in found])),
        "privacy": found[0]["privacy"],
        "dropped": sum(one["dropped"] for one in found),
    }


def train(run: Run, split: int) -> dict[str, Any]:
    if run.name in CENTRAL:
        return CENTRAL[run.name](split)
    return federate(run, split)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one split, the first ways")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "federated.json")
    given = parser.parse_args()
    runs = EVERY[:5] if given.quick else EVERY
    splits = range(1 if given.quick else given.splits)
    work = [(run, split) for run in runs for split in splits]
    jobs = (delayed(train)(run, split) for run, split in work)
    results = Parallel(given.jobs, return_as="generator")(jobs)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (run, _), one in zip(work, track(results, "training", total=len(work)), strict=True):
        found.setdefault((run.group, run.name), []).append(one)
    rows = [summarize(run, found[run.group, run.name]) for run in runs]
    show(rows)
    by_name = {row["name"]: row for row in rows if row["group"] == "ways"}
    central, usual = by_name["central, late fusion"], by_name["federated"]
    ratios = {
        "federated accuracy over central less one point": usual["mean"] / (central["mean"] - 0.01),
        "64 kB over the largest message": MOST_BYTES / usual["bytes"],
    }
    write_part(
        given.out,
        "cpu",
        "numpy",
        "torch",
        ratios=ratios,
        targets=dict.fromkeys(ratios, 1.0),
        usual=USUAL,
        splits=len(splits),
        rows=rows,
    )


def show(rows: list[dict[str, Any]]) -> None:
    table = ViewTable("", "", "test accuracy", "largest message, kB", "s a round")
    for row in rows:
        cells = ["", ""]
        if "bytes" in row:
            cells = [f"{row['bytes'] / 1000:.1f}", f"{row['seconds_per_round']:.2f}"]
        table.add_row(row["group"], row["name"], f"{100 * row['mean']:.2f}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
