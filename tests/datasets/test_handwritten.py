import numpy as np
import pytest

from hotview.datasets import load_handwritten

COLUMNS = {"pix": 240, "fou": 76, "fac": 216, "zer": 47, "kar": 64, "mor": 6}
DUPLICATES = {(605, 774), (1148, 1172), (1237, 1271), (1265, 1272), (1448, 1521), (1892, 1999)}


@pytest.fixture(scope="module")
def digits():
    return load_handwritten()


def explained(X, Y):
    """Share of the variance of Y that is linear in X."""
    X = np.column_stack([X, np.ones(len(X))])
    residual = Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    return 1 - residual.var(axis=0).sum() / Y.var(axis=0).sum()


def test_six_views_of_the_published_shapes_and_two_hundred_of_each_digit(digits):
    shapes = {name: X.shape for name, X in digits.views.items()}
    assert shapes == {name: (2000, n_columns) for name, n_columns in COLUMNS.items()}
    assert digits.view_names == list(COLUMNS)
    for X in digits.views.values():
        assert X.dtype == np.float32
        assert np.isfinite(X).all()
    assert set(np.unique(digits.views["pix"])) == set(range(7))  # sums over six binary pixels
    spread = [X.std(axis=0, dtype=np.float64) for X in digits.views.values()]
    assert min(map(np.min, spread)) == spread[1].min() == pytest.approx(0.0375, abs=5e-4)
    assert max(map(np.max, spread)) == spread[5].max() == pytest.approx(3757, abs=1)
    assert digits.target.dtype == np.int64
    np.testing.assert_array_equal(digits.target, np.repeat(np.arange(10), 200))
    assert digits.target_names == [str(digit) for digit in range(10)]


def test_exactly_six_pairs_are_duplicates_of_the_same_class(digits):
    everything = np.hstack(list(digits.views.values()))
    _, row_of, counts = np.unique(everything, axis=0, return_inverse=True, return_counts=True)
    groups = [np.flatnonzero(row_of == row) for row in np.flatnonzero(counts > 1)]
    assert {tuple(group) for group in groups} == DUPLICATES
    assert all(len(set(digits.target[group])) == 1 for group in groups)


def test_rows_correspond_across_views(digits):
    # Karhunen-Loeve coefficients are linear in the image, of which pix is a coarse copy.
    pix, kar = (digits.views[name].astype(float) for name in ("pix", "kar"))
    assert explained(pix, kar) > 0.9
    assert explained(pix, np.roll(kar, 200, axis=0)) < 0.7


def test_labels_belong_to_the_rows(digits):
    # The nearest class mean of the Karhunen-Loeve coefficients, on rows it has not seen.
    X, y = digits.views["kar"], digits.target
    means = np.stack([X[::2][y[::2] == digit].mean(axis=0) for digit in range(10)])
    nearest = np.linalg.norm(X[1::2, None] - means, axis=2).argmin(axis=1)
    assert np.mean(nearest == y[1::2]) > 0.9


def test_the_license_is_told(digits):
    for words in ("CC BY 4.0", "10.24432/C5HC70", "Robert P.W. Duin", "rounded"):
        assert words in digits.DESCR
    for pair in DUPLICATES:
        assert f"{pair[0]}/{pair[1]}" in digits.DESCR
    assert "CC BY 4.0" in (load_handwritten.__doc__ or "")


def test_every_call_returns_fresh_arrays(digits):
    load_handwritten().views["mor"][:] = 0
    assert digits.views["mor"].any()
    assert load_handwritten().views["mor"].any()
