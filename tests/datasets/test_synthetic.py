from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from scipy.stats import wasserstein_distance

from hotview.datasets import make_views, synthetic


def explained(Z, X):
    """Share of the variance of X that is linear in Z."""
    Z = np.column_stack([Z, np.ones(len(Z))])
    residual = X - Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
    return 1 - residual.var(axis=0).sum() / X.var(axis=0).sum()


def in_order(data, what, name):
    """Return the rows of a view sorted by individual, so that views can be compared."""
    return data[what][name][np.argsort(data.individuals[name])]


def one_hot(labels):
    return np.eye(labels.max() + 1)[labels]


def test_defaults_make_six_views_of_one_population():
    data = make_views(random_state=0)
    assert list(data.views) == data.view_names == [f"view_{s}" for s in range(6)]
    for name, X in data.views.items():
        assert X.shape == (600, 20)
        assert X.dtype == data.latent[name].dtype == np.float32
        assert data.latent[name].shape == (600, 4)
        np.testing.assert_allclose(data.latent[name].mean(axis=0), 0, atol=1e-5)
        assert data.latent[name].var(axis=0).mean() == pytest.approx(1, rel=1e-5)
        assert data.target[name].dtype == data.individuals[name].dtype == np.int64
        np.testing.assert_array_equal(np.sort(data.individuals[name]), np.arange(600))
        np.testing.assert_array_equal(np.bincount(data.target[name]), [150] * 4)
        np.testing.assert_array_equal(
            in_order(data, "target", name), in_order(data, "target", "view_0")
        )
        assert data.linked[name].shape == (0, 20)
    assert len(data.linked_target) == len(data.linked_individuals) == 0
    # Neither the order of the rows nor the number of an individual tells the class.
    for first, second in combinations(data.individuals.values(), 2):
        assert np.mean(first == second) < 0.05
    assert np.abs(np.corrcoef(data.target["view_0"], np.arange(600))[0, 1]) < 0.15
    assert np.abs(np.corrcoef(data.target["view_0"], data.individuals["view_0"])[0, 1]) < 0.15


@pytest.mark.parametrize("noise", (0.1, 0.5))
def test_latent_rows_explain_all_but_the_noise(noise):
    data = make_views(2000, noise=noise, random_state=0)
    for name, X in data.views.items():
        assert explained(data.latent[name], X) == pytest.approx(1 - noise, abs=0.02)


def test_without_noise_a_view_is_a_rotated_copy_of_its_latent_rows():
    data = make_views(100, noise=0.0, labeled=0.1, random_state=0)
    for views, latent in ((data.views, data.latent), (data.linked, data.linked_latent)):
        for name, X in views.items():
            np.testing.assert_allclose(pdist(X), pdist(latent[name]), rtol=1e-4, atol=1e-5)
    maps = [np.linalg.pinv(data.latent[name]) @ X for name, X in data.views.items()]
    for first, second in combinations(maps, 2):
        assert np.abs(first - second).max() > 0.1


def test_views_of_a_group_share_latent_rows_and_others_do_not():
    data = make_views(noise=0.0, n_classes=1, random_state=0)
    for (s, first), (t, second) in combinations(enumerate(data.views), 2):
        Z, other = in_order(data, "latent", first), in_order(data, "latent", second)
        X = in_order(data, "views", second)
        if data.view_groups[s] == data.view_groups[t]:
            np.testing.assert_array_equal(Z, other)
            assert explained(Z, X) > 0.999
        else:
            assert explained(Z, X) < 0.05


def test_groups_differ_as_distributions_not_only_in_coordinates():
    # Distances between rows do not depend on rotations: equal within a group, not between.
    data = make_views(300, n_groups=3, noise=0.0, random_state=0)
    distances = [pdist(X) for X in data.views.values()]
    for s, t in combinations(range(6), 2):
        cost = wasserstein_distance(distances[s], distances[t])
        assert cost < 1e-4 if data.view_groups[s] == data.view_groups[t] else cost > 0.03


def test_latent_axes_fall_faster_in_the_first_group():
    data = make_views(5000, n_views=2, n_classes=1, random_state=0)
    for name, last in (("view_0", 0.25), ("view_1", 0.75)):
        axes = data.latent[name].std(axis=0)
        np.testing.assert_allclose(axes / axes[0], np.geomspace(1, last, 4), rtol=0.05)


