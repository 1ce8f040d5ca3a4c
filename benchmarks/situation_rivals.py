"""What people have today, in each of the situations: simple tools of scikit-learn on an outer join.

A tool is fitted to all rows that have a label and one of the views at hand. Where no row has both
(labels in another view), linked rows get the label that the same tool predicts from the labeled
views, and the tool is fitted to these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from situation_data import Task
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

EVERYWHERE = ("majority", "logistic regression", "PCA + logistic regression", "label propagation")
SLOW = ("random forest", "gradient boosting")
BALANCED = "logistic regression, balanced"
TRANSFER = ("ridge over links", "CCA over links", "fused Gromov-Wasserstein")
N_COMPONENTS, N_NEIGHBORS, FLOOR = 20, 10, 0.01


def rivals_of(situation: str, setting: str) -> tuple[str, ...]:
    """Names of the tools of a situation."""
    if situation == "C" or setting == "other table":
        return (*EVERYWHERE, SLOW[0], *TRANSFER)
    if situation == "F":
        return (*EVERYWHERE, SLOW[0], BALANCED)
    return (*EVERYWHERE, *(SLOW if situation in "EG" else SLOW[:1]))


class Tables:
    """Standardized rows of every view of a task, by all its training rows, and their labels."""

    def __init__(self, task: Task) -> None:
        self.task, self.names = task, list(task.linked or task.unaligned)
        self.rows, self.labels, self.scale = {}, {}, {}
        n = len(task.y)
        for v in self.names:
            parts = [task.linked[v]] if n else []
            more = task.unaligned.get(v)
            codes = [task.y] if n else []
            if more is not None:
                parts.append(more)
                codes.append(task.unaligned_y.get(v, np.full(len(more), -1)))
            X = np.vstack(parts)
            std = np.nanstd(X, axis=0)
            self.scale[v] = np.nanmean(X, axis=0), np.where(std > 0, std, 1.0)
            self.rows[v], self.labels[v] = self.standardize(v, X), np.concatenate(codes)
        every = [task.y, *task.unaligned_y.values()]
        known = np.concatenate(every)
        self.counts = np.bincount(known[known >= 0])
        self.n_classes = len(self.counts)

    def shares(self, views: list[str]) -> Any:
        """Shares of the classes among labels of some views, or of all where these have none."""
        own = np.concatenate([self.labels[v][self.labels[v] >= 0] for v in views])
        counts = np.bincount(own, minlength=self.n_classes) if len(own) else self.counts
        return counts / counts.sum()

    def standardize(self, v: str, X: Any) -> Any:
        """Rows of a view, standardized by its training rows."""
        mean, std = self.scale[v]
        return (X - mean) / std

    def join(self, views: list[str], labels: Any = None) -> tuple[dict[str, Any], Any]:
        """The outer join of labeled rows that have one of some views, NaN elsewhere."""
        n = len(self.task.y)
        y = self.task.y if labels is None else labels
        blocks: list[tuple[dict[str, Any], Any]] = []
        if n:
            has = np.any([~np.isnan(self.rows[v][:n, 0]) for v in views], axis=0) & (y >= 0)
            blocks.append(({v: self.rows[v][:n][has] for v in views}, y[has]))
        for v in views:
            own = np.flatnonzero(self.labels[v][n:] >= 0) + n
            blocks.append(({v: self.rows[v][own]}, self.labels[v][own]))
        target = np.concatenate([codes for _, codes in blocks])
        joined = {}
        for v in views:
            width = self.rows[v].shape[1]
            joined[v] = np.vstack(
                [part.get(v, np.full((len(codes), width), np.nan)) for part, codes in blocks]
            )
        return joined, target

    def teach(self, tool: str, views: list[str]) -> Any:
        """Labels of linked rows, as the same tool predicts them from the views with labels."""
        having = [v for v in self.names if (self.labels[v] >= 0).any()]
        rows = {v: self.rows[v][: len(self.task.y)] for v in having}
        return predict_joined(self, tool, having, rows, None).argmax(axis=1)


def predict(tool: str, tables: Tables, test: dict[str, Any]) -> Any:
    """Class probabilities of test rows by one tool."""
    views = list(test)
    if tool == "majority":
        return np.tile(tables.shares(views), (len(next(iter(test.values()))), 1))
    rows = {v: tables.standardize(v, X) for v, X in test.items()}
    if any((tables.labels[v] >= 0).any() for v in views):
        return predict_joined(tables, tool, views, rows, None)
    if tool in TRANSFER:
        return transfer(tables, tool, views[0], rows[views[0]])
    return predict_joined(tables, tool, views, rows, tables.teach(tool, views))


def predict_joined(tables: Tables, tool: str, views: list[str], rows: dict, labels: Any) -> Any:
    """Probabilities by a tool that is fitted to the outer join of labeled rows."""
    joined, target = tables.join(views, labels)
    n_rows = len(next(iter(rows.values())))
    known = np.unique(target)
    if len(known) < 2:
        P = np.zeros((n_rows, tables.n_classes))
        P[:, known] = 1
        return P
    if tool == "label propagation":
        return propagate(tables, views, rows, labels)
    if tool == "PCA + logistic regression":
        for v in views:
            X = tables.rows[v]
            X = X[~np.isnan(X[:, 0])]
            pca = PCA(min(N_COMPONENTS, *X.shape), random_state=0).fit(X)
            scale = 1 / np.sqrt(X.shape[1])
            joined[v], rows = project(pca, joined[v], scale), dict(rows)
            rows[v] = project(pca, rows[v], scale)
    X, T = np.hstack([joined[v] for v in views]), np.hstack([rows[v] for v in views])
    if tool != "gradient boosting":
        X, T = np.nan_to_num(X), np.nan_to_num(T)
    models = {
        "logistic regression": LogisticRegression(max_iter=2000),
        BALANCED: LogisticRegression(class_weight="balanced", max_iter=2000),
        "PCA + logistic regression": LogisticRegression(C=10, max_iter=2000),
        "random forest": RandomForestClassifier(200, random_state=0),
        "gradient boosting": HistGradientBoostingClassifier(random_state=0, max_iter=60),
    }
    model = models[tool].fit(X, target)
    P = np.zeros((n_rows, tables.n_classes))
    P[:, model.classes_] = model.predict_proba(T)
    return P


def project(pca: PCA, X: Any, scale: float) -> Any:
    """Principal components; NaN in absent rows."""
    absent = np.isnan(X[:, 0])
    return np.where(absent[:, None], np.nan, scale * pca.transform(np.nan_to_num(X)))


def propagate(tables: Tables, views: list[str], rows: dict, labels: Any) -> Any:
    """Label propagation in every view; logarithms of scores are added over a row's views."""
    n, n_rows = len(tables.task.y), len(next(iter(rows.values())))
    total = np.zeros((n_rows, tables.n_classes))
    for v in views:
        X, codes = tables.rows[v], tables.labels[v].copy()
        if labels is not None:
            codes[:n] = labels
        present = ~np.isnan(X[:, 0])
        X, codes = X[present], codes[present]
        if not (codes >= 0).any():
            continue
        pca = PCA(min(N_COMPONENTS, *X.shape), random_state=0).fit(X)
        scores = spread(pca.transform(X), codes, tables.n_classes)
        here = ~np.isnan(rows[v][:, 0])
        if not here.any():
            continue
        near = NearestNeighbors(n_neighbors=min(N_NEIGHBORS, len(X))).fit(pca.transform(X))
        _, index = near.kneighbors(pca.transform(rows[v][here]))
        total[here] += np.log(scores[index].mean(axis=1) + FLOOR)
    return softmax(total, axis=1)


