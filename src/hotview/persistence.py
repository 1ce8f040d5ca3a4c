"""Models in one file: arrays as safetensors, everything else as JSON inside it; no code."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import hotview
from hotview._files import check_output_path, whole_file
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.inference import Fusion
from hotview.estimators.judging import Judge, LinearScores
from hotview.estimators.parameters import encoders_of, hidden_of, pick_device
from hotview.estimators.pooling import Pool
from hotview.nn.multiview import Widths, make_network
from hotview.ot import Plan
from hotview.training.columns import Columns
from hotview.training.history import History
from hotview.training.null import Null
from hotview.training.planning import ViewPlan
from hotview.training.voting import Basis, Voters

__all__ = ["check_model_path", "load_model", "save_model"]

_FORMAT = "hotview model"
_VERSION = 4  # 2 knows several replicas, 3 votes and pools, 4 what a model was trained on
_VOTES = 3
_CLASSES = {c.__name__: c for c in (MultiViewClassifier, MultiViewEncoder)}
_NOT_SAVED = ("callbacks", "encoders", "random_state", "device")
_BEFORE_VOTES = {"pseudo_labels": False, "fusion": "average"}  # parameters that were not yet there
_VOTERS, _BASIS = ("places", "shares"), ("mean", "directions")
_PLAN_TENSORS, _PLAN_NUMBERS = (
    ("W", "C", "f", "g", "marginal_error"),
    ("symmetric", "n_iter", "tol"),
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

    Callbacks, the user's own encoders (their weights are saved, their code is not), the random
    state and the device are not part of the file.

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
    if type(estimator) not in _CLASSES.values():
        raise TypeError(
            f"Expected one of {list(_CLASSES)} to save, but got {type(estimator).__name__}. "
            "Save the estimator inside it."
        )
    check_is_fitted(estimator)
    tensors, facts = _take_apart(estimator)
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
    with whole_file(path) as draft:
        # Clones, because safetensors refuses tensors that share memory, as tied weights do.
        save_file({k: t.contiguous().clone() for k, t in tensors.items()}, draft, {"hotview": text})
    return path


def load_model(path: str | Path, *, encoders: Any = None, device: Any = "auto") -> Any:
    """Load an estimator that `save_model` wrote.

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
    tensors, facts = _read(path)
    try:
        return _put_together(tensors, facts, encoders, device)
    except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise ValueError(
            f"Expected {path} to be a model that hotview saved, but its parts do not fit "
            f"({reason}). Save it again; or, if it has encoders of your own, pass the same modules "
            "as at fit."
        ) from error


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    expected = f"Expected {path} to be a model that hotview saved"
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["hotview"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except Exception as error:
        raise ValueError(
            f"{expected}, but it cannot be read ({error}). Save the model again."
        ) from error
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise ValueError(f"{expected}, but it is something else. Give the path of a model.")
    if facts["version"] > _VERSION:
        raise ValueError(
            f"{expected} in format {_VERSION} or older, but its format is {facts['version']}. "
            "Update hotview."
        )
    return tensors, facts


def _take_apart(estimator: MultiViewEstimator) -> tuple[dict[str, Tensor], dict[str, Any]]:
    names = estimator.view_names_
    given = encoders_of(estimator.encoders, names)
    tensors = {
        f"{_prefix(r)}network.{key}": value.detach().cpu()
        for r, network in enumerate(estimator.networks_)
        for key, value in network.state_dict().items()
    }
    for s, columns in enumerate(estimator._columns.values()):
        for part in ("mean", "scale", "fill"):
            if (values := getattr(columns, part)) is not None:
                tensors[f"columns.{s}.{part}"] = torch.from_numpy(values.copy())
    facts: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "hotview": hotview.__version__,
        "class": type(estimator).__name__,
        "parameters": _plain_parameters(estimator.get_params(deep=False)),
        "views": [[name, *estimator._shapes[name]] for name in names],
        "own_encoders": [name for name, f in zip(names, given, strict=True) if f is not None],
        "batch_size": estimator.batch_size_,
        "history": list(estimator.history_),
        "trained_on": estimator.trained_on_,
        "remarks": estimator.remarks_,
        "notes": _check_notes(estimator.notes_, "notes_"),
    }
    if len(estimator.networks_) > 1:
        facts["more_histories"] = [list(history) for history in estimator.histories_[1:]]
    if estimator.references_ is not None:
        tensors["references"] = torch.from_numpy(estimator.references_.copy())
    for r, plan in enumerate(estimator.plans_ or ()):
        _take_view_plan_apart(plan, _prefix(r), tensors, facts)
    if isinstance(estimator, MultiViewClassifier):
        facts["classes"] = [estimator.classes_.dtype.str, estimator.classes_.tolist()]
        for r, fusion in enumerate(estimator._fusions):
            facts[f"{_prefix(r)}fusion"] = vars(fusion)
        for r, judge in enumerate(estimator._judges):
            if judge is not None:
                _take_judge_apart(judge, _prefix(r), tensors, facts)
        if estimator._pool is not None:
            facts["pool"] = vars(estimator._pool)
    return tensors, facts


