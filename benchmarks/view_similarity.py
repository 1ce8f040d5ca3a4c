"""Which views belong together: planted groups, controls, real data, and what it costs.

    python benchmarks/view_similarity.py [--data PATH] [--jobs 2] [--parts planted plan real seeds
        time] [--draws 40] [--out results/default/view_similarity.jsonl]

PATH is a folder with the files of `DATASETS`; without it only Handwritten is run. One line of the
output is one cell; lines that are there are not run again.

- `planted`: groups of views of `make_views` by their linked rows, with and without labels, and
  controls without groups; seeds 10000 and on, which chose nothing;
- `plan`: the paper's couplings on the same draws, told the number of groups;
- `real`: disjoint draws of linked rows, their agreement with all rows, and with how well the
  columns of one view predict those of another on rows that were never linked;
- `seeds`: the same linked rows with ten seeds, and the paper's plan with ten seeds;
- `time`: seconds of the similarity beside those of the whole fit.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # draws run side by side

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import spearmanr
from situation_data import load
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.metrics import adjusted_rand_score

from hotview import HOTPairwiseSpec, HOTReferenceSpec, MultiViewClassifier, MultiViewEncoder
from hotview.datasets import load_handwritten, make_views, unalign
from hotview.estimators import fit as fit_module
from hotview.similarity import ViewSimilarity, alignment, view_similarity
from hotview.similarity.view_similarity import N_COMPONENTS, measure_linked_rows
from hotview.training.view_plan import match_columns

OUT = Path(__file__).parent.parent / "results" / "default" / "view_similarity.jsonl"
FIRST, N_ROWS = 10_000, 600
#: settings of `make_views`, by name
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "noise 0.4": {"noise": 0.4},
    "nonlinear": {"nonlinear": True},
    "unequal widths": {"widths": (5, 80)},
}
CONTROLS: dict[str, dict[str, Any]] = {
    "junk": {"n_views": 1, "n_groups": 1, "n_junk": 6},
    "independent": {"n_views": 6, "n_groups": 6, "class_sep": 0.0},
    "share the class alone": {"n_views": 6, "n_groups": 6},
    "all in one group": {"n_views": 6, "n_groups": 1},
    "all in one group, unequal widths": {"n_views": 6, "n_groups": 1, "widths": (5, 80)},
    "2 groups and a junk view": {"n_views": 6, "n_groups": 2, "n_junk": 1},
}
LINKED = (0, 20, 60, 200)
DATASETS = ("handwritten", "caltech7", "caltech20", "msrc_v1", "prokaryotic", "mnist4")
PAIRS = ("snareseq", "scgem", "webkb", "wikipedia")  # two views: one pair each
N_DRAWS, N_SEEDS = 10, 10
N_TRUTH = 1000  # rows that stand for all


class Rows:
    """Standardized rows of a view."""

    def __init__(self, X: Any) -> None:
        X = np.asarray(X, dtype=np.float64)
        std = X.std(axis=0)
        self.X, self.n_rows = (X - X.mean(axis=0)) / np.where(std > 0, std, 1.0), len(X)

    def take(self, rows: Any) -> Any:
        """Rows by number."""
        return self.X[rows]


def measure(tables: list[Any], rows: Any, classes: Any, seed: int) -> ViewSimilarity | None:
    """The similarity of views whose row i is one individual, by some linked rows."""
    views = [Rows(X) for X in tables]
    n = [min(N_COMPONENTS, *view.X.shape) for view in views]
    components = [PCA(k, random_state=0).fit(view.X) for view, k in zip(views, n, strict=True)]
    links = np.repeat(rows[:, None], len(views), axis=1)
    random = np.random.default_rng(seed)
    return measure_linked_rows(views, components, links, classes, random=random)


def draw(options: dict[str, Any], n_linked: int, seed: int) -> tuple[Any, list[Any]]:
    """A draw of `make_views`, and all rows of every view, linked ones first."""
    options = dict(options)
    if widths := options.pop("widths", None):
        n = options["n_views"] + options.get("n_junk", 0)
        options["n_columns"] = np.geomspace(*widths, n).round().astype(int).tolist()
    data = make_views(N_ROWS, labeled=n_linked / N_ROWS, random_state=seed, **options)
    tables = [np.vstack([data.linked[name], data.views[name]]) for name in data.views]
    return data, tables


def outcome(groups: Any, truth: Any) -> str:
    """r: the right groups, w: wrong ones, n: none."""
    if groups is None:
        return "n"
    return "r" if adjusted_rand_score(groups, truth) == 1 else "w"


def planted_draw(options: dict[str, Any], n_linked: int, seed: int) -> dict[str, Any]:
    """What linked rows of one draw say, with their labels and without."""
    data, tables = draw(options, n_linked, seed)
    truth = np.where(data.view_groups < 0, -1 - np.arange(len(tables)), data.view_groups)
    if options.get("n_views") == 1:  # make_views needs a view that is not junk
        tables, truth = tables[1:], truth[1:]
    found = {}
    for name, classes in (("labels", data.linked_target), ("no_labels", None)):
        result = measure(tables, np.arange(n_linked), classes, seed)
        assert result is not None
        off = ~np.eye(len(tables), dtype=bool)
        part = result.within_classes if name == "labels" and result.within_classes else result
        found[name] = outcome(result.groups, truth)
        found[f"significant_{name}"] = "y" if part.p_value[off].min() <= 0.05 else "n"
        found[f"apart_{name}"] = "y" if intervals_apart(part, result.groups) else "n"
    return found


def intervals_apart(pairs: Any, groups: Any) -> bool:
    """Whether every interval within a group is above every interval between groups."""
    if groups is None:
        return False
    same = groups[:, None] == groups
    within = same & ~np.eye(len(groups), dtype=bool)
    return bool(pairs.low[within].min() > pairs.high[~same].max())


def run_planted(cell: dict[str, Any], n_draws: int) -> dict[str, Any]:
    """One cell of planted groups: a letter for each draw."""
    if cell["linked"] == 0:  # nothing can be measured, and nothing is claimed
        return dict.fromkeys(("labels", "no_labels"), "n" * n_draws)
    options = cell_options(cell)
    draws = [planted_draw(options, cell["linked"], FIRST + i) for i in range(n_draws)]
    return {key: "".join(found[key] for found in draws) for key in draws[0]}


def cell_options(cell: dict[str, Any]) -> dict[str, Any]:
    """Options of `make_views`, and of `draw`."""
    if "control" in cell:
        return CONTROLS[cell["control"]]
    return {"n_views": cell["views"], "n_groups": cell["groups"], **VARIANTS[cell["variant"]]}


def run_plan(cell: dict[str, Any], n_draws: int) -> dict[str, Any]:
    """The paper's couplings on the draws of one cell, told the number of groups."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    G, found = cell["groups"], {"hot-pairwise": "", "hot-reference": ""}
    specs = {"hot-pairwise": HOTPairwiseSpec(), "hot-reference": HOTReferenceSpec(n_references=G)}
    for i in range(n_draws):
        data, _ = draw(cell_options(cell), 0, FIRST + i)
        for name, spec in specs.items():
            options = {"n_components": 4, "preprocessing": "none", "device": "cpu"}
            model = MultiViewEncoder(spec, random_state=FIRST + i, **options).fit(data.views)
            plan = model.plan_
            labels = plan.view_labels(G if plan.pairwise else None).labels
            found[name] += outcome(labels, data.view_groups)
    return found


