"""Saving and loading: arrays as safetensors, everything else as JSON inside it; no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._files import check_output_path
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.parameters import encoders_of
from hotview.persistence.deserialize import CLASSES, make_estimator, put_together
from hotview.persistence.schema import check_facts
from hotview.persistence.serialize import take_apart
from hotview.persistence.tensor_schema import check_layout

__all__ = ["check_model_path", "load_model", "save_model"]

#: format 2 knows several replicas, 3 votes and pools, 4 what a model was trained on and a checksum
_MODEL = FileFormat("hotview model", 4, "a model", "Save the model again.", oldest=4)
_MISFITS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


def check_model_path(path: str | Path) -> Path:
    """Refuse a path that no model can be saved to.

    Parameters
    ----------
    path : str or Path
        Where a model is to go.

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


def save_model(estimator: MultiViewEstimator, path: str | Path) -> Path:
    """Save a fitted estimator, whole or not at all.

    The same estimator gives the same bytes. Callbacks, checkpoints, the user's own encoders (their
    weights are saved, their code is not), the random state and the device are not part of the file.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator, fitted.
    path : str or Path
        Where to; ends in ``.hotview``.

    Returns
    -------
    Path
        Where it is.

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
    tensors, facts = take_apart(estimator)
    try:
        check_facts(told := {**facts, "version": _MODEL.version})
        check_layout(tensors, told, make_estimator(told, "cpu"))
    except _MISFITS as error:
        raise ValueError(
            f"Expected a model that can be loaded again, but {_reason(error)}. If parameters were "
            "set after fit, set them back, or fit again."
        ) from error
    write_archive(path, _MODEL, tensors, facts)
    return path


def load_model(path: str | Path, *, encoders: Any = None, device: Any = "auto") -> Any:
    """Load an estimator that `save_model` wrote.

    Loading runs no code of the file's. A file that was damaged or changed is refused: its checksum
    is wrong. (A checksum is no signature: who can write the file can write another checksum.)

    Parameters
    ----------
    path : str or Path
        The file.
    encoders : list or dict of nn.Module, or None, default=None
        Modules like those that the estimator was fitted with, where it had any of the user's own.
    device : str or torch.device, default="auto"
        Where the network is to be.

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
    archive = read_archive(path, _MODEL)
    tensors, facts = archive.tensors, archive.metadata
    try:
        check_facts(facts)
        estimator = make_estimator(facts, device)
        check_layout(tensors, facts, estimator)
    except _MISFITS as error:
        raise _MODEL.error(path, f"its parts do not fit ({_reason(error)})") from error
    _check_encoders(path, encoders, facts)
    estimator.encoders = encoders
    try:
        put_together(estimator, tensors, facts)
    except _MISFITS as error:
        own = "Save it again; or, if it has encoders of your own, pass the same modules as at fit."
        raise _MODEL.error(path, f"its parts do not fit ({_reason(error)})", own) from error
    return estimator


def _reason(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    text = lines[0].rstrip(".")[:300]
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def _check_encoders(path: Path, encoders: Any, facts: dict[str, Any]) -> None:
    names = [name for name, _, _ in facts["views"]]
    given = encoders_of(encoders, names)
    found = [name for name, f in zip(names, given, strict=True) if f is not None]
    if found != facts["own_encoders"]:
        raise ValueError(
            f"Expected encoders of one's own for the views {facts['own_encoders']}, as at fit, but "
            f"they came for {found}. The file holds their weights, not their code: pass "
            f"hotview.load({path.name!r}, encoders={{view: module}}) with modules like those of "
            "then."
        )
