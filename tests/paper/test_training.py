import inspect
import json
import os
import signal
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from hotview import MultiViewClassifier, MultiViewEncoder, evaluation
from hotview.datasets import load_handwritten, make_views, unalign
from paper.cells import Cell
from paper.data import load_dataset, split_dataset
from paper.estimators import constructor_parameters, fit_arguments, make_estimator
from paper.models import CONTROLS, DEFAULT, MODELS, PLAIN, SETTINGS
from paper.runner import counted_warnings, run_cell
from paper.scoring import control_scores, score_classifier, score_encoder

DATA = make_views(30, n_views=4, n_columns=6, n_classes=2, labeled=1.0, random_state=0)
SMALL = {"hidden": (8,), "max_epochs": 1, "device": "cpu", "random_state": 0}

# Three random directions and twenty iterations are few, as the paper has it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The plan W has not converged", "ignore:The latents of .* have collapsed:UserWarning"
)


def test_the_settings_are_those_that_the_paper_states():
    paper = {"encoder_dim": 20, "n_components": 10, "initialization": "random"}
    paper |= {"max_epochs": 100, "batch_size": 400, "learning_rate": 0.001}
    paper |= {"coupling__weight": 0.1, "coupling__reg": 0.1, "coupling__sinkhorn_max_iter": 20}
    paper |= {"coupling__n_projections": 3, "coupling__projections": "iid"}
    paper |= {"coupling__n_references": 3, "coupling__orthogonality_weight": 0.01}
    paper |= {"coupling__reduction": "sum", "coupling__cost_decay": 0.0}
    paper |= {"view_regularizer__weight": 0.01}
    assert {name: SETTINGS[name] for name in paper} == paper
    assert set(PLAIN) <= set(inspect.signature(MultiViewClassifier).parameters)
    shared = set(PLAIN) & set(SETTINGS)  # a plain network is trained as long
    assert shared == {"max_epochs", "batch_size", "learning_rate"}
    assert all(PLAIN[name] == SETTINGS[name] for name in shared)


def test_every_model_trains_with_the_papers_settings():
    assert len({(m.coupling, m.view_regularizer) for m in MODELS}) == 11
    others = [model for model in MODELS if model.name != "HOT (11)"]  # which has a record below
    for number, model in enumerate(others):
        losses = {"coupling": model.coupling, "view_regularizer": model.view_regularizer}
        how = constructor_parameters({**losses, **SETTINGS, **SMALL})
        aligned = model.coupling in ("lscca", "dgcca")
        if number % 2:
            fitted = MultiViewEncoder(**how)
            fitted.fit(DATA.linked if aligned else DATA.views, paired=aligned)
        else:
            fitted = MultiViewClassifier(**{**PLAIN, **how}, head_weight=0.0)
            unaligned = None if aligned else DATA.views
            fitted.fit(DATA.linked, DATA.linked_target, unaligned=unaligned)
        assert np.isfinite(fitted.history_["loss"]).all(), model.name


def sliced_costs(Zs, theta):
    """(7): squared distances of sorted projections, added over rows, averaged over directions."""
    sorted_ = [np.sort(Z @ theta.T, axis=0) for Z in Zs]
    return np.array([[((a - b) ** 2).sum(0).mean() for b in sorted_] for a in sorted_])


def sinkhorn_by_hand(C, beta, n_iter):
    """Alternate scalings of exp(−C / β), its diagonal 0, in logarithms."""
    S = len(C)
    K = np.where(np.eye(S, dtype=bool), -np.inf, -C / beta)
    f, g = np.zeros(S), np.zeros(S)
    for _ in range(n_iter):
        f = -np.log(S) - np.logaddexp.reduce(K + g, axis=1)
        g = -np.log(S) - np.logaddexp.reduce(K + f[:, None], axis=0)
    return np.exp(f[:, None] + K + g)


