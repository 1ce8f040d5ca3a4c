"""Files of tensors and JSON metadata: safetensors with a checksum, no executable code."""

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

from hotview._files import atomic_write

__all__ = [
    "Archive",
    "FileFormat",
    "naming_memory_errors",
    "read_archive",
    "round_to_float16",
    "write_archive",
]

_KEY = "hotview"  # a single one, because safetensors writes several in any order
_MAX_HEADER = 2**25  # bytes
_FLOAT16_RANGE = 2.0**-7, 2.0**15  # of the largest number: smaller ones lose 2⁻¹⁸ of it at most
_MAX_VALUES = 2**20  # of JSON in a header: one takes 2 bytes in a file, and 100 when it is parsed


@dataclass(frozen=True)
class FileFormat:
    """A file format and its errors.

    Parameters
    ----------
    format : str
        Identifier of the format, stored in the file.
    version : int
        Version of the format that is read and written.
    name : str
        Name of such a file in error messages.
    remedy : str
        Advice if a file cannot be read.
    """

    format: str
    version: int
    name: str
    remedy: str

    def error(self, path: Path, problem: str, remedy: str | None = None) -> ValueError:
        """Return the error for a file that is not a valid file of this format."""
        return ValueError(
            f"Expected {path} to be {self.name} that hotview saved, but {problem}. "
            f"{remedy or self.remedy}"
        )


@dataclass(frozen=True)
class Archive:
    """Content of a file: tensors by name, and JSON metadata."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]


def write_archive(
    path: Path, format: FileFormat, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]
) -> None:
    """Write a file atomically; equal tensors and metadata give equal bytes.

    Parameters
    ----------
    path : Path
        Path of the output file.
    format : FileFormat
        Its format.
    tensors : dict of str to Tensor
        Tensors on any device.
    metadata : dict of str to object
        Values that JSON can represent.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from hotview._archive import FileFormat, read_archive, write_archive
    >>> format = FileFormat("an example", 1, "an example", "Write another.")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.safetensors"
    ...     write_archive(path, format, {"x": torch.ones(2)}, {"author": "anna"})
    ...     read_archive(path, format).metadata["author"]
    'anna'
    """
    # Clones, because safetensors refuses tensors that share memory, as tied weights do.
    layout = torch.contiguous_format
    own = {k: tensors[k].detach().cpu().clone(memory_format=layout) for k in sorted(tensors)}
    stored = {**metadata, "format": format.format, "version": format.version}
    text = _to_json({**stored, "sha256": _digest(own, stored)})
    with atomic_write(path, private=True) as draft:  # rows can be inferred from what it holds
        try:
            save_file(own, draft, {_KEY: text})
        except SafetensorError as error:
            # safetensors hides the errors of the system, such as a full disk.
            if code := re.search(r"\(os error (\d+)\)", str(error)):
                raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
            raise
        if (problem := _header_problem(draft)) is not None:
            raise ValueError(
                f"Expected names, metadata and histories to fit into the header of {path}, but "
                f"{problem}. Shorten the longest."
            )
        with draft.open("rb") as file:  # must be on disk before it replaces another file
            os.fsync(file.fileno())


def read_archive(path: Path, format: FileFormat) -> Archive:
    """Read and verify a file that `write_archive` wrote.

    Parameters
    ----------
    path : Path
        The file.
    format : FileFormat
        Its expected format.

    Returns
    -------
    Archive
        Tensors, in their own memory on the CPU, and metadata.
    """
    with naming_memory_errors(path):
        if (problem := _header_problem(path)) is not None:
            raise format.error(path, f"it cannot be read ({problem})")
        with _format_errors(path, format), safe_open(path, framework="pt") as file:
            text = (file.metadata() or {})[_KEY]
            # Counted again, because escapes in the header can hide them.
            if (n := sum(map(text.count, ",[{"))) > _MAX_VALUES:
                raise ValueError(f"its metadata have up to {n} values, more than {_MAX_VALUES}")
            metadata = json.loads(text)
        _check_version(path, format, metadata)
        with _format_errors(path, format), safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            checksum = metadata.pop("sha256", None)
            is_intact = checksum == _digest(tensors, metadata)
        if not is_intact:
            raise format.error(path, "its checksum is wrong: it was damaged or changed")
        return Archive(tensors, metadata)


def round_to_float16(tensor: Tensor) -> Tensor:
    """Round to numbers that a file holds in half the space, where these are as good.

    Parameters
    ----------
    tensor : Tensor of float32
        Numbers; the largest decides on their scale.

    Returns
    -------
    Tensor of float32
        Numbers that float16 can represent; `tensor` itself if the largest is beyond the range in
        which float16 has a relative precision of 2⁻¹¹.

    Examples
    --------
    >>> import torch
    >>> from hotview._archive import round_to_float16
    >>> round_to_float16(torch.tensor([0.1, 3.0]))
    tensor([0.1000, 3.0000])
    >>> round_to_float16(torch.tensor([0.1, 1e6])) == torch.tensor([0.1, 1e6])
    tensor([True, True])
    """
    largest = float(tensor.detach().abs().max()) if tensor.numel() > 0 else 0.0
    low, high = _FLOAT16_RANGE
    return tensor.half().float() if low <= largest <= high else tensor


@contextmanager
def naming_memory_errors(path: Path) -> Iterator[None]:
    """Add the name of a file to errors about a lack of memory.

    Parameters
    ----------
    path : Path
        The file that is read.
    """
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"{path} needs more memory than there is.") from error


@contextmanager
def _format_errors(path: Path, format: FileFormat) -> Iterator[None]:
    """Turn whatever a damaged file raises into the error of the format."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        problem = f"it cannot be read ({type(error).__name__}: {reason})"
        raise format.error(path, problem) from error


def _header_problem(path: Path) -> str | None:
    """What makes a header expensive to parse, found at the speed of reading it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        n = int.from_bytes(file.read(8), "little")
        if size < 8 or not 0 < n <= size - 8:
            return "it has another format, or is truncated"
        if n > _MAX_HEADER:
            return f"its header has {n} bytes, more than {_MAX_HEADER}"
        header = file.read(n)
    # At least as many as there are values; quotes of the metadata, a text themselves, are escaped.
    n_values = sum(map(header.count, (b",", b"[", b"{", b'"'))) - header.count(rb"\"")
    if n_values > _MAX_VALUES:
        return f"its header has up to {n_values} values, more than {_MAX_VALUES}"
    return None


def _check_version(path: Path, format: FileFormat, metadata: Any) -> None:
    if not isinstance(metadata, dict) or metadata.get("format") != format.format:
        raise format.error(path, "it has another format", f"Give the path of {format.name}.")
    version = metadata.get("version")
    if type(version) is not int or version < 1:
        raise format.error(path, f"its format is {version!r:.100}")
    if version != format.version:
        problem = f"its format is {version}, and this hotview reads format {format.version}"
        raise format.error(path, problem, "Update hotview." if version > format.version else None)


def _to_json(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False)


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(_to_json(metadata).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel() > 0:
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
