"""Which parts of the default earn their place: each is turned off, in all eight situations.

    python benchmarks/parts.py --data PATH [--jobs 2] [--trials 3] [--situations A C]
        [--datasets webkb] [--parts "no coupling"] [--out results/default/parts.jsonl]

PATH is as for `situations.py`, whose situations, datasets and cells these are. One line of the
output is the default, or the default without one part, on one cell of one split; lines that are
there are not run again. All else is the default's, the seed included. In the end two tables are
printed, of which `parts_tables.py` says how to read them, and the rule by which a part stays.

*After training*: the networks and the left-out scores are those of the default's own fit, and only
its last stage, which makes the predictors of new rows, is done again: a stage has random
generators of its own.

- ``no joint ridge``: the joint ridge regression is neither weighed nor there.
- ``prior weights``: the super learner has its prior weights, without any left-out label.
- ``no heads among predictors``: heads train the networks, but have no weight among the predictors.
- ``unrefined graph``: labels are propagated on the graphs of the components again, not on graphs
  of the learned features.
- ``all neighbors``: no condensed neighbors; every member searches all rows, as in `situations.py`.

*With a fit of its own*:

- ``another seed``: the control, the default with another seed: what chance does.
- ``no coupling``, ``no heads``, ``no alignment``: ``coupling="none"``, ``head_weight=0``,
  ``alignment_weight=0``.
- ``1 epoch``, ``4 epochs``: of the training, in the place of 10 epochs or 80 steps.
- ``1 member``, ``2 members``, ``3 members``: in the place of five. A single one leaves no label
  out, and has the prior weights.
- ``no diffusion targets``: targets of linked rows by principal components alone.
- ``one prior``: that of the labels of all views, also in a view whose own labels differ from it.
- ``no shifted priors``: views without labels have the prior of the others, neither shifted to the
  mix of their linked rows nor moved toward equal classes.
- ``no transport of labels``: views without labels learn from linked rows alone; transport has a
  weight of 0, in the training of the networks too.

Where a part does nothing, because there is no linked row or no view without labels, the line is
that of the default, with ``same`` true. ``seconds`` are processor seconds of a fit: of one with the
default's networks, those of the default, with the last stage exchanged (for ``all neighbors`` the
default's). ``seconds_predict`` are those of the predictions of the cell.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # fits run side by side

import numpy as np
import parts_tables
from joblib import Parallel, delayed
from situation_data import DATASETS, SITUATIONS, SYNTHETIC, Task, draw, settings
from situation_scores import Recorded
from situations import EXCLUDED, read, score

from hotview import MultiViewClassifier
from hotview._files import atomic_write
from hotview.estimators import fit as fit_module
from hotview.estimators import rows as fit_rows
from hotview.evaluation.metrics import expected_calibration_error
from hotview.semisupervised import (
    class_prior,
    label_transfer,
    learner,
    predictors,
    soft_labels,
)
from hotview.semisupervised.calibration import log_mean
from hotview.semisupervised.predictors import PREDICTORS
from hotview.semisupervised.super_learner import SuperLearner, fit_super_learner

RESULTS = Path(__file__).parent.parent / "results" / "default"
OUT = RESULTS / "parts.jsonl"
TRIALS = 3
KEYS = ("situation", "setting", "dataset", "trial", "cell", "part")
SEED = 1000  # added to that of the trial, for another one
DEFAULT, ALL_NEIGHBORS = "default", "all neighbors"


@dataclass(frozen=True)
class Part:
    """How a part of the default is turned off.

    Parameters
    ----------
    options : dict
        Parameters of the classifier.
    replaced : tuple of (object, str, object)
        What is replaced, as for `unittest.mock.patch.object`.
    after : bool, default=False
        Whether it acts after the training of the networks alone.
    where : str, default=""
        What it needs to do anything: ``"links"``, a view that is ``"unlabeled"``, or ``"labels"``
        of rows of single views; all situations have what ``""`` needs.
    cost : float, default=1.0
        Time of a fit, relative to that of the default, by which long fits come first.
    """

    options: dict[str, Any] = field(default_factory=dict)
    replaced: tuple[tuple[Any, str, Any], ...] = ()
    after: bool = False
    where: str = ""
    cost: float = 1.0

    @contextmanager
    def turned_off(self) -> Iterator[None]:
        """The default without it, while this lasts."""
        with ExitStack() as stack:
            for change in self.replaced:
                stack.enter_context(patch.object(*change))
            yield

    def acts(self, situation: str, setting: str) -> bool:
        """Whether it does anything in a situation."""
        unlabeled = situation == "C" or setting == "other table"
        linked = situation != "D" and setting != "both tables"
        if self.where == "links":
            return linked
        if self.where == "labels":  # every view has labels of rows of its own
            return not linked or situation == "E"
        return unlabeled or self.where != "unlabeled"


def _no_joint(*given: Any) -> None:
    """In the place of the joint ridge regression."""


def _weigh_without_joint(folds: Sequence[Any], *given: Any, **more: Any) -> SuperLearner:
    folds = [replace(fold, joint=np.zeros_like(fold.joint)) for fold in folds]
    return fit_super_learner(folds, *given, **more)


def _prior_weights(folds: Sequence[Any], *given: Any, **more: Any) -> SuperLearner:
    return fit_super_learner([], *given, **more)


def _weigh_without_heads(folds: Sequence[Any], *given: Any, **more: Any) -> SuperLearner:
    others = np.array([name != "head" for name in PREDICTORS])
    folds = [replace(fold, scores=fold.scores * others[:, None]) for fold in folds]
    learner = fit_super_learner(folds, *given, **more)
    weights = np.array(learner.predictors) * others
    return replace(learner, predictors=tuple(map(tuple, weights.tolist())))


def _same_graph(graph: Any, features: Any) -> Any:
    return graph


def _no_coordinates(adjacency: Any, n: int) -> Any:
    return np.empty((adjacency.shape[0], 0))


def _expected_shares(counts: Any, expected: Any) -> Any:
    return expected


def _one_prior(codes: Any, n_classes: int) -> Any:
    with patch.object(class_prior, "_move_shares", _expected_shares):
        return class_prior.class_priors(codes, n_classes)


def _unshifted(graphs: Any, data: Any, scores: Any, weights: Any, log_prior: Any) -> Any:
    return log_prior.copy()


def _undoubted(log_prior: Any, data: Any) -> Any:
    return log_prior


_WEIGH = (learner, "fit_super_learner")
PARTS = {
    "another seed": Part(),  # the seed is chosen with the trial
    "no joint ridge": Part(
        replaced=((*_WEIGH, _weigh_without_joint), (predictors, "fit_joint_ridge", _no_joint)),
        after=True,
    ),
    "prior weights": Part(replaced=((*_WEIGH, _prior_weights),), after=True),
    "no heads among predictors": Part(replaced=((*_WEIGH, _weigh_without_heads),), after=True),
    "unrefined graph": Part(replaced=((learner, "refine_graph", _same_graph),), after=True),
    ALL_NEIGHBORS: Part(after=True),
    "no coupling": Part({"coupling": "none"}),
    "no heads": Part({"head_weight": 0.0}),
    "1 epoch": Part({"max_epochs": 1}, cost=0.4),
    "4 epochs": Part({"max_epochs": 4}, cost=0.6),
    "1 member": Part({"n_estimators": 1}, cost=0.3),
    "2 members": Part({"n_estimators": 2}, cost=0.5),
    "3 members": Part({"n_estimators": 3}, cost=0.7),
    "no alignment": Part({"alignment_weight": 0.0}, where="links"),
    "no diffusion targets": Part(
        replaced=((fit_rows, "diffusion_coordinates", _no_coordinates),), where="links"
    ),
    "one prior": Part(replaced=((soft_labels, "class_priors", _one_prior),), where="labels"),
    "no shifted priors": Part(
        replaced=(
            (soft_labels, "shift_priors", _unshifted),
            (soft_labels, "doubt_priors", _undoubted),
        ),
        where="unlabeled",
    ),
    "no transport of labels": Part(
        replaced=((label_transfer, "_TRANSPORT", (0.0, 0.0)),), where="unlabeled"
    ),
}


class Kept(Recorded):
    """The default, whose predictors can be made again without a part."""

    def again(self, part: Part | None = None) -> tuple[Any, float]:
        """The predictors once more, without a part, and their processor seconds.

        They are those of the default, bit for bit, where the part is None.
        """
        began = time.process_time()
        with (part or Part()).turned_off():
            found = fit_module.learn(*self.stages)
        return found, time.process_time() - began

    @contextmanager
    def predicting_by(self, other: Any) -> Iterator[None]:
        """Another learner in the place of its own, while this lasts."""
        with patch.object(self.model_, "learner", other):
            yield

    def predict_exactly(self, views: dict[str, Any]) -> Any:
        """Probabilities without condensed neighbors."""
        return log_mean(self.predict_members(views, exact=True)).exp().numpy()


def run(
    names: Sequence[str],
    situation: str,
    setting: str,
    dataset: str,
    trial: int,
    data: Path | None,
) -> list[dict[str, Any]]:
    """Lines of parts on all cells of one split: one with a fit of its own, or those of one fit."""
    warnings.simplefilter("ignore")
    where = {"situation": situation, "setting": setting, "dataset": dataset, "trial": trial}
    lines = []
    for task in draw(situation, setting, dataset, trial, data):
        try:
            if has_own_fit(names[0], situation, setting):
                found = run_own(task, names[0], trial)
            else:
                found = run_default(task, names, trial)
        except ValueError as error:  # labels of one class alone, say
            pairs = ((cell, name) for cell in task.tests for name in names)
            found = [{"cell": cell, "part": name, "error": str(error)} for cell, name in pairs]
        lines += [{**where, **line} for line in found]
    return lines


def has_own_fit(name: str, situation: str, setting: str) -> bool:
    """Whether a part needs a fit of its own in a situation."""
    return name != DEFAULT and not PARTS[name].after and PARTS[name].acts(situation, setting)


def run_own(task: Task, name: str, trial: int) -> list[dict[str, Any]]:
    """A part with a fit of its own on one task."""
    part, seed = PARTS[name], trial + (SEED if name == "another seed" else 0)
    options = {"random_state": seed, "device": "cpu", "verbose": False, **part.options}
    began = time.process_time()
    with part.turned_off():
        model = MultiViewClassifier(**options).fit(**task.arguments())
    return judge(task, name, model.predict_proba, model.classes_, time.process_time() - began)


def run_default(task: Task, names: Sequence[str], trial: int) -> list[dict[str, Any]]:
    """The default, parts with its networks, and parts that do nothing, on one task."""
    began = time.process_time()
    model = Kept(random_state=trial, device="cpu", verbose=False).fit(**task.arguments())
    seconds = model.at_finish - began
    default = judge(task, DEFAULT, model.predict_proba, model.classes_, seconds)
    lines = []
    for name in names:
        if name == DEFAULT:
            lines += default
        elif name == ALL_NEIGHBORS:
            lines += judge(task, name, model.predict_exactly, model.classes_, seconds)
        elif PARTS[name].after:
            other, seconds_last = model.again(PARTS[name])
            with model.predicting_by(other):
                exchanged = seconds - model.seconds_last + seconds_last
                lines += judge(task, name, model.predict_proba, model.classes_, exchanged)
        else:
            lines += [{**line, "part": name, "same": True} for line in default]
    return lines


def judge(
    task: Task, name: str, predict: Any, classes: Any, seconds: float
) -> list[dict[str, Any]]:
    """Scores of probabilities on all cells of a task."""
    lines = []
    for cell, (views, y) in task.tests.items():
        began = time.process_time()
        P = predict(views)
        seconds_predict = time.process_time() - began
        found = {"cell": cell, "part": name, **measure(P, classes, y)}
        times = {"seconds": round(seconds, 3), "seconds_predict": round(seconds_predict, 4)}
        lines.append(found | times)
    return lines


def measure(P: Any, classes: Any, y: Any) -> dict[str, float]:
    """Accuracy, log loss, calibration error, mean top probability less accuracy, and rows."""
    scores = score(P, classes, y)
    error = expected_calibration_error(P, y, classes)
    confidence = float(P.max(axis=1).mean()) - float((classes[P.argmax(axis=1)] == y).mean())
    return {
        "accuracy": scores["accuracy"],
        "log_loss": scores["log_loss"],
        "calibration_error": round(float(error), 4),
        "confidence_minus_accuracy": round(confidence, 4),
        "n": len(y),
    }


def jobs(arguments: argparse.Namespace, done: set[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What is to be run, long fits first."""
    found, expected = [], expected_seconds()
    names = [DEFAULT, *(name for name in arguments.parts if name != DEFAULT)]
    situations = dict.fromkeys("A" if s == "B" else s for s in arguments.situations)
    for situation in situations:  # the cells of B are those of A's models
        for dataset in (*arguments.datasets, *(SYNTHETIC if situation == "H" else ())):
            if dataset in EXCLUDED.get(situation, ()):
                continue
            for setting in settings(situation, dataset):
                for trial in range(arguments.trials):
                    where = situation, setting, dataset, trial
                    missing = [name for name in names if (*where, name) not in done]
                    own = [x for x in missing if has_own_fit(x, situation, setting)]
                    shared = [x for x in missing if x not in own]
                    seconds = expected.get(where[:3], 1.0)
                    found += [(seconds * PARTS[name].cost, [name], *where) for name in own]
                    found += [(1.5 * seconds, shared, *where)] if shared else []
    found.sort(key=lambda job: -job[0])
    return [job[1:] for job in found]


