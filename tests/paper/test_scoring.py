import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hotview import evaluation
from paper.cells import Cell
from paper.data import split_dataset
from paper.models import CONTROLS
from paper.scoring import control_scores, score_classifier, score_encoder


@pytest.fixture(scope="module")
def data():
    return split_dataset(Cell("handwritten", "unsupervised", "HOT (11)", "paper"), None, 0)


class Scaled:
    """Stands for a model: its features are the columns of two views, times a number."""

    def __init__(self, scale):
        self.scale = scale

    def transform(self, views):
        return {name: self.scale * views[name] for name in ("fou", "zer")}

    def score(self, views, y):
        return len(y) / 1000


def regression(data, n, standardized, C=1.0):
    """The same by hand."""
    parts = []
    for rows in ({k: np.vstack([X, data.paired[k]]) for k, X in data.linked.items()}, data.test):
        parts.append(np.hstack([rows["fou"], rows["zer"]]).astype(float))
    train, test = parts
    if standardized:
        train, test = ((F - parts[0].mean(0)) / parts[0].std(0) for F in parts)
    model = LogisticRegression(C=C, max_iter=10_000).fit(train[:n], data.train_target[:n])
    return model.score(test, data.test_target)


def test_features_are_scored_as_they_are_and_standardized(data):
    scores = score_encoder(Scaled(1.0), data)
    assert list(scores) == [
        "test",
        "validation",
        "standardized",
        "unpenalized",
        "labels_20",
        "all_labels",
    ]
    assert scores["test"] == regression(data, 60, standardized=False)
    assert scores["standardized"] == regression(data, 60, standardized=True)
    assert scores["unpenalized"] == regression(data, 60, standardized=True, C=1e4)
    assert scores["labels_20"] == regression(data, 240, standardized=True)
    assert scores["all_labels"] == regression(data, 1200, standardized=True)
    assert scores["all_labels"] > scores["standardized"] > 0.5


def test_only_standardized_scores_do_not_feel_the_scale(data):
    large, small = (score_encoder(Scaled(scale), data) for scale in (1.0, 1e-4))
    assert small["standardized"] == large["standardized"]
    assert small["all_labels"] == large["all_labels"]
    assert small["test"] < large["test"]


def test_a_classifier_has_its_own_score_and_that_of_its_features(data):
    scores = score_classifier(Scaled(1.0), data)
    assert scores["test"] == scores["validation"] == 0.4  # 400 rows each
    assert scores["linear"] == regression(data, 60, standardized=True)


def test_controls_are_the_baselines_on_the_same_rows(data):
    expected = evaluation.PCALogisticRegression().fit(
        data.linked, data.target, unaligned=data.unaligned
    )
    scores = control_scores("PCA + logistic regression", data)
    assert scores["test"] == expected.score(data.test, data.test_target)
    assert scores["validation"] == expected.score(data.validation, data.validation_target)


def test_all_controls_can_be_run_and_differ(data):
    scores = {name: control_scores(name, data)["test"] for name in CONTROLS}
    assert len(set(scores.values())) == len(CONTROLS)
    assert max(scores, key=scores.get) == "logistic regression, all labels"
    assert min(scores, key=scores.get) == "logistic regression"
