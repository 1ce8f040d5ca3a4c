"""Schema of a record: dataclasses of lists, numbers and text, which JSON can hold."""

from __future__ import annotations

import json
import math
import types
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from hotview.evaluation.assessment import Assessment
from hotview.evaluation.metrics import Difference, Proportion

__all__ = [
    "MAJORITY",
    "MAX_BASELINE_ROWS",
    "BaselineScore",
    "Bin",
    "Curve",
    "Effect",
    "Embedding",
    "ImportanceSummary",
    "Layout",
    "Learning",
    "NullSummary",
    "PlanSummary",
    "Rank",
    "Record",
    "Scores",
    "Setting",
    "SimilaritySummary",
    "SubsetScore",
    "ViewScore",
]

_FORMAT = 3
#: Name of the baseline that always predicts the most frequent class of the training labels.
MAJORITY = "majority class"
#: Maximum number of rows of each table that a baseline is fitted on; of more, a random sample.
MAX_BASELINE_ROWS = 50_000


@dataclass(frozen=True)
class NullSummary:
    """Permutation null of the plan: see :class:`hotview.training.view_plan.PermutationNull`.

    `noise` holds the relative costs of permuted tables, `costs` the costs between the views before
    training, which compare shapes.
    """

    p_value: float
    relative_cost: float
    noise: list[float]
    costs: list[list[float]]


@dataclass(frozen=True)
class PlanSummary:
    """The plan over views, and its standard deviation over ensemble members."""

    W: list[list[float]]
    C: list[list[float]]
    std: list[list[float]] | None
    columns: list[str]
    pairwise: bool
    converged: bool
    n_members: int
    null: NullSummary | None


@dataclass(frozen=True)
class SimilaritySummary:
    """Similarity of every pair of views by linked rows; NaN where too few rows are linked.

    `within` is the similarity within classes, `groups` are those that hold.
    """

    value: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]
    p_value: list[list[float]]
    n_rows: list[list[int]]
    within: list[list[float]] | None
    groups: list[int] | None
    stability: float


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation over ensemble members of one recorded quantity."""

    name: str
    mean: list[float]
    std: list[float]


@dataclass(frozen=True)
class Learning:
    """Learning curves; `epochs` are the recorded epochs that are kept, of `n_epochs`."""

    n_estimators: int
    n_epochs: int
    epochs: list[int]
    terms: list[Curve]
    ranks: list[Curve]


@dataclass(frozen=True)
class Rank:
    """Effective rank of a view's latents in the last epoch; at most `max_rank`."""

    view: str
    mean: float
    std: float
    max_rank: int


@dataclass(frozen=True)
class Setting:
    """A parameter and its default as text, and whether they differ."""

    name: str
    value: str
    default: str
    changed: bool


@dataclass(frozen=True)
class ViewScore:
    """Accuracy without a view, the drop caused by hiding it, and accuracy with it alone."""

    view: str
    n_present: int
    without: Proportion | None
    drop: Difference | None
    alone: Proportion | None


@dataclass(frozen=True)
class SubsetScore:
    """Accuracy with subsets of `n_views` views: mean, minimum and maximum over subsets."""

    n_views: int
    mean: float
    low: float
    high: float
    n_subsets: int
    n_possible: int


@dataclass(frozen=True)
class Bin:
    """Mean confidence and accuracy of the rows in a bin of the confidence."""

    confidence: float
    accuracy: Proportion


@dataclass(frozen=True)
class Scores:
    """Scores of a classifier on labeled rows: metrics, and accuracies by view and confidence."""

    metrics: Assessment
    views: list[ViewScore]
    subsets: list[SubsetScore]
    bins: list[Bin]

    @property
    def accuracy(self) -> Proportion:
        """Proportion of correct rows."""
        return self.metrics.accuracy

    @property
    def true_classes(self) -> list[str]:
        """The classes and, last, if such rows occur, all that were not in training as one."""
        return [str(name) for name in self.metrics.classes]

    @property
    def confusion(self) -> list[list[int]]:
        """Rows by true class, in the order of `true_classes`, and predicted class."""
        return [row[: len(self.metrics.by_class)] for row in self.metrics.confusion]


@dataclass(frozen=True)
class BaselineScore:
    """Accuracy of a baseline; `difference` is the model's accuracy minus the baseline's.

    Both are None if the baseline could not be fitted or scored, for the given `reason`.
    """

    name: str
    accuracy: Proportion | None
    difference: Difference | None
    reason: str = ""


@dataclass(frozen=True)
class Effect:
    """Rise of the log loss where a view, or a column of it, is permuted, and the accuracy drop.

    `low` and `high` are the 95 % interval of the rise.
    """

    view: str
    column: str | None
    value: float
    low: float
    high: float
    accuracy_drop: float


