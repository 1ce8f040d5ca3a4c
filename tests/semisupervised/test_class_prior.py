"""Prior probabilities of the classes: the formulas by hand and by scipy, and their limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from hotview.semisupervised.class_prior import (
    class_priors,
    replace_prior,
    share_evidence,
    shift_prior,
    shrink_shares,
)

counts_of_classes = st.lists(st.integers(0, 500), min_size=2, max_size=6)


@given(counts_of_classes, st.randoms(use_true_random=False))
def test_shares_are_shrunk_by_the_statistic_of_scipy(counts, random):
    n, n_classes = sum(counts), len(counts)
    equal = np.full(n_classes, 1 / n_classes)
    kept = 0.0
    if n > 0:
        chi2 = chisquare(counts).statistic
        kept = chi2 / (chi2 + n_classes - 1)
        james_stein = max(0.0, 1 - (n_classes - 1) / chi2) if chi2 > 0 else 0.0
        assert share_evidence(counts, equal) == pytest.approx(james_stein, abs=1e-12)
    expected = kept * np.array(counts) / max(n, 1) + (1 - kept) * equal
    shares = shrink_shares(counts)
    np.testing.assert_allclose(shares, expected, rtol=1e-9, atol=1e-15)
    assert (shares > 0).all()
    assert shares.sum() == pytest.approx(1)
    order = random.sample(range(n_classes), n_classes)
    np.testing.assert_allclose(shrink_shares(np.array(counts)[order]), shares[order], rtol=1e-12)


def test_evidence_against_other_shares_by_hand():
    expected = np.array([0.1, 0.9])  # chi2 = (30 - 10)² / 10 + (70 - 90)² / 90
    np.testing.assert_allclose(share_evidence([30, 70], expected), 1 - 1 / (40 + 400 / 90))


@pytest.mark.parametrize("counts", ([5, 7], [0, 0], [10, 10, 10], [3, 4, 2]), ids=str)
def test_differences_that_chance_would_give_are_not_believed(counts):
    assert share_evidence(counts, np.full(len(counts), 1 / len(counts))) == 0
    expected = np.arange(1, len(counts) + 1) / np.arange(1, len(counts) + 1).sum()
    assert share_evidence(10 * expected, expected) == 0


def codes_of(*counts, n_unknown=3):
    return [np.r_[np.repeat(np.arange(len(c)), c), np.full(n_unknown, -1)] for c in counts]


def test_shares_of_a_view_are_shrunk_to_those_of_all():
    found = class_priors(codes_of([90, 10], [50, 50], [0, 0]), 2)
    common = shrink_shares(np.array([140, 60]) / 2)  # views with labels count alike
    for prior, counts in zip(found, ([90, 10], [50, 50]), strict=False):
        kept = share_evidence(counts, common)
        np.testing.assert_allclose(prior, kept * np.array(counts) / 100 + (1 - kept) * common)
    np.testing.assert_allclose(found[2], common)  # a view without labels has those of all
    assert found[0, 0] > common[0] > found[1, 0]
    one = class_priors(codes_of([20, 8]), 2)  # the same labels in more views are not more labels
    again = class_priors(codes_of(*[[20, 8]] * 5), 2)
    np.testing.assert_allclose(again, np.tile(one, (5, 1)))
    nobody = class_priors(codes_of([0, 0, 0], [0, 0, 0]), 3)
    np.testing.assert_array_equal(nobody, np.full((2, 3), 1 / 3))


@given(st.integers(0, 50), st.integers(10, 200))
def test_rows_like_the_population_keep_the_prior(seed, n):
    random = np.random.default_rng(seed)
    posterior, prior = random.dirichlet(np.ones(3), n), random.dirichlet(np.full(3, 5.0))
    found = shift_prior(posterior, posterior.mean(axis=0), prior)
    np.testing.assert_allclose(found, prior, rtol=1e-12)


def test_the_shift_by_hand():
    rows = np.array([[0.9, 0.1]] * 80 + [[0.1, 0.9]] * 20)  # 74 and 26 expected labels
    prior, population = np.array([0.3, 0.7]), np.array([0.4, 0.6])
    kept = 1 - 1 / (34**2 / 40 + 34**2 / 60)
    shrunk = kept * np.array([0.74, 0.26]) + (1 - kept) * population
    expected = prior * shrunk / population
    np.testing.assert_allclose(shift_prior(rows, population, prior), expected / expected.sum())
    few = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])  # which shift nothing
    np.testing.assert_allclose(shift_prior(few, np.full(2, 0.5), prior), prior)


LOG_PRIOR = np.log([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]])
CLASSES = np.array(["x", "y", "z"])


def prior_of(class_prior=None, class_weight=None, classes=CLASSES):
    return np.exp(replace_prior(LOG_PRIOR, class_prior, class_weight, classes))


def test_a_given_prior_is_that_of_all_views():
    np.testing.assert_allclose(prior_of(), np.exp(LOG_PRIOR))  # without, it is that of the labels
    given = {"z": np.float32(0.5), "x": 0.3, "y": 0.2}  # in any order
    np.testing.assert_allclose(prior_of(given), [[0.3, 0.2, 0.5]] * 2)
    np.testing.assert_allclose(prior_of("uniform"), np.full((2, 3), 1 / 3))
    given = {0: 0.3, 1: 0.2, 5: 0.5}  # numbers may be classes
    np.testing.assert_allclose(prior_of(given, classes=np.array([0, 1, 5]))[0], [0.3, 0.2, 0.5])


def test_weights_multiply_the_prior():
    expected = np.exp(LOG_PRIOR) * [1, 10, 2]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(prior_of(None, {"y": 10, "z": 2}), expected)
    given = {"x": 0.5, "y": 0.25, "z": 0.25}
    found = prior_of(given, {"y": 4})
    np.testing.assert_allclose(found, [[0.5 / 1.75, 1 / 1.75, 0.25 / 1.75]] * 2)
    # Balanced weights are a uniform prior, unless one is given.
    np.testing.assert_array_equal(prior_of(None, "balanced"), prior_of("uniform"))
    np.testing.assert_allclose(prior_of(given, "balanced"), [[0.5, 0.25, 0.25]] * 2)
    found = replace_prior(LOG_PRIOR, None, {"x": 0}, CLASSES)  # nearly none
    assert np.isfinite(found).all()
    assert (np.exp(found[:, 0]) < 1e-11).all()


def test_priors_that_cannot_be_used_are_refused():
    incomplete, too_little = {"x": 0.5, "y": 0.5}, {"x": 0.5, "y": 0.3, "z": 0.1}
    negative, text = {"x": 1.5, "y": -0.3, "z": -0.2}, {"x": "0.5", "y": 0.25, "z": 0.25}
    for prior in (incomplete, too_little, negative, text, np.array([0.5, 0.25, 0.25])):
        with pytest.raises(ValueError, match=r"class_prior.* positive prob.* classes \['x'"):
            prior_of(prior)
