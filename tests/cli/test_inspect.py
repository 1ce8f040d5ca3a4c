import json

from hotview import MultiViewEncoder
from hotview.cli.inspect import describe_model, result_lines
from hotview.datasets import make_views
from hotview.evaluation import assess
from hotview.persistence import load_model


def test_results_are_sentences(model):
    lines = result_lines(load_model(model))
    assert lines[0].startswith("Networks: 2; epochs: 2; ")
    assert lines[1].startswith("By 40 linked rows, 'blood' and 'scan' ")
    assert lines[2].startswith("Within classes, beyond what the class explains, it is ")
    assert lines[3].startswith("In the common space, rows of different views ")


def test_accuracies_on_left_out_labels_are_told_by_view(model):
    estimator = load_model(model)
    scores = {"n": 40, "accuracy": 0.954, "expected": False}
    taught = {"n": 12, "accuracy": 0.61, "expected": True}
    estimator.trained_on_["out_of_fold"] = {"blood": scores, "scan": taught}
    *_, observed, expected = result_lines(estimator)
    assert observed == "Accuracy on 40 labels that were left out: blood 95 %."
    assert expected.startswith("View 'scan' has no labels: by what the other views say about 12 ")
    assert expected.endswith("expect an accuracy of about 61 %.")
    estimator.trained_on_["out_of_fold"] = {}
    assert len(result_lines(estimator)) == 4


def test_what_every_view_adds_is_told(model):
    estimator = load_model(model)
    scores = {"n": 40, "accuracy": 0.9, "expected": False, "log_loss": 0.5, "prior_log_loss": 1.0}
    scores |= {"standard_error": 0.1}
    change = {"n": 40, "increase": 0.3, "low": 0.1, "high": 0.5}
    estimator.trained_on_["out_of_fold"] = {
        "blood": {**scores, "loss_without": change},
        "scan": {**scores, "loss_without": {**change, "low": -0.1}},
        "all views": {**scores, "loss_without": None},
    }
    assert result_lines(estimator)[-1].startswith("Keep 'blood': without it, the log loss on 40 ")


def test_a_model_is_described_in_text(hotview, model):
    result = hotview("inspect", model)
    for part in (
        "MultiViewClassifier",
        "blood",
        "Linked rows: 40",
        "The paper's plan W",
        "Similarity of views by linked rows within classes",
        "left-out labels",  # which views to keep
        "Made by: hotview fit",
    ):
        assert part in result.out


def test_other_files_raise(hotview, study):
    result = hotview("inspect", study / "labels.csv", code=1)
    assert "labels.csv" in result.err
    assert "Traceback" not in result.err


def test_held_out_rows_are_compared_with_the_majority_class(model):
    scores = assess(["ill"] * 3 + ["well"], [[0.6, 0.4]] * 4, ["ill", "well"])
    assert result_lines(load_model(model), scores)[-1] == (
        "Accuracy on 4 held-out rows: 75.0 % (95 % interval 30 to 95 %); always predicting 'ill': "
        "75.0 %."
    )


def test_a_model_is_described_as_json(hotview, model):
    facts = json.loads(hotview("inspect", model, "--json").out)
    assert facts["classes"] == ["ill", "odd", "well"]
    assert facts["trained_on"]["linked"] == 40
    changed = facts["changed_parameters"]
    assert (changed["max_epochs"], changed["hidden"]) == ("2", "(8,)")
    assert "verbose" not in changed  # not a property of the model
    assert len(facts["plan"]["W"]) == 2
    found = load_model(model).view_similarity_
    assert facts["view_similarity"]["value"] == found.value.tolist()


def test_what_cannot_be_measured_is_not_told():
    data = make_views(30, n_views=3, labeled=1.0, random_state=0)
    encoder = MultiViewEncoder("none", max_epochs=1, hidden=(4,), random_state=0)
    facts = describe_model(encoder.fit(data.views))
    assert facts["plan"] is None
    _, sentence = result_lines(encoder)
    assert sentence == "No rows are linked, so that it cannot be measured what views share."
    data.linked["view_2"][5:] = float("nan")  # too few rows to compare
    facts = describe_model(encoder.fit(data.views, linked=data.linked))
    assert facts["view_similarity"]["value"][0][2] is None
    assert json.loads(json.dumps(facts, allow_nan=False))["view_similarity"]["groups"] is None
