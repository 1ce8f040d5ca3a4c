"""What a model of single cells remembers of its fit: matrices, label, batches, kinds of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotview.omics.cells import chosen_for, modalities_of

__all__ = ["describe_choices", "describe_label", "read_settings", "save_settings", "stored_choice"]

_KEY = "omics"


def read_settings(model: Any) -> dict[str, Any]:
    """Return what a model remembers of the fit, also of one on the command line.

    Parameters
    ----------
    model : MultiViewClassifier or MultiViewEncoder
        The model.

    Returns
    -------
    dict of str to object
        Plain values; empty for a model of other data.
    """
    stored = model.metadata_.get(_KEY)
    return dict(stored) if isinstance(stored, Mapping) else {}


def save_settings(model: Any, **settings: Any) -> None:
    """Add settings to those that are saved with a model."""
    model.metadata_[_KEY] = {**read_settings(model), **settings}


def describe_choices(data: Any, layer: Any, obsm: Any) -> dict[str, dict[str, str]]:
    """Return the layers and entries of obsm that were chosen, by modality.

    Parameters
    ----------
    data : MuData or dict of str to AnnData
        The modalities.
    layer, obsm : str, dict of str to str, or None
        As for `read_cells`.

    Returns
    -------
    dict of str to dict of str to str
        Under ``"layer"`` and ``"obsm"``, the entries by modality.
    """
    found: dict[str, dict[str, str]] = {}
    for parameter, choice in (("layer", layer), ("obsm", obsm)):
        pairs = {name: chosen_for(name, parameter, choice) for name in modalities_of(data)}
        found[parameter] = {name: entry for name, entry in pairs.items() if entry is not None}
    return found


def stored_choice(model: Any, modalities: Mapping[str, Any], layer: Any, obsm: Any) -> Any:
    """Return the layer and the entry of obsm to use: those given, or else those of the fit."""
    if layer is not None or obsm is not None:
        return layer, obsm
    files = model.metadata_.get("preprocessing")
    text = files.get("text", {}) if isinstance(files, Mapping) else read_settings(model)
    found = []
    for parameter in ("layer", "obsm"):
        choice = text.get(parameter)
        if isinstance(choice, Mapping):  # of all views of the fit, of which some may be here
            own = {name: choice.get(name, choice.get("")) for name in modalities}
            choice = {name: entry for name, entry in own.items() if entry is not None}
        found.append(choice or None)
    return tuple(found)


def describe_label(data: Any, label: str | None) -> dict[str, Any]:
    """Return the order and the colors of the categories of a label, where obs and uns have them.

    Parameters
    ----------
    data : MuData or dict of str to AnnData
        The modalities.
    label : str or None
        Column of labels.

    Returns
    -------
    dict of str to list of str
        ``categories`` and, if all have one, ``colors``.
    """
    for part in (data, *modalities_of(data).values()):
        column = getattr(part, "obs", {}).get(label) if label is not None else None
        if column is None or not hasattr(column, "cat"):
            continue
        categories = [str(name) for name in column.cat.categories]
        colors = [str(color) for color in part.uns.get(f"{label}_colors", ())]
        found = {"categories": categories}
        return found | ({"colors": colors} if len(colors) == len(categories) else {})
    return {}
