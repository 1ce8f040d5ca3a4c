"""The drift check: no alarm for rows of the same kind, and an alarm for every error planted."""

import numpy as np
import pytest
from scipy import sparse, stats

import hotview as hv
from hotview._validation import ViewTable
from hotview.preprocessing import drift
from hotview.preprocessing.drift import SHARES, ColumnRanges, DriftReport, compare_view, fit_ranges
from tests.training.small_training import Lazy

N_FIT, N_NEW = 2000, 300


def draw(n, seed=0):
    """Columns of many kinds: normal, positive, skewed, centered, binary, rare, sparse, constant."""
    random = np.random.default_rng(seed)
    return np.column_stack(
        [
            random.normal(170, 10, n),
            random.uniform(3, 9, n),
            random.lognormal(0, 1.0, n),
            random.normal(0, 1, n),
            random.random(n) < 0.4,
            random.random(n) < 0.01,
            random.poisson(0.3, n),
            np.full(n, 7.0),
            random.lognormal(2, 0.5, n),
        ]
    )


X_FIT, X_NEW = draw(N_FIT), draw(N_NEW, seed=1)
RANGES = fit_ranges(X_FIT)


def compare(X, ranges=RANGES, **options):
    return compare_view(ViewTable(X), ranges, names=None, **options)


def kinds(X, ranges=RANGES, **options):
    return {column.column: column.kind for column in compare(X, ranges, **options).columns}


