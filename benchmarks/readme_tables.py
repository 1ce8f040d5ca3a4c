"""Put the numbers of results/bench/ot_core.json into the README's tables.

python benchmarks/readme_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "ot_core.json"
README = ROOT / "README.md"
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
        for r in record["sliced_cost"]
    ]
    return "\n".join(lines)


def sinkhorn(record: dict[str, Any]) -> str:
    """Their time over ours, in float64."""
    (r,) = (r for r in record["sinkhorn"] if r["name"].endswith("float64"))
    lines = ["| their time over ours, float64 | forward | forward + backward |", "|---|--:|--:|"]
    for who, name in WHO.items():
        ratios = [r[f"{who}_{pass_}_us"] / r[f"ours_{pass_}_us"] for pass_ in ("forward", "both")]
        lines.append(f"| {name} | " + " | ".join(f"{x:.2g}×" for x in ratios) + " |")
    return "\n".join(lines)


def fill(text: str, record: dict[str, Any]) -> str:
    for name, table in (("sliced", sliced(record)), ("sinkhorn", sinkhorn(record))):
        start, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
        found = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        text, n = found.subn(f"{start}\n{table}\n{end}", text)
        assert n == 1, f"the README has {n} places for the table {name}"
    return text


if __name__ == "__main__":
    README.write_text(fill(README.read_text(), json.loads(RECORD.read_text())))
