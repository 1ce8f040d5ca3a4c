"""Specifications of couplings and view regularizers, and of the user's own."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import hotview as hv
from hotview import MultiViewClassifier, losses
from hotview.datasets import make_views
from hotview.losses import Coupling, Terms
from hotview.losses.specifications import (
    COUPLINGS,
    REGULARIZERS,
    as_coupling,
    as_regularizer,
)
from hotview.model_selection import GridSearch

DATA = make_views(60, n_views=3, n_groups=1, labeled=0.5, random_state=0)
SMALL = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2, "random_state": 0}


class MeanMatching(Coupling):
    """Squared distance of the views' means from a learned center."""

    def __init__(self, n_components, scale):
        super().__init__()
        self.center, self.scale = nn.Parameter(torch.ones(n_components)), scale

    def forward(self, Zs, *, generator=None, directions=None):
        assert all(Z.ndim == 2 for Z in Zs)  # ensemble members are trained one by one
        means = torch.stack([Z.mean(0) for Z in Zs])
        return Terms({"means": self.scale * (means - self.center).square().sum()})


class MeanMatchingSpec(hv.CouplingSpec):
    def __init__(self, weight=0.1, *, scale=1.0):
        self.weight = weight
        self.scale = scale

    def build(self, sizes):
        return MeanMatching(sizes.n_components, self.scale)


class Shrinkage(nn.Module):
    """Mean squared features, with a learned factor of every view's loss."""

    def forward(self, network, batch, features):
        return Terms({"shrinkage": sum(F.square().mean() for F in features["rows"])})


class ShrinkageSpec(hv.RegularizerSpec):
    def build(self):
        return Shrinkage()


def own_classifier():
    own = {"coupling": MeanMatchingSpec(), "view_regularizer": ShrinkageSpec(0.2)}
    few = {"n_estimators": 2, "pseudo_labels": False, "device": "cpu"}
    return hv.MultiViewClassifier(**own, **few, **SMALL)


@pytest.fixture(scope="module")
def own_model():
    return own_classifier().fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


@pytest.mark.parametrize(
    ("kind", "regularizer"),
    ((hv.MultiViewClassifier, hv.AutoencoderSpec), (hv.MultiViewEncoder, hv.DiffusionSpec)),
)
def test_a_name_is_the_specification_with_its_defaults(kind, regularizer):
    weight = 0.01 if kind is hv.MultiViewEncoder else 1.0
    given = (regularizer.name, regularizer(), regularizer(weight))
    few = {**SMALL, "max_epochs": 1, "n_estimators": 1}
    models = [kind(view_regularizer=spec, **few) for spec in given]
    losses = [model.fit(DATA.linked, DATA.linked_target).history_["loss"] for model in models]
    assert losses[0] == losses[1] == losses[2]
    assert given[1].weight is None  # fit does not change parameters
    assert models[1].view_regularizer is given[1]


def test_own_losses_are_trained(own_model):
    for history in own_model.histories_:
        assert {"means", "shrinkage"} <= set(history.names)
    assert own_model.plan_.pairwise
    assert own_model.references_ is None
    assert own_model.predict_proba(DATA.linked).shape == (len(DATA.linked_target), 4)


def test_own_specifications_are_cloned_and_searched():
    model = own_classifier().set_params(max_epochs=1, n_estimators=1)
    search = GridSearch(model, {"coupling__scale": [1.0, 2.0]}, cv=2, random_state=0)
    search.fit(DATA.linked, DATA.linked_target)
    assert search.best_estimator_.coupling.scale in (1.0, 2.0)
    assert model.coupling.scale == 1.0


def test_a_model_with_own_losses_is_saved_without_their_code(own_model, tmp_path):
    model = own_model
    path = model.save(tmp_path / "m.hotview")
    with pytest.raises(ValueError, match="Expected coupling to be a MeanMatchingSpec, as at fit"):
        hv.load(path)
    own = {"coupling": MeanMatchingSpec(), "view_regularizer": ShrinkageSpec(0.2)}
    loaded = hv.load(path, device="cpu", **own)
    expected = model.predict_proba(DATA.linked)
    np.testing.assert_array_equal(loaded.predict_proba(DATA.linked), expected)
    assert torch.equal(torch.as_tensor(loaded.plan_.W), torch.as_tensor(model.plan_.W))


def test_settings_that_an_own_coupling_does_not_have_are_those_of_all_others():
    own = MeanMatchingSpec()
    for name in ("weight", "reduction", "reg", "cost_decay", "sinkhorn_max_iter"):
        for built_in in hv.CouplingSpec.built_in.values():
            expected = getattr(built_in(), name)
            assert getattr(hv.CouplingSpec, name) == expected
    assert own.planner.solve(torch.rand(3, 2), pairwise=False).converged


