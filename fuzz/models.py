"""Model files and checkpoints of fits: damaged, or changed by someone who can redo the checksum."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hotview as hv
from fuzz.campaign import Problem
from fuzz.mutators import mutate_array, mutate_bytes, mutate_json
from hotview._archive import FileFormat, read_archive, write_archive
from hotview.datasets import make_views
from hotview.model.files import _MODEL
from hotview.training.checkpoint import _CHECKPOINT

__all__ = ["Checkpoints", "Models", "check_refusal", "mutate_file"]

DATA = make_views(40, n_views=2, n_columns=[5, 4], labeled=0.6, random_state=0)
SMALL: dict[str, Any] = {
    **{"hidden": (5,), "encoder_dim": 4, "n_components": 3, "batch_size": 20},
    **{"random_state": 0, "device": "cpu"},
}


def mutate_file(
    random: np.random.Generator, path: Path, target: Path, format: FileFormat | None
) -> None:
    """Write a changed copy of a file: bytes or, with a format, content under a valid checksum.

    Parameters
    ----------
    random : Generator
        Source of randomness.
    path, target : Path
        The original and the copy.
    format : FileFormat or None
        Format of an archive whose content is changed; None changes bytes.
    """
    if format is None:
        target.write_bytes(mutate_bytes(random, path.read_bytes()))
        return
    archive = read_archive(path, format)
    metadata, tensors = archive.metadata, archive.tensors
    if random.random() < 0.6 or not tensors:
        metadata = mutate_json(random, metadata)
    else:
        name = sorted(tensors)[random.integers(len(tensors))]
        kind = random.random()
        if kind < 0.1:
            del tensors[name]
        elif kind < 0.2:
            tensors[f"{name}x"] = tensors[name]
        else:
            changed = mutate_array(random, tensors[name].numpy())
            tensors[name] = torch.from_numpy(np.ascontiguousarray(changed))
    write_archive(target, format, tensors, metadata)


def check_refusal(error: BaseException, path: Path) -> str:
    """Return the outcome of a refused file, whose error must name it."""
    if path.name not in str(error):
        raise Problem(f"the error does not name {path.name}: {error!r}") from error
    return "refused"


def check_outputs(model: Any) -> None:
    """Raise an error unless a model gives finite features and proper probabilities."""
    Z = model.transform(DATA.linked)
    if not all(np.isfinite(X).all() for X in Z.values()):
        raise Problem("transform returns what is not finite")
    if isinstance(model, hv.MultiViewClassifier):
        first: dict[str, Any] = {
            name: X if s else None for s, (name, X) in enumerate(DATA.linked.items())
        }
        for rows in (dict[str, Any](DATA.linked), first):
            P = model.predict_proba(rows)
            if not (
                np.isfinite(P).all() and (P >= 0).all() and np.allclose(P.sum(1), 1, atol=1e-4)
            ):
                raise Problem("predict_proba returns what are no probabilities")
            if not np.isin(model.predict(rows), model.classes_).all():
                raise Problem("predict returns what is no class")


@dataclass(frozen=True)
class Models:
    """Model files: `load` refuses them, or they predict."""

    def prepare(self, folder: Path) -> None:
        """Save a classifier of two members, a plain one, and an encoder."""
        classifier = hv.MultiViewClassifier(**SMALL, max_epochs=2, n_estimators=2)
        classifier.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)
        classifier.save(folder / "classifier.hotview")
        hv.MultiViewEncoder(**SMALL, max_epochs=2).fit(DATA.views).save(folder / "encoder.hotview")

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Load a changed file; if that works, predict with it, and save and load it again."""
        path = folder / "changed.hotview"
        original = originals / str(random.choice(["classifier.hotview", "encoder.hotview"]))
        try:
            mutate_file(random, original, path, None if random.random() < 0.3 else _MODEL)
        except (TypeError, ValueError):
            return "not written"
        try:
            model = hv.load(path, device="cpu")
        except ValueError as error:
            return check_refusal(error, path)
        model.save(folder / "again.hotview")
        for one in (model, hv.load(folder / "again.hotview", device="cpu")):
            try:
                check_outputs(one)
            except ValueError as error:
                if not str(error).startswith(("Expected view", "Expected finite outputs")):
                    raise
                return "refused the rows"  # other names or scales of views, or huge weights
        return "accepted"


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of fits: resuming refuses them, or ends in a model that predicts."""

    def prepare(self, folder: Path) -> None:
        """Interrupt the fits of a classifier and an encoder after two epochs."""
        for kind in ("classifier", "encoder"):
            self._fit(kind, folder / f"{kind}.checkpoint", max_epochs=2, resume=False)

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Resume from a changed file."""
        kind = str(random.choice(["classifier", "encoder"]))
        path = folder / f"{kind}.checkpoint"
        original = originals / path.name
        try:
            mutate_file(random, original, path, None if random.random() < 0.2 else _CHECKPOINT)
        except (TypeError, ValueError):
            return "not written"
        shutil.copy(path, folder / "kept")
        try:
            model = self._fit(kind, path, max_epochs=3, resume=True)
        except ValueError as error:
            if path.read_bytes() != (folder / "kept").read_bytes():
                raise Problem("a refused checkpoint was overwritten") from error
            return check_refusal(error, path)
        check_outputs(model)
        return "accepted"

    def _fit(self, kind: str, path: Path, *, max_epochs: int, resume: bool) -> Any:
        parameters = {**SMALL, "max_epochs": max_epochs, "checkpoint": path}
        if kind == "encoder":
            return hv.MultiViewEncoder(**parameters).fit(DATA.views, resume=resume)
        model = hv.MultiViewClassifier(**parameters, n_estimators=2)
        return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views, resume=resume)
