import json

import numpy as np
import pyarrow.csv
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

import hotview as hv
from hotview.cli.models import open_model, read_evaluation_rows, read_training
from hotview.cli.options import ModelFiles, Scoring
from hotview.evaluation import ConcatenatedLogisticRegression


def test_numbers_are_scikit_learns(hotview, model, study, new_files, tmp_path):
    labels = ("--labels", study / "new-labels.csv")
    result = hotview("evaluate", model, *new_files, *labels, "--json")
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


def test_metrics_and_simple_methods_are_printed_as_tables(hotview, model, study, new_files):
    command = ("evaluate", model, *new_files, "--labels", study / "new-labels.csv")
    out = hotview(*command).out
    words = ("majority class, always", "accuracy", "balanced accuracy", "macro-F1", "log loss")
    for word in (*words, "prevalence", "mean probability", "calibration error", "Confusion matrix"):
        assert word in out
    assert out.index("majority class") < out.index("balanced accuracy")
    assert "Positive class" not in out
    assert out.index("label propagation in each view") < out.index("Confusion matrix")
    bare = hotview(*command, "--no-baselines")
    assert "majority class" in bare.out
    assert "label propagation" not in bare.out
    assert "the files of the fit" not in bare.err


def test_files_of_the_fit_are_recognized(hotview, model, files):
    result = hotview("evaluate", model, *files[:2], "--labels", files[3], "--json")
    assert "trained on these rows and labels: these metrics are optimistically biased" in result.err
    facts = json.loads(result.out)
    assert facts["seen"]
    assert facts["comparison"] == []
    assert len(facts["baselines"]) == 4


def test_rows_without_a_known_label_are_counted_or_refused(
    hotview, model, study, new_files, tmp_path
):
    labels = tmp_path / "labels.csv"
    command = ("evaluate", model, *new_files, "--labels", labels)
    result = hotview(*command[:-2], code=1)
    assert "Expected labels to evaluate on. Give --labels FILE" in result.err
    labels.write_text("id,state\nnobody,ill\n")
    assert "no row has one" in hotview(*command, code=1).err
    labels.write_text("".join((study / "new-labels.csv").open().readlines()[:6]))
    result = hotview(*command, "--json")
    assert json.loads(result.out)["rows"] == 5
    assert "15 of 20 rows have no label and are left out" in result.err
    rows = ["id,state", *(f"n{i},{'weird' if i < 5 else 'ill'}" for i in range(20))]
    labels.write_text("\n".join(rows) + "\n")
    facts = json.loads(hotview(*command, "--json").out)
    assert facts["classes"] == ["ill", "odd", "well", "weird"]
    assert facts["accuracy"] <= 0.75  # a class that training did not see is missed
    assert facts["log_loss"] is None


def test_simple_methods_are_fitted_on_the_files_of_the_fit(hotview, model, study, new_files):
    labels = study / "new-labels.csv"
    result = hotview("evaluate", model, *new_files, "--labels", labels, "--json")
    found = {b["name"]: b for b in json.loads(result.out)["baselines"]}
    assert len(found) == 4
    opened = open_model(model)
    arguments, _ = read_training(opened)
    arguments = {name: value for name, value in arguments.items() if "groups" not in name}
    fitted = ConcatenatedLogisticRegression().fit(**arguments)
    rows = read_evaluation_rows(opened, [str(f) for f in new_files], str(labels))
    expected = fitted.score(rows.views, rows.target.astype(str))
    assert found["logistic regression"]["accuracy"]["value"] == expected


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """What is typed for a model of noise and new rows that are as random, and the larger share."""
    folder = tmp_path_factory.mktemp("noise")
    rng = np.random.default_rng(0)
    views = {name: rng.normal(size=(60, 3)) for name in ("a", "b")}
    y = np.where(rng.random(60) < 0.8, "well", "ill")
    model = hv.MultiViewClassifier(max_epochs=1, n_estimators=2, hidden=(4,), random_state=0)
    with pytest.warns(UserWarning, match="not measurably better than the shares of the classes"):
        model.fit(views, y)
    model.save(folder / "m.hotview")
    for name in views:
        np.save(folder / f"{name}.npy", rng.normal(size=(60, 3)))
    labels = np.where(rng.random(60) < 0.8, "well", "ill")
    (folder / "labels.csv").write_text("\n".join(["state", *labels]) + "\n")
    files = [folder / name for name in ("m.hotview", "a.npy", "b.npy")]
    given = (*files, "--labels", folder / "labels.csv", "--label-column", "state")
    return given, float(np.mean(labels == "well"))


