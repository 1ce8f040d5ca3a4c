import numpy as np
import pytest

from hotview.evaluation.bootstrap import (
    ClassStatistics,
    RankStatistics,
    RowSample,
    bootstrap,
    estimate,
    make_sample,
    proportion,
)
from hotview.evaluation.metrics import wilson_interval


def mean_of(x):
    return lambda W: {"mean": x @ W / W.sum(axis=0)}


def test_the_standard_deviation_of_a_mean_is_that_of_the_rows():
    x = np.random.default_rng(0).normal(size=500)
    found = bootstrap(mean_of(x), make_sample(500))["mean"]
    assert len(found) == 1001
    assert found[0] == pytest.approx(x.mean())
    assert found[1:].std() == pytest.approx(x.std() / np.sqrt(500), rel=0.1)
    interval = estimate(found, make_sample(500))
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * x.std() / np.sqrt(500), rel=0.1)


def test_the_seed_is_fixed():
    x = np.arange(30.0)
    first, again = (bootstrap(mean_of(x), make_sample(30))["mean"] for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_resamples_draw_as_many_rows():
    for sample, n in ((make_sample(7), 7), (make_sample(6, groups=list("aabbcc")), 6)):
        blocks = list(sample.resamples(50))
        np.testing.assert_array_equal(blocks[0][:, 0], 1)
        W = np.hstack(blocks[1:])
        assert W.shape == (n, 50)
        np.testing.assert_array_equal(W.sum(axis=0), n)
    np.testing.assert_array_equal(W[::2], W[1::2])


def test_large_tables_have_fewer_resamples():
    sample = make_sample(300_000)
    found = bootstrap(lambda W: {"n": np.ones(W.shape[1])}, sample, width=3)["n"]
    assert len(found) == 1 + 222


def test_weights_are_worth_fewer_rows():
    assert make_sample(10).n_effective == 10
    assert RowSample(np.array([1.0, 1.0, 0.0])).n_effective == 2
    hits = np.array([True, False, True, True])
    found = proportion(hits, make_sample(4, [1, 1, 2, 0]))
    assert found.value == pytest.approx(0.75)
    assert (found.low, found.high) == pytest.approx(wilson_interval(0.75, 16 / 6))
    assert proportion(hits[:0], RowSample(np.empty(0))) is None


def test_a_bias_is_removed_and_the_value_stays_inside():
    replicates = np.append(0.1, np.linspace(0.15, 0.25, 1000))
    found = estimate(replicates, make_sample(10), is_biased=True)
    assert (found.low, found.value, found.high) == (0.0, 0.1, 0.1)


def test_metrics_of_columns_are_computed_independently():
    random = np.random.default_rng(0)
    P, y = random.dirichlet(np.ones(3), 40), random.integers(0, 4, 40)
    W = random.integers(0, 3, (40, 5)).astype(float)
    for f in (ClassStatistics(y, P), RankStatistics(y == 1, P[:, 1], np.ones(40))):
        together = f(W)
        for j in range(5):
            for name, values in f(W[:, j : j + 1]).items():
                np.testing.assert_allclose(together[name][..., j], values[..., 0])


def test_a_resample_without_positive_rows_has_no_rank():
    f = RankStatistics(np.array([True, False, False]), np.array([0.9, 0.5, 0.1]), np.ones(3))
    found = f(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(found["auc"], [1.0, np.nan])
