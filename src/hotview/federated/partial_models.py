"""Partial models of the clients, and the joint model of several of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hotview._codec import require
from hotview.data.frames import columns_of
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.federated.local_trainer import LocalTrainer
from hotview.federated.messages import Message, check_json
from hotview.federated.schema import (
    SentHead,
    SentPlan,
    SentPool,
    check_known,
    check_names,
    read_metadata,
)
from hotview.federated.settings import Settings
from hotview.federated.state import ClientState
from hotview.losses import Planner
from hotview.losses.specifications import as_coupling, as_regularizer
from hotview.model import Model, ModelView, check_model_path, load_model, save_model
from hotview.nn.multiview import MultiViewNetwork, make_linear
from hotview.semisupervised import SemiSupervised
from hotview.semisupervised.predictors import FusionRule, HeadPredictor, JointHead, Predictors
from hotview.semisupervised.super_learner import SuperLearner, average_predictors
from hotview.tables.preprocessing import Preprocessing
from hotview.training.trainer import History
from hotview.training.view_plan import ViewPlan

__all__ = ["join_partial_models", "read_federation", "save_partial_model"]

_NOTE = "federated"
_ANNOTATIONS = {
    **{"names": list[str], "session": str, "settings": dict[str, Any]},
    **{"plan": SentPlan | None, "pool": SentPool | None, "joint_head": SentHead | None},
    "joined": list[str] | None,
}


def save_partial_model(
    path: Path, trainer: LocalTrainer, state: ClientState, message: Message
) -> None:
    """Save the network of a client as a model of its view.

    Parameters
    ----------
    path : Path
        The file.
    trainer : LocalTrainer
        Trainer of the client.
    state : ClientState
        State of the client.
    message : Message
        The last request, with the plan, the fusion weights and the joint head.
    """
    settings, data = trainer.settings, trainer.data
    estimator = _make_estimator(settings, state.session.classes, data.impute)
    head: dict[str, Any] | None = None
    if "weight" in message.arrays:
        head = {k: message.arrays[k].tolist() for k in ("weight", "bias")}
        head["names"] = message.metadata["head"]
    note = {
        "names": state.session.names,
        "session": state.session.id,
        "settings": settings.to_json(),
        "plan": message.metadata.get("plan"),
        "pool": message.metadata.get("pool"),
        "joint_head": head,
    }
    network = copy.deepcopy(trainer.network).cpu()
    estimator.model_ = Model(
        [ModelView(data.name, columns_of(data.table), data.columns)],
        [network.eval()],
        [History(state.history)],
        settings.batch_size,
        {},
        [],
        {_NOTE: note},
        references=message.arrays.get("references"),
        **_predict_by_heads(network, state.session.classes),
    )
    if data.preprocessing is not None:
        estimator.metadata_["preprocessing"] = dict(data.preprocessing)
    save_model(estimator, path)


def read_federation(model: Any) -> Any:
    """Return the description of the federation that trained a model, checked.

    Parameters
    ----------
    model : MultiViewClassifier or MultiViewEncoder
        A partial model, or a joint one.

    Returns
    -------
    SimpleNamespace or None
        ``names``, ``session``, ``settings``, ``classes``, ``plan``, ``pool``, ``joint_head`` and
        ``joined``; None if no federation trained the model.
    """
    if (values := model.metadata_.get(_NOTE)) is None:
        return None
    check_json(values)
    note = read_metadata(_ANNOTATIONS, values)
    note.settings = settings = Settings.from_json(note.settings)
    check_names(note.names)
    for names in (model.view_names_, note.joined or model.view_names_):
        check_known(names, note.names)
    if note.plan is not None:
        note.plan.check(note.names, settings)
    if note.pool is not None:
        note.pool.check(note.names)
    require(not model.trained_on_, "it describes rows, which the parts of a federation do not")
    note.classes = model.classes_.tolist() if isinstance(model, MultiViewClassifier) else []
    if note.joint_head is not None:
        note.joint_head.check(note.names, settings, len(note.classes))
    return note


def join_partial_models(paths: Sequence[str | Path], out: str | Path) -> Path:
    """Join partial models to one model, which predicts from whichever views are present.

    Parameters
    ----------
    paths : sequence of str or Path
        Partial models of one training, of at least two clients, in any order.
    out : str or Path
        File of the joint model; ends in ``.hotview``.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import hotview as hv
    >>> from hotview.datasets import make_views
    >>> from hotview.federated import (
    ...     Client, ClientData, InProcessChannel, Server, Settings, join_partial_models
    ... )
    >>> views = make_views(60, n_views=2, random_state=0).views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clients = {
    ...         name: Client(ClientData.from_table(name, X), Path(folder) / name)
    ...         for name, X in views.items()
    ...     }
    ...     settings = Settings(rounds=1, local_steps=1, quantiles=16)
    ...     result = Server(InProcessChannel(clients), settings).run()
    ...     parts = [client.model_path for client in clients.values()]
    ...     model = hv.load(join_partial_models(parts, Path(folder) / "joint.hotview"))
    >>> model.view_names_
    ['view_0', 'view_1']
    """
    out = check_model_path(out)
    parts, note = _load_parts([Path(path) for path in paths])
    settings, models = note.settings, [part.model_ for part in parts.values()]
    views = [model.views[0] for model in models]
    names, classes, first = [view.name for view in views], note.classes, models[0]
    impute = {view.name: view.scaler.impute for view in views}
    pool = None
    if classes and note.pool is not None and set(names) <= set(note.pool.names):
        pool = note.pool.weights(names, len(classes))
    estimator = _make_estimator(settings, classes, impute, pool)
    networks = [model.networks[0] for model in models]
    head = note.joint_head if note.joint_head and note.joint_head.names == names else None
    network = MultiViewNetwork(
        [network.encoders[0] for network in networks],
        [network.maps[0] for network in networks],
        [decoder for network in networks for decoder in network.decoders],
        None,
        [view_head for network in networks for view_head in network.view_heads],
    )
    plan = None
    if note.plan is not None and note.plan.names == names:  # it is over the same views
        planner = Planner(settings.reg, True, settings.sinkhorn_max_iter)
        pairwise = settings.coupling == "hot-pairwise"
        plan = ViewPlan.of(planner.solve(torch.tensor(note.plan.C), pairwise=pairwise))
    estimator.model_ = Model(
        views,
        [network.eval()],
        first.histories,
        settings.batch_size,
        {},
        [],
        {_NOTE: {**first.metadata[_NOTE], "joint_head": None, "joined": names}},
        plan=plan,
        plans=None if plan is None else [plan],
        references=first.references,
        **_predict_by_heads(network, classes, pool, head),
    )
    recipes = [model.metadata.get("preprocessing") for model in models]
    if all(recipe is not None for recipe in recipes):
        estimator.metadata_["preprocessing"] = _join_preprocessing(recipes)
    return save_model(estimator, out)


def _load_parts(paths: Sequence[Path]) -> tuple[dict[str, Any], Any]:
    """Return partial models of one training by view, in its order, and its description."""
    parts: dict[str, Any] = {}
    notes = []
    for path in paths:
        part = load_model(path, device="cpu")
        try:
            note = read_federation(part)
            require(note is not None and part.n_views_ == 1, "it is another model")
            if (recipe := part.metadata_.get("preprocessing")) is not None:
                Preprocessing.from_json(recipe)
        except ValueError as error:
            raise ValueError(
                f"Expected {path} to be the part of one organization, but {error}. Give the files "
                "that `hotview federated` left with the organizations: part.hotview."
            ) from error
        parts[part.view_names_[0]] = part
        notes.append(note)
    facts = [(note.session, note.names, note.settings, note.classes) for note in notes]
    if others := [path for path, one in zip(paths, facts, strict=True) if one != facts[0]]:
        raise ValueError(
            f"Expected parts of one training, but {others[0]} is of another than {paths[0]}."
        )
    if len(parts) < len(paths) or len(parts) < 2:
        raise ValueError(
            f"Expected parts of at least two different organizations, but these are of "
            f"{sorted(parts)}."
        )
    heads = [note.joint_head for note in notes if note.joint_head is not None]
    notes[0].joint_head = heads[0] if heads else None
    return {name: parts[name] for name in notes[0].names if name in parts}, notes[0]


def _make_estimator(
    settings: Settings, classes: Sequence[Any], impute: Any, pool: SuperLearner | None = None
) -> Any:
    same = ("n_components", "encoder_dim", "hidden", "batch_size", "learning_rate")
    given: dict[str, Any] = {name: getattr(settings, name) for name in same}
    coupling = as_coupling(settings.coupling)
    values = {**vars(settings), "weight": settings.coupling_weight}
    coupling.set_params(**{name: values[name] for name in coupling.get_params() if name in values})
    regularizer = as_regularizer(settings.view_regularizer)
    if regularizer.get_params():
        regularizer.set_params(weight=settings.regularizer_weight)
    given |= {"coupling": coupling, "view_regularizer": regularizer}
    given |= {"impute": impute, "n_estimators": 1, "alignment_weight": 0.0}
    if not classes:
        return MultiViewEncoder(**given)
    given |= {"head_weight": settings.head_weight, "pseudo_labels": False}
    given |= {"fusion": "average" if pool is None else "weighted", "unlabeled_marker": None}
    return MultiViewClassifier(**given)


def _predict_by_heads(
    network: MultiViewNetwork,
    classes: Sequence[Any],
    pool: SuperLearner | None = None,
    joint_head: SentHead | None = None,
) -> dict[str, Any]:
    """Return what a model predicts classes by, and give its network the joint head.

    A network of a classifier has a joint head; one that does not count is zero.
    """
    n_views, n = len(network.encoders), len(classes)
    if n == 0:
        return {}
    n_features = sum(U.weight.shape[1] for U in network.maps)  # type: ignore[index, misc]
    network.joint_head = make_linear(n_features, n, torch.Generator())
    weight, bias = torch.zeros(n, n_features), torch.zeros(n)
    if joint_head is not None:
        weight, bias = torch.tensor(joint_head.weight), torch.tensor(joint_head.bias)
    network.joint_head.load_state_dict({"weight": weight, "bias": bias})
    prior = np.full((n_views, n), -np.log(n))
    joint: dict[str, Any] = (
        {} if joint_head is None else {"head": JointHead(torch.from_numpy(prior[0]))}
    )
    heads: list[dict[str, Any]] = [
        {"head": HeadPredictor(torch.from_numpy(own), 0.0)} for own in prior
    ]
    rule = FusionRule((n,) * n_views, tuple(prior[0].tolist()))
    weights = pool or average_predictors(prior, joint=bool(joint))
    learner = SemiSupervised(rule, Predictors(heads, joint), weights)
    return {"classes": np.array(classes), "learner": learner}


def _join_preprocessing(recipes: Sequence[Any]) -> dict[str, Any]:
    """Return how to read files of all views; ids must be in columns of one name."""
    labels = [recipe["label_column"] for recipe in recipes]
    id_columns = {recipe["id_column"] for recipe in recipes}
    return {
        **recipes[0],
        "views": [view for recipe in recipes for view in recipe["views"]],
        "label_column": next((column for column in labels if column is not None), None),
        "id_column": recipes[0]["id_column"] if len(id_columns) == 1 else None,
        "drop": sorted({name for recipe in recipes for name in recipe["drop"]}),
    }
