import anndata
import numpy as np
import pytest
from scipy import sparse

from hotview import MultiViewClassifier
from hotview.omics import annotate, fit
from hotview.omics.counts import best_entry, holds_counts, known_counts, warn_of_other_values

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


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
    assert known_counts(counted) == {"rna": True, "atac": True}
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
    with pytest.warns(UserWarning, match="'rna' to hold raw counts, as at fit"):
        warn_of_other_values({"rna": True}, {"rna": counted["rna"].layers["lognorm"]})
    assert warn_of_other_values({}, counted) == []
