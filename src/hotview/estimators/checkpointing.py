"""Fits that can be stopped and gone on with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hotview._files import check_output_path
from hotview._messages import ParameterError
from hotview._types import Array
from hotview._validation import ViewTable
from hotview.estimators.inputs import FitInputs, Validation
from hotview.estimators.labels import Labels
from hotview.estimators.parameters import encoders_of, pick_device
from hotview.estimators.randomness import entropy_of
from hotview.training.checkpoint import Checkpoint, read_checkpoint
from hotview.training.column_scaler import chunks
from hotview.training.process_group import ProcessGroup, ProcessLostError

__all__ = ["begin_fit", "check_same_fit", "explained_loss", "open_checkpoint"]

#: parameters that may be others when a fit goes on, or are looked at in another way
_FREE = ("max_epochs", "verbose", "callbacks", "checkpoint", "checkpoint_every")
_PLACE = ("devices",)  # where it goes on is free, too
_SPECIAL = ("random_state", "device", "encoders")


def begin_fit(
    parameters: Mapping[str, Any], *, resume: bool, ranks: ProcessGroup
) -> tuple[Checkpoint | None, dict[str, Any]]:
    """The checkpoint of a fit, in the first of its processes, and parameters that all agree on.

    Parameters
    ----------
    parameters : dict of str to object
        The estimator's.
    resume : bool
        Whether to go on.
    ranks : ProcessGroup
        The processes.

    Returns
    -------
    checkpoint : Checkpoint or None
        As of `open_checkpoint`; None in all other processes.
    parameters : dict of str to object
        The same, with the seed where processes or a checkpoint must know it, and the process's own
        device.
    """
    opened: list[Checkpoint | None] = [None]

    def open_it() -> int | None:
        opened[0] = open_checkpoint(parameters, resume=resume)
        if opened[0] is not None:
            seed: int = opened[0].facts["seed"]
            return seed
        return _draw_seed(parameters["random_state"]) if ranks.is_distributed else None

    if not ranks.is_rank_zero:
        entropy_of(parameters["random_state"])  # a generator moves on in all of them
    seed = ranks.on_rank_zero(open_it)
    told: dict[str, Any] = {} if seed is None else {"random_state": seed}
    if ranks.device is not None:
        told["device"] = ranks.device
    return opened[0], {**parameters, **told}


def _draw_seed(random_state: Any) -> int:
    given = entropy_of(random_state)
    return given if given is not None else int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


@contextmanager
def explained_loss(path: Any) -> Iterator[None]:
    """Where a process is lost, say what the checkpoint of the fit holds, if it has one."""
    try:
        yield
    except ProcessLostError as error:
        raise ProcessLostError(
            f"{error} {_what_is_left(path)}", is_reporter=error.is_reporter
        ) from error


def _what_is_left(path: Any) -> str:
    if path is None:
        return "Nothing is left of the fit; set checkpoint='fit.checkpoint' to have something."
    try:
        epoch = read_checkpoint(Path(path)).trainers[-1].facts["epoch"]
    except (OSError, ValueError, LookupError):
        return f"There is no checkpoint yet in {path}: fit again."
    return f"The checkpoint {path} holds epoch {epoch}: fit with resume=True to go on from there."


def open_checkpoint(parameters: Mapping[str, Any], *, resume: bool) -> Checkpoint | None:
    """The checkpoint of a fit: a new one, or, to go on, that of before if there is one.

    Parameters
    ----------
    parameters : dict of str to object
        The estimator's.
    resume : bool
        Whether to go on.

    Returns
    -------
    Checkpoint or None
        Its facts tell the seed; None where no checkpoint is wanted.
    """
    if not isinstance(resume, bool | np.bool_):
        raise TypeError(f"Expected resume to be True or False, but it is {resume!r}.")
    if parameters["checkpoint"] is None:
        if resume:
            raise ValueError(
                "Expected a checkpoint to resume from, but the parameter checkpoint is None. Set "
                "checkpoint='fit.checkpoint', for this fit and for the one that it goes on with."
            )
        return None
    path = check_output_path(Path(parameters["checkpoint"]), (".checkpoint",))
    seed = entropy_of(parameters["random_state"])
    if resume and path.exists():
        found = read_checkpoint(path)
        found.facts["seed"] = _seed(found) if seed is None else seed
        return found
    return Checkpoint(path, {"seed": _draw_seed(seed)})


def _seed(found: Checkpoint) -> int:
    seed = found.facts.get("seed")
    if type(seed) is not int or seed < 0:
        raise ValueError(
            f"Expected {found.path} to tell the seed of its fit, but it tells {seed!r}. Delete it "
            "to begin anew."
        )
    return seed


def check_same_fit(checkpoint: Checkpoint | None, tasks: Sequence[FitInputs]) -> None:
    """Refuse a checkpoint of other data or parameters; let a new one know what it is of.

    Every value of every table counts, and every label; of encoders of one's own, the names and
    shapes of their tensors.

    Parameters
    ----------
    checkpoint : Checkpoint or None
        From `open_checkpoint`.
    tasks : sequence of FitInputs
        What is to be fitted.
    """
    if checkpoint is None:
        return
    now = _fingerprint(tasks)
    then = checkpoint.facts.setdefault("fingerprint", now)
    if then == now:
        return
    known = then if isinstance(then, dict) else {}
    differ = [
        _difference(what, known.get(what), now.get(what))
        for what in {**known, **now}
        if known.get(what) != now.get(what)
    ]
    raise ParameterError(
        f"Expected {checkpoint.path} to be of a fit with the same data and parameters, but these "
        f"differ: {'; '.join(differ)}. ",
        "Pass the same again, or fit with {resume} to begin anew.",
        resume=False,
    )


def _difference(what: str, then: Any, now: Any) -> str:
    if not what.startswith("parameter"):
        return what
    return f"{what} ({str(then)[:80]} then, {str(now)[:80]} now)"


def _fingerprint(tasks: Sequence[FitInputs]) -> dict[str, str]:
    task = tasks[0]
    parameters, source = task.parameters, task.source
    told = {
        f"parameter {name}": repr(value)
        for name, value in parameters.items()
        if name not in (*_FREE, *_PLACE, *_SPECIAL)
    }
    told["parameter random_state"] = repr(parameters["random_state"])
    told["parameter device"] = pick_device(parameters["device"]).type
    told["parameter encoders"] = _describe_encoders(parameters["encoders"], source.names)
    told["names of the views"] = repr(source.names)
    for kind, tables in (("linked", source.linked), ("unaligned", source.unaligned)):
        told |= {f"{kind} rows of view {name!r}": _hash_table(t) for name, t in tables.items()}
    if task.labels is not None:
        told |= _describe_labels(task.labels)
    if task.validation is not None:
        told["validation"] = _hash_validation(task.validation)
    return told


def _describe_encoders(encoders: Any, names: Sequence[str]) -> str:
    return repr(
        [
            None if f is None else [(key, tuple(x.shape)) for key, x in f.state_dict().items()]
            for f in encoders_of(encoders, names)
        ]
    )


def _describe_labels(labels: Labels) -> dict[str, str]:
    own = {f"unaligned_y of view {name!r}": _hash(y) for name, y in labels.unaligned.items()}
    return {"classes": _hash(labels.classes), "y": _hash(labels.linked), **own}


def _hash_validation(validation: Validation) -> str:
    rows = "all" if validation.rows is None else _hash(validation.rows)
    tables = [(name, _hash_table(table)) for name, table in validation.tables.items()]
    return repr((tables, _hash(validation.target), rows))


def _hash_table(table: ViewTable) -> str:
    digest = hashlib.sha256(repr(table.columns).encode())
    for _, X in chunks(table):
        digest.update(X.dtype.str.encode())
        digest.update(np.ascontiguousarray(X).data)
    return f"{table.n_rows} × {table.n_columns}, {digest.hexdigest()}"


def _hash(array: Array) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes())
    return f"{len(array)} {array.dtype.str}, {digest.hexdigest()}"
