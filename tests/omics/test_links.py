from types import SimpleNamespace

import anndata
import numpy as np
import pytest

from hotview import MultiViewEncoder
from hotview.omics import fit
from hotview.omics.links import chance_links

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


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
    assert chance_links(fit(MultiViewEncoder(**small), make_cells(shuffled=False))) == []


def test_few_links_tell_nothing():
    two = np.ones((2, 2))
    found = SimpleNamespace(n_rows=20 * two, p_value=0.5 * two, value=0 * two)
    model = SimpleNamespace(view_similarity_=found, view_names_=["a", "b"])
    assert chance_links(model) == []
    model.view_similarity_ = None
    assert chance_links(model) == []
