"""Data of three shapes for ``benchmarks/sizes.py``: wide and sparse, long, and small.

Each function returns a `Sample`: few linked rows with labels, many unlinked rows of every view, and
test rows that have all views. The same arguments give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import sparse

N_LINKED = 200
CELLS, TEST_CELLS = 10_000, 2_000
GENES, PEAKS = 20_000, 60_000
#: counts drawn per cell; about 8 % of the genes and 3 % of the peaks are then not zero
DEPTHS = {"genes": 1_900, "peaks": 1_900}
TYPES, STATES = 8, 4
VIEWS, COLUMNS, CLASSES, TEST_ROWS = 4, 64, 6, 5_000
_BLOCK = 500  # cells drawn together
_ROWS = 2**15  # rows drawn together
Views = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """Linked rows and their labels, unlinked rows of every view, test rows and their labels."""

    linked: Views
    y: np.ndarray
    unaligned: Views
    test: Views
    test_y: np.ndarray


def cells(scale: float = 1.0) -> Sample:
    """Counts of genes and of peaks in 8 types of cells, as sparse float32 matrices.

    Types come in pairs: in each view the types of two pairs differ strongly, and within the other
    two pairs weakly, so that both views are needed. A state common to all types (say, of the cell
    cycle) changes other columns. Depths are log-normal, and the rarest type is 5 % of the cells.
    The differences are such that logistic regression on components has an accuracy near 0.9.
    """
    random = np.random.default_rng(0)
    shares = np.geomspace(6, 1, TYPES)
    shares /= shares.sum()
    n = {"linked": N_LINKED, "unlinked": max(int(CELLS * scale) - N_LINKED, N_LINKED)}
    n["test"] = max(int(TEST_CELLS * scale), N_LINKED)
    types = {part: random.choice(TYPES, size, p=shares) for part, size in n.items()}
    parts: dict[str, Views] = {part: {} for part in n}
    for s, (name, n_columns) in enumerate((("genes", GENES), ("peaks", PEAKS))):
        rates = _cumulated_rates(n_columns, s, random)
        for part, its_types in types.items():
            if part == "unlinked":  # whose rows correspond to those of no other view
                its_types = random.permutation(its_types)
            parts[part][name] = _counts(its_types, rates, DEPTHS[name], random)
    return Sample(parts["linked"], types["linked"], parts["unlinked"], parts["test"], types["test"])


def _cumulated_rates(n_columns: int, s: int, random: Generator) -> np.ndarray:
    """Cumulated shares of the columns in the counts of a cell, for every type and state."""
    logs = np.empty((TYPES, STATES, n_columns))
    logs[:] = random.normal(0, 1.2, n_columns)
    for pair in range(TYPES // 2):
        weak = (pair + s) % 2 == 1
        logs[2 * pair : 2 * pair + 2] += _changes(n_columns, 0.02, 0.9, random)
        for t in (2 * pair, 2 * pair + 1):
            logs[t] += _changes(n_columns, 0.02, 0.3 if weak else 0.8, random)
    for state in range(STATES):
        logs[:, state] += _changes(n_columns, 0.02, 0.8, random)
    rates = np.exp(logs, out=logs).cumsum(axis=2)
    rates /= rates[:, :, -1:]
    return rates


def _changes(n_columns: int, share: float, size: float, random: Generator) -> np.ndarray:
    """Logarithms of how much more or less of a few columns there is."""
    return random.normal(0, size, n_columns) * (random.random(n_columns) < share)


def _counts(types: np.ndarray, rates: np.ndarray, depth: int, random: Generator) -> Any:
    """Counts of cells: as many draws as their depth, with the rates of their type and state."""
    n_columns = rates.shape[2]
    states = random.integers(STATES, size=len(types))
    depths = np.maximum(50, depth * random.lognormal(0, 0.35, len(types))).astype(np.int64)
    blocks = []
    for rows in _slices(len(types), _BLOCK):
        draws = [
            np.searchsorted(rates[t, state], random.random(n), side="right")
            for t, state, n in zip(types[rows], states[rows], depths[rows], strict=True)
        ]
        row_of = np.repeat(np.arange(len(draws), dtype=np.int32), depths[rows])
        column_of = np.minimum(np.concatenate(draws), n_columns - 1).astype(np.int32)
        ones = np.ones(len(column_of), dtype=np.float32)
        shape = (len(draws), n_columns)
        blocks.append(sparse.coo_matrix((ones, (row_of, column_of)), shape).tocsr())
    return sparse.csr_matrix(sparse.vstack(blocks, format="csr"))


def long_rows(n_rows: int) -> Sample:
    """Four views of 64 columns: noisy waves of points that lie along a curve for each class."""
    random = np.random.default_rng(0)
    curves = random.normal(size=(CLASSES, 6, 6)) * np.array([1.5, 1, 1, 0.6, 0.6, 0.6])[:, None]
    waves = 0.35 * random.normal(size=(VIEWS, 6, COLUMNS))
    phases = random.uniform(0, 2 * np.pi, (VIEWS, COLUMNS))
    n = {"linked": N_LINKED, "unlinked": n_rows - N_LINKED, "test": TEST_ROWS}
    y = {part: random.integers(CLASSES, size=size) for part, size in n.items()}
    # The views of a linked row and of a test row show the same point of the curve.
    places = {part: random.random(size) for part, size in n.items()}
    parts: dict[str, Views] = {part: {} for part in n}
    for s in range(VIEWS):
        for part in n:
            classes, along = y[part], places[part]
            if part == "unlinked":
                order = random.permutation(n[part])
                classes, along = classes[order], along[order]
            X = np.empty((n[part], COLUMNS), dtype=np.float32)
            for rows in _slices(n[part], _ROWS):
                Z = _points(curves, classes[rows], along[rows])
                X[rows] = np.sin(Z @ waves[s] + phases[s])
                X[rows] += random.standard_normal(X[rows].shape, dtype=np.float32)
            parts[part][f"view {s + 1}"] = X
    return Sample(parts["linked"], y["linked"], parts["unlinked"], parts["test"], y["test"])


def _points(curves: np.ndarray, classes: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Points of the curves of their classes, at a place from 0 to 1."""
    angles = np.pi * along[:, None] * np.array([1, 2, 3])
    basis = np.concatenate((np.cos(angles), np.sin(angles)), axis=1)
    Z = np.empty((len(along), curves.shape[2]))
    for c, curve in enumerate(curves):
        Z[classes == c] = basis[classes == c] @ curve
    return Z


def _slices(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(n, start + size)) for start in range(0, n, size))


def digits() -> Sample:
    """Handwritten digits in six views, split and unaligned as in the paper, with the first seed."""
    from hotview.datasets import load_handwritten, unalign

    data = load_handwritten()
    split = unalign(data.views, data.target, random_state=0)
    return Sample(split.linked, split.target, split.unaligned, split.test, split.test_target)


#: case → what draws it, at a scale of the number of rows
CASES: dict[str, Callable[[float], Sample]] = {
    "cells": cells,
    "rows-100000": lambda scale: long_rows(int(100_000 * scale)),
    "rows-1000000": lambda scale: long_rows(int(1_000_000 * scale)),
    "digits": lambda scale: digits(),
}
