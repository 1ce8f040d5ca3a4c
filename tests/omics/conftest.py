"""Cells that three modalities have in part, with labels in several places."""

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotview import MultiViewClassifier
from hotview.omics import fit

KINDS = np.array(["B", "T"])


@pytest.fixture(autouse=True)
def new_mudata():
    with mudata.set_options(pull_on_update=False):  # it warns of what it does otherwise
        yield


def make_cells():
    """Rna and atac share 30 of 40 cells, in another order; prot has 35 of them and 5 others."""
    rng = np.random.default_rng(0)
    kind = KINDS[np.arange(50) % 2]
    signal = 3.0 * (kind == "T")[:, None]
    names = np.array([f"cell{i}" for i in range(50)])
    who = {
        "rna": np.arange(40),
        "atac": rng.permutation(np.arange(10, 50)),
        "prot": rng.permutation(np.arange(5, 45)),
    }
    found = {}
    for width, (view, mine) in enumerate(who.items(), 4):
        X = np.round(signal[mine] + rng.normal(size=(40, width)), 2).astype(np.float32)
        found[view] = anndata.AnnData(
            sparse.csr_matrix(X) if view == "atac" else X,
            obs=pd.DataFrame(index=names[mine]),
            var=pd.DataFrame(index=[f"{view}{j}" for j in range(width)]),
        )
    rna = found["rna"]
    rna.obs["kind"] = pd.Categorical(np.where(np.arange(40) % 5 < 3, kind[:40], None))
    found["atac"].obs["kind"] = [kind[i] if i > 44 else None for i in who["atac"]]
    rna.layers["counts"] = 2 * rna.X
    for adata in found.values():
        adata.obsm["X_pca"] = np.ones((40, 3), dtype=np.float32) * np.arange(40)[:, None]
    return found


@pytest.fixture
def cells():
    return make_cells()


@pytest.fixture(scope="session")
def small():
    """Settings with which a fit takes a moment."""
    small = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2}
    return small | {"n_estimators": 1, "random_state": 0, "device": "cpu"}


@pytest.fixture(scope="session")
def model(small):
    """A classifier of the kinds of the cells; no test may change it."""
    return fit(MultiViewClassifier(**small), make_cells(), "kind")


@pytest.fixture
def mdata(cells):
    return mudata.MuData(cells)
