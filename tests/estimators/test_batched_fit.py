import copy

import numpy as np
import pytest
import torch

from hotview import HOTReferenceSpec, MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from hotview.estimators import fit
from hotview.estimators.batched_fit import fit_batched
from hotview.ot import sinkhorn
from hotview.semisupervised.knn import FLOOR
from hotview.training.view_plan import match_columns

SMALL = {
    "hidden": (8,),
    "encoder_dim": 4,
    "n_components": 3,
    "max_epochs": 3,
    "n_estimators": 1,
    "device": "cpu",
}
DATA = [make_views(40, n_views=4, n_columns=5, labeled=0.5, random_state=r) for r in range(3)]


def classifier(r, **parameters):
    arguments = {"Xs": DATA[r].linked, "y": DATA[r].linked_target, "unaligned": DATA[r].views}
    return MultiViewClassifier(random_state=r, **{**SMALL, **parameters}), arguments


def encoder(r, **parameters):
    return MultiViewEncoder(random_state=r, **{**SMALL, **parameters}), {"Xs": DATA[r].views}


def check_same(found, expected, r):
    views = DATA[r].linked
    for name, F in found.transform(views).items():
        np.testing.assert_allclose(F, expected.transform(views)[name], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.history_["loss"], expected.history_["loss"], rtol=1e-4)
    if expected.plan_ is not None:
        np.testing.assert_allclose(found.plan_.W, expected.plan_.W, atol=1e-3)


@pytest.mark.parametrize("make", (classifier, encoder))
@pytest.mark.parametrize(
    "parameters",
    ({}, {"coupling": "none"}, {"coupling": "hot-pairwise", "view_regularizer": "none"}),
    ids=str,
)
def test_fits_on_different_data_are_as_if_alone(make, parameters):
    together = [make(r, **parameters) for r in range(3)]
    fit_batched(together)
    for r, (model, _) in enumerate(together):
        alone, arguments = make(r, **parameters)
        check_same(model, alone.fit(**arguments), r)


def test_what_cannot_be_stacked_is_fitted_all_the_same():
    different = [
        classifier(0),
        encoder(1),
        classifier(2, coupling="none"),
        classifier(1, batch_size=10),
        classifier(1, coupling=HOTReferenceSpec(0.5)),
    ]
    fit_batched(different, view_tests=False)
    alone = [
        classifier(0),
        encoder(1),
        classifier(2, coupling="none"),
        classifier(1, batch_size=10),
        classifier(1, coupling=HOTReferenceSpec(0.5)),
    ]
    for (model, _), (other, arguments), r in zip(different, alone, (0, 1, 2, 1, 1), strict=True):
        check_same(model, other.fit(**arguments), r)
        assert model.plan_ is None or model.plan_.null is None


def test_one_bad_fit_is_refused_before_any_training():
    good, bad = classifier(0), classifier(1)
    bad[1]["y"] = bad[1]["y"][:-1]
    with pytest.raises(ValueError, match="rows"):
        fit_batched([good, bad])
    assert not hasattr(good[0], "networks_")


# members of one ensemble


def test_the_first_member_equals_a_single_one():
    several, arguments = classifier(0, n_estimators=3, fusion="average")  # with nothing left out
    one, _ = classifier(0, fusion="average")
    several.fit(**arguments)
    one.fit(**arguments)
    assert several._ensemble.rule == one._ensemble.rule
    np.testing.assert_allclose(several.histories_[0]["loss"], one.history_["loss"], rtol=1e-4)
    assert several.histories_[1]["loss"] != several.histories_[0]["loss"]


def predict_each(model, views):
    """Probabilities by every member: all share neighbors and ridge regressions."""
    ensemble, shared, heads = model._ensemble, [], [[], [], []]
    rows = [model._columns[name].transform(X).double() for name, X in views.items()]
    for s, X in enumerate(rows):
        Fs = [copy.deepcopy(f.encoders[s]).double()(X).detach() for f in model.networks_]
        knn = ensemble.predictors.knn[s]
        Y = knn.coordinates.project(X, torch.cat(Fs, dim=1))
        near = torch.cdist(Y, knn.points.double()).sort(dim=1).indices[:, : knn.n_neighbors]
        by_neighbors = (knn.soft_labels[near].double().mean(1) + FLOOR).log()
        shared.append([by_neighbors, ensemble.predictors.ridge[s].predict({0: X})])
        for of_member, network, F in zip(heads, model.networks_, Fs, strict=True):
            logits = copy.deepcopy(network.view_heads[s]).double()(F).detach()
            prior = ensemble.predictors.log_prior[s]
            of_member.append(((logits - prior).softmax(1) + FLOOR).log())
    joint = ensemble.predictors.joint.predict(dict(enumerate(rows)))
    present = torch.ones(len(rows[0]), len(rows), dtype=torch.bool)
    each = []
    for of_member in heads:
        by_view = [torch.stack([*x, y], dim=1) for x, y in zip(shared, of_member, strict=True)]
        scores = torch.stack(by_view, dim=1)
        each.append(ensemble.super_learner.combine(scores, joint, present).exp().numpy())
    return each