@pytest.fixture
def evaluate_noise(hotview, noise):
    return lambda *more, code=0: hotview("evaluate", *noise[0], *more, code=code)


def test_a_model_of_noise_is_no_better_than_the_majority_class(evaluate_noise, noise):
    result, printed = evaluate_noise("--json"), evaluate_noise().out
    assert "the files of the fit are not here" in result.err
    facts = json.loads(result.out)
    assert facts["baselines"][0]["accuracy"]["value"] == noise[1] == facts["majority"]
    assert facts["majority_class"] == "well"
    assert facts["majority_interval"][0] < noise[1] < facts["majority_interval"][1]
    sentence = "In accuracy, the model is no better than always predicting the most frequent class"
    assert facts["comparison"][0].startswith(sentence)
    assert sentence in printed
    binary = facts["binary"]
    assert (binary["positive"], binary["reason"]) == ("ill", "the rarer class in training")
    recall = {c["name"]: c["recall"] for c in facts["by_class"]}
    assert binary["default"]["sensitivity"] == recall["ill"]
    assert binary["default"]["specificity"] == recall["well"]
    assert binary["chosen"] is None
    assert "Positive class ill (the rarer class in training)" in printed


def test_the_threshold_is_that_of_the_cost_or_given(evaluate_noise):
    chosen = json.loads(evaluate_noise("--cost", "5", "--json").out)["binary"]["chosen"]
    assert chosen["threshold"] == pytest.approx(1 / 6)
    assert len(chosen["cost_interval"]) == 2
    other = json.loads(evaluate_noise("--threshold", "0.3", "--positive", "well", "--json").out)
    assert other["binary"]["positive"] == "well"
    assert other["binary"]["chosen"]["threshold"] == 0.3
    held_out = json.loads(evaluate_noise("--threshold", "held-out", "--json").out)
    assert held_out["binary"]["chosen"]["n"] == 30
    printed = evaluate_noise("--cost", "5").out
    assert "cost per row" in printed
    assert "lowest expected" in printed
    for *option, message in (
        ("--positive", "odd", "positive to be a class of the model, but it is 'odd'"),
        ("--threshold", "high", "threshold to be a probability or 'held-out'"),
        ("--cost", "-1", "cost to be a positive number"),
    ):
        assert message in evaluate_noise(*option, code=1).err


def test_importance_is_printed_with_bars_and_in_json(hotview, model, study, new_files):
    command = ("evaluate", model, *new_files, "--labels", study / "new-labels.csv")
    command = (*command, "--no-baselines", "--importance")
    found = json.loads(hotview(*command, "--json").out)["importance"]
    assert {effect["view"] for effect in found["views"]} == {"blood", "scan"}
    opened = open_model(model)
    expected = sum(opened.estimator.n_features_per_view_.values())
    assert found["n_columns"] == expected == len(found["columns"])
    assert "sex" in {effect["column"] for effect in found["columns"]}  # one, of two encoded ones
    out = hotview(*command).out
    assert out.index("Confusion matrix") < out.index("Views, permuted") < out.index("Columns, per")
    for table in (out[: out.index("Columns, per")], out[out.index("Columns, per") :]):
        assert max(line.count("█") for line in table.splitlines()) == 20
    assert "importance" not in json.loads(hotview(*command[:-1], "--json").out)