def test_bent_views_are_invertible_but_not_linear():
    data = make_views(2000, nonlinear=True, noise=0.0, n_columns=4, random_state=0)
    for name, X in data.views.items():
        assert 0.5 < explained(data.latent[name], X) < 0.95
        assert X.var(axis=0).mean() == pytest.approx(1, rel=0.05)
        # Rows that are far apart in the latent space stay apart: a layer shrinks by 0.1 at most.
        assert np.min(pdist(X[:300]) / pdist(data.latent[name][:300])) > 0.1**2


def test_junk_has_nothing_to_do_with_anyone():
    data = make_views(2000, n_views=2, n_junk=2, labeled=0.5, random_state=0)
    np.testing.assert_array_equal(data.view_groups, [0, 1, -1, -1])
    for words in ("2 views in 2 groups", "2 junk views", "4 classes", "1000 linked"):
        assert words in data.DESCR
    for name in ("view_2", "view_3"):
        X = in_order(data, "views", name)
        assert data.latent[name].shape == (2000, 0)
        assert X.var(axis=0).sum() == pytest.approx(4, rel=0.05)
        for truth in (in_order(data, "latent", "view_0"), in_order(data, "latent", "view_1")):
            assert explained(truth, X) < 0.01
        assert explained(one_hot(in_order(data, "target", name)), X) < 0.01
        assert explained(data.linked["view_0"], data.linked[name]) < 0.05
    assert explained(in_order(data, "views", "view_2"), in_order(data, "views", "view_3")) < 0.05


def test_classes_are_told_apart_in_every_view_but_junk():
    data = make_views(n_junk=1, random_state=0)
    for s, (name, X) in enumerate(data.views.items()):
        y = data.target[name]
        means = np.stack([X[:300][y[:300] == k].mean(axis=0) for k in range(4)])
        nearest = np.linalg.norm(X[300:, None] - means, axis=2).argmin(axis=1)
        accuracy = np.mean(nearest == y[300:])
        assert accuracy < 0.4 if data.view_groups[s] == -1 else accuracy > 0.7
    same = make_views(2000, class_sep=0.0, n_views=2, random_state=0)
    for name, Z in same.latent.items():
        assert explained(one_hot(same.target[name]), Z) < 0.01


def test_class_sep_is_the_distance_of_the_closest_centers():
    rng = np.random.default_rng(0)
    for n_classes, n_latent in [(2, 1), (4, 4), (10, 2)]:
        centers = synthetic._draw_centers(n_classes, n_latent, 2.5, rng)
        assert centers.shape == (n_classes, n_latent)
        assert pdist(centers).min() == pytest.approx(2.5)
    for tail in synthetic._TAILS:  # in standard deviations within a class
        e = synthetic._draw_noise(tail, (100_000, 2), rng)
        np.testing.assert_allclose(e.var(axis=0), 1, rtol=0.05)
        np.testing.assert_allclose(e.mean(axis=0), 0, atol=0.02)


def test_sizes_columns_and_class_weights_per_view():
    data = make_views([30, 40, 50], n_views=2, n_junk=1, n_columns=[4, 7, 1 + 4], random_state=0)
    assert [X.shape for X in data.views.values()] == [(30, 4), (40, 7), (50, 5)]
    for name in data.views:
        assert len(set(data.individuals[name])) == len(data.views[name])
    two = {"n_views": 2, "n_classes": 2, "random_state": 0}
    for y in make_views(100, class_weights=[3, 1], **two).target.values():
        np.testing.assert_array_equal(np.bincount(y), [75, 25])
    each = make_views(100, class_weights=[[1, 0], [0.2, 0.8]], labeled=0.1, **two)
    np.testing.assert_array_equal(np.bincount(each.target["view_0"], minlength=2), [100, 0])
    np.testing.assert_array_equal(np.bincount(each.target["view_1"]), [20, 80])
    np.testing.assert_array_equal(np.bincount(each.linked_target), [6, 4])


