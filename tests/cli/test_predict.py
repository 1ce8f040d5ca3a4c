import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet
import pytest

import hotview as hv
from hotview.cli.models import open_model
from hotview.cli.predict import prediction_columns

from .conftest import paste


def test_ids_do_not_clash_with_results(model, new_files):
    opened = open_model(model)
    rows = opened.read_input([str(f) for f in new_files]).aligned
    opened = replace(opened, preprocessing=replace(opened.preprocessing, id_column="n_views"))
    with pytest.raises(ValueError, match="The column of ids is called 'n_views'"):
        prediction_columns(opened, rows)


def test_predictions_and_sets_are_those_of_python_with_ids(hotview, model, new_files, tmp_path):
    out = tmp_path / "p.parquet"
    result = hotview("predict", model, *new_files, "-o", out, "--set", "0.2")
    table = pyarrow.parquet.read_table(out).to_pandas()
    opened, counts = open_model(model), []
    rows = opened.read_input([str(f) for f in new_files]).aligned
    estimator, classes = opened.estimator, opened.estimator.classes_
    P = estimator.predict_proba(rows.views)
    assert table["id"].tolist() == [f"n{i}" for i in range(20)]
    np.testing.assert_array_equal(table[[f"probability_{name}" for name in classes]], P)
    assert table["predicted"].tolist() == classes[P.argmax(axis=1)].tolist()
    np.testing.assert_array_equal(table["probability"], P.max(axis=1))
    assert set(table["n_views"]) == {2}
    np.testing.assert_array_equal(table["disagreement"], estimator.predict_disagreement(rows.views))
    percentile = estimator.predict_disagreement(rows.views, percentile=True)
    np.testing.assert_array_equal(table["disagreement_percentile"], percentile)
    assert f"Disagreement: {(percentile > 95).sum()} of 20 rows have more than 95 %" in result.out
    sets = estimator.predict_set(rows.views, 0.2)
    assert table["set"].tolist() == ["|".join(classes[row]) for row in sets]
    assert table["n_set"].tolist() == sets.sum(axis=1).tolist()
    assert f"Sets: {(table['n_set'] == 1).sum()} of 20 rows have one class" in result.out
    prediction_columns(opened, rows, counts.append)
    assert sum(counts) == 20  # rows of the progress bar


def test_individuals_may_lack_views_and_unseen_categories_are_noted(
    hotview, model, new_files, tmp_path
):
    few = tmp_path / "scan.csv"
    rows = new_files[1].read_text().splitlines()
    few.write_text("\n".join([rows[0], *rows[15:], rows[1].replace("n0", "zoe")]) + "\n")
    result = hotview("predict", model, new_files[0], few, "-o", tmp_path / "p.csv", "--json")
    table = pd.read_csv(tmp_path / "p.csv").set_index("id")
    assert table.loc[["n0", "n19", "zoe"], "n_views"].tolist() == [1, 2, 1]
    facts = json.loads(result.out)
    assert len(table) == facts["rows"] == sum(facts["predicted"].values()) == 21
    assert "values not in the training data" in result.err


def test_features_are_in_the_order_of_the_file(hotview, model, new_files, tmp_path):
    hotview("transform", model, *new_files, "-o", tmp_path / "z", "--space", "common")
    table = pyarrow.csv.read_csv(tmp_path / "z" / "scan.csv").to_pandas()
    scan = pyarrow.csv.read_csv(new_files[1]).to_pandas()
    assert table["id"].tolist() == scan["id"].tolist()
    Z = hv.load(model).transform({"scan": scan.drop(columns="id").to_numpy()}, "common")["scan"]
    np.testing.assert_allclose(table.drop(columns="id").to_numpy(), Z, rtol=1e-6, atol=1e-7)
    again = hotview("transform", model, *new_files, "-o", tmp_path / "z", code=1)
    assert "--force" in again.err


