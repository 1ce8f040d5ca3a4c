"""Output paths, atomic writes and locks between processes."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

__all__ = ["atomic_write", "check_output_path", "file_lock", "output_lock"]

_OLD = 86400.0  # seconds without a change after which a draft is deleted
#: Of file systems without locks, such as some NFS and Lustre.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


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
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written to; choose another, or change its mode.")
    return path


@contextmanager
def atomic_write(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Write a file completely or not at all.

    The caller writes to a temporary file in the same folder, which replaces `path` when the block
    ends, or is deleted if the block raises. What a killed process left is deleted by a later write
    to the same path, a day after its last change.

    Parameters
    ----------
    path : Path
        Path of the output file. If it exists, the new file gets its permissions.
    private : bool, default=False
        Whether a new file can be read by its owner alone.

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
    draft = path.parent / f".{path.stem}-{secrets.token_hex(4)}.draft{path.suffix}"
    _delete_old_drafts(path)
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        is_open = mode is None and not private  # the system subtracts the umask by itself
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        os.close(os.open(draft, flags, 0o666 if is_open else 0o600))
        try:
            yield draft
            if mode is not None:
                draft.chmod(mode)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno is None or str(error.filename or draft) != str(draft):
            raise
        reason = f"{os.strerror(error.errno)}, so that nothing was written"
        raise OSError(error.errno, reason, str(path)) from error


@contextmanager
def output_lock(path: Path) -> Iterator[None]:
    """Reserve an output file; raise an error if another process or thread has reserved it.

    The lock is on a hidden file beside it, which is deleted at the end. The operating system
    releases the lock of a killed process, so that a file that one left behind locks nothing.

    Parameters
    ----------
    path : Path
        Path of the output file. Nothing is locked in a folder that cannot be written to, or whose
        file system has no locks.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview._files import output_lock
    >>> with tempfile.TemporaryDirectory() as folder, output_lock(Path(folder) / "a.hotview"):
    ...     [path.name for path in Path(folder).iterdir()]
    ['.a.hotview.lock']
    """
    from filelock import FileLock, Timeout  # predictions need none

    file = path.parent / f".{path.name}.lock"
    with ExitStack() as stack:
        if os.access(path.parent, os.W_OK):
            try:
                stack.enter_context(FileLock(file, blocking=False))
                stack.callback(_delete, file)  # while it is locked
            except Timeout:
                raise BlockingIOError(
                    f"Expected {path} to be written by one process at a time, but another one is "
                    "working on it. Wait until it ends, or choose another name."
                ) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise OSError(
                        error.errno,
                        f"the lock of an output cannot be opened ({os.strerror(error.errno or 0)});"
                        " if no other process is working, delete it",
                        str(file),
                    ) from error
        yield


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
    from filelock import FileLock

    with FileLock(path) if path.parent.is_dir() else nullcontext():
        yield


def _delete(file: Path) -> None:
    """Delete a file, if the system lets us."""
    with suppress(OSError):
        file.unlink()


def _delete_old_drafts(path: Path) -> None:
    """Delete the drafts of a file that are no longer written to."""
    pattern = f".{glob.escape(path.stem)}-????????.draft{glob.escape(path.suffix)}"
    for draft in path.parent.glob(pattern):
        with suppress(OSError):  # another process has deleted it
            if time.time() - draft.stat().st_mtime > _OLD:
                draft.unlink()
