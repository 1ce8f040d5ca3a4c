"""Put the numbers of the result files into the tables and sentences of the README and the docs.

python benchmarks/readme_tables.py

A table stands between ``<!-- table:NAME -->`` and ``<!-- /table:NAME -->``; a sentence that
compares between ``<!-- sentence:NAME -->`` and ``<!-- /sentence:NAME -->`` (``sentences.py`` makes
these, and lists them). A number in another sentence stands between ``<!--=KEY-->`` and
``<!--/-->``, where KEY is one of

- ``score table/dataset/method/settings/kind``, a mean in percent;
- ``over table/dataset/method/settings``, the difference to the same without coupling, in points,
  with its 95 % interval;
- ``exact task/method/settings``, what the constraint met exactly adds to the penalty, likewise;
- ``situations what``, a number of the eight situations;
- ``similarity what/…``, a number of the similarity of views;
- ``bench file/key/key/…``, a number of a benchmark as it stands, ``percent file/…``, a share, and
  ``megabytes file/…``, bytes;
- ``default dataset``, ``reduced dataset`` and ``uncoupled table/dataset``, mean accuracies of the
  default in the tables of these names, and of it without coupling in one of the paper's;
- ``reported n``, the chance that a row is a test row of one of n splits, in percent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import common_space_tables
import federated_tables
import parts_tables
import sentences
import similarity_tables
import situation_tables
import speed_tables
import trust_tables
from evidence import accuracies, best_simple, paper_scores, values

from paper.published import PUBLISHED
from paper.statistics import TEST_TO_TRAIN, paired_difference

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
#: controls of the table of accuracies, by what the README calls them
CONTROLS = {
    "logistic regression": "logistic regression on the linked rows",
    "PCA + logistic regression": "PCA in each view, then logistic regression",
    "label propagation per view": "label propagation in each view",
    "label propagation, aligned": "label propagation on the aligned concatenation",
    "logistic regression, all labels": "logistic regression with *all* labels (a ceiling)",
}
OURS = {(): "`MultiViewClassifier()`", ("none",): '`MultiViewClassifier(coupling="none")`'}
#: methods of the table of reduced views, by what it calls them
REDUCED = {
    "as before: every column standardized": "every column standardized",
    "reduced, counts and components not recognized": "reduced only",
    "logistic regression": "logistic regression",
    "label propagation per view": "label propagation per view",
}
SIMULATED = ("cells, counts", "cells, components")
WHO = {
    "ours": "hotview",
    "pot": "POT, `sinkhorn`",
    "pot_log": "POT, `sinkhorn_log`",
    "geomloss": "geomloss",
    "ott": "OTT-JAX, compiled and warm",
}


def sliced(record: dict[str, Any]) -> str:
    lines = ["| clouds, points, directions | forward | forward + backward |", "|---|--:|--:|"]
    lines += [
        f"| {r['name']} | {r['ratio_forward']:.0f}× | **{r['ratio_both']:.0f}×** |"
        for r in record["cpu"]["sliced_cost"]
    ]
    return "\n".join(lines)


def sinkhorn(record: dict[str, Any]) -> str:
    """Their time over ours, in float64."""
    (r,) = (r for r in record["cpu"]["sinkhorn"] if r["name"].endswith("float64"))
    lines = ["| their time over ours, float64 | forward | forward + backward |", "|---|--:|--:|"]
    for who, name in WHO.items():
        ratios = [r[f"{who}_{pass_}_us"] / r[f"ours_{pass_}_us"] for pass_ in ("forward", "both")]
        lines.append(f"| {name} | " + " | ".join(f"{x:.2g}×" for x in ratios) + " |")
    return "\n".join(lines)


def _cells(record: dict[str, Any]) -> dict[tuple[str, str, tuple[Any, ...]], str]:
    """Mean and standard deviation of the test accuracy on Handwritten, in percent, by method."""
    found = {}
    for entry in record["cells"]:
        cell = entry["cell"]
        if cell["dataset"] == "handwritten":
            scores = [100 * score for score in entry["scores"]["test"]]
            values = tuple(cell.get("overrides", {}).values())
            key = cell["method"], cell["settings"], values
            found[key] = f"{mean(scores):.1f} ± {stdev(scores):.1f}"
    return found


def handwritten(record: dict[str, Any]) -> str:
    """The paper's rows in both settings, the controls without coupling, and plain methods."""
    found = _cells(record)
    lines = ["| method | the paper reports | its settings | ours |", "|---|--:|--:|--:|"]
    for name, figures in PUBLISHED["semi-supervised"]["handwritten"].items():
        scores = " | ".join(found[name, settings, ()] for settings in ("paper", "robust"))
        lines.append(f"| {name} | {figures[0]:.1f} ± {figures[1]:.1f} | {scores} |")
    for name in ("no coupling", "no coupling + AE"):
        scores = " | ".join(found[name, settings, ()] for settings in ("paper", "robust"))
        lines.append(f"| *{name}* | | {scores} |")
    for own, title in OURS.items():
        lines.append(f"| {title} | | | {found['hotview default', 'robust', own]} |")
    for name, title in CONTROLS.items():
        lines.append(f"| {title} | | | {found[name, '-', ()]} |")
    return "\n".join(lines)


