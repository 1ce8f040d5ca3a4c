"""``python -m fuzz``: run the fuzzing campaign, or one of its cases again."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import torch
import typer

import hotview
from fuzz.campaign import TargetResult, run_campaign, run_case
from fuzz.targets import TARGETS

app = typer.Typer(
    help="Damaged and hostile files, messages and inputs: what is not refused must work.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def main(
    *,
    minutes: Annotated[float, typer.Option(help="Duration.")] = 1.0,
    cases: Annotated[
        int | None, typer.Option(help="Cases per target, whatever time it takes.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(TARGETS)}.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed; the default is the time.")] = None,
    workers: Annotated[int, typer.Option(help="Processes.")] = os.cpu_count() or 1,
    case: Annotated[int | None, typer.Option(help="Run only this case, of one target.")] = None,
    keep: Annotated[Path, typer.Option(help="Folder of cases with problems.")] = Path("fuzz-cases"),
    out: Annotated[
        Path | None, typer.Option(help="JSON file that the counts are added to.")
    ] = None,
) -> None:
    """Run the campaign, and exit with status 1 if a case has found a problem."""
    torch.set_num_threads(1)  # threads do not survive a fork
    torch.optim.Adam([torch.zeros(1)])  # imports more, once for all workers
    seed = int(time.time()) if seed is None else seed
    targets = {name: TARGETS[name] for name in target or TARGETS}
    if case is not None:
        [(name, only)] = targets.items()
        with tempfile.TemporaryDirectory() as originals:
            only.prepare(Path(originals))
            print(run_case(name, only, Path(originals), seed, case, keep))
        return
    print(f"seed {seed}", flush=True)
    shown = [time.monotonic()]

    def report(results: dict[str, TargetResult]) -> None:
        if time.monotonic() - shown[0] > 2 and sys.stderr.isatty():
            shown[0] = time.monotonic()
            done = ", ".join(f"{name} {result.cases}" for name, result in results.items())
            print(f"\r{done}", end="", file=sys.stderr, flush=True)

    results = run_campaign(
        targets,
        seed=seed,
        keep=keep,
        seconds=60 * minutes,
        cases=cases,
        n_workers=workers,
        report=report,  # type: ignore[arg-type]
    )
    for name, result in results.items():
        counts = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(result.outcomes.items()))
        print(f"{name}: {result.cases:,} cases in {result.seconds:.0f} s ({counts}); ", end="")
        print(f"slowest {result.slowest:.1f} s")
        for problem in result.problems[:20]:
            print(f"  case {problem['case']}: {problem['problem']}")
    total = sum(result.cases for result in results.values())
    n_problems = sum(result.outcomes["problem"] for result in results.values())
    print(f"{total:,} cases, {n_problems} problems, seed {seed}")
    if n_problems:
        print(f"again: make fuzz ARGS='--target NAME --seed {seed} --case NUMBER'; files in {keep}")
    if out is not None:
        runs = json.loads(out.read_text()) if out.exists() else []
        by_target = {name: result.to_json() for name, result in results.items()}
        runs.append({"seed": seed, "hotview": hotview.__version__, "targets": by_target})
        out.write_text(json.dumps(runs, indent=2) + "\n")
    raise typer.Exit(min(1, n_problems))


if __name__ == "__main__":
    app()
