"""One message at a time: whoever answers has its folder for itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # no file locks on this system: then nobody waits
    fcntl = None

__all__ = ["alone_in"]

_LOCK = ".lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread is at work in a folder, and keep others out.

    Two messages at once would both be answered from where the organization stood before: two
    releases for the price of one.

    Parameters
    ----------
    folder : Path
        Of an organization; where there is none, there is nothing to wait for.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated.alone import alone_in
    >>> with tempfile.TemporaryDirectory() as folder, alone_in(Path(folder)):
    ...     pass
    """
    if fcntl is None or not folder.is_dir():
        yield
        return
    with (folder / _LOCK).open("w") as file:  # whose end, or that of the process, lets go
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
