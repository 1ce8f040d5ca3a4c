"""What the coordinator knows in the end, as a file that people and programs can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hotview._files import atomic_write
from hotview.federated.joint import Joint

__all__ = ["write_outcome"]


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
    >>> from hotview.federated.outcome import write_outcome
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
    with atomic_write(path) as draft:
        draft.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
