"""Saving and loading models: arrays as safetensors, everything else as JSON in it, no code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from hotview._archive import FileFormat, naming_memory_errors, read_archive, write_archive
from hotview._codec import decode, encode
from hotview._files import check_output_path
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.parameters import encoders_of, pick_device
from hotview.persistence.schema import (
    CLASSES,
    SPECIFICATIONS,
    SavedModel,
    check_model,
    check_tensors,
)
from hotview.persistence.serialize import deserialize, network_widths, restore_parameters, serialize
from hotview.training.threads import existing_threads

__all__ = ["MODEL_FORMAT", "check_model_path", "load_model", "save_model"]

MODEL_FORMAT = 10  # files of another format cannot be loaded, nor joined
_MODEL = FileFormat("hotview model", MODEL_FORMAT, "a model", "Fit the model again.")
_MISFITS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


def check_model_path(path: str | Path) -> Path:
    """Raise an error for a path that no model can be saved to.

    Parameters
    ----------
    path : str or Path
        Path of a model file to be.

    Returns
    -------
    Path
        The same.

    Examples
    --------
    >>> from hotview.persistence import check_model_path
    >>> check_model_path("model.pkl")
    Traceback (most recent call last):
    ValueError: model.pkl must end in .hotview, got '.pkl'.
    """
    return check_output_path(path, (".hotview",))


@existing_threads()
def save_model(estimator: MultiViewEstimator, path: str | Path) -> Path:
    """Save a fitted estimator, whole or not at all.

    The same estimator gives the same bytes. Callbacks, checkpoints, the random state and the device
    are not part of the file. Of encoders of the user's own the weights are saved, of couplings and
    view regularizers of the user's own the name of the class; code is not.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator, fitted.
    path : str or Path
        Path of the file; ends in ``.hotview``.

    Returns
    -------
    Path
        The same path.

    Examples
    --------
    >>> import tempfile
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.persistence import load_model, save_model
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=1, random_state=0).fit(views)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = load_model(save_model(encoder, f"{folder}/model.hotview"))
    >>> bool((loaded.transform(views)["view_0"] == encoder.transform(views)["view_0"]).all())
    True
    """
    path = check_model_path(path)
    if type(estimator) not in CLASSES.values():
        raise TypeError(
            f"Expected one of {list(CLASSES)} to save, but got {type(estimator).__name__}. "
            "Save the estimator inside it."
        )
    check_is_fitted(estimator)
    tensors: dict[str, Tensor] = {}
    facts = encode(SavedModel, model := serialize(estimator), tensors)
    own = {name: getattr(estimator, name) for name in SPECIFICATIONS}
    try:
        check_model(model)
        restored = restore_parameters(model, "cpu", own)
        check_tensors(model, tensors, network_widths(restored, model))
        restored.encoders = estimator.encoders
        deserialize(restored, model)
    except _MISFITS as error:
        raise ValueError(
            f"Expected a model that can be loaded again, but {_reason(error)}. If parameters were "
            "set after fit, set them back, or fit again."
        ) from error
    write_archive(path, _MODEL, {name: _narrow(x) for name, x in tensors.items()}, facts)
    return path


@existing_threads()
def load_model(
    path: str | Path,
    *,
    encoders: Any = None,
    coupling: Any = None,
    view_regularizer: Any = None,
    device: Any = "auto",
) -> Any:
    """Load an estimator that `save_model` wrote.

    Loading runs no code of the file's. A file that was damaged or changed is refused: its checksum
    is wrong. (A checksum is no signature: who can write the file can write another checksum.)

    Parameters
    ----------
    path : str or Path
        The file.
    encoders : list or dict of nn.Module, or None, default=None
        Modules like those that the estimator was fitted with, if it had any of the user's own.
    coupling : CouplingSpec or None, default=None
        Specification that the estimator was fitted with, if it was of the user's own class.
    view_regularizer : RegularizerSpec or None, default=None
        Specification that the estimator was fitted with, if it was of the user's own class.
    device : str or torch.device, default="auto"
        Device of the network.

    Returns
    -------
    MultiViewClassifier or MultiViewEncoder
        The estimator, fitted.

    Examples
    --------
    >>> from hotview.persistence import load_model
    >>> load_model("nowhere.hotview")
    Traceback (most recent call last):
    FileNotFoundError: there is no model at nowhere.hotview.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no model at {path}.")
    archive, place = read_archive(path, _MODEL), pick_device(device)
    facts = {k: value for k, value in archive.metadata.items() if k not in ("format", "version")}
    own = {"coupling": coupling, "view_regularizer": view_regularizer}
    with _refusing_misfits(path):
        tensors = {name: _widen(tensor) for name, tensor in archive.tensors.items()}
        tensors |= {k: x.to(place) for k, x in tensors.items() if k.startswith("predictors.")}
        check_model(model := decode(SavedModel, facts, tensors))
    _check_specifications(path, own, model.parameters)
    with _refusing_misfits(path):
        estimator = restore_parameters(model, device, own)
        check_tensors(model, tensors, network_widths(estimator, model))
    _check_encoders(path, encoders, model)
    estimator.encoders = encoders
    remedy = "Save it again; or, if it has encoders of your own, pass the same modules as at fit."
    with _refusing_misfits(path, remedy):
        deserialize(estimator, model)
    return estimator


def _narrow(tensor: Tensor) -> Tensor:
    """Numbers of float32 as float16, if all of them have the same values there."""
    if tensor.dtype != torch.float32:
        return tensor
    half = tensor.detach().half()
    return half if torch.equal(half.float(), tensor) else tensor


def _widen(tensor: Tensor) -> Tensor:
    """What `_narrow` was given; encoders of the user's own take weights of any precision."""
    return tensor.float() if tensor.dtype == torch.float16 else tensor


@contextmanager
def _refusing_misfits(path: Path, remedy: str | None = None) -> Iterator[None]:
    try:
        with naming_memory_errors(path):
            yield
    except _MISFITS as error:
        raise _MODEL.error(path, f"its parts do not fit ({_reason(error)})", remedy) from error


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")[:300]
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def _check_specifications(
    path: Path, own: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    for name, given in own.items():
        saved = parameters.get(name)
        expected = saved.get("own") if isinstance(saved, Mapping) else None
        if (None if given is None else type(given).__name__) != expected:
            raise ValueError(
                f"Expected {name} to be {expected and f'a {expected}'}, as at fit, but it is "
                f"{given!r}. The file holds no code: pass "
                f"hotview.load({path.name!r}, {name}={expected or None}"
                f"{'(...)' if expected else ''})."
            )


def _check_encoders(path: Path, encoders: Any, model: SavedModel) -> None:
    names = [view.name for view in model.views]
    given = encoders_of(encoders, names)
    found = [name for name, f in zip(names, given, strict=True) if f is not None]
    if found != model.own_encoders:
        raise ValueError(
            f"Expected encoders of your own for the views {model.own_encoders}, as at fit, but "
            f"they are given for {found}. The file holds their weights, not their code: pass "
            f"hotview.load({path.name!r}, encoders={{view: module}}) with modules like those at "
            "fit."
        )
