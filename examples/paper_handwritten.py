"""The paper's semi-supervised models on Handwritten, beside ours and plain methods.

Run ``python examples/paper_handwritten.py --trials 20``; it writes the test accuracy of every
method in every trial to ``results/handwritten.json``. The split of trial t is ``unalign(...,
random_state=t)`` for every method; models that need aligned rows get the unaligned ones as they
were before they were shuffled.
"""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
import torch
from joblib import Parallel, delayed

import hotview
from hotview import MultiViewClassifier, evaluation
from hotview.datasets import load_handwritten, unalign
from hotview.experiments.paper import MODELS, SETTINGS

ROOT = Path(__file__).parent.parent
#: mean and standard deviation of test accuracy in the paper's table 2, in percent
PAPER = {
    "LSCCA": (87.98, 3.46),
    "DGCCA": (87.12, 3.89),
    "AECCA": (88.53, 3.22),
    "SW (8)": (88.58, 3.29),
    "SW (9)": (89.78, 2.98),
    "HOT (10)": (89.95, 3.52),
    "HOT (11)": (90.05, 2.62),
    "SW (8) + AE": (89.90, 3.31),
    "SW (9) + AE": (89.22, 3.28),
    "HOT (10) + AE": (90.37, 3.00),
    "HOT (11) + AE": (91.07, 2.55),
}
PLAIN = {
    "logistic regression": evaluation.ConcatenatedLogisticRegression,
    "PCA + logistic regression": evaluation.PCALogisticRegression,
    "label propagation": evaluation.PerViewLabelPropagation,
}


def methods() -> dict:
    """What to run, by name: parameters of our classifier, or a plain method."""
    ours = {
        "hotview, default": {},
        "hotview, no coupling": {"coupling": "none"},
        "hotview, no coupling, no regularizer": {"coupling": "none", "view_regularizer": "none"},
        "paper settings, no coupling": {
            "coupling": "none",
            "view_regularizer": "none",
            **SETTINGS,
        },
    }
    for model in MODELS:
        ours[model.name] = {
            "coupling": model.coupling,
            "view_regularizer": model.view_regularizer,
            **SETTINGS,
        }
    return {**PLAIN, **ours}


def run_trial(name: str, trial: int) -> float:
    """Test accuracy of one method on one split."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the plan does not converge in the paper's 20 iterations
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=trial)
    method = methods()[name]
    if name in PLAIN:
        model = method()
    else:
        model = MultiViewClassifier(device="cpu", random_state=trial, **method)
    if name not in PLAIN and method.get("coupling") in ("lscca", "dgcca"):
        linked = {view: np.vstack([X, data.paired[view]]) for view, X in data.linked.items()}
        y = np.concatenate([data.target, np.full(len(linked["pix"]) - len(data.target), -1)])
        model.fit(linked, y)
    else:
        model.fit(data.linked, data.target, unaligned=data.unaligned)
    return float(model.score(data.test, data.test_target))


def main() -> None:
    """Run all methods on all splits, print them beside the paper, and write the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "handwritten.json")
    parser.add_argument("--only", action="append", help="a method to run; others are kept")
    options = parser.parse_args()
    start = time.perf_counter()
    chosen = options.only or list(methods())
    cells = [(name, trial) for name in chosen for trial in range(options.trials)]
    found = Parallel(n_jobs=options.jobs)(delayed(run_trial)(*cell) for cell in cells)
    kept = json.loads(options.out.read_text()) if options.only else {"accuracy": {}, "runs": []}
    scores: dict[str, list[float]] = {**kept["accuracy"], **{name: [] for name in chosen}}
    for (name, _), score in zip(cells, found, strict=True):
        scores[name].append(round(score, 6))
    scores = {name: scores[name] for name in methods() if name in scores}
    run = {
        "methods": options.only or "all",
        "seconds": round(time.perf_counter() - start, 1),
        "jobs": options.jobs,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            "hotview": hotview.__version__,
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
            "numpy": np.__version__,
        },
    }
    record = {
        "data": "Handwritten, 5 % of 1,200 training rows linked and labeled, 400 test rows",
        "trials": options.trials,
        "runs": [*kept["runs"], run],
        "paper": {name: list(figures) for name, figures in PAPER.items()},
        "accuracy": scores,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    for name, values in scores.items():
        paper = "paper {:.1f} ± {:.1f}".format(*PAPER[name]) if name in PAPER else ""
        print(f"{name:30} {100 * np.mean(values):5.1f} ± {100 * np.std(values):.1f}  {paper}")
    print(f"written to {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
