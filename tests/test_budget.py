"""How large the package is, what a fit passes through, and what the fast tests may use.

The numbers are at the top. To raise one is a commit of its own, which says what it buys. What a
test file uses (models fitted, processes, browser pages; not seconds) is counted by ``conftest.py``
while it runs, and the run fails where it is too much.
"""

from collections import Counter
from pathlib import Path

from tests.house import measure
from tests.walk import walks

#: of the package, as ``python -m tests.house`` counts
MODULES, CODE_LINES, USED_ONCE, LONG_FILES = 174, 26_213, 338, 5
#: modules, functions, calls between files and depth, as ``python -m tests.walk`` counts
WALKS = {"fit": (66, 780, 475, 17), "predict_proba": (20, 97, 47, 12)}
#: lines of Python in tests/
LINES = 40_040
#: what a test file may use, if it is not named below
USUAL = {"fits": 40, "processes": 3, "pages": 0}
#: what others may use, and for what
MORE = {
    # scikit-learn's own checks of an estimator
    "tests/estimators/test_stacked_views.py": {"fits": 250},
    # examples that Hypothesis draws, and tables of bad input
    "tests/estimators/test_fit.py": {"fits": 100},
    # every parameter of the classifier by what it changes
    "tests/estimators/test_classifier.py": {"fits": 60},
    # a target that crashes or hangs must not take others with it
    "tests/fuzz/test_campaign.py": {"processes": 26},
    "tests/fuzz/test_targets.py": {"processes": 13},
}

ROOT = Path(__file__).parent.parent


def exceeded(used):
    """Sentences on files that used more than they may, by what they used."""
    found = []
    for (file, what), n in sorted(used.items()):
        limit = MORE.get(file, {}).get(what, USUAL[what])
        if n > limit:
            found.append(
                f"{file}: {n} {what}, of at most {limit}. Share them among tests (a fixture of "
                "the module), or raise the limit in tests/test_budget.py and say what it buys."
            )
    return found


def test_the_package_has_few_lines_and_modules():
    house = measure()
    long = [name for name, n in house.lines.items() if n > 400]
    found = house.total(0), house.total(1), house.used_once, len(long)
    limits = MODULES, CODE_LINES, USED_ONCE, LONG_FILES
    assert all(n <= limit for n, limit in zip(found, limits, strict=True)), (found, limits)


def test_a_fit_and_a_prediction_pass_through_few_modules():
    for name, found in walks().items():
        assert all(n <= limit for n, limit in zip(found, WALKS[name], strict=True)), (name, found)


def test_the_tests_have_few_lines():
    lines = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "tests").rglob("*.py")
    }
    longest = sorted(lines, key=lines.get)[-3:]
    assert sum(lines.values()) <= LINES, f"The longest are {', '.join(longest)}."


def test_files_with_limits_of_their_own_are_there_and_need_them():
    for file, limits in MORE.items():
        assert (ROOT / file).is_file(), file
        assert all(limit > USUAL[what] for what, limit in limits.items()), file


def test_a_file_that_uses_too_much_is_named():
    (message,) = exceeded(Counter({("tests/a.py", "fits"): 41, ("tests/a.py", "processes"): 3}))
    assert message.startswith("tests/a.py: 41 fits, of at most 40.")
