"""``hotview fit``: from files to a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

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
from hotview.cli.running import UsageError

__all__ = ["fit"]

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
    n_replicas: Annotated[int | None, _flag("Networks to train.", _TRAINING)] = None,
    coupling_weight: Annotated[float | None, _flag("γ, of the coupling.", _TRAINING)] = None,
    view_weight: Annotated[float | None, _flag("τ, of the view regularizer.", _TRAINING)] = None,
    orthogonality_weight: Annotated[
        float | None, _flag("α, of the constraint in the coupling.", _TRAINING)
    ] = None,
    entropy: Annotated[float | None, _flag("β, the entropy of the plan.", _TRAINING)] = None,
    n_references: Annotated[int | None, _flag("K, reference clouds.", _NETWORK)] = None,
    n_components: Annotated[int | None, _flag("Dimension of the common space.", _NETWORK)] = None,
    n_features: Annotated[int | None, _flag("Features of every view.", _NETWORK)] = None,
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
    from hotview.cli.fitting import Job, run_fit
    from hotview.datasets.people.study import Files

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
