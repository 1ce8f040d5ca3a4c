"""Files of models: arrays as safetensors, everything else as JSON in it, no code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import hotview
from hotview._archive import FileFormat, naming_memory_errors, read_archive, write_archive
from hotview._codec import check_plain, decode, encode, require, shorten
from hotview._files import check_output_path
from hotview._threads import existing_threads
from hotview._types import Array
from hotview.losses.specifications import COUPLINGS, REGULARIZERS, Specification, as_regularizer
from hotview.model.model import Model, ModelView
from hotview.model.parameters import (
    check_parameters,
    encoders_of,
    hidden_of,
    impute_of,
    pick_device,
)
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.semisupervised.class_prior import replace_prior

__all__ = ["MODEL_FORMAT", "check_model_path", "load_model", "save_model"]

MODEL_FORMAT = 12  # files of another format cannot be loaded, nor joined
_MODEL = FileFormat("hotview model", MODEL_FORMAT, "a model", "Fit the model again.")
_MISFITS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
_ESTIMATORS = ("MultiViewClassifier", "MultiViewEncoder")  # of hotview.estimators
#: parameters that belong to a program or a machine, not to a model
_NOT_SAVED = {
    *("callbacks", "encoders", "random_state", "device", "devices", "precision"),
    *("checkpoint", "checkpoint_every"),
}
#: parameters that are specifications, and their built-in classes by name
_SPECIFICATIONS: Mapping[str, Mapping[str, type[Specification]]] = {
    "coupling": COUPLINGS,
    "view_regularizer": REGULARIZERS,
}
_OUTPUTS = ("default", "pandas", "polars")
#: fields of a model that a file holds in parts of their own
_APART = ("views", "networks", "classes")
_DTYPE = re.compile(r"[<>|=]?([biuf](1|2|4|8|16)|U[1-9][0-9]{0,6})")
_MAX_CLASS_BYTES = 2**26


@dataclass(frozen=True)
class _Classes:
    """The classes of a classifier, and the dtype of their array."""

    dtype: str
    labels: list[Any]

    def __post_init__(self) -> None:
        fits = len(self.labels) > 1 and _DTYPE.fullmatch(self.dtype) is not None
        fits = fits and np.dtype(self.dtype).itemsize * len(self.labels) <= _MAX_CLASS_BYTES
        # Sorted, different from each other, and what such an array holds.
        fits = fits and self.array.tolist() == self.labels == np.unique(self.array).tolist()
        fits = fits and (self.array.dtype.kind != "f" or bool(np.isfinite(self.array).all()))
        require(fits, f"its classes cannot be {shorten(self)}")

    @property
    def array(self) -> Array:
        """The array."""
        return np.array(self.labels, dtype=self.dtype)


@dataclass(frozen=True)
class _File:
    """Everything that a file holds; `model` are the fields of `Model` that are not `_APART`."""

    hotview: str
    estimator: str
    parameters: dict[str, Any]
    output: str | None
    views: list[ModelView]
    own_encoders: list[str]
    networks: list[dict[str, Tensor]]
    classes: _Classes | None
    model: dict[str, Any]

    def __post_init__(self) -> None:
        require(self.estimator in _ESTIMATORS, f"its 'estimator' cannot be {self.estimator!r:.99}")
        require(self.output in (None, *_OUTPUTS), f"its 'output' cannot be {self.output!r:.99}")
        is_classifier = self.estimator == "MultiViewClassifier"
        fits = set(self.own_encoders) <= {view.name for view in self.views} != set()
        require(fits, "it has no views, or encoders of others")
        require((self.classes is not None) == is_classifier, "its classes do not fit its estimator")

    @classmethod
    def of(cls, estimator: Any, tensors: dict[str, Tensor]) -> _File:
        """What a file will hold of a fitted estimator; adds the tensors of `model`."""
        model, names = estimator.model_, estimator.model_.names
        parameters = estimator.get_params(deep=False).items()
        own = encoders_of(estimator.encoders, names)
        classes = model.classes
        for name in ("trained_on", "warnings", "metadata"):
            check_plain(getattr(model, name), f"{name.replace('warn', 'fit_warn')}_")
        return cls(
            hotview=hotview.__version__,
            estimator=type(estimator).__name__,
            parameters={k: _plain(x, k) for k, x in parameters if k not in _NOT_SAVED},
            output=getattr(estimator, "_sklearn_output_config", {}).get("transform"),
            views=model.views,
            own_encoders=[name for name, f in zip(names, own, strict=True) if f is not None],
            networks=[network.state_dict() for network in model.networks],
            classes=None if classes is None else _Classes(classes.dtype.str, classes.tolist()),
            model=encode(Model, model, tensors, "model", _APART),
        )

    def make_estimator(self, own: Mapping[str, Any], device: Any) -> Any:
        """The estimator, not fitted yet, of validated parameters; `own` are specifications."""
        given = {k: _restore(k, x, own.get(k)) for k, x in self.parameters.items()}
        estimator = _estimator_class(self.estimator)(device=device)
        unknown = given.keys() - estimator.get_params(deep=False).keys() | given.keys() & _NOT_SAVED
        require(not unknown, f"there are no such parameters: {shorten(sorted(unknown))}")
        estimator.set_params(**given)
        check_parameters(estimator.get_params(deep=False))
        methods = list(impute_of(estimator.impute, [view.name for view in self.views]).values())
        fits = methods == [view.scaler.impute for view in self.views]
        require(fits, f"its 'impute' cannot be {shorten(estimator.impute)}")
        if self.classes is not None:
            prior, weights = np.zeros((1, len(self.classes.labels))), estimator.class_weight
            replace_prior(prior, estimator.class_prior, None, self.classes.array)
            fits = weights in (None, "balanced") or all(0 <= w < math.inf for w in weights.values())
            require(fits, f"its 'class_weight' cannot be {shorten(weights)}")
        return estimator

    def make_model(self, estimator: Any, tensors: dict[str, Tensor]) -> Model:
        """The model, on the device of its estimator."""
        names, device = [view.name for view in self.views], pick_device(estimator.device)
        widths = Widths(
            [view.scaler.n_outputs for view in self.views],
            hidden_of(estimator.hidden, names),
            estimator.encoder_dim,
            estimator.n_components,
            0 if self.classes is None else len(self.classes.labels),
            as_regularizer(estimator.view_regularizer).needs_decoders,
        )
        networks = []
        for weights in self.networks:
            own = encoders_of(estimator.encoders, names)
            networks.append(_make_network(widths, weights, own, names).to(device))
        made = {
            "views": self.views,
            "networks": networks,
            "classes": None if self.classes is None else self.classes.array,
        }
        model: Model = decode(Model, self.model, tensors, "model", made)
        _check_trained_on(model.trained_on)
        decode(dict[str, _Scores], model.out_of_fold, {}, "scores")
        return model


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
    >>> from hotview.model import check_model_path
    >>> check_model_path("model.pkl")
    Traceback (most recent call last):
    ValueError: model.pkl must end in .hotview, got '.pkl'.
    """
    return check_output_path(path, (".hotview",))


