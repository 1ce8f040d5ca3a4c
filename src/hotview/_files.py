"""Output paths, atomic writes and a lock between processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # this system has no such locks, so `file_lock` does not wait
    fcntl = None

__all__ = ["atomic_write", "check_output_path", "file_lock"]


def check_output_path(path: str | Path, suffixes: tuple[str, ...]) -> Path:
    """Check that a file with one of some suffixes can be written to a path.

    Parameters
    ----------
    path : str or Path
        Path of the output file.
    suffixes : tuple of str
        Allowed suffixes, in lower case and with their dot.

    Returns
    -------
    Path
        The path.

    Examples
    --------
    >>> from hotview._files import check_output_path
    >>> check_output_path("plan.txt", (".pdf", ".png"))
    Traceback (most recent call last):
    ValueError: plan.txt must end in .pdf or .png, got '.txt'.
    """
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        *most, last = suffixes
        listed = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{path} must end in {listed}, got {path.suffix or 'nothing'!r}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"the folder {path.parent} cannot be written to; choose another.")
    return path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Write a file completely or not at all.

    The caller writes to a temporary file in the same folder, which replaces `path` when the block
    ends, or is deleted if the block raises.

    Parameters
    ----------
    path : Path
        Path of the output file.

    Yields
    ------
    Path
        The temporary file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview._files import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as draft:
    ...         _ = draft.write_text("complete")
    ...     (Path(folder) / "a.txt").read_text()
    'complete'
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)  # the permissions that open() would have given it
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; wait while another thread or process holds it.

    The operating system releases the lock when its holder ends, however it ends.

    Parameters
    ----------
    path : Path
        Lock file, which is created. Nothing is locked if its folder does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview._files import file_lock
    >>> with tempfile.TemporaryDirectory() as folder, file_lock(Path(folder) / ".lock"):
    ...     pass
    """
    if fcntl is None or not path.parent.is_dir():
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
