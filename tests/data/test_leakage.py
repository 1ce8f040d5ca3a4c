"""Columns that tell the classes by themselves are named, and no others."""

from itertools import pairwise, product
from math import comb, exp

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotview import MultiViewClassifier
from hotview.data import encoder_data, labeled_data
from hotview.data.leakage import (
    _interval_errors,
    find_leaks,
    leakage_warnings,
    measure_separation,
)
from hotview.datasets import load_handwritten


def draw(n=60, n_classes=3, n_columns=5, seed=0):
    """Two views that tell something about the class, but no column nearly everything."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    views = {name: random.normal(size=(n, n_columns)) for name in ("a", "b")}
    for X in views.values():
        X[:, 0] += y
    return views, y


def leaks_of(views, y, **more):
    found, *_ = find_leaks(labeled_data(views, y, **more))
    return [(leak.view, leak.column) for leak in found]


def warnings_of(views, y, **more):
    return list(leakage_warnings(labeled_data(views, y, **more)))


LEAK = [("b", "2 (counted from 0)")]


@pytest.mark.parametrize(
    "leak",
    (
        lambda y, random: y,
        lambda y, random: -10.0 * y + random.normal(size=len(y)),  # measured after the outcome
        lambda y, random: np.argsort(np.argsort(y, kind="stable")),  # ids sorted by class
        lambda y, random: (7 * y + 3) % 5,  # codes in another order
    ),
)
def test_a_column_made_from_the_label_is_found(leak):
    views, y = draw()
    assert leaks_of(views, y) == []
    views["b"][:, 2] = leak(y, np.random.default_rng(1))
    assert leaks_of(views, y) == LEAK
    assert leaks_of({n: sparse.csr_array(X) for n, X in views.items()}, y) == LEAK


def test_a_categorical_column_is_taken_as_one_and_named():
    views, y = draw()
    ward = np.array([["i", "u"], ["t", "s"], ["v", "w"]])[y, np.arange(60) // 3 % 2]
    frame = pd.DataFrame({"age": np.random.default_rng(1).normal(size=60), "ward": ward})
    assert leaks_of({"a": views["a"], "c": frame}, y) == [("c", "'ward'")]
    many = [f"name {i % 30}" for i in range(60)]  # two rows of different classes for every name
    assert leaks_of({"a": views["a"], "c": frame.assign(ward=many)}, y) == []


def test_the_fit_warns_with_the_names_and_what_to_check():
    views, y = draw()
    frame = pd.DataFrame(views["b"], columns=["iron", "zinc", "outcome", "lead", "gold"])
    frame["outcome"] = y
    model = MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    with pytest.warns(UserWarning, match="known when you predict") as caught:
        model.fit({"a": views["a"], "labs": frame}, y)
    [text] = [str(w.message) for w in caught]
    assert "'outcome' of view 'labs' (60 of 60 rows)" in text
    assert text in model.fit_warnings_


def test_one_percent_of_errors_is_nearly_all():
    views, y = draw(n=400, n_classes=2)
    views["b"][:, 2] = y
    views["b"][:4, 2] = 1 - y[:4]
    assert leaks_of(views, y) == LEAK
    assert "(396 of 400 rows)" in warnings_of(views, y)[0]
    views["b"][:5, 2] = 1 - y[:5]
    assert leaks_of(views, y) == []


def test_rare_classes_missing_values_and_unaligned_rows_count_and_few_labels_say_nothing():
    views, y = draw(n=60, n_classes=2)
    rare, views["b"][:, 2] = np.where(np.arange(60) < 3, 2, y), y
    assert leaks_of(views, rare) == []  # two of three classes are told
    own = {"unaligned": views, "unaligned_y": {"b": y, "a": y}}
    assert leaks_of(draw(n_classes=2, seed=1)[0], np.full(60, np.nan), **own) == LEAK
    views, y = draw(n_classes=2)
    views["b"][y == 1, 2] = np.nan  # a value that is missing in one class tells it, too
    assert leaks_of(views, y) == LEAK
    views["b"][:, 2] = y
    gaps = np.where(np.arange(60) < 28, y, np.nan)
    assert leaks_of(views, gaps) == []
    gaps[:30] = y[:30]
    assert leaks_of(views, gaps) == LEAK


def test_where_most_columns_tell_the_classes_there_is_no_warning():
    views, y = draw(n_classes=2)
    easy = {name: X + 100 * y[:, None] for name, X in views.items()}
    assert len(leaks_of(easy, y)) == 10
    assert warnings_of(easy, y) == []
    for j in (0, 1):  # where two do, there is
        views["a"][:, j] += 3.5 * y
    views["b"][:, 2] = y
    assert LEAK[0] in leaks_of(views, y)
    assert "2 (counted from 0) of view 'b'" in warnings_of(views, y)[0]


def test_a_column_that_tells_persons_is_no_leak_where_persons_are_given():
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(16), 10)
    y = (np.arange(16) % 2)[person]
    views = {name: random.normal(size=(160, 4)) for name in ("a", "b")}
    views["b"][:, 2] = random.normal(size=16)[person]  # as height
    assert leaks_of(views, y) == LEAK  # without groups it looks like one
    assert leaks_of(views, y, groups=person) == []


def test_noise_raises_no_alarm_however_many_columns():
    random = np.random.default_rng(0)
    for n_labels in (20, 30):
        y = np.arange(n_labels) % 2
        views = {name: random.normal(size=(n_labels, 10_000)) for name in ("a", "b")}
        views["b"] = random.integers(0, 4, size=views["b"].shape)
        assert leaks_of(views, y) == []
    views["b"][:, 2] = y
    assert leaks_of(views, y) == LEAK  # among columns of noise, of which some come near
    assert len(warnings_of(views, y)) == 1


def test_real_columns_raise_no_alarm():
    digits = load_handwritten()
    gaps = digits.target.astype(float)
    gaps[np.arange(2000) % 20 != 0] = np.nan
    assert leaks_of(digits.views, gaps) == []
    digits.views["mor"][:, 1] = digits.target
    assert leaks_of(digits.views, gaps) == [("mor", "1 (counted from 0)")]


def test_an_encoder_has_no_classes():
    data = encoder_data(draw()[0], None, paired=False)
    assert find_leaks(data) == ([], 0, 0)
    assert list(leakage_warnings(data)) == []


def brute_force(counts, n_intervals):
    """Fewest errors over all cuts."""
    n = len(counts)
    cuts = [c for c in product(range(n + 1), repeat=n_intervals - 1) if list(c) == sorted(c)]
    return min(
        int(counts.sum()) - sum(counts[a:b].sum(axis=0).max() for a, b in pairwise((0, *cut, n)))
        for cut in cuts
    )


def test_intervals_are_the_best_ones():
    random = np.random.default_rng(0)
    for _ in range(10):
        counts = random.integers(0, 4, size=(6, 3))
        expected = [brute_force(counts, k) for k in (1, 2, 3, 4)]
        assert _interval_errors(counts) == expected


def test_the_chance_of_a_sorted_column_is_exact_and_a_bound_else():
    codes = np.repeat([0, 1], [8, 4])
    sorted_column = measure_separation(np.arange(12.0), codes, ordered=True)
    assert exp(sorted_column.log_chance) == pytest.approx(2 / comb(12, 4))
    # All orders of the labels, of which those are counted that two values describe.
    hits, values = 0, np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    orders = [c for c in product((0, 1), repeat=12) if sum(c) == 4]
    for order in orders:
        found = measure_separation(values.astype(float), np.array(order), ordered=False)
        hits += found.n_errors == 0
    bound = measure_separation(values.astype(float), codes, ordered=False)
    assert 0 < hits / len(orders) <= exp(bound.log_chance)
