"""What a model knows of itself, in words and in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotview.evaluation.record.model_facts import describe_settings

__all__ = ["describe_model", "federation_lines", "result_lines"]


def describe_model(estimator: Any) -> dict[str, Any]:
    """Everything a model file tells, in plain values.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.

    Returns
    -------
    dict
        That JSON can hold.
    """
    facts: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "views": dict(estimator.n_features_per_view_),
        "replicas": len(estimator.networks_),
        "parameters_of_networks": _n_parameters(estimator),
        "epochs": len(estimator.history_),
        "last_epoch": dict(list(estimator.history_)[-1]) if len(estimator.history_) else {},
        "changed_parameters": {s.name: s.value for s in describe_settings(estimator) if s.changed},
        "trained_on": estimator.trained_on_,
        "remarks": list(estimator.remarks_),
        "notes": estimator.notes_,
        "plan": None,
    }
    if hasattr(estimator, "classes_"):
        facts["classes"] = estimator.classes_.tolist()
    if (plan := estimator.plan_) is not None:
        facts["plan"] = {
            "W": plan.W.tolist(),
            "C": plan.C.tolist(),
            "groups": estimator.view_labels_.tolist(),
            "p_value": None if plan.null is None else plan.null.p_value,
        }
    return facts


def _n_parameters(estimator: Any) -> int:
    return sum(p.numel() for network in estimator.networks_ for p in network.parameters())


def federation_lines(notes: Mapping[str, Any]) -> list[str]:
    """Of which federation a model is, in a few sentences; none where it is of none.

    Parameters
    ----------
    notes : dict
        Of the model.

    Returns
    -------
    list of str
        Sentences.

    Examples
    --------
    >>> federation_lines({"federated": {"names": ["clinical", "genetic"], "plan": None}})
    ['Trained by a federation of clinical, genetic; this is the part of one of them.']
    >>> federation_lines({})
    []
    """
    if (told := notes.get("federated")) is None:
        return []
    joined = told.get("joined")
    which = "this is the part of one of them" if joined is None else f"joined: {', '.join(joined)}"
    lines = [f"Trained by a federation of {', '.join(told['names'])}; {which}."]
    if (plan := told.get("plan")) is not None:
        W = np.array(plan["W"])
        rows = zip(plan["names"], W / W.sum(1, keepdims=True), strict=True)
        lines.append("Plan W, rows adding up to 1:")
        lines += [f"  {name}: {', '.join(f'{w:.2f}' for w in row)}" for name, row in rows]
    return lines


def result_lines(estimator: Any, found: Any = None) -> list[str]:
    """What came of a fit, in a few sentences.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.
    found : Assessment or None, default=None
        How it did on rows that were held out.

    Returns
    -------
    list of str
        Sentences.
    """
    seconds = estimator.trained_on_.get("seconds")
    n, replicas = len(estimator.history_), len(estimator.networks_)
    several = f"{replicas} networks" if replicas > 1 else "One network"
    took = "" if seconds is None else f", {seconds:.0f} s in all"
    lines = [f"{several}, {n} {'epoch' if n == 1 else 'epochs'}{took}."]
    if estimator.view_labels_ is not None:
        names, labels = np.array(estimator.view_names_), estimator.view_labels_
        groups = [", ".join(names[labels == k]) for k in np.unique(labels)]
        lines.append(f"Groups of views by the plan: {'; '.join(groups)}.")
    if found is not None:
        share = found.accuracy
        lines.append(
            f"Held-out rows: {100 * share.value:.1f} % of {share.n} right (95 % interval "
            f"{100 * share.low:.0f} to {100 * share.high:.0f} %)."
        )
    return lines
