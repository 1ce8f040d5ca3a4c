import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import get_tags

from hotview import AutoencoderSpec, HOTPairwiseSpec, HOTReferenceSpec, MultiViewEncoder
from hotview.datasets import make_views
from hotview.losses.specifications import COUPLINGS, REGULARIZERS, as_coupling
from tests.estimators.small_fits import SMALL, may_collapse, not_comparable

PLAIN = {**SMALL, "learning_rate": 0.01}
DATA = make_views(40, n_views=4, n_columns=[5, 6, 4, 5], labeled=1.0, random_state=0)
PAIRED = DATA.linked
COUPLED = ("sw-pairwise", "sw-reference", "hot-pairwise", "hot-reference")
PARTS = {
    **{name: {"transport", "orthogonality"} for name in COUPLED},
    "none": set(),
    "lscca": {"agreement", "orthogonality"},
    "dgcca": {"agreement"},
    "autoencoder": {"reconstruction"},
    "manifold": {"smoothness"},
    "diffusion": {"diffusion"},
}
ALIGNED = ("lscca", "dgcca")


def specify(coupling, **settings):
    """A coupling with those of the settings that it has."""
    spec, settings = as_coupling(coupling), {"n_projections": 6, "n_references": 2, **settings}
    return spec.set_params(**{k: v for k, v in settings.items() if k in spec.get_params()})


def small(coupling="none", view_regularizer="none", **parameters):
    spec = specify(coupling) if isinstance(coupling, str) else coupling
    return MultiViewEncoder(spec, view_regularizer, **{**PLAIN, **parameters})


#: Every coupling and every regularizer, each with several of the others.
PAIRS = tuple((c, tuple(REGULARIZERS)[(i + 1) % 4]) for i, c in enumerate(COUPLINGS))


@may_collapse
@not_comparable
@pytest.mark.parametrize(("coupling", "view_regularizer"), (("none", "none"), *PAIRS))
def test_every_coupling_and_regularizer_trains(coupling, view_regularizer):
    model = small(coupling, view_regularizer, max_epochs=20)
    paired = coupling in ALIGNED
    views = PAIRED if paired else {n: X[: 40 - s] for s, (n, X) in enumerate(PAIRED.items())}
    history = model.fit(views, paired=paired).history_
    parts = PARTS[coupling] | PARTS[view_regularizer]
    ranks = {f"effective_rank_{name}" for name in views}
    error = {"marginal_error"} if coupling.startswith("hot") else set()
    assert set(history.names) == {"epoch", "loss", "seconds"} | parts | ranks | error
    for row in history:
        assert np.isfinite(list(row.values())).all()
        assert row["loss"] == pytest.approx(sum(row[name] for name in parts))
    if parts:
        assert np.mean(history["loss"][-5:]) < np.mean(history["loss"][:5])
    for Z in model.transform(views, space="common").values():
        assert np.isfinite(Z).all()
        assert Z.std() > 0


def test_couplings_of_individuals_refuse_unpaired_views():
    message = "aligned rows for coupling='dgcca'.*'view_3'.*paired=True.*'hot-reference'"
    with pytest.raises(ValueError, match=message):
        small("dgcca").fit(PAIRED)  # of equal sizes, which proves nothing
    strangers = {name: np.full_like(X, np.nan) for name, X in PAIRED.items()}
    for rows, (name, X) in zip(np.array_split(np.arange(40), 4), strangers.items(), strict=True):
        X[rows] = PAIRED[name][rows]
    with pytest.raises(ValueError, match="0 have all views"):
        small("dgcca").fit(strangers, paired=True)


def test_latents_of_pairs_are_closer_than_others():
    views = make_views(100, n_views=2, n_groups=1, labeled=1.0, random_state=0).linked
    others = {name: np.roll(X, s, axis=0) for s, (name, X) in enumerate(views.items())}
    for coupling in ALIGNED:
        spec = specify(coupling, orthogonality_weight=1.0)
        model = small(spec, max_epochs=40, n_components=2)
        ours, strangers = (model.fit(X, paired=True).history_["agreement"] for X in (views, others))
        assert ours[-1] < 0.5 * strangers[-1]


@may_collapse
def test_only_complete_rows_are_paired():
    views = {name: X.copy() for name, X in PAIRED.items()}
    views["view_1"][3] = views["view_2"][[7, 8]] = np.nan
    complete = {name: np.delete(X, [3, 7, 8], axis=0) for name, X in views.items()}
    settings = {"preprocessing": "none", "initialization": "random", "batch_size": 37}
    with pytest.warns(UserWarning, match="3 linked rows lack a view; coupling='lscca'"):
        found = small("lscca", **settings).fit(views, paired=True)
    expected = small("lscca", **settings).fit(complete, paired=True)
    assert found.history_["loss"] == pytest.approx(expected.history_["loss"])
    assert found.batch_size_ == 37


@pytest.mark.parametrize(("batch_size", "used"), ((15, 14), (1000, 40)))  # 40 rows in 3 steps, 1
def test_an_epoch_is_one_pass_over_the_largest_view(batch_size, used):
    views = {name: X[: 40 - 10 * s] for s, (name, X) in enumerate(PAIRED.items())}
    model = small("sw-reference", batch_size=batch_size).fit(views)
    assert model.batch_size_ == used
    assert model.references_.shape == (1, used, 3)


