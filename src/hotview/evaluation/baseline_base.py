"""Base classes of the baselines: missing views, views without labels, predictions and score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, Views
from hotview._validation import (
    check_aligned_tables,
    check_count,
    check_known_tables,
    check_target,
)
from hotview.evaluation.baseline_rows import (
    MAX_CELLS,
    BaselineRows,
    ViewTransformer,
    have_any,
    read_matrices,
    read_rows,
)
from hotview.ingest.frames import encode_known_views, encoded_shapes

__all__ = ["Baseline", "ConcatenatedBaseline", "UnalignedBaseline"]


class Baseline(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the baselines.

    A baseline is fitted in the views that have labels of at least two classes. Linked rows without
    a label then get the class that it predicts for them, with which it is fitted in the other
    views. A row that has neither kind of view gets the shares of the classes.
    """

    classes_: Array

    def predict_proba(self, Xs: Views) -> Array:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows of views seen in `fit`. Views, rows and cells may be missing: None or
            left out, NaN throughout, NaN.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Rows that sum to 1.
        """
        check_is_fitted(self, "classes_")
        Xs = encode_known_views(Xs, self._columns)
        tables = check_known_tables(Xs, list(self._columns), encoded_shapes(self._columns))
        n = check_aligned_tables(tables)
        n_block = max(1, MAX_CELLS // sum(table.n_columns for table in tables.values()))
        blocks = [slice(start, start + n_block) for start in range(0, n, n_block)]
        parts = (read_matrices(tables, block, dense=True) for block in blocks)
        return np.vstack([self._predict_block(part) for part in parts])

    def predict(self, Xs: Views) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (n_rows,)
            Entries of ``classes_``.
        """
        best = self.predict_proba(Xs).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(
        self, Xs: Views, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """Return the accuracy.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.
        y : 1-D array-like
            Their true classes; classes that were not in `fit` count as errors.
        sample_weight : 1-D array-like or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            Proportion of correctly classified rows.
        """
        predicted = self.predict(Xs)
        truth = check_target(y, len(predicted))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def _fit_rows(self, rows: BaselineRows) -> Self:
        """Fit in the views that have labels, and carry these to the other views."""
        self._labeled_views = rows.labeled_views()
        self._columns, self._shares, self._of_others = rows.columns, rows.shares, None
        if self._labeled_views:
            self._fit_views(rows.select(self._labeled_views))
            self._of_others = self._fit_other_views(rows)
        self.classes_ = rows.classes
        return self

    def _fit_other_views(self, rows: BaselineRows) -> Self | None:
        """Fit in the views without labels, on linked rows with the classes predicted for them."""
        others = [name for name in rows.linked if name not in self._labeled_views]
        if not others:
            return None
        source = {name: rows.linked[name] for name in self._labeled_views}
        carried, codes = (rows.codes < 0) & have_any(source), rows.codes.copy()
        if carried.any():
            P = self._probabilities({name: X[carried] for name, X in source.items()})
            codes[carried] = P.argmax(axis=1)
        fitted: Self = clone(self)._fit_rows(replace(rows.select(others), codes=codes))
        return fitted if fitted._labeled_views else None

    def _predict_block(self, views: dict[str, Array]) -> Array:
        """Return probabilities from labeled views, else from other views, else class shares."""
        n = len(next(iter(views.values())))
        P = np.tile(self._shares, (n, 1))
        if self._of_others is not None:
            P = self._of_others._predict_block(views)
        known = {name: X for name, X in views.items() if name in self._labeled_views}
        rows = have_any(known) if known else np.zeros(n, dtype=bool)
        if rows.any():
            P[rows] = self._probabilities({name: X[rows] for name, X in known.items()})
        return P

    @abstractmethod
    def _fit_views(self, rows: BaselineRows) -> None:
        """Fit on views that all have labels."""

    @abstractmethod
    def _probabilities(self, views: dict[str, Array]) -> Array:
        """Return the probability of each class for rows that have at least one of the views."""


class UnalignedBaseline(Baseline):
    """Base of the baselines that use unlinked rows."""

    def fit(
        self,
        Xs: Views | None,
        y: npt.ArrayLike | None,
        *,
        unaligned: Views | None = None,
        unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Self:
        """Fit on linked and on unaligned rows, some of them labeled.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes, or None
            Aligned rows: row i is the same individual in every view. NaN throughout a view marks
            an absent row, NaN a missing cell. None if nobody is linked.
        y : 1-D array-like, or None
            Their classes: numbers or text; NaN or None marks a row without a label.
        unaligned : dict, list or tuple of 2-D array-likes, default=None
            More rows of some or all of these views, any number per view.
        unaligned_y : dict of str to 1-D array-like, default=None
            Classes of some views' unaligned rows, with gaps as in `y`.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self._fit_rows(read_rows(Xs, y, unaligned, unaligned_y))


class ConcatenatedBaseline(Baseline):
    """Base of the baselines on the concatenated columns or components of all views."""

    def _fit_transformers(self, rows: BaselineRows, n_components: int | None = None) -> None:
        kept = None if n_components is None else check_count("n_components", n_components)
        self._transformers = {
            name: ViewTransformer(rows.of_view(name)[0], kept) for name in rows.names
        }

    def _concatenate(self, views: Mapping[str, Any]) -> Array:
        """Return the transformed views next to each other; zeros for absent views."""
        n = next(iter(views.values())).shape[0]
        return np.hstack(
            [
                known.scale * known.transform(views[name])
                if name in views
                else np.zeros((n, known.width))
                for name, known in self._transformers.items()
            ]
        )
