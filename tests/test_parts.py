"""The benchmark of the default's parts changes one part at a time, and nothing else."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = str(Path(__file__).parent.parent / "benchmarks")


@pytest.fixture(scope="module")
def parts():
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("parts")


@pytest.fixture(scope="module")
def fitted(parts):
    """A tiny task with a view without labels, and the default's fit of it."""
    random = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = random.normal(size=(90, 4)) + 2 * y[:, None]
    views = {"a": X, "b": X @ random.normal(size=(4, 3)), "c": X @ random.normal(size=(4, 5))}
    has_label = np.arange(45) < 20
    task = parts.Task({v: V[:45].copy() for v, V in views.items()}, np.where(has_label, y[:45], -1))
    task.linked["c"][has_label] = np.nan  # a view without labels, to which they are transported
    task.unaligned = {v: V[45:75] for v, V in views.items()}
    task.tests["all views"] = {v: V[75:] for v, V in views.items()}, y[75:]
    model = parts.Kept(random_state=0, device="cpu", max_epochs=1, n_estimators=2, verbose=False)
    return task, model.fit(**task.arguments())


def probabilities(fitted, part=None):
    """The default's, with its predictors made again, where a part is given without it."""
    task, model = fitted
    learner, seconds = model.again() if part is None else model.again(part)
    assert learner is not model.model_.learner
    assert seconds > 0
    with model.predicting_by(learner):
        return model.predict_proba(task.tests["all views"][0])


def test_parts_after_training_change_the_probabilities_and_leave_nothing_behind(parts, fitted):
    task, model = fitted
    expected = model.predict_proba(task.tests["all views"][0])
    np.testing.assert_array_equal(probabilities(fitted), expected)
    for name, part in parts.PARTS.items():
        if part.after and part.replaced:
            assert not np.array_equal(probabilities(fitted, part), expected), name
    np.testing.assert_array_equal(probabilities(fitted), expected)
    np.testing.assert_array_equal(model.predict_proba(task.tests["all views"][0]), expected)


def record(gain, parts=("no heads", "another seed")):
    """Lines of a default that is better than without its parts by so much, on three datasets."""
    lines = []
    for i, dataset in enumerate(("x", "y", "z")):
        for part in ("default", *parts):
            worse = 0.0 if part != "no heads" else gain + 0.001 * i
            scores = {"accuracy": 0.8 - worse, "log_loss": 0.5, "calibration_error": 0.05}
            where = {"situation": "A", "setting": "", "dataset": dataset, "trial": 0}
            rest = {"confidence_minus_accuracy": -0.05, "seconds": 2.0, "seconds_predict": 0.1}
            lines.append({**where, "cell": "all views", "part": part, **scores, **rest})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("gain", "verdict", "counts"),
    ((0.01, "stays", "1 / 0"), (-0.0005, "leaves", "0 / 0"), (-0.02, "leaves", "0 / 1")),
)
def test_the_rule_follows_the_differences(parts, gain, verdict, counts):
    tables = parts.parts_tables
    row = tables.parts(record(gain)).splitlines()[-1]
    assert row.startswith("| no heads |")
    assert row.endswith(f"| {counts} | {verdict} |")
    assert ("no heads" in tables.losses(record(gain))) == (counts == "0 / 1")
    assert "in 0 for the default" in tables.chance(record(gain))
