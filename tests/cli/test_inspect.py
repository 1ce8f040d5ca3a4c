"""What models are described, reported and exported as."""

import json

import numpy as np
import pytest

import hotview as hv
from hotview import MultiViewEncoder
from hotview.cli.inspect import describe_model, result_lines
from hotview.datasets import make_views
from hotview.evaluation import assess
from hotview.model import load_model


def test_results_are_sentences(model):
    estimator = load_model(model)
    scores = {"n": 40, "accuracy": 0.954, "expected": False}
    taught = {"n": 12, "accuracy": 0.61, "expected": True}
    out_of_fold = estimator.out_of_fold_
    out_of_fold.clear()
    out_of_fold |= {"blood": scores, "scan": taught}
    networks, shared, within, space, observed, expected = result_lines(estimator)
    assert networks.startswith("Networks: 2; epochs: 2; ")
    assert shared.startswith("By 40 linked rows, 'blood' and 'scan' ")
    assert within.startswith("Within classes, beyond what the class explains, it is ")
    assert space.startswith("In the common space, rows of different views ")
    assert observed == "Accuracy on 40 labels that were left out: blood 95 %."
    assert expected.startswith("View 'scan' has no labels: by what the other views say about 12 ")
    assert expected.endswith("expect an accuracy of about 61 %.")
    scores |= {"log_loss": 0.5, "prior_log_loss": 1.0, "standard_error": 0.1}
    change = {"n": 40, "increase": 0.3, "low": 0.1, "high": 0.5}
    out_of_fold |= {
        "blood": {**scores, "loss_without": change},
        "scan": {**scores, "loss_without": {**change, "low": -0.1}},
        "all views": {**scores, "loss_without": None},
    }
    assert result_lines(estimator)[-1].startswith("Keep 'blood': without it, the log loss on 40 ")
    out_of_fold.clear()
    assert len(result_lines(estimator)) == 4
    scores = assess(["ill"] * 3 + ["well"], [[0.6, 0.4]] * 4, ["ill", "well"])
    assert result_lines(estimator, scores)[-1] == (
        "Accuracy on 4 held-out rows: 75.0 % (95 % interval 30 to 95 %); always predicting 'ill': "
        "75.0 %."
    )


def test_a_model_is_described_in_text_and_as_json_and_other_files_are_refused(
    hotview, model, study
):
    out = hotview("inspect", model).out
    for part in (
        "MultiViewClassifier",
        "blood",
        "Linked rows: 40",
        "The paper's plan W",
        "Similarity of views by linked rows within classes",
        "left-out labels",  # which views to keep
        "Made by: hotview fit",
    ):
        assert part in out
    facts = json.loads(hotview("inspect", model, "--json").out)
    assert facts["classes"] == ["ill", "odd", "well"]
    assert facts["trained_on"]["linked"] == 40
    assert facts["trained_on"]["unaligned"] == {"blood": 30, "scan": 30}
    assert facts["metadata"]["preprocessing"]["id_column"] == "id"
    changed = facts["changed_parameters"]
    assert (changed["max_epochs"], changed["hidden"]) == ("2", "(8,)")
    assert "verbose" not in changed  # not a property of the model
    assert len(facts["plan"]["W"]) == 2
    found = load_model(model).view_similarity_
    assert facts["view_similarity"]["value"] == found.value.tolist()
    assert "labels.csv" in hotview("inspect", study / "labels.csv", code=1).err


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


def test_a_page_of_a_model_has_the_metrics_of_evaluate(hotview, model, study, new_files, tmp_path):
    page = tmp_path / "r.html"
    assert str(page) in hotview("report", model, "-o", page).out
    assert "hotview fit" in page.read_text()  # how to make it again, of a model alone
    data = [word for path in new_files for word in ("--data", path)]
    out = ("-o", page, "--no-umap", "--force")
    chosen = ("--labels", study / "new-labels.csv", "--positive", "ill", "--cost", "3", "--json")
    written = json.loads(hotview("report", model, *data, *chosen, *out).out)
    assert written["bytes"] == page.stat().st_size < 2e6
    facts = json.loads(hotview("evaluate", model, *new_files, *chosen, "--no-baselines").out)
    text = page.read_text()
    assert "label propagation in each view" in text
    assert "n19" in text  # rows have their ids
    assert "Positive class ill (given)" in text
    point = facts["binary"]["chosen"]
    low, high = point["sensitivity_interval"]
    interval = f"<small>({100 * low:.1f}–{100 * high:.1f})</small>"
    assert f"{100 * point['sensitivity']:.1f} {interval}" in text
    assert f"{point['cost']:.3f} <small>(" in text
    assert f"{100 * facts['majority']:.1f}" in text


@pytest.mark.slow  # seconds of tracing
def test_the_exported_model_predicts_the_same(hotview, model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    result = hotview("export", model, "--onnx", tmp_path / "m.onnx", code=None)
    if "needs a newer torch" in result.err:
        pytest.skip(result.err)
    loaded = hv.load(model)
    columns = [column.to_json() for column in loaded.columns_["blood"].columns]
    assert columns[-1] == ["sex", ["F", "M"]]
    rng = np.random.default_rng(0)
    Xs = {n: rng.normal(size=(7, c.n_columns)) for n, c in loaded.columns_.items()}
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["columns"])["blood"] == columns
    found = session.run(None, {i.name: Xs[i.name] for i in session.get_inputs()})[0]
    np.testing.assert_allclose(found, loaded.predict_proba(Xs), atol=1e-5)


def test_a_file_to_export_to_is_required(hotview, model, tmp_path):
    result = hotview("export", model, code=2)
    assert "--onnx" in result.err
    (tmp_path / "m.onnx").touch()
    assert "--force" in hotview("export", model, "--onnx", tmp_path / "m.onnx", code=1).err
