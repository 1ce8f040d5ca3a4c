"""Transfer cell types from one modality to another over the few cells that have both.

Run ``python examples/single_cell.py cells.h5mu --label cell_type``, or without a file on synthetic
cells, whose types are known. Needs ``hotview[omics]``.
"""

import argparse
from pathlib import Path

import anndata
import mudata
import numpy as np
import pandas as pd

from hotview import MultiViewClassifier, omics
from hotview.datasets import make_views


def make_cells(n_cells: int) -> mudata.MuData:
    """Return cells of two modalities, a fifth as many in both; types are known for RNA only."""
    data = make_views(
        n_cells, n_views=2, n_groups=1, n_columns=[40, 25], labeled=0.2, random_state=0
    )
    modalities = {}
    for name, view in (("rna", "view_0"), ("atac", "view_1")):
        X = np.concatenate([data.linked[view], data.views[view]])
        n_linked = len(data.linked_target)
        names = [f"both-{i}" if i < n_linked else f"{name}-{i}" for i in range(len(X))]
        truth = np.concatenate([data.linked_target, data.target[view]])
        obs = pd.DataFrame({"truth": [f"type {k}" for k in truth]}, index=names)
        var = pd.DataFrame(index=[f"{name}-feature-{j}" for j in range(X.shape[1])])
        modalities[name] = anndata.AnnData(X, obs=obs, var=var)
    modalities["rna"].obs["cell_type"] = modalities["rna"].obs["truth"]
    with mudata.set_options(pull_on_update=False):  # the default of mudata 0.4
        return mudata.MuData(modalities)


def main() -> None:
    """Fit, annotate, and print the predicted types of every modality."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="an .h5mu file")
    parser.add_argument("--label", default="cell_type", help="column of obs with the types")
    parser.add_argument("--cells", type=int, default=400, help="synthetic cells per modality")
    parser.add_argument("--max-epochs", type=int, default=None)
    options = parser.parse_args()
    mdata = mudata.read_h5mu(options.file) if options.file else make_cells(options.cells)
    model = MultiViewClassifier(max_epochs=options.max_epochs, random_state=0)
    omics.fit(model, mdata, label=options.label)
    omics.annotate(model, mdata)
    for name, adata in mdata.mod.items():
        print(f"{name}: {adata.obs['hotview_class'].value_counts().to_dict()}")
        print(f"{name}: mean confidence {adata.obs['hotview_confidence'].mean():.2f}")
        if "truth" in adata.obs:
            right = adata.obs["hotview_class"].astype(str) == adata.obs["truth"]
            print(f"{name}: {right.mean():.1%} of the types are right")


if __name__ == "__main__":
    main()
