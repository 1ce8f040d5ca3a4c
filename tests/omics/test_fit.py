import numpy as np
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.model_selection import GridSearch
from hotview.omics import fit, read_cells

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


def test_a_classifier_learns_from_all_cells(model, small, mdata):
    cells = read_cells(mdata, "kind")
    by_hand = MultiViewClassifier(**small).fit(
        {name: np.asarray(adata.to_df()) for name, adata in cells.linked.items()},
        cells.target,
        unaligned={name: np.asarray(adata.to_df()) for name, adata in cells.unaligned.items()},
        unaligned_y=cells.unaligned_target,
    )
    np.testing.assert_allclose(model.history_["loss"], by_hand.history_["loss"], rtol=1e-5)
    assert model.classes_.tolist() == ["B", "T"]
    assert model.trained_on_["linked"] == 40
    assert model.trained_on_["linked_labeled"] == 21


def test_linked_cells_alone(small, cells):
    model = fit(MultiViewClassifier(**small, coupling="lscca"), cells, "kind", paired=True)
    assert model.trained_on_["linked"] == 30
    rna, atac = cells["rna"], cells["atac"]
    same = {"rna": rna[rna.obs_names.isin(atac.obs_names)]}
    same["atac"] = atac[atac.obs_names.isin(rna.obs_names)]
    model = fit(MultiViewClassifier(**small), same, "kind")
    assert (model.trained_on_["linked"], model.trained_on_["unaligned"]) == (30, {})


def test_an_encoder_takes_the_cells_of_every_modality(small, cells):
    cells["prot"].obsm["X_pca"] = cells["prot"].X[:, :3]
    model = fit(MultiViewEncoder(**small), cells, obsm={"prot": "X_pca"})
    assert model.n_features_per_view_ == {"rna": 4, "atac": 5, "prot": 3}
    assert model.trained_on_["linked"] == 40
    assert model.trained_on_["unaligned"] == {"rna": 5, "atac": 5}
    assert model.view_similarity_.n_rows[0, 1] == 30
    paired = fit(MultiViewEncoder(**small, coupling="lscca"), cells, paired=True)
    assert paired.trained_on_["linked"] == 30


@pytest.mark.parametrize(
    ("estimator", "label", "message"),
    (
        (GridSearch(MultiViewClassifier(), {}), None, "label to name the column"),
        (MultiViewClassifier(), None, "label to name the column.*MultiViewEncoder"),
        (MultiViewEncoder(), "kind", "no label, because an encoder.*it is 'kind'"),
    ),
)
def test_labels_are_for_classifiers(estimator, label, message, cells):
    with pytest.raises(ValueError, match=message):
        fit(estimator, cells, label)


def test_cells_that_nobody_shares_cannot_be_linked(small, cells):
    cells["atac"].obs_names = "x" + cells["atac"].obs_names
    first = r".*'cell0' in 'rna', 'xcell\d+' in 'atac'"
    with pytest.raises(ValueError, match=f"cells that all modalities have{first}"):
        fit(MultiViewEncoder(**small), cells, paired=True)
    del cells["prot"]
    with pytest.raises(ValueError, match=f"cells that several modalities have{first}"):
        fit(MultiViewClassifier(**small), cells, "kind")
    assert fit(MultiViewEncoder(**small), cells).n_views_ == 2