@pytest.mark.parametrize(
    ("command", "more", "code", "message"),
    (
        ("transform", ("--space", "latent", "-o", "z"), 2, "--space"),
        ("transform", ("-o", "a/b"), 1, "the folder a does not exist"),
        ("predict", ("-o", "p.txt"), 1, "must end in .csv, .parquet or .h5ad"),
        ("predict", ("-o", "p.csv", "--device", "abacus"), 1, "abacus"),
        ("predict", ("-o", "p.csv", "--set", "1"), 2, "Expected --set"),
    ),
)
def test_errors_are_printed(
    hotview, model, new_files, tmp_path, monkeypatch, command, more, code, message
):
    monkeypatch.chdir(tmp_path)
    result = hotview(command, model, *new_files, *more, code=code)
    assert message in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_model_from_python_takes_files_too(hotview, files, tmp_path):
    blood = pd.read_csv(files[0])[:40].drop(columns="id")  # with a column of text
    scan = pd.read_csv(files[1])[:40].drop(columns="id")
    model = hv.MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    model.set_params(device="cpu").fit({"blood": blood, "scan": scan}, np.arange(40) // 2 % 2)
    model.save(tmp_path / "m.hotview")
    np.save(tmp_path / "scan.npy", scan.to_numpy())
    people = [f"p{i}" for i in range(40)]
    blood.assign(who=people).to_csv(tmp_path / "blood.csv", index=False)
    out = tmp_path / "p.csv"
    for file, ids, values, given, more in (
        ("scan.npy", "row", [*range(1, 41)], {"scan": scan}, ()),
        ("blood.csv", "who", people, {"blood": blood}, ("--id-column", "who", "--force")),
    ):
        hotview("predict", tmp_path / "m.hotview", tmp_path / file, "-o", out, *more)
        table = pd.read_csv(out)
        assert table[ids].tolist() == values
        P = table[["probability_0", "probability_1"]]
        np.testing.assert_allclose(P, model.predict_proba(given), rtol=1e-12)


def test_a_model_of_the_command_line_takes_raw_frames(hotview, model, study, files, tmp_path):
    out = tmp_path / "p.csv"
    hotview("predict", model, *files[:2], "-o", out)
    expected = pd.read_csv(out).set_index("id")
    loaded = hv.load(model, device="cpu")
    assert loaded.columns_["blood"].categorical[0].categories == ("F", "M")
    frames = {file.stem: pd.read_csv(file) for file in files[:2]}
    people = [f"p{i}" for i in range(40)]
    linked = {name: frame.set_index("id", drop=False).loc[people] for name, frame in frames.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the column of ids is known
        P = loaded.predict_proba(linked)
    columns = [f"probability_{c}" for c in loaded.classes_]
    np.testing.assert_allclose(P, expected.loc[people, columns], rtol=1e-12)
    shuffled = linked["blood"][linked["blood"].columns[::-1]].assign(site="north")
    with pytest.warns(UserWarning, match="left out: 'site' of view 'blood'"):
        again = loaded.predict_proba({"blood": shuffled, "scan": linked["scan"]})
    np.testing.assert_array_equal(again, P)
    with pytest.warns(UserWarning, match="'X' in column 'sex' of view 'blood'"):
        loaded.predict({"blood": pd.read_csv(study / "new" / "blood.csv")})


@pytest.mark.parametrize("ending", ("csv", "parquet"))
def test_rows_of_small_probability_get_no_class(hotview, model, new_files, tmp_path, ending):
    plain, out = tmp_path / "plain.parquet", tmp_path / f"p.{ending}"
    hotview("predict", model, *new_files, "-o", plain)
    usual = pyarrow.parquet.read_table(plain).to_pandas()
    p = float(np.median(usual["probability"]))
    result = hotview("predict", model, *new_files, "-o", out, "--abstain-below", p, "--json")
    facts = json.loads(result.out)
    read = pyarrow.csv.read_csv if ending == "csv" else pyarrow.parquet.read_table
    table = read(out).to_pandas()
    left = usual["probability"] < p
    assert 0 < left.sum() < 20
    assert table["abstained"].tolist() == left.tolist()
    expected = ["" if skip else name for name, skip in zip(usual["predicted"], left, strict=True)]
    assert [name or "" for name in table["predicted"]] == expected
    assert (facts["abstained"], sum(facts["predicted"].values())) == (left.sum(), 20 - left.sum())
    result = hotview("predict", model, *new_files, "-o", out, "--abstain-below", p, "--force")
    assert f"Abstained: {left.sum()} of 20 rows" in result.out


def test_a_column_in_another_unit_is_named_by_every_command(
    hotview, model, study, new_files, tmp_path
):
    blood, right, wrong = *new_files, tmp_path / "scan.csv"
    out = tmp_path / "p.parquet"
    assert "scan_0" not in hotview("predict", model, blood, right, "-o", out).err
    assert pyarrow.parquet.read_table(out)["n_unusual"].to_pylist() == [0] * 20
    scan = pd.read_csv(right)
    scan.assign(scan_0=100 * scan["scan_0"]).to_csv(wrong, index=False)
    result = hotview("predict", model, blood, wrong, "-o", out, "--force")
    assert "hotview: note: View 'scan': " in result.err
    assert "'scan_0'" in result.err
    assert "'scan_1'" not in result.err
    unusual = pyarrow.parquet.read_table(out)["n_unusual"].to_numpy()
    assert (unusual == 1).sum() > 10
    assert f"Unusual: {(unusual > 0).sum()} of 20 rows" in result.out
    facts = json.loads(hotview("predict", model, blood, wrong, "-o", out, "--force", "--json").out)
    assert facts["unusual"] == (unusual > 0).sum()
    assert any("'scan_0'" in note for note in facts["notes"])
    labels = ("--labels", study / "new-labels.csv", "--no-baselines")
    page = ("-o", tmp_path / "p.html", "--no-importance", "--no-umap", "--force")
    for command, *more in (
        ("evaluate", *labels),
        ("report", *labels, *page),
        ("transform", "-o", tmp_path / "features", "--force"),
    ):
        assert "note: View 'scan': " in hotview(command, model, blood, wrong, *more).err
        assert "View 'scan'" not in hotview(command, model, blood, right, *more).err


@pytest.fixture
def predict(hotview, messy_model, tmp_path):
    """Predict a row of the messy table, and return the result and the table."""

    def run(*more, price="1,050", dose="2.5 mg", seen="03/04/2024", scan=None):
        lab, out = tmp_path / "lab.tsv", tmp_path / "p.parquet"
        lab.write_text(f"id\tprice\tdose\tseen\n007\t{price}\t{dose}\t{seen}\n")
        files = [lab]
        if scan is not None:
            files.append(tmp_path / "scan.tsv")
            files[1].write_text(f"id\tx\ty2\n{scan}\t0.5\t-0.5\n")
        result = hotview("predict", messy_model, *files, "-o", out, "--force", *more, code=None)
        rows = None if result.code else pyarrow.parquet.read_table(out).to_pylist()
        return result, rows

    return run


def check(rows, model, price, dose, days):
    """The probabilities of a row are those of these numbers in Python."""
    expected = hv.load(model).predict_proba({"lab": np.array([[price, dose, days]], dtype=float)})
    found = [rows[0]["probability_u"], rows[0]["probability_v"]]
    np.testing.assert_allclose(found, expected[0], rtol=1e-12)


def test_a_row_is_read_in_the_format_of_the_fit_or_as_options_suggest(predict, messy_model):
    result, rows = predict()
    assert result.err == ""
    check(rows, messy_model, 1050, 2.5, 31 + 29 + 3)  # 4 March: the month is first, as at fit
    result, _ = predict(dose="1,050 mg")
    _, rows = predict(*paste(result.err, "--decimal"), dose="1,050 mg", price="1.050")
    check(rows, messy_model, 1050, 1.05, 63)
    _, rows = predict("--dates", "day-first")
    check(rows, messy_model, 1050, 2.5, 31 + 29 + 31 + 2)
    result, rows = predict("--missing", "much", dose="much")
    assert "Cells of view 'lab' are missing, in 'dose'" in result.err


def test_predictions_show_the_spelling_of_the_first_file(predict):
    _, rows = predict(scan="7")  # the fit ignores leading zeros
    assert [(row["id"], row["n_views"]) for row in rows] == [("007", 2)]
    _, rows = predict("--match-ids", "exact", scan="7")
    assert [(row["id"], row["n_views"]) for row in rows] == [("007", 1), ("7", 1)]