def test_more_steps_make_longer_epochs():
    long = small("hot-reference", max_epochs=1, steps_per_epoch=3).fit(PAIRED)
    as_long = small("hot-reference", max_epochs=3, steps_per_epoch=1).fit(PAIRED)
    assert long.history_["loss"] == [pytest.approx(np.mean(as_long.history_["loss"]))]


def test_fit_transform_is_fit_and_transform_and_y_is_not_used():
    model = small("lscca")
    found = model.fit_transform(PAIRED, paired=True)
    again = model.fit(PAIRED, y="nothing", paired=True).transform(PAIRED)
    np.testing.assert_equal(found, again)
    assert not is_classifier(model)
    assert get_tags(model).transformer_tags is not None
    assert not get_tags(model).input_tags.two_d_array


def test_weights_multiply_their_terms():
    plain = small("sw-pairwise", "autoencoder", max_epochs=1).fit(PAIRED).history_[0]
    weighted = small(specify("sw-pairwise", weight=0.3), AutoencoderSpec(0.05), max_epochs=1)
    heavy = weighted.fit(PAIRED).history_[0]
    assert heavy["transport"] == pytest.approx(3 * plain["transport"])
    assert heavy["orthogonality"] == pytest.approx(3 * plain["orthogonality"])
    assert heavy["reconstruction"] == pytest.approx(5 * plain["reconstruction"])


PLANTED = {"n_components": 4, "preprocessing": "none", "device": "cpu"}
TWO_GROUPS = (HOTPairwiseSpec(), HOTReferenceSpec(n_references=2))


@pytest.mark.parametrize(("coupling", "seed"), tuple(zip(TWO_GROUPS, (0, 1), strict=True)))
def test_planted_groups_of_views_are_found(coupling, seed):
    data = make_views(300, n_views=6, n_groups=2, random_state=seed)
    model = MultiViewEncoder(coupling, max_epochs=5, hidden=(8,), random_state=seed, **PLANTED)
    model.fit(data.views)
    groups = model.plan_.view_labels(2 if model.plan_.pairwise else None)
    assert adjusted_rand_score(data.view_groups, groups.labels) == 1.0
    assert model.plan_.null.p_value == 0.05  # the least that 19 draws can give
    assert model.plan_.null.relative_cost < model.plan_.null.relative_costs.min()


def fit_briefly(views):
    settings = {**PLANTED, "hidden": (8,), "encoder_dim": 4, "max_epochs": 1, "random_state": 0}
    return MultiViewEncoder(HOTReferenceSpec(n_references=2), **settings).fit(views)


def test_noise_alone_looks_like_noise_and_a_junk_view_is_told_by_its_cost():
    views = make_views(300, n_views=1, n_groups=1, n_junk=5, random_state=0).views
    del views["view_0"]
    assert fit_briefly(views).plan_.null.p_value >= 0.1
    data = make_views(300, n_views=4, n_groups=2, n_junk=1, random_state=0)
    plan = fit_briefly(data.views).plan_
    assert plan.null.plan.C.mean(1).argmax() == 4
    assert plan.C.mean(1).argmax() == 4


LINKED = make_views(60, n_views=4, n_groups=2, n_columns=6, labeled=1.0, random_state=1)


def test_linked_rows_are_trained_on_and_measured():
    model = small("hot-reference").fit(LINKED.views, linked=LINKED.linked)
    assert model.trained_on_["linked"] == 60
    assert model.trained_on_["unaligned"] == dict.fromkeys(LINKED.views, 60)
    found = model.view_similarity_
    assert np.all(found.n_rows == 60)
    assert found.within_classes is None
    alone = small("hot-reference").fit(LINKED.linked, paired=True).view_similarity_
    np.testing.assert_allclose(found.value, alone.value, atol=0.1)  # other rows scale the columns
    unlinked = small().fit(LINKED.views)
    assert unlinked.view_similarity_ is unlinked.view_labels_ is None


def test_linked_rows_may_lack_views_and_views_may_have_linked_rows_alone():
    linked = {name: X.copy() for name, X in LINKED.linked.items()}
    linked["view_3"][:30] = np.nan
    others = {name: X for name, X in LINKED.views.items() if name != "view_0"}
    found = small().fit(others, linked=linked).view_similarity_
    assert found.n_rows[0, 1] == 60
    assert found.n_rows[0, 3] == 30
    assert small().fit(None, linked=linked).trained_on_["unaligned"] == {}


def test_linked_rows_that_cannot_be_used_are_refused():
    with pytest.raises(ValueError, match="both are given"):
        small().fit(LINKED.views, linked=LINKED.linked, paired=True)
    with pytest.raises(ValueError, match="have unaligned ones"):
        small("dgcca").fit(LINKED.views, linked=LINKED.linked)
    linked = dict(list(LINKED.linked.items())[:2])
    with pytest.raises(ValueError, match=r"lacks \['view_2', 'view_3'\]"):
        small().fit(LINKED.views, linked=linked)


def test_the_similarity_does_not_depend_on_the_seed():
    data = make_views(250, n_views=4, n_groups=2, n_columns=6, labeled=1.0, random_state=1)
    models = [small(random_state=seed).fit(data.linked, paired=True) for seed in (0, 1)]
    first, second = (model.view_similarity_ for model in models)
    assert first.n_rows[0, 1] == 100
    for name in ("value", "low", "high", "p_value"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
