"""The file in which an organization says what it has, and how it takes part."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from hotview.federated.client_data import hold
from hotview.federated.client import Organization
from hotview.federated.privacy import Privacy
from hotview.ingest.dataset import Files, read_study
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hotview._validation import check_positive
from hotview.federated.settings import Settings

__all__ = ["Configuration", "RunConfig", "open_organization", "read_configuration", "read_linked", "read_run_config", "told_run_config"]

_KEYS: dict[str, type] = {
    "name": str,
    "file": str,
    "folder": str,
    "id_column": str,
    "linked": str,
    "label_column": str,
    "drop": list,
    "categorical": list,
    "impute": str,
    "device": str,
    "share": list,
    "privacy": dict,
}
_NEEDED = ("name", "file", "folder")


@dataclass(frozen=True)
class Configuration:
    """What the file says.

    Parameters
    ----------
    name : str
        Of the organization, which is that of its view.
    file : Path
        Its table.
    folder : Path
        Where its state and its part of the model are kept.
    id_column : str or None, default=None
        Column of ids.
    linked : Path or None, default=None
        The ids that all organizations agreed on, one a line, in the same order everywhere.
    label_column : str or None, default=None
        Column of labels, if it has any.
    drop, categorical : tuple of str, default=()
        Columns to leave out, and columns of numbers that are categories.
    impute : {None, "mean"}, default=None
        What to do with missing cells.
    device : str, default="auto"
        Where to compute.
    privacy : Privacy or None, default=None
        How projections are made private.
    share : tuple of {"features", "labels"}, default=()
        What it is willing to send of linked people.
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


def read_configuration(path: str | Path) -> Configuration:
    r"""Read the file of an organization; paths in it are relative to it.

    Parameters
    ----------
    path : str or Path
        A TOML file.

    Returns
    -------
    Configuration
        What it says.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated.configuration import read_configuration
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clinical.toml"
    ...     _ = path.write_text('name = "clinical"\nfile = "c.csv"\nfolder = "out"')
    ...     read_configuration(path).file.name
    'c.csv'
    """
    path = Path(path)
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"Expected {path} to be TOML, but {error}.") from error
    _check(path, told)
    here = path.parent
    privacy = told.get("privacy")
    linked = told.get("linked")
    return Configuration(
        told["name"],
        here / told["file"],
        here / told["folder"],
        told.get("id_column"),
        None if linked is None else here / linked,
        told.get("label_column"),
        tuple(told.get("drop", ())),
        tuple(told.get("categorical", ())),
        told.get("impute"),
        told.get("device", "auto"),
        None if privacy is None else _privacy(path, privacy),
        tuple(told.get("share", ())),
    )


def _check(path: Path, told: Mapping[str, Any]) -> None:
    if unknown := sorted(set(told) - set(_KEYS)):
        raise ValueError(
            f"Expected the keys {sorted(_KEYS)} in {path}, but there is {unknown[0]!r}. Mend it."
        )
    if missing := [key for key in _NEEDED if key not in told]:
        raise ValueError(f"Expected {path} to say {missing[0]!r}, but it does not. Add it.")
    for key, value in told.items():
        if not isinstance(value, kind := _KEYS[key]):
            raise ValueError(f"Expected {key} in {path} to be a {kind.__name__}, not {value!r}.")
    for key in ("drop", "categorical"):
        if strange := [name for name in told.get(key, ()) if not isinstance(name, str)]:
            raise ValueError(
                f"Expected {key} in {path} to list names of columns, but there is {strange[0]!r}."
            )
    if "linked" in told and "id_column" not in told:
        raise ValueError(f"Expected {path} to say which column holds ids: id_column.")


def _privacy(path: Path, told: Mapping[str, Any]) -> Privacy:
    try:
        return Privacy(**told)
    except TypeError as error:
        raise ValueError(
            f"Expected epsilon, delta, clip and seed under [privacy] in {path}, but {error}."
        ) from error


def read_linked(path: Path) -> list[str]:
    """The ids that organizations agreed on.

    Parameters
    ----------
    path : Path
        A text file with an id a line.

    Returns
    -------
    list of str
        In the order of the file.
    """
    lines = path.read_text(encoding="utf-8-sig").splitlines()  # some editors write a mark first
    return [line.strip() for line in lines if line.strip()]


