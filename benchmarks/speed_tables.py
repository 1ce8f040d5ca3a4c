"""Tables of ``docs/speed.md``, from the records of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "bench"
DEVICES = {"cpu": "CPU", "cuda": "GPU"}
Record = dict[str, Any]


def table(header: list[str], rows: list[list[str]]) -> str:
    """Markdown: words in the first column, numbers in the others."""
    ends = ["---", *["--:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ends, *rows))


def _times(x: float) -> str:
    return f"{x:.2f}×" if x < 10 else f"{x:,.0f}×"


def targets(record: Record) -> str:
    """Every ratio that was meant to be something, and whether it is; from all records there are."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        for device, title in DEVICES.items():
            part = json.loads(path.read_text()).get(device)
            if not isinstance(part, dict):
                continue
            for name, target in part.get("targets", {}).items():
                if name not in part["ratios"]:
                    continue
                ratio = part["ratios"][name]
                met = "yes" if ratio >= target else "**no**"
                where = f"`{path.stem}`"
                rows.append([name, where, title, f"{target:.3g}", f"{ratio:.3g}", met])
    return table(["what", "benchmark", "on", "at least", "is", "met"], rows)


def sliced_gpu(record: Record) -> str:
    """Sliced costs on a GPU: milliseconds forward and backward, peers' over ours, over the sort."""
    rows = []
    for r in record["cuda"]["sliced_cost"]:
        pot, hand = (_times(r[k]) if k in r else "–" for k in ("ratio_both", "ratio_by_hand"))
        times = [f"{r['ours_both_ms']:.2f}", f"{r['sort_ms']:.2f}"]
        rows.append([r["name"], *times, f"{r['over_sort']:.2f}×", pot, hand])
    header = ["clouds, points, directions", "ours, ms", "the sort, ms", "ours over the sort"]
    return table([*header, "POT over ours", "pairs by hand over ours"], rows)


def paper_training(record: Record) -> str:
    """One training of the paper's size."""
    rows = []
    for device, part in ((d, record[d]) for d in DEVICES if d in record):
        for case in part["cases"]:
            threads = case.get("threads")
            where = part["machine"]["processor"]
            if device == "cpu":
                where = f"CPU, {threads} thread{'s' * (threads > 1)}"
            peer = next(iter(case["seconds"].values()))
            for who, took in case["seconds"].items():
                cells = [
                    x
                    for what in ("fit", "steps")
                    for x in (f"{took[what]:.2f}", _times(peer[what] / took[what]))
                ]
                rows.append([where, who, *cells, f"{100 * took['test_accuracy']:.1f}"])
            least = case["floor_seconds"]
            floor = [f"{least:.2f}", _times(peer["steps"] / least)]
            rows.append([where, "its matrix products alone", "", "", *floor, ""])
            if "first_call_overhead_seconds" in case:
                more = f"{case['first_call_overhead_seconds']:.1f}"
                rows.append([where, "what the first fit takes more", more, "", "", "", ""])
    header = [
        "where",
        "who",
        "fit, s",
        "the plain loop over it",
        "steps, s",
        "the plain loop over it",
    ]
    return table([*header, "test accuracy, %"], rows)


def cca_zoo(record: Record) -> str:
    """DGCCA beside that of cca-zoo."""
    rows = []
    for name, case in record["cpu"]["cases"].items():
        ours = case["contestants"]["hotview"]["seconds"]
        for who, found in case["contestants"].items():
            quality = [
                f"{sum(found[what]) / len(found[what]):.{digits}f}" if found.get(what) else ""
                for what, digits in (("correlation", 2), ("accuracy", 3))
            ]
            over = _times(found["seconds"] / ours)
            rows.append([name, who, f"{found['ms_per_step']:.1f}", over, *quality])
    header = ["data", "who", "ms a step", "over hotview's", "correlation (of 10)", "accuracy"]
    return table(header, rows)


def gromov(record: Record) -> str:
    """Classes of one view from another: seconds and accuracy."""
    cases = record["cpu"]["cases"]
    names = list(dict.fromkeys(name for case in cases for name in case["contestants"]))
    rows = []
    for name in names:
        found = [case["contestants"].get(name) for case in cases]
        linked = next(x["knows_links"] for x in found if x)
        cells = []
        for x in found:
            accuracy = "stopped" if x and x["accuracy"] is None else ""
            accuracy = f"{100 * x['accuracy']:.0f} %" if x and not accuracy else accuracy
            cells.append(f"{x['seconds']:.1f} s, {accuracy}" if x else "")
        rows.append([name, "5 %" if linked else "none", *cells])
    header = ["who", "linked", *(f"{c['pair']}, {c['rows']:,} rows" for c in cases)]
    return table(header, rows)


def growth(record: Record) -> str:
    """Slopes of log time against log size."""
    titles = {
        "rows": "rows, 10³ to 10⁷, of an epoch",
        "hot-reference": "views, 2 to 256, `hot-reference`",
        "hot-pairwise": "views, 2 to 256, `hot-pairwise`",
        "batch": "rows in a batch, 256 to 65,536",
        "directions": "directions, 3 to 500",
    }
    devices = [device for device in DEVICES if device in record]
    rows = [
        [title, *(f"{record[d]['slopes'][name]:.2f}" for d in devices)]
        for name, title in titles.items()
        if name in record["cpu"]["slopes"]
    ]
    return table(["what grows", *(f"slope, {DEVICES[d]}" for d in devices)], rows)


