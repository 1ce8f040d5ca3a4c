"""Dataclasses of a record: what a report shows of a model, and of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hotview.evaluation.assessment import Assessment
from hotview.evaluation.importance import PermutationImportance
from hotview.evaluation.metrics import Difference, Proportion
from hotview.similarity import ViewSimilarity
from hotview.training.view_plan import ViewPlan

#: Name of the baseline that always predicts the most frequent class of the training labels.
MAJORITY = "majority class"
#: Maximum number of rows of each table that a baseline is fitted on; of more, a random sample.
MAX_BASELINE_ROWS = 50_000


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation over ensemble members of one recorded quantity."""

    name: str
    mean: list[float]
    std: list[float]


@dataclass(frozen=True)
class Learning:
    """Learning curves; `epochs` are the recorded epochs that are kept, of `n_epochs`."""

    n_epochs: int
    epochs: list[int]
    terms: list[Curve]


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
    """All data of a report on a model: its own results, numbers and text.

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
    similarity : ViewSimilarity or None
        Similarity of the views by linked rows; None without enough of them.
    view_sentences : list of str
        What linked rows, or else shapes, say about the views.
    contributions : list of str
        Which views to keep, and which could be left out.
    plan : ViewPlan or None
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
    n_members : int
        Number of trained networks.
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
    importance : PermutationImportance or None, default=None
        Permutation importance of views and columns.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> record = make_record(MultiViewEncoder(max_epochs=1, random_state=0).fit(views))
    >>> record.kind, record.views[0], record.scores
    ('MultiViewEncoder', 'view_0', None)
    """

    kind: str
    coupling: str
    views: list[str]
    columns: list[int]
    classes: list[str]
    similarity: ViewSimilarity | None
    view_sentences: list[str]
    contributions: list[str]
    plan: ViewPlan | None
    learning: Learning | None
    ranks: list[Rank]
    settings: list[Setting]
    trained_on: dict[str, Any]
    fit_warnings: list[str] | None
    metadata: dict[str, Any]
    n_members: int
    seen: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    n_labeled: int = 0
    scores: Scores | None = None
    embedding: Embedding | None = None
    baselines: list[BaselineScore] | None = None
    importance: PermutationImportance | None = None
