"""Write a Flower app for given organizations."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

import hotview
from hotview.federated.configuration import format_run_config
from hotview.federated.settings import Settings

__all__ = ["render_app", "write_app"]


def write_app(folder: str | Path, names: Sequence[str], settings: Settings | None = None) -> Path:
    """Write a Flower app, completely or not at all.

    Parameters
    ----------
    folder : str or Path
        The folder to write; it must be empty or absent.
    names : sequence of str
        Names of the organizations, which are the names of their views.
    settings : Settings or None, default=None
        Settings of the training; None takes the defaults.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated.app_template import write_app
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     app = write_app(Path(folder) / "study", ["clinical", "genetic"])
    ...     sorted(path.name for path in app.iterdir())
    ['README.md', 'federation', 'organizations', 'pyproject.toml']
    """
    folder, settings = Path(folder), settings or Settings()
    _check_names(names, settings)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose another folder, or empty it.")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist; make it first.")
    files = render_app(names, settings)
    draft = folder.parent / f".{folder.name}-{secrets.token_hex(4)}"
    draft.mkdir()
    try:
        for path, text in files.items():
            (draft / path).parent.mkdir(exist_ok=True)
            (draft / path).write_text(text, encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def render_app(names: Sequence[str], settings: Settings) -> dict[str, str]:
    """Return the files of a Flower app.

    Parameters
    ----------
    names : sequence of str
        Names of the organizations.
    settings : Settings
        Settings of the training.

    Returns
    -------
    dict of str to str
        Text by path.

    Examples
    --------
    >>> from hotview.federated import Settings
    >>> from hotview.federated.app_template import render_app
    >>> render_app(["clinical", "genetic"], Settings())["README.md"].splitlines()[0]
    '# A federation of clinical and genetic'
    """
    templates = Environment(
        loader=PackageLoader("hotview.federated"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # TOML and Markdown, from names that were checked
    )
    *most, last = names
    values = {
        "names": names,
        "listed": f"{', '.join(most)} and {last}",
        "config": {key: json.dumps(x) for key, x in format_run_config(names, settings).items()},
        "version": hotview.__version__,
    }
    shared = ("pyproject.toml", "README.md", "federation/client_app.py", "federation/server_app.py")
    files = {path: templates.get_template(f"{path}.jinja").render(values) for path in shared}
    organization = templates.get_template("organization.toml.jinja")
    return {
        **files,
        "federation/__init__.py": "",
        **{f"organizations/{name}.toml": organization.render(name=name) for name in names},
    }


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
        raise ValueError(f"Expected distinct names of organizations, but got {list(names)}.")
    holder = settings.label_holder
    if holder is not None and holder not in names:
        raise ValueError(f"Expected label_holder among {list(names)}, but it is {holder!r}.")