@pytest.mark.filterwarnings("ignore:Rows of different views may not be comparable:UserWarning")
def test_the_objective_is_that_of_the_paper():
    # Many directions and iterations, or the paper's few would decide; a step that moves nothing.
    how = {**PLAIN, **SETTINGS, **SMALL, "alignment_weight": 0.0}
    how |= {"coupling__n_projections": 4000, "learning_rate": 1e-12}
    how |= {"coupling__sinkhorn_max_iter": 1000}
    how |= {"coupling": "hot-pairwise", "view_regularizer": "autoencoder", "head_weight": 0.0}
    model = MultiViewClassifier(**constructor_parameters(how))
    model.fit(DATA.linked, DATA.linked_target)
    row, (gamma, tau, alpha, beta) = model.history_[0], (0.1, 0.01, 0.01, 0.1)
    Zs = [Z.astype(float) for Z in model.transform(DATA.linked, space="common").values()]

    gram = sum(Z.T @ Z for Z in Zs)
    expected = gamma * alpha * np.sum((gram - np.eye(10)) ** 2)
    assert row["orthogonality"] == pytest.approx(expected, rel=1e-4)

    theta = np.random.default_rng(0).normal(size=(4000, 10))
    C = sliced_costs(Zs, theta / np.linalg.norm(theta, axis=1, keepdims=True))
    W = sinkhorn_by_hand(C, beta, 1000)
    assert row["transport"] == pytest.approx(gamma * np.sum(W * C), rel=0.1)
    found = model.plan_.C.astype(float)
    np.testing.assert_allclose(found[C > 0], C[C > 0], rtol=0.1)
    np.testing.assert_allclose(model.plan_.W, sinkhorn_by_hand(found, beta, 1000), atol=1e-3)

    network, X = model.network_, [torch.from_numpy(X) for X in standardized(DATA.linked)]
    with torch.no_grad():
        Fs = network.encode(X)
        errors = [((x - y) ** 2).mean() for x, y in zip(X, network.reconstruct(Fs), strict=True)]
        scores = network.score(Fs)
    assert row["reconstruction"] == pytest.approx(tau * float(sum(errors)), rel=1e-4)
    y = torch.from_numpy(DATA.linked_target)
    cross_entropy = torch.nn.functional.cross_entropy(scores, y)
    assert row["classification"] == pytest.approx(len(y) * float(cross_entropy), rel=1e-4)
    np.testing.assert_allclose(
        model.predict_proba(DATA.linked), scores.softmax(1), rtol=1e-4
    )  # g alone judges rows that have all views


def standardized(views):
    for X in views.values():
        exact = X.astype(float)
        yield ((exact - exact.mean(0)) / exact.std(0)).astype(np.float32)


VARIED = {"device", "random_state", "verbose"}


def cell(task, method, settings="paper", **more):
    return Cell("handwritten", task, method, settings, **more)


@pytest.fixture(scope="module")
def data():
    return split_dataset(cell("unsupervised", "HOT (11)"), None, 0)


def test_the_papers_settings_are_taken_literally():
    given = make_estimator(cell("semi-supervised", "SW (9) + AE"), 3).get_params()
    without = ("coupling__n_references", "coupling__cost_decay")  # which sw-reference has not
    assert {name: given.get(name, SETTINGS[name]) for name in SETTINGS} == {**SETTINGS}
    assert {*SETTINGS} - {*given} == {*without}
    losses = (given["coupling"].name, given["view_regularizer"].name)
    assert losses == ("sw-reference", "autoencoder")
    assert (given["head_weight"], given["random_state"], given["verbose"]) == (0, 3, False)


