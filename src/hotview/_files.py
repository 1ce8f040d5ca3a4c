"""Files that are written whole or not at all."""

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
except ImportError:  # Windows has no advisory file locks
    fcntl = None

__all__ = ["check_output_path", "lock_folder", "whole_file"]


def check_output_path(path: str | Path, suffixes: tuple[str, ...]) -> Path:
    """Refuse a path that no file of a kind can be saved to.

    Parameters
    ----------
    path : str or Path
        Where the file is to go.
    suffixes : tuple of str
        How its name may end.

    Returns
    -------
    Path
        The same.

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
def whole_file(path: Path) -> Iterator[Path]:
    """Give a draft beside `path` to write to, and move it into place once it is complete.

    Parameters
    ----------
    path : Path
        Where the file is to be.

    Yields
    ------
    Path
        The draft, which vanishes if anything goes wrong.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview._files import whole_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "a.txt") as draft:
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
        draft.chmod(0o666 & ~umask)  # what an ordinary open would have given it
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder, against other processes and threads.

    The lock is released at the end of the block, or when the process ends. A folder that does not
    exist, or a system without file locks, is not locked.

    Parameters
    ----------
    folder : Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview._files import lock_folder
    >>> with tempfile.TemporaryDirectory() as folder, lock_folder(Path(folder)):
    ...     pass
    """
    if fcntl is None or not folder.is_dir():
        yield
        return
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
