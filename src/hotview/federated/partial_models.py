"""Parts of a model: every organization has its own, and whoever has all has the whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hotview._types import Array
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.inference import Fusion
from hotview.federated.local_trainer import Learner
from hotview.federated.messages import Message
from hotview.federated.settings import Settings
from hotview.federated.client_state import Standing
from hotview.losses import Planner
from hotview.nn.multiview import MultiViewNetwork
from hotview.persistence import check_model_path, load_model, save_model
from hotview.semisupervised.fusion import LogOpinionPool
from hotview.training.recorder import History
from hotview.training.view_plan import ViewPlan

__all__ = ["join_parts", "save_part"]

_NOTE = "federated"


def save_part(path: Path, learner: Learner, standing: Standing, message: Message) -> None:
    """Save what an organization has learned, as a model of its view alone.

    Parameters
    ----------
    path : Path
        Where to.
    learner : Learner
        What was learned.
    standing : Standing
        Of which training.
    message : Message
        The last one, with what is known of all views.
    """
    settings, own = learner.settings, learner.holdings
    model = _make_model(settings, standing.classes, own.impute)
    _give_views(
        model,
        {own.name: (own.table.n_columns, own.table.columns)},
        {own.name: own.columns},
        learner.network,
    )
    model.history_, model.histories_ = History(standing.history), [History(standing.history)]
    model.references_ = message.arrays.get("references")
    if learner.n_classes > 0:
        _give_judgment(model, standing.classes, 1, None)
    head: dict[str, Any] = {
        k: message.arrays[k].tolist() for k in ("weight", "bias") if k in message.arrays
    }
    if head:
        head["names"] = message.facts["head"]
    model.metadata_ = {
        _NOTE: {
            "names": standing.names,
            "federation": standing.federation,
            "settings": settings.to_json(),
            "plan": message.facts.get("plan"),
            "pool": message.facts.get("pool"),
            "joint_head": head or None,
        }
    }
    if own.recipe is not None:
        model.metadata_["recipe"] = dict(own.recipe)
    save_model(model, path)


def join_parts(paths: Sequence[str | Path], out: str | Path) -> Path:
    """Put parts together to one model, which judges by whichever of its views are present.

    Parameters
    ----------
    paths : sequence of str or Path
        Parts of one training, of at least two organizations, in any order.
    out : str or Path
        Where to save the model; ends in ``.hotview``.

    Returns
    -------
    Path
        Where it is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import hotview as hv
    >>> from hotview.datasets import make_views
    >>> from hotview.federated import (
    ...     Coordinator, InProcess, Organization, Settings, hold, join_parts
    ... )
    >>> views = make_views(60, n_views=2, random_state=0).views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     members = {
    ...         name: Organization(hold(name, X), Path(folder) / name) for name, X in views.items()
    ...     }
    ...     settings = Settings(rounds=1, local_steps=1, quantiles=16)
    ...     joint = Coordinator(InProcess(members), settings).run()
    ...     parts = [member.part for member in members.values()]
    ...     model = hv.load(join_parts(parts, Path(folder) / "joint.hotview"))
    >>> model.view_names_
    ['view_0', 'view_1']
    """
    out = check_model_path(out)
    parts = _in_order([_open_part(Path(path)) for path in paths])
    first, note = parts[0], parts[0].metadata_[_NOTE]
    names = [part.view_names_[0] for part in parts]
    settings = Settings.from_json(note["settings"])
    classes = first.classes_.tolist() if isinstance(first, MultiViewClassifier) else []
    if len({part.impute for part in parts}) > 1:
        raise ValueError("Expected all parts to treat missing cells alike: impute.")
    model = _make_model(settings, classes, first.impute)
    shapes = {part.view_names_[0]: part._shapes[part.view_names_[0]] for part in parts}
    columns = {part.view_names_[0]: part._columns[part.view_names_[0]] for part in parts}
    head = _joint_head(parts, names)
    _give_views(model, shapes, columns, _join_networks(parts, head))
    model.history_, model.histories_ = first.history_, first.histories_
    model.references_ = first.references_
    if (plan := _plan(note["plan"], names, settings)) is not None:
        model._keep_plans([plan])
    if classes:
        pool = _pool(note, names)
        _give_judgment(model, classes, len(names), pool, joint=head is not None)
    model.metadata_ = {_NOTE: {**note, "joint_head": None, "joined": names}}
    recipes = [part.metadata_.get("recipe") for part in parts]
    if all(recipe is not None for recipe in recipes):
        model.metadata_["recipe"] = _join_recipes(recipes)
    return save_model(model, out)


def _make_model(settings: Settings, classes: Sequence[Any], impute: str | None) -> Any:
    same = (
        *("coupling", "view_regularizer", "n_components", "encoder_dim", "hidden", "n_references"),
        *("n_projections", "projections", "coupling_weight", "regularizer_weight", "reg"),
        *("orthogonality_weight", "cost_decay", "sinkhorn_max_iter", "batch_size"),
        "learning_rate",
    )
    given: dict[str, Any] = {name: getattr(settings, name) for name in same}
    given |= {"impute": impute, "n_estimators": 1}
    if not classes:
        return MultiViewEncoder(**given)
    given |= {"head_weight": settings.head_weight, "pseudo_labels": False}
    return MultiViewClassifier(**given, unlabeled_marker=None)


def _give_views(model: Any, shapes: Any, columns: Any, network: MultiViewNetwork) -> None:
    model.view_names_, model.n_views_ = list(shapes), len(shapes)
    model.n_features_per_view_ = {name: n for name, (n, _) in shapes.items()}
    model._shapes, model._columns = dict(shapes), dict(columns)
    # Judgments meet without a joint head; a file has one, of zeros, to which nobody listens.
    whole = _with_head(network)
    model.networks_, model.network_ = [whole], whole
    model.batch_size_, model.trained_on_, model.fit_warnings_ = model.batch_size, {}, []
    model._keep_plans([])


def _with_head(network: MultiViewNetwork) -> MultiViewNetwork:
    if len(network.view_heads) == 0:
        return network
    joint = network.joint_head
    if joint is None:
        n = sum(U.in_features for U in network.maps)  # type: ignore[misc]
        joint = torch.nn.Linear(int(n), network.view_heads[0].out_features)  # type: ignore[arg-type]
        for p in joint.parameters():
            torch.nn.init.zeros_(p)
    whole = MultiViewNetwork(
        list(network.encoders),
        list(network.maps),
        list(network.decoders),
        joint,
        list(network.view_heads),
    )
    return whole.cpu().eval()


def _give_judgment(
    model: Any,
    classes: Sequence[Any],
    n_views: int,
    pool: LogOpinionPool | None,
    *,
    joint: bool = False,
) -> None:
    n = len(classes)
    model.classes_ = np.array(classes)
    prior = tuple([-float(np.log(n))] * n)
    model._fusions = [Fusion(joint, False, (n,) * n_views, prior)]
    model._judges, model._pool = [None], pool
    model.fusion = "average" if pool is None else "stacked"


def _open_part(path: Path) -> Any:
    part = load_model(path, device="cpu")
    if part.n_views_ != 1 or _NOTE not in part.metadata_:
        raise ValueError(
            f"Expected {path} to be the part of one organization, but it is another model. Give "
            "the files that `hotview federated` left with the organizations: part.hotview."
        )
    return part


def _in_order(parts: list[Any]) -> list[Any]:
    notes = [part.metadata_[_NOTE] for part in parts]
    if len({note["federation"] for note in notes}) > 1:
        raise ValueError("Expected parts of one training, but these are of several.")
    by_name = {part.view_names_[0]: part for part in parts}
    if len(by_name) < len(parts) or len(parts) < 2:
        raise ValueError(
            f"Expected parts of at least two different organizations, but these are of "
            f"{sorted(by_name)}."
        )
    return [by_name[name] for name in notes[0]["names"] if name in by_name]


def _join_networks(parts: Sequence[Any], head: torch.nn.Module | None) -> MultiViewNetwork:
    each = [part.network_ for part in parts]
    return MultiViewNetwork(
        [one.encoders[0] for one in each],
        [one.maps[0] for one in each],
        [decoder for one in each for decoder in one.decoders],
        head,
        [g for one in each for g in one.view_heads],
    )


def _joint_head(parts: Sequence[Any], names: Sequence[str]) -> torch.nn.Linear | None:
    """What the label holder learned from features, if those of the same views are here."""
    told = [part.metadata_[_NOTE]["joint_head"] for part in parts]
    found = next((head for head in told if head is not None), None)
    if found is None or found["names"] != list(names):
        return None  # in the end somebody was absent, or is now
    weight: Array = np.array(found["weight"], dtype=np.float32)
    head = torch.nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weight))
        head.bias.copy_(torch.tensor(found["bias"]))
    return head


def _plan(told: Any, names: Sequence[str], settings: Settings) -> ViewPlan | None:
    """The plan of the last round, solved for once more, if it was over just these views."""
    if told is None or told["names"] != list(names):
        return None
    planner = Planner(settings.reg, True, settings.sinkhorn_max_iter)
    found = planner.solve(torch.tensor(told["C"]), pairwise=settings.coupling == "hot-pairwise")
    return ViewPlan(**vars(found), null=None)


def _pool(note: Any, names: Sequence[str]) -> LogOpinionPool | None:
    told = note["pool"]
    if told is None:
        return None
    if any(name not in told["names"] for name in names):
        return None  # of somebody who was not there in the end nothing is known
    here = [told["names"].index(name) for name in names]
    complete = [told["complete"][s] for s in (*here, len(told["names"]))]
    partial = [told["partial"][s] for s in here]
    return LogOpinionPool(tuple(complete), tuple(partial), told["power"])


def _join_recipes(recipes: Sequence[Any]) -> dict[str, Any]:
    """How files of all organizations are read; ids must be in columns of one name."""
    first = dict(recipes[0])
    columns = {recipe["id_column"] for recipe in recipes}
    first["views"] = [view for recipe in recipes for view in recipe["views"]]
    labels = [recipe["label_column"] for recipe in recipes]
    first["label_column"] = next((column for column in labels if column is not None), None)
    first["id_column"] = recipes[0]["id_column"] if len(columns) == 1 else None
    first["drop"] = sorted({name for recipe in recipes for name in recipe["drop"]})
    return first
