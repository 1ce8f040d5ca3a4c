"""What ``flwr run`` is told, and how a Flower app writes it down: numbers and text by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hotview._validation import check_positive
from hotview.federated.settings import Settings

__all__ = ["RunConfig", "read_run_config", "told_run_config"]

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
    >>> from hotview.federated.run_config import RunConfig
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
    >>> from hotview.federated.run_config import told_run_config
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
    >>> from hotview.federated.run_config import read_run_config
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