@given(st.integers(1, 500), st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any))
@settings(deadline=None)
def test_classes_have_their_shares_to_less_than_a_row(n, weights):
    classes = {"n_classes": len(weights), "class_weights": weights}
    data = make_views(n, n_views=1, n_groups=1, n_latent=2, n_columns=2, random_state=0, **classes)
    counts = np.bincount(data.target["view_0"], minlength=len(weights))
    shares = np.array(weights) / sum(weights)
    assert np.all(np.abs(counts - n * shares) < 1)
    assert np.all(counts[shares == 0] == 0)


def test_linked_individuals_are_extra_and_in_every_view_and_of_the_class_they_say():
    data = make_views([300, 200], n_views=2, n_groups=1, labeled=0.1, noise=0.0, random_state=0)
    assert len(data.linked_target) == len(data.linked_individuals) == 20
    np.testing.assert_array_equal(np.bincount(data.linked_target), [5] * 4)
    for name, X in data.linked.items():
        assert X.shape == (20, 20)
        assert not set(data.linked_individuals) & set(data.individuals[name])
    # Both views rotate the same latent rows, in the same order.
    np.testing.assert_allclose(*map(pdist, data.linked.values()), rtol=1e-3, atol=1e-5)
    _, first, second = np.intersect1d(*data.individuals.values(), return_indices=True)
    assert len(first) == 200
    for found in (data.latent, data.target):
        np.testing.assert_array_equal(found["view_0"][first], found["view_1"][second])
    data = make_views(400, n_views=1, n_groups=1, labeled=0.5, class_sep=20, random_state=0)
    X, y = data.views["view_0"], data.target["view_0"]
    means = np.stack([X[y == k].mean(axis=0) for k in range(4)])
    nearest = np.linalg.norm(data.linked["view_0"][:, None] - means, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest, data.linked_target)


def test_views_are_dealt_out_evenly():
    for n_views, n_groups, groups in ((6, 2, [0, 0, 0, 1, 1, 1]), (5, 2, [0, 0, 0, 1, 1])):
        data = make_views(20, n_views=n_views, n_groups=n_groups, random_state=0)
        np.testing.assert_array_equal(data.view_groups, groups)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    setting = {"n_junk": 1, "nonlinear": True, "labeled": 0.1}
    first, again = (make_views(random_state=3, **setting) for _ in range(2))
    other = make_views(random_state=4, **setting)
    generator = make_views(random_state=np.random.default_rng(3), **setting)
    for name, X in first.views.items():
        assert X.tobytes() == again.views[name].tobytes() == generator.views[name].tobytes()
        assert first.linked[name].tobytes() == again.linked[name].tobytes()
        assert X.tobytes() != other.views[name].tobytes()


@given(
    n_samples=st.integers(1, 30),
    n_views=st.integers(1, 5),
    n_junk=st.integers(0, 2),
    n_classes=st.integers(1, 5),
    n_latent=st.integers(1, 5),
    nonlinear=st.booleans(),
    seed=st.integers(0, 100),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_any_sensible_setting_gives_finite_views(
    n_samples, n_views, n_junk, n_classes, n_latent, nonlinear, seed, data
):
    made = make_views(
        n_samples,
        n_views=n_views,
        n_groups=data.draw(st.integers(1, n_views)),
        n_junk=n_junk,
        n_classes=n_classes,
        n_latent=n_latent,
        n_columns=n_latent + data.draw(st.integers(0, 5)),
        nonlinear=nonlinear,
        random_state=seed,
    )
    assert len(made.views) == n_views + n_junk
    for name, X in made.views.items():
        assert np.isfinite(X).all()
        assert len(X) == len(made.target[name]) == len(made.latent[name]) == n_samples


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"n_samples": 0}, "n_samples to be a whole number of at least 1"),
        ({"n_samples": [10, 20]}, "n_samples.*each of the 6 views.*holds 2"),
        ({"n_groups": 7}, "n_views to be a whole number of at least 7"),
        ({"n_columns": 3}, "n_columns to be a whole number of at least 4"),
        ({"class_weights": [1, 1]}, r"class_weights of shape \(4,\).*\(2,\)"),
        ({"class_weights": [1, 1, 1, -1]}, "class_weights of at least 0"),
        ({"class_weights": [0, 0, 0, 0]}, "not all 0"),
        ({"class_sep": np.inf}, "class_sep"),
        ({"noise": 1.5}, "noise to be a share"),
        ({"labeled": 0.0001}, "at least one linked row"),
    ),
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        make_views(**change)
