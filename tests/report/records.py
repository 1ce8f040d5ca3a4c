"""Records whose numbers are easy to recognize."""

from copy import copy
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator

from hotview.evaluation import assess
from hotview.evaluation import scores as schema
from hotview.evaluation.embedding import Embedding, Layout
from hotview.evaluation.importance import Effects, PermutationImportance
from hotview.evaluation.metrics import Difference, Estimate, Proportion
from hotview.evaluation.record import Record
from hotview.similarity import PairSimilarity, ViewSimilarity
from hotview.training.trainer import History
from hotview.training.view_plan import ViewPlan


class MultiViewClassifier(BaseEstimator):
    """What a report reads of a fitted model."""

    n_components, coupling, common_space_ = 10, "hot-reference", None

    def __init__(self, hidden=(128,), reg=0.1):
        self.hidden, self.reg = hidden, reg


class MultiViewEncoder(MultiViewClassifier):
    pass


def change(record, kind=None, **parts):
    """The record with other parts of its own or, of other names, of its model."""
    own = {field.name for field in fields(record)}
    model = copy(record.model)
    model.__class__ = kind or type(model)
    vars(model).update({name: value for name, value in parts.items() if name not in own})
    return replace(record, model=model, **{k: v for k, v in parts.items() if k in own})


def shared(value, n=50):
    return Proportion(value, max(value - 0.1, 0.0), min(value + 0.1, 1.0), n)


def changed(value):
    return Difference(value, 0.021, value - 0.04, value + 0.04, 50)


def plan_of(views, replicas):
    random = np.random.default_rng(0)
    W = random.dirichlet(np.ones(3), len(views)) / len(views)
    s = np.arange(len(views), dtype=float)
    costs = SimpleNamespace(C=abs(s[:, None] - s) / 8)
    null = SimpleNamespace(p_value=0.25, W=np.zeros((3, 1, 1)), plan=costs)
    found = {"reg": 0.1, "f": s, "g": np.zeros(3), "mask": None, "symmetric": False, "n_iter": 1}
    std = W / 10 if replicas > 1 else None
    return ViewPlan(W, W, **found, marginal_error=0.0, tol=1e-6, null=null, std=std)


def similarity_of(n_views):
    """Views of one group, every second one, share information; others do not."""
    s = np.arange(n_views)
    distance, same = abs(s[:, None] - s), (s[:, None] - s) % 2 == 0
    value = np.where(same, 0.9, 0.1) - 0.01 * distance
    p_value, n_rows = np.where(same, 0.001, 0.3), np.full((n_views, n_views), 60)
    rest = value - 0.2, value + 0.05, p_value, n_rows
    within = PairSimilarity(value - 0.05, *rest)
    return ViewSimilarity(value, *rest, within, s % 2 if n_views > 3 else None, 1.0)


def scores_of(views, classes):
    by_view = [schema.ViewScore(v, 50, shared(0.7), changed(0.078), shared(0.6)) for v in views]
    numbers = [schema.SubsetScore(k + 1, 0.5 + k / 50, 0.4, 0.9, 2, 5) for k in range(len(views))]
    bins = [schema.Bin(0.35, shared(0.4, 5)), schema.Bin(0.9, shared(0.85, 45))]
    return schema.Scores(metrics_of(classes), by_view, numbers, bins)


def metrics_of(classes):
    """Metrics of one row for each cell of the confusion matrix, and nine more correct ones."""
    confusion = np.eye(len(classes), dtype=int) * 9 + 1
    truth, predicted = np.argwhere(np.ones_like(confusion)).repeat(confusion.ravel(), axis=0).T
    P = np.full((len(truth), len(classes)), 0.4 / max(1, len(classes) - 1))
    P[np.arange(len(truth)), predicted] = 0.6
    found = assess([classes[k] for k in truth], P, list(classes))
    accuracy, error = shared(0.8), Estimate(0.05, 0.01, 0.09)
    return replace(found, accuracy=accuracy, calibration_error=error, majority=shared(0.968))


