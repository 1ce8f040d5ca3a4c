"""Fits of cells: what they learn from, warn of and store."""

import anndata
import numpy as np
import pytest
from scipy import sparse

from hotview import MultiViewClassifier, MultiViewEncoder, load
from hotview.model_selection import GridSearch
from hotview.omics import annotate, fit, read_cells
from hotview.omics.fit import best_entry, holds_counts, read_settings, warn_of_other_values

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


def test_an_encoder_takes_the_cells_of_every_modality_and_paired_ones_alone(small, cells):
    lscca = {**small, "coupling": "lscca"}
    assert fit(MultiViewEncoder(**lscca), cells, paired=True).trained_on_["linked"] == 30
    model = fit(MultiViewClassifier(**lscca), cells, "kind", paired=True)
    assert model.trained_on_["linked"] == 30
    cells["prot"].obsm["X_pca"] = cells["prot"].X[:, :3]
    model = fit(MultiViewEncoder(**small), cells, obsm={"prot": "X_pca"})
    assert model.n_features_per_view_ == {"rna": 4, "atac": 5, "prot": 3}
    assert model.trained_on_["linked"] == 40
    assert model.trained_on_["unaligned"] == {"rna": 5, "atac": 5}
    assert model.view_similarity_.n_rows[0, 1] == 30
    rna, atac = cells["rna"], cells["atac"]
    same = {"rna": rna[rna.obs_names.isin(atac.obs_names)]}
    same["atac"] = atac[atac.obs_names.isin(rna.obs_names)]
    model = fit(MultiViewClassifier(**small), same, "kind")
    assert (model.trained_on_["linked"], model.trained_on_["unaligned"]) == (30, {})


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


@pytest.fixture
def counted():
    """Cells of two modalities with raw counts in X and normalized values in a layer."""
    rng, found = np.random.default_rng(0), {}
    for view, width in (("rna", 300), ("atac", 280)):
        rates = rng.gamma(0.3, size=(2, width))
        X = rng.poisson(rates[np.arange(60) % 2]).astype(np.float32)
        found[view] = anndata.AnnData(sparse.csr_matrix(X))
        found[view].obs_names = [f"c{i}" for i in range(60)]
        found[view].layers["lognorm"] = np.log1p(X / X.sum(axis=1, keepdims=True) * 1000)
        found[view].obs["kind"] = np.array(["B", "T"])[np.arange(60) % 2]
        found[view].obsm["X_pca"] = rng.normal(size=(60, 9)) + 3.0 * (np.arange(60) % 2)[:, None]
    return found


def test_counts_are_whole_numbers(counted):
    rna = counted["rna"]
    assert holds_counts(rna)
    assert not holds_counts(rna.layers["lognorm"])
    assert not holds_counts(-rna.X)
    assert not holds_counts(np.zeros((3, 9)))
    assert not holds_counts(np.eye(7))
    assert best_entry(["X_lsi", "X_umap"]) == "X_lsi"


def test_counts_are_said_at_fit_and_reduced_as_counts(small, counted):
    with pytest.warns(UserWarning, match=r"raw counts.*obsm=\{'(rna|atac)': 'X_pca'\}") as told:
        model = fit(MultiViewClassifier(**small), counted, "kind")
    assert any("rna: raw counts, 300 columns reduced to 64" in str(one.message) for one in told)
    assert sum("raw counts" in text for text in model.fit_warnings_) == 2
    assert "square roots of the shares of counts" in model.preprocessing_["rna"]


def test_other_values_than_at_fit_are_warned_of(small, counted):
    model = fit(MultiViewClassifier(**small), counted, "kind", layer="lognorm")
    assert not any("raw counts" in text for text in model.fit_warnings_)
    for adata in counted.values():
        adata.layers["other"] = adata.X
    with pytest.warns(UserWarning, match="'rna' to hold values that are not counts.*raw counts"):
        annotate(model, {"rna": counted["rna"]}, layer="other")
    model.metadata_["omics"]["counts"] = {"rna": True}
    warn_of_other_values(model, counted)  # of atac it is not known
    with pytest.warns(UserWarning, match="'rna' to hold raw counts, as at fit"):
        warn_of_other_values(model, {"rna": counted["rna"].layers["lognorm"]})


def make_cells(shuffled):
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(200, 3))
    cells = {}
    for view in ("rna", "atac"):
        X = shared @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(200, 6))
        order = rng.permutation(200) if shuffled and view == "atac" else np.arange(200)
        cells[view] = anndata.AnnData(X[order].astype(np.float32))
        cells[view].obs_names = [f"barcode{i}" for i in range(200)]
    return cells


def test_colliding_barcodes_are_warned_of(small):
    with pytest.warns(UserWarning, match="'rna' and 'atac' to agree.*barcodes.*collide"):
        model = fit(MultiViewEncoder(**small), make_cells(shuffled=True))
    assert "at random" in model.fit_warnings_[-1]
    model = fit(MultiViewEncoder(**small), make_cells(shuffled=False))
    assert not any("at random" in text for text in model.fit_warnings_)


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