def start_up(record: Record) -> str:
    """Seconds until something can be typed."""
    part = record["cpu"]
    best, rows = part["best_seconds"], []
    torch = best.get("import torch")  # earlier records have none
    for name, seconds in best.items():
        allowed = part["allowed_seconds"].get(name)
        over = "" if torch is None else f"{seconds / torch:.2f}"
        limit = "" if allowed is None else f"{allowed:.2f}"
        rows.append([f"`{name}`", f"{seconds:.2f}", over, limit])
    return table(["process", "seconds", "over `import torch`", "allowed"], rows)


def predict(record: Record) -> str:
    """Microseconds a row: ours, the floor and peers; and what ours are spent on."""
    rows = []
    for device, part in ((d, record[d]) for d in DEVICES if d in record):
        for name, times in part["microseconds_per_row"].items():
            groups = part["shares"][name]
            busy = sum(groups[group] for group in ("products", "moves", "passes"))
            peers = [times.get(who) for who in ("floor", "naive torch", "scikit-learn")]
            over = ["" if t is None else _times(t / times["ours"]) for t in peers]
            cells = [f"{times['ours']:.1f}", *over, f"{100 * busy:.0f} %"]
            rows.append([f"{name}, {DEVICES[device]}", *cells])
    header = ["model", "µs a row", "the floor over ours", "plain torch over ours"]
    return table([*header, "scikit-learn over ours", "products and memory traffic"], rows)


def predict_all(record: Record) -> str:
    """A million rows of six views."""
    rows = [
        [
            f"{one['model']}, {DEVICES[device]}",
            one["from"],
            f"{one['rows']:,}",
            f"{one['seconds']:,.0f}" if one["seconds"] >= 10 else f"{one['seconds']:.1f}",
            f"{one['rows_per_second']:,}",
            f"{one['peak_mb']:,}",
            f"{one['output_mb']:,}",
        ]
        for device in DEVICES
        if device in record
        for one in record[device]["all_rows"]
    ]
    header = ["model", "rows from", "rows", "seconds", "rows a second", "memory, MB"]
    return table([*header, "of which the output"], rows)


def predict_latency(record: Record) -> str:
    """Milliseconds of a call with few rows."""
    parts = {
        DEVICES[device]: record[device]["latency_ms"] for device in DEVICES if device in record
    }
    rows = [
        [f"{n} rows" if n != "1" else "1 row", *(f"{x[n]:.1f}" for x in parts.values())]
        for n in next(iter(parts.values()))
    ]
    return table(["a call with", *(f"ms, {name}" for name in parts)], rows)


def model_files(record: Record) -> str:
    """Sizes of model files, and what they tell about the rows."""
    header = ["fitted to", "points of a view", "model file, MB", "ONNX file, MB", "membership, AUC"]
    rows = []
    for name, found in record["cpu"]["models"].items():
        before, n = found["all_neighbors"], found["rows"][0]
        rows += [
            [
                f"{name}, all rows of every member",
                f"5 × {n:,} rows",
                f"{before['networks_and_points_mb']:.1f}",
                "",
                f"{before['membership_auc']:.2f}",
            ],
            [
                f"{name}, condensed",
                f"up to {max(found['points']):,}, {100 * found['single_rows']:.0f} % of one row",
                f"{found['model_mb']:.1f}",
                f"{found['onnx_mb']:.1f}",
                f"{found['membership_auc']:.2f}",
            ],
        ]
    return table(header, rows)


def precision(record: Record) -> str:
    """Steps in other precisions, and compiled, beside float32."""
    rows = []
    for device, part in ((d, record[d]) for d in DEVICES if d in record):
        for size, found in part["steps"].items():
            base = next(iter(found.values()))["step_seconds"]
            for name, told in found.items():
                cells = ["failed", "", ""]
                if "failed" not in told:
                    step = told["step_seconds"]
                    cells = [
                        f"{1e3 * step:.2f}",
                        _times(base / step),
                        f"{told['first_seconds']:.1f}",
                    ]
                rows.append([f"{size}, {DEVICES[device]}", name, *cells])
    return table(["size", "precision", "ms a step", "times faster", "first 5 steps, s"], rows)


def rounding(record: Record) -> str:
    """Accuracy in other precisions, minus that in float32 on the same splits, in points."""
    rows = []
    for device, part in ((d, record[d]) for d in DEVICES if d in record):
        for training, found in part["accuracy"].items():
            for name, told in found.items():
                gap = told["difference"]
                mean, low, high = (
                    f"{100 * gap[k]:+.2f}".replace("-", "−") for k in ("mean", "low", "high")
                )
                same = f"{100 * told['same_predictions']:.1f} %"
                accuracy = f"{100 * told['accuracy']:.2f}"
                difference = f"{mean} [{low}, {high}]"
                rows.append([f"{training}, {DEVICES[device]}", name, accuracy, difference, same])
    header = ["training", "precision", "test accuracy, %", "minus float32, points"]
    return table([*header, "same predictions"], rows)


