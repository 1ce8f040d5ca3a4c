import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone

import hotview as hv
from hotview import MultiViewClassifier, losses
from hotview.datasets import make_views
from hotview.losses.coupling_specs import COUPLINGS, as_coupling
from hotview.losses.objective import VIEW_REGULARIZERS

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


@pytest.mark.parametrize("name", CLASSES)
def test_specifications_can_be_cloned_and_pickled(name):
    spec = specify(name)
    for other in (clone(spec), pickle.loads(pickle.dumps(spec))):
        assert other is not spec
        assert other.get_params() == spec.get_params()
        assert repr(other) == repr(spec)
    assert spec.label == spec.name == name


@pytest.mark.parametrize("name", CLASSES)
def test_a_specification_has_only_the_settings_of_its_coupling(name):
    expected = {"reduction", "weight", "reg", "sinkhorn_max_iter"}
    expected |= set() if name == "dgcca" else {"orthogonality_weight"}
    expected |= {"n_projections", "projections"} if "-" in name else set()
    expected |= {"cost_decay"} if name.startswith("hot") else set()
    expected |= {"n_references"} if name == "hot-reference" else set()
    assert set(COUPLINGS[name]().get_params()) == ({"reduction"} if name == "none" else expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("view_regularizer", VIEW_REGULARIZERS)
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
