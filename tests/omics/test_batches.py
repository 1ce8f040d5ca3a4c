import anndata
import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from hotview import MultiViewClassifier, load
from hotview.omics import annotate, fit
from hotview.omics.cells import correct_views, fit_batches

SMALL = {"hidden": (8,), "encoder_dim": 6, "n_components": 4, "max_epochs": 3}
SMALL |= {"n_estimators": 1, "random_state": 0, "device": "cpu"}
KINDS = np.array(["B", "T", "NK"])
pytestmark = [
    pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*raw counts.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:Columns alone tell the class:UserWarning"),
]


def make_cells(n=240, seed=0):
    """Cells of two modalities and two donors, whose types differ in frequency and whose genes
    differ in rate; counts in X, coordinates with an offset in obsm."""
    rng, found = np.random.default_rng(seed), {}
    donor = np.arange(n) % 2
    kind = np.where(rng.random(n) < 0.5, donor, rng.integers(0, 3, n))
    for view, width in (("rna", 300), ("atac", 320)):
        fixed = np.random.default_rng(len(view))
        rates = 2 * fixed.gamma(0.5, size=(3, width))
        bias = np.exp(0.3 * fixed.normal(size=(2, width)))
        X = rng.poisson(rates[kind] * bias[donor]).astype(np.float32)
        centers, shift = 2 * fixed.normal(size=(3, 9)), 5 * fixed.normal(size=9)
        Z = centers[kind] + donor[:, None] * shift + rng.normal(size=(n, 9))
        found[view] = anndata.AnnData(sparse.csr_matrix(X), obsm={"X_pca": Z.astype(np.float32)})
        found[view].obs_names = [f"c{seed}-{i}" for i in range(n)]
        found[view].obs["donor"] = np.array(["d1", "d2"])[donor]
        found[view].obs["kind"] = KINDS[kind]
    return found


def same_share(Z, groups, k=10):
    """Share of a cell's neighbors that have its own group."""
    near = NearestNeighbors(n_neighbors=k + 1).fit(Z).kneighbors(Z, return_distance=False)[:, 1:]
    return float((groups[near] == groups[:, None]).mean())


@pytest.mark.filterwarnings("ignore:Expected batches")
@pytest.mark.parametrize(("obsm", "label"), ((None, None), ("X_pca", "kind"), (None, "kind")))
def test_batches_mix_and_types_stay(obsm, label):
    cells = make_cells()
    views = cells
    if obsm is not None:
        views = {n: anndata.AnnData(a.obsm[obsm], obs=a.obs) for n, a in cells.items()}
    offsets = fit_batches(views, cells, "donor", label)
    corrected = correct_views(views, cells, "donor", offsets)
    for name, adata in cells.items():
        donor, kind = adata.obs["donor"].to_numpy(), adata.obs["kind"].to_numpy()
        before = views[name].X if obsm else offsets[name].correct(adata.X, ["?"] * 240, name)
        after = corrected[name].X
        assert same_share(before, donor) > 0.75
        # With types of other frequencies, about 0.64 of the neighbors within types are of a donor.
        assert same_share(after, donor) < min(0.72, same_share(before, donor) - 0.05)
        assert same_share(after, kind) > 0.95


@pytest.mark.parametrize("obsm", (None, "X_pca"))
def test_new_cells_are_corrected_by_saved_offsets(obsm, tmp_path):
    cells = make_cells()
    model = fit(MultiViewClassifier(**SMALL), cells, "kind", batch_key="donor", obsm=obsm)
    model.save(tmp_path / "m.hotview")
    new, loaded = make_cells(80, seed=1), load(tmp_path / "m.hotview")
    annotate(loaded, new)
    kind = new["rna"].obs["kind"].to_numpy()
    assert (new["rna"].obs["hotview_class"] == kind).mean() > 0.9
    alone = {"atac": new["atac"].copy()}
    annotate(loaded, alone)
    assert (alone["atac"].obs["hotview_class"] == kind).mean() > 0.8
    new["rna"].obs["donor"] = "d9"
    with pytest.warns(UserWarning, match="batches of the fit in view 'rna', but 'd9' are new"):
        annotate(loaded, new)
    del new["rna"].obs["donor"], new["atac"].obs["donor"]
    with pytest.raises(ValueError, match="column 'donor' in obs"):
        annotate(loaded, new)


def test_a_modality_of_one_batch_stays_as_it_is_and_one_without_takes_that_of_another():
    cells = make_cells(60)
    cells["atac"].obs["donor"] = "d1"
    offsets = fit_batches(cells, cells, "donor", "kind")
    assert offsets["atac"] is None
    corrected = correct_views(cells, cells, "donor", offsets)
    assert corrected["atac"] is cells["atac"]
    del cells["atac"].obs["donor"]
    assert fit_batches(cells, cells, "donor", None)["atac"].batches == ["d1", "d2"]


def test_batches_that_are_missing_are_named():
    cells = make_cells(60)
    with pytest.raises(ValueError, match=r"column 'doner' in obs.*Did you mean 'donor'"):
        fit(MultiViewClassifier(**SMALL), cells, "kind", batch_key="doner")
    cells["rna"].obs["donor"] = [None, *cells["rna"].obs["donor"][1:]]
    with pytest.raises(ValueError, match="every cell of 'rna' to have a batch in 'donor', but 1"):
        fit_batches(cells, cells, "donor", None)