def larger(record: Record) -> str:
    """Views larger than memory."""
    part = record["cpu"]
    rows = []
    for fit in part["fits"]:
        step = "" if fit["step_ms"] is None else f"{fit['step_ms']:.1f}"
        rows.append(
            [
                f"{fit['kind']}, {fit['what']}".rstrip(", "),
                fit["rows"],
                f"{fit['steps'] or 0:,}",
                step,
                f"{100 * fit['waiting_share']:.1f} %",
                f"{fit['epoch_s']:,.0f}",
                f"{fit['peak_bytes'] / 1e6:,.0f}",
            ]
        )
    header = ["fit", "rows", "steps", "ms a step", "waiting for rows", "seconds"]
    return table([*header, "memory of its own, MB"], rows)


def memory(record: Record) -> str:
    """Memory of a process against rows."""
    rows = [
        [f"{point['size']:,}", f"{point['seconds']:.3g}", f"{point['peak_bytes'] / 1e6:,.0f}"]
        for point in record["cpu"]["lines"]["rows"]
    ]
    return table(["rows of every view", "seconds an epoch", "memory of its own, MB"], rows)


def ranks(record: Record) -> str:
    """Steps shared by two processes of one thread each, against one process of the same run."""
    titles = {
        "default": "six views, the default network, 400 rows",
        "wide": "four views of 256 columns, hidden layers of 512, 2,048 rows",
    }
    rows = []
    for name, title in titles.items():
        shared = (f"{name}: 2 shared, against {how}" for how in ("one thread", "two threads"))
        sent = record["cpu"]["cases"][name]["2"]
        floats = sent["floats_of_features"] // 2 + sent["floats_of_gradients"]
        ratios = [_times(record["cpu"]["ratios"][key]) for key in shared]
        rows.append([title, f"{floats:,}", *ratios])
    header = ["a step of", "floats a process sends", "speed against one process, one thread"]
    return table([*header, "against one process, two threads"], rows)


#: cases of `sizes`, by what the docs call them
SIZES = {
    "cells": "10,000 cells, sparse views of 20,000 and 60,000 columns",
    "rows-100000": "100,000 rows, 4 views of 64 columns",
    "rows-1000000": "1,000,000 rows, 4 views of 64 columns",
    "digits": "digits, 6 views, 1,200 rows",
}


def sizes(record: Record) -> str:
    """Seconds, accuracy and memory of every method on every size, a group of columns a device."""
    parts = [record[device] for device in DEVICES if device in record]
    header = ["data", "method"]
    for device in (device for device in DEVICES if device in record):
        where = f"{record[device]['machine']['cores']} cores" if device == "cpu" else "GPU machine"
        header += [f"seconds, {where}", "accuracy, %", "memory, MB"]
    rows = []
    for case, title in SIZES.items():
        methods = dict.fromkeys(m for part in parts for m in part["cases"].get(case, {}))
        for method in methods:
            found = [part["cases"].get(case, {}).get(method) for part in parts]
            name = f"**{method}**" if method == "hotview" else method
            rows.append([title, name, *(cell for one in found for cell in _size_cells(one))])
            firsts = [(one or {}).get("first_seconds") for one in found]
            if any(firsts):
                cells = (cell for x in firsts for cell in (_seconds(x) if x else "", "", ""))
                rows.append([title, f"{method}, the first fit of a process", *cells])
    return table(header, rows)


def _size_cells(found: Record | None) -> list[str]:
    if found is None:
        return ["", "", ""]
    if "not_finished" in found:
        return [found["not_finished"], "", ""]
    accuracy = f"{100 * found['accuracy']:.1f}" if "accuracy" in found else ""
    return [_seconds(found["seconds"]), accuracy, f"{found['megabytes']:,.0f}"]


def _seconds(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 1 else f"{x:.2f}"


#: table → record, and what makes it
TABLES = {
    "sizes": ("bench/sizes.json", sizes),
    "ranks": ("bench/distributed.json", ranks),
    "targets": ("bench/ot_core.json", targets),
    "sliced-gpu": ("bench/ot_core.json", sliced_gpu),
    "paper-training": ("bench/paper_training.json", paper_training),
    "cca-zoo": ("bench/against_cca_zoo.json", cca_zoo),
    "gromov": ("bench/against_gromov_wasserstein.json", gromov),
    "growth": ("bench/growth.json", growth),
    "memory": ("bench/growth.json", memory),
    "larger": ("bench/larger_than_memory.json", larger),
    "predict": ("bench/predict_rows.json", predict),
    "predict-all": ("bench/predict_rows.json", predict_all),
    "predict-latency": ("bench/predict_rows.json", predict_latency),
    "model-files": ("bench/model_files.json", model_files),
    "precision": ("bench/precision.json", precision),
    "rounding": ("bench/precision.json", rounding),
    "start-up": ("bench/start_up.json", start_up),
}
