"""Repeated visits on the command line: ``--group-column``."""

import csv
import json

import numpy as np
import pytest

import hotview as hv
from hotview.tables.dataset import DatasetFiles, read_dataset

from .conftest import QUICK

COLUMNS = ("--label-column", "state", "--id-column", "visit", "--group-column", "person")


def write_visits(folder, people, start=0):
    """Three visits of every person, the third with blood alone."""
    folder.mkdir()
    random, rows = np.random.default_rng(start), {"blood": [], "scan": []}
    for i, person in enumerate(people):
        for visit in range(3):
            for name in ("blood", "scan") if visit < 2 else ("blood",):
                numbers = (i % 2 + 0.3 * random.normal(size=3)).tolist()
                rows[name].append(
                    [f"v{start}-{i}-{visit}", person, ("ill", "well")[i % 2], *numbers]
                )
    for name, lines in rows.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["visit", "person", "state", "x", "y", "z"], *lines])
    return [folder / "blood.csv", folder / "scan.csv"]


@pytest.fixture
def visits(tmp_path):
    return write_visits(tmp_path / "visits", [f"p{i}" for i in range(20)])


def test_nobody_is_trained_and_evaluated_on(hotview, visits, tmp_path):
    path = tmp_path / "m.hotview"
    command = ("fit", *visits, *COLUMNS, "-o", path, *QUICK, "--hold-out", "0.3", "--json")
    result = hotview(*command)
    facts = json.loads(result.out)
    model = hv.load(path)
    assert facts["rows_held_out"] == facts["held_out"]["rows"] == 2 * 6  # both visits of six people
    assert model.trained_on_["linked"] == 2 * 14
    assert model.trained_on_["unaligned"] == {"blood": 14}  # without the third visits of the six
    assert facts["labeled_groups"] == 14
    assert model.n_features_per_view_ == {"blood": 3, "scan": 3}  # the person is no feature
    # The files of the fit: what is left are the six people, their third visits among it.
    again = hotview("evaluate", path, *visits, "--json")
    assert json.loads(again.out)["rows"] == 3 * 6
    assert json.loads(again.out)["resampled"] == "groups"
    hotview("report", path, *visits, "-o", tmp_path / "r.html", "--no-umap")


def test_the_fit_is_that_of_python_with_groups_whose_later_visits_are_left_out(
    hotview, visits, tmp_path
):
    path = tmp_path / "m.hotview"
    hotview("fit", *visits, *COLUMNS, "-o", path, *QUICK)
    files = DatasetFiles(
        [str(f) for f in visits], label_column="state", id_column="visit", drop=["person"]
    )
    plain = read_dataset(files)
    model = hv.MultiViewClassifier(
        max_epochs=2, n_estimators=2, hidden=(8,), device="cpu", random_state=0
    )
    found = hv.load(path).predict_proba(plain.linked)
    arguments = plain.fit_arguments
    assert arguments["groups"] is None
    without = model.fit(**arguments).predict_proba(plain.linked)
    own = [key.split("-")[1] for key in plain.ids]
    more = {"blood": [key.split("-")[1] for key in plain.unaligned_ids["blood"]]}
    model.fit(**{**arguments, "groups": own, "unaligned_groups": more})
    np.testing.assert_allclose(found, model.predict_proba(plain.linked), rtol=1e-6)
    assert np.abs(found - without).max() > 1e-6  # other labels were left out
    # Of people who were trained on, later visits are left out.
    later = write_visits(tmp_path / "later", [*(f"p{i}" for i in range(4)), *"abcdef"], start=1)
    result = hotview("evaluate", path, *later, "--json")
    assert json.loads(result.out)["rows"] == 3 * 6
    assert "trained on 12 of these rows" in result.err
    for file in later:  # nobody is recognized without the column
        rows = [line.split(",") for line in file.read_text().splitlines()]
        file.write_text("\n".join(",".join([r[0], *r[2:]]) for r in rows) + "\n")
    result = hotview("evaluate", path, *later, "--json")
    assert json.loads(result.out)["rows"] == 3 * 10
    assert "No table has the column 'person' of the fit" in result.err
