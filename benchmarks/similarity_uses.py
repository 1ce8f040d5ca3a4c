"""Two uses of the similarity of views by linked rows: weights of label transfer, and of a coupling.

    python benchmarks/similarity_uses.py --data PATH [--jobs 2] [--parts transfer coupling]
        [--trials 10 5] [--datasets handwritten] [--out results/default/similarity_uses.jsonl]
    python benchmarks/similarity_uses.py --summary [--out ...]

PATH is as for situations.py; without it only Handwritten is run. One line of the output is one
method on one split; lines that are there are not run again. ``--summary`` prints mean differences
to the controls on the same splits, with 95 % t intervals: of Nadeau and Bengio (2003), for splits
that overlap.

Transfer: all views but one have labels, as in situation C, and n rows without labels are linked.
All sources but two are junk: their rows are permuted within the view ("rows": neither its labels
nor its links are right), or their linked rows alone are ("links": its classifier is good, and what
it says about linked rows is wrong). Test rows have the target alone. Methods weigh the sources of a
target, in transport and in the sum of log-likelihoods of linked rows:

- current: transport by profiles (`source_weights`), equal weights of log-likelihoods;
- equal: equal weights in both;
- similarity, transport: proportional to max(similarity, 0)² in transport alone;
- similarity: in both;
- significant: current, without sources whose similarity to the target is not significant;
- agreement: as similarity, by the agreement of profiles, which transport has already;
- oracle: current, without junk.

Coupling: the paper's protocol, 5 % linked labels (20 % in MSRC-v1, where 5 % are 6 rows); all views
at hand. Weights of pairs in the sliced coupling are the entropic plan over 1 − similarity of the
linked rows, or of permuted ones, the control. Three views have one symmetric plan alone, so that
datasets have five or six.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # trials run side by side

import numpy as np
import torch
from joblib import Parallel, delayed
from situation_data import Task, load, take
from situations import read, score
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from hotview import CouplingSpec, HOTPairwiseSpec, MultiViewClassifier, SWPairwiseSpec
from hotview._files import atomic_write
from hotview.datasets import split_rows, unalign
from hotview.losses import Planner, SWPairwise
from hotview.semisupervised import label_transfer, soft_labels
from hotview.semisupervised.label_transfer import (
    anchor_profiles,
    linked_nodes,
    profile_agreement,
)
from hotview.similarity.view_similarity import N_COMPONENTS, measure_linked_rows
from paper.statistics import half_width

OUT = Path(__file__).parent.parent / "results" / "default" / "similarity_uses.jsonl"
PARTS, TRIALS = ("transfer", "coupling"), (10, 5)
#: dataset, view without labels, linked rows, share of labels
CASES = (
    ("handwritten", "fac", 20, 0.05),
    ("handwritten", "mor", 40, 0.05),
    ("msrc_v1", "CENTRIST", 20, 0.2),
    ("caltech20", "LBP", 40, 0.05),
)
JUNK, N_GOOD = ("none", "rows", "links"), 2
TRANSFERS = (
    "current",
    "equal",
    "similarity, transport",
    "similarity",
    "significant",
    "agreement",
    "oracle",
)
COUPLED = (("handwritten", 0.05), ("caltech7", 0.05), ("msrc_v1", 0.2))  # and share of labels
COUPLINGS = ("sw-pairwise", "hot-pairwise", "similarity", "permuted")
WEIGHTS = (0.1, 1.0)
MODELS: dict[str, dict[str, Any]] = {"default": {}, "no pseudo-labels": {"pseudo_labels": False}}
LEVEL = 0.05  # of p-values
KEYS = ("part", "dataset", "setting", "trial", "method")


def measure(views: dict[str, tuple[Any, Any]], random: np.random.Generator) -> Any:
    """Similarity of views, each of linked rows and others, as an estimator measures it."""
    rows, components = [], []
    for linked, others in views.values():
        X = StandardScaler().fit_transform(np.concatenate([linked, others]))
        rows.append(Rows(X))
        components.append(PCA(min(N_COMPONENTS, *X.shape), random_state=0).fit(X))
    n = len(next(iter(views.values()))[0])
    links = np.repeat(np.arange(n)[:, None], len(rows), axis=1)
    return measure_linked_rows(rows, components, links, random=random)


class Rows:
    """Rows of an array."""

    def __init__(self, X: Any) -> None:
        self.X, self.n_rows = X, len(X)

    def take(self, rows: Any) -> Any:
        """Rows by number."""
        return self.X[rows]


# --- label transfer ---------------------------------------------------------------------------


def draw_transfer(
    dataset: str, target: str, n: int, share: float, junk: str, trial: int, data: Path
) -> tuple[Task, list[str]]:
    """Labels in all views but one, the target; and the names of sources that are junk."""
    views, y = load(dataset, data)
    split = split_rows(len(y), labeled=share, random_state=trial)
    first, second = np.array_split(split.train, 2)
    n_labeled = len(split.labeled)
    linked = first[n_labeled : n_labeled + n]
    rest = np.concatenate([first[:n_labeled], first[n_labeled + n :]])
    random = np.random.default_rng(3000 + trial)
    sources = [v for v in views if v != target]
    wrong = sorted(random.permutation(sources)[N_GOOD:].tolist())
    order = {v: random.permutation(len(y)) for v in wrong}
    if junk == "rows":
        views = {**views, **{v: views[v][order[v]] for v in wrong}}
    task = Task(take(views, linked), np.full(n, -1))
    if junk == "links":
        for v in wrong:
            task.linked[v] = task.linked[v][np.argsort(order[v][:n])]
    task.unaligned = {**{v: views[v][rest] for v in sources}, target: views[target][second]}
    codes = np.where(np.arange(len(rest)) < n_labeled, y[rest], -1)
    task.unaligned_y = dict.fromkeys(sources, codes)
    task.tests[target] = {target: views[target][split.test]}, y[split.test]
    return task, wrong if junk != "none" else []


def weigh_sources(method: str, similarity: Any, junk: Any, current: Any, agreement: Any) -> Any:
    """Weights of sources, from their similarity to the target and other columns."""
    if method == "similarity":
        weights = np.maximum(similarity.value, 0.0) ** 2
    elif method == "agreement":
        weights = agreement
    elif method == "significant":
        weights = current * (similarity.p_value < LEVEL)
    elif method == "oracle":
        weights = current * ~junk
    else:
        weights = np.ones(len(current)) if method == "equal" else current
    return weights if weights.max(initial=0.0) > 0 else current


class Column:
    """Similarities and p-values of some views to one."""

    def __init__(self, similarity: Any, sources: list[int], t: int) -> None:
        self.value, self.p_value = similarity.value[sources, t], similarity.p_value[sources, t]


@contextmanager
def weighted(method: str, similarity: Any, junk: Any) -> Iterator[None]:
    """Label transfer with other weights of the sources."""
    by_transport, by_profiles = label_transfer._receive_labels, label_transfer.source_weights
    now: dict[str, Any] = {}
    name = method.removesuffix(", transport")

    def transport(graphs: Any, links: Any, logits: Any, prior: Any, t: int, random: Any) -> Any:
        # As in the package: views with labels that have linked nodes in common with the target.
        now["target"] = t
        now["sources"] = [s for s in told_by(logits) if len(pairs_of(graphs, links, s, t)) > 0]
        return by_transport(graphs, links, logits, prior, t, random)

    def source_weights(P: Any, Q: Any, linked: Any, *, random: Any) -> Any:
        current = by_profiles(P, Q, linked, random=random)
        agreement = np.array(list(map(profile_agreement, P, Q, linked)))
        column = Column(similarity, now["sources"], now["target"])
        w = weigh_sources(name, column, junk[now["sources"]], current, agreement)
        return w / w.sum()

    def linked_likelihoods(graphs: Any, links: Any, logits: Any, t: int, n_classes: int) -> Any:
        sources = [s for s in told_by(logits) if s != t]
        agreement = np.array([agree(graphs, links, s, t, name) for s in sources])
        column = Column(similarity, sources, t)
        w = weigh_sources(name, column, junk[sources], np.ones(len(sources)), agreement)
        w = w / w.max(initial=1e-300)  # equal ones are those of the package
        total, number = np.zeros((len(links), n_classes)), np.zeros((len(links), 1))
        for s, weight in zip(sources, w, strict=True):
            node = graphs[s].node_numbers(links[:, s])
            total[node >= 0] += weight * logits[s][node[node >= 0]]
            number[node >= 0] += weight
        node = graphs[t].node_numbers(links[:, t])
        told = (node >= 0) & (number[:, 0] > 0)
        return node[told], total[told] / np.sqrt(number[told])

    with ExitStack() as stack:
        if method != "current":
            patches = {"_receive_labels": transport, "source_weights": source_weights}
            stack.enter_context(mock.patch.multiple(label_transfer, **patches))
            if name == method:
                change = soft_labels, "_linked_likelihoods", linked_likelihoods
                stack.enter_context(mock.patch.object(*change))
        yield


def told_by(logits: Any) -> list[int]:
    """Views with labels."""
    return [s for s, of_view in enumerate(logits) if of_view is not None]


def pairs_of(graphs: Any, links: Any, s: int, t: int) -> Any:
    """Linked nodes of two views."""
    return linked_nodes(graphs[s], graphs[t], links[:, [s, t]])


def agree(graphs: Any, links: Any, s: int, t: int, method: str) -> float:
    """Agreement of the profiles of linked rows, where the method needs it."""
    if method != "agreement":
        return 1.0
    pairs = pairs_of(graphs, links, s, t)
    P, Q = (anchor_profiles(graphs[v].adjacency, pairs[:, i]) for i, v in enumerate((s, t)))
    return profile_agreement(P, Q, pairs)


def run_transfer(
    case: tuple[str, str, int, float], junk: str, trial: int, methods: tuple, data: Path
) -> list[dict[str, Any]]:
    """All methods on one split."""
    warnings.simplefilter("ignore")
    task, wrong = draw_transfer(*case, junk, trial, data)
    target = case[1]
    views = {v: (task.linked[v], task.unaligned[v]) for v in task.linked}
    similarity = measure(views, np.random.default_rng(trial))
    is_junk = np.array([v in wrong for v in views])
    t = list(views).index(target)
    where = {
        "part": "transfer",
        "dataset": case[0],
        "setting": f"{target}, {case[2]} linked, junk: {junk}",
        "trial": trial,
    }
    lines = []
    for method in methods:
        began = time.process_time()
        with weighted(method, similarity, is_junk):
            model = fit(trial, task.arguments())
        (X, y) = task.tests[target]
        found = score(model.predict_proba(X), model.classes_, y)
        seconds = round(time.process_time() - began, 2)
        lines.append({**where, "method": method, **found, "seconds": seconds})
    others = np.arange(len(views)) != t
    for name in ("good", "junk"):
        chosen = others & (is_junk == (name == "junk"))
        lines[0][f"similarity, {name}"] = similarity.value[chosen, t].round(3).tolist()
        lines[0][f"p, {name}"] = similarity.p_value[chosen, t].round(3).tolist()
    return lines


def fit(trial: int, arguments: dict[str, Any], **options: Any) -> Any:
    """A fitted classifier."""
    model = MultiViewClassifier(random_state=trial, device="cpu", verbose=False, **options)
    return model.fit(**arguments)


# --- coupling ---------------------------------------------------------------------------------


class WeightedSliced(SWPairwise):
    """Sliced Wasserstein between all pairs of views, with given weights of the pairs."""

    def __init__(self, W: Any, orthogonality_weight: float) -> None:
        super().__init__(orthogonality_weight)
        self.register_buffer("W", torch.as_tensor(W))

    def weights(self, C: torch.Tensor) -> torch.Tensor:
        """The given weights."""
        return self.W.to(C)


class WeightedSlicedSpec(CouplingSpec):
    """Specification of WeightedSliced."""

    def __init__(self, W: Any, weight: float = 0.1, *, orthogonality_weight: float = 0.01) -> None:
        self.W, self.weight = W, weight
        self.orthogonality_weight = orthogonality_weight

    def build(self, sizes: Any) -> WeightedSliced:
        """Build the module."""
        return WeightedSliced(self.W, self.orthogonality_weight)


def plan_pairs(similarity: Any) -> Any:
    """The entropic plan over 1 − similarity, without the diagonal."""
    C = torch.as_tensor(1 - similarity.value)
    return Planner().solve(C, pairwise=True).W.numpy()


def run_coupling(
    dataset: str, share: float, model: str, trial: int, methods: tuple, data: Path
) -> list[dict[str, Any]]:
    """Some couplings on one split."""
    warnings.simplefilter("ignore")
    views, y = load(dataset, data)
    found = unalign(views, y, labeled=share, random_state=trial)
    random = np.random.default_rng(4000 + trial)
    tables = {v: (found.linked[v], found.unaligned[v]) for v in found.linked}
    wrong = {v: (random.permutation(linked), others) for v, (linked, others) in tables.items()}
    plans = {
        "similarity": plan_pairs(measure(tables, random)),
        "permuted": plan_pairs(measure(wrong, random)),
    }
    arguments = {"Xs": found.linked, "y": found.target, "unaligned": found.unaligned}
    where = {"part": "coupling", "dataset": dataset, "setting": model, "trial": trial}
    lines = []
    for method in methods:
        began = time.process_time()
        coupling = make_coupling(method, plans)
        fitted = fit(trial, arguments, coupling=coupling, **MODELS[model])
        P = fitted.predict_proba(found.test)
        scores = score(P, fitted.classes_, np.asarray(found.test_target))
        seconds = round(time.process_time() - began, 2)
        lines.append({**where, "method": method, **scores, "seconds": seconds})
        if method.startswith(("similarity", "permuted")):
            lines[-1]["W"] = (len(views) * plans[method.split()[0]]).round(3).tolist()
    return lines


def make_coupling(method: str, plans: dict[str, Any]) -> Any:
    """A coupling by name and weight."""
    if method == "none":
        return "none"
    name, weight = method.rsplit(" ", 1)
    if name in plans:
        return WeightedSlicedSpec(plans[name], float(weight))
    return {"sw-pairwise": SWPairwiseSpec, "hot-pairwise": HOTPairwiseSpec}[name](float(weight))


# --- all of it --------------------------------------------------------------------------------


def jobs(arguments: argparse.Namespace, done: set[tuple]) -> list[tuple]:
    """What is to be run: functions, and arguments without the path."""
    found: list[tuple] = []
    trials = dict(zip(PARTS, arguments.trials, strict=True))

    def left(part: str, dataset: str, setting: str, trial: int, methods: Any) -> tuple:
        return tuple(m for m in methods if (part, dataset, setting, trial, m) not in done)

    for case in CASES if "transfer" in arguments.parts else ():
        if case[0] in arguments.datasets:
            for junk in JUNK:
                setting = f"{case[1]}, {case[2]} linked, junk: {junk}"
                names = TRANSFERS[:-1] if junk == "none" else TRANSFERS
                for trial in range(trials["transfer"]):
                    if methods := left("transfer", case[0], setting, trial, names):
                        found.append((run_transfer, case, junk, trial, methods))
    names = ("none", *(f"{name} {weight}" for name in COUPLINGS for weight in WEIGHTS))
    for dataset, share in COUPLED if "coupling" in arguments.parts else ():
        if dataset in arguments.datasets:
            for model in MODELS:
                for trial in range(trials["coupling"]):
                    if methods := left("coupling", dataset, model, trial, names):
                        found.append((run_coupling, dataset, share, model, trial, methods))
    return found


def interval(differences: Any) -> tuple[float, float]:
    """Mean and reach of the corrected t interval of differences on random splits."""
    d = np.asarray(differences)
    return float(d.mean()), half_width(d)


def summarize(lines: list[dict[str, Any]]) -> None:
    """Print means, and differences to the controls: by dataset, and of means over all of them."""
    cells: dict[tuple, dict[str, dict[int, Any]]] = {}
    for line in lines:
        cell = cells.setdefault((line["part"], line["dataset"], line["setting"]), {})
        scores = np.array([line["accuracy"], line["log_loss"]])
        cell.setdefault(line["method"], {})[line["trial"]] = scores
    for cell, methods in {**cells, **pool(cells)}.items():
        print("\n" + ", ".join(cell))
        for method, runs in methods.items():
            accuracy, loss = np.mean(list(runs.values()), axis=0)
            print(f"  {method:22} n={len(runs):2}  {accuracy:.4f} {loss:7.4f}", end="")
            for control in controls(cell[0], method):
                if control != method and control in methods:
                    print(f"  vs {control}: {compare(runs, methods[control])}", end="")
            print()
    print(f"\n{sum(line['seconds'] for line in lines) / 60:.1f} CPU-minutes in {len(lines)} fits")


def pool(cells: dict[tuple, dict]) -> dict[tuple, dict]:
    """Means over all datasets, of the splits that all of them have."""
    found: dict[tuple, dict[str, dict[int, Any]]] = {}
    kinds: dict[tuple, list[dict]] = {}
    for (part, _, setting), methods in cells.items():
        kinds.setdefault((part, "mean of datasets", setting.split(", ")[-1]), []).append(methods)
    for kind, of_cells in kinds.items():
        for method in of_cells[0]:
            runs = [cell.get(method, {}) for cell in of_cells]
            if trials := set.intersection(*map(set, runs)):
                means = {t: np.mean([run[t] for run in runs], axis=0) for t in trials}
                found.setdefault(kind, {})[method] = means
    return found


def compare(runs: dict[int, Any], control: dict[int, Any]) -> str:
    """Differences of accuracy and log loss on the same splits; * where the interval is off 0."""
    differences = np.array([runs[t] - control[t] for t in sorted(runs.keys() & control.keys())])
    texts = []
    for d, digits in zip(differences.T, (4, 3), strict=True):
        mean, reach = interval(d)
        star = "*" if abs(mean) > reach else " "
        texts.append(f"{mean:+.{digits}f} ± {reach:.{digits}f}{star}")
    return " ".join(texts)


def controls(part: str, method: str) -> tuple[str, ...]:
    """Controls of a method."""
    if part == "transfer":
        return ("current", "equal")
    name, _, weight = method.rpartition(" ")
    return ("none", *(f"{c} {weight}" for c in ("sw-pairwise", "permuted") if name == "similarity"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--trials", nargs=2, type=int, default=TRIALS, help="of both parts")
    parser.add_argument("--datasets", nargs="*")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--summary", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.summary:
        known = {name for name, *_ in (*CASES, *COUPLED)} if arguments.data else {"handwritten"}
        arguments.datasets = known.intersection(arguments.datasets or known)
        run(arguments)
    summarize(read(arguments.out))


def run(arguments: argparse.Namespace) -> None:
    """Run what is not there."""
    todo = jobs(arguments, {tuple(line[k] for k in KEYS) for line in read(arguments.out)})
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(todo)} splits to run, on {arguments.jobs} cores", flush=True)
    began = time.perf_counter()
    found = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
        delayed(function)(*job, arguments.data) for function, *job in todo
    )
    for i, lines in enumerate(found, start=1):
        with arguments.out.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
        if i % 10 == 0 or i == len(todo):
            print(f"{i} of {len(todo)}, {time.perf_counter() - began:.0f} s", flush=True)
    order = ["none", *TRANSFERS, *(f"{name} {w}" for w in WEIGHTS for name in COUPLINGS)]
    lines = sorted(
        read(arguments.out),
        key=lambda line: (*(line[k] for k in KEYS[:-1]), order.index(line["method"])),
    )
    with atomic_write(arguments.out) as draft:
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
