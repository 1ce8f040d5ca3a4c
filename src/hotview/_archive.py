"""Tensors and what is to be said about them in one file: safetensors with JSON inside; no code."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hotview._files import whole_file

__all__ = ["Archive", "Kind", "read_archive", "write_archive"]

_KEY = "hotview"  # a single one, because safetensors writes several in any order
_MOST = 2**25  # bytes of a header; JSON needs many times as much once it is read


@dataclass(frozen=True)
class Kind:
    """What a file is for.

    Parameters
    ----------
    format : str
        What the file calls itself.
    version : int
        The version of the format that is read and written.
    name : str
        What people call it, for errors.
    remedy : str
        What to do about one that cannot be read.
    """

    format: str
    version: int
    name: str
    remedy: str

    def refuse(self, path: Path, problem: str, remedy: str | None = None) -> ValueError:
        """The error about a file that is not what it should be."""
        return ValueError(
            f"Expected {path} to be {self.name} that hotview saved, but {problem}. "
            f"{remedy or self.remedy}"
        )


@dataclass(frozen=True)
class Archive:
    """What a file holds: tensors by name, and facts, which JSON can hold."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def write_archive(
    path: Path, kind: Kind, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """Write a file, whole or not at all; the same tensors and facts give the same bytes.

    Parameters
    ----------
    path : Path
        Where to.
    kind : Kind
        What it is.
    tensors : dict of str to Tensor
        On any device.
    facts : dict of str to object
        What JSON can hold.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from hotview._archive import Kind, read_archive, write_archive
    >>> kind = Kind("an example", 1, "an example", "Make another.")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.safetensors"
    ...     write_archive(path, kind, {"x": torch.ones(2)}, {"why": "so"})
    ...     read_archive(path, kind).facts["why"]
    'so'
    """
    # Clones, because safetensors refuses tensors that share memory, as tied weights do.
    own = {name: tensors[name].detach().cpu().contiguous().clone() for name in sorted(tensors)}
    told = {**facts, "format": kind.format, "version": kind.version}
    text = _as_text({**told, "sha256": _digest(own, told)})
    if (n := len(text.encode()) + sum(len(name) + 200 for name in own)) > _MOST:
        raise ValueError(
            f"Expected names, notes and histories to take no more than {_MOST} bytes of a file, "
            f"but they take {n}. Shorten what takes most."
        )
    with whole_file(path) as draft, _system_errors():
        save_file(own, draft, {_KEY: text})
        with draft.open("rb") as written:  # what takes the place of another file must be there
            os.fsync(written.fileno())


@contextmanager
def _system_errors() -> Iterator[None]:
    """Raise what the system refuses, such as a full disk, as Python does."""
    try:
        yield
    except SafetensorError as error:
        if found := re.search(r"\(os error (\d+)\)", str(error)):
            number = int(found[1])
            raise OSError(number, os.strerror(number)) from error
        raise


def read_archive(path: Path, kind: Kind) -> Archive:
    """Read a file that `write_archive` wrote, after checking that it is one.

    Parameters
    ----------
    path : Path
        The file.
    kind : Kind
        What it must be.

    Returns
    -------
    Archive
        Its tensors, in memory of their own on the CPU, and facts.
    """
    _check_header(path, kind)
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})[_KEY])
            _check_facts(path, kind, facts)
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        told = facts.pop("sha256", None)
        found = _digest(tensors, facts)
    except _RefusedError as refused:
        raise refused.error from None
    except Exception as error:
        raise kind.refuse(path, f"it cannot be read ({_in_short(error)})") from error
    if told != found:
        raise kind.refuse(path, "its checksum is wrong: it was damaged or changed")
    return Archive(tensors, facts)


class _RefusedError(Exception):
    def __init__(self, error: ValueError) -> None:
        self.error = error


def _check_header(path: Path, kind: Kind) -> None:
    """Refuse a header that would take much memory, before anything reads it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        n = int.from_bytes(file.read(8), "little")
    if size < 8 or not 0 < n <= size - 8:
        raise kind.refuse(path, "it cannot be read (it is something else, or cut off)")
    if n > _MOST:
        raise kind.refuse(path, f"it cannot be read (its header has {n} bytes, more than {_MOST})")


def _check_facts(path: Path, kind: Kind, facts: Any) -> None:
    if not isinstance(facts, dict) or facts.get("format") != kind.format:
        raise _RefusedError(
            kind.refuse(path, "it is something else", f"Give the path of {kind.name}.")
        )
    version = facts.get("version")
    if type(version) is not int or version < 1:
        raise _RefusedError(kind.refuse(path, f"its format is {version!r}"))
    if version != kind.version:
        problem = f"its format is {version}, and this hotview reads format {kind.version}"
        newer = "Update hotview." if version > kind.version else None
        raise _RefusedError(kind.refuse(path, problem, newer))


def _as_text(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True, ensure_ascii=False)


def _digest(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(_as_text(facts).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel() > 0:
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _in_short(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
