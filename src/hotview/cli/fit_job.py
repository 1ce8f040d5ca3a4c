"""The work of ``hotview fit``: read the files, train, save the model, print the result."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotview._messages import warn_user
from hotview.cli.input_summary import check_missing, describe_dataset, print_dataset
from hotview.cli.inspect import result_lines
from hotview.cli.models import file_sha256
from hotview.cli.options import spread_methods
from hotview.cli.runner import (
    INTERRUPTED,
    UsageError,
    as_usage,
    check_new_file,
    make_console,
    print_json,
)
from hotview.cli.single_cells import BatchCorrector, describe_cells
from hotview.datasets.readers.errors import did_you_mean
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.checkpointing import lock_output
from hotview.estimators.diagnostics import was_interrupted
from hotview.estimators.parameters import check_parameters, impute_of, pick_processes
from hotview.evaluation import assess
from hotview.evaluation.assessment import class_counts
from hotview.ingest.dataset import DatasetFiles, read_dataset
from hotview.ingest.table_dataset import (
    HoldoutSplit,
    TableDataset,
    hash_ids,
    keep_linked,
    split_holdout,
)
from hotview.ingest.tables import split_name
from hotview.losses.coupling_specs import as_coupling
from hotview.losses.specifications import as_regularizer
from hotview.omics.links import chance_links
from hotview.persistence import check_model_path
from hotview.training.process_group import ProcessGroup

__all__ = ["FitJob", "fit_dataset", "make_estimator", "run_fit"]

#: Functions that turn a name into the specification object whose settings can be changed.
_SPECIFICATIONS: dict[str, Callable[[Any], Any]] = {
    "coupling": as_coupling,
    "view_regularizer": as_regularizer,
}


@dataclass(frozen=True)
class FitJob:
    """Options of a fit.

    Parameters
    ----------
    files : DatasetFiles
        The files.
    parameters : dict of str to object
        Parameters of the estimator that were given.
    out : Path or None
        Where to save the model; None only for a dry run.
    hold_out : float or None
        Fraction of the linked rows to evaluate on.
    linked_only : bool
        Whether to leave out unlinked rows.
    dry_run : bool
        Whether to stop before training, after all checks.
    resume : bool
        Whether to continue from a checkpoint.
    force : bool
        Whether to replace an existing model.
    as_json : bool
        Whether to print JSON.
    """

    files: DatasetFiles
    parameters: Mapping[str, Any]
    out: Path | None
    hold_out: float | None
    linked_only: bool
    dry_run: bool
    resume: bool
    force: bool
    as_json: bool

    def check_output(self) -> None:
        """Raise if the model could not be saved."""
        if self.out is not None:
            check_model_path(self.out)
            check_new_file(self.out, force=self.force)


def run_fit(job: FitJob, write_config: Callable[[], str | None] = lambda: None) -> int:
    """Train a model on files.

    Parameters
    ----------
    job : FitJob
        Options of the fit.
    write_config : callable
        Called once the files have been read; writes the configuration that repeats the fit, if
        asked for, and returns a sentence that says so.

    Returns
    -------
    int
        0, or 130 if Ctrl-C ended the training, whose model is saved nevertheless.
    """
    process_group = pick_processes({"device": "auto", **job.parameters})
    out = None if job.dry_run else job.out
    with process_group.report_errors(), lock_output(out, process_group):
        return _fit(job, process_group, write_config)


def _fit(job: FitJob, process_group: ProcessGroup, write_config: Callable[[], str | None]) -> int:
    if not job.dry_run:
        job.check_output()  # before the work, not after it
    with as_usage():
        job.files.check()
        coupling = job.parameters.get("coupling")
        paired = coupling is not None and as_coupling(coupling).needs_alignment
    corrector = BatchCorrector(use_labels=job.hold_out is None)
    dataset, split = _read(job, corrector, paired=paired)
    estimator = make_estimator(dataset, job.parameters)
    with as_usage():
        check_parameters(estimator.get_params(deep=False))
        impute = impute_of(estimator.impute, list(dataset.rows))
    summary = describe_dataset(dataset, type(estimator).__name__, split, process_group)
    written = process_group.on_rank_zero(write_config)
    if not job.as_json:
        print_dataset(summary, make_console())
    elif job.dry_run:
        print_json(summary)
    if written and not job.as_json:
        print(written)
    if job.dry_run:
        job.check_output()
    check_missing(summary, impute)
    if job.dry_run:
        given = _fit_arguments(estimator, dataset, paired=paired)
        estimator._check_fit(**given, resume=job.resume)
        return 0
    resume = job.resume or (estimator.checkpoint is not None and _is_restarted(process_group))
    fit_dataset(estimator, dataset, paired=paired, resume=resume)
    estimator._batch_offsets = corrector.offsets or None
    _warn_of_links(estimator, dataset)
    # A process that ends before the model is saved would count as lost.
    return process_group.on_rank_zero(lambda: _finish(job, estimator, dataset, summary, split))


def _warn_of_links(estimator: Any, dataset: TableDataset) -> None:
    """Warn of cells that are linked by chance."""
    if any(view.obs is not None for view in dataset.opened):
        for text in chance_links(estimator):
            estimator.fit_warnings_.append(text)
            warn_user(text)


def _read(
    job: FitJob, corrector: BatchCorrector, *, paired: bool
) -> tuple[TableDataset, HoldoutSplit | None]:
    if job.hold_out is not None and not 0 < job.hold_out < 1:
        raise UsageError(f"Expected --hold-out between 0 and 1, but it is {job.hold_out:g}.")
    dataset = read_dataset(job.files, corrector)
    if job.linked_only:
        dataset = keep_linked(dataset)
    elif paired and (dataset.unaligned or not dataset.is_complete.all()):
        raise UsageError(
            f"--coupling {job.parameters['coupling']} needs rows that are linked in all views, but "
            "there are others. Leave these out with --linked-only."
        )
    if job.hold_out is None:
        return dataset, None
    split = split_holdout(dataset, job.hold_out)
    return split.training, split


def make_estimator(dataset: TableDataset, parameters: Mapping[str, Any]) -> Any:
    """Return the estimator for a dataset: a classifier if there are labels, else an encoder.

    Parameters
    ----------
    dataset : TableDataset
        The rows to train on.
    parameters : dict of str to object
        Parameters that were given; ``coupling__reg`` is a setting of the coupling, and ``impute``
        is a dict from `methods_by_view`.

    Returns
    -------
    MultiViewClassifier or MultiViewEncoder
        Not fitted.
    """
    verbose = sys.stderr.isatty()
    if dataset.has_labels:
        # The dataset holds None for a missing label.
        estimator: Any = MultiViewClassifier(verbose=verbose, unlabeled_marker=None)
    else:
        estimator = MultiViewEncoder(verbose=verbose)
    known = estimator.get_params(deep=False)
    settings = dict(parameters)
    if "impute" in parameters:
        settings["impute"] = spread_methods(parameters["impute"], dataset.rows)
    for name in parameters:
        owner, nested, _ = name.partition("__")
        _check_parameter(owner, known)
        if nested and owner not in _SPECIFICATIONS:
            raise UsageError(f"The parameter {owner} has no settings of its own.")
        if nested:
            settings[owner] = _SPECIFICATIONS[owner](settings.get(owner, known[owner]))
    with as_usage():
        return estimator.set_params(**settings)


def _check_parameter(name: str, known: Mapping[str, Any]) -> None:
    if name in known:
        return
    if name in MultiViewClassifier().get_params(deep=False):
        raise UsageError(
            f"The parameter {name} is for classifiers, but no row has a label. Give --labels and "
            "--label-column, or leave it out."
        )
    raise UsageError(f"--set names an unknown parameter {name!r}.{did_you_mean(name, known)}")


def fit_dataset(
    estimator: Any, dataset: TableDataset, *, paired: bool = False, resume: bool = False
) -> None:
    """Fit an estimator to a dataset.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        Not fitted yet.
    dataset : TableDataset
        The rows to train on.
    paired : bool, default=False
        Whether an encoder takes all rows as aligned.
    resume : bool, default=False
        Whether to continue from the estimator's checkpoint.
    """
    estimator.fit(**_fit_arguments(estimator, dataset, paired=paired), resume=resume)


def _fit_arguments(estimator: Any, dataset: TableDataset, *, paired: bool) -> dict[str, Any]:
    """Return the arguments of `fit` for a dataset."""
    if not isinstance(estimator, MultiViewEncoder):
        return dataset.fit_arguments
    if paired or len(dataset.ids) == 0 or not dataset.unaligned:
        paired = paired or (len(dataset.ids) > 0 and not dataset.unaligned)
        return {
            "Xs": dataset.with_columns(dataset.linked if paired else dataset.rows),
            "paired": paired,
        }
    linked = dataset.with_columns(dataset.linked)
    return {"Xs": dataset.with_columns(dataset.unaligned), "linked": linked}


def _is_restarted(process_group: ProcessGroup) -> bool:
    """Return whether torchrun has restarted the fit; every node counts its own restarts."""
    n_restarts = np.array([int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))])
    return bool(np.concatenate(process_group.all_gather_arrays(n_restarts)).any())


def _finish(
    job: FitJob,
    estimator: Any,
    dataset: TableDataset,
    summary: dict[str, Any],
    split: HoldoutSplit | None,
) -> int:
    """Save the model, evaluate it on held-out rows and print the result."""
    assert job.out is not None
    out, interrupted = job.out, was_interrupted(estimator.fit_warnings_)
    if interrupted and out.exists():  # a partial model does not replace a complete one
        out = out.with_name(f"{out.stem}-interrupted.hotview")
    estimator.metadata_ = _metadata(job, summary, dataset)
    estimator.save(out)
    scores = None
    if split is not None:
        P, prior = estimator.predict_proba(split.views), class_counts(estimator)
        scores = assess(split.target, P, estimator.classes_, prior=prior)
    if job.as_json:
        result = {
            "model": str(out),
            "seconds": estimator.trained_on_["seconds"],
            "held_out": None if scores is None else scores.to_json(),
            "interrupted": interrupted,
            "warnings": list(estimator.fit_warnings_),
        }
        print_json(summary | result)
    else:
        console = make_console()
        next_command = f"Next: hotview report {shlex.quote(str(out))} -o report.html"
        for line in (*result_lines(estimator, scores), f"Model saved to {out}", next_command):
            console.print(line, highlight=False, markup=False)
    return INTERRUPTED if interrupted else 0


def _metadata(job: FitJob, summary: dict[str, Any], dataset: TableDataset) -> dict[str, Any]:
    """Return what a model stores about its files: how to read others, and which they were."""
    files = job.files
    cells = describe_cells(dataset.opened, files.label_column, files.batch_column)
    return {
        **({"omics": cells} if cells else {}),
        "command": shlex.join(["hotview", *sys.argv[1:]]),
        "preprocessing": summary["preprocessing"],
        "files": {view["name"]: _checksum(view["file"]) for view in summary["views"]},
        "views": [{"name": name, **_checksum(path)} for name, path in map(split_name, files.views)],
        "labels": None if files.labels is None else _checksum(files.labels),
        "ids": {name: _checksum(path) for name, path in files.ids.items()},
        "categorical": list(files.categorical),
        "unlabeled_marker": files.unlabeled_marker,
        "hold_out": job.hold_out,
        "linked_only": job.linked_only,
        "trained_ids": hash_ids(dataset.labeled_ids),
        "hashed_without": list(dataset.hashed_without),
        "trained_groups": None if dataset.groups is None else hash_ids(dataset.labeled_groups),
    }


def _checksum(path: str) -> dict[str, str]:
    return {"path": path, "sha256": file_sha256(path)}
