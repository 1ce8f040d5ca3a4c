import json

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score


def test_numbers_are_scikit_learns(hotview, model, study, new_files, tmp_path):
    import pyarrow.csv

    labels = ("--labels", study / "new-labels.csv")
    result = hotview("evaluate", model, *new_files, *labels, "--json")
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    hotview("predict", model, *new_files, "-o", tmp_path / "p.csv")
    found = pyarrow.csv.read_csv(tmp_path / "p.csv")["predicted"].to_pylist()
    truth = pyarrow.csv.read_csv(study / "new-labels.csv")["state"].to_pylist()
    assert facts["rows"] == 20
    np.testing.assert_allclose(facts["accuracy"], accuracy_score(truth, found))
    np.testing.assert_allclose(facts["balanced_accuracy"], balanced_accuracy_score(truth, found))
    np.testing.assert_allclose(facts["macro_f1"], f1_score(truth, found, average="macro"))
    assert np.sum(facts["confusion"]) == 20
    assert not facts["seen"]


def test_metrics_are_printed_as_tables(hotview, model, study, new_files):
    result = hotview("evaluate", model, *new_files, "--labels", study / "new-labels.csv")
    assert result.code == 0
    for word in (
        "accuracy",
        "balanced accuracy",
        "macro-F1",
        "calibration error",
        "Confusion matrix",
    ):
        assert word in result.out


def test_files_of_the_fit_are_recognized(hotview, model, files):
    result = hotview("evaluate", model, *files[:2], "--labels", files[3])
    assert result.code == 0
    assert "trained on these rows and labels: these metrics are optimistically biased" in result.err


def test_rows_without_a_label_are_counted(hotview, model, study, new_files, tmp_path):
    few = tmp_path / "labels.csv"
    few.write_text("\n".join((study / "new-labels.csv").read_text().splitlines()[:6]) + "\n")
    result = hotview("evaluate", model, *new_files, "--labels", few, "--json")
    assert json.loads(result.out)["rows"] == 5
    assert "15 of 20 rows have no label and are left out" in result.err


def test_classes_that_training_did_not_see_count_as_missed(hotview, model, new_files, tmp_path):
    labels = tmp_path / "labels.csv"
    rows = ["id,state", *(f"n{i},{'weird' if i < 5 else 'ill'}" for i in range(20))]
    labels.write_text("\n".join(rows) + "\n")
    facts = json.loads(hotview("evaluate", model, *new_files, "--labels", labels, "--json").out)
    assert facts["classes"] == ["ill", "odd", "well", "weird"]
    assert facts["accuracy"] <= 0.75
    assert facts["log_loss"] is None


def test_missing_labels_raise(hotview, model, new_files, tmp_path):
    result = hotview("evaluate", model, *new_files)
    assert result.code == 1
    assert "Expected labels to evaluate on. Give --labels FILE" in result.err
    labels = tmp_path / "labels.csv"
    labels.write_text("id,state\nnobody,ill\n")
    result = hotview("evaluate", model, *new_files, "--labels", labels)
    assert result.code == 1
    assert "no row has one" in result.err
