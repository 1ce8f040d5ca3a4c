import pytest

import hotview as hv
from hotview import MultiViewClassifier
from hotview.datasets import make_views
from hotview.estimators.network_fit import NetworkFit
from hotview.estimators.randomness import Randomness

DATA = make_views(30, n_views=3, n_columns=4, labeled=0.5, random_state=0)
SMALL = {"hidden": (6,), "encoder_dim": 3, "n_components": 2, "max_epochs": 1, "device": "cpu"}
SMALL |= {"n_estimators": 1}


def make_fit(**parameters):
    model = MultiViewClassifier(**{**SMALL, **parameters})
    inputs = model._inputs(DATA.linked, DATA.linked_target, unaligned=DATA.views)
    return NetworkFit(inputs.parameters, inputs.tables, 3, Randomness(0))


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
    assert make_fit(**parameters).group == make_fit(random_state=0).group


def test_weights_of_regularizers_may_differ():
    light, heavy = (make_fit(view_regularizer=hv.ManifoldSpec(weight)) for weight in (0.1, 1.0))
    assert light.kind == heavy.kind


class OwnCoupling(hv.HOTReferenceSpec):
    pass


def test_fits_with_a_coupling_of_the_users_own_are_trained_alone():
    assert make_fit(coupling=OwnCoupling()).kind != make_fit(coupling=OwnCoupling()).kind


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
    assert make_fit(**parameters).group != make_fit().group