def _check_notes(value: Any, where: str) -> Any:
    """Refuse what JSON cannot hold, or would hold as something else."""
    plain = value is None or isinstance(value, bool | int | str)
    if plain or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list):
        return [_check_notes(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _check_notes(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise TypeError(
        f"Expected {where} to be what JSON can hold: None, True or False, a finite number, text, a "
        f"list, or a dict whose keys are text; but it is {value!r} ({type(value).__name__}). "
        "Convert it before saving."
    )


def _prefix(r: int) -> str:
    """Of everything that belongs to replica r; the first is told like one alone."""
    return "" if r == 0 else f"replica.{r}."


def _take_view_plan_apart(
    plan: ViewPlan, prefix: str, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    facts[f"{prefix}plan"] = _take_plan_apart(plan, f"{prefix}plan", tensors)
    if plan.null is not None:
        before = _take_plan_apart(plan.null.plan, f"{prefix}null.plan", tensors)
        facts[f"{prefix}null"] = before
        tensors |= {f"{prefix}null.W": plan.null.W, f"{prefix}null.C": plan.null.C}


def _take_judge_apart(
    judge: Judge, prefix: str, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    for s, voters in enumerate(judge.voters):
        tensors |= {f"{prefix}voters.{s}.{part}": getattr(voters, part) for part in _VOTERS}
        tensors |= {f"{prefix}basis.{s}.{part}": getattr(voters.basis, part) for part in _BASIS}
    facts[f"{prefix}voters"] = [[float(v.unit), int(v.n_neighbors)] for v in judge.voters]
    if judge.ridge is not None:
        tensors |= {f"{prefix}ridge.{s}": B for s, B in enumerate(judge.ridge.weights)}
        tensors[f"{prefix}ridge.intercept"] = judge.ridge.intercept


def _judge(
    tensors: dict[str, Tensor], facts: dict[str, Any], prefix: str, device: torch.device
) -> Judge | None:
    if f"{prefix}voters" not in facts:
        return None

    def get(key: str) -> Tensor:
        return tensors[f"{prefix}{key}"].to(device)

    voters = []
    for s, (unit, n_neighbors) in enumerate(facts[f"{prefix}voters"]):
        basis = Basis(*(get(f"basis.{s}.{part}") for part in _BASIS))
        places, shares = (get(f"voters.{s}.{part}") for part in _VOTERS)
        voters.append(Voters(basis, unit, places, shares, n_neighbors))
    ridge = None
    if f"{prefix}ridge.intercept" in tensors:
        weights = [get(f"ridge.{s}") for s in range(len(voters))]
        ridge = LinearScores(weights, get("ridge.intercept"))
    return Judge(voters, ridge)


def _pool(facts: dict[str, Any] | None) -> Pool | None:
    if facts is None:
        return None
    return Pool(tuple(facts["complete"]), tuple(facts["partial"]), facts["power"])


def _plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in parameters.items() if name not in _NOT_SAVED}
    if isinstance(weights := plain.get("class_weight"), Mapping):
        # Classes may be numbers, which JSON would turn into text.
        plain["class_weight"] = {"items": [[_plain(k), float(w)] for k, w in weights.items()]}
    if isinstance(plain["hidden"], Mapping):
        plain["hidden"] = {k: [int(w) for w in widths] for k, widths in plain["hidden"].items()}
    else:
        plain["hidden"] = [int(width) for width in plain["hidden"]]
    return {name: _plain(value) for name, value in plain.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _take_plan_apart(plan: Plan, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    tensors |= {f"{prefix}.{part}": getattr(plan, part) for part in _PLAN_TENSORS}
    if plan.mask is not None:
        tensors[f"{prefix}.mask"] = plan.mask
    return {"reg": float(plan.reg), **{name: getattr(plan, name) for name in _PLAN_NUMBERS}}


def _put_together(
    tensors: dict[str, Tensor], facts: dict[str, Any], encoders: Any, device: Any
) -> Any:
    parameters = dict(facts["parameters"])
    if isinstance(weights := parameters.get("class_weight"), Mapping):
        parameters["class_weight"] = dict(weights["items"])
    parameters["hidden"] = _hidden(parameters["hidden"])
    if facts["class"] == "MultiViewClassifier" and facts["version"] < _VOTES:
        parameters |= _BEFORE_VOTES
    estimator = _CLASSES[facts["class"]](**parameters, encoders=encoders, device=device)
    names = [name for name, _, _ in facts["views"]]
    estimator.view_names_, estimator.n_views_ = names, len(names)
    estimator.n_features_per_view_ = {name: n for name, n, _ in facts["views"]}
    estimator._shapes = {
        name: (n, None if columns is None else tuple(columns))
        for name, n, columns in facts["views"]
    }
    estimator._columns = {name: _columns(tensors, s) for s, name in enumerate(names)}
    histories = [facts["history"], *facts.get("more_histories", ())]
    prefixes = [_prefix(r) for r in range(len(histories))]
    estimator.networks_ = [_network(tensors, facts, estimator, prefix) for prefix in prefixes]
    estimator.histories_ = [History(rows) for rows in histories]
    estimator.network_, estimator.history_ = estimator.networks_[0], estimator.histories_[0]
    estimator.batch_size_ = facts["batch_size"]
    estimator.trained_on_ = facts.get("trained_on", {})
    estimator.remarks_, estimator.notes_ = facts.get("remarks", []), facts.get("notes", {})
    references = tensors.get("references")
    estimator.references_ = None if references is None else references.numpy()
    has_plan = "plan" in facts
    estimator._keep_plans([_view_plan(tensors, facts, p) for p in prefixes if has_plan])
    if isinstance(estimator, MultiViewClassifier):
        dtype, classes = facts["classes"]
        estimator.classes_ = np.array(classes, dtype=dtype)
        estimator._fusions = [_fusion(facts[f"{prefix}fusion"]) for prefix in prefixes]
        place = pick_device(estimator.device)
        estimator._judges = [_judge(tensors, facts, prefix, place) for prefix in prefixes]
        estimator._pool = _pool(facts.get("pool"))
    return estimator


def _fusion(facts: dict[str, Any]) -> Fusion:
    heads, log_prior = tuple(facts["heads"]), tuple(facts["log_prior"])
    return Fusion(facts["joint"], facts["alone"], heads, log_prior)


def _hidden(hidden: Any) -> Any:
    if isinstance(hidden, Mapping):
        return {name: tuple(widths) for name, widths in hidden.items()}
    return tuple(hidden)


def _columns(tensors: dict[str, Tensor], s: int) -> Columns:
    fill = tensors.get(f"columns.{s}.fill")
    return Columns(
        tensors[f"columns.{s}.mean"].numpy(),
        tensors[f"columns.{s}.scale"].numpy(),
        None if fill is None else fill.numpy(),
    )


def _network(tensors: dict[str, Tensor], facts: dict[str, Any], estimator: Any, prefix: str) -> Any:
    names = estimator.view_names_
    given = encoders_of(estimator.encoders, names)
    found = [name for name, f in zip(names, given, strict=True) if f is not None]
    if found != facts["own_encoders"]:
        raise ValueError(
            f"Expected encoders of one's own for the views {facts['own_encoders']}, as at fit, but "
            f"they came for {found}. Pass encoders={{view: module}} with the same modules."
        )
    widths = Widths(
        list(estimator.n_features_per_view_.values()),
        hidden_of(estimator.hidden, names),
        estimator.n_features,
        estimator.n_components,
        len(facts["classes"][1]) if "classes" in facts else 0,
        estimator.view_regularizer == "autoencoder",
    )
    network = make_network(widths, torch.Generator().manual_seed(0), given, names)
    prefix = f"{prefix}network."
    state = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
    network.load_state_dict(state)
    return network.to(pick_device(estimator.device)).eval()


def _plan_parts(tensors: dict[str, Tensor], prefix: str, numbers: dict[str, Any]) -> dict[str, Any]:
    parts = {part: tensors[f"{prefix}.{part}"] for part in _PLAN_TENSORS}
    return {**parts, **numbers, "mask": tensors.get(f"{prefix}.mask")}


def _view_plan(tensors: dict[str, Tensor], facts: dict[str, Any], prefix: str) -> ViewPlan:
    null = None
    if f"{prefix}null" in facts:
        before = Plan(**_plan_parts(tensors, f"{prefix}null.plan", facts[f"{prefix}null"]))
        null = Null(before, tensors[f"{prefix}null.W"], tensors[f"{prefix}null.C"])
    parts = _plan_parts(tensors, f"{prefix}plan", facts[f"{prefix}plan"])
    return ViewPlan(**parts, null=null)
