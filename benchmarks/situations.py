"""The default beside simple tools in eight situations of labels, links and views at hand.

    python benchmarks/situations.py --data PATH [--jobs 2] [--situations A C] [--datasets webkb]
        [--methods rivals default] [--trials 5] [--out results/default/situations.jsonl]

PATH is a folder with the files that `situation_data.DATASETS` names; without it only Handwritten
and synthetic tables are run. One line of the output is one method on one cell of one split (seeds
0 to 4); lines that are there are not run again.

Beside the default there are lines of "all neighbors": the same models without condensed predictors,
that is with 5 searches among all rows of a view instead of one among at most 1,000 points. The size
of condensed predictors was chosen on Handwritten, MSRC-v1, WebKB, Wikipedia and SNARE-seq (seeds 0
to 4 of A, 0 and 1 of C to G) and on the tables of `size_data`, not on the other datasets.

With ``--cache FOLDER``, the scores of all predictors of the default, out of fold and of the test
rows, are kept there: `situation_weights.py` compares prior weights by them without any fit.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # trials run side by side

import numpy as np
from joblib import Parallel, delayed
from situation_data import DATASETS, SITUATIONS, SYNTHETIC, Task, draw, settings
from situation_rivals import Tables, log_loss, predict, rivals_of
from situation_scores import Recorded, keep_scores
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from hotview._files import atomic_write
from hotview.semisupervised.calibration import disagreement, log_mean

OUT = Path(__file__).parent.parent / "results" / "default" / "situations.jsonl"
TRIALS = 5
EXCLUDED = {"F": ("scgem", "msrc_v1")}  # 5 % of a class of 30 rows are no class
METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "balanced": {"class_weight": "balanced"},
    "without coupling": {"coupling": "none"},
}
KEYS = ("situation", "setting", "dataset", "trial", "cell", "method")


def run(
    method: str,
    situation: str,
    setting: str,
    dataset: str,
    trial: int,
    data: Path | None,
    cache: Path | None,
) -> list[dict[str, Any]]:
    """One method, or all rivals, on all cells of one split."""
    warnings.simplefilter("ignore")
    where = {"situation": situation, "setting": setting, "dataset": dataset, "trial": trial}
    lines = []
    for i, task in enumerate(draw(situation, setting, dataset, trial, data)):
        if method == "rivals":
            found = run_rivals(task, situation, setting)
        else:
            name = "-".join(map(str, (*where.values(), i))).replace(" ", "_")
            path = cache / f"{name}.npz" if cache and method == "default" else None
            found = run_hotview(task, method, trial, path, where)
        lines += [{**where, **line} for line in found]
    return lines


def run_rivals(task: Task, situation: str, setting: str) -> list[dict[str, Any]]:
    """All simple tools on one task."""
    tables, lines = Tables(task), []
    for cell, (views, y) in task.tests.items():
        for tool in rivals_of(situation, setting):
            began = time.perf_counter()
            scores = score(predict(tool, tables, views), np.arange(tables.n_classes), y)
            seconds = round(time.perf_counter() - began, 2)
            lines.append({"cell": cell, "method": tool, **scores, "seconds": seconds})
    return lines


def run_hotview(
    task: Task, method: str, trial: int, path: Path | None, where: dict[str, Any]
) -> list[dict[str, Any]]:
    """Hotview on one task."""
    options = {"random_state": trial, "device": "cpu", "verbose": False, **METHODS[method]}
    began = time.perf_counter()
    try:
        model = Recorded(**options).fit(**task.arguments())
    except ValueError as error:  # labels of one class alone, say
        return [{"cell": cell, "method": method, "error": str(error)} for cell in task.tests]
    seconds = round(time.perf_counter() - began, 2)
    if path is not None:
        keep_scores(model, task, path, where)
    lines = []
    for cell, (views, y) in task.tests.items():
        for name, exact in ((method, False), ("all neighbors", True)):
            if exact and method != "default":
                continue
            log_p = model.predict_members(views, exact=exact)
            P, spread = log_mean(log_p).exp().numpy(), disagreement(log_p).numpy()
            found = score(P, model.classes_, y) | trust(P, spread, model.classes_, y)
            lines.append({"cell": cell, "method": name, **found, "seconds": seconds})
    return lines


def trust(P: Any, spread: Any, classes: Any, y: Any) -> dict[str, float]:
    """Calibration error of the top class, in ten bins; AUC of the disagreement for errors."""
    right, top = classes[P.argmax(axis=1)] == y, P.max(axis=1)
    bins = np.minimum((top * 10).astype(int), 9)
    error = sum(abs((right - top)[bins == b].sum()) for b in range(10)) / len(y)
    found = {"calibration_error": round(float(error), 4)}
    if 0 < right.sum() < len(y):
        found["disagreement_auc"] = round(float(roc_auc_score(~right, spread)), 4)
    return found


def score(P: Any, classes: Any, y: Any) -> dict[str, float]:
    """Accuracy, log loss and, of two classes, what unequal ones need."""
    full = np.zeros((len(y), max(int(y.max()), int(classes.max())) + 1))
    full[:, classes] = P
    best = full.argmax(axis=1)
    found = {"accuracy": float((best == y).mean()), "log_loss": log_loss(full, y), "n": len(y)}
    if full.shape[1] == 2 and len(np.unique(y)) == 2:
        rare = int(np.bincount(y).argmin())
        found["auc"] = float(roc_auc_score(y == rare, full[:, rare]))
        found["mean_rare"], found["prevalence"] = float(full[:, rare].mean()), (y == rare).mean()
        found["balanced_accuracy"] = float(balanced_accuracy_score(y, best))
    return {name: round(float(value), 4) for name, value in found.items()}


def jobs(arguments: argparse.Namespace, done: set[tuple]) -> list[tuple]:
    """What is to be run, long fits first."""
    found = []
    for situation in arguments.situations:
        for dataset in (*arguments.datasets, *(SYNTHETIC if situation == "H" else ())):
            # The cells of B are those of A's models.
            if situation == "B" or dataset in EXCLUDED.get(situation, ()):
                continue
            for setting in settings(situation, dataset):
                for trial in range(arguments.trials):
                    for method in arguments.methods:
                        name = "majority" if method == "rivals" else method
                        if (situation, setting, dataset, trial, name) not in done:
                            found.append((method, situation, setting, dataset, trial))
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """What was run before."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--situations", nargs="*", choices=SITUATIONS, default=list(SITUATIONS))
    parser.add_argument("--datasets", nargs="*", choices=DATASETS)
    parser.add_argument("--methods", nargs="*", default=["rivals", "default"])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    arguments.datasets = arguments.datasets or (DATASETS if arguments.data else DATASETS[:1])
    keys = [name for name in KEYS if name != "cell"]
    todo = jobs(arguments, {tuple(line[k] for k in keys) for line in read(arguments.out)})
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(todo)} to run, on {arguments.jobs} cores", flush=True)
    began = time.perf_counter()
    found = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
        delayed(run)(*job, arguments.data, arguments.cache) for job in todo
    )
    for i, lines in enumerate(found, start=1):
        with arguments.out.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
        if i % 50 == 0 or i == len(todo):
            print(f"{i} of {len(todo)}, {time.perf_counter() - began:.0f} s", flush=True)
    lines = sorted(read(arguments.out), key=lambda line: tuple(line[k] for k in KEYS))
    with atomic_write(arguments.out) as draft:
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