def spread(Z: Any, codes: Any, n_classes: int) -> Any:
    """scikit-learn's label spreading on a neighbor graph, classes with equal mass."""
    A = NearestNeighbors(n_neighbors=min(N_NEIGHBORS, len(Z) - 1)).fit(Z).kneighbors_graph()
    A = (A + A.T) / 2
    model = LabelSpreading(kernel=lambda *_: A, alpha=0.95, max_iter=1000, tol=1e-4).fit(Z, codes)
    scores = model.label_distributions_ / np.bincount(codes[codes >= 0])[model.classes_]
    P = np.zeros((len(Z), n_classes))
    P[:, model.classes_] = scores
    total = P.sum(axis=1, keepdims=True)
    return np.divide(P, total, out=np.full_like(P, 1 / n_classes), where=total > 0)


def transfer(tables: Tables, tool: str, B: str, test: Any) -> Any:
    """Rows of B are mapped into the columns of A over linked rows; logistic regression there."""
    (A,) = [v for v in tables.names if (tables.labels[v] >= 0).any()]
    n = len(tables.task.y)
    XA, XB = tables.rows[A], tables.rows[B]
    pa = PCA(min(N_COMPONENTS, *XA.shape), random_state=0).fit(XA)
    pb = PCA(min(N_COMPONENTS, *XB.shape), random_state=0).fit(XB)
    ZA, ZB, ZT = pa.transform(XA), pb.transform(XB), pb.transform(test)
    labeled = tables.labels[A] >= 0
    if tool == "ridge over links":
        mapped = Ridge(alpha=float(len(ZA[0]))).fit(ZB[:n], ZA[:n]).predict(ZT)
        features = ZA
    elif tool == "CCA over links":
        k = min(5, n - 1, ZA.shape[1], ZB.shape[1])
        cca = CCA(k, max_iter=1000).fit(ZA[:n], ZB[:n])
        features, mapped = cca.transform(ZA), cca.transform(ZA[: len(ZT)], ZT[: len(ZA)])[1]
        mapped = np.vstack(
            [
                cca.transform(ZA[: len(part)], part)[1]
                for part in np.array_split(ZT, -(-len(ZT) // len(ZA)))
            ]
        )
    else:
        return fused(tables, A, B, ZA, ZB, ZT)
    codes = tables.labels[A][labeled]
    P = np.zeros((len(test), tables.n_classes))
    if len(np.unique(codes)) < 2:
        P[:, codes[0]] = 1
        return P
    model = LogisticRegression(max_iter=2000).fit(features[labeled], codes)
    P[:, model.classes_] = model.predict_proba(mapped)
    return P


def fused(tables: Tables, A: str, B: str, ZA: Any, ZB: Any, ZT: Any) -> Any:
    """Fused Gromov-Wasserstein of POT; features are distances to the linked rows."""
    import ot

    n, size = len(tables.task.y), 500
    labels = predict_joined(tables, "label propagation", [A], {A: tables.rows[A]}, None)
    a, b = ZA[:size], ZB[:size]  # linked rows come first

    def distances(X: Any, Y: Any) -> Any:
        D = np.sqrt(np.maximum(((X[:, None] - Y[None]) ** 2).sum(axis=2), 0))
        return D / D.mean()

    M = distances(distances(a, a[:n]), distances(b, b[:n])) if n else np.zeros((len(a), len(b)))
    plan = ot.gromov.fused_gromov_wasserstein(
        M, distances(a, a), distances(b, b), alpha=0.5, symmetric=True, max_iter=50
    )
    scores = plan.T @ labels[: len(a)]
    scores /= np.maximum(scores.sum(axis=1, keepdims=True), 1e-12)
    near = NearestNeighbors(n_neighbors=min(N_NEIGHBORS, len(b))).fit(b)
    return scores[near.kneighbors(ZT)[1]].mean(axis=1)


def log_loss(P: Any, y: Any) -> float:
    """Mean −log p of the true class, none counted as more than log 1000."""
    P = np.maximum(P, 1e-3)
    return float(-log_softmax(np.log(P), axis=1)[np.arange(len(y)), y].mean())
