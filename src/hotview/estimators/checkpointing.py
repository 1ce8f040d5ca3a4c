"""Resumed and distributed fits: seeds, checkpoints, and checks that the inputs are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hotview._files import check_output_path, output_lock
from hotview._messages import ParameterError
from hotview._processes import (
    ProcessLostError,
    all_gather_arrays,
    device_of_rank,
    is_distributed,
    on_rank_zero,
    rank,
    world_size,
)
from hotview._types import Array
from hotview._validation import ViewTable
from hotview.data import Data
from hotview.estimators.randomness import entropy_of, seeded
from hotview.model.parameters import encoders_of, pick_device
from hotview.preprocessing.rows import chunks
from hotview.training.checkpoint import Checkpoint, read_checkpoint

__all__ = [
    "begin_fit",
    "check_same_everywhere",
    "check_same_inputs",
    "explained_loss",
    "explained_overflow",
    "lock_output",
]

#: parameters that may change when a fit is resumed, or are compared in another way
_FREE = ("max_epochs", "verbose", "callbacks", "checkpoint", "checkpoint_every", "devices")
_SPECIAL = ("device", "encoders")
#: parameters that the first process sends to the others, or that only it uses
_FIRST = ("random_state", "device", "verbose", "callbacks", "checkpoint", "encoders")
_N_COMPARED = 64  # rows of every table that are compared between processes


def begin_fit(
    parameters: Mapping[str, Any], *, resume: bool
) -> tuple[Checkpoint | None, dict[str, Any]]:
    """Open the checkpoint of a fit, and make the parameters equal in all its processes.

    Parameters
    ----------
    parameters : dict of str to object
        The estimator's parameters.
    resume : bool
        Whether to resume.

    Returns
    -------
    checkpoint : Checkpoint or None
        A new one, or, to resume, the existing one; None without the parameter `checkpoint`, and in
        all processes but the first.
    parameters : dict of str to object
        The same, with a seed where processes or a checkpoint need it, and the process's own device.
    """
    checkpoint: Checkpoint | None = None
    shares_seed = is_distributed()

    def open_and_seed() -> int | None:
        nonlocal checkpoint
        checkpoint = _open_checkpoint(parameters, resume=resume)
        if checkpoint is not None:
            return int(checkpoint.seed)
        return _draw_seed(parameters["random_state"]) if shares_seed else None

    if rank() > 0:
        entropy_of(parameters["random_state"])  # so that a generator advances in all of them
    seed = on_rank_zero(open_and_seed)
    changes: dict[str, Any] = {} if seed is None else {"random_state": seed}
    if (device := device_of_rank()) is not None:
        changes["device"] = device
    return checkpoint, seeded({**parameters, **changes})


def _draw_seed(random_state: Any) -> int:
    given = entropy_of(random_state)
    return given if given is not None else int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


@contextmanager
def lock_output(path: str | Path | None) -> Iterator[None]:
    """Reserve an output file on rank 0; all ranks raise an error if another fit has reserved it."""
    with ExitStack() as stack:
        if path is not None:
            lock = output_lock(Path(path))
            on_rank_zero(lambda: stack.enter_context(lock))
        yield


@contextmanager
def explained_loss(path: Any) -> Iterator[None]:
    """Add to the error of a lost process what the checkpoint of the fit holds, if it has one."""
    try:
        yield
    except ProcessLostError as error:
        left = "Nothing is left of the fit; set checkpoint='fit.checkpoint' to have something."
        if path is not None:
            try:
                epoch = read_checkpoint(Path(path)).trainers[-1].epoch
                left = f"The checkpoint {path} holds epoch {epoch}: fit with resume=True to go on "
                left += "from there."
            except (OSError, ValueError):
                left = f"There is no checkpoint yet in {path}: fit again."
        raise ProcessLostError(f"{error} {left}", is_reporter=error.is_reporter) from error


@contextmanager
def explained_overflow(checkpoint: Checkpoint | None) -> Iterator[None]:
    """Name the checkpoint that a fit was resumed from, if the fit cannot go on from there."""
    path = checkpoint.path if checkpoint is not None and checkpoint.trainers else None
    try:
        yield
    except (ArithmeticError, RuntimeError, ValueError) as error:
        if path is None or str(path) in str(error):
            raise
        raise ValueError(
            f"Expected the fit to go on from {path}, but it failed: {error} Delete the "
            "file to begin anew."
        ) from error


def _open_checkpoint(parameters: Mapping[str, Any], *, resume: bool) -> Checkpoint | None:
    """The checkpoint of a fit: a new one, or, to resume, the existing one."""
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
    if not (resume and path.exists()):
        return Checkpoint(path, _draw_seed(seed))
    found = read_checkpoint(path)
    return found if seed is None else replace(found, seed=seed)


def check_same_inputs(data: Data, p: Mapping[str, Any], checkpoint: Checkpoint | None) -> None:
    """Raise an error if the inputs differ from those of the checkpoint or of other processes.

    With those of a checkpoint all values of all tables and all labels are compared; of the user's
    own encoders, the names and shapes of their tensors. A new checkpoint records them.

    Parameters
    ----------
    data : Data
        The data of the fit.
    p : dict of str to object
        The parameters.
    checkpoint : Checkpoint or None
        From `begin_fit`.
    """
    if world_size() > 1:
        check_same_everywhere(data, p)
    on_rank_zero(lambda: _check_same_fit(checkpoint, data, p))


def _check_same_fit(checkpoint: Checkpoint | None, data: Data, p: Mapping[str, Any]) -> None:
    """Raise an error if a checkpoint is of other inputs; record those of a new one."""
    if checkpoint is None:
        return
    then, now = checkpoint.fingerprint, _fingerprint(data, p)
    if not checkpoint.trainers:  # it is new
        checkpoint.fingerprint = now
        return
    differ = []
    for name in {**then, **now}:
        before, after = then.get(name), now.get(name)
        if before != after:
            values = f" ({str(before)[:80]} then, {str(after)[:80]} now)"
            differ.append(name + values * name.startswith("parameter"))
    if differ:
        raise ParameterError(
            f"Expected {checkpoint.path} to be of a fit with the same data and parameters, but "
            f"these differ: {'; '.join(differ)}. ",
            "Pass the same again, or fit with {resume} to begin anew.",
            resume=False,
        )


def _fingerprint(data: Data, p: Mapping[str, Any]) -> dict[str, str]:
    """Hashes of everything that a fit is given, by name."""
    fingerprint = _describe(data, p, (*_FREE, *_SPECIAL), _hash_table)
    fingerprint["parameter device"] = pick_device(p["device"]).type
    fingerprint["parameter encoders"] = repr(
        [
            None if f is None else [(key, tuple(x.shape)) for key, x in f.state_dict().items()]
            for f in encoders_of(p["encoders"], data.names)
        ]
    )
    fingerprint["names of the views"] = repr(data.names)
    if data.validation is not None:
        fingerprint["validation"] = repr(_describe(data.validation, {}, (), _hash_table))
    return fingerprint


def _describe(
    data: Data,
    p: Mapping[str, Any],
    skipped: Sequence[str],
    describe_table: Callable[[ViewTable], str],
) -> dict[str, str]:
    """Short descriptions of parameters, tables and labels, by name."""
    description = {
        f"parameter {name}": repr(value) for name, value in p.items() if name not in skipped
    }
    kinds = ("linked", "unaligned") if len(data.links) > 0 else ("unaligned",)
    for name, rows in data.views.items():
        for table, kind in zip(rows.tables, kinds, strict=False):
            description[f"{kind} rows of view {name!r}"] = describe_table(table)
    if data.targets is not None:
        # Their representation, because equal text in two processes has different bytes.
        description["classes"] = repr(data.targets.classes.tolist())
        description["y"] = _hash(data.target)
    if data.groups is not None:
        description["groups"] = _hash(np.asarray(data.groups_of(data.links)))
    for s, name in enumerate(data.names):
        others = data.unlinked(s)
        for what, of_views in (("y", data.codes), ("groups", data.groups or ())):
            for array in of_views[s : s + 1]:
                description[f"unaligned_{what} of view {name!r}"] = _hash(array[others])
    return description


def _hash_table(table: ViewTable) -> str:
    digest = hashlib.sha256(repr(table.columns).encode())
    for _, X in chunks(table):
        digest.update(X.dtype.str.encode())
        digest.update(np.ascontiguousarray(X).data)
    return f"{table.n_rows} × {table.n_columns}, {digest.hexdigest()}"


def _hash(array: Array) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes())
    return f"{len(array)} {array.dtype.str}, {digest.hexdigest()}"


def check_same_everywhere(data: Data, p: Mapping[str, Any]) -> None:
    """Raise an error if tables, labels or parameters differ from those of the first process.

    Of every table some rows are compared, if that is cheap: data drawn without a seed differ in
    all rows.

    Parameters
    ----------
    data : Data
        The data of this process.
    p : dict of str to object
        Its parameters.
    """
    own = _describe(data, p, _FIRST, _describe_sample)
    first = on_rank_zero(lambda: own)
    differ = [name for name in {**first, **own} if first.get(name) != own.get(name)]
    # All processes raise, also those with the same inputs, which would wait for the others.
    text = np.frombuffer(("; ".join(differ) + ".").encode(), dtype=np.uint8).copy()
    others = [received.tobytes().decode()[:-1] for received in all_gather_arrays(text)]
    problems = [f"rank {r} has other {names}" for r, names in enumerate(others) if names]
    if problems:
        raise ValueError(
            "Expected all processes to fit the same, because each of them runs the script and "
            f"reads the data by itself, but {', '.join(problems)} than rank 0. Seed whatever is "
            "drawn before fit, as in numpy.random.default_rng(0) or random_state=0, and let all "
            "read the same files."
        )


def _describe_sample(table: ViewTable) -> str:
    """Size of a table, and a hash of some rows, if single rows are quick to read."""
    n = min(_N_COMPARED, table.n_rows)
    if table.is_lazy:  # a file of which every process reads its own part only
        rows = np.empty((0, table.n_columns))
    elif not table.is_array:
        rows = table.rows(slice(0, n))
    else:
        rows = table.rows(np.linspace(0, table.n_rows - 1, n).astype(np.int64))
    return f"{table.n_rows} × {table.n_columns}, {_hash(rows)}"