@dataclass(frozen=True)
class ImportanceSummary:
    """Permutation importance of the views, and of the columns with the largest effects.

    `n_columns` are those of all views; see :func:`hotview.evaluation.permutation_importance`.
    """

    views: list[Effect]
    columns: list[Effect]
    log_loss: float
    n_rows: int
    n_repeats: int
    n_columns: int


@dataclass(frozen=True)
class Layout:
    """Coordinates of all points in two dimensions, and the names of the axes."""

    name: str
    axes: list[str]
    points: list[list[float]]


@dataclass(frozen=True)
class Embedding:
    """Points of the common space: view, individual and classes of each point (−1: unknown).

    `ids` are those of the individuals; `linked` is True if an individual can be in several views;
    `reason` explains a missing UMAP layout.
    """

    layouts: list[Layout]
    views: list[int]
    individuals: list[int]
    truth: list[int]
    predicted: list[int]
    ids: list[str]
    linked: bool
    n_points: int
    reason: str = ""


@dataclass(frozen=True)
class Record:
    """All data of a report on a model.

    Parameters
    ----------
    kind : str
        Class name of the estimator.
    coupling : str
        Name of the coupling.
    views : list of str
        Names of the views.
    columns : list of int
        Number of columns of each view.
    classes : list of str
        Names of the classes; of an encoder, the labels of the given rows.
    similarity : SimilaritySummary or None
        Similarity of the views by linked rows; None without enough of them.
    view_sentences : list of str
        What linked rows, or else shapes, say about the views.
    contributions : list of str
        Which views to keep, and which could be left out.
    plan : PlanSummary or None
        The plan over the views.
    learning : Learning or None
        Learning curves.
    ranks : list of Rank
        Effective rank of each view in the last epoch.
    settings : list of Setting
        Parameters, changed ones first.
    trained_on : dict
        Rows, labels, time and versions of the fit; empty if not recorded.
    fit_warnings : list of str or None
        Warnings of the fit; None if not recorded.
    metadata : dict
        Metadata of the command line: the command and the files.
    seen : bool, default=False
        Whether the evaluated rows were in training.
    rows : dict of str to int
        Number of evaluated rows of each view; empty without data.
    n_labeled : int, default=0
        Number of evaluated rows with a label.
    scores : Scores or None, default=None
        Scores of a classifier on labeled rows.
    embedding : Embedding or None, default=None
        The common space in two dimensions.
    baselines : list of BaselineScore or None, default=None
        The majority class and, with training rows, other baselines and the model without coupling;
        None without scores.
    importance : ImportanceSummary or None, default=None
        Permutation importance of views and columns.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import Record, make_record
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> record = make_record(MultiViewEncoder(max_epochs=1, random_state=0).fit(views))
    >>> record.kind, record.views[0], record.scores
    ('MultiViewEncoder', 'view_0', None)
    >>> Record.from_json(record.to_json()).to_json() == record.to_json()
    True
    """

    kind: str
    coupling: str
    views: list[str]
    columns: list[int]
    classes: list[str]
    similarity: SimilaritySummary | None
    view_sentences: list[str]
    contributions: list[str]
    plan: PlanSummary | None
    learning: Learning | None
    ranks: list[Rank]
    settings: list[Setting]
    trained_on: dict[str, Any]
    fit_warnings: list[str] | None
    metadata: dict[str, Any]
    seen: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    n_labeled: int = 0
    scores: Scores | None = None
    embedding: Embedding | None = None
    baselines: list[BaselineScore] | None = None
    importance: ImportanceSummary | None = None

    def to_json(self) -> str:
        """Serialize the record.

        Returns
        -------
        str
            JSON that `from_json` reads; NaN and infinities are text ("nan").
        """
        return json.dumps({"format": _FORMAT, **_to_plain(asdict(self))}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Deserialize a record.

        Parameters
        ----------
        text : str
            Output of `to_json`.

        Returns
        -------
        Record
            The record.
        """
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.pop("format", None) != _FORMAT:
            raise ValueError(
                f"Expected a record in format {_FORMAT}, but it is something else. Make it again "
                "with make_record."
            )
        try:
            record: Record = _from_plain(cls, fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                "Expected a record that hotview wrote, but its fields do not match the schema "
                f"({error!r}). Make it again with make_record."
            ) from error
        return record


def _to_plain(value: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, by text."""
    if isinstance(value, dict):
        return {str(key): _to_plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _from_plain(kind: Any, value: Any) -> Any:
    """Build a value of type `kind` from parsed JSON."""
    if kind is Any:
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{name: _from_plain(hints[name], part) for name, part in value.items()})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        return None if value is None else _from_plain(arguments[0], value)
    if origin is list:
        return [_from_plain(arguments[0], part) for part in value]
    if origin is dict:
        return {key: _from_plain(arguments[1], part) for key, part in value.items()}
    if kind is float and (isinstance(value, int | float) or value in ("nan", "inf", "-inf")):
        return float(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
