import numpy as np
import pytest
from scipy import sparse

from hotview.preprocessing.batch_correction import BatchOffsets, estimate_offsets, fit_offsets


def make_rows(shares, seed=0, n=300):
    """Rows of four types and two batches, of which the second is shifted by `shift`."""
    rng = np.random.default_rng(seed)
    centers, shift = 2 * rng.normal(size=(4, 10)), rng.normal(size=10)
    batches = np.repeat([0, 1], n)
    types = np.concatenate([rng.choice(4, n, p=share) for share in shares])
    Z = centers[types] + batches[:, None] * shift + rng.normal(size=(2 * n, 10))
    return Z, batches, types, shift


def relative_error(offsets, shift):
    return np.linalg.norm(offsets[1] - offsets[0] - shift) / np.linalg.norm(shift)


@pytest.mark.parametrize("seed", range(3))
def test_a_type_that_one_batch_alone_has_does_not_move_it(seed):
    Z, batches, _, shift = make_rows([[0.5, 0.5, 0, 0], [0, 0.4, 0.3, 0.3]], seed)
    means = np.stack([Z[batches == b].mean(axis=0) for b in (0, 1)])
    found = estimate_offsets(Z, batches, np.full(len(Z), -1))
    assert relative_error(means, shift) > 0.8
    assert relative_error(found, shift) < 0.2
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-9)


def test_labels_tell_composition_from_batches():
    Z, batches, types, shift = make_rows([[0.7, 0.2, 0.08, 0.02], [0.02, 0.08, 0.2, 0.7]])
    some = np.where(np.random.default_rng(0).random(len(Z)) < 0.4, types, -1)
    assert relative_error(estimate_offsets(Z, batches, some), shift) < 0.4


def test_rows_of_one_batch_have_no_offset():
    found = estimate_offsets(np.eye(3), np.zeros(3, dtype=int), np.full(3, -1))
    np.testing.assert_allclose(found, 0)


def test_wide_views_are_reduced_and_new_batches_are_not_corrected():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.3, size=(60, 300)).astype(np.float32))
    names = ["a", "b"] * 30
    found = fit_offsets("rna", X, names)
    assert found.scaler is not None
    assert found.offsets.shape == (2, 60)
    rows = found.correct(X, names, "rna")
    with pytest.warns(UserWarning, match="'c' are new.*Fit the model again"):
        other = found.correct(X, ["a", "c"] * 30, "rna")
    np.testing.assert_array_equal(rows[::2], other[::2])
    np.testing.assert_allclose((other - rows)[1::2] - found.offsets[1], 0, atol=1e-5)
    with pytest.raises(ValueError, match="'rna' to have 300 columns, as at fit, but it has 299"):
        found.correct(X[:, 1:], names, "rna")
    assert fit_offsets("rna", X, names, [None] * 60, reduce=False).scaler is None
    assert fit_offsets("rna", X, ["a"] * 60) is None
    with pytest.raises(ValueError, match="'rna' to have 2 columns"):
        BatchOffsets(["a"], np.zeros((1, 2)), None).correct(np.eye(3), ["a"] * 3, "rna")


def test_batches_that_are_classes_are_warned_of():
    rng = np.random.default_rng(0)
    names, classes = ["a", "b"] * 20, np.arange(40) % 2
    with pytest.warns(UserWarning, match="cannot be told apart"):
        fit_offsets("rna", rng.normal(size=(40, 5)), names, classes)
