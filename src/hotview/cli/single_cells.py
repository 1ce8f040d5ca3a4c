"""Single cells on the command line: batches, raw counts, and predictions in h5ad files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hotview.omics.fit import best_entry, describe_counts, holds_counts, read_settings
from hotview.preprocessing.batch_correction import BatchOffsets, fit_offsets
from hotview.tables.arrays import Matrix
from hotview.tables.open_tables import OpenView

if TYPE_CHECKING:
    from hotview.cli.models import ModelInput, OpenModel

__all__ = ["BatchCorrector", "describe_cells", "name_counts", "write_cells"]


@dataclass
class BatchCorrector:
    """Removes batches from the rows of views, by offsets that it knows or estimates.

    Parameters
    ----------
    offsets : dict of str to (BatchOffsets or None)
        Offsets by view; those of other views are estimated, and added.
    use_labels : bool, default=True
        Whether labels tell differences in composition from those of batches; not where some of
        them are held out.
    """

    offsets: dict[str, BatchOffsets | None] = field(default_factory=dict)
    use_labels: bool = True

    def __call__(
        self, view: OpenView, X: Matrix, batches: list[str], labels: Sequence[Any]
    ) -> Matrix:
        """Return the rows of a view without the offsets of their batches."""
        name, is_matrix = view.name, view.table is None
        if name not in self.offsets:
            rows = X if is_matrix else np.asarray(X)
            known = labels if self.use_labels else None
            # The columns of a table keep their names.
            self.offsets[name] = fit_offsets(name, rows, batches, known, reduce=is_matrix)
        found = self.offsets[name]
        return X if found is None else found.correct(X, batches, name)


def name_counts(view: OpenView, X: Matrix) -> str | None:
    """Return what is done to a view of raw counts, if it is one of an AnnData."""
    if view.obs is None:
        return None
    choice = shlex.quote(f"{view.name}={best_entry(view.obs.obsm)}")
    return describe_counts(view.name, X, f"--obsm {choice}")


def describe_cells(
    opened: Sequence[OpenView], label_column: str | None, batch_column: str | None
) -> dict[str, Any]:
    """Return what a model of AnnData files remembers of them, for `hotview.omics`.

    Parameters
    ----------
    opened : sequence of OpenView
        The views.
    label_column, batch_column : str or None
        Columns of labels and batches.

    Returns
    -------
    dict of str to object
        Plain values; empty for other files.
    """
    tables = {view.name: view.obs for view in opened if view.obs is not None}
    if not tables:
        return {}
    styles = [obs.styles.get(label_column or "") for obs in tables.values()]
    return {
        "counts": {view.name: holds_counts(view.X) for view in opened if view.name in tables},
        "batch_key": batch_column,
        "label": next((style for style in styles if style), {}),
    }


def write_cells(
    model: OpenModel,
    given: ModelInput,
    columns: Mapping[str, Any],
    path: Path,
    abstain_below: float | None = None,
) -> None:
    """Write predictions into a copy of the given h5ad file, or into one of all cells.

    With one view, from an h5ad file, the copy has everything that this file has. With several, the
    file has a row for every cell of any of them, and no matrix.

    Parameters
    ----------
    model : OpenModel
        The model.
    given : ModelInput
        The rows that were predicted.
    columns : dict of str to sequence
        From `prediction_columns`.
    path : Path
        The file.
    abstain_below : float or None, default=None
        Probability below which a cell is ``"Unassigned"``.
    """
    import anndata
    import pandas as pd

    from hotview._files import atomic_write
    from hotview.omics.annotation import write_predictions

    ids = pd.Index([str(key) for key in given.aligned.ids])
    views = [rows.view for rows in given.rows.values() if rows.view is not None]
    if len(views) == 1 and views[0].path.suffix.lower() == ".h5ad":
        cells = anndata.read_h5ad(views[0].path)
        names = pd.Index(next(iter(given.rows.values())).ids or ids)  # row by row, as in the file
    else:
        cells, names = anndata.AnnData(obs=pd.DataFrame(index=ids)), ids
    order = ids.get_indexer(names.astype(str))
    classes = model.estimator.classes_
    P = np.stack([columns[f"probability_{name}"] for name in classes.tolist()], axis=1)[order]
    frame = pd.DataFrame(P, index=cells.obs_names, columns=classes)
    style = read_settings(model.estimator).get("label", {})
    write_predictions(cells, frame, "hotview", style, abstain_below)
    done = {f"probability_{name}" for name in classes.tolist()}
    done |= {"predicted", "probability", "abstained"}
    for name in list(columns)[1:]:  # the first one has the ids
        if name not in done:
            cells.obs[f"hotview_{name}"] = pd.Series(list(columns[name])).to_numpy()[order]
    with atomic_write(path) as draft:
        cells.write_h5ad(draft)