def open_organization(path: str | Path, shares: Collection[str] = ()) -> Organization:
    """Read an organization's table, and let it answer.

    Parameters
    ----------
    path : str or Path
        As of `read_configuration`.
    shares : collection of {"features", "labels"}, default=()
        What it is willing to send beside what its configuration says.

    Returns
    -------
    Organization
        Which may have begun before.
    """
    c = read_configuration(path)
    study = read_study(
        Files(
            [f"{c.name}={c.file}"],
            label_column=c.label_column,
            id_column=c.id_column,
            drop=c.drop,
            categorical=c.categorical,
        )
    )
    labels = study.unaligned_target.get(c.name)
    holdings = hold(
        c.name,
        study.rows[c.name],
        ids=None if c.id_column is None else study.unaligned_ids[c.name].tolist(),
        linked_ids=() if c.linked is None else read_linked(c.linked),
        labels=None if labels is None else labels.tolist(),
        impute=c.impute,
        recipe=study.recipe.to_json(),
    )
    return Organization(
        holdings, c.folder, privacy=c.privacy, device=c.device, shares={*c.share, *shares}
    )


Plain = bool | int | float | str
_USUAL: dict[str, Plain] = {"folder": "coordinator", "timeout": 600.0, "patience": 600.0}


@dataclass(frozen=True)
class RunConfig:
    """What a ServerApp goes by.

    Parameters
    ----------
    organizations : list of str
        Who takes part.
    settings : Settings
        How they train.
    folder : Path
        Where the coordinator keeps its checkpoint and what it knows in the end.
    timeout : float
        Seconds that an organization may take for an answer.
    patience : float
        Seconds until it is an error that an organization has not connected.

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


def told_run_config(names: Sequence[str], settings: Settings) -> dict[str, Plain]:
    """What a ServerApp goes by as a Flower app can hold it, which knows neither lists nor nothing.

    Parameters
    ----------
    names : sequence of str
        The organizations.
    settings : Settings
        How they train.

    Returns
    -------
    dict of str to (bool, int, float or str)
        By names with hyphens: lists with commas, and nothing as an empty text.

    Examples
    --------
    >>> from hotview.federated.configuration import told_run_config
    >>> from hotview.federated.settings import Settings
    >>> told = told_run_config(["clinical", "genetic"], Settings(hidden=(64, 32)))
    >>> told["organizations"], told["local-steps"], told["hidden"], told["label-holder"]
    ('clinical,genetic', 20, '64,32', '')
    """
    told = {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}
    return {
        "organizations": ",".join(names),
        **_USUAL,
        **{name.replace("_", "-"): value for name, value in told.items()},
    }


def read_run_config(told: Mapping[str, Any]) -> RunConfig:
    """Read what a ServerApp is given.

    Parameters
    ----------
    told : dict of str to (bool, int, float or str)
        What `told_run_config` gives; of what is missing, the defaults.

    Returns
    -------
    RunConfig
        Checked.

    Examples
    --------
    >>> from hotview.federated.configuration import read_run_config
    >>> config = read_run_config({"organizations": "clinical,genetic", "rounds": 3})
    >>> config.organizations, config.settings.rounds, config.settings.hidden
    (['clinical', 'genetic'], 3, (128,))
    """
    rest: dict[str, Any] = {**_USUAL, **told}
    names = _split(rest.pop("organizations", ""))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            "Expected organizations to name two or more, each once, such as 'clinical,genetic', "
            f"but it is {told.get('organizations', '')!r}."
        )
    return RunConfig(
        names,
        folder=Path(str(rest.pop("folder"))),
        timeout=check_positive("timeout", rest.pop("timeout")),
        patience=check_positive("patience", rest.pop("patience")),
        settings=Settings.from_json(_as_settings(rest)),
    )


def _plain(value: Any) -> Plain:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    plain: Plain = value
    return plain


def _as_settings(told: Mapping[str, Any]) -> dict[str, Any]:
    """What `_plain` made plain as it was; what it does not know stays, to be refused by name."""
    usual = Settings()
    return {
        (name := key.replace("-", "_")): _unplain(value, getattr(usual, name, value))
        for key, value in told.items()
    }


def _unplain(value: Any, usual: Any) -> Any:
    if usual is None and value == "":
        return None
    if isinstance(usual, tuple):
        try:
            return tuple(int(width) for width in _split(value))
        except ValueError:
            raise ValueError(
                f"Expected whole numbers with commas, such as '128,64', but {value!r} came."
            ) from None
    return value


def _split(text: Any) -> list[str]:
    return [word.strip() for word in str(text).split(",") if word.strip()]
