import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from hotview.evaluation.embedding import ViewLatents, embed_views


def rows(Z):
    numbers = np.arange(len(Z))
    return ViewLatents(Z, [str(i) for i in numbers], numbers % 3, np.full(len(Z), -1))


def clouds(n, d=4):
    random = np.random.default_rng(0)
    return {s: rows(random.normal(size=(n, d)) * [3, 2, 1, 0.5][:d]) for s in (0, 1)}


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
    ids = np.array(found.ids)[found.individuals]
    assert "3" not in ids[np.array(found.views) == 1]
    truth = dict(zip(views[0].ids, views[0].truth, strict=True))
    assert [truth[who] for who in ids] == list(found.truth)
    # Rows without correspondence are no individuals.
    found = embed_views(clouds(20), linked=False, umap=False)
    assert sorted(found.individuals) == list(range(40))
    assert found.ids == [str(i) for i in range(20)] * 2


def test_whole_individuals_are_sampled():
    found, again = (embed_views(clouds(3000), linked=True, umap=False) for _ in range(2))
    assert (len(found.views), found.n_points) == (2400, 6000)
    assert np.bincount(found.individuals).tolist() == [2] * 1200
    assert found == again


def test_few_dimensions_and_points_that_coincide():
    for views in (clouds(10, 1), clouds(10, 2), {0: rows(np.ones((5, 3)))}):
        (layout,) = embed_views(views, linked=True, umap=False).layouts
        places = np.array(layout.points)
        assert places.shape == (sum(len(view.Z) for view in views.values()), 2)
        assert (places[:, 1] == 0).all() == (views[0].Z.shape[1] != 2)
    assert (places == 0).all()


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
        return embed_views(clouds(n), linked=True, umap=True)

    umap = SimpleNamespace(fit_transform=fit_transform)
    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=lambda **how: umap))
    found = layout(29)
    Z = np.vstack([view.Z for view in clouds(29).values()])
    assert [layout.name for layout in found.layouts] == ["PCA", "UMAP"]
    assert sorted(found.layouts[1].points) == sorted((2 * Z[:, :2]).round(4).tolist())
    assert layout(30).reason == "UMAP failed (FloatingPointError)"
    assert "more than 15 points" in layout(5).reason
    monkeypatch.setitem(sys.modules, "umap", None)
    found = layout(30)
    assert (len(found.layouts), found.reason) == (1, "umap-learn is not installed")
