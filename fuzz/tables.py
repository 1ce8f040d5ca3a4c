"""Files of tables in every format that is read: damaged ones."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse

from fuzz.campaign import Problem
from fuzz.models import check_refusal
from fuzz.mutators import mutate_bytes
from hotview._messages import ParameterError
from hotview.datasets import read_views
from hotview.tables.dataset import DatasetFiles, read_dataset

__all__ = ["Tables"]

_N_ROWS = 30


@dataclass(frozen=True)
class Tables:
    """Tables: reading refuses them, or returns numbers in two dimensions, and every row."""

    def prepare(self, folder: Path) -> None:
        """Write the same rows in all formats, and tables with ids, categories and labels."""
        random = np.random.default_rng(0)
        X = random.normal(size=(_N_ROWS, 4))
        text = "".join(f"p{i},{','.join(map(repr, map(float, x)))}\n" for i, x in enumerate(X))
        numbers = "a,b,c,d\n" + "".join(f"{','.join(map(repr, map(float, x)))}\n" for x in X)
        sites = random.choice(["north", "south", "east"], _N_ROWS)
        mixed = "".join(
            f"{line},{sites[i]},{'ill' if i % 3 else 'well'}\n"
            for i, line in enumerate(text.splitlines())
        )
        (folder / "numbers.csv").write_text(numbers)
        (folder / "numbers.tsv").write_text(numbers.replace(",", "\t"))
        (folder / "numbers.csv.gz").write_bytes(gzip.compress(numbers.encode(), mtime=0))
        (folder / "ids.csv").write_text("id,a,b,c,d,site,state\n" + mixed)
        columns: dict[str, Any] = {"id": [f"p{i}" for i in range(_N_ROWS)], "site": list(sites)}
        columns |= {name: X[:, j] for j, name in enumerate("abcd")}
        columns["state"] = ["ill" if i % 3 else "well" for i in range(_N_ROWS)]
        pq.write_table(pa.table(columns), folder / "ids.parquet")
        pq.write_table(
            pa.table({n: X[:, j] for j, n in enumerate("abcd")}), folder / "numbers.parquet"
        )
        np.save(folder / "numbers.npy", X)
        np.savez(folder / "numbers.npz", view_0=X, view_1=X[:, :2].astype(np.float32))
        np.savez_compressed(folder / "compressed.npz", view_0=X)
        self._write_mat(folder, X)
        self._write_h5(folder, X)

    def _write_mat(self, folder: Path, X: np.ndarray[Any, Any]) -> None:
        cell = np.empty((1, 2), dtype=object)
        cell[0, :] = [X, X[:, :2]]
        contents = {"A": X, "B": scipy.sparse.csc_matrix(np.where(X > 0, X, 0)), "X": cell}
        scipy.io.savemat(folder / "cells.mat", contents)
        scipy.io.savemat(folder / "compressed.mat", contents, do_compression=True)
        scipy.io.savemat(folder / "plain.mat", {"A": X, "Y": X.astype(np.float32)})
        scipy.io.savemat(folder / "old.mat", {"A": X}, format="4")
        with h5py.File(folder / "new.mat", "w") as file:
            file["A"] = X.T

    def _write_h5(self, folder: Path, X: np.ndarray[Any, Any]) -> None:
        with pd.option_context("future.infer_string", False):  # which anndata does not write yet
            obs = pd.DataFrame(index=[f"p{i}" for i in range(_N_ROWS)])
            anndata.AnnData(X.astype(np.float32), obs=obs).write_h5ad(folder / "cells.h5ad")
            sparse = scipy.sparse.csr_matrix(np.where(X > 0, X, 0).astype(np.float32))
            anndata.AnnData(sparse, obs=obs).write_h5ad(folder / "sparse.h5ad")

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Read a changed file."""
        names = sorted(path.name for path in originals.iterdir())
        path = folder / names[random.integers(len(names))]
        data = (originals / path.name).read_bytes()
        if path.name.endswith(".gz") and random.random() < 0.5:
            data = gzip.compress(mutate_bytes(random, gzip.decompress(data)), mtime=0)
        else:
            data = mutate_bytes(random, data)
        path.write_bytes(data)
        try:
            if path.name.startswith("ids"):
                files = DatasetFiles([f"v={path}"], id_column="id", label_column="state")
                views: dict[str, Any] = dict(read_dataset(files).rows)
            else:
                views = dict(read_views(path))
        except ParameterError:  # none of the views has the column of labels
            return "refused"
        except (ValueError, OSError, MemoryError) as error:
            return check_refusal(error, path)
        for X in views.values():
            if X.ndim != 2 or X.dtype not in (np.float32, np.float64) or 0 in X.shape:
                raise Problem(f"a view is {X.shape} of {X.dtype}")
        if path.suffix in (".csv", ".tsv"):
            self._check_rows(data, next(iter(views.values())).shape[0])
        return "accepted"

    def _check_rows(self, data: bytes, n_rows: int) -> None:
        """Raise an error if a text table has lost or gained rows."""
        lines = [line for line in data.replace(b"\r", b"\n").split(b"\n") if line.strip()]
        if n_rows != len(lines) - 1:
            raise Problem(f"{len(lines) - 1} lines are read as {n_rows} rows")