@existing_threads()
def save_model(estimator: Any, path: str | Path) -> Path:
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
    >>> from hotview.model import load_model, save_model
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=1, random_state=0).fit(views)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = load_model(save_model(encoder, f"{folder}/model.hotview"))
    >>> bool((loaded.transform(views)["view_0"] == encoder.transform(views)["view_0"]).all())
    True
    """
    path = check_model_path(path)
    if type(estimator) not in map(_estimator_class, _ESTIMATORS):
        raise TypeError(
            f"Expected one of {list(_ESTIMATORS)} to save, but got {type(estimator).__name__}. "
            "Save the estimator inside it."
        )
    check_is_fitted(estimator)
    tensors: dict[str, Tensor] = {}
    facts = encode(_File, file := _File.of(estimator, tensors), tensors)
    own = {name: getattr(estimator, name) for name in _SPECIFICATIONS}
    try:
        restored = file.make_estimator(own, "cpu").set_params(encoders=estimator.encoders)
        file.make_model(restored, tensors)
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
    >>> from hotview.model import load_model
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
        tensors |= {k: x.to(place) for k, x in tensors.items() if k.startswith("model.learner.")}
        file: _File = decode(_File, facts, tensors)
    _check_own(path, encoders, own, file)
    remedy = "Save it again, or pass the same modules as at fit." if encoders else None
    with _refusing_misfits(path, remedy):
        estimator = file.make_estimator(own, device).set_params(encoders=encoders)
        estimator.model_ = file.make_model(estimator, tensors)
        again: dict[str, Tensor] = {}
        encode(_File, _File.of(estimator, again), again)
        unexpected = tensors.keys() - again.keys()
        require(not unexpected, f"unexpected tensor {min(unexpected, default='')!r}")
    if file.output is not None:
        estimator.set_output(transform=file.output)
    return estimator


def _estimator_class(name: str) -> Any:
    return getattr(import_module("hotview.estimators"), name)  # which imports models


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


def _check_own(path: Path, encoders: Any, own: Mapping[str, Any], file: _File) -> None:
    """Raise an error unless what has code of the user's own is given as at fit."""
    names = [view.name for view in file.views]
    given = encoders_of(encoders, names)
    found = [name for name, f in zip(names, given, strict=True) if f is not None]
    if found != file.own_encoders:
        raise ValueError(
            f"Expected encoders of your own for the views {file.own_encoders}, as at fit, but "
            f"they are given for {found}. The file holds their weights, not their code: pass "
            f"hotview.load({path.name!r}, encoders={{view: module}}) with modules like those at "
            "fit."
        )
    for name, spec in own.items():
        expected = _own_class(file.parameters.get(name))
        if (None if spec is None else type(spec).__name__) != expected:
            call = f"{name}={expected}(...)" if expected else f"{name}=None"
            raise ValueError(
                f"Expected {name} to be {expected and f'a {expected}'}, as at fit, but it is "
                f"{spec!r}. The file holds no code: pass hotview.load({path.name!r}, {call})."
            )


