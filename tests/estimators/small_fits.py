"""What most fits of these tests have in common."""

from contextlib import nullcontext
from functools import cache

import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from hotview.estimators.fit import prepare
from hotview.estimators.networks import train_networks
from hotview.estimators.randomness import member_states, seeded
from hotview.estimators.result import apply_network

#: A network that is trained in a moment
SMALL = {
    "hidden": (8,),
    "encoder_dim": 4,
    "n_components": 3,
    "max_epochs": 2,
    "n_estimators": 1,
    "device": "cpu",
    "random_state": 0,
}
UNCOUPLED = {**SMALL, "coupling": "none"}
KINDS = (MultiViewEncoder, MultiViewClassifier)
BOTH = pytest.mark.parametrize("kind", KINDS)
# Networks this small do collapse; test_diagnostics.py tests the warnings about it.
may_collapse = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
not_comparable = pytest.mark.filterwarnings("ignore:Rows of different views may not:UserWarning")
DATA = make_views(30, n_views=3, n_columns=[5, 6, 4], labeled=1.0, random_state=0)
VIEWS, Y = DATA.linked, DATA.linked_target


def small(kind=MultiViewEncoder, **parameters):
    return kind(**{**UNCOUPLED, "batch_size": 16, **parameters})


def fit(model, views=VIEWS, y=Y):
    return model.fit(views, y)  # an encoder does not use y


@cache
def fitted(kind=MultiViewEncoder, **parameters):
    """A fit that is read and not changed."""
    return fit(small(kind, **parameters))


def data_of(model, *views, **arguments):
    """What `fit` would be passed on, and the parameters."""
    p = seeded(model._parameters())
    return model._data(p, *views, **arguments), p


def prepared(model, *views, **arguments):
    """The stages of a fit before its networks are trained."""
    data, p = data_of(model, *views, **arguments)
    return prepare(data, p, member_states(p), 0.0)


def trained(model, *views, **arguments):
    """The stages before, and what is computed with the trained networks."""
    fit = prepared(model, *views, **arguments)
    train_networks([(fit.members, fit.p)], nullcontext(), None)
    how = fit.graphs, fit.p, fit.encoders
    return fit, [apply_network(member, *how, null=False) for member in fit.members]


def results_of(monkeypatch, module, name):
    """What a function of a module returns from now on, call by call."""
    found, function = [], getattr(module, name)

    def look(*arguments, **more):
        found.append(function(*arguments, **more))
        return found[-1]

    monkeypatch.setattr(module, name, look)
    return found
