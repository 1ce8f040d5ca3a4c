"""Configuration files: the TOML file of a client, and a Flower app with its run config."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import hotview
from hotview._validation import check_positive
from hotview.federated.client import Client
from hotview.federated.client_data import ClientData
from hotview.federated.privacy import Privacy
from hotview.federated.settings import Settings
from hotview.ingest.dataset import DatasetFiles, read_dataset

__all__ = [
    "ClientConfig",
    "RunConfig",
    "format_run_config",
    "open_client",
    "read_client_config",
    "read_run_config",
    "render_app",
    "write_app",
]

_TYPES: dict[str, type] = {
    **dict.fromkeys(("name", "file", "folder", "id_column", "linked", "label_column"), str),
    **dict.fromkeys(("drop", "categorical", "share"), list),
    **dict.fromkeys(("impute", "device"), str),
    "privacy": dict,
}
_REQUIRED = ("name", "file", "folder")

ConfigValue = bool | int | float | str
_SERVER_DEFAULTS: dict[str, ConfigValue] = {
    "folder": "coordinator",
    "timeout": 600.0,
    "patience": 600.0,
}


@dataclass(frozen=True)
class ClientConfig:
    """Configuration of a client.

    Parameters
    ----------
    name : str
        Name of the organization, which is also the name of its view.
    file : Path
        Its table.
    folder : Path
        Folder of its state and its partial model.
    id_column : str or None, default=None
        Column that identifies a row.
    linked : Path or None, default=None
        Text file of the ids that all organizations have in common, one per line, in the same
        order everywhere.
    label_column : str or None, default=None
        Column of labels.
    drop, categorical : tuple of str, default=()
        Columns to leave out, and numeric columns that are categories.
    impute : {None, "mean", "median", "mean+indicator", "median+indicator"}, default=None
        Imputation of missing cells.
    device : str, default="auto"
        Device of the training.
    privacy : Privacy or None, default=None
        Differential privacy of the projections.
    share : tuple of {"features", "labels"}, default=()
        Data of linked rows that the client consents to send.
    """

    name: str
    file: Path
    folder: Path
    id_column: str | None = None
    linked: Path | None = None
    label_column: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    impute: str | None = None
    device: str = "auto"
    privacy: Privacy | None = None
    share: tuple[str, ...] = ()


def read_client_config(path: str | Path) -> ClientConfig:
    r"""Read the configuration of a client; paths in it are relative to the file.

    Parameters
    ----------
    path : str or Path
        A TOML file.

    Returns
    -------
    ClientConfig
        The validated configuration.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated.configuration import read_client_config
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clinical.toml"
    ...     _ = path.write_text('name = "clinical"\nfile = "c.csv"\nfolder = "out"')
    ...     read_client_config(path).file.name
    'c.csv'
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"Expected {path} to be TOML, but {error}.") from error
    _check_config(path, values)
    for key, value in values.items():
        if isinstance(value, list):
            values[key] = tuple(value)
        elif key in ("file", "folder", "linked"):
            values[key] = path.parent / value
    if "privacy" in values:
        try:
            values["privacy"] = Privacy(**values["privacy"])
        except TypeError as error:
            raise ValueError(
                f"Expected epsilon, delta, clip and seed under [privacy] in {path}, but {error}."
            ) from error
    return ClientConfig(**values)


def _check_config(path: Path, values: Mapping[str, Any]) -> None:
    if unknown := sorted(set(values) - set(_TYPES)):
        raise ValueError(
            f"Expected the keys {sorted(_TYPES)} in {path}, but there is {unknown[0]!r}. Correct "
            "it."
        )
    if missing := [key for key in _REQUIRED if key not in values]:
        raise ValueError(f"Expected {path} to have {missing[0]!r}, but it does not. Add it.")
    for key, value in values.items():
        if not isinstance(value, kind := _TYPES[key]):
            raise ValueError(f"Expected {key} in {path} to be a {kind.__name__}, not {value!r}.")
    for key in ("drop", "categorical"):
        if wrong := [name for name in values.get(key, ()) if not isinstance(name, str)]:
            raise ValueError(
                f"Expected {key} in {path} to list names of columns, but there is {wrong[0]!r}."
            )
    if "linked" in values and "id_column" not in values:
        raise ValueError(f"Expected {path} to name the column of ids: id_column.")


