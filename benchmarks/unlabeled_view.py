"""A view without labels: what it learns from another one over a few linked rows.

    python benchmarks/unlabeled_view.py --data PATH [--jobs 2]

PATH is as for default_accuracy.py; without it only Handwritten is run. Of the training rows of a
split (the paper's protocol, seeds 0 to 19), the first half are A's and the second half B's; A has
labels for 5 % of all training rows, and n more of its rows are linked: they are B's, too. Test rows
have B alone. Every line of ``results/default/unlabeled_view.jsonl`` is one split.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from default_accuracy import load  # sets the number of threads, before numpy
from joblib import Parallel, delayed

from hotview import MultiViewClassifier
from hotview._files import atomic_write
from hotview.datasets import split_rows
from hotview.evaluation import PerViewLabelPropagation, expected_calibration_error
from paper.models import PLAIN

OUT = Path(__file__).parent.parent / "results" / "default" / "unlabeled_view.jsonl"
TRIALS = 20
#: the network alone, trained through the linked rows
NETWORK: dict[str, Any] = {"coupling": "none", **PLAIN}
#: dataset, views with labels, view without, numbers of linked rows
CASES = (
    ("handwritten", ("pix",), "fac", (20, 40, 100)),
    ("handwritten", ("pix",), "kar", (20, 40, 100)),
    ("handwritten", ("pix",), "fou", (20, 40, 100)),
    ("handwritten", ("pix", "kar", "mor"), "fac", (20,)),
    ("snareseq", ("rna",), "atac", (8, 20)),
    ("snareseq", ("atac",), "rna", (8, 20)),
    ("caltech7", ("HOG",), "GIST", (20, 40)),
)


@dataclass
class Case:
    """One split: A's rows (`rest`, with `classes`), linked ones, B's (`second`), and test rows."""

    views: dict[str, Any]
    having: tuple[str, ...]
    B: str
    linked: Any
    rest: Any
    classes: Any
    second: Any
    test: dict[str, Any]
    truth: Any

    def arguments(self) -> dict[str, Any]:
        """Arguments of a classifier's `fit`."""
        views, having, B = self.views, self.having, self.B
        own = {v: views[v][self.rest] for v in having}
        return {
            "Xs": {v: views[v][self.linked] for v in (*having, B)},
            "y": np.full(len(self.linked), -1),
            "unaligned": {**own, B: views[B][self.second]},
            "unaligned_y": dict.fromkeys(having, self.classes),
        }


def draw(name: str, having: tuple[str, ...], B: str, n: int, trial: int, data: Any) -> Case:
    """The rows of one split."""
    views, y = load(name, data)
    split = split_rows(len(y), random_state=trial)
    first, second = np.array_split(split.train, 2)
    n_labeled = len(split.labeled)
    linked = first[n_labeled : n_labeled + n]
    rest = np.concatenate([first[:n_labeled], first[n_labeled + n :]])
    classes = np.full(len(rest), -1)
    classes[:n_labeled] = y[rest[:n_labeled]]
    test, truth = {B: views[B][split.test]}, y[split.test]
    return Case(views, having, B, linked, rest, classes, second, test, truth)


def run(name: str, having: tuple[str, ...], B: str, n: int, trial: int, data: Any) -> dict:
    """All methods on one split."""
    warnings.simplefilter("ignore")
    case = draw(name, having, B, n, trial, data)
    views, linked, rest, classes = case.views, case.linked, case.rest, case.classes
    test, truth = case.test, case.truth
    found = {"dataset": name, "from": "+".join(having), "to": B, "linked": n, "trial": trial}
    told = _propagate(views, having, rest, classes, linked)
    found["covered"] = float(np.isin(truth, told).mean())
    simple = _propagated(views[B], linked, case.second, told, test[B], B)
    found["label propagation"] = round(float((simple == truth).mean()), 6)
    for method, options in {"plain network": NETWORK, "default": {}}.items():
        model = MultiViewClassifier(random_state=trial, device="cpu", verbose=False, **options).fit(
            **case.arguments()
        )
        P = model.predict_proba(test)
        found[method] = round(float((model.classes_[P.argmax(axis=1)] == truth).mean()), 6)
        found[f"{method}, ece"] = round(expected_calibration_error(P, truth, model.classes_), 4)
    return found


def _propagate(views: dict, having: tuple, rest: Any, classes: Any, linked: Any) -> Any:
    """What label propagation in A says about the linked rows."""
    known = classes >= 0
    model = PerViewLabelPropagation().fit(
        {v: views[v][rest[known]] for v in having},
        classes[known],
        unaligned={v: views[v][np.concatenate([linked, rest[~known]])] for v in having},
    )
    return model.predict({v: views[v][linked] for v in having})


def _propagated(X: Any, linked: Any, second: Any, told: Any, test: Any, name: str) -> Any:
    """What label propagation in B makes of that."""
    if len(np.unique(told)) < 2:
        return np.full(len(test), told[0])
    model = PerViewLabelPropagation().fit({name: X[linked]}, told, unaligned={name: X[second]})
    return model.predict({name: test})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.data or case[0] == "handwritten"]
    todo = [(*case[:3], n, t) for case in cases for n in case[3] for t in range(TRIALS)]
    lines = Parallel(n_jobs=arguments.jobs, verbose=1)(
        delayed(run)(*job, arguments.data) for job in todo
    )
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(OUT) as draft:
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