def test_rows_of_the_fit_are_recognized_in_another_spelling(hotview, messy_model, tmp_path):
    lines = (messy_model.parent / "lab.tsv").read_text().splitlines()
    rows = [f"{int(line[:3])}{line[3:]}" for line in lines[1:]]
    (tmp_path / "lab.tsv").write_text("\n".join([lines[0], *rows]) + "\n")
    for more in ((), ("--match-ids", "exact"), ("--match-ids", "case")):
        command = ("evaluate", messy_model, tmp_path / "lab.tsv", "--no-baselines", "--json", *more)
        result = hotview(*command)
        assert json.loads(result.out)["seen"]
        assert "trained on these rows and labels" in result.err


def test_labels_are_in_a_table_or_a_view(model, new_files):
    opened = open_model(model)
    assert opened.read_labels(opened.read_input([str(new_files[1])]), None) is None


def test_training_rows_are_left_out_if_there_are_others(model, files, study, new_files, tmp_path):
    old, new = (path.read_text().splitlines() for path in (files[1], new_files[1]))
    (tmp_path / "scan.csv").write_text("\n".join([*old, *new[1:]]) + "\n")
    labels = [(study / name).read_text().splitlines() for name in ("labels.csv", "new-labels.csv")]
    (tmp_path / "labels.csv").write_text("\n".join([*labels[0], *labels[1][1:]]) + "\n")
    specs, table = [str(tmp_path / "scan.csv")], str(tmp_path / "labels.csv")
    rows = read_evaluation_rows(open_model(model), specs, table)
    assert not rows.seen
    assert set(rows.take_labeled().ids) == {f"n{i}" for i in range(20)}
    assert "trained on 40 of these rows" in rows.notes[-1]


def test_formats_of_new_files_are_added_to_those_of_the_fit(model, tmp_path):
    loaded = hv.load(model)
    stored = loaded.metadata_["preprocessing"]
    loaded.metadata_ = {"preprocessing": {"views": 7}}
    loaded.save(tmp_path / "m.hotview")
    with pytest.raises(ValueError, match="is not valid"):
        open_model(tmp_path / "m.hotview")
    text = {"delimiter": {"blood": ";", "scan": "|"}, "decimal": ",", "header": True}
    loaded.metadata_ = {"preprocessing": {**stored, "text": text}}
    loaded.save(tmp_path / "m.hotview")
    new = {"delimiter": {"scan": ","}, "decimal": {"scan": "."}, "missing": ["?"]}
    found = open_model(tmp_path / "m.hotview", ModelFiles(text=new)).preprocessing.text
    assert found == {
        "delimiter": {"blood": ";", "scan": ","},
        "decimal": {"": ",", "scan": "."},
        "header": True,
        "missing": ["?"],
    }
    found = open_model(
        tmp_path / "m.hotview", ModelFiles(text={"delimiter": "!"})
    ).preprocessing.text
    assert found == {**text, "delimiter": "!"}


def test_files_of_the_fit_are_found_only_unchanged(model, files):
    # The columns are of new files.
    opened = open_model(model, ModelFiles(id_column="who"), Scoring(label_column="y"))
    training, notes = read_training(opened)
    assert (len(training["y"]), len(training["unaligned"]["scan"]), notes) == (40, 30, [])
    rows = read_evaluation_rows(open_model(model), [str(f) for f in files[:2]], None)
    assert rows.seen
    assert sum(label is not None for label in rows.target) == 40  # by the labels of the fit
    opened.estimator.metadata_["sha256"][str(files[0])] = "0" * 64
    training, (note,) = read_training(opened)
    assert training is None
    assert "Only the majority class is compared: the files of the fit are not here" in note


def test_hashes_of_ids_that_are_not_valid_are_refused(model, files):
    for key, values in {
        "trained_ids": ("QUJDREVGR0g=", "?:?", 7, "QUJD:QUJD:QUJD"),
        "hashed_without": (7, ["zero"], [3]),
    }.items():
        for value in values:
            opened = open_model(model)
            opened.estimator.metadata_[key] = value
            with pytest.raises(ValueError, match=r"\.hotview to hold the salted hashes of its ids"):
                read_evaluation_rows(opened, [str(files[1])], str(files[3]))