def replicas(record: dict[str, Any]) -> str:
    """Seconds per training one after another, and how many times faster together."""
    lines = [
        "| where | how | seconds a fit | times faster | steps alone |",
        "|---|---|--:|--:|--:|",
    ]
    for part in (record[device] for device in ("cpu", "cuda") if device in record):
        for case in part["cases"]:
            threads = case["threads"]
            where = part["machine"]
            if "cores" in where:
                where = f"CPU, {threads} thread{'s' * (threads > 1)}"
            # One after another first, then fewer before more.
            by_seconds = sorted(case["seconds_per_training"].items(), key=lambda x: -x[1]["fit"])
            for how, seconds in by_seconds:
                ratio = case["ratio"][how]
                lines.append(
                    f"| {where} | {how} | {seconds['fit']:.2f} | {ratio['fit']:.1f}× "
                    f"| {ratio['steps']:.1f}× |"
                )
    return "\n".join(lines)


def runs(text: str) -> str:
    """How long every noted run took, and on what."""
    lines = [
        "| command | machine | trainings | controls | seconds |",
        "|---|---|--:|--:|--:|",
    ]
    for run in map(json.loads, text.splitlines()):
        machine = f"{run['device']}, {run['jobs']} processes"
        lines.append(
            f"| `{run['command']}` | {machine} | {run['trainings']:,} | {run['controls']:,} "
            f"| {run['seconds']:,.0f} |"
        )
    return "\n".join(lines)


DATASETS = {
    "handwritten": "Handwritten",
    "caltech7": "Caltech7, re-extracted",
    "caltech20": "Caltech20, re-extracted",
    "snareseq": "SNARE-seq",
    "scgem": "scGEM",
    "msrc": "MSRC-v1",
}


