"""Configuration files: the TOML file of a client, and a Flower app with its run config."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import hotview
from hotview._codec import require
from hotview._validation import check_positive
from hotview.federated.client import Client
from hotview.federated.client_data import ClientData
from hotview.federated.privacy import Privacy
from hotview.federated.settings import Settings
from hotview.tables.dataset import DatasetFiles, read_dataset

_PATHS, _LISTS = ("file", "folder", "linked"), ("drop", "categorical", "share")
ConfigValue = bool | int | float | str


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
    path, known = Path(path), sorted(field.name for field in fields(ClientConfig))
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        for key, value in values.items():
            require(key in known, f"there is {key!r}, which is none of the keys {known}")
            kind = dict if key == "privacy" else list if key in _LISTS else str
            require(isinstance(value, kind), f"its {key} is {value!r}, which is no {kind.__name__}")
            if key in _PATHS:
                values[key] = path.parent / value
            elif kind is list:
                require(all(isinstance(x, str) for x in value), f"its {key} are {value}, no names")
                values[key] = tuple(value)
        for key in ("name", "file", "folder"):
            require(key in values, f"it lacks {key!r}")
        fits = "linked" not in values or "id_column" in values
        require(fits, "it does not name the column of ids: id_column")
        if "privacy" in values:
            values["privacy"] = Privacy(**values["privacy"])
    except (TypeError, ValueError) as error:
        problem = str(error).rstrip(".")
        raise ValueError(
            f"Expected {path} to configure an organization, but {problem}. Correct it."
        ) from error
    return ClientConfig(**values)


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
    folder : Path, default="coordinator"
        Folder of the checkpoint and the result.
    timeout : float, default=600.0
        Maximum response time of a client, in seconds.
    patience : float, default=600.0
        Maximum time to wait for connections, in seconds.

    Examples
    --------
    >>> from hotview.federated.configuration import RunConfig
    >>> from hotview.federated.settings import Settings
    >>> RunConfig(["clinical", "genetic"], Settings()).timeout
    600.0
    """

    organizations: list[str]
    settings: Settings
    folder: Path = Path("coordinator")
    timeout: float = 600.0
    patience: float = 600.0

    def __post_init__(self) -> None:
        names, holder = self.organizations, self.settings.label_holder
        for name in names:
            fits = re.fullmatch(r"\w[\w.-]*", name) is not None
            expected = "Expected names of letters, digits, '_', '.' and '-', as in files"
            require(fits, f"{expected}, but there is {name!r}.")
        distinct = {name.lower() for name in names}
        problem = f"Expected distinct names of two organizations or more, but got {names}."
        require(len(distinct) == len(names) > 1, problem)
        problem = f"Expected label_holder among {names}, but it is {holder!r}."
        require(holder is None or holder in names, problem)
        check_positive("timeout", self.timeout)
        check_positive("patience", self.patience)

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
    own = {**vars(RunConfig(list(names), settings)), **vars(settings)}
    own["folder"] = str(own["folder"])
    del own["settings"]
    config: dict[str, ConfigValue] = {}
    for name, value in own.items():
        if isinstance(value, list | tuple):
            value = ",".join(map(str, value))
        config[name.replace("_", "-")] = "" if value is None else value
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
    values = {key.replace("-", "_"): value for key, value in config.items()}
    names = _split(values.pop("organizations", ""))
    own = {k: values.pop(k) for k in ("folder", "timeout", "patience") if k in values}
    if "folder" in own:
        own["folder"] = Path(str(own["folder"]))
    for name, value in values.items():
        default = getattr(Settings(), name, value)
        if default is None and value == "":
            values[name] = None
        elif isinstance(default, tuple):
            widths = _split(value)
            problem = f"Expected whole numbers with commas, such as '128,64', but {value!r} came."
            require(all(width.isdecimal() for width in widths), problem)
            values[name] = tuple(map(int, widths))
    return RunConfig(names, Settings.from_json(values), **own)


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
    folder, files = Path(folder), render_app(names, settings or Settings())
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose another folder, or empty it.")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist; make it first.")
    with TemporaryDirectory(dir=folder.parent, prefix=".", ignore_cleanup_errors=True) as draft:
        for name, text in files.items():
            path = Path(draft, "app", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        Path(draft, "app").rename(folder)
    return folder


def render_app(names: Sequence[str], settings: Settings) -> dict[str, str]:
    """Return the files of a Flower app: text by path.

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
