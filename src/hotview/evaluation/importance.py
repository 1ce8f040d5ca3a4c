"""Permutation importance of views and of columns, on rows that were not in training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import t as student

from hotview._types import Array, IntArray, Views
from hotview._validation import check_choice, check_count
from hotview.data.columns import ViewColumns
from hotview.data.labels import number_labels, read_labels
from hotview.evaluation.baseline_rows import are_present
from hotview.evaluation.metrics import mean_difference

__all__ = ["Effects", "PermutationImportance", "permutation_importance"]

_SMALLEST = 1e-12  # probability, so that the log loss of a row is finite
SCORINGS = ("log_loss", "accuracy")


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of permuting views, or columns, sorted by the scoring, the largest first.

    Parameters
    ----------
    views : list of str
        The view of every effect.
    columns : list of str or None
        The column of every effect; None of effects of whole views.
    loss_increase, loss_low, loss_high : ndarray
        Increase of the log loss, mean over rows and repeats, and its 95 % interval.
    accuracy_drop, accuracy_low, accuracy_high : ndarray
        Drop of the accuracy, and its 95 % interval.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.evaluation.importance import Effects
    >>> effects = Effects(["labs"], ["iron"], *np.array([[0.3], [0.2], [0.4], [0.1], [0.0], [0.2]]))
    >>> effects.to_dicts()[0]["column"], effects.to_dicts()[0]["loss_increase"]
    ('iron', 0.3)
    """

    views: list[str]
    columns: list[str] | None
    loss_increase: Array
    loss_low: Array
    loss_high: Array
    accuracy_drop: Array
    accuracy_low: Array
    accuracy_high: Array

    def __len__(self) -> int:
        return len(self.views)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dict of plain values per effect, as for a data frame or JSON."""
        effects: dict[str, Any] = {"view": self.views}
        if self.columns is not None:
            effects["column"] = self.columns
        numbers = {key: x.tolist() for key, x in vars(self).items() if isinstance(x, np.ndarray)}
        columns = effects | numbers
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """How much worse predictions are where a view, or a column, is permuted.

    Parameters
    ----------
    views : Effects
        One effect per view.
    columns : Effects
        One effect per column that was permuted by itself.
    log_loss : float
        Log loss of the rows as they are.
    accuracy : float
        Their accuracy.
    n_rows : int
        Number of rows.
    n_repeats : int
        Number of permutations of every view and column.
    n_columns : int
        Number of columns of all views, of which `columns` may hold a part.
    scoring : str
        Measure by which effects are sorted.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation import permutation_importance
    >>> data = make_views(100, n_views=2, n_groups=1, labeled=1.0, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=2, n_estimators=2, random_state=0)
    >>> model = model.fit({n: X[:60] for n, X in data.linked.items()}, data.linked_target[:60])
    >>> new = {name: X[60:] for name, X in data.linked.items()}
    >>> found = permutation_importance(model, new, data.linked_target[60:])
    >>> sorted(found.to_dict()["views"][0])[:3]
    ['accuracy_drop', 'accuracy_high', 'accuracy_low']
    """

    views: Effects
    columns: Effects
    log_loss: float
    accuracy: float
    n_rows: int
    n_repeats: int
    n_columns: int
    scoring: str

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        effects = {"views": self.views.to_dicts(), "columns": self.columns.to_dicts()}
        numbers = {key: value for key, value in vars(self).items() if key not in effects}
        return {**numbers, **effects}


def permutation_importance(
    model: Any,
    Xs: Views,
    y: npt.ArrayLike,
    *,
    n_repeats: int = 5,
    scoring: str = "log_loss",
    max_columns: int = 50,
    max_rows: int = 1000,
    random_state: int = 0,
) -> PermutationImportance:
    r"""Measure how much a classifier relies on every view, and on every column.

    .. math:: \frac{1}{nR} \sum_{r=1}^R \sum_{i=1}^n
        \big( \ell(y_i, x_i^{(r)}) - \ell(y_i, x_i) \big)

    where :math:`x_i^{(r)}` has the values of another row in the view or column, and ℓ is the log
    loss, or 1 for an error and 0 else. The columns of a view are permuted together, and so are all
    columns that encode the same categorical column. Rows that lack a view keep lacking it: the
    others are permuted among each other. Pass rows that were not in training.

    The 95 % intervals are those of a mean over rows, of every row's mean over repeats: they cover
    another sample of rows and other permutations, not another training. Of columns that tell the
    same, each can be permuted without much loss: their importance is shared, and that of the view
    is more than the sum.

    With more columns than `max_columns`, those to permute by themselves are found by successive
    halving: blocks of neighboring columns are permuted once each, the half of the blocks whose
    permutation raises the log loss most is kept, and these blocks are cut in two, until no more
    than `max_columns` columns are left. A column of small effect may be missed by it.

    Parameters
    ----------
    model : MultiViewClassifier
        The fitted classifier.
    Xs : dict, list or tuple of 2-D array-likes
        As for `predict_proba`: arrays, frames or sparse matrices; views may be left out.
    y : 1-D array-like
        The true classes. Rows without a label are left out, and so are rows of classes that the
        model does not know.
    n_repeats : int, default=5
        Number of permutations of every view and column.
    scoring : {"log_loss", "accuracy"}, default="log_loss"
        Measure by which effects are sorted; both are computed.
    max_columns : int, default=50
        Maximum number of columns that are permuted by themselves; 0 for views only.
    max_rows : int, default=1000
        Maximum number of rows; of more, a random sample.
    random_state : int, default=0
        Seed of the permutations.

    Returns
    -------
    PermutationImportance
        Effects of views and of columns.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation import permutation_importance
    >>> data = make_views(100, n_views=2, n_groups=1, labeled=1.0, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=2, n_estimators=2, random_state=0)
    >>> model = model.fit({n: X[:60] for n, X in data.linked.items()}, data.linked_target[:60])
    >>> new = {name: X[60:] for name, X in data.linked.items()}
    >>> found = permutation_importance(model, new, data.linked_target[60:])
    >>> sorted(found.views.views), found.n_rows
    (['view_0', 'view_1'], 40)
    """
    check_choice("scoring", scoring, SCORINGS)
    check_count("n_repeats", n_repeats)
    random = np.random.default_rng(random_state)
    permuter = _Permuter(model, *_take_rows(model, Xs, y, max_rows, random), n_repeats, random)
    names = list(permuter.tables)
    whole = [_Block.of_view(name, model.columns_[name]) for name in names]
    blocks = _screen(permuter, whole, max_columns) if max_columns > 0 else []
    single = [part for block in blocks for part in block.split(len(block))]
    log_loss, accuracy = permuter.loss.mean(), permuter.correct.mean()
    return PermutationImportance(
        _sort(permuter, whole, scoring, named=False),
        _sort(permuter, single, scoring, named=True),
        float(log_loss),
        float(accuracy),
        len(permuter.truth),
        n_repeats,
        sum(map(len, whole)),
        scoring,
    )


@dataclass(frozen=True)
class _Block:
    """Neighboring columns of a view: names, and the ends of what encodes each."""

    view: str
    names: Sequence[str]
    edges: Sequence[int]

    @classmethod
    def of_view(cls, view: str, columns: ViewColumns) -> _Block:
        """All columns of a view that are encoded."""
        widths = [1] * columns.n_columns
        if columns.columns is not None:
            widths = [column.width for column in columns.columns if column.width > 0]
        edges, names = np.cumsum([0, *widths]).tolist(), columns.source_names
        return cls(view, [names[a] for a in edges[:-1]], edges)

    def __len__(self) -> int:
        return len(self.names)

    def split(self, n_parts: int) -> list[_Block]:
        """Return parts of nearly equal size, none of them empty."""
        ends = np.linspace(0, len(self), min(n_parts, len(self)) + 1).astype(int)
        return [
            _Block(self.view, self.names[a:b], self.edges[a : b + 1]) for a, b in pairwise(ends)
        ]


@dataclass(eq=False)
class _Permuter:
    """Predictions of a model for rows with some columns permuted."""

    model: Any
    tables: dict[str, Any]
    truth: IntArray
    n_repeats: int
    random: np.random.Generator
    present: dict[str, IntArray] = field(init=False)
    loss: Array = field(init=False)
    correct: Array = field(init=False)

    def __post_init__(self) -> None:
        self.present = {n: np.flatnonzero(are_present(X)) for n, X in self.tables.items()}
        self.loss, self.correct = self._score(self.tables)

    def increases(self, block: _Block, n_repeats: int) -> tuple[Array, Array]:
        """Increase of the log loss and drop of the accuracy of every row, mean over repeats."""
        loss, correct = np.zeros_like(self.loss), np.zeros_like(self.correct)
        for _ in range(n_repeats):
            order = np.arange(len(self.truth))
            present = self.present[block.view]
            order[present] = self.random.permutation(present)
            permuted = _permute(
                self.tables[block.view], slice(block.edges[0], block.edges[-1]), order
            )
            found = self._score({**self.tables, block.view: permuted})
            loss += found[0] / n_repeats
            correct += found[1] / n_repeats
        return loss - self.loss, self.correct - correct

    def _score(self, tables: dict[str, Any]) -> tuple[Array, Array]:
        P = self.model.predict_proba(tables)
        likelihood = P[np.arange(len(P)), self.truth]
        correct: Array = (P.argmax(axis=1) == self.truth).astype(np.float64)
        return -np.log(np.maximum(likelihood, _SMALLEST, dtype=np.float64)), correct


def _take_rows(
    model: Any, Xs: Views, y: npt.ArrayLike, max_rows: int, random: np.random.Generator
) -> tuple[dict[str, Any], IntArray]:
    """Return encoded views of labeled rows, and the number of their classes."""
    tables = model._check(Xs, y, aligned=True)
    truth = np.full(next(iter(tables.values())).n_rows, -1, dtype=np.int64)
    found = read_labels("y", y, len(truth), model.unlabeled_marker)
    truth[found.known] = number_labels(found.values, model.classes_)
    rows = np.flatnonzero(truth >= 0)
    if len(rows) < 2:
        raise ValueError(
            f"Expected at least 2 rows with a class of the model, but y has {len(rows)}. Pass more "
            "labeled rows, that were not in training."
        )
    if len(rows) > max_rows:
        rows = np.sort(random.choice(rows, check_count("max_rows", max_rows), replace=False))
    taken = {name: table.rows(rows, dense=False) for name, table in tables.items()}
    return {n: X if sparse.issparse(X) else np.asarray(X) for n, X in taken.items()}, truth[rows]


def _permute(X: Any, columns: slice, order: IntArray) -> Any:
    """Return a copy in which row i has some columns of row ``order[i]``."""
    if hasattr(X, "tocoo"):
        entries = X.tocoo()
        moved = (entries.col >= columns.start) & (entries.col < columns.stop)
        rows = np.where(moved, np.argsort(order)[entries.row], entries.row)
        return sparse.csr_array((entries.data, (rows, entries.col)), shape=X.shape)
    permuted = X.copy()
    permuted[:, columns] = X[order, columns]
    lost = np.isnan(permuted).all(axis=1)  # a row with a single value, which went elsewhere
    permuted[lost] = X[lost]
    return permuted


def _screen(permuter: _Permuter, whole: Sequence[_Block], n_most: int) -> list[_Block]:
    """Return blocks of at most `n_most` columns in all, by successive halving."""
    total = sum(map(len, whole))
    if total <= n_most:
        return list(whole)
    share = n_most / total
    blocks = [p for b in whole for p in b.split(max(1, round(share * len(b))))]
    while True:
        effects = [float(permuter.increases(block, 1)[0].mean()) for block in blocks]
        order = np.argsort(effects, kind="stable")[::-1][: max(1, len(blocks) // 2)]
        blocks = [blocks[k] for k in sorted(order)]
        if sum(map(len, blocks)) <= n_most:
            return blocks
        blocks = [part for block in blocks for part in block.split(2)]


def _sort(permuter: _Permuter, blocks: Sequence[_Block], scoring: str, *, named: bool) -> Effects:
    """Return the effects of permuting every block, the largest first."""
    found = [permuter.increases(block, permuter.n_repeats) for block in blocks]
    loss = np.array([_mean_interval(increase) for increase, _ in found]).reshape(-1, 3)
    drops = [mean_difference(drop) for _, drop in found]
    accuracy = np.array([(drop.value, drop.low, drop.high) for drop in drops]).reshape(-1, 3)
    order = np.argsort(-(loss if scoring == "log_loss" else accuracy)[:, 0], kind="stable")
    columns = [blocks[k].names[0] for k in order] if named else None
    return Effects([blocks[k].view for k in order], columns, *loss[order].T, *accuracy[order].T)


def _mean_interval(x: Array) -> tuple[float, float, float]:
    """Mean over rows, and its 95 % interval by Student's t."""
    mean, n = float(x.mean()), len(x)
    width = float(student.ppf(0.975, n - 1) * x.std(ddof=1) / math.sqrt(n))
    return mean, mean - width, mean + width
