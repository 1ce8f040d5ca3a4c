"""Whether the correction of batches mixes donors and keeps cell types.

    python benchmarks/batches.py [--out results/bench/batches.json]

Two modalities of 240 simulated cells of two donors, in whom three types have other frequencies; ten
seeds. Coordinates have an offset per donor; of counts, genes have other rates in each. `donor` and
`type` are the shares of the ten nearest neighbors that have a cell's own donor or type, before
the correction and after it, with and without labels; `mixed` is that of the donor if donors
are mixed within types.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from hotview.omics.cells import correct_views, fit_batches

OUT = Path(__file__).parent.parent / "results" / "bench" / "batches.json"
N_CELLS, N_SEEDS, N_NEIGHBORS = 240, 10, 10


def simulate(seed: int) -> dict[str, Any]:
    """Cells with counts in X and coordinates in obsm."""
    random, views = np.random.default_rng(seed), {}
    donor = np.arange(N_CELLS) % 2
    kind = np.where(random.random(N_CELLS) < 0.5, donor, random.integers(0, 3, N_CELLS))
    for view, width in (("rna", 300), ("atac", 320)):
        rates = 2 * random.gamma(0.5, size=(3, width))
        bias = np.exp(0.3 * random.normal(size=(2, width)))
        X = random.poisson(rates[kind] * bias[donor]).astype(np.float32)
        centers, shift = 2 * random.normal(size=(3, 9)), 5 * random.normal(size=9)
        Z = centers[kind] + donor[:, None] * shift + random.normal(size=(N_CELLS, 9))
        views[view] = anndata.AnnData(sparse.csr_matrix(X), obsm={"Z": Z.astype(np.float32)})
        views[view].obs_names = [f"c{i}" for i in range(N_CELLS)]
        views[view].obs["donor"] = np.array(["d1", "d2"])[donor]
        views[view].obs["kind"] = np.array(["B", "T", "NK"])[kind]
    return views


def same_share(Z: Any, groups: Any) -> float:
    """Share of the nearest neighbors of a cell that have its own group."""
    near = NearestNeighbors(n_neighbors=N_NEIGHBORS + 1).fit(Z).kneighbors(Z)[1][:, 1:]
    return float((groups[near] == groups[:, None]).mean())


def measure(seed: int) -> dict[str, dict[str, float]]:
    """Shares of one simulation, by what is corrected."""
    cells, found = simulate(seed), {}
    kind, donor = (cells["rna"].obs[name].to_numpy() for name in ("kind", "donor"))
    own = [(donor[kind == k] == d).mean() for k, d in zip(kind, donor, strict=True)]
    for what in ("coordinates", "counts"):
        views = cells
        if what == "coordinates":
            views = {n: anndata.AnnData(a.obsm["Z"], obs=a.obs) for n, a in cells.items()}
        for label in (None, "kind"):
            offsets = fit_batches(views, cells, "donor", label)
            corrected = correct_views(views, cells, "donor", offsets)
            shares = []
            for name, adata in views.items():
                before = offsets[name].correct(adata.X, ["?"] * N_CELLS, name)
                after = corrected[name].X
                groups = (before, donor), (after, donor), (before, kind), (after, kind)
                shares.append([same_share(Z, g) for Z, g in groups])
            names = ("donor before", "donor after", "type before", "type after")
            means = dict(zip(names, np.mean(shares, axis=0).tolist(), strict=True))
            key = what if label is None else f"{what}, labels"
            found[key] = {**means, "mixed": float(np.mean(own))}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = [measure(seed) for seed in range(N_SEEDS)]
    record = {
        key: {name: round(float(np.mean([run[key][name] for run in runs])), 2) for name in values}
        for key, values in runs[0].items()
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
