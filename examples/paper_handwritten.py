"""The paper's semi-supervised models on Handwritten, with its settings, over many splits.

Run ``python examples/paper_handwritten.py --trials 20 --jobs 2``; it writes one JSON file with the
test accuracy of every model in every trial. The split of trial t is that of ``unalign(...,
random_state=t)``; models that need aligned rows get the same rows still aligned.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed

from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
from hotview.experiments.paper import MODELS, SETTINGS, Model

CONTROL = Model("no coupling", "none", "none")
#: mean and standard deviation of the paper, table 2, in percent
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


def run_trial(model: Model, trial: int, settings: dict) -> float:
    """Test accuracy of one model on one split."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the plan does not converge in the paper's 20 iterations
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=trial)
    classifier = MultiViewClassifier(
        model.coupling, model.view_regularizer, device="cpu", random_state=trial, **settings
    )
    if model.coupling in ("lscca", "dgcca"):
        linked = {name: np.vstack([X, data.paired[name]]) for name, X in data.linked.items()}
        y = np.concatenate([data.target, np.full(len(linked["pix"]) - len(data.target), -1)])
        classifier.fit(linked, y)
    else:
        classifier.fit(data.linked, data.target, unaligned=data.unaligned)
    return classifier.score(data.test, data.test_target)


def main() -> None:
    """Run all models on all splits, print them beside the paper, and write the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("paper_handwritten.json"))
    options = parser.parse_args()
    presets = {"paper": {**SETTINGS, "head_weight": 0.0}, "robust": {}}
    cells = [
        (preset, model, trial)
        for preset in presets
        for model in (CONTROL, *MODELS)
        for trial in range(options.trials)
    ]
    found = Parallel(n_jobs=options.jobs)(
        delayed(run_trial)(model, trial, presets[preset]) for preset, model, trial in cells
    )
    scores: dict = {preset: {} for preset in presets}
    for (preset, model, _), score in zip(cells, found, strict=True):
        scores[preset].setdefault(model.name, []).append(round(score, 6))
    for name in scores["paper"]:
        paper = "{:.1f} ± {:.1f}".format(*PAPER[name]) if name in PAPER else "-"
        ours = ["{:.1f} ± {:.1f}".format(*summary(scores[p][name])) for p in presets]
        print(f"{name:15} paper {paper:12} literal {ours[0]:12} robust {ours[1]}")
    options.out.write_text(json.dumps({"trials": options.trials, "scores": scores}, indent=1))


def summary(scores: list[float]) -> tuple[float, float]:
    """Mean and standard deviation, in percent."""
    return 100 * float(np.mean(scores)), 100 * float(np.std(scores))


if __name__ == "__main__":
    main()
