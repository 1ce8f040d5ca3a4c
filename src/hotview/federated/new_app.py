"""A Flower app for given organizations, ready to run."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import hotview
from hotview.federated.app_files import (
    CLIENT,
    SERVER,
    organization_text,
    project_text,
    readme_text,
)
from hotview.federated.run_config import told_run_config
from hotview.federated.settings import Settings

__all__ = ["write_app"]


def write_app(folder: str | Path, names: Sequence[str], settings: Settings | None = None) -> Path:
    """Write a Flower app, all of it or nothing.

    Parameters
    ----------
    folder : str or Path
        Where to; there must be nothing in it.
    names : sequence of str
        The organizations, which are the views.
    settings : Settings or None, default=None
        What they agree on; None takes the defaults.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated.new_app import write_app
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     app = write_app(Path(folder) / "study", ["clinical", "genetic"])
    ...     sorted(path.name for path in app.iterdir())
    ['README.md', 'federation', 'organizations', 'pyproject.toml']
    """
    folder, settings = Path(folder), settings or Settings()
    _check_names(names, settings)
    _check_folder(folder)
    config = told_run_config(names, settings)
    files = {
        "pyproject.toml": project_text(names, config, hotview.__version__),
        "README.md": readme_text(names),
        "federation/__init__.py": "",
        "federation/client_app.py": CLIENT,
        "federation/server_app.py": SERVER,
        **{f"organizations/{name}.toml": organization_text(name) for name in names},
    }
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        for path, text in files.items():
            (draft / path).parent.mkdir(exist_ok=True)
            (draft / path).write_text(text, encoding="utf-8")
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o777 & ~umask)  # what an ordinary mkdir would have given it
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def _check_names(names: Sequence[str], settings: Settings) -> None:
    if len(names) < 2:
        raise ValueError(f"Expected two organizations or more, but there is {list(names)}.")
    for name in names:
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(
                "Expected names of letters, digits, '_', '.' and '-', because files are called "
                f"after them, but there is {name!r}."
            )
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"Expected names that tell organizations apart, but got {list(names)}.")
    holder = settings.label_holder
    if holder is not None and holder not in names:
        raise ValueError(f"Expected label_holder among {list(names)}, but it is {holder!r}.")


def _check_folder(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose another folder, or empty it.")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist; make it first.")
