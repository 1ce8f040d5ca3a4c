import dataclasses

import numpy as np
import pytest
import torch

from hotview import MultiViewClassifier, losses
from hotview.datasets import make_views
from hotview.estimators.couplings import COUPLINGS, CouplingSettings, make_coupling
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


def settings(**changes):
    how = {
        "n_components": 2,
        "n_references": 4,
        "n_points": 9,
        "n_projections": 6,
        "projections": "iid",
        "orthogonality_weight": 0.3,
        "reduction": "sum",
        "planner": losses.Planner(0.7, max_iter=12),
        "generator": torch.Generator().manual_seed(0),
    }
    return CouplingSettings(**{**how, **changes})


def test_the_names_are_the_papers_seven():
    assert list(COUPLINGS) == list(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_every_name_makes_its_coupling_and_passes_its_settings_on(name):
    coupling = make_coupling(name, settings())
    assert type(coupling) is CLASSES[name]
    expected = {
        "orthogonality_weight": 0.3,
        "reduction": "sum",
        "n_projections": 6,
        "projections": "iid",
        "planner": losses.Planner(0.7, max_iter=12),
    }
    found = {key: getattr(coupling, key) for key in expected if key in vars(coupling)}
    assert found == {key: expected[key] for key in found}
    n_settings = {"none": 0, "lscca": 2, "dgcca": 1}
    assert len(found) == n_settings.get(name, 5 if name.startswith("hot") else 4)
    n_references = {"sw-reference": 1, "hot-reference": 4}.get(name)
    if n_references:
        assert coupling.references.shape == (n_references, 9, 2)


@pytest.mark.parametrize("name", CLASSES)
def test_which_couplings_need_aligned_rows_and_references(name):
    coupling = make_coupling(name, settings())
    assert coupling.needs_alignment == (name in ("lscca", "dgcca"))
    assert coupling.reference_based == name.endswith("reference")


@pytest.mark.parametrize("name", ("sw-reference", "hot-reference"))
def test_references_are_drawn_from_the_generator(name):
    first, again, other = (
        make_coupling(name, settings(generator=torch.Generator().manual_seed(seed))).references
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings().reduction = "mean"


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
