"""Fits that are killed again and again, and gone on with, until they come to an end.

    python killed_fits.py FOLDER SEED

writes FOLDER/{classifier,encoder}-{whole,killed}.hotview, and prints how often each was killed,
and how often while it wrote a checkpoint. Children are forked, because importing torch takes longer
than these fits.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import hotview as hv
from hotview.datasets import make_views

KILLS = 6
DATA = make_views(120, n_views=3, labeled=0.3, random_state=0)
SMALL = {"hidden": (16,), "encoder_dim": 5, "n_components": 4, "device": "cpu", "random_state": 5}


def fit(kind, checkpoint=None):
    """Fit, going on from a checkpoint where one is named."""
    keeps = {"checkpoint": checkpoint, "checkpoint_every": 2}
    resume = checkpoint is not None
    if kind == "encoder":
        model = hv.MultiViewEncoder(max_epochs=60, batch_size=60, **SMALL, **keeps)
        return model.fit(DATA.views, resume=resume)
    model = hv.MultiViewClassifier(max_epochs=40, batch_size=40, n_estimators=3, **SMALL, **keeps)
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views, resume=resume)


def fit_and_kill(kind, folder, seconds, *, writing):
    """Fit in a child, and kill it after some seconds; return whether that was in time.

    With `writing`, wait for the next moment at which it writes a checkpoint.
    """
    child = os.fork()
    if child == 0:
        fit(kind, folder / f"{kind}.checkpoint").save(folder / f"{kind}-killed.hotview")
        os._exit(0)
    start = time.monotonic()
    drafts = set(folder.glob(f".{kind}-*"))  # left by those who were killed before
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        is_late = time.monotonic() > start + seconds
        if is_late and (not writing or set(folder.glob(f".{kind}-*")) - drafts):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0 if writing else 0.001)
    return False


def main(folder, seed):
    """Fit both estimators, whole and killed."""
    moments, counts = random.Random(seed), {}
    for kind in ("classifier", "encoder"):
        seconds = float("inf")
        for _ in range(3):  # the first one also imports, and others may have to wait
            start = time.monotonic()
            fit(kind).save(folder / f"{kind}-whole.hotview")
            seconds = min(seconds, time.monotonic() - start)
        counts[kind] = {"killed": 0, "writing": 0}
        for i in range(KILLS):
            moment = moments.uniform(0.05, 0.35) * seconds
            if not fit_and_kill(kind, folder, moment, writing=i % 2 == 0):
                break
            counts[kind]["killed"] += 1
            counts[kind]["writing"] += len(list(folder.glob(f".{kind}-*"))) > 0
        for draft in folder.glob(f".{kind}-*"):
            os.utime(draft, (0, 0))  # so old that the next save deletes it
        fit_and_kill(kind, folder, float("inf"), writing=False)
    print(json.dumps(counts))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), int(sys.argv[2]))
