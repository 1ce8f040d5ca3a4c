"""The record: what every case computed, and where a new run differs from it."""

import json
import os
import platform
from pathlib import Path

import numpy as np
import scipy
import sklearn
import torch

from tests.golden.digests import digest, values
from tests.golden.stages import STAGES

__all__ = ["RECORD", "compare", "environment", "read", "summarize", "write"]

RECORD = Path(__file__).with_name("record.json")
TOLERANCE = 1e-3  # of probabilities on another machine: some weights are kept in half precision


def environment():
    """What must be equal for equal bits."""
    cpu = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), cpu)
    return {
        "cpu": f"{platform.machine()}, {cpu}, {torch.backends.cpu.get_cpu_capability()}",
        "python": platform.python_version(),
        **{each.__name__: each.__version__ for each in (torch, np, scipy, sklearn)},
    }


def summarize(found):
    """What the record holds of one case.

    Parameters
    ----------
    found : dict of str to object
        Results by stage.

    Returns
    -------
    dict of str to object
        The digest of every stage in their order, and the probabilities.
    """
    unknown = set(found) - set(STAGES)
    assert not unknown, f"Expected stages of STAGES, but got {unknown}. Add them there."
    stages = {name: digest(found[name]) for name in STAGES if name in found}
    summary = {"stages": stages}
    if "probabilities" in found:
        summary["probabilities"] = [values(P) for P in _arrays(found["probabilities"])]
    return summary


def _arrays(result):
    if isinstance(result, list):
        return [array for part in result for array in _arrays(part)]
    return [result]


def read(path=RECORD):
    """The record in a file."""
    return json.loads(Path(path).read_text())


def write(cases, reason, path=RECORD):
    """Write the record, a line for every case."""
    head = {"reason": reason, "environment": environment()}
    lines = [f"  {json.dumps(name)}: {json.dumps(cases[name])}" for name in cases]
    parts = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    text = ",\n".join([*parts, ' "cases": {\n' + ",\n".join(lines) + "\n }"])
    draft = Path(path).with_suffix(f".{os.getpid()}")
    draft.write_text("{\n" + text + "\n}\n")
    draft.replace(path)


def compare(record, cases, here=None):
    """Where a new run differs from the record.

    Parameters
    ----------
    record : dict
        From `read`.
    cases : dict of str to dict
        From `summarize`, by case.
    here : dict or None, default=None
        The environment of the run; None is this one's.

    Returns
    -------
    list of str
        A sentence for every case that differs, which names the first stage that moved; on another
        machine or with other versions, only probabilities are compared.
    """
    same = (here or environment()) == record["environment"]
    found = [
        f"{name}: the record has no such case" for name in cases if name not in record["cases"]
    ]
    for name, before in record["cases"].items():
        if name not in cases:
            found.append(f"{name}: the run has no such case")
            continue
        after = cases[name]
        far = _distance(before.get("probabilities", []), after.get("probabilities", []))
        moved = _moved(before["stages"], after["stages"]) if same else []
        if moved or far > TOLERANCE:
            stages = f"first in '{moved[0]}' (all: {', '.join(moved)})" if moved else "moved"
            found.append(f"{name}: {stages}; probabilities differ by up to {far:.2g}")
    return found


def _moved(before, after):
    return [name for name in STAGES if before.get(name) != after.get(name)]


def _distance(before, after):
    """The largest difference between probabilities; infinite where their shapes differ."""
    before, after = ([np.array(P) for P in given] for given in (before, after))
    if [P.shape for P in before] != [P.shape for P in after]:
        return float("inf")
    return max((float(np.abs(a - b).max()) for a, b in zip(before, after, strict=True)), default=0)
