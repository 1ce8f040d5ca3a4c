from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hotview.evaluation import assess
from hotview.evaluation.importance import Effects, PermutationImportance
from hotview.evaluation.metrics import Difference, Estimate, Proportion
from hotview.evaluation.record import schema
from hotview.similarity import PairSimilarity, ViewSimilarity
from hotview.training.view_plan import ViewPlan


def shared(value, n=50):
    return Proportion(value, max(value - 0.1, 0.0), min(value + 0.1, 1.0), n)


def changed(value):
    return Difference(value, 0.021, value - 0.04, value + 0.04, 50)


def plan_of(views, replicas):
    random = np.random.default_rng(0)
    W = random.dirichlet(np.ones(3), len(views)) / len(views)
    s = np.arange(len(views), dtype=float)
    null = SimpleNamespace(p_value=0.25, W=np.zeros((3, 1, 1)), plan=SimpleNamespace())
    null.plan.C = abs(s[:, None] - s) / 8
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
    return schema.Embedding(
        [schema.Layout(x, ["first", "second"] if x == "PCA" else ["", ""],
                random.normal(size=(count, 2)).round(4).tolist()) for x in layouts],
        np.repeat(np.arange(len(views)), n).tolist(),
        who.tolist(),
        (who % n_classes if n_classes else np.full(count, -1)).tolist(),
        (who // 2 % n_classes if n_classes else np.full(count, -1)).tolist(),
        [f"row {i}" for i in range(n)],
        True,
        count + 7,
    )  # fmt: skip


def make(views=("pix", "mor", "fac", "zer"), classes=("a", "b", "c"), *, replicas=3, n=30):
    """A record of everything, with numbers that are easy to recognize."""
    curves = [schema.Curve(name, [2.0, 1.5, 1.0], [0.1] * 3) for name in ("loss", "transport")]
    baselines = [
        schema.BaselineScore(
            "label propagation in each view", shared(0.7), Difference(0.1, 0.02, 0.06, 0.14, 50)
        ),
        schema.BaselineScore("logistic regression", None, None, "it cannot do with gaps"),
    ]
    trained = {
        "linked": 60, "linked_labeled": 40, "unaligned": dict.fromkeys(views, 1140),
        "unaligned_labeled": {}, "classes": [[c, 5] for c in classes], "seconds": 7.1,
        "versions": {"hotview": "1.0"}, "device": "cpu",
    }  # fmt: skip
    return schema.Record(
        kind="MultiViewClassifier",
        coupling="hot-reference",
        views=list(views),
        columns=[3] * len(views),
        classes=list(classes),
        similarity=similarity_of(len(views)),
        view_sentences=[f"By 60 linked rows, {views[0]!r} is similar (p ≤ 0.05).", "Second."],
        contributions=[f"Keep {views[1]!r}."],
        plan=plan_of(views, replicas),
        learning=schema.Learning(3, [1, 2, 3], curves),
        ranks=[schema.Rank(view, 4.5, 0.3, 10) for view in views],
        settings=[
            schema.Setting("hidden", "(64,)", "(128,)", True),
            schema.Setting("reg", "0.1", "0.1", False),
        ],
        trained_on=trained,
        fit_warnings=["few rows"],
        n_members=replicas,
        metadata={"command": "hotview fit a.csv", "files": {v: {"path": "a.csv"} for v in views}},
        rows=dict.fromkeys(views, n),
        n_labeled=50,
        scores=scores_of(views, classes),
        embedding=embedding_of(views, len(classes), n),
        baselines=baselines,
        importance=importance_of(views),
    )


@pytest.fixture(scope="session")
def make_one():
    """How to make a record."""
    return make


@pytest.fixture(scope="session")
def record():
    return make()