@pytest.mark.parametrize(
    ("task", "kind"), (("semi-supervised", MultiViewClassifier), ("unsupervised", MultiViewEncoder))
)
def test_robust_settings_are_the_estimators_own(task, kind):
    plain = PLAIN if task == "semi-supervised" else {}
    own = {"preprocessing": "standardize", "alignment_weight": 0.0}
    pairs = {"no coupling": kind("none", "none", **own, **plain)}
    if task == "semi-supervised":
        pairs[DEFAULT] = MultiViewClassifier()
    for method, expected in pairs.items():
        model = make_estimator(cell(task, method, "robust"), 0)
        assert type(model) is kind
        given, expected = model.get_params(), expected.get_params()
        assert all(given[name] == expected[name] for name in expected if name not in VARIED)
    for how, without in (("paper", None), ("robust", "pix")):  # however many views there are
        model = make_estimator(cell(task, "HOT (11) + AE", how, without=without), 0)
        assert model.coupling.n_references == 3


@pytest.mark.parametrize("method", ("LSCCA", "AECCA", "SW (8)"))
def test_rows_stay_shuffled_but_for_methods_of_individuals(data, method):
    paired = method != "SW (8)"
    un, semi = (
        fit_arguments(cell(task, method), data) for task in ("unsupervised", "semi-supervised")
    )
    assert un["paired"] is paired
    if not paired:
        expected = np.concatenate([data.linked["pix"], data.unaligned["pix"]])
        np.testing.assert_array_equal(un["Xs"]["pix"], expected)
        assert semi["Xs"] is data.linked
        assert semi["y"] is data.target
        assert semi["unaligned"] is data.unaligned
        return
    views = load_dataset("handwritten").views
    for name in views:
        for given in (un, semi):
            np.testing.assert_array_equal(given["Xs"][name], views[name][data.split.train])
    np.testing.assert_array_equal(semi["y"], [*data.target, *[-1] * 1140])  # without their labels


SCORES = ["test", "validation", "standardized", "unpenalized", "labels_20", "all_labels"]