def test_an_error_names_what_was_given_instead_of_a_specification():
    for value, message in (
        (hv.LSCCASpec, r"but it is the class LSCCASpec.*Pass coupling=hotview.LSCCASpec\(\)"),
        (torch.nn.Linear, r"but it is <class 'torch.*Pass coupling=hotview.\w+Spec\(\)"),
    ):
        with pytest.raises(TypeError, match=message):
            hv.CouplingSpec.resolve(value)
    for base in (hv.CouplingSpec, hv.RegularizerSpec):
        with pytest.raises(TypeError, match="abstract"):
            base()


CLASSES = {
    "none": losses.NoCoupling,
    "lscca": losses.LSCCA,
    "dgcca": losses.DGCCA,
    "sw-pairwise": losses.SWPairwise,
    "sw-reference": losses.SWReference,
    "hot-pairwise": losses.HOTPairwise,
    "hot-reference": losses.HOTReference,
}


SETTINGS = {
    "n_references": 4,
    "n_projections": 6,
    "projections": "iid",
    "orthogonality_weight": 0.3,
    "reduction": "sum",
    "reg": 0.7,
    "sinkhorn_max_iter": 12,
}


def specify(name):
    spec = as_coupling(name)
    return spec.set_params(**{k: v for k, v in SETTINGS.items() if k in spec.get_params()})


def build(name, seed=0):
    return specify(name).build(hv.CouplingSizes(3, 2, 9, torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("name", CLASSES)
def test_every_name_makes_its_coupling_and_passes_its_settings_on(name):
    coupling = build(name)
    assert list(COUPLINGS) == list(CLASSES)
    assert type(coupling) is CLASSES[name]
    assert COUPLINGS[name].needs_alignment == coupling.needs_alignment
    expected = {
        "orthogonality_weight": 0.3,
        "reduction": "sum",
        "n_projections": 6,
        "projections": "iid",
        "planner": losses.Planner(0.7, relative=False, max_iter=12),
    }
    found = {key: getattr(coupling, key) for key in expected if key in vars(coupling)}
    assert found == {key: expected[key] for key in found}
    n_settings = {"none": 0, "lscca": 2, "dgcca": 1}
    assert len(found) == n_settings.get(name, 5 if name.startswith("hot") else 4)
    n_references = {"sw-reference": 1, "hot-reference": 4}.get(name)
    if n_references:
        assert coupling.references.shape == (n_references, 9, 2)
        assert torch.equal(coupling.references, build(name).references)
        assert not torch.equal(coupling.references, build(name, seed=1).references)


@pytest.mark.parametrize(("n_views", "expected"), ((1, 1), (3, 1), (4, 2), (5, 2), (6, 3), (12, 3)))
def test_by_default_the_number_of_references_depends_on_that_of_views(n_views, expected):
    sizes = hv.CouplingSizes(n_views, 2, 9, torch.Generator())
    spec = hv.HOTReferenceSpec()
    assert spec.build(sizes).references.shape == (expected, 9, 2)
    assert spec.n_references is None  # what a user gave is not changed
    assert hv.HOTReferenceSpec(n_references=4).build(sizes).references.shape == (4, 9, 2)


@pytest.mark.parametrize("name", (*CLASSES, *REGULARIZERS))
def test_specifications_are_found_by_name_cloned_and_pickled(name):
    specs = [specify(name)] if name in CLASSES else []
    specs += [as_regularizer(name)] if name in REGULARIZERS else []
    for spec in specs:
        assert spec.label == spec.name == name
        for other in (clone(spec), pickle.loads(pickle.dumps(spec))):
            assert other is not spec
            assert other.get_params() == spec.get_params()
            assert repr(other) == repr(spec)


def test_regularizers_say_what_they_need():
    needs = {"autoencoder": "decoders", "manifold": "neighbors", "diffusion": "coordinates"}
    for name in REGULARIZERS:
        spec = as_regularizer(name)
        assert type(spec) is REGULARIZERS[name]
        for other, what in needs.items():
            assert getattr(spec, f"needs_{what}") == (name == other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    ("coupling", "view_regularizer"), list(zip(COUPLINGS, [*REGULARIZERS] * 2, strict=False))
)
def test_a_gpu_learns_what_the_cpu_learns(coupling, view_regularizer):
    data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    unaligned = None if coupling in ("lscca", "dgcca") else data.views
    found = []
    for device in ("cpu", "cuda"):
        model = MultiViewClassifier(
            coupling, view_regularizer, max_epochs=3, device=device, random_state=0
        ).fit(data.linked, data.linked_target, unaligned=unaligned)
        found.append(model.predict_proba(data.linked))
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)
