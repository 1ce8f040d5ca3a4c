from types import SimpleNamespace

import numpy as np
import pytest

from hotview import MultiViewClassifier, load
from hotview.omics import annotate, fit
from hotview.omics.settings import (
    describe_choices,
    read_settings,
    save_settings,
    stored_choice,
)

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


def test_the_choice_of_matrices_is_saved_and_used_by_annotate(small, cells, tmp_path):
    cells["atac"].obsm["X_lsi"] = cells["atac"].X.toarray()[:, :3]
    cells["prot"].obsm["X_pca"] = cells["prot"].X[:, :2]
    obsm = {"atac": "X_lsi", "prot": "X_pca"}
    model = fit(MultiViewClassifier(**small), cells, "kind", obsm=obsm, layer={"rna": "counts"})
    assert read_settings(model)["obsm"] == obsm
    model.save(tmp_path / "m.hotview")
    annotate(load(tmp_path / "m.hotview"), cells)  # with the matrices of the fit, not X
    expected = model.transform_view(cells["rna"].layers["counts"], "rna")
    np.testing.assert_array_equal(cells["rna"].obsm["X_hotview"], expected)
    assert cells["atac"].obsm["X_hotview"].shape == (40, 4)
    alone = {"atac": cells["atac"]}  # a modality that the choice names is not here
    annotate(model, alone)
    with pytest.raises(ValueError, match="columns"):
        annotate(model, cells, layer={"rna": "counts"})  # X of atac


def test_choices_of_the_command_line_are_found():
    model = SimpleNamespace(metadata_={"preprocessing": {"text": {"obsm": {"": "a", "rna": "b"}}}})
    assert stored_choice(model, {"rna": 0, "atac": 0}, None, None) == (
        None,
        {"rna": "b", "atac": "a"},
    )
    assert stored_choice(model, {"rna": 0}, "counts", None) == ("counts", None)
    model.metadata_ = {}
    assert stored_choice(model, {"rna": 0}, None, None) == (None, None)
    save_settings(model, label={})
    assert read_settings(model) == {"label": {}}


def test_choices_are_by_modality(cells):
    found = describe_choices(cells, None, "X_pca")
    assert found == {"layer": {}, "obsm": dict.fromkeys(cells, "X_pca")}