class Scaled:
    """Stands for a model: its features are the columns of two views, times a number."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def transform(self, views):
        return {name: self.scale * views[name] for name in ("fou", "zer")}

    def score(self, views, y):
        return len(y) / 1000


def regression(data, n, standardized, C=1.0):
    """The same by hand."""
    rows = {name: np.vstack([X, data.paired[name]]) for name, X in data.linked.items()}
    train, test = (np.hstack([X["fou"], X["zer"]]).astype(float) for X in (rows, data.test))
    if standardized:
        mean, std = train.mean(0), train.std(0)
        train, test = (train - mean) / std, (test - mean) / std
    model = LogisticRegression(C=C, max_iter=10_000).fit(train[:n], data.train_target[:n])
    return model.score(test, data.test_target)


def test_features_are_scored_as_they_are_and_standardized(data):
    scores, small = score_encoder(Scaled(), data), score_encoder(Scaled(1e-4), data)
    assert list(scores) == SCORES
    assert scores["test"] == regression(data, 60, standardized=False)
    assert scores["standardized"] == regression(data, 60, standardized=True)
    assert scores["unpenalized"] == regression(data, 60, standardized=True, C=1e4)
    assert scores["labels_20"] == regression(data, 240, standardized=True)
    assert scores["all_labels"] == regression(data, 1200, standardized=True)
    assert scores["all_labels"] > scores["standardized"] > 0.5
    for kind in ("standardized", "all_labels"):  # which do not feel the scale
        assert small[kind] == scores[kind]
    assert small["test"] < scores["test"]
    own = score_classifier(Scaled(), data)  # and that of its features
    assert own == {"test": 0.4, "validation": 0.4, "linear": scores["standardized"]}  # of 400 rows


def test_controls_are_the_baselines_on_the_same_rows_and_differ(data):
    scores = {name: control_scores(name, data) for name in CONTROLS}
    expected = evaluation.PCALogisticRegression()
    expected.fit(data.linked, data.target, unaligned=data.unaligned)
    found = scores["PCA + logistic regression"]
    assert found["test"] == expected.score(data.test, data.test_target)
    assert found["validation"] == expected.score(data.validation, data.validation_target)
    ordered = sorted(CONTROLS, key=lambda name: scores[name]["test"])
    assert len({found["test"] for found in scores.values()}) == len(CONTROLS)
    assert ordered[0] == "logistic regression"
    assert ordered[-1] == "logistic regression, all labels"


FEW = (("max_epochs", 2),)
CELL = Cell("handwritten", "unsupervised", "HOT (11)", "paper", overrides=FEW)


@pytest.fixture(scope="module")
def records():
    return run_cell(CELL, [0, 1])


def test_a_record_says_all(records):
    for trial, record in enumerate(records):
        assert (record["trial"], record["seed"], record["split"]) == (trial, trial, trial)
        assert (record["dataset"]["label"], record["dataset"]["labeled"]) == ("Handwritten", 60)
        assert record["parameters"].items() >= {"max_epochs": 2, "random_state": trial}.items()
        assert np.shape(record["W"]) == np.shape(record["C"]) == (6, 3)
        assert len(record["view_labels"]) == 6
        assert list(record["scores"]) == SCORES
        json.dumps(record, allow_nan=False)
    history = records[0]["history"]
    assert history["epochs"] == 2
    assert {"loss", "transport", "orthogonality"} <= set(history["first"]) == set(history["last"])
    assert history["first"]["loss"] != history["last"]["loss"]
    assert list(history["effective_ranks"]) == ["pix", "fou", "fac", "zer", "kar", "mor"]


def test_records_of_other_cells():
    """Without a coupling there is no plan; controls train nothing."""
    few = {"overrides": FEW}
    (record,) = run_cell(cell("semi-supervised", "LSCCA", "robust", **few), [0])
    assert list(record["scores"]) == ["test", "validation", "linear"]
    assert all(0.1 < score <= 1 for score in record["scores"].values())
    (record,) = run_cell(cell("unsupervised", "no coupling", "robust", **few), [0])
    assert "W" not in record
    assert record["scores"]["all_labels"] > 0.9  # principal components, untrained
    control = cell("unsupervised", "logistic regression", "-", without="pix")
    (record,) = run_cell(control, [2], device="cuda")  # controls never ask for a GPU
    assert record["device"].endswith("cores")
    assert "parameters" not in record
    assert "pix" in record["dataset"]["views"]  # what the data have, not what was used


def test_a_trial_is_what_a_user_would_run(records):
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=1)
    rows = {name: np.vstack([X, data.unaligned[name]]) for name, X in data.linked.items()}
    how = {"coupling": "hot-reference", **SETTINGS, "max_epochs": 2, "random_state": 1}
    how = constructor_parameters(how) | {"view_regularizer": "none", "device": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = MultiViewEncoder(**how).fit(rows)
    np.testing.assert_allclose(records[1]["W"], encoder.plan_.W, atol=2e-5)
    last = records[1]["history"]["last"]
    assert last["loss"] == pytest.approx(encoder.history_[-1]["loss"], rel=1e-4)


def test_warnings_are_counted_by_their_first_words_and_shared_by_their_group():
    with counted_warnings() as counts:
        for view, rank in (("pix", 1.4), ("fou", 1.2)):
            warnings.warn(f"The latents of '{view}' ({rank}) have collapsed", stacklevel=1)
        warnings.warn("2 of the 10 classes have no linked row with a label (3)", stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert counts == {
        "UserWarning: The latents of …": 2,
        "UserWarning: … of the … classes have no linked row wi": 1,
        "DeprecationWarning: old": 1,
    }
    collapsing = (*FEW, ("coupling__sinkhorn_max_iter", 1), ("coupling__reg", 1e-4))
    records = run_cell(replace(CELL, overrides=collapsing), [0, 1])
    kind = "ConvergenceWarning: The plan W has not converged"
    assert [record["warnings"][kind] for record in records] == [1.0, 1.0]


def test_half_a_training_is_no_result():
    long = replace(CELL, overrides=(("max_epochs", 100_000),))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_cell(long, [0, 1])
    finally:
        pressed.join()
        signal.signal(signal.SIGINT, before)
