import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from hotview.evaluation.record.embedding import ViewLatents, embed_views


def rows(Z, prefix=""):
    none = np.full(len(Z), -1)
    return ViewLatents(Z, [f"{prefix}{i}" for i in range(len(Z))], np.arange(len(Z)) % 3, none)


def clouds(n, d=4, n_views=2):
    random = np.random.default_rng(0)
    return {s: rows(random.normal(size=(n, d)) * [3, 2, 1, 0.5][:d]) for s in range(n_views)}


def test_components_are_scikit_learns():
    views = clouds(50)
    (layout,) = embed_views(views, linked=True, umap=False).layouts
    Z = np.vstack([one.Z for one in views.values()])
    model = PCA(2).fit(Z)
    truth = model.transform(Z)
    signs = np.sign((truth * layout.points).sum(0))
    np.testing.assert_allclose(layout.points, truth * signs, atol=1e-4)
    share = model.explained_variance_ratio_[0]
    assert layout.axes[0] == f"component 1 ({100 * share:.0f} % of variance)"


def test_points_keep_their_ids():
    views = clouds(20)
    views[1].Z[3] = np.nan  # absent
    found = embed_views(views, linked=True, umap=False)
    assert (len(found.views), found.n_points) == (39, 39)
    assert [found.ids[who] for who in found.individuals[:3]] == ["0", "1", "2"]
    assert "3" not in [found.ids[w] for w, s in zip(found.individuals, found.views, strict=True)
                       if s == 1]  # fmt: skip
    truth = dict(zip(views[0].ids, views[0].truth, strict=True))
    assert all(truth[found.ids[w]] == k
               for w, k in zip(found.individuals, found.truth, strict=True))  # fmt: skip


def test_rows_without_correspondence_are_no_individuals():
    found = embed_views(clouds(20), linked=False, umap=False)
    assert sorted(found.individuals) == list(range(40))
    assert found.ids == [str(i) for i in range(20)] * 2


def test_whole_individuals_are_sampled():
    found = embed_views(clouds(3000), linked=True, umap=False)
    assert (len(found.views), found.n_points) == (2400, 6000)
    assert np.bincount(found.individuals).tolist() == [2] * 1200
    assert found == embed_views(clouds(3000), linked=True, umap=False)


def test_few_dimensions_and_points_that_coincide():
    for d in (1, 2):
        (layout,) = embed_views(clouds(10, d), linked=True, umap=False).layouts
        places = np.array(layout.points)
        assert places.shape == (20, 2)
        assert (places[:, 1] == 0).all() == (d == 1)
    (layout,) = embed_views({0: rows(np.ones((5, 3)))}, linked=True, umap=False).layouts
    np.testing.assert_array_equal(layout.points, np.zeros((5, 2)))


@pytest.mark.slow
def test_umap_where_it_is_installed():
    pytest.importorskip("umap")
    found = embed_views(clouds(30), linked=True, umap=True)
    assert [layout.name for layout in found.layouts] == ["PCA", "UMAP"]
    assert np.isfinite(found.layouts[1].points).all()
    assert np.shape(found.layouts[1].points) == (60, 2)


def test_umap_is_given_all_points_and_need_not_succeed(monkeypatch):
    def fit_transform(Z):
        if len(Z) == 60:
            raise FloatingPointError
        return 2 * Z[:, :2]

    def layout(n):
        umap = SimpleNamespace(fit_transform=fit_transform)
        monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=lambda **how: umap))
        return embed_views(clouds(n), linked=True, umap=True)

    found = layout(29)
    Z = np.vstack([view.Z for view in clouds(29).values()])
    assert [layout.name for layout in found.layouts] == ["PCA", "UMAP"]
    assert sorted(found.layouts[1].points) == sorted((2 * Z[:, :2]).round(4).tolist())
    assert layout(30).reason == "UMAP failed (FloatingPointError)"
    few = layout(5)
    assert len(few.layouts) == 1
    assert "more than 15 points" in few.reason
    monkeypatch.setitem(sys.modules, "umap", None)
    found = embed_views(clouds(30), linked=True, umap=True)
    assert len(found.layouts) == 1
    assert found.reason == "umap-learn is not installed"
