import numpy as np
import pytest
import torch
from torch import nn

import hotview as hv
from hotview import MultiViewClassifier, MultiViewEncoder
from hotview._archive import round_to_float16
from hotview.datasets import make_views
from hotview.estimators.fit import EnsembleFit, fit_views
from hotview.estimators.inference import HeadEnsemble, PredictorEnsemble
from hotview.estimators.member_fit import MemberFit

DATA = make_views(30, n_views=3, n_columns=4, labeled=0.5, random_state=0)
SMALL = {"hidden": (6,), "encoder_dim": 3, "n_components": 2, "max_epochs": 1, "device": "cpu"}
SMALL |= {"random_state": 0}


def inputs_of(**parameters):
    model = MultiViewClassifier(**{**SMALL, "n_estimators": 2, **parameters})
    return model._inputs(DATA.linked, DATA.linked_target, unaligned=DATA.views)


def test_members_share_rows_components_and_graphs():
    fit = EnsembleFit(inputs_of(view_regularizer="diffusion"))
    fit.prepare()
    first, second = (member.training.sampler.data for member in fit.members)
    assert all(a is b for a, b in zip(first.views, second.views, strict=True))
    assert first.coordinates is second.coordinates is fit.shared.coordinates
    assert all(
        graph.rows is view for graph, view in zip(fit.shared.graphs, first.views, strict=True)
    )
    assert not np.allclose(first.soft_labels[0], second.soft_labels[0])  # other labels held out


@pytest.mark.parametrize("pseudo_labels", (True, False))
def test_predictors_are_those_of_the_stage(pseudo_labels):
    (fit,) = fit_views([inputs_of(pseudo_labels=pseudo_labels)])
    assert isinstance(fit.ensemble, PredictorEnsemble if pseudo_labels else HeadEnsemble)
    for member, network in zip(fit.members, fit.ensemble.networks, strict=True):
        assert network is member.training.network
        assert len(member.out_of_fold.target) == len(member.held_out) > 0
        n_rows, n_views = len(member.held_out), len(DATA.linked)
        if pseudo_labels:
            assert member.out_of_fold.scores.shape[:3] == (n_rows, n_views, 3)
            assert member.out_of_fold.joint.shape[0] == n_rows
        else:
            assert member.out_of_fold.log_probs.shape[:2] == (n_rows, n_views + 1)


def test_plans_of_all_members_have_the_null_of_the_first():
    (fit,) = fit_views([inputs_of()])
    first, second = (member.plan for member in fit.members)
    assert first.null is second.null is not None
    (without,) = fit_views([inputs_of()], view_tests=False)
    assert all(member.plan.null is None for member in without.members)


def test_an_encoder_has_no_predictors():
    model = MultiViewEncoder(**SMALL, n_estimators=1)
    (fit,) = fit_views([model._inputs(DATA.views)])
    assert fit.ensemble is None
    assert fit.members[0].out_of_fold is None
    assert fit.shared.graphs == []


# weights of networks


def is_rounded(parameters):
    return all(torch.equal(round_to_float16(p), p) for p in parameters)


@pytest.mark.parametrize("pseudo_labels", (True, False))
def test_weights_are_rounded_to_what_float16_holds_where_labels_are_propagated(pseudo_labels):
    (fit,) = fit_views([inputs_of(pseudo_labels=pseudo_labels)])
    for network in fit.ensemble.networks:
        assert is_rounded(network.parameters()) == pseudo_labels
    model = MultiViewEncoder(**SMALL, n_estimators=1)
    (fit,) = fit_views([model._inputs(DATA.views)])
    assert not is_rounded(fit.members[0].training.network.parameters())


def test_weights_of_the_users_own_encoders_are_not_rounded():
    own = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    (fit,) = fit_views([inputs_of(encoders={"view_1": own}, n_estimators=1)])
    (network,) = fit.ensemble.networks
    assert not is_rounded(network.encoders[1].parameters())
    for part in (network.encoders[0], network.encoders[2], network.view_heads, network.maps):
        assert is_rounded(part.parameters())


def test_features_of_nodes_are_those_of_the_rounded_weights():
    (fit,) = fit_views([inputs_of()])
    for s, graph in enumerate(fit.shared.graphs):
        for member in fit.members:
            with torch.no_grad():
                expected = member.training.network.encoders[s](graph.rows.take(graph.nodes))
            features, scale = member.features[s]
            np.testing.assert_allclose(features * scale, expected, rtol=1e-5, atol=1e-6)


def group_of(**parameters):
    return MemberFit(inputs_of(**{"n_estimators": 1, **parameters}), 0).group


@pytest.mark.parametrize(
    "parameters",
    (
        {"random_state": 3},
        {"coupling": hv.HOTReferenceSpec(weight=0.5)},
        {"coupling": hv.HOTReferenceSpec(orthogonality_weight=0.5)},
    ),
    ids=str,
)
def test_networks_of_one_group_may_differ_in_seeds_and_weights(parameters):
    assert group_of(**parameters) == group_of(random_state=0)


def test_weights_of_regularizers_may_differ():
    light, heavy = (group_of(view_regularizer=hv.ManifoldSpec(weight)) for weight in (0.1, 1.0))
    assert light == heavy


class OwnCoupling(hv.HOTReferenceSpec):
    pass


def test_fits_with_a_coupling_of_the_users_own_are_trained_alone():
    assert group_of(coupling=OwnCoupling()) != group_of(coupling=OwnCoupling())


@pytest.mark.parametrize(
    "parameters",
    (
        {"coupling": "none"},
        {"learning_rate": 0.5},
        {"coupling": hv.HOTReferenceSpec(reg=0.5)},
        {"coupling": hv.HOTReferenceSpec(n_projections=7)},
        {"coupling": hv.HOTReferenceSpec(orthogonality_weight=float("inf"))},
        {"view_regularizer": "autoencoder"},
    ),
    ids=str,
)
def test_all_other_parameters_make_another_group(parameters):
    assert group_of(**parameters) != group_of()
