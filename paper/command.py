"""``python -m paper run``: run the paper's evaluation, and say how it compares."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hotview.cli.runner import INTERRUPTED, make_console
from paper.catalog import EXPERIMENTS, Experiment
from paper.cells import DATASETS, SETTINGS_NAMES, TASKS, Cell
from paper.rows import Row, table_rows
from paper.statistics import Difference, Score

__all__ = ["Options", "check_options", "comparison_table", "run_experiments"]

_ALL = "all"
_TABLES = ("table2", "table3", "table4", "synthetic")


@dataclass(frozen=True)
class Options:
    """What was asked for; empty tuples stand for everything.

    Parameters
    ----------
    names : tuple of str
        Names of `EXPERIMENTS`, or ``"all"``.
    datasets : tuple of str
        Names of `DATASETS`.
    trials : int
        Splits of every cell.
    device : str
        Where to train.
    jobs : int or None
        Processes; None takes what joblib's `parallel_config` says, else one per core.
    data : Path or None
        A folder or file with the data that are not in the package.
    out : Path
        The folder of all results.
    again : bool
        Whether to run finished trials again.
    settings : tuple of str
        Names of `SETTINGS_NAMES`.
    """

    names: tuple[str, ...] = (_ALL,)
    datasets: tuple[str, ...] = ()
    trials: int = 20
    device: str = "auto"
    jobs: int | None = None
    data: Path | None = None
    out: Path = Path("results")
    again: bool = False
    settings: tuple[str, ...] = ()

    @property
    def experiments(self) -> list[Experiment]:
        """Those that were asked for."""
        names = EXPERIMENTS if _ALL in self.names else self.names
        return [EXPERIMENTS[name] for name in dict.fromkeys(names)]

    @property
    def possible_datasets(self) -> list[str]:
        """Datasets of the experiments, those asked for if any were."""
        used = {name for experiment in self.experiments for name in experiment.datasets}
        return [d for d in DATASETS if d in used and d in (self.datasets or DATASETS)]

    def cells(self, experiment: Experiment, found: Sequence[str]) -> list[Cell]:
        """Cells of an experiment on the datasets found, in the settings asked for."""
        kept = ("-", *(self.settings or SETTINGS_NAMES))
        return [cell for cell in experiment.cells(found) if cell.settings in kept]


def check_options(options: Options) -> None:
    """Refuse names that do not exist, and datasets that an experiment is not run on."""
    _check_names("experiment", options.names, (*EXPERIMENTS, _ALL))
    _check_names("--dataset", options.datasets, DATASETS)
    _check_names("--settings", options.settings, SETTINGS_NAMES)
    unused = [name for name in options.datasets if name not in options.possible_datasets]
    if unused:
        used = dict.fromkeys(d for e in options.experiments for d in e.datasets)
        who = f"{', '.join(options.names)} {'is' if len(options.names) == 1 else 'are'}"
        raise ValueError(f"{who} run on {', '.join(used)}, not on {', '.join(unused)}.")


def _check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"Expected {what} to be one of {', '.join(known)}, but got {name!r}.")


def run_experiments(options: Options) -> int:
    """Run what is missing, write result files, print tables.

    Parameters
    ----------
    options : Options
        What was asked for.

    Returns
    -------
    int
        0 if all is well, 1 if files were in the way or something failed, 130 after Ctrl-C.
    """
    from paper.environment import pick_device
    from paper.inventory import take_inventory
    from paper.workers import count_workers

    console = make_console()
    found = _find_datasets(options, console)
    _check_folder(options.out)
    for experiment in options.experiments:
        _check_nothing_is_lost(experiment, options, found)
    device = pick_device(options.device)
    jobs = count_workers(options.jobs)
    cells = [cell for e in options.experiments for cell in options.cells(e, found)]
    inventory = take_inventory(
        options.out, cells, options.trials, options.data, again=options.again
    )
    console.print(
        f"{inventory.n_missing} trainings to run, {inventory.n_finished} finished before; "
        f"{jobs} {'process' if jobs == 1 else 'processes'}, {device}",
        highlight=False,
    )
    if inventory.n_stale:
        console.print(
            f"{inventory.n_stale} of them were run before with other parameters than today's.",
            highlight=False,
        )
    outcome = _train(options, inventory.missing, device, jobs)
    if outcome.interrupted:
        return _say_how_to_go_on(options, outcome, console)
    for experiment in options.experiments:
        _summarize(experiment, options, found, console)
    return _tell_problems(inventory.foreign, outcome.errors)


@dataclass
class _Outcome:
    """What came of the trainings."""

    n_done: int
    errors: list[str]
    interrupted: bool


def _find_datasets(options: Options, console: Console) -> list[str]:
    """Names of the datasets at hand; those that are not are told, or, if asked for, an error."""
    from paper.data import find_datasets

    if options.data is not None and not options.data.exists():
        raise FileNotFoundError(f"{options.data} does not exist; give a folder or a file.")
    found, missing = find_datasets(options.data, options.possible_datasets)
    for name, reason in missing.items():
        if name in options.datasets or not found:
            raise FileNotFoundError(f"{name} cannot be loaded. {reason}")
    for reason in dict.fromkeys(missing.values()):
        names = ", ".join(name for name, why in missing.items() if why == reason)
        console.print(f"Skipped: {names}. {reason}", style="yellow", highlight=False)
    return found


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file; give the name of a folder.")
    for folder in (out / "records", out / "paper"):  # now, not after hours of training
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file; move it, or choose another --out.")
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{folder} cannot be written to; choose another --out.")


def _check_nothing_is_lost(experiment: Experiment, options: Options, found: Sequence[str]) -> None:
    """Refuse to replace a file of results by one that holds fewer of them."""
    from paper.summary import count_lost, summary_path

    wanted = options.cells(experiment, found)
    if wanted and (n := count_lost(experiment.name, options.out, options.trials, wanted)):
        raise ValueError(
            f"Expected to add to {summary_path(options.out, experiment.name)}, but it holds "
            f"{n} results that this run would not make again and whose records are not in "
            f"{options.out / 'records'}: they would be lost. Choose another --out."
        )


def _train(options: Options, missing: Any, device: str, jobs: int) -> _Outcome:
    """Run all items under one bar, and note the run."""
    from paper.progress import TrainingsBar
    from paper.schedule import expected_seconds, make_items
    from paper.workers import run_items

    items = make_items(missing, device)
    work = [len(item.trials) * expected_seconds(item.cell, device) for item in items]
    weights = dict(zip(items, work, strict=True))
    outcome, start, n_controls = _Outcome(0, [], False), time.perf_counter(), 0
    running = run_items(items, options.out, jobs=jobs, device=device, data=options.data)
    try:
        with TrainingsBar(sum(len(item.trials) for item in items), sum(work)) as bar:
            for done in running:
                bar.advance(len(done.item.trials), weights[done.item])
                if done.error is None:
                    outcome.n_done += len(done.item.trials)
                    n_controls += len(done.item.trials) * done.item.cell.is_control
                else:
                    outcome.errors.append(f"{done.item.cell.id} failed: {done.error}")
    except KeyboardInterrupt:
        outcome.interrupted = True
    except BrokenProcessPool:
        outcome.errors.append("a process was killed, perhaps for lack of memory; use fewer --jobs")
    if not items:
        return outcome
    _note_run(options, outcome, device, jobs, n_controls, time.perf_counter() - start)
    return outcome


def _note_run(
    options: Options, outcome: _Outcome, device: str, jobs: int, n_controls: int, seconds: float
) -> None:
    from paper.environment import device_name, versions
    from paper.runs import append_run

    run = {
        "command": shlex.join(["python", "-m", "paper", *sys.argv[1:]]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(seconds, 1),
        "jobs": jobs,
        "device": device_name(device),
        "trainings": outcome.n_done - n_controls,
        "controls": n_controls,
        "failed": len(outcome.errors),
        "interrupted": outcome.interrupted,
        "versions": versions(),
    }
    append_run(options.out, run)


def _say_how_to_go_on(options: Options, outcome: _Outcome, console: Console) -> int:
    console.print(
        f"Stopped. {outcome.n_done} trainings of this run are kept in {options.out / 'records'}; "
        f"give the same command again{', without --again,' * options.again} to go on from there.",
        highlight=False,
    )
    return INTERRUPTED


def _summarize(
    experiment: Experiment, options: Options, found: Sequence[str], console: Console
) -> None:
    from paper.summary import summary_path, write_summary

    cells = options.cells(experiment, found)
    if not cells:
        return
    summary = write_summary(
        experiment, options.out, options.trials, cells, _fingerprints(found, options.data)
    )
    if experiment.name in _TABLES:
        for dataset, about in summary["datasets"].items():
            for task in TASKS:
                rows = table_rows(summary, dataset, task)
                if rows:
                    title = f"{experiment.name}: {experiment.title}, {about['label']}, {task}"
                    console.print(comparison_table(rows, title), soft_wrap=False)
    console.print(f"{summary_path(options.out, experiment.name)} written", highlight=False)


def _fingerprints(found: Sequence[str], data: Path | None) -> Callable[[Cell, int], str | None]:
    """What records must be of, where the data are at hand."""
    from paper.data import load_dataset

    def fingerprint(cell: Cell, trial: int) -> str | None:
        if cell.dataset not in found:
            return None
        return load_dataset(cell.dataset, data, trial).fingerprint

    return fingerprint


def _tell_problems(foreign: Sequence[str], failed: Sequence[str]) -> int:
    problems = [*foreign, *failed]
    if not problems:
        return 0
    errors = Console(stderr=True, soft_wrap=True)
    errors.print(f"{len(problems)} problems; the rest is done:", highlight=False)
    for problem in problems:
        errors.print(f"  {problem}", highlight=False, markup=False)
    if foreign:
        errors.print("A file in the way is left as it is: move it, or choose another --out.")
    return 1


def comparison_table(rows: Sequence[Row], title: str) -> Table:
    """Lay out rows: the paper's figure, and ours with the difference to the control."""
    table = Table("method", title=title, title_justify="left", title_style="bold")
    for heading in ("paper", "ours, paper settings", "difference", "ours, robust", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    n_trials = max(score.n for row in rows for score in row.scores.values())
    for before, row in zip((None, *rows), rows, strict=False):
        if row.is_control and before is not None and not before.is_control:
            table.add_section()
        paper = "" if row.published is None else "{:.1f} ± {:.1f}".format(*row.published)
        table.add_row(row.name, paper, *_columns(row, n_trials))
    table.caption = (
        f"Test accuracy in %, mean ± standard deviation over {n_trials} trials; difference to the "
        "same without coupling (with all views, with nothing changed) and its 95 % interval."
    )
    return table


def _columns(row: Row, n_trials: int) -> list[str]:
    columns = []
    for settings in SETTINGS_NAMES:
        score = row.scores.get("-" if row.is_control else settings)
        difference = row.differences.get("-" if row.is_control else settings)
        columns += [_score(score, n_trials), _difference(difference)]
    return columns


def _score(score: Score | None, n_trials: int) -> str:
    if score is None or score.n == 0:
        return "–"
    text = f"{score.mean:.1f}" + (f" ± {score.std:.1f}" if score.n > 1 else "")
    return text if score.n == n_trials else f"{text} ({score.n} trials)"


def _difference(difference: Difference | None) -> str:
    if difference is None or difference.n == 0:
        return ""
    if difference.n == 1:
        return _signed(difference.mean)
    text = f"{_signed(difference.mean)} ({_signed(difference.low)}, {_signed(difference.high)})"
    return f"[bold]{text}[/bold]" if difference.excludes_zero else text


def _signed(x: float) -> str:
    return f"{round(x, 1) + 0.0:+.1f}"  # a zero has no minus
