"""Recover planted groups of views, and test whether noise gives no groups.

Run ``python examples/planted_groups.py --trials 20``; it writes the result of every trial to
``results/planted_groups.json``. Views of a group are rotations of the same latent individuals with
noise. Recovery depends on the encoders: they are initialized at principal components, which
preserve the shape of the distribution of rows; columns are in one unit and not standardized; and
the common space has no more dimensions than there are factors. Encoders that are initialized at
random, or very flexible, match any view with any other.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

import torch
from joblib import Parallel, delayed
from sklearn.metrics import adjusted_rand_score

from hotview import HOTPairwiseSpec, HOTReferenceSpec, MultiViewEncoder
from hotview.datasets import make_views

ROOT = Path(__file__).parent.parent
#: Datasets by name: parameters of make_views, and K.
SCENES = {
    "6 views, 2 groups": ({"n_views": 6, "n_groups": 2}, 2),
    "6 views, 3 groups": ({"n_views": 6, "n_groups": 3}, 3),
    "12 views, 2 groups": ({"n_views": 12, "n_groups": 2}, 2),
    "12 views, 3 groups": ({"n_views": 12, "n_groups": 3}, 3),
    "12 views, 4 groups": ({"n_views": 12, "n_groups": 4}, 4),
    "6 views, 2 groups, 1 junk view": ({"n_views": 6, "n_groups": 2, "n_junk": 1}, 2),
    "6 views, all of one group": ({"n_views": 6, "n_groups": 1}, 2),
    "6 views, each of its own": ({"n_views": 6, "n_groups": 6}, 2),
    "6 junk views": ({"n_views": 1, "n_groups": 1, "n_junk": 6}, 2),
}
RANDOM = "6 views, 2 groups, encoders begin at random"
SCENES[RANDOM] = SCENES["6 views, 2 groups"]


def run_trial(scene: str, coupling: str, trial: int, n_rows: int = 600) -> dict:
    """What one encoder found in one draw of views."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    options, n_groups = SCENES[scene]
    data = make_views(n_rows, random_state=trial, **options)
    views, groups = data.views, data.view_groups
    if scene == "6 junk views":  # make_views wants one view that is not
        views = {name: X for name, X in views.items() if name != "view_0"}
        groups = groups[1:]
    spec = {
        "hot-pairwise": HOTPairwiseSpec(n_groups=n_groups),
        "hot-reference": HOTReferenceSpec(n_references=n_groups),
    }[coupling]
    encoder = MultiViewEncoder(
        spec,
        n_components=4,
        initialization="random" if scene == RANDOM else "pca",
        preprocessing="none",
        device="cpu",
        random_state=trial,
    ).fit(views)
    real, null = groups >= 0, encoder.plan_.null
    return {
        "rand_index": float(adjusted_rand_score(groups[real], encoder.view_labels_[real])),
        "p_value": null.p_value,
        "junk_costs_most_before": bool(null.plan.C.sum(1).argmax() == len(groups) - 1),
        "junk_costs_most_after": bool(_costs(encoder.plan_).argmax() == len(groups) - 1),
    }


def _costs(plan: object) -> object:
    return plan.C.sum(axis=1) if plan.pairwise else plan.C.min(axis=1)


def main() -> None:
    """Run all trials, print how often groups and junk are found, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "planted_groups.json")
    parser.add_argument("--first", type=int, default=0, help="seed of the first trial")
    parser.add_argument("--rows", type=int, default=600, help="rows of every view")
    parser.add_argument("--only", action="append", help="a scene to run; others are kept")
    options = parser.parse_args()
    cells = [
        (scene, coupling, trial, options.rows)
        for scene in options.only or SCENES
        for coupling in ("hot-pairwise", "hot-reference")
        for trial in range(options.first, options.first + options.trials)
    ]
    found = Parallel(n_jobs=options.jobs)(delayed(run_trial)(*cell) for cell in cells)
    results: dict[str, dict[str, list[dict]]] = {}
    if options.only and options.out.exists():
        results = json.loads(options.out.read_text())["results"]
        results |= {scene: {} for scene in options.only}
    for (scene, coupling, *_), result in zip(cells, found, strict=True):
        results.setdefault(scene, {}).setdefault(coupling, []).append(result)
    for scene, by_coupling in results.items():
        for coupling, trials in by_coupling.items():
            counts = {
                "groups found": sum(t["rand_index"] == 1 for t in trials),
                "p ≤ 0.05": sum(t["p_value"] <= 0.05 for t in trials),
                "junk told before training": sum(t["junk_costs_most_before"] for t in trials),
                "after": sum(t["junk_costs_most_after"] for t in trials),
            }
            print(f"{scene:32} {coupling:14}", *(f"{k} {n}" for k, n in counts.items()), sep="  ")
    text = json.dumps({"trials": options.trials, "first": options.first, "results": results})
    options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