def importance_of(views):
    by_view = [(0.5 / (s + 1), 0.1, 0.6, 0.05, 0, 0.1) for s in range(len(views))]
    by_column = [(0.3 - j / 10, -0.1, 0.4, 0, 0, 0) for j in range(4)]
    columns = [f"{views[0]} {j}" for j in range(4)]
    return PermutationImportance(
        Effects(list(views), None, *np.transpose(by_view)),
        Effects([views[0]] * 4, columns, *np.transpose(by_column)),
        *(0.432, 0.8, 50, 3, 3 * len(views), "log_loss"),
    )


def embedding_of(views, n_classes, n=30, layouts=("PCA", "UMAP")):
    random = np.random.default_rng(0)
    count = n * len(views)
    who = np.tile(np.arange(n), len(views))
    return Embedding(
        [Layout(x, ["first", "second"] if x == "PCA" else ["", ""],
                random.normal(size=(count, 2)).round(4).tolist()) for x in layouts],
        np.repeat(np.arange(len(views)), n).tolist(),
        who.tolist(),
        (who % n_classes if n_classes else np.full(count, -1)).tolist(),
        (who // 2 % n_classes if n_classes else np.full(count, -1)).tolist(),
        [f"row {i}" for i in range(n)],
        True,
        count + 7,
    )  # fmt: skip


def histories_of(views, replicas, n_epochs=3):
    """Loss terms that are 2, 1.5 and 1, and an effective rank of 4.5, on average."""
    ranks = {f"effective_rank_{view}": 4.5 for view in views}
    losses = 2 - np.arange(n_epochs) / 2 + (np.arange(replicas)[:, None] - (replicas - 1) / 2) / 8
    rows = [[{"epoch": k + 1, "loss": x, "transport": x} | ranks for k, x in enumerate(loss)]
            for loss in losses]  # fmt: skip
    return list(map(History, rows))


def contributions_of(views):
    """The second view is needed, and others are not known to be."""
    total = {"prior_log_loss": 1.0, "log_loss": 0.5, "standard_error": 0.01}
    change = {"n": 50, "increase": 0.1, "high": 0.3, "low": -0.1}
    found = {view: total | {"loss_without": change} for view in views}
    found[views[1]] = total | {"loss_without": change | {"low": 0.05}}
    return {"all views": total} | found


def make(views=("pix", "mor", "fac", "zer"), classes=("a", "b", "c"), *, replicas=3, n=30):
    """A record of everything, with numbers that are easy to recognize."""
    better = shared(0.7), Difference(0.1, 0.02, 0.06, 0.14, 50)
    baselines = [
        schema.BaselineScore("label propagation in each view", *better),
        schema.BaselineScore("logistic regression", None, None, "it cannot do with gaps"),
    ]
    trained = {
        "linked": 60, "linked_labeled": 40, "unaligned": dict.fromkeys(views, 1140),
        "unaligned_labeled": {}, "classes": [[c, 5] for c in classes], "seconds": 7.1,
        "versions": {"hotview": "1.0"}, "device": "cpu",
    }  # fmt: skip
    model = MultiViewClassifier(hidden=(64,))
    vars(model).update(
        view_names_=list(views),
        n_features_per_view_=dict.fromkeys(views, 3),
        view_similarity_=similarity_of(len(views)),
        out_of_fold_=contributions_of(views),
        plan_=plan_of(views, replicas),
        histories_=histories_of(views, replicas),
        networks_=[None] * replicas,
        trained_on_=trained,
        fit_warnings_=["few rows"],
        metadata_={"command": "hotview fit a.csv", "files": {v: {"path": "a.csv"} for v in views}},
    )
    return Record(
        model,
        list(classes),
        rows=dict.fromkeys(views, n),
        n_labeled=50,
        scores=scores_of(views, classes),
        embedding=embedding_of(views, len(classes), n),
        baselines=baselines,
        importance=importance_of(views),
    )


def with_similarity(record, **fields):
    return change(record, view_similarity_=replace(record.model.view_similarity_, **fields))
