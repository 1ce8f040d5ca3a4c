"""Similarity of views by linked rows: values, intervals, p-values, partial rows."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.decomposition import PCA

from hotview.datasets import make_views
from hotview.similarity import measure_similarity, view_similarity
from hotview.similarity.alignment import gaussian_kernel, kernel_alignment, median_squared_distance
from hotview.similarity.view_similarity import measure_linked_rows


class Rows:
    def __init__(self, X):
        self.X, self.n_rows = X, len(X)

    def take(self, rows):
        return self.X[rows]


def measure(points, classes=None, seed=0):
    random = np.random.default_rng(seed)
    return measure_similarity(points, bandwidths(points), classes, random=random)


def bandwidths(points):
    return [median_squared_distance(Z[~np.isnan(Z).any(axis=1)]) for Z in points]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(view_similarity, "_N_PERMUTATIONS", 99)
    monkeypatch.setattr(view_similarity, "_N_HALVES", 50)


def draw(n=60, seed=0):
    """Two views of one latent, and one of noise."""
    random = np.random.default_rng(seed)
    z, e, noise = random.normal(size=(3, n, 3))
    return [z, z + e, noise]


def test_values_are_alignments_of_gaussian_kernels(quick):
    points = draw()
    found = measure(points)
    K = np.stack([gaussian_kernel(Z, b) for Z, b in zip(points, bandwidths(points), strict=True)])
    i, j = 3, 7
    expected = np.exp(-((points[0][i] - points[0][j]) ** 2).sum() / 2 / bandwidths(points)[0])
    assert K[0, i, j] == pytest.approx(expected)
    np.testing.assert_allclose(found.value, kernel_alignment(K), atol=1e-12)
    assert np.all(found.low <= found.value)
    assert np.all(found.value <= found.high)
    assert np.all(found.n_rows == 60)
    default = measure_similarity(points, random=np.random.default_rng(0))
    np.testing.assert_array_equal(default.value, found.value)  # bandwidths are median distances
    assert measure(draw(7)) is None
    assert measure(draw(8)) is not None


def test_independent_views_are_called_dependent_in_five_percent_of_draws(quick):
    def any_pair(seed):
        points = list(np.random.default_rng(seed).normal(size=(4, 20, 3)))
        return measure(points, seed=seed).p_value[np.triu_indices(4, 1)].min() <= 0.05

    n_called = sum(map(any_pair, range(100)))
    assert binomtest(n_called, 100, 0.05, alternative="greater").pvalue > 0.01


def test_intervals_of_half_samples_cover_the_similarity_of_many_rows(quick):
    random = np.random.default_rng(0)
    z, e = random.normal(size=(2, 2000, 3))
    views = [z, z + e]
    widths = [median_squared_distance(Z[:1000]) for Z in views]
    K = np.stack([gaussian_kernel(Z[:1500], b) for Z, b in zip(views, widths, strict=True)])
    truth, covered = kernel_alignment(K)[0, 1], []
    for i in range(40):
        rows = slice(50 * i, 50 * i + 50)
        found = measure_similarity([Z[rows] for Z in views], widths, random=random)
        covered.append(found.low[0, 1] <= truth <= found.high[0, 1])
    assert np.mean(covered) >= 0.85


def test_within_classes_what_the_class_explains_is_gone():
    random = np.random.default_rng(0)
    classes = np.repeat(np.arange(4), 20)
    centers = 4 * random.normal(size=(2, 4, 3))
    by_class = [centers[0][classes], centers[1][classes]]
    found = measure([c + random.normal(size=c.shape) for c in by_class], classes)
    assert found.value[0, 1] > 0.5
    np.testing.assert_array_equal(found.p_value, found.p_value.T)
    assert abs(found.within_classes.value[0, 1]) < 0.1
    assert found.p_value[0, 1] == 0.001
    assert found.within_classes.p_value[0, 1] > 0.05
    shared = random.normal(size=(80, 3))
    found = measure([c + shared for c in by_class], classes)
    assert found.within_classes.value[0, 1] > 0.4
    assert found.within_classes.p_value[0, 1] == 0.001


def test_classes_that_are_unknown_or_too_many_are_left_out_and_a_few_hide_no_groups(quick):
    data = make_views(400, n_views=4, n_groups=2, n_classes=2, labeled=0.25, random_state=0)
    points, classes = list(data.linked.values()), data.linked_target.copy()
    total = measure(points)
    for useless in (np.full(len(classes), -1), np.arange(len(classes))):
        assert measure(points, useless).within_classes is None
    classes[20:] = -1
    found = measure(points, classes)
    assert np.all(found.within_classes.n_rows == 20)
    np.testing.assert_array_equal(found.groups, total.groups)
    assert total.groups is not None


def test_rows_that_lack_a_view_count_in_the_pairs_that_they_have(quick):
    points = draw(60)
    K = np.stack([gaussian_kernel(Z[:40], 6.0) for Z in points[:2]])
    points[0][40:] = np.nan
    points[2][5:] = np.nan
    found = measure_similarity(points, [6.0] * 3, random=np.random.default_rng(0))
    assert (found.n_rows[0, 1], found.n_rows[0, 2]) == (40, 0)
    assert found.value[0, 1] == pytest.approx(kernel_alignment(K)[0, 1])
    assert np.isnan([found.value[0, 2], found.p_value[0, 2]]).all()  # five rows in common
    assert found.groups is None


def test_of_many_rows_the_first_are_used(quick):
    points = draw(400)
    changed = [np.vstack([Z[:100], 0 * Z[100:]]) for Z in points]
    found, again = (
        measure_similarity(views, [6.0] * 3, random=np.random.default_rng(0))
        for views in (points, changed)
    )
    assert np.all(found.n_rows[np.triu_indices(3, 1)] == 100)
    np.testing.assert_array_equal(found.value, again.value)


def test_the_seed_decides_every_bit(quick):
    points, classes = draw(), np.arange(60) % 3
    first, again = measure(points, classes), measure(points, classes)
    for name in ("value", "low", "high", "p_value"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    other = measure(points, classes, seed=1)
    np.testing.assert_array_equal(first.value, other.value)
    assert not np.array_equal(first.low, other.low)


def test_a_constant_view_is_not_similar_to_anything_nor_far_from_the_origin_another(quick):
    points = [*draw()[:2], np.ones((60, 2))]
    found = measure(points)
    np.testing.assert_array_equal(found.value[2, :2], 0.0)
    np.testing.assert_array_equal(found.p_value[2, :2], 1.0)
    moved = measure([points[0] + 1e8, *points[1:]])
    np.testing.assert_allclose(moved.value, found.value, atol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_planted_groups_hold_and_junk_has_none(seed):
    data = make_views(400, n_views=6, n_groups=2, n_junk=1, labeled=0.15, random_state=seed)
    found = measure(list(data.linked.values()), data.linked_target, seed=seed)
    np.testing.assert_array_equal(found.groups, [0, 0, 0, 1, 1, 1, 2])
    assert found.stability >= 0.9
    data = make_views(400, n_views=1, n_groups=1, n_junk=6, labeled=0.15, random_state=seed)
    found = measure(list(data.linked.values())[1:], data.linked_target, seed=seed)
    assert found.groups is None


def test_components_and_bandwidths_are_those_of_all_rows(quick):
    random = np.random.default_rng(0)
    views = [random.normal(size=(500, 30)) @ random.normal(size=(30, 30)) for _ in range(2)]
    views.append(random.normal(size=(400, 3)))
    components = [PCA(min(25, X.shape[1])).fit(X) for X in views]
    links = np.full((50, 3), -1)
    links[:, 0], links[:, 1], links[:40, 2] = range(50), range(100, 150), range(300, 340)
    rows = [Rows(X) for X in views]
    found = measure_linked_rows(rows, components, links, random=np.random.default_rng(1))
    assert found.n_rows.tolist() == [[50, 50, 40], [50, 50, 40], [40, 40, 40]]
    Zs = [pca.transform(X)[:, :20] for pca, X in zip(components[:2], views, strict=False)]
    K = [gaussian_kernel(Z[links[:, s]], median_squared_distance(Z)) for s, Z in enumerate(Zs)]
    assert found.value[0, 1] == pytest.approx(kernel_alignment(np.stack(K))[0, 1], abs=1e-6)


def test_labeled_rows_are_sampled_beside_others(quick):
    random = np.random.default_rng(0)
    views = [random.normal(size=(2000, 3)) for _ in range(2)]
    links = np.repeat(np.arange(2000)[:, None], 2, axis=1)
    classes = np.where(np.arange(2000) < 60, np.arange(2000) % 3, -1)
    rows, components = [Rows(X) for X in views], [PCA(3).fit(X) for X in views]
    found = measure_linked_rows(rows, components, links, classes, random=random)
    assert found.n_rows[0, 1] == 100
    assert found.within_classes.n_rows[0, 1] == 60
    links[:, 1] = -1  # of no row in two views, nothing is measured
    assert measure_linked_rows(rows, components, links, random=random) is None


@pytest.mark.parametrize(
    ("points", "classes", "message"),
    (
        ([np.ones((9, 2))], None, "two matrices or more"),
        ([np.ones((9, 2)), np.ones(9)], None, r"shapes are \[\(9, 2\), \(9,\)\]"),
        ([np.ones((9, 2)), np.ones((8, 2))], None, r"numbers of rows are \[9, 8\]"),
        ([np.ones((9, 2)), np.ones((9, 2))], np.zeros(8, np.int64), "of classes 8"),
    ),
)
def test_views_that_do_not_fit_each_other_are_refused(points, classes, message):
    with pytest.raises(ValueError, match=message):
        measure_similarity(points, classes=classes, random=np.random.default_rng(0))
