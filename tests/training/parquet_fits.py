"""Fits of parquet files in two processes, of which each notes the row groups that it unpacks.

    python parquet_fits.py FOLDER

reads the files in FOLDER, and writes models and notes there, those of every process under its
number.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import hotview as hv
from hotview.datasets import make_views, read_views
from hotview.datasets.readers import parquet
from hotview.training import rows

VIEWS = make_views([600, 1000], n_views=2, random_state=0).views
SMALL = {"hidden": (16,), "encoder_dim": 6, "n_components": 4, "device": "cpu", "batch_size": 64}
GROUP = 100


def write(folder):
    """Write the views, in groups of a hundred rows, of which three are absent."""
    for name, X in VIEWS.items():
        X = X.astype(np.float32)
        X[15:18] = np.nan
        columns = {f"c{j}": pa.array(x, from_pandas=True) for j, x in enumerate(X.T)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=GROUP)


def fit(folder, **settings):
    """An encoder, and the groups of every view that were unpacked, in their order."""
    asked = {name: [] for name in VIEWS}
    read = pq.ParquetFile.iter_batches

    def noted(self, **how):
        n_rows = self.metadata.num_rows
        asked[next(name for name, X in VIEWS.items() if len(X) == n_rows)] += how["row_groups"]
        return read(self, **how)

    parquet._LARGE = rows._SMALL = 0  # everything is large
    pq.ParquetFile.iter_batches = noted
    try:
        views = read_views([folder / f"{name}.parquet" for name in VIEWS], mmap=True)
        model = hv.MultiViewEncoder(max_epochs=2, random_state=5, **SMALL, **settings).fit(views)
    finally:
        pq.ParquetFile.iter_batches = read
        parquet._LARGE, rows._SMALL = 2**28, 2**26
    return model, asked


def main(folder):
    """Fit in two processes."""
    model, asked = fit(folder, devices=2)
    rank = torch.distributed.get_rank()
    model.save(folder / f"model-{rank}.hotview")
    (folder / f"asked-{rank}.json").write_text(json.dumps(asked))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
