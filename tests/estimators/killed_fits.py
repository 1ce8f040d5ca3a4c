"""Fits that are killed again and again, and gone on with, until they come to an end.

    python killed_fits.py FOLDER

writes FOLDER/{classifier,encoder}-{whole,killed}.hotview, and prints how many drafts of checkpoints
those left who were killed while they wrote one. Children are forked, because importing torch takes
longer than these fits.
"""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import hotview as hv
from hotview.datasets import make_views

EPOCHS = (5, 12, 23)  # after which a child is killed; another, while it writes the next checkpoint
DATA = make_views(120, n_views=3, labeled=0.3, random_state=0)
SMALL = {"hidden": (16,), "encoder_dim": 5, "n_components": 4, "device": "cpu", "random_state": 5}


def fit(kind, checkpoint=None, callbacks=None):
    """Fit, going on from a checkpoint where one is named."""
    keeps = {"checkpoint": checkpoint, "checkpoint_every": 2, "callbacks": callbacks}
    resume = checkpoint is not None
    if kind == "encoder":
        model = hv.MultiViewEncoder(max_epochs=40, batch_size=60, **SMALL, **keeps)
        return model.fit(DATA.views, resume=resume)
    model = hv.MultiViewClassifier(max_epochs=30, batch_size=40, n_estimators=3, **SMALL, **keeps)
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views, resume=resume)


def kill(*_):
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def fit_and_die(kind, checkpoint, epoch=None):
    """Fit in a child that is killed after an epoch, or before a draft becomes its checkpoint."""
    child = os.fork()
    if child == 0:
        if epoch is None:
            Path.replace = kill
        fit(kind, checkpoint, [lambda told: kill() if told.number == epoch else None])
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def main(folder):
    """Fit both estimators, whole and killed."""
    drafts = {}
    for kind in ("classifier", "encoder"):
        checkpoint = folder / f"{kind}.checkpoint"
        fit(kind).save(folder / f"{kind}-whole.hotview")
        for epoch in EPOCHS:
            fit_and_die(kind, checkpoint, epoch)
            fit_and_die(kind, checkpoint)
        left = list(folder.glob(f".{kind}-*"))
        drafts[kind] = len(left)
        for draft in left:
            os.utime(draft, (0, 0))  # so old that the next save deletes it
        fit(kind, checkpoint).save(folder / f"{kind}-killed.hotview")
    print(json.dumps(drafts))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
