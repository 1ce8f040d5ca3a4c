"""Fits that are killed, and files that do not fit on the disk."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hotview as hv
from fuzz.campaign import Problem
from fuzz.models import DATA, SMALL, check_refusal

__all__ = ["FullDisks", "KilledFits"]


def _fit(kind: str, checkpoint: Path | None) -> Any:
    parameters = {**SMALL, "max_epochs": 6, "checkpoint": checkpoint, "checkpoint_every": 1}
    resume = checkpoint is not None
    if kind == "encoder":
        return hv.MultiViewEncoder(**parameters).fit(DATA.views, resume=resume)
    model = hv.MultiViewClassifier(**parameters, n_estimators=2)
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views, resume=resume)


def _features(path: Path) -> bytes:
    """Return the bits of what a saved model computes; its file also holds times."""
    return b"".join(np.ascontiguousarray(Z).tobytes() for Z in _transform(path).values())


def _transform(path: Path) -> dict[str, Any]:
    model = hv.load(path, device="cpu")
    features = dict(model.transform(DATA.linked))
    if isinstance(model, hv.MultiViewClassifier):
        features["probabilities"] = model.predict_proba(DATA.linked)
    return features


def _fit_in_child(kind: str, checkpoint: Path, path: Path) -> int:
    """Start a process that fits and saves a model; autograd cannot be used before a fork."""
    if (child := os.fork()) > 0:
        return child
    status = 1
    try:
        _fit(kind, checkpoint).save(path)
        status = 0
    finally:
        os._exit(status)


@dataclass(frozen=True)
class KilledFits:
    """Fits killed at any moment: files stay whole, and the resumed fit has the same bits."""

    def prepare(self, folder: Path) -> None:
        """Save models of fits that nobody killed, and take their time."""
        _fit("classifier", None)  # the first fit of a process also imports
        for kind in ("classifier", "encoder"):
            start = time.monotonic()
            _fit(kind, folder / f"{kind}.checkpoint").save(folder / f"{kind}.hotview")
            (folder / f"{kind}.seconds").write_text(str(time.monotonic() - start))
        hv.MultiViewEncoder(**SMALL, max_epochs=1).fit(DATA.views).save(folder / "former.hotview")

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Kill a fit one to three times, then let it end."""
        kind = str(random.choice(["classifier", "encoder"]))
        path, whole = folder / "model.hotview", _features(originals / f"{kind}.hotview")
        shutil.copy(originals / "former.hotview", path)
        former, n_killed = _features(path), 0
        seconds = float((originals / f"{kind}.seconds").read_text())
        for _ in range(random.integers(1, 4)):
            child = _fit_in_child(kind, folder / "fit.checkpoint", path)
            time.sleep(random.uniform(0, seconds))
            os.kill(child, signal.SIGKILL)
            n_killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0
            if _features(path) not in (former, whole):
                raise Problem("a killed process has left another model")
        os.waitpid(_fit_in_child(kind, folder / "fit.checkpoint", path), 0)
        if _features(path) != whole:
            raise Problem(f"after {n_killed} kills the model has other bits")
        return f"killed {n_killed} times"


@dataclass(frozen=True)
class FullDisks:
    """Saving to a full disk: an error that names the file, and the former file as it was."""

    def prepare(self, folder: Path) -> None:
        """Save a model."""
        _fit("encoder", None).save(folder / "model.hotview")

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Save a model, or fit with a checkpoint, where files can only have some bytes."""
        is_model = random.random() < 0.7
        path = folder / ("model.hotview" if is_model else "fit.checkpoint")
        model, former = hv.load(originals / "model.hotview", device="cpu"), b""
        if is_model and random.random() < 0.5:
            shutil.copy(originals / "model.hotview", path)
            former = path.read_bytes()
        size = (originals / "model.hotview").stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(random.integers(size)), limits[1]))
        try:
            if is_model:
                model.save(path)
            else:
                _fit("encoder", path)
            outcome = "written"
        except OSError as error:
            outcome = check_refusal(error, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if outcome == "refused" and former != (path.read_bytes() if path.exists() else b""):
            raise Problem("a failed save has changed the former file")
        if left := [x.name for x in folder.iterdir() if x != path]:
            raise Problem(f"a failed save has left {left}")
        return outcome