def test_quantiles_are_those_of_numpy_to_rounding():
    X = X_FIT.copy()
    X[::3, 1] = np.nan
    found = fit_ranges(X)
    true = np.nanquantile(X, SHARES, axis=0)
    width = true[-1] - true[0]
    assert (np.abs(found.quantiles - true) <= 0.011 * width + 1e-6).all()
    assert (found.quantiles[0] <= true[0] + 1e-6).all()
    assert (found.quantiles[-1] >= true[-1] - 1e-6).all()
    np.testing.assert_allclose(found.mean, np.nanmean(X, axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.missing, np.isnan(X).mean(axis=0), rtol=1e-6)
    for j in (0, 1, 2, 3, 8):  # extremes of individuals are not kept
        assert not np.isin(RANGES.quantiles[[0, -1], j], X_FIT[:, j].astype(np.float32)).any()
    assert compare(X_FIT).n_unusual.sum() == 0
    assert compare(X_FIT).columns == []


@pytest.mark.parametrize("n", (1, 20, N_NEW))
def test_rows_of_the_same_kind_give_hardly_a_note(n):
    texts = [
        text
        for start in range(0, N_NEW, n)
        for text in DriftReport({"a": compare(X_NEW[start : start + n])}).summary()
    ]
    assert len(texts) <= (n < 20)  # one of 300 rows has a value far outside


@pytest.mark.parametrize(
    ("factor", "column"), ((100, 0), (0.01, 1), (1000, 2), (0.001, 3), (10, 8), (0.01, 8))
)
def test_an_error_of_unit_is_named_with_its_factor(factor, column):
    X = X_NEW.copy()
    X[:, column] *= factor
    [found] = compare(X).columns
    assert (found.column, found.kind) == (str(column + 1), "unit")
    assert found.factor == pytest.approx(factor)
    [text, *_] = DriftReport({"labs": compare(X)}).summary()
    times = f"{factor:,} times" if factor > 1 else f"1/{1 / factor:,.0f} of"
    assert text.startswith(f"View 'labs': values of {column + 1} are about {times} those at fit")


def test_every_kind_of_difference_is_found():
    X = X_NEW.copy()
    X[:, 0] += 60
    X[:, 4] = 1
    X[: N_NEW // 10, 2] = 500
    X[:, 1] = 5.0
    X[: N_NEW // 2, 8] = np.nan
    X[:, 7] = 8.0
    found = compare(X)
    expected = {"1": "range", "5": "share", "3": "tail", "2": "constant", "9": "missing"}
    assert {c.column: c.kind for c in found.columns} == {**expected, "8": "range"}
    texts = DriftReport({"a": found}).summary()
    assert len(texts) == 7
    assert "View 'a': 9 is missing in 50 % of the rows, at fit in 0 %." in texts
    assert "View 'a': 2 is 5 in all rows; at fit it varies." in texts
    assert any("10 % of 3 are far outside" in text for text in texts)


def test_unusual_values_are_counted_by_row_also_in_one():
    X = X_NEW[:50].copy()
    X[3, [0, 3]], X[7, 1] = 1e6, -1e6
    found = compare(X).n_unusual
    assert found.tolist() == [{3: 2, 7: 1}.get(i, 0) for i in range(50)]
    one = compare(X_NEW[:1] * np.where(np.arange(9) == 1, 100, 1))
    assert ([c.column for c in one.columns], one.n_unusual.tolist()) == (["2"], [1])
    assert "1 of 1 rows" in DriftReport({"a": one}).summary()[-1]


@pytest.mark.parametrize("shift", (0.0, 50.0))
def test_sparse_rows_are_compared_as_dense_ones(shift):
    random = np.random.default_rng(0)
    X = np.where(random.random((500, 30)) < 0.3, random.poisson(4.0, (500, 30)) + 1.0, 0.0)
    X[:, 0] = random.uniform(3, 5, 500)  # in which 0 is unusual
    new = X[:100].copy()
    new[:30, 1] *= 1000
    new[:5, 0] = 0
    new[:, 2] += shift
    dense, thin = fit_ranges(X), fit_ranges(sparse.csr_array(X))
    np.testing.assert_array_equal(dense.quantiles, thin.quantiles)
    one = compare(new, dense)
    other = compare(sparse.csr_array(new), dense)
    np.testing.assert_array_equal(one.n_unusual, other.n_unusual)
    assert one.columns == other.columns
    assert one.n_unusual[0] > 0


def test_counts_are_compared_as_shares():
    random = np.random.default_rng(0)
    rates = random.gamma(2.0, 2.0, 40)
    X, new = random.poisson(rates, (400, 40)), random.poisson(30 * rates, (100, 40))
    ranges = fit_ranges(X, is_counts=True)
    assert kinds(new, ranges, is_counts=True) == {}  # how much was counted is lost anyway
    assert kinds(new, fit_ranges(X)) != {}
    new[:, 3] *= 1000
    assert "4" in kinds(new, ranges, is_counts=True)
    assert "4" in kinds(sparse.csr_array(new.astype(float)), ranges, is_counts=True)


def test_absent_rows_and_columns_that_no_row_knew_are_not_compared():
    X = X_NEW.copy()
    X[:250] = np.nan
    X[250:, 2] = 1.0 + 0.01 * np.arange(50)
    found = compare(X)
    assert (found.columns, found.n_rows, found.n_unusual.sum()) == ([], 50, 0)
    X[:] = np.nan
    assert compare(X).n_rows == 0
    few = X_NEW[:19].copy()
    few[:, 4], few[:, 1], few[:10, 8] = 1, 5.0, np.nan
    assert compare(few).columns == []  # few rows say nothing about shares
    unknown = X_FIT.copy()
    unknown[:, 2] = np.nan
    assert kinds(X_NEW, fit_ranges(unknown)) == {}


def test_rows_on_disk_are_compared_in_chunks_as_all_at_once(monkeypatch):
    wrong = X_NEW.copy()
    wrong[:, 0] *= 100
    whole = compare(wrong)
    monkeypatch.setattr(drift, "_CHUNK", 70)
    parts = compare(Lazy(wrong, 100))
    np.testing.assert_array_equal(whole.n_unusual, parts.n_unusual)
    assert whole.columns == parts.columns


def test_many_columns_are_named_by_a_few():
    random = np.random.default_rng(0)
    ranges = fit_ranges(random.uniform(1, 2, (200, 30)))
    texts = DriftReport({"a": compare(random.uniform(100, 200, (50, 30)), ranges)}).summary()
    assert len(texts) == 5
    assert texts[3] == "View 'a': the same of 27 more columns (4, 5, 6, 7, 8, 9, …)."
    assert "50 of 50 rows" in texts[4]


def test_false_alarms_are_rare_in_wide_tables():
    random = np.random.default_rng(0)
    X, new = stats.t.rvs(3, size=(2, 400, 500), random_state=random)  # of heavy tails
    found = compare(new, fit_ranges(X))
    assert DriftReport({"a": found}).summary() == []
    assert (found.n_unusual > 0).mean() < 0.5


def test_estimators_compare_rows_also_when_loaded(tmp_path):
    frames = {"a": X_FIT[:200, :4], "b": X_FIT[:200, [4, 6, 8]]}
    options = {"max_epochs": 1, "hidden": (4,), "n_estimators": 1, "random_state": 0}
    model = hv.MultiViewClassifier(**options).fit(frames, np.arange(200) % 2)
    wrong = X_NEW[:50, :4].copy()
    wrong[:, 1] *= 100
    for one in (model, hv.load(model.save(tmp_path / "m.hotview"))):
        report = one.check_drift({"a": wrong})
        assert [(c.column, c.kind) for c in report.views["a"].columns] == [("2", "unit")]
        assert (report.n_unusual > 0).mean() > 0.9
        assert one.check_drift([None, X_NEW[:50, [4, 6, 8]]]).summary() == []


def test_names_of_columns_and_categories_are_told():
    import pandas as pd

    words = np.array(["F", "M"])
    frame = pd.DataFrame({"age": X_FIT[:200, 0], "sex": words[(X_FIT[:200, 4] > 0).astype(int)]})
    model = hv.MultiViewEncoder(max_epochs=1, hidden=(4,), random_state=0)
    model.fit({"a": frame, "b": X_FIT[:200, [6, 8]]})
    new = pd.DataFrame({"age": X_FIT[200:260, 0] / 100, "sex": "M"})
    first, second, *_ = model.check_drift({"a": new}).summary()
    assert first.startswith("View 'a': values of 'age' are about 1/100 of those at fit")
    assert "'sex = F' is 1 in 0 % of the rows" in second


def test_what_are_no_ranges_is_refused():
    q, mean, missing, n = RANGES.quantiles, RANGES.mean, RANGES.missing, RANGES.n_rows
    for wrong in ((q[::-1], mean, missing, n), (q, mean, missing + 2, n), (q, mean, missing, 0)):
        with pytest.raises(ValueError, match=r"its (ranges of columns are none|'missing' is not)"):
            ColumnRanges(*wrong)
