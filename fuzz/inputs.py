"""Inputs of estimators: arrays, frames and labels of every odd kind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch

import hotview as hv
from fuzz.campaign import Problem
from fuzz.models import DATA, SMALL

__all__ = ["FitInputs", "PredictInputs"]

Random = np.random.Generator
Odd = Callable[[Random, np.ndarray[Any, Any]], Any]

#: changes of a view, whose shape they may keep
_ODD_VIEWS: tuple[Odd, ...] = (
    lambda random, X: None,
    lambda random, X: X[:0],
    lambda random, X: X[:1],
    lambda random, X: X[:, :0],
    lambda random, X: X[:, :1],
    lambda random, X: X[:, 0],
    lambda random, X: X[None],
    lambda random, X: X * np.nan,
    lambda random, X: np.where(random.random(X.shape) < 0.5, X, np.nan),
    lambda random, X: np.where(random.random((len(X), 1)) < 0.5, X, np.nan),
    lambda random, X: np.where(random.random(X.shape) < 0.05, np.inf, X),
    lambda random, X: X * 10.0 ** random.choice([-320, -300, -40, 20, 38, 200, 308]),
    lambda random, X: X + 10.0 ** random.choice([6, 12, 18, 30, 300]),
    lambda random, X: np.zeros_like(X),
    lambda random, X: np.full_like(X, 1e-310),
    lambda random, X: np.repeat(X[:1], len(X), axis=0),
    lambda random, X: X.astype(random.choice(["float16", "float32", "int8", "int64", "bool"])),
    lambda random, X: X.astype(random.choice(["complex128", "str", "object", "datetime64[s]"])),
    lambda random, X: np.asfortranarray(X),
    lambda random, X: X[::-1, ::-1],
    lambda random, X: np.ma.masked_array(X, random.random(X.shape) < 0.2),
    lambda random, X: X.tolist(),
    lambda random, X: [*X[:-1].tolist(), [1.0]],
    lambda random, X: pd.DataFrame(X),
    lambda random, X: pd.DataFrame(X, columns=["a"] * X.shape[1]),
    lambda random, X: pd.DataFrame(X).assign(site="north"),
    lambda random, X: pd.DataFrame(X).convert_dtypes(),
    lambda random, X: scipy.sparse.csr_array(X),
    lambda random, X: scipy.sparse.coo_matrix(np.where(X > 0, X, 0)),
    lambda random, X: scipy.sparse.csr_array(np.where(X > 1, np.nan, 0)),
    lambda random, X: torch.from_numpy(X.copy()),
    lambda random, X: np.hstack([X, X]),
    lambda random, X: np.vstack([X, X]),
    lambda random, X: "views.csv",
    lambda random, X: 3.0,
    lambda random, X: X,
)
#: changes of labels
_ODD_LABELS: tuple[Odd, ...] = (
    lambda random, y: None,
    lambda random, y: y[:-1],
    lambda random, y: np.zeros_like(y),
    lambda random, y: np.arange(len(y)),
    lambda random, y: y[:, None],
    lambda random, y: y.astype(float) + 0.5,
    lambda random, y: np.where(random.random(len(y)) < 0.5, y, np.nan),
    lambda random, y: y * np.nan,
    lambda random, y: np.where(random.random(len(y)) < 0.9, np.nan, y),
    lambda random, y: y.astype(str),
    lambda random, y: np.array([None if k == 0 else f"c{k}" for k in y], dtype=object),
    lambda random, y: np.array([k if k else "zero" for k in y], dtype=object),
    lambda random, y: np.array([b"a" if k else b"b" for k in y]),
    lambda random, y: y == 0,
    lambda random, y: y * 10**15,
    lambda random, y: np.where(y == 0, np.inf, y),
    lambda random, y: pd.Series(y, dtype="category"),
    lambda random, y: list(y),
    lambda random, y: np.array(["\ud800" if k else "x" for k in y], dtype=object),
    lambda random, y: y,
)


def _pick(random: Random, odd: tuple[Odd, ...], value: np.ndarray[Any, Any]) -> Any:
    with np.errstate(all="ignore"):
        return odd[random.integers(len(odd))](random, value.copy())


def _odd_views(random: Random, views: dict[Any, Any]) -> Any:
    """Return views, one or two of them odd, in a dict or a list."""
    changed: dict[Any, Any] = dict(views)
    for name in random.choice(sorted(views), size=random.integers(0, 3)):
        changed[str(name)] = _pick(random, _ODD_VIEWS, views[name])
    if random.random() < 0.1:
        changed.pop(sorted(changed)[0])
    return list(changed.values()) if random.random() < 0.2 else changed


class _Untouched:
    """Checks that a call leaves its arguments and the global random states as they were."""

    def __init__(self, *given: Any) -> None:
        self.given, self.before = given, copy.deepcopy(given)

    def __enter__(self) -> None:
        self.states = self._random_states()

    def _random_states(self) -> list[np.ndarray[Any, Any]]:
        state: Any = np.random.get_state()  # noqa: NPY002
        return [torch.get_rng_state().numpy().copy(), state[1].copy()]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not all((a == b).all() for a, b in zip(self.states, self._random_states(), strict=True)):
            raise Problem("a global random state has changed")
        if not _same(self.given, self.before):
            raise Problem("the caller's data have changed")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if hasattr(a, "tocoo"):
        return a.shape == b.shape and _same(a.data, b.data)
    if isinstance(a, pd.DataFrame | pd.Series):
        return bool(a.equals(b))
    if isinstance(a, torch.Tensor):
        return _same(a.numpy(), b.numpy())
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and repr(a.tolist()) == repr(b.tolist())
    return repr(a) == repr(b)


def _check_probabilities(P: np.ndarray[Any, Any], n_classes: int) -> None:
    fits = P.ndim == 2 and P.shape[1] == n_classes and np.isfinite(P).all() and (P >= 0).all()
    if not fits or not np.allclose(P.sum(1), 1, atol=1e-4):
        raise Problem(f"predict_proba returns what are no probabilities: {P[:2]}")


@dataclass(frozen=True)
class FitInputs:
    """Inputs of `fit`: refused, or training diverges and says so, or the model predicts."""

    def prepare(self, folder: Path) -> None:
        """Need nothing."""

    def run(self, random: Random, originals: Path, folder: Path) -> str:
        """Fit an estimator to odd rows, and predict."""
        couplings = ["none", "lscca", "dgcca", "sw-pairwise", "sw-reference", "hot-pairwise"]
        parameters = {
            **SMALL,
            "max_epochs": 1,
            "coupling": random.choice([*couplings, "hot-reference"]),
        }
        parameters["coupling"] = str(parameters["coupling"])
        impute = random.choice(["none", "mean"])
        parameters["impute"] = None if impute == "none" else str(impute)
        unaligned = _odd_views(random, DATA.views) if random.random() < 0.5 else None
        if random.random() < 0.3:
            Xs = _odd_views(random, DATA.views)
            try:
                with _Untouched(Xs):
                    encoder = hv.MultiViewEncoder(**parameters).fit(Xs)
                    Z = encoder.transform(Xs)
            except (FloatingPointError, TypeError, ValueError):
                return "refused"
            found = [np.asarray(X) for X in (Z.values() if isinstance(Z, dict) else Z)]
            finite = (np.isfinite(X[~np.isnan(X).all(1)]).all() for X in found if X.ndim == 2)
            if not all(finite):
                raise Problem("transform returns what is not finite")
            return "accepted"
        Xs, y = _odd_views(random, DATA.linked), _pick(random, _ODD_LABELS, DATA.linked_target)
        model = hv.MultiViewClassifier(**parameters, n_estimators=1)
        try:
            with _Untouched(Xs, y, unaligned):
                model.fit(Xs, y, unaligned=unaligned)
                P = model.predict_proba(
                    DATA.linked if isinstance(Xs, dict) else list(DATA.linked.values())
                )
        except (FloatingPointError, TypeError, ValueError):
            return "refused"
        _check_probabilities(P, len(model.classes_))
        return "accepted"


@cache
def _load(path: Path) -> Any:
    return hv.load(path, device="cpu")


@dataclass(frozen=True)
class PredictInputs:
    """Inputs of `predict_proba` and `transform`: refused, or the outputs are proper."""

    def prepare(self, folder: Path) -> None:
        """Save a classifier."""
        model = hv.MultiViewClassifier(**SMALL, max_epochs=2, n_estimators=1)
        model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)
        model.save(folder / "model.hotview")

    def run(self, random: Random, originals: Path, folder: Path) -> str:
        """Predict odd rows."""
        Xs, model = _odd_views(random, DATA.linked), _load(originals / "model.hotview")
        try:
            with _Untouched(Xs):
                P = model.predict_proba(Xs)
        except (TypeError, ValueError):
            return "refused"
        _check_probabilities(P, len(model.classes_))
        return "accepted"