def default(text: str) -> str:
    """The default beside the best simple method, with 5 % labels."""
    found = accuracies(text)
    lines = [
        "| data | best simple method | | default | difference | calibration error "
        "| the same, one view alone | encoder's features |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, title in DATASETS.items():
        methods = found[name, 0.05]
        best, ours = best_simple(methods), methods["default"]
        features = methods["features, diffusion"]
        lines.append(
            f"| {title} | {best} | {100 * mean(values(methods[best])):.1f} "
            f"| **{100 * mean(values(ours)):.1f}** ± {100 * stdev(values(ours)):.1f} "
            f"| {_difference(values(ours), values(methods[best]))} "
            f"| {100 * mean(values(ours, 'ece')):.1f} "
            f"| {100 * mean(values(ours, 'ece_one_view')):.1f} "
            f"| {100 * mean(values(features)):.1f} |"
        )
    return "\n".join(lines)


def reduced(text: str) -> str:
    """The default beside what it would be without reduction, counts and components."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for line in map(json.loads, text.splitlines()):
        for key in ("accuracy", "one_view"):
            if key in line:
                values.setdefault((line["dataset"], line["method"], key), []).append(line[key])
    before, pca, *simple = REDUCED
    lines = [
        "| data | " + " | ".join([*REDUCED.values(), "default", "difference to the first"]) + " |",
        "|---|" + "--:|" * (len(REDUCED) + 2),
    ]
    for name in dict.fromkeys(dataset for dataset, _, _ in values):
        cells = [_both(values, name, method) for method in (before, pca)]
        cells += [f"{100 * mean(values[name, method, 'accuracy']):.1f}" for method in simple]
        ours = _both(values, name, "default")
        pair = values[name, "default", "accuracy"], values[name, before, "accuracy"]
        ratio = 0.0 if name in SIMULATED else TEST_TO_TRAIN  # cells are simulated for every trial
        gain = _difference(*pair, test_to_train=ratio)
        lines.append(f"| {name} | " + " | ".join([*cells, ours, gain]) + " |")
    return "\n".join(lines)


def _both(values: dict[tuple[str, str, str], list[float]], name: str, method: str) -> str:
    return " / ".join(
        f"{100 * mean(values[name, method, key]):.1f}" for key in ("accuracy", "one_view")
    )


def unlabeled(text: str) -> str:
    """Accuracy in a view without labels."""
    cases: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in map(json.loads, text.splitlines()):
        key = (DATASETS[line["dataset"]], line["from"], line["to"], line["linked"])
        cases.setdefault(key, []).append(line)
    lines = [
        "| data | labels in → none in | linked | cap | label propagation | plain network "
        "| **default** | over label propagation |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (title, having, to, linked), trials in cases.items():
        simple, plain, ours, covered = (
            [trial[what] for trial in trials]
            for what in ("label propagation", "plain network", "default", "covered")
        )
        lines.append(
            f"| {title} | {having.replace('+', ', ')} → {to} | {linked} | {100 * mean(covered):.0f}"
            f" | {100 * mean(simple):.1f} | {100 * mean(plain):.1f} | **{100 * mean(ours):.1f}** "
            f"| {_difference(ours, simple)} |"
        )
    return "\n".join(lines)


def links(record: dict[str, Any]) -> str:
    """What can be aligned without a linked row."""
    lines = ["| data | method | accuracy, both ways | its cost |", "|---|---|--:|--:|"]
    for name, found in record["datasets"].items():
        title = DATASETS[name]
        lines.append(f"| {title} | the most frequent class | {100 * found['majority']:.0f} | |")
        for one in found["components"]:
            both = " / ".join(f"{100 * x:.0f}" for x in one["accuracy"].values())
            how = f"{one['components']} principal components, signs that agree, transport"
            lines.append(f"| {title} | {how} | {both} | |")
        for one in found["gromov_wasserstein"]:
            both = " / ".join(f"{100 * x:.0f}" for x in one["accuracy"].values())
            how = f"Gromov–Wasserstein, {one['neighbors_used']} neighbors, ε = {one['entropy']:g}"
            lines.append(f"| {title} | {how} | {both} | {one['cost']:.3f} |")
    return "\n".join(lines)


#: targets of the fuzzing campaign, by what the docs call them
FUZZED = {
    "models": "model files, most of them with a valid checksum",
    "checkpoints": "checkpoints of fits, likewise",
    "tables": "csv, tsv, parquet, npy, npz, mat, h5ad",
    "client-messages": "messages of a hostile server to a client",
    "server-messages": "responses of a hostile client to the server",
    "federated-files": "states and partial models of a federated training",
    "fit-inputs": "arrays, frames and labels given to `fit`",
    "predict-inputs": "the same, given to `predict_proba`",
    "killed-fits": "fits killed up to three times, and resumed",
    "full-disks": "saves for which the disk is too small",
}


def fuzz(record: list[dict[str, Any]]) -> str:
    """Cases of all runs of the campaign by outcome."""
    lines = ["| what | cases | refused | worked | problems |", "|---|--:|--:|--:|--:|"]
    for name, title in FUZZED.items():
        outcomes = sum(
            (Counter(run["targets"][name]["outcomes"]) for run in record if name in run["targets"]),
            Counter(),
        )
        n = outcomes.total() - outcomes.get("not written", 0)
        refused = outcomes.get("refused", 0) + outcomes.get("not a message", 0)
        problems = outcomes.get("problem", 0)
        worked = n - refused - problems
        lines.append(f"| {title} | {n:,} | {refused:,} | {worked:,} | {problems} |")
    return "\n".join(lines)


def mutants(record: dict[str, Any]) -> str:
    """Mutants by folder, and those that no test notices, with the reason."""
    counts = Counter(mutant["module"].split("/")[0] for mutant in record["mutants"])
    survivors = [mutant for mutant in record["mutants"] if mutant["survived"]]
    by_folder = Counter(mutant["module"].split("/")[0] for mutant in survivors)
    lines = ["| folder | mutants | killed |", "|---|--:|--:|"]
    for folder, n in counts.items():
        lines.append(f"| `{folder}` | {n} | {n - by_folder[folder]} |")
    share = f"{record['n_killed']} ({100 * record['share_killed']:.1f} %)"
    lines += [f"| all | {record['n_mutants']} | {share} |", ""]
    lines += ["| survivor | change | why no test notices it |", "|---|---|---|"]
    for mutant in survivors:
        change = " → ".join(f"`{text.strip()}`" for text in mutant["mutation"].split(" → "))
        where = f"`{mutant['module']}`, {mutant['function'] or 'constants'}"
        lines.append(f"| {where} | {change} | {mutant['why']} |")
    return "\n".join(lines)


#: table → file, and what makes it
TABLES = {
    "default": ("default/accuracy.jsonl", default),
    "reduced": ("default/reduced_views.jsonl", reduced),
    "unlabeled": ("default/unlabeled_view.jsonl", unlabeled),
    "links": ("default/without_links.json", links),
    "sliced": ("bench/ot_core.json", sliced),
    "sinkhorn": ("bench/ot_core.json", sinkhorn),
    "handwritten": ("paper/table2.json", handwritten),
    "replicas": ("bench/replicas.json", replicas),
    "runs": ("paper/runs.jsonl", runs),
    "fuzz": ("fuzz.json", fuzz),
    "mutants": ("mutants.json", mutants),
    **situation_tables.TABLES,
    **parts_tables.TABLES,
    **similarity_tables.TABLES,
    **trust_tables.TABLES,
    **common_space_tables.TABLES,
    **speed_tables.TABLES,
    **federated_tables.TABLES,
}


def _score(table: str, dataset: str, method: str, settings: str, kind: str = "test") -> str:
    return f"{100 * mean(paper_scores(table, dataset, method, settings)[kind]):.1f}"


def _difference(
    ours: list[float], others: list[float], *, test_to_train: float = TEST_TO_TRAIN
) -> str:
    found = paired_difference(ours, others, test_to_train=test_to_train)
    mean_, low, high = (
        f"{100 * x:+.1f}".replace("-", "−") for x in (found.mean, found.low, found.high)
    )
    return f"{mean_} [{low}, {high}]"


def _over(table: str, dataset: str, method: str, settings: str) -> str:
    control = "no coupling" + " + AE" * method.endswith("AE")
    pair = [paper_scores(table, dataset, name, settings)["test"] for name in (method, control)]
    return _difference(*pair)


def _exact(task: str, method: str, settings: str) -> str:
    exact = {"coupling__orthogonality_weight": "inf"}
    where = ("claims", "handwritten", method, settings, task)
    return _difference(paper_scores(*where, overrides=exact)["test"], paper_scores(*where)["test"])


def _number(file: str, *keys: str) -> float:
    found: Any = json.loads((RESULTS / "bench" / f"{file}.json").read_text())
    for key in keys:
        found = found[int(key)] if isinstance(found, list) else found[key]
    return float(found)


def _bench(file: str, *keys: str) -> str:
    return (
        f"{_number(file, *keys):,.2g}"
        if _number(file, *keys) < 100
        else f"{_number(file, *keys):,.0f}"
    )


def _percent(file: str, *keys: str) -> str:
    return f"{100 * _number(file, *keys):.1f}"


def _megabytes(file: str, *keys: str) -> str:
    return f"{_number(file, *keys) / 1e6:,.0f}"


def _default(dataset: str) -> str:
    """Mean accuracy of the default in the table of the default."""
    methods = accuracies((RESULTS / "default" / "accuracy.jsonl").read_text())[dataset, 0.05]
    return f"{100 * mean(values(methods['default'])):.1f}"


def _reduced(dataset: str) -> str:
    """Mean accuracy of the default in the table of reduced views."""
    lines = map(json.loads, (RESULTS / "default" / "reduced_views.jsonl").read_text().splitlines())
    found = [x["accuracy"] for x in lines if (x["dataset"], x["method"]) == (dataset, "default")]
    return f"{100 * mean(found):.1f}"


def _uncoupled(table: str, dataset: str) -> str:
    """Mean accuracy of the default without coupling in a table of the paper."""
    without = {"coupling": "none"}
    found = paper_scores(table, dataset, "hotview default", "robust", overrides=without)
    return f"{100 * mean(found['test']):.1f}"


def _reported(n_splits: str) -> str:
    """Chance in percent that a row is a test row of at least one of some splits."""
    return f"{100 * (1 - 0.8 ** int(n_splits)):.0f}"


#: kind of a number in a sentence → what makes it of the rest of its key
NUMBERS = {
    "score": _score,
    "over": _over,
    "exact": _exact,
    "situations": situation_tables.number,
    "similarity": similarity_tables.number,
    "bench": _bench,
    "percent": _percent,
    "megabytes": _megabytes,
    "default": _default,
    "reduced": _reduced,
    "uncoupled": _uncoupled,
    "reported": _reported,
}


def _fill_number(match: re.Match[str]) -> str:
    kind, _, rest = match[1].partition(" ")
    return f"<!--={match[1]}-->{NUMBERS[kind](*rest.split('/'))}<!--/-->"


def fill(text: str) -> str:
    """Put every table and number that a text has a place for into it."""
    text = re.sub(r"<!--=(.*?)-->.*?<!--/-->", _fill_number, text)
    for name, (path, make) in TABLES.items():
        start, end = f"<!-- table:{name} -->", f"<!-- /table:{name} -->"
        if start not in text:
            continue
        found = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        read = (RESULTS / path).read_text()
        table = make(read if path.endswith(".jsonl") else json.loads(read))
        text = found.sub(f"{start}\n{table}\n{end}".replace("\\", r"\\"), text)
    return sentences.fill(text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text()))
