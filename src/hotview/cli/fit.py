"""The work of ``hotview fit``: say what was understood, train, save, say what came of it."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hotview.cli.input_summary import check_missing, describe_study, print_study
from hotview.cli.inspect import result_lines
from hotview.cli.models import fingerprint
from hotview.cli.options import (
    Debug,
    Decimal,
    Delimiter,
    Force,
    Header,
    IdFiles,
    Json,
    Views,
    by_view,
    written,
)
from hotview.cli.runner import (
    INTERRUPTED,
    UsageError,
    as_usage,
    check_new_file,
    make_console,
    print_json,
)
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.diagnostics import was_interrupted
from hotview.estimators.parameters import check_parameters, pick_processes
from hotview.evaluation import assess
from hotview.ingest.dataset import Files, Study, read_study
from hotview.ingest.holdout import HeldOut, hold_out, keep_linked
from hotview.ingest.id_hashes import hash_ids
from hotview.ingest.tables import split_name
from hotview.persistence import check_model_path
from hotview.training.process_group import ProcessGroup

__all__ = ["Job", "fit", "fit_study", "run_fit"]

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
    ranks = pick_processes({"device": "auto", "devices": 1, **job.flags})
    with ranks.telling():
        return _run_fit(job, ranks)


def _run_fit(job: Job, ranks: ProcessGroup) -> int:
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


def _goes_on(job: Job, ranks: ProcessGroup) -> bool:
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
    interrupted = was_interrupted(estimator.fit_warnings_)
    out = job.out
    if interrupted and out.exists():  # what is complete is not replaced by what is not
        out = out.with_name(f"{out.stem}-interrupted.hotview")
    estimator.metadata_ = _notes(job, facts, study)
    estimator.save(out)
    found = None
    if held is not None:
        P = estimator.predict_proba(held.views)
        found = assess(held.target, P, estimator.classes_)
    if job.as_json:
        result = {**facts, "model": str(out), "seconds": estimator.trained_on_["seconds"]}
        judgment = None if found is None else found.to_json()
        result |= {"held_out": judgment, "interrupted": interrupted}
        result |= {"warnings": list(estimator.fit_warnings_)}
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


_NETWORK, _TRAINING = "Network", "Training"


def _flag(text: str, panel: str, **more: Any) -> Any:
    return typer.Option(help=text, show_default=False, rich_help_panel=panel, **more)


def fit(
    views: Views,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to save the model (.hotview).", show_default=False),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Table of labels. Default: the views' own tables, if any has the column.",
            show_default=False,
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="Column of labels; without, views are encoded.", show_default=False),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            help="Column that tells who a row is: ids found in all views link their rows. Without "
            "ids nothing is linked.",
            show_default=False,
        ),
    ] = None,
    ids: IdFiles = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to leave out.", show_default=False),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to take as a category.", show_default=False),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the linked rows of each class to judge the model by, not to train on.",
            show_default=False,
        ),
    ] = None,
    linked_only: Annotated[
        bool,
        typer.Option("--linked-only", help="Leave out rows that are not linked (lscca, dgcca)."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what was understood, and stop there.")
    ] = False,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Array of an npz, mat or h5mu file that is a view. Default: all.",
            show_default=False,
        ),
    ] = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    coupling: Annotated[
        str | None,
        _flag(
            "none, lscca, dgcca, sw-pairwise, sw-reference, hot-pairwise or hot-reference "
            "(default).",
            _TRAINING,
        ),
    ] = None,
    view_regularizer: Annotated[
        str | None, _flag("none, autoencoder, manifold or diffusion.", _TRAINING)
    ] = None,
    max_epochs: Annotated[int | None, _flag("Most epochs.", _TRAINING)] = None,
    steps_per_epoch: Annotated[int | None, _flag("Steps of an epoch.", _TRAINING)] = None,
    batch_size: Annotated[int | None, _flag("Rows of a step.", _TRAINING)] = None,
    learning_rate: Annotated[float | None, _flag("Of Adam.", _TRAINING)] = None,
    impute: Annotated[
        str | None, _flag("mean: fill in missing cells. Default: refuse them.", _TRAINING)
    ] = None,
    standardize: Annotated[
        bool | None, _flag("Whether columns get mean 0 and variance 1 (they do).", _TRAINING)
    ] = None,
    class_weight: Annotated[
        str | None, _flag("balanced: rare classes count more.", _TRAINING)
    ] = None,
    pseudo_labels: Annotated[
        bool | None, _flag("Whether labels spread among neighbors (they do).", _TRAINING)
    ] = None,
    fusion: Annotated[str | None, _flag("stacked (default) or average.", _TRAINING)] = None,
    unlabeled_marker: Annotated[
        str | None, _flag("What stands for no label, beside empty cells, such as -1.", _TRAINING)
    ] = None,
    validation_fraction: Annotated[
        float | None, _flag("Share of labels that score every epoch.", _TRAINING)
    ] = None,
    patience: Annotated[
        int | None, _flag("Epochs without a better score before it stops.", _TRAINING)
    ] = None,
    n_estimators: Annotated[int | None, _flag("Networks to train.", _TRAINING)] = None,
    coupling_weight: Annotated[float | None, _flag("γ, of the coupling.", _TRAINING)] = None,
    regularizer_weight: Annotated[
        float | None, _flag("τ, of the view regularizer.", _TRAINING)
    ] = None,
    orthogonality_weight: Annotated[
        float | None, _flag("α, of the constraint in the coupling.", _TRAINING)
    ] = None,
    reg: Annotated[
        float | None, _flag("β, the entropic regularization of the plan.", _TRAINING)
    ] = None,
    n_references: Annotated[int | None, _flag("K, reference clouds.", _NETWORK)] = None,
    n_components: Annotated[int | None, _flag("Dimension of the common space.", _NETWORK)] = None,
    encoder_dim: Annotated[int | None, _flag("Features of every view.", _NETWORK)] = None,
    hidden: Annotated[
        str | None, _flag("Widths of hidden layers, as in 128,64; 0 for none.", _NETWORK)
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train: auto, cpu, cuda, …")] = "auto",
    precision: Annotated[
        str | None,
        _flag("float32 (default), tf32 or bfloat16: how encoders round in training.", _TRAINING),
    ] = None,
    random_state: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed; the same gives the same model.")
    ] = 0,
    checkpoint: Annotated[
        Path | None, _flag("File that keeps the state of the training.", _TRAINING)
    ] = None,
    checkpoint_every: Annotated[int | None, _flag("Epochs between checkpoints.", _TRAINING)] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")
    ] = False,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn from your tables: a model that encodes them and, with labels, predicts.

    Rows are linked by id: ids found in all views are linked rows, with or without a label; every
    other row is unaligned, and keeps its label if it has one. What was understood is printed before
    training starts.
    """
    given = dict(locals())
    if out is None and not dry_run:
        raise UsageError("Say where to save the model, as in -o model.hotview (or --dry-run).")
    if resume and checkpoint is None:
        raise UsageError("--resume needs --checkpoint, the file to go on from.")
    from hotview.ingest.dataset import Files

    text = written(header, delimiter, decimal)
    if variable:
        text["variables"] = variable
    files = Files(
        views,
        labels,
        label_column,
        id_column,
        by_view(ids, "--ids"),
        drop or (),
        categorical or (),
        text,
        unlabeled_marker,
    )
    if "TORCHELASTIC_RUN_ID" in os.environ:  # set by torchrun
        given["strategy"] = "ddp"
    job = Job(files, given, out, hold_out, linked_only, dry_run, resume, force, json)
    raise typer.Exit(run_fit(job))
