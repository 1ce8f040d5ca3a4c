"""How large a model file is, and what it tells about the rows that the model was fitted to.

    python benchmarks/model_files.py [--out results/bench/model_files.json]

The default classifier is fitted to the digits (60 linked rows with a label, 1,140 of every view
without) and to 10,000 rows of 6 views with 64 columns. Of each model:

- megabytes of the model file and of the ONNX file;
- points: what the file holds in the place of the rows of a view, and the share of these that are a
  single row, not the center of a cluster;
- membership: someone who has the file and the columns of a row looks how near the row is to a point
  in the file. AUC of this distance between training rows and rows that were left out, mean over
  views: 0.5 tells nothing, 1.0 tells every training row.

"All neighbors" is the same model with predictors that are not condensed, as every member had them
before: all rows, in float32.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import RESULTS, write_part
from predict_rows import N_FIT, N_LABELED, make_views
from situation_scores import Recorded
from sklearn.metrics import roc_auc_score

from hotview.datasets import load_handwritten, split_rows
from hotview.model import to_onnx
from hotview.nn.batched import NetworkOutputs
from hotview.semisupervised import SemiSupervised
from hotview.semisupervised.nearest import find_nearest

Views = dict[str, np.ndarray]
Used = tuple[SemiSupervised, NetworkOutputs]  # a learner and its networks


def digits() -> tuple[Views, np.ndarray, Views, Views]:
    """Linked rows, their labels, other rows of every view, and rows that are left out."""
    data = load_handwritten()
    split = split_rows(len(data.target), random_state=0)
    linked, others, left_out = (
        {name: X[rows] for name, X in data.views.items()}
        for rows in (split.labeled, split.unlabeled, split.test)
    )
    return linked, data.target[split.labeled], others, left_out


def long_table() -> tuple[Views, np.ndarray, Views, Views]:
    """The same of 10,000 rows of 6 × 64 columns."""
    views, y = make_views(N_FIT, 0)
    linked = {name: X[:N_LABELED] for name, X in views.items()}
    others = {name: X[N_LABELED:] for name, X in views.items()}
    return linked, y[:N_LABELED], others, make_views(2000, 5)[0]


def distances(model: Recorded, used: Used, views: Views) -> list[np.ndarray]:
    """Distance of every row of every view to the nearest point of its predictor."""
    found, (learner, outputs) = [], used
    with torch.inference_mode():
        for s, X in model.take_rows(views).items():
            knn = learner.predictors.views[s]["neighbors"]
            features, _ = outputs.encode(s, X)
            Y = knn.coordinates.project(X, features)
            nearest = find_nearest(knn.points, Y, 1)[:, 0]
            found.append((knn.points[nearest] - Y).norm(dim=1).numpy())
    return found


def membership(model: Recorded, used: Used, inside: Views, outside: Views) -> float:
    """AUC of the distance to the nearest point between rows inside and outside."""
    pairs = zip(distances(model, used, inside), distances(model, used, outside), strict=True)
    return float(np.mean([roc_auc_score(np.r_[0 * a, 0 * b + 1], np.r_[a, b]) for a, b in pairs]))


def single_rows(model: Recorded, used: Used, inside: Views) -> float:
    """Share of the points that are a training row: one is nearer than rounding to them."""
    n_single, n_points, (learner, outputs) = 0, 0, used
    with torch.inference_mode():
        for s, X in model.take_rows(inside).items():
            knn = learner.predictors.views[s]["neighbors"]
            features, _ = outputs.encode(s, X)
            Y = knn.coordinates.project(X, features)
            rows = find_nearest(Y.float(), knn.points.double(), 1)[:, 0]
            far = (Y[rows] - knn.points).norm(dim=1) > 1e-2 * Y.norm(dim=1).mean()
            n_single, n_points = n_single + int((~far).sum()), n_points + len(far)
    return n_single / n_points


def neighbors_of(learner: SemiSupervised) -> list[Any]:
    """The nearest-neighbor predictors of all views."""
    return [own["neighbors"] for own in learner.predictors.views]


def measure(linked: Views, y: np.ndarray, others: Views, left_out: Views) -> dict[str, Any]:
    model = Recorded(random_state=0, device="cpu", verbose=False).fit(linked, y, unaligned=others)
    condensed = model.model_.learner, NetworkOutputs(model.networks_)
    one = model.exact[0]
    weights = sum(p.nbytes for network in model.networks_ for p in network.parameters())
    kept = sum(
        k.points.nbytes + k.soft_labels.nbytes for own, _ in model.exact for k in neighbors_of(own)
    )
    plain = type(model).__mro__[1](**model.get_params(deep=False))
    plain.__dict__ |= {
        k: v for k, v in vars(model).items() if k not in ("exact", "folds", "stages")
    }
    with tempfile.TemporaryDirectory() as folder:
        size = plain.save(Path(folder) / "model.hotview").stat().st_size
        onnx = to_onnx(plain, Path(folder) / "model.onnx").stat().st_size
    return {
        "model_mb": round(size / 1e6, 2),
        "onnx_mb": round(onnx / 1e6, 2),
        "rows": [len(k.points) for k in neighbors_of(one[0])],
        "points": [len(k.points) for k in neighbors_of(condensed[0])],
        "single_rows": round(single_rows(model, condensed, others), 3),
        "membership_auc": round(membership(model, condensed, others, left_out), 3),
        "all_neighbors": {
            "networks_and_points_mb": round((weights + kept) / 1e6, 2),
            "membership_auc": round(membership(model, one, others, left_out), 3),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "model_files.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {}
    for name, make in {"digits": digits, "10,000 rows": long_table}.items():
        found[name] = measure(*make())
        print(name, found[name], flush=True)
    ratios = {"2 MB over the digits' file": 2 / found["digits"]["model_mb"]}
    write_part(
        arguments.out,
        "cpu",
        ratios=ratios,
        targets=dict.fromkeys(ratios, 1.0),
        models=found,
    )


if __name__ == "__main__":
    main()