def upper(X: Any) -> Any:
    return X[np.triu_indices(len(X), 1)]


def run_real(cell: dict[str, Any], data: Path | None) -> dict[str, Any]:
    """Disjoint draws of linked rows of one dataset, beside all rows and held-out prediction."""
    views, y = load(cell["dataset"], data)
    tables, n = list(views.values()), cell["linked"]
    order = np.random.default_rng(FIRST).permutation(len(y))
    n_test = min(len(y) // 3, 700)
    test, train = order[:n_test], order[n_test:]
    n_draws = min(N_DRAWS, len(train) // n)
    found = [measure(tables, train[i * n : (i + 1) * n], y[train[i * n : (i + 1) * n]], i)
             for i in range(n_draws)]  # fmt: skip
    truth, covered = alignment_of_all(tables, order[:N_TRUTH]), []
    for result in found:
        covered += list((upper(result.low) <= truth) & (truth <= upper(result.high)))
    predicted = upper(cross_prediction(tables, train, test))
    several = len(truth) > 2
    between = [correlation(upper(a.value), upper(b.value)) for i, a in enumerate(found)
               for b in found[:i]]  # fmt: skip
    return {
        "n_draws": n_draws,
        "pairs": [f"{a}, {b}" for i, a in enumerate(views) for b in list(views)[i + 1 :]],
        "all_rows": rounded(truth),
        "prediction": rounded(predicted),
        "similarity": [rounded(upper(result.value)) for result in found],
        "groups": [None if result.groups is None else result.groups.tolist() for result in found],
        "coverage": float(np.mean(covered)),
        "rank_all_rows": mean_or_none(several, [correlation(upper(r.value), truth) for r in found]),
        "rank_draws": mean_or_none(several, between),
        "rank_prediction": mean_or_none(
            several, [correlation(upper(r.value), predicted) for r in found]
        ),
    }


def mean_or_none(several: bool, values: list[float]) -> float | None:
    return round(float(np.mean(values)), 4) if several and values else None


def correlation(x: Any, y: Any) -> float:
    return float(spearmanr(x, y).statistic)


def rounded(x: Any) -> list[float]:
    return [round(float(v), 4) for v in x]


def alignment_of_all(tables: list[Any], rows: Any) -> Any:
    """The similarity of all pairs by many rows."""
    few = {"MAX_ROWS": len(rows), "_N_PERMUTATIONS": 1, "_N_HALVES": 1}
    with patch.multiple(view_similarity, **few), patch.object(alignment, "MAX_ROWS", len(rows)):
        result = measure(tables, rows, None, 0)
    assert result is not None
    return upper(result.value)


def cross_prediction(tables: list[Any], train: Any, test: Any) -> Any:
    """Mean of both directions of R²: ridge regressions of components on rows not trained on."""
    Zs = []
    for X in tables:
        rows = Rows(X).X
        Zs.append(PCA(min(N_COMPONENTS, *rows.shape), random_state=0).fit_transform(rows))
    train, R = train[:1000], np.zeros((len(Zs), len(Zs)))
    for s, A in enumerate(Zs):
        for t, B in enumerate(Zs):
            if s != t:
                model = RidgeCV(np.logspace(-2, 5, 15)).fit(A[train], B[train])
                rest = ((B[test] - model.predict(A[test])) ** 2).sum()
                R[s, t] = 1 - rest / ((B[test] - B[test].mean(axis=0)) ** 2).sum()
    return (R + R.T) / 2


def run_seeds(cell: dict[str, Any], data: Path | None) -> dict[str, Any]:
    """Ten seeds of the similarity on the same linked rows, and of the paper's plan."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    views, y = load(cell["dataset"], data)
    rows = np.random.default_rng(FIRST).permutation(len(y))[:60]
    tables = list(views.values())
    found = [measure(tables, rows, y[rows], seed) for seed in range(N_SEEDS)]
    split = unalign(views, y, random_state=0)
    plans, means = [], []
    for seed in range(N_SEEDS):
        model = MultiViewClassifier(random_state=seed, device="cpu")
        model.fit(split.linked, split.target, unaligned=split.unaligned)
        plans.append(model.plan_)
        own = zip(model.plans_, match_columns(model.plans_), strict=True)
        means.append(np.mean([plan.W[:, order] for plan, order in own], axis=0))
    orders, S = match_columns(plans), len(views)
    return {
        "similarity_std": float(np.std([upper(r.value) for r in found], axis=0).max()),
        "end_std": float(np.std([upper(r.low) for r in found], axis=0).max()),
        "groups": [None if r.groups is None else r.groups.tolist() for r in found],
        "plan_groups": [plan.view_labels().labels.tolist() for plan in plans],
        # Standard deviations of shares of a view: W times the number of views.
        "plan_std_members": S * float(np.mean([plan.std for plan in plans])),
        "plan_std_seeds": S * spread([plan.W for plan in plans], orders),
        "plan_std_seeds_mean_of_plans": S * spread(means, orders),
    }


def spread(Ws: list[Any], orders: list[Any]) -> float:
    """Mean standard deviation of entries over plans whose columns are matched."""
    matched = [W[:, order] for W, order in zip(Ws, orders, strict=True)]
    return float(np.std(matched, axis=0, ddof=1).mean())


def run_time(cell: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a default fit, and of the similarity in it: the median of five."""
    digits = load_handwritten()
    if cell["data"] == "digits":
        split = unalign(digits.views, digits.target, labeled=cell["linked"] / 1200, random_state=0)
        given = split.linked, split.target, split.unaligned
    else:
        made = make_views(1000, n_views=12, labeled=cell["linked"] / 1000, random_state=0)
        given = made.linked, made.linked_target, made.views
    seconds: list[list[float]] = []
    original = fit_module.measure_similarity

    def timed(*stages: Any) -> Any:
        began = time.perf_counter()
        found = original(*stages)
        seconds[-1].append(time.perf_counter() - began)
        return found

    with patch.object(fit_module, "measure_similarity", timed):
        for _ in range(5):
            seconds.append([time.perf_counter()])
            MultiViewClassifier(random_state=0, device="cpu").fit(*given[:2], unaligned=given[2])
            seconds[-1][0] = time.perf_counter() - seconds[-1][0]
    fit, similarity = np.median(seconds, axis=0)
    return {"fit": float(fit), "similarity": float(similarity), "share": float(similarity / fit)}


def cells(parts: list[str]) -> Iterator[dict[str, Any]]:
    """All cells, each with its part."""
    shapes = [(S, G) for S in (6, 12) for G in (2, 3, 4)]
    if "plan" in parts:
        for S, G in reversed(shapes):
            for variant in VARIANTS:
                yield {"part": "plan", "views": S, "groups": G, "variant": variant}
    if "planted" in parts:
        for n in LINKED[::-1]:
            for S, G in reversed(shapes):
                for variant in VARIANTS:
                    where = {"views": S, "groups": G, "variant": variant, "linked": n}
                    yield {"part": "planted", **where}
            if n > 0:
                for control in CONTROLS:
                    yield {"part": "planted", "control": control, "linked": n}
    if "real" in parts:
        for dataset in (*DATASETS, *PAIRS):
            for n in LINKED[1:]:
                yield {"part": "real", "dataset": dataset, "linked": n}
    if "seeds" in parts:
        yield from ({"part": "seeds", "dataset": dataset} for dataset in DATASETS)
    if "time" in parts:
        for data in ("digits", "12 views"):
            yield from ({"part": "time", "data": data, "linked": n} for n in (60, 240))


def run(cell: dict[str, Any], n_draws: int, data: Path | None) -> dict[str, Any]:
    """One cell with its result."""
    part = cell["part"]
    if part in ("planted", "plan"):
        result = (run_planted if part == "planted" else run_plan)(cell, n_draws)
    elif part == "time":
        result = run_time(cell)
    else:
        result = (run_real if part == "real" else run_seeds)(cell, data)
    return {**cell, **result}


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    every = ["planted", "plan", "real", "seeds", "time"]
    parser.add_argument("--parts", nargs="+", default=every, choices=every)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    keys = ("part", "views", "groups", "variant", "control", "linked", "dataset", "data")
    done = {key(json.loads(line), keys) for line in lines}
    todo = [cell for cell in cells(options.parts) if key(cell, keys) not in done]
    if options.data is None:
        todo = [cell for cell in todo if cell.get("dataset", "handwritten") == "handwritten"]
    parallel = Parallel(n_jobs=options.jobs, return_as="generator_unordered", batch_size=1)
    jobs = (delayed(run)(cell, options.draws, options.data) for cell in todo)
    with options.out.open("a") as file:
        for i, line in enumerate(parallel(jobs)):
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{i + 1} of {len(todo)}: {key(line, keys)}", flush=True)


def key(line: dict[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    """What a cell is known by; `groups` of a result is a list, and not part of it."""
    return tuple(v if not isinstance(v := line.get(k), list) else None for k in keys)


if __name__ == "__main__":
    main()
