"""``hotview fit``: train a model on files."""

from __future__ import annotations

import ast
import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from click.core import ParameterSource

from hotview.cli import options
from hotview.cli.options import flag, option
from hotview.cli.runner import UsageError, check_new_file

__all__ = ["fit", "parse_settings"]

_DEFAULT = ParameterSource.DEFAULT
_ESTIMATOR = {"rich_help_panel": "Estimator"}
#: Options that are parameters of the estimators.
_PARAMETERS = (
    *("coupling", "view_regularizer", "max_epochs", "n_estimators", "impute", "device"),
    *("random_state", "checkpoint"),
)


def _load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options that are not typed from a configuration."""
    if path is not None:
        from hotview.cli.config import read_config

        context.default_map = read_config(path)
    return path


@options.with_file_options
def fit(
    context: typer.Context,
    views: options.Views,
    out: Annotated[Path | None, option("Model file to write (.hotview).", "--out", "-o")] = None,
    labels: options.Labels = None,
    label_column: Annotated[
        str | None, option("Column of labels. Without it, an encoder is trained.")
    ] = None,
    id_column: Annotated[
        str | None, option("Column of ids. Rows with the same id in two views or more are linked.")
    ] = None,
    match_ids: options.MatchIds = None,
    group_column: Annotated[
        str | None, option("Column of persons, whose rows are held out together.")
    ] = None,
    batch_column: Annotated[
        str | None, option("Column of batches, which are removed from every view.")
    ] = None,
    ids: options.IdFiles = None,
    unlabeled_marker: Annotated[
        str | None, option("Marker of rows without a label, besides empty cells, such as -1.")
    ] = None,
    drop: Annotated[list[str] | None, option("Column to leave out.", metavar="COLUMN")] = None,
    categorical: Annotated[
        list[str] | None, option("Column to treat as categorical.", metavar="COLUMN")
    ] = None,
    variable: Annotated[
        list[str] | None, option("Array of an npz, mat or h5mu file to read. Default: all.")
    ] = None,
    hold_out: Annotated[
        float | None,
        option("Fraction of the linked rows of each class to evaluate on."),
    ] = None,
    linked_only: Annotated[
        bool, flag("--linked-only", "Leave out unlinked rows (for lscca, dgcca).")
    ] = False,
    dry_run: Annotated[
        bool, flag("--dry-run", "Print how the files are read, check them, and stop.")
    ] = False,
    text: options.FileFormats = None,
    coupling: Annotated[
        str | None,
        option(
            "Coupling of the views: none, lscca, dgcca, sw-pairwise, sw-reference, hot-pairwise or "
            "hot-reference (default).",
            **_ESTIMATOR,
        ),
    ] = None,
    view_regularizer: Annotated[
        str | None,
        option("Regularizer of each view: none, autoencoder, manifold or diffusion.", **_ESTIMATOR),
    ] = None,
    max_epochs: Annotated[int | None, option("Maximum number of epochs.", **_ESTIMATOR)] = None,
    n_estimators: Annotated[int | None, option("Number of networks.", **_ESTIMATOR)] = None,
    impute: Annotated[
        list[str] | None,
        option(
            "What replaces missing cells: mean or median of the column, or, to mark them in a "
            "column more, mean+indicator or median+indicator. Default: raise.",
            metavar="[VIEW=]METHOD",
            **_ESTIMATOR,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "Any other parameter of the estimator, such as batch_size=128, hidden=64,32 or "
            "coupling__reg=0.5; can be given several times.",
            "--set",
            metavar="NAME=VALUE",
            **_ESTIMATOR,
        ),
    ] = None,
    device: options.Device = "auto",
    random_state: options.RandomState = 0,
    checkpoint: Annotated[Path | None, option("File for the state of the training.")] = None,
    resume: Annotated[bool, flag("--resume", "Continue from the checkpoint, if any.")] = False,
    config: Annotated[
        Path | None,
        option(
            "TOML file with any of these options; typed ones come before them.",
            callback=_load_config,
            is_eager=True,
        ),
    ] = None,
    write_config: Annotated[
        Path | None, option("Write the options of this fit to a TOML file, for --config.")
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Train a model on your tables: an encoder or, with labels, a classifier.

    Rows are linked by id: an id found in two views or more is a linked row, with or without a
    label. Every other row is unaligned, and keeps its label if it has one. A summary of the input
    data is printed before training starts.
    """
    given = dict(locals())
    if out is None and not dry_run:
        raise UsageError("Expected a file for the model. Pass -o model.hotview, or --dry-run.")
    if write_config is not None:
        check_new_file(write_config, force=force)
    if resume and checkpoint is None:
        raise UsageError("--resume needs --checkpoint, the file to continue from.")
    given["impute"] = options.methods_by_view(impute) or None
    parameters = {name: given[name] for name in _PARAMETERS if given[name] is not None}
    for name, value in parse_settings(settings or ()).items():
        if name in (*_PARAMETERS, "unlabeled_marker"):
            raise UsageError(f"Use --{name.replace('_', '-')} instead of --set {name}.")
        parameters[name] = value
    if checkpoint is not None:
        parameters["checkpoint"] = str(checkpoint)
    if "TORCHELASTIC_RUN_ID" in os.environ:  # set by torchrun
        parameters["devices"] = "auto"
    from hotview.cli.fit_job import FitJob, run_fit
    from hotview.ingest.dataset import DatasetFiles

    text = {**(text or {}), **({"variables": variable} if variable else {})}
    files = DatasetFiles(
        views,
        labels,
        label_column,
        id_column,
        options.files_by_view(ids),
        drop or (),
        categorical or (),
        text,
        unlabeled_marker,
        group_column,
        match_ids or (),
        batch_column,
    )
    job = FitJob(files, parameters, out, hold_out, linked_only, dry_run, resume, force, json)
    raise typer.Exit(run_fit(job, partial(_write_config, context, write_config)))


def _write_config(context: typer.Context, path: Path | None) -> str | None:
    """Write the options of this fit to a file, if asked for; return a sentence that says so."""
    if path is None:
        return None
    from hotview.cli.config import write_config

    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {n: context.params[n] for n, source in sources.items() if source != _DEFAULT}
    write_config(path, given)
    return f"Configuration written to {path}: hotview fit --config {shlex.quote(str(path))}"


def parse_settings(specs: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Parse ``--set name=value``: Python literals, true, false, or else text.

    Parameters
    ----------
    specs : sequence of str
        The settings.

    Returns
    -------
    dict of str to object
        Values by name.

    Examples
    --------
    >>> parse_settings(["hidden=64,32", "preprocessing=none", "fusion=average"])
    {'hidden': (64, 32), 'preprocessing': 'none', 'fusion': 'average'}
    """
    settings: dict[str, Any] = {}
    for spec in specs:
        name, mark, text = spec.partition("=")
        if not (name and mark and text):
            raise UsageError(f"Expected --set as NAME=VALUE, but got {spec!r}.")
        try:
            settings[name] = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            settings[name] = {"true": True, "false": False}.get(text, text)
    return settings
