"""Workers that run cases, and a supervisor that counts crashes and hangs."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import numpy as np

__all__ = ["Problem", "Target", "TargetResult", "run_campaign", "run_case"]

_MAX_SECONDS = 60.0  # of one case; slower ones count as hangs
_MAX_BYTES = 2**32  # of address space that one worker may add
_CHUNK_SECONDS = 2.0
_CONTEXT = multiprocessing.get_context("fork")  # importing torch anew takes longer than most cases


class Problem(Exception):  # noqa: N818
    """A promise that a case has found broken."""


class Target(Protocol):
    """What is fuzzed: valid originals, made once, and one case, which changes one of them."""

    def prepare(self, folder: Path) -> None:
        """Write the originals into a folder."""

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Run one case in an empty folder; return its outcome, such as ``"refused"``."""


@dataclass
class TargetResult:
    """Cases of one target, by outcome; problems with the case that shows each."""

    cases: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return values that JSON can represent."""
        rounded = {"seconds": round(self.seconds, 1), "slowest": round(self.slowest, 2)}
        return {**asdict(self), **rounded, "outcomes": dict(self.outcomes)}


def run_case(name: str, target: Target, originals: Path, seed: int, case: int, keep: Path) -> str:
    """Run one case; its randomness depends on the seed, the target and the number alone.

    Parameters
    ----------
    name : str
        Name of the target.
    target : Target
        The target.
    originals : Path
        Folder of its originals.
    seed, case : int
        Seed of the campaign, and number of the case.
    keep : Path
        Folder that the files of a case with a problem are copied to.

    Returns
    -------
    str
        The outcome; whatever the case does not expect is raised.
    """
    random = np.random.default_rng([seed, zlib.crc32(name.encode()), case])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return target.run(random, originals, Path(folder))
        except BaseException:
            shutil.copytree(folder, keep / f"{name}-{seed}-{case}", dirs_exist_ok=True)
            raise


def run_campaign(
    targets: Mapping[str, Target],
    *,
    seed: int,
    keep: Path,
    seconds: float = 60.0,
    cases: int | None = None,
    n_workers: int = 1,
    report: Callable[[Mapping[str, TargetResult]], None] = lambda results: None,
) -> dict[str, TargetResult]:
    """Run cases until a time has passed or, if it is given, a number of cases per target.

    All targets get the same time. A worker that dies or hangs counts as a problem of the case
    that it was running, and another worker goes on with the next case.

    Parameters
    ----------
    targets : dict of str to Target
        Targets by name.
    seed : int
        Seed of the campaign.
    keep : Path
        Folder that the files of cases with a problem are copied to.
    seconds : float, default=60.0
        Duration.
    cases : int or None, default=None
        Cases of each target; None goes on until the time has passed.
    n_workers : int, default=1
        Number of processes.
    report : callable, optional
        Is called with the results so far, now and then.

    Returns
    -------
    dict of str to TargetResult
        Results by target.
    """
    results = {name: TargetResult() for name in targets}
    with tempfile.TemporaryDirectory() as folder:
        for name, target in targets.items():
            (Path(folder) / name).mkdir()
            _prepare(target, Path(folder) / name)
        end = time.monotonic() + seconds
        chunks = _chunks(results, end, cases)
        running: list[_Worker] = []

        def run(name: str, case: int) -> str:
            return run_case(name, targets[name], Path(folder) / name, seed, case, keep)

        while True:
            while len(running) < n_workers and (chunk := next(chunks, None)) is not None:
                running.append(_Worker(*chunk, run))
            if not running:
                return results
            for worker in running.copy():
                if worker.poll(results[worker.name]):
                    running.remove(worker)
                    if worker.case < worker.end:  # after a crash
                        rest = worker.end - worker.case
                        running.append(_Worker(worker.name, worker.case, rest, run))
            report(results)
            time.sleep(0.01)


def _prepare(target: Target, folder: Path) -> None:
    """Make the originals in a process of its own: autograd cannot be used before a fork."""
    process = _CONTEXT.Process(target=target.prepare, args=(folder,))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"the originals could not be made: exit status {process.exitcode}")


def _chunks(
    results: Mapping[str, TargetResult], end: float, cases: int | None
) -> Iterator[tuple[str, int, int]]:
    """Yield target, first case and number of cases, of the target with the least time so far."""
    started = dict.fromkeys(results, 0)
    while cases is not None or time.monotonic() < end:
        open_ = [name for name in results if cases is None or started[name] < cases]
        if not open_:
            return
        name = min(open_, key=lambda name: (results[name].seconds, started[name]))
        result = results[name]
        pace = result.seconds / result.cases if result.cases else _CHUNK_SECONDS / 10
        n = max(1, min(2000, int(_CHUNK_SECONDS / max(pace, 1e-4))))
        n = n if cases is None else min(n, cases - started[name])
        yield name, started[name], n
        started[name] += n


class _Worker:
    """A process that runs consecutive cases of one target."""

    def __init__(self, name: str, first: int, n: int, run: Callable[[str, int], str]) -> None:
        self.name, self.end, self.run = name, first + n, run
        self.case, self.start = first, time.monotonic()
        self.receiver, sender = _CONTEXT.Pipe(duplex=False)
        self.process: BaseProcess = _CONTEXT.Process(target=self._run_cases, args=(sender,))
        self.process.start()
        sender.close()

    def _run_cases(self, sender: Connection) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + _MAX_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor
        for case in range(self.case, self.end):
            try:
                sender.send((self.run(self.name, case), None))
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                sender.send(("problem", f"{type(error).__name__}: {error} ({place})"))

    def poll(self, result: TargetResult) -> bool:
        """Add the cases that have ended to a result; return whether the process has ended."""
        while self.receiver.poll():
            try:
                self._add(result, *self.receiver.recv())
            except EOFError:
                self.process.join()
                if self.case < self.end:
                    self._add(result, "problem", f"exit status {self.process.exitcode}")
                return True
        if time.monotonic() - self.start > _MAX_SECONDS:
            self.process.kill()
            self.process.join()
            self._add(result, "problem", f"no end after {_MAX_SECONDS:g} s")
            return True
        return False

    def _add(self, result: TargetResult, outcome: str, problem: str | None) -> None:
        now = time.monotonic()
        result.cases += 1
        result.seconds += now - self.start
        result.slowest = max(result.slowest, now - self.start)
        result.outcomes[outcome] += 1
        if problem is not None:
            result.problems.append({"case": self.case, "problem": problem[:500]})
        self.case, self.start = self.case + 1, now