def expected_seconds() -> dict[tuple[str, str, str], float]:
    """Seconds of the default's fits of a split in the record of the situations."""
    cells: dict[tuple[str, str, str], list[float]] = {}
    for line in read(RESULTS / "situations.jsonl"):
        if line["method"] == DEFAULT and line["trial"] == 0:
            where = line["situation"], line["setting"], line["dataset"]
            cells.setdefault(where, []).append(line.get("seconds", 1.0))
    # Every cell of C has a model of its own; other cells share one.
    return {where: sum(x) if where[0] == "C" else max(x) for where, x in cells.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--situations", nargs="*", choices=SITUATIONS, default=list(SITUATIONS))
    parser.add_argument("--datasets", nargs="*", choices=DATASETS)
    parser.add_argument("--parts", nargs="*", choices=[DEFAULT, *PARTS], default=list(PARTS))
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    arguments.datasets = arguments.datasets or (DATASETS if arguments.data else DATASETS[:1])
    keys = [name for name in KEYS if name != "cell"]
    todo = jobs(arguments, {tuple(line[k] for k in keys) for line in read(arguments.out)})
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(todo)} to run, on {arguments.jobs} cores", flush=True)
    began = time.perf_counter()
    found = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
        delayed(run)(*job, arguments.data) for job in todo
    )
    for i, lines in enumerate(found, start=1):
        with arguments.out.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
        if i % 50 == 0 or i == len(todo):
            print(f"{i} of {len(todo)}, {time.perf_counter() - began:.0f} s", flush=True)
    lines = sorted(read(arguments.out), key=lambda line: tuple(line[k] for k in KEYS))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with atomic_write(arguments.out) as draft:
        draft.write_text(text)
    n_errors = sum("error" in line for line in lines)
    print(f"{n_errors} of {len(lines)} lines are of tables that fit refused")
    for make in (parts_tables.parts, parts_tables.losses, parts_tables.chance):
        print(f"\n{make(text)}")


if __name__ == "__main__":
    main()
