import numpy as np
import pytest
import torch
from torch import nn

import hotview as hv
from hotview import HOTReferenceSpec, MultiViewClassifier, MultiViewEncoder
from hotview._archive import round_to_float16
from hotview.datasets import make_views
from hotview.estimators.base import fit_batched
from hotview.estimators.fit import fit_estimators
from hotview.estimators.networks import _group
from hotview.nn.batched import NetworkOutputs
from hotview.ot import sinkhorn
from hotview.training.view_plan import match_columns
from tests.estimators.small_fits import SMALL, data_of, prepared, trained

DATA = [make_views(40, n_views=4, n_columns=5, labeled=0.5, random_state=r) for r in range(3)]


def classifier(r, **parameters):
    arguments = {"Xs": DATA[r].linked, "y": DATA[r].linked_target, "unaligned": DATA[r].views}
    return MultiViewClassifier(**{**SMALL, "random_state": r, **parameters}), arguments


def encoder(r, **parameters):
    return MultiViewEncoder(**{**SMALL, "random_state": r, **parameters}), {"Xs": DATA[r].views}


def check_same(found, expected, r):
    views = DATA[r].linked
    for name, F in found.transform(views).items():
        np.testing.assert_allclose(F, expected.transform(views)[name], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.history_["loss"], expected.history_["loss"], rtol=1e-4)
    if expected.plan_ is not None:
        np.testing.assert_allclose(found.plan_.W, expected.plan_.W, atol=1e-3)


@pytest.mark.parametrize(
    ("make", "parameters"),
    ((classifier, {}), (encoder, {"coupling": "hot-pairwise", "view_regularizer": "none"})),
    ids=("classifier", "encoder"),
)
def test_fits_on_different_data_are_as_if_alone(make, parameters):
    together = [make(r, **parameters) for r in range(2)]
    fit_batched(together)
    for r, (model, _) in enumerate(together):
        alone, arguments = make(r, **parameters)
        check_same(model, alone.fit(**arguments), r)


def test_what_cannot_be_stacked_is_fitted_all_the_same():
    def different():
        return [
            classifier(0),
            encoder(1),
            classifier(0, coupling="none"),
            classifier(1, batch_size=10),
            classifier(1, coupling=HOTReferenceSpec(0.5)),
        ]

    together, seeds = different(), (0, 1, 0, 1, 1)
    fit_batched(together, view_tests=False)
    for (model, _), (other, arguments), r in zip(together, different(), seeds, strict=True):
        check_same(model, other.fit(**arguments), r)
        assert model.plan_ is None or model.plan_.null is None


def test_one_bad_fit_is_refused_before_any_training():
    good, bad = classifier(0), classifier(1)
    bad[1]["y"] = bad[1]["y"][:-1]
    with pytest.raises(ValueError, match="rows"):
        fit_batched([good, bad])
    assert not hasattr(good[0], "networks_")
    for parameters, what in (({"devices": 2}, "devices=None"), ({"checkpoint": "a"}, "a checkpo")):
        with pytest.raises(ValueError, match=f"Expected estimators with.* {what}"):
            fit_batched([encoder(0, **parameters)])


def test_members_are_those_of_a_single_one_and_others_and_probabilities_their_mean():
    model, arguments = classifier(0, n_estimators=3, fusion="average")  # with nothing left out
    one = classifier(0, fusion="average")[0].fit(**arguments)
    model.fit(**arguments)
    assert model.model_.learner.rule == one.model_.learner.rule
    np.testing.assert_allclose(model.histories_[0]["loss"], one.history_["loss"], rtol=1e-4)
    assert model.histories_[1]["loss"] != model.histories_[0]["loss"]
    given = DATA[0].linked.items()
    rows = {s: model.model_.views[s].scaler.transform(X) for s, (_, X) in enumerate(given)}
    with torch.inference_mode():
        outputs = NetworkOutputs(model.networks_)
        each = model.model_.learner.log_proba(rows, outputs).exp().numpy()
    mean = np.mean(each, axis=0)
    np.testing.assert_allclose(model.predict_proba(DATA[0].linked), mean, rtol=1e-6)

    def entropy(p):
        return -(p * np.log(p)).sum(axis=1)

    expected = entropy(mean) - np.mean([entropy(p) for p in each], axis=0)
    found = model.predict_disagreement(DATA[0].linked)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (found > 0).any()


@pytest.mark.parametrize("coupling", ("hot-pairwise", "hot-reference"))
def test_the_plan_is_solved_for_the_mean_costs_of_members(coupling):
    model, arguments = encoder(0, n_estimators=3, coupling=coupling)
    model.fit(**arguments)
    F = model.transform(DATA[0].views)["view_1"]
    assert F.shape == (40, 3 * 4)
    assert not np.allclose(F[:, :4], F[:, 4:8])
    assert len(model.get_feature_names_out()) == 4 * F.shape[1]
    assert len(model.plans_) == 3
    W, std = model.plan_.W, model.plan_.std
    n, k = W.shape
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
        assert model.references_.shape[:2] == (3, k)


def test_weights_are_rounded_to_what_float16_holds_where_labels_are_propagated():
    def is_rounded(module):
        return all(torch.equal(round_to_float16(p), p) for p in module.parameters())

    own = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4))
    model, arguments = classifier(0, encoders={"view_1": own})
    fit, (found,) = trained(model, **arguments)
    network = fit.members[0].training.network
    assert not is_rounded(network.encoders[1])  # the user's own
    for part in (network.encoders[0], network.encoders[2], network.view_heads, network.maps):
        assert is_rounded(part)
    for s, graph in enumerate(fit.graphs.graphs):  # features of nodes are those of the weights
        with torch.no_grad():
            expected = network.encoders[s](graph.rows.take(graph.nodes))
        features, scale = found.features[s]
        np.testing.assert_allclose(features * scale, expected, rtol=1e-5, atol=1e-6)
    model, arguments = classifier(0, pseudo_labels=False)
    (heads,) = fit_estimators([data_of(model, **arguments)], view_tests=False)
    assert not is_rounded(heads.networks[0])
    assert heads.plans[0].null is None


class OwnCoupling(hv.HOTReferenceSpec):
    pass


@pytest.mark.parametrize(
    ("parameters", "is_same"),
    (
        ({"coupling": hv.HOTReferenceSpec(weight=0.5, orthogonality_weight=0.5)}, True),
        ({"view_regularizer": hv.AutoencoderSpec(0.1)}, True),
        ({"learning_rate": 0.5}, False),
        ({"coupling": hv.HOTReferenceSpec(orthogonality_weight=float("inf"))}, False),
        ({"coupling": OwnCoupling()}, False),
        ({"view_regularizer": "none"}, False),
    ),
    ids=str,
)
def test_networks_that_are_trained_together_differ_in_seeds_and_weights_alone(parameters, is_same):
    def group_of(**more):
        model, arguments = classifier(0, **{"view_regularizer": "autoencoder", **more})
        fit = prepared(model, **arguments)
        return _group(fit.members[0], fit.p)

    assert (group_of() == group_of(**parameters)) == is_same
