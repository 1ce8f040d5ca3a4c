"""A small federation: three organizations' tables and configurations, and what may go wrong."""

import csv
from pathlib import Path

import numpy as np

from hotview.datasets import make_views

NAMES = ("clinical", "genetic", "imaging")
SMALL = {
    "rounds": 3,
    "local_steps": 1,
    "quantiles": 24,
    "batch_size": 24,
    "n_components": 3,
    "encoder_dim": 6,
    "hidden": (8,),
    "n_references": 2,
    "n_projections": 6,
    "linked_batch": 12,
}


def write_tables(folder: Path, n: int = 60, n_linked: int = 24) -> None:
    """Write ``NAME.csv`` and ``NAME.toml``; clinical has labels, and rows come in any order."""
    data = make_views(n, n_views=3, n_columns=[5, 6, 4], n_classes=2, labeled=1.0, random_state=1)
    ids = [f"p{i}" for i in range(n_linked)]
    (folder / "linked.txt").write_text("\n".join(ids) + "\n")
    for s, name in enumerate(NAMES):
        X, random = data.linked[list(data.linked)[s]], np.random.default_rng(s)
        order = random.permutation(n)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            label = ["label"] if name == "clinical" else []
            rows.writerow(["id", *(f"x{j}" for j in range(X.shape[1])), *label])
            for i in order:
                told = [f"class {data.linked_target[i]}"] if label else []
                rows.writerow([f"p{i}", *(repr(float(x)) for x in X[i]), *told])
        text = f'name = "{name}"\nfile = "{name}.csv"\nfolder = "{name}"\n'
        text += 'id_column = "id"\nlinked = "linked.txt"\n'
        text += 'label_column = "label"\n' if name == "clinical" else ""
        (folder / f"{name}.toml").write_text(text)
