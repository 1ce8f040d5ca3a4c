"""Fits that start the other processes themselves, as a user's script does.

    python shared_fits.py FOLDER [parquet]

writes models and checkpoints into FOLDER, those of every process under its number. Run by one
process, the same functions give what is to be compared with. With a second word it reads the
parquet files in FOLDER, and notes the row groups that every process unpacks.
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
from hotview.preprocessing import rows
from hotview.tables import parquet

LOOSE = make_views([50, 70, 60], n_views=3, random_state=0).views
PEOPLE = make_views(60, n_views=3, labeled=0.5, random_state=1)
SMALL = {"hidden": (16,), "encoder_dim": 6, "n_components": 4, "device": "cpu", "batch_size": 32}
TWO = {"devices": 2}
STORED, GROUP = make_views([600, 1000], n_views=2, random_state=0).views, 100


def fit_encoder(max_epochs, *, resume=False, **settings):
    """An encoder, whose fit may go on from a checkpoint."""
    model = hv.MultiViewEncoder(max_epochs=max_epochs, random_state=5, **SMALL, **settings)
    return model.fit(LOOSE, resume=resume)


def fit_classifier(**settings):
    """The default classifier, with two replicas, on rows without and with labels."""
    settings = {"n_estimators": 2, "max_epochs": 3, "random_state": 5, **SMALL, **settings}
    model = hv.MultiViewClassifier(**settings)
    return model.fit(PEOPLE.linked, PEOPLE.linked_target, unaligned=LOOSE)


def fit_watched(seen, **settings):
    """A classifier that is scored, changed and stopped from outside."""

    def watch(epoch):
        seen.append(epoch.number)
        with torch.no_grad():
            next(iter(epoch.network.parameters())).mul_(0.9)
        epoch.stop = epoch.number == 3

    settings = {"n_estimators": 1, "max_epochs": 5, "patience": 50, **settings}
    return fit_classifier(callbacks=[watch], validation_fraction=0.3, **settings)


def fit_what_differs():
    """What is said of data that every process draws for itself, and where a generator stands."""
    rank = torch.distributed.get_rank()
    drawn = np.random.default_rng(rank)
    unlike = {name: drawn.normal(size=X.shape) for name, X in LOOSE.items()}
    said = {}
    for name, views, max_epochs in (("data", unlike, 1), ("length", LOOSE, 1 + rank)):
        try:
            hv.MultiViewEncoder(max_epochs=max_epochs, **SMALL, **TWO).fit(views)
        except ValueError as error:
            said[name] = str(error)
    random_state = np.random.default_rng(0)
    model = hv.MultiViewEncoder(max_epochs=1, random_state=random_state, **SMALL, **TWO).fit(LOOSE)
    return {
        **said,
        "generator": int(random_state.integers(1000)),
        "loss": model.history_[0]["loss"],
    }


def main(folder):
    """Fit in two processes."""
    rank_of = torch.distributed.get_rank
    fit_classifier(**TWO).save(folder / f"classifier-{rank_of()}.hotview")
    seen = []
    fit_watched(seen, **TWO).save(folder / f"watched-{rank_of()}.hotview")
    began = str(folder / "began-in-two.checkpoint")
    fit_encoder(2, checkpoint=began, **TWO)
    goes_on = str(folder / "began-in-one.checkpoint")
    model = fit_encoder(4, checkpoint=goes_on, resume=True, **TWO)
    model.save(folder / f"resumed-{rank_of()}.hotview")
    free = hv.MultiViewEncoder(max_epochs=1, **SMALL, **TWO).fit(LOOSE)  # of nobody's seed
    free.save(folder / f"free-{rank_of()}.hotview")
    try:
        fit_encoder(1, devices=3)
    except ValueError as error:
        refused = str(error)
    told = {"seen": seen, "refused": refused, "remarks": free.fit_warnings_, **fit_what_differs()}
    (folder / f"told-{rank_of()}.json").write_text(json.dumps(told))


def write_parquet(folder):
    """Write views, in groups of a hundred rows, of which three are absent."""
    for name, X in STORED.items():
        X = X.astype(np.float32)
        X[15:18] = np.nan
        columns = {f"c{j}": pa.array(x, from_pandas=True) for j, x in enumerate(X.T)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=GROUP)


def fit_parquet(folder, **settings):
    """An encoder, and the groups of every view that were unpacked, in their order."""
    asked = {name: [] for name in STORED}
    read = pq.ParquetFile.iter_batches

    def noted(self, **how):
        n_rows = self.metadata.num_rows
        asked[next(name for name, X in STORED.items() if len(X) == n_rows)] += how["row_groups"]
        return read(self, **how)

    parquet._LARGE = rows._SMALL = 0  # everything is large
    pq.ParquetFile.iter_batches = noted
    try:
        views = read_views([folder / f"{name}.parquet" for name in STORED], mmap=True)
        settings = {**SMALL, "batch_size": 64, "max_epochs": 2, "random_state": 5, **settings}
        model = hv.MultiViewEncoder(**settings).fit(views)
    finally:
        pq.ParquetFile.iter_batches = read
        parquet._LARGE, rows._SMALL = 2**28, 2**26
    return model, asked


def main_parquet(folder):
    """Fit parquet files in two processes."""
    model, asked = fit_parquet(folder, **TWO)
    rank = torch.distributed.get_rank()
    model.save(folder / f"model-{rank}.hotview")
    (folder / f"asked-{rank}.json").write_text(json.dumps(asked))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    (main_parquet if "parquet" in sys.argv else main)(Path(sys.argv[1]))
