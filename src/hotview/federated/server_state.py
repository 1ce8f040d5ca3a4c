"""What the coordinator knows, and the file from which it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
import torch
from torch import Tensor
from hotview._archive import Kind, read_archive, write_archive
from hotview._types import Array
from hotview.federated.server import Agreement
from hotview.federated.messages import Message
from hotview.federated.settings import Settings
from hotview.training.recorder import History
import json
from hotview._files import whole_file

__all__ = ["Joint", "Stage", "read_stage", "write_outcome", "write_stage"]

_CHECKPOINT = Kind("hotview federation", 1, "a checkpoint", "Delete it to begin anew.")


@dataclass
class Joint:
    """What the coordinator knows in the end.

    Attributes
    ----------
    names : list of str
        The organizations.
    history : History
        A row per round: parts of the loss, how many were there, and the bytes of the largest
        message to or from any organization.
    W, C : ndarray or None
        The last plan and its costs, over the organizations `present`.
    present : list of str
        Who was there in the last round.
    dropped : list of dict
        Who was left out of which round, and why.
    privacy : dict of str to dict
        ε and δ by organization, where it asked for any.
    finished : list of str
        Who has saved its part.

    Examples
    --------
    >>> from hotview.federated import Joint
    >>> Joint(["clinical", "genetic"]).finished
    []
    """

    names: list[str]
    history: History = field(default_factory=History)
    W: Array | None = None
    C: Array | None = None
    present: list[str] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    privacy: dict[str, dict[str, float]] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)


@dataclass
class Stage:
    """How far a training has come.

    Parameters
    ----------
    agreement : Agreement
        What all agreed on.
    joint : Joint
        What is known by now.
    round : int, default=0
        Rounds that are over.
    soft_labels : dict of str to Message
        What each organization is to be told of its last report.
    pool : dict of str to object, or None, default=None
        How much each view counts, once that is known.
    shared : dict of str to ndarray
        What the label holder shares with all from then on.
    """

    agreement: Agreement
    joint: Joint
    round: int = 0
    soft_labels: dict[str, Message] = field(default_factory=dict)
    pool: dict[str, Any] | None = None
    shared: dict[str, Array] = field(default_factory=dict)


def write_stage(path: Path, stage: Stage, settings: Settings, center: Mapping[str, Tensor]) -> None:
    """Write the file, whole or not at all.

    Parameters
    ----------
    path : Path
        Where to.
    stage : Stage
        How far the training has come.
    settings : Settings
        Its settings.
    center : dict of str to Tensor
        State of the coupling.
    """
    joint, agreement = stage.joint, stage.agreement
    tensors = {f"center.{k}": x for k, x in center.items()}
    for i, lesson in enumerate(stage.soft_labels.values()):  # by number: names may have points
        for k, x in lesson.arrays.items():
            tensors[f"lesson.{i}.{k}"] = torch.from_numpy(x)
    tensors |= {f"shared.{k}": torch.from_numpy(x) for k, x in stage.shared.items()}
    if joint.W is not None and joint.C is not None:
        tensors |= {"W": torch.from_numpy(joint.W), "C": torch.from_numpy(joint.C)}
    facts = {
        "settings": settings.to_json(),
        "agreement": vars(agreement),
        "names": joint.names,
        "round": stage.round,
        "soft_labels": [[name, lesson.facts] for name, lesson in stage.soft_labels.items()],
        "history": list(joint.history),
        "present": joint.present,
        "dropped": joint.dropped,
        "privacy": joint.privacy,
        "pool": stage.pool,
    }
    write_archive(path, _CHECKPOINT, tensors, facts)


def read_stage(path: Path, settings: Settings, names: list[str]) -> tuple[Stage, dict[str, Tensor]]:
    """Read a file that `write_stage` wrote.

    Parameters
    ----------
    path : Path
        The file.
    settings : Settings
        Which must be those of then.
    names : list of str
        The organizations, which must be those of then, in any order.

    Returns
    -------
    Stage
        How far the training had come.
    dict of str to Tensor
        State of the coupling.
    """
    archive = read_archive(path, _CHECKPOINT)
    facts, tensors = archive.facts, archive.tensors
    try:
        _check_same(path, facts, settings, names)
        joint = Joint(
            facts["names"],
            History(facts["history"]),
            tensors["W"].numpy() if "W" in tensors else None,
            tensors["C"].numpy() if "C" in tensors else None,
            facts["present"],
            facts["dropped"],
            facts["privacy"],
        )
        soft_labels = {
            name: Message(
                "round", told, {k: x.numpy() for k, x in _part(tensors, f"lesson.{i}.").items()}
            )
            for i, (name, told) in enumerate(facts["soft_labels"])
        }
        stage = Stage(
            Agreement(**facts["agreement"]),
            joint,
            facts["round"],
            soft_labels,
            facts["pool"],
            {k: x.numpy() for k, x in _part(tensors, "shared.").items()},
        )
    except (KeyError, TypeError) as error:
        raise _CHECKPOINT.refuse(path, f"its parts do not fit ({error})") from error
    return stage, _part(tensors, "center.")


def _check_same(path: Path, facts: Mapping[str, Any], settings: Settings, names: list[str]) -> None:
    now = {**settings.to_json(), "organizations": sorted(names)}
    then = {**facts["settings"], "organizations": sorted(facts["names"])}
    differ = [k for k in now if now[k] != then.get(k)]
    if differ:
        raise ValueError(
            f"Expected {path} to be of a training with the same settings, but {differ[0]} was "
            f"{then.get(differ[0])!r} then and is {now[differ[0]]!r} now. Delete the file to begin "
            "anew."
        )


def _part(tensors: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {k.removeprefix(start): x for k, x in tensors.items() if k.startswith(start)}


def write_outcome(path: Path, joint: Joint) -> None:
    """Write what came of a training, whole or not at all; the model is with the organizations.

    Parameters
    ----------
    path : Path
        A JSON file.
    joint : Joint
        What `Coordinator.run` gave.

    Examples
    --------
    >>> import json
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated import Joint
    >>> from hotview.federated.server_state import write_outcome
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_outcome(Path(folder) / "outcome.json", Joint(["clinical", "genetic"]))
    ...     print(json.loads((Path(folder) / "outcome.json").read_text())["organizations"])
    ['clinical', 'genetic']
    """
    told: dict[str, Any] = {
        "organizations": joint.names,
        "finished": joint.finished,
        "plan": None
        if joint.W is None or joint.C is None
        else {"names": joint.present, "W": joint.W.tolist(), "C": joint.C.tolist()},
        "privacy": joint.privacy,
        "dropped": joint.dropped,
        "history": list(joint.history),
    }
    with whole_file(path) as draft:
        draft.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