def open_client(path: str | Path, shares: Collection[str] = ()) -> Client:
    """Read the configuration and the table of a client.

    Parameters
    ----------
    path : str or Path
        As in `read_client_config`.
    shares : collection of {"features", "labels"}, default=()
        Data of linked rows that the client consents to send, in addition to its configuration.

    Returns
    -------
    Client
        The client; its folder may hold the state of a training.
    """
    config = read_client_config(path)
    dataset = read_dataset(
        DatasetFiles(
            [f"{config.name}={config.file}"],
            label_column=config.label_column,
            id_column=config.id_column,
            drop=config.drop,
            categorical=config.categorical,
        )
    )
    linked: list[str] = []
    if config.linked is not None:
        lines = config.linked.read_text(encoding="utf-8-sig").splitlines()  # editors write a BOM
        linked = [line.strip() for line in lines if line.strip()]
    labels = dataset.unaligned_target.get(config.name)
    data = ClientData.from_table(
        config.name,
        dataset.with_columns(dataset.rows)[config.name],
        ids=None if config.id_column is None else dataset.unaligned_ids[config.name].tolist(),
        linked_ids=linked,
        labels=None if labels is None else labels.tolist(),
        impute=config.impute,
        preprocessing=dataset.preprocessing.to_json(),
    )
    return Client(
        data,
        config.folder,
        privacy=config.privacy,
        device=config.device,
        shares={*config.share, *shares},
    )


@dataclass(frozen=True)
class RunConfig:
    """Configuration of a ServerApp.

    Parameters
    ----------
    organizations : list of str
        Names of the clients.
    settings : Settings
        Settings of the training.
    folder : Path
        Folder of the checkpoint and the result.
    timeout : float
        Maximum response time of a client, in seconds.
    patience : float
        Maximum time to wait for connections, in seconds.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hotview.federated.configuration import RunConfig
    >>> from hotview.federated.settings import Settings
    >>> RunConfig(["clinical", "genetic"], Settings(), Path("out"), 600.0, 60.0).timeout
    600.0
    """

    organizations: list[str]
    settings: Settings
    folder: Path
    timeout: float
    patience: float

    @property
    def checkpoint(self) -> Path:
        """File from which the training is resumed."""
        return self.folder / "checkpoint.federated"

    @property
    def outcome(self) -> Path:
        """File of the result."""
        return self.folder / "outcome.json"


def format_run_config(names: Sequence[str], settings: Settings) -> dict[str, ConfigValue]:
    """Return a run config with default folder and times, as ``[tool.flwr.app.config]`` holds it.

    Parameters
    ----------
    names : sequence of str
        Names of the clients.
    settings : Settings
        Settings of the training.

    Returns
    -------
    dict of str to (bool, int, float or str)
        Values by hyphenated name; lists are joined by commas, and None is an empty string.

    Examples
    --------
    >>> from hotview.federated.configuration import format_run_config
    >>> from hotview.federated.settings import Settings
    >>> config = format_run_config(["clinical", "genetic"], Settings(hidden=(64, 32)))
    >>> config["organizations"], config["local-steps"], config["hidden"], config["label-holder"]
    ('clinical,genetic', 20, '64,32', '')
    """
    config: dict[str, ConfigValue] = {"organizations": ",".join(names), **_SERVER_DEFAULTS}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, tuple):
            value = ",".join(map(str, value))
        config[field.name.replace("_", "-")] = "" if value is None else value
    return config


def read_run_config(config: Mapping[str, Any]) -> RunConfig:
    """Validate a run config.

    Parameters
    ----------
    config : dict of str to (bool, int, float or str)
        The output of `format_run_config`; missing values have their defaults.

    Returns
    -------
    RunConfig
        The validated configuration.

    Examples
    --------
    >>> from hotview.federated.configuration import read_run_config
    >>> config = read_run_config({"organizations": "clinical,genetic", "rounds": 3})
    >>> config.organizations, config.settings.rounds, config.settings.hidden
    (['clinical', 'genetic'], 3, (128,))
    """
    values: dict[str, Any] = {**_SERVER_DEFAULTS, **config}
    names = _split(values.pop("organizations", ""))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            "Expected organizations to name two or more, each once, such as 'clinical,genetic', "
            f"but it is {config.get('organizations', '')!r}."
        )
    return RunConfig(
        names,
        folder=Path(str(values.pop("folder"))),
        timeout=check_positive("timeout", values.pop("timeout")),
        patience=check_positive("patience", values.pop("patience")),
        settings=Settings.from_json(
            {(name := key.replace("-", "_")): _parse(name, value) for key, value in values.items()}
        ),
    )


def _parse(name: str, value: Any) -> Any:
    """Return the value of a setting from its value in a run config."""
    default = getattr(Settings(), name, value)
    if default is None and value == "":
        return None
    if isinstance(default, tuple):
        try:
            return tuple(int(width) for width in _split(value))
        except ValueError:
            raise ValueError(
                f"Expected whole numbers with commas, such as '128,64', but {value!r} came."
            ) from None
    return value


def _split(text: Any) -> list[str]:
    return [word.strip() for word in str(text).split(",") if word.strip()]


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
    >>> from hotview.federated.configuration import write_app
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     app = write_app(Path(folder) / "study", ["clinical", "genetic"])
    ...     sorted(path.name for path in app.iterdir())
    ['README.md', 'federation', 'organizations', 'pyproject.toml']
    """
    folder, settings = Path(folder), settings or Settings()
    _check_organizations(names, settings)
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
    >>> from hotview.federated.configuration import render_app
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


def _check_organizations(names: Sequence[str], settings: Settings) -> None:
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
