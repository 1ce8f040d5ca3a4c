import pytest

import hotview as hv
from hotview import MultiViewClassifier
from hotview.datasets import make_views
from hotview.estimators.network_fit import NetworkFit

DATA = make_views(30, n_views=3, n_columns=4, labeled=0.5, random_state=0)
SMALL = {"hidden": (6,), "encoder_dim": 3, "n_components": 2, "max_epochs": 1, "device": "cpu"}
SMALL |= {"n_estimators": 1}


def make_fit(**parameters):
    model = MultiViewClassifier(**{**SMALL, **parameters})
    (task,) = model._tasks(DATA.linked, DATA.linked_target, unaligned=DATA.views)
    return NetworkFit(task, null=False)


@pytest.mark.parametrize(
    "parameters",
    (
        {"random_state": 3},
        {"coupling": hv.HOTReferenceSpec(weight=0.5)},
        {"coupling": hv.HOTReferenceSpec(orthogonality_weight=0.5)},
    ),
    ids=str,
)
def test_fits_of_one_kind_may_differ_in_seeds_and_weights(parameters):
    assert make_fit(**parameters).kind == make_fit(random_state=0).kind


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
def test_all_else_makes_another_kind(parameters):
    assert make_fit(**parameters).kind != make_fit().kind


def test_tables_that_were_read_are_not_read_again():
    first, second, readings = make_fit(), make_fit(), {}
    second.source = first.source
    first.prepare(readings)
    second.prepare(readings)
    assert len(readings) == 1
    assert first.data.views[0] is second.data.views[0]