def test_probabilities_are_the_mean_over_members():
    model, arguments = classifier(0, n_estimators=3)
    model.fit(**arguments)
    each = predict_each(model, DATA[0].linked)
    mean = np.mean(each, axis=0)
    np.testing.assert_allclose(model.predict_proba(DATA[0].linked), mean, rtol=1e-6)

    def entropy(p):
        return -(p * np.log(p)).sum(axis=1)

    expected = entropy(mean) - np.mean([entropy(p) for p in each], axis=0)
    found = model.predict_disagreement(DATA[0].linked)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (found > 0).any()


def test_one_member_does_not_disagree():
    model, arguments = classifier(0)
    assert (model.fit(**arguments).predict_disagreement(DATA[0].linked) < 1e-12).all()


@pytest.mark.parametrize("coupling", ("hot-pairwise", "hot-reference", "none"))
def test_the_plan_is_solved_for_the_mean_costs_of_members(coupling):
    model, arguments = encoder(0, n_estimators=4, coupling=coupling)
    model.fit(**arguments)
    if coupling == "none":
        assert model.plan_ is None
        assert model.plans_ is None
        return
    assert len(model.plans_) == 4
    W, std = model.plan_.W, model.plan_.std
    n, k = W.shape
    np.testing.assert_allclose(W.sum(1), np.full(n, 1 / n), atol=1e-5)
    np.testing.assert_allclose(W.sum(0), np.full(k, 1 / k), atol=1e-5)
    orders = match_columns(model.plans_)
    Cs, Ws = (
        np.stack([getattr(plan, name)[:, k] for plan, k in zip(model.plans_, orders, strict=True)])
        for name in "CW"
    )
    C = torch.from_numpy(Cs.mean(0))
    mask = torch.eye(n, dtype=torch.bool) if coupling == "hot-pairwise" else None
    np.testing.assert_allclose(W, sinkhorn(C, reg=0.1, relative=True, mask=mask).W, atol=1e-5)
    np.testing.assert_allclose(std, Ws.std(0, ddof=1), atol=1e-6)
    if coupling == "hot-reference":
        assert model.references_.shape[:2] == (4, k)


def test_features_of_members_are_side_by_side():
    model, arguments = encoder(0, n_estimators=2)
    F = model.fit(**arguments).transform(DATA[0].views)["view_1"]
    assert F.shape == (40, 2 * SMALL["encoder_dim"])
    assert not np.allclose(F[:, :4], F[:, 4:])
    assert len(model.get_feature_names_out()) == 4 * F.shape[1]
    assert model.references_.shape[0] == 2


def test_members_share_their_rows(monkeypatch):
    calls, read = [], fit.scan_views
    monkeypatch.setattr(fit, "scan_views", lambda *a, **k: calls.append(1) or read(*a, **k))
    model, arguments = classifier(0, n_estimators=3)
    model.fit(**arguments)
    assert len(calls) == 1


@pytest.mark.parametrize("n", (0, -1, 1.5, "2", True))
def test_n_estimators_is_a_count(n):
    model, arguments = classifier(0, n_estimators=n)
    with pytest.raises((ValueError, TypeError), match="n_estimators"):
        model.fit(**arguments)


def test_members_are_reproducible_from_a_seed_and_differ_without():
    def fitted(random_state):
        model, arguments = encoder(0, n_estimators=2)
        return model.set_params(random_state=random_state).fit(**arguments)

    first, again, other = fitted(5), fitted(5), fitted(6)
    views = DATA[0].views
    assert np.array_equal(first.transform(views)["view_0"], again.transform(views)["view_0"])
    assert not np.array_equal(first.transform(views)["view_0"], other.transform(views)["view_0"])
    generator = fitted(np.random.default_rng(5)), fitted(np.random.default_rng(5))
    assert np.array_equal(*(model.transform(views)["view_0"] for model in generator))
    fitted(None)


def test_fits_of_several_processes_are_not_trained_together():
    model, arguments = encoder(0, devices=2)
    with pytest.raises(ValueError, match="Expected estimators with devices=None"):
        fit_batched([(model, arguments)])