def _plain(value: Any, where: str) -> Any:
    """A parameter as JSON."""
    if isinstance(value, Specification):
        if value.name is None:  # its code is not saved, so that its settings would mean nothing
            return {"own": type(value).__name__}
        settings = {k: _plain(x, f"{where}__{k}") for k, x in value.get_params().items()}
        return {"name": value.name, "settings": settings}
    if isinstance(value, Mapping):  # classes may be numbers, which JSON would turn into text
        return {"items": [[_plain(k, where), _plain(x, where)] for k, x in value.items()]}
    if isinstance(value, list | tuple):
        return [_plain(x, where) for x in value]
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, float) else check_plain(value, f"the parameter {where}")


def _own_class(value: Any) -> str | None:
    """Name of the user's class of a specification, as `_plain` wrote it."""
    is_own = isinstance(value, dict) and value.keys() == {"own"}
    return value["own"] if is_own and isinstance(value["own"], str) else None


def _restore(name: str, value: Any, own: Any = None) -> Any:
    """The parameter that `_plain` was given; the estimator checks its value."""
    if isinstance(value, list):
        return tuple(_restore(name, x) for x in value)
    if isinstance(value, dict):
        known = _SPECIFICATIONS.get(name, {})
        if value.keys() == {"items"}:
            return {k: _restore(name, x) for k, x in value["items"]}
        if _own_class(value) and known:
            return own
        fits = value.keys() == {"name", "settings"} and str(value["name"]) in known
        require(fits, f"its {name!r} cannot be {shorten(value)}")
        settings = {k: _restore(k, x) for k, x in value["settings"].items()}
        return known[str(value["name"])]().set_params(**settings)
    fits = not isinstance(value, int) or abs(value) < 2**63  # no array holds larger numbers
    require(fits, f"its {name!r} cannot be {shorten(value)}")
    return value


def _make_network(
    widths: Widths,
    weights: dict[str, Tensor],
    encoders: Sequence[nn.Module | None],
    names: Sequence[str],
) -> MultiViewNetwork:
    """A network of these weights, which takes no more memory than they do."""
    require(sum(map(len, widths.hidden)) <= len(weights), "it lacks weights")
    network = make_network(widths, None, encoders, names)
    for name, x in network.state_dict().items():
        if name in weights and x.is_meta:  # a layer of ours
            require(weights[name].dtype == torch.float32, f"{name!r} should be of float32")
            require(bool(weights[name].isfinite().all()), f"its {name!r} is not finite")
        elif name in weights:
            weights = {**weights, name: weights[name].to(x.dtype)}
    network.load_state_dict(weights, assign=True)
    return network.eval()


@dataclass(frozen=True)
class _Increase:
    """How much the log loss rises where a view is left out, and its interval."""

    n: int
    increase: float
    low: float
    high: float

    def __post_init__(self) -> None:
        fits = self.n > 0 and self.low <= self.increase <= self.high
        require(fits, f"its increase of the log loss cannot be {shorten(self)}")


@dataclass(frozen=True)
class _Scores:
    """Scores on left-out labels of one view or of all, as of `score_out_of_fold`."""

    n: int
    accuracy: float
    log_loss: float
    prior_log_loss: float
    standard_error: float
    expected: bool
    loss_without: _Increase | None


#: what a fit says about its rows
_TRAINED_ON: Mapping[str, Any] = {
    "linked": int,
    "linked_labeled": int,
    "unaligned": dict[str, int],
    "unaligned_labeled": dict[str, int],
    "seconds": float,
    "versions": dict[str, str],
    "impute": dict[str, str | None],
    "device": str,
    "precision": str,
    "classes": list[list[Any]] | None,
}


def _check_trained_on(facts: Mapping[str, Any]) -> None:
    for key, kind in _TRAINED_ON.items() if facts else ():
        decode(kind, facts.get(key), {}, f"trained_on.{key}")
    for _, n in facts.get("classes") or ():
        decode(int, n, {}, "trained_on.classes")
