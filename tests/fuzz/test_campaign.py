import faulthandler
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from fuzz import campaign
from fuzz.campaign import run_campaign, run_case

N = 12


@dataclass
class Draws:
    """A target whose cases write down what they have drawn; some of them go wrong."""

    wrong: dict = None

    def prepare(self, folder):
        (folder / "original").write_text("whole")

    def run(self, random, originals, folder):
        assert (originals / "original").read_text() == "whole"
        number = int(random.integers(1000))
        (folder / "file").write_text(str(number))
        with (originals / "log").open("a") as file:
            file.write(f"{number}\n")
        for k, act in (self.wrong or {}).items():
            if number % 5 == k:
                act()
        return "odd" if number % 2 else "even"


def raise_error():
    raise KeyError("lost")


def crash():
    faulthandler.disable()  # a crash that is meant is not to be reported
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.fixture
def numbers(tmp_path):
    """What the first cases of a target draw, by running them one after the other."""
    target = Draws()
    target.prepare(tmp_path)
    for case in range(N):
        run_case("draws", target, tmp_path, 7, case, tmp_path / "keep")
    return [int(line) for line in (tmp_path / "log").read_text().split()]


def run(target, tmp_path, **more):
    keep = tmp_path / "keep"
    return run_campaign({"draws": target}, seed=7, keep=keep, cases=N, **more)["draws"]


def test_a_case_depends_on_the_seed_and_its_number_alone(numbers, tmp_path):
    result = run(Draws(), tmp_path, n_workers=2)
    assert result.cases == N
    assert result.outcomes == Counter("odd" if n % 2 else "even" for n in numbers)
    assert result.problems == []
    assert len(set(numbers)) > 6


def test_an_error_is_a_problem_and_the_files_of_its_case_are_kept(numbers, tmp_path):
    result = run(Draws({0: raise_error}), tmp_path)
    wrong = [case for case, n in enumerate(numbers) if n % 5 == 0]
    assert wrong
    assert [problem["case"] for problem in result.problems] == wrong
    assert all("KeyError: 'lost'" in problem["problem"] for problem in result.problems)
    for case in wrong:
        kept = tmp_path / "keep" / f"draws-7-{case}" / "file"
        assert int(kept.read_text()) == numbers[case]
    assert result.cases == N


def test_a_crash_is_a_problem_and_the_next_case_is_run(numbers, tmp_path):
    result = run(Draws({1: crash}), tmp_path)
    wrong = [case for case, n in enumerate(numbers) if n % 5 == 1]
    assert [problem["case"] for problem in result.problems] == wrong
    assert {problem["problem"] for problem in result.problems} == {"exit status -11"}
    assert result.cases == N


def test_too_much_memory_is_a_problem(tmp_path):
    result = run(Draws({2: lambda: np.zeros(2**33, np.uint8)}), tmp_path)
    assert {"MemoryError" in problem["problem"] for problem in result.problems} == {True}


def test_a_hang_is_a_problem(numbers, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "_MAX_SECONDS", 0.6)
    k = numbers[0] % 5
    result = run(Draws({k: lambda: time.sleep(60)}), tmp_path, n_workers=4)
    assert {"case": 0, "problem": "no end after 0.6 s"} in result.problems
    assert result.cases >= N  # on a busy machine others may have to be tried again


def test_targets_share_the_time(tmp_path):
    targets = {"a": Draws(), "b": Draws({k: lambda: time.sleep(0.05) for k in range(5)})}
    results = run_campaign(targets, seed=0, keep=tmp_path, seconds=2.0, n_workers=1)
    assert results["a"].cases > results["b"].cases > 0
