import pytest

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
        {"coupling_weight": 0.5},
        {"regularizer_weight": 0.5},
        {"orthogonality_weight": 0.5},
    ),
    ids=str,
)
def test_networks_of_one_group_may_differ_in_seeds_and_weights(parameters):
    assert make_fit(**parameters).group == make_fit(random_state=0).group


@pytest.mark.parametrize(
    "parameters",
    (
        {"coupling": "none"},
        {"learning_rate": 0.5},
        {"reg": 0.5},
        {"n_projections": 7},
        {"orthogonality_weight": float("inf")},
    ),
    ids=str,
)
def test_all_other_parameters_make_another_group(parameters):
    assert make_fit(**parameters).group != make_fit().group
