"""The work of ``hotview fit``: say what was understood, train, save, say what came of it."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotview.cli.inspecting import result_lines
from hotview.cli.models import fingerprint
from hotview.cli.running import (
    INTERRUPTED,
    UsageError,
    as_usage,
    check_new_file,
    make_console,
    print_json,
)
from hotview.cli.understanding import check_missing, describe_study, print_study
from hotview.datasets.people.holding_out import HeldOut, hold_out, keep_linked
from hotview.datasets.people.membership import hash_ids
from hotview.datasets.people.opening import split_name
from hotview.datasets.people.study import Files, Study, read_study
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.parameters import check_parameters, pick_ranks
from hotview.estimators.remarks import tell_interrupt
from hotview.evaluation import assess
from hotview.persistence import check_model_path
from hotview.training.ranks import Ranks

__all__ = ["Job", "fit_study", "run_fit"]

_ALIGNED = ("lscca", "dgcca")  # couplings that compare individuals


@dataclass(frozen=True)
class Job:
    """What was asked for.

    Parameters
    ----------
    files : Files
        The files.
    flags : dict of str to object
        All flags, parameters of the estimators among them; None where not given.
    out : Path or None
        Where to save the model.
    hold_out : float or None
        Share of linked rows to judge it by.
    linked_only : bool
        Whether to leave out rows that are not linked.
    dry_run : bool
        Whether to stop before training.
    resume : bool
        Whether to go on from a checkpoint.
    force : bool
        Whether to replace a model that is there.
    as_json : bool
        Whether to print JSON.
    """

    files: Files
    flags: Mapping[str, Any]
    out: Path | None
    hold_out: float | None
    linked_only: bool
    dry_run: bool
    resume: bool
    force: bool
    as_json: bool


def run_fit(job: Job) -> int:
    """Train a model on files.

    Parameters
    ----------
    job : Job
        What was asked for.

    Returns
    -------
    int
        0, or 130 if Ctrl-C ended the training, whose model is saved nevertheless.
    """
    ranks = pick_ranks({"device": "auto", "devices": 1, **job.flags})
    with ranks.telling():
        return _run_fit(job, ranks)


def _run_fit(job: Job, ranks: Ranks) -> int:
    if job.out is not None and not job.dry_run:
        check_model_path(job.out)  # before the work, not after it
        check_new_file(job.out, force=job.force)
    with as_usage():
        job.files.check()
        _check_share(job.hold_out)
    study = _limit(read_study(job.files), job)
    held = None
    if job.hold_out is not None:
        held = hold_out(study, job.hold_out)
        study = held.study
    estimator = make_estimator(study, job.flags)
    with as_usage():
        check_parameters(estimator.get_params(deep=False))
    facts = describe_study(study, type(estimator).__name__, held, ranks)
    if not job.as_json:
        print_study(facts, make_console())
    if job.dry_run:
        if job.as_json:
            print_json(facts)
        return 0
    check_missing(facts, estimator.impute)
    fit_study(estimator, study, resume=job.resume or _goes_on(job, ranks))
    # Who leaves before the model is saved would be taken for an accident.
    return ranks.first(lambda: _finish(job, estimator, study, facts, held))


def _goes_on(job: Job, ranks: Ranks) -> bool:
    """Whether torchrun has restarted the fit; every node of it counts its own restarts."""
    n_restarts = np.array([int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))])
    everywhere = np.concatenate(ranks.collect(n_restarts))
    return job.flags.get("checkpoint") is not None and bool(everywhere.any())


def _check_share(share: float | None) -> None:
    if share is not None and not 0 < share < 1:
        raise UsageError(f"Expected --hold-out between 0 and 1, but it is {share:g}.")


def _limit(study: Study, job: Job) -> Study:
    """Leave out rows that are not linked, if told to."""
    coupling = job.flags.get("coupling")
    if not job.linked_only and coupling in _ALIGNED and study.unaligned:
        raise UsageError(
            f"--coupling {coupling} compares individuals, but {len(study.unaligned)} views "
            "have rows that are not linked. Leave these out with --linked-only."
        )
    return keep_linked(study) if job.linked_only else study


def make_estimator(study: Study, flags: Mapping[str, Any]) -> Any:
    """The estimator that fits the study: a classifier where there are labels.

    Parameters
    ----------
    study : Study
        What it will learn from.
    flags : dict of str to object
        Parameters, None where not given; flags that are no parameters are passed over.

    Returns
    -------
    MultiViewClassifier or MultiViewEncoder
        Not fitted.
    """
    kind = MultiViewClassifier if study.has_labels else MultiViewEncoder
    known = inspect.signature(MultiViewClassifier).parameters
    given = {name: value for name, value in flags.items() if name in known and value is not None}
    given["verbose"] = sys.stderr.isatty()
    given.pop("unlabeled_marker", None)  # which the study has heeded
    if given.get("hidden") is not None:
        given["hidden"] = _widths(given["hidden"])
    if given.get("checkpoint") is not None:
        given["checkpoint"] = str(given["checkpoint"])
    foreign = [name for name in given if name not in inspect.signature(kind).parameters]
    if foreign:
        flag = foreign[0].replace("_", "-")
        raise UsageError(
            f"--{flag} is for classifiers, but no row has a label. Give --labels and "
            "--label-column, or leave it out."
        )
    if kind is MultiViewClassifier:
        given["unlabeled_marker"] = None  # in a study, nothing but None is no label
    return kind(**given)


def _widths(text: str) -> tuple[int, ...]:
    try:
        widths = [int(width) for width in text.split(",")]
    except ValueError:
        raise UsageError(f"Expected --hidden as 128,64, but got {text!r}.") from None
    return () if widths == [0] else tuple(widths)


def fit_study(estimator: Any, study: Study, *, resume: bool = False) -> None:
    """Fit an estimator to a study.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        Not fitted yet.
    study : Study
        What it learns from.
    resume : bool, default=False
        Whether to go on from its checkpoint.
    """
    more = {"resume": True} if resume else {}
    if isinstance(estimator, MultiViewEncoder):
        estimator.fit(study.rows, paired=estimator.coupling in _ALIGNED, **more)
        return
    is_linked = len(study.ids) > 0
    estimator.fit(
        study.linked if is_linked else None,
        study.target if is_linked else None,
        unaligned=study.unaligned or None,
        unaligned_y=study.unaligned_target or None,
        **more,
    )


def _finish(
    job: Job, estimator: Any, study: Study, facts: dict[str, Any], held: HeldOut | None
) -> int:
    assert job.out is not None
    interrupted = tell_interrupt(estimator.remarks_)
    out = job.out
    if interrupted and out.exists():  # what is complete is not replaced by what is not
        out = out.with_name(f"{out.stem}-interrupted.hotview")
    estimator.notes_ = _notes(job, facts, study)
    estimator.save(out)
    found = None
    if held is not None:
        P = estimator.predict_proba(held.views)
        found = assess(held.target, P, estimator.classes_)
    if job.as_json:
        result = {**facts, "model": str(out), "seconds": estimator.trained_on_["seconds"]}
        judgment = None if found is None else found.to_json()
        result |= {"held_out": judgment, "interrupted": interrupted}
        result |= {"warnings": list(estimator.remarks_)}
        print_json(result)
    else:
        console = make_console()
        for line in result_lines(estimator, found):
            console.print(line, highlight=False, markup=False)
        console.print(f"Model saved to {out}", highlight=False, markup=False)
        console.print(f"Next: hotview report {shlex.quote(str(out))} -o report.html", markup=False)
    return INTERRUPTED if interrupted else 0


def _notes(job: Job, facts: dict[str, Any], study: Study) -> dict[str, Any]:
    """What a model must know of its files: how to read others like them, and which they were."""
    specs = [split_name(spec) for spec in job.files.views]
    tables = {**job.files.ids}
    if job.files.labels is not None:
        tables["--labels"] = job.files.labels
    return {
        "command": shlex.join(["hotview", *sys.argv[1:]]),
        "recipe": facts["recipe"],
        "files": {view["name"]: _file(view["file"]) for view in facts["views"]},
        "views": [{"name": name, **_file(path)} for name, path in specs],
        "tables": {name: _file(path) for name, path in tables.items()},
        "categorical": list(job.files.categorical),
        "marker": job.files.marker,
        "hold_out": job.hold_out,
        "linked_only": job.linked_only,
        "trained_ids": hash_ids(study.labeled_ids),
    }


def _file(path: str) -> dict[str, str]:
    return {"path": path, "sha256": fingerprint(path)}
