from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score

from hotview import MultiViewClassifier, load
from hotview.datasets import make_views
from hotview.estimators import fit as fit_module
from hotview.estimators import networks, result
from hotview.estimators.fit import fit_estimators
from hotview.semisupervised import learner, soft_labels
from tests.estimators.small_fits import UNCOUPLED, data_of, may_collapse, prepared, results_of

SETTINGS = {**UNCOUPLED, "view_regularizer": "none", "learning_rate": 0.01}
PLAIN = {"pseudo_labels": False, "fusion": "average"}
HOW = {"n_views": 3, "n_groups": 1, "n_classes": 3, "n_columns": [5, 6, 4], "labeled": 0.8}
DATA = make_views([60, 50, 70], **HOW, random_state=0)
LINKED, Y, UNALIGNED = DATA.linked, DATA.linked_target, DATA.views
NAMES = list(LINKED)
SUBSETS = list(chain.from_iterable(combinations(NAMES, n) for n in (1, 2, 3)))


def small(**parameters):
    """A plain network, which most of these tests are about."""
    return MultiViewClassifier(**{**SETTINGS, **PLAIN, **parameters})


def voting(**parameters):
    """The default, with fewer and smaller networks."""
    return MultiViewClassifier(**{**SETTINGS, "n_estimators": 3, "max_epochs": 5, **parameters})


def trained(**parameters):
    return small(max_epochs=60, learning_rate=0.03, **parameters)


@pytest.fixture(scope="module")
def model():
    return trained().fit(LINKED, Y, unaligned=UNALIGNED)


@pytest.fixture(scope="module")
def semisupervised():
    return voting().fit(LINKED, hide(Y), unaligned=UNALIGNED)


def hide(y, every=2):
    """Labels with gaps: every second one is known."""
    return np.where(np.arange(len(y)) % every == 0, y, np.nan)


def only(views, names):
    return {name: X for name, X in views.items() if name in names}


@may_collapse
@pytest.mark.parametrize(
    ("coupling", "view_regularizer", "expected"),
    (
        ("dgcca", "diffusion", {"agreement", "diffusion"}),
        ("sw-reference", "autoencoder", {"transport", "reconstruction"}),
        ("hot-pairwise", "manifold", {"transport", "smoothness", "score_smoothness"}),
    ),
)
def test_couplings_and_regularizers_are_trained_beside_heads(coupling, view_regularizer, expected):
    """All couplings with all regularizers are in test_encoder.py."""
    data = make_views(20, n_views=4, n_groups=1, n_classes=2, labeled=1.0, random_state=0)
    classifier = small(coupling=coupling, view_regularizer=view_regularizer, max_epochs=15)
    unaligned = None if coupling == "dgcca" else data.views
    if unaligned:
        expected = expected | {"alignment", "extension"}
    classifier.fit(data.linked, hide(data.linked_target), unaligned=unaligned)
    history = classifier.history_
    parts = expected | {"classification", "view_heads"}
    assert parts < set(history.names)
    for row in history:
        assert row["loss"] == pytest.approx(sum(row[name] for name in parts))
    assert np.mean(history["loss"][-5:]) < np.mean(history["loss"][:5])
    frame = history.to_pandas()
    assert frame["epoch"].tolist() == list(range(1, 16))
    assert (frame["seconds"] > 0).all()


def test_it_learns_from_all_views_and_from_each(model, semisupervised):
    assert is_classifier(model)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.out_of_fold_ == {}  # nothing is left out where all count alike
    assert model.batch_size_ == 110  # 40 linked and 70 unaligned rows of view_2
    given = [None, UNALIGNED["view_1"], None]
    data, _ = data_of(small(), LINKED, Y, unaligned=given)
    assert [len(data.unlinked(s)) for s in range(3)] == [0, len(UNALIGNED["view_1"]), 0]
    # With pseudo-labels, the joint head is not trained.
    assert {"classification", "view_heads"} & set(semisupervised.history_.names) == {"view_heads"}
    for one in (model, semisupervised):
        assert one.score(LINKED, Y) > 0.9
        for name in NAMES:  # rows that it saw without a label
            assert one.score({name: UNALIGNED[name]}, DATA.target[name]) > 0.8


def test_every_way_to_leave_views_out_is_the_same(semisupervised):
    model = semisupervised
    for names in SUBSETS:
        here = only(LINKED, names)
        expected = model.predict_proba(here)
        np.testing.assert_allclose(expected.sum(1), 1)
        assert (expected >= 0).all()
        gaps = {name: X if name in names else np.full_like(X, np.nan) for name, X in LINKED.items()}
        ways = (
            {name: here.get(name) for name in NAMES},
            dict(reversed(here.items())),
            [here.get(name) for name in NAMES],
            gaps,
        )
        for views in ways:
            np.testing.assert_allclose(model.predict_proba(views), expected, rtol=1e-6)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(here)), expected, rtol=1e-10)
        predicted = model.classes_[expected.argmax(1)]
        np.testing.assert_array_equal(model.predict(here), predicted)
        assert model.score(here, Y) == accuracy_score(Y, predicted) > 0.8


@pytest.mark.parametrize("kind", ("model", "semisupervised"))
def test_each_row_is_predicted_from_the_views_that_it_has_and_from_no_other_row(kind, request):
    model = request.getfixturevalue(kind)
    views = {name: X.copy() for name, X in LINKED.items()}
    which = np.arange(len(Y)) % len(SUBSETS)
    for i, subset in enumerate(which):
        for name in set(NAMES) - set(SUBSETS[subset]):
            views[name][i] = np.nan
    found = model.predict_proba(views)
    for subset, names in enumerate(SUBSETS):
        rows = np.flatnonzero(which == subset)
        alone = model.predict_proba({name: LINKED[name][rows] for name in names})
        np.testing.assert_allclose(found[rows], alone, rtol=1e-4, atol=1e-6)
        one = model.predict_proba({name: LINKED[name][rows[:1]] for name in names})
        np.testing.assert_allclose(found[rows[:1]], one, rtol=1e-4, atol=1e-6)
    assert model.score(views, Y) > 0.8


def test_rows_that_cannot_be_predicted_are_named(model):
    absent = (np.arange(len(Y)) == 5) | (np.arange(len(Y)) == 9)
    views = {name: np.where(absent[:, None], np.nan, X) for name, X in LINKED.items()}
    extreme = LINKED["view_1"].astype(np.float64)
    extreme[4, 2] = 1e39
    for method in (model.predict, model.predict_proba, model.predict_log_proba):
        with pytest.raises(ValueError, match=r"'view_0', 'view_1', 'view_2'.* 2 have none.*row 5"):
            method(views)
    for method in (model.predict, model.transform):  # they are not taken for absent rows
        with pytest.raises(ValueError, match=r"'view_1'.*extreme values in 1 entry.*row 4"):
            method({"view_1": extreme})


def predict_by_heads(model, *, joint_only=False):
    with torch.no_grad():
        Fs = [torch.from_numpy(Z) for Z in model.transform(LINKED).values()]
        scores = [head(F) for head, F in zip(model.network_.view_heads, Fs, strict=True)]
        scores = [*scores, model.network_.score(Fs)][-1 if joint_only else 0 :]
        return torch.stack(scores).log_softmax(2).mean(0).softmax(1)


def test_it_is_the_mean_of_heads_that_change_nothing_else_with_a_weight_of_0(model):
    np.testing.assert_allclose(model.predict_proba(LINKED), predict_by_heads(model), rtol=1e-4)
    settings = {"view_regularizer": "autoencoder", "head_weight": 0.0}
    # Labels that only a head learns from move no feature.
    more = {"unaligned": {"view_0": UNALIGNED["view_0"]}}
    target = {"view_0": DATA.target["view_0"]}
    one = small(**settings).fit(LINKED, Y, **more, unaligned_y=target)
    two = small(**settings).fit(LINKED, Y, **more, unaligned_y={"view_0": target["view_0"][::-1]})
    joint = predict_by_heads(one, joint_only=True)
    np.testing.assert_allclose(one.predict_proba(LINKED), joint, rtol=1e-4)
    for name in NAMES:
        np.testing.assert_array_equal(one.transform(LINKED)[name], two.transform(LINKED)[name])
    alone = {"view_0": LINKED["view_0"]}
    assert not np.array_equal(one.predict_proba(alone), two.predict_proba(alone))


def test_scores_can_be_weighted_and_need_the_class_of_every_row(model):
    right = model.predict({"view_2": LINKED["view_2"]}) == Y
    weights = np.where(right, 3.0, 1.0)
    found = model.score({"view_2": LINKED["view_2"]}, Y, sample_weight=weights)
    assert found == pytest.approx(np.average(right, weights=weights))
    with pytest.raises(ValueError, match="class of every row, but 1 of 40 have none"):
        model.score(LINKED, [-1, *Y[1:]])


def test_balanced_weights_are_one_over_the_frequency_of_labels():
    y = np.where(Y == 2, 1, Y)  # a third of the rows against two thirds
    weights = dict(enumerate(len(y) / (2 * np.bincount(y))))
    balanced = small(class_weight="balanced").fit(LINKED, y).history_["loss"]
    assert balanced == small(class_weight=weights).fit(LINKED, y).history_["loss"]


@pytest.mark.parametrize("model", (small(batch_size=2), voting()), ids=("heads", "default"))
def test_classes_of_weight_0_are_not_predicted(model):
    model = clone(model).set_params(class_weight={0: 0.0, 1: 1.0, 2: 1.0})
    model.fit(LINKED, Y, unaligned=UNALIGNED)  # they may fill a batch
    assert np.isfinite(model.history_["loss"]).all()
    assert 0 not in model.predict({"view_0": LINKED["view_0"]})
    assert np.isfinite(model.predict_proba(LINKED)).all()


def test_given_rows_with_labels_are_scored_after_every_epoch():
    test, classes = UNALIGNED["view_1"], DATA.target["view_1"].astype(float)
    scores, gappy = [], classes.copy()
    gappy[:10] = np.nan

    def score(epoch):
        twin = clone(classifier).set_params(max_epochs=epoch.number, callbacks=None)
        scores.append(twin.fit(LINKED, Y).score({"view_1": test[10:]}, classes[10:]))

    classifier = small(learning_rate=0.1, callbacks=[score])
    classifier.fit(LINKED, Y, validation=({"view_1": test}, gappy))
    assert classifier.history_["validation_score"] == pytest.approx(scores)
    gappy[10:] = 7  # which cannot be right
    none = small().fit(LINKED, Y, validation=({"view_1": test}, gappy))
    assert none.history_["validation_score"] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("validation", "error", "message"),
    (
        (LINKED, TypeError, r"views and their labels.*dict.*validation=\(Xs, y\)"),
        ((LINKED, Y[:5]), ValueError, "each of the 40 rows, but it holds 5"),
        ((LINKED, np.full(40, -1)), ValueError, "validation's y.*no row has one"),
        ((LINKED, Y + 0.5), ValueError, "validation's y to hold classes"),
        (({"view_0": LINKED["view_0"] * np.inf}, Y), ValueError, "'view_0'.*infinity"),
        (({"view_0": LINKED["view_0"] * np.nan}, Y), ValueError, "40 have none, the first"),
    ),
)
def test_validation_rows_that_do_not_fit(validation, error, message):
    with pytest.raises(error, match=message), np.errstate(all="ignore"):
        small().fit(LINKED, Y, validation=validation)


def test_a_fraction_is_the_same_as_rows_whose_labels_are_not_given():
    arguments = {"unaligned": UNALIGNED, "unaligned_y": {"view_1": hide(DATA.target["view_1"], 3)}}
    held_out = voting(validation_fraction=0.25, n_estimators=2)
    data, _ = data_of(held_out, LINKED, Y, **arguments)
    rows = data.validation.links[:, 0]
    assert len(rows) == len(Y) // 4
    known = np.where(np.isin(np.arange(len(Y)), rows), -1, Y)
    found = held_out.fit(LINKED, Y, **arguments)
    views = {name: X[rows] for name, X in LINKED.items()}
    for y in (Y[rows], (Y[rows] + 1) % 3):  # whose labels influence nothing but the record
        other = voting(n_estimators=2).fit(LINKED, known, validation=(views, y), **arguments)
        for names in (NAMES, ["view_1"]):
            expected = other.predict_proba(only(LINKED, names))
            np.testing.assert_array_equal(found.predict_proba(only(LINKED, names)), expected)
        scores = ([each["validation_score"] for each in m.histories_] for m in (found, other))
        assert np.array_equal(*scores) == np.array_equal(y, Y[rows])
    same, again, other = (  # a generator draws the rows, too
        data_of(held_out.set_params(random_state=np.random.default_rng(seed)), LINKED, Y)[0]
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(same.validation.links, again.validation.links)
    assert not np.array_equal(same.validation.links, other.validation.links)


@pytest.mark.parametrize(
    ("parameters", "message"),
    (
        ({"validation_fraction": 1.5}, "Expected validation_fraction to"),
        ({"validation_fraction": "half"}, "Expected validation_fraction to"),
        ({"validation_fraction": 0.01}, "Expected validation_fraction to"),  # of 40 rows, none
        ({"patience": 3}, r"patience is set.*validation=\(Xs, y\).*validation_frac"),
        ({"patience": 0, "validation_fraction": 0.5}, "patience to be a whole number"),
        (
            {"class_weight": {0: -1.0}},
            r"class_weight.*at least 0.*\[0, 1, 2\] are \[-1.0, 1.0, 1.0\]",
        ),
        ({"class_weight": {0: np.inf}}, "class_weight.*finite"),
        ({"class_weight": dict.fromkeys(range(3), 0.0)}, "not all 0"),
        ({"class_weight": {7: 1.0}}, "not in class_weight"),
        ({"class_weight": "even"}, "'balanced'"),
        ({"class_prior": "uniform"}, "pseudo_labels=True beside class_prior"),
        ({"pseudo_labels": True, "class_prior": {0: 0.5, 1: 0.4}}, "class_prior to be None, 'unif"),
    ),
)
def test_parameters_that_do_not_fit_the_labels_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(LINKED, Y)


def test_patience_stops_and_goes_back_to_the_best():
    rng = np.random.default_rng(0)
    noise = {name: rng.normal(size=X.shape) for name, X in LINKED.items()}
    validation = (noise, rng.permutation(Y))  # where more training is no better
    settings = {"max_epochs": 100, "learning_rate": 0.05}
    classifier = small(patience=5, validation_fraction=0.2, **settings)  # given rows take its place
    classifier.fit(LINKED, Y, validation=validation)
    scores = classifier.history_["validation_score"]
    best = int(np.argmax(scores))
    assert len(scores) == best + 1 + 5 < 100
    assert classifier.score(*validation) == max(scores) > scores[-1]
    until_then = small(**{**settings, "max_epochs": best + 1}).fit(LINKED, Y)
    P = until_then.predict_proba(LINKED)
    np.testing.assert_array_equal(P, classifier.predict_proba(LINKED))


def test_a_view_with_labels_of_one_class_does_not_outweigh_the_others():
    rows = np.flatnonzero(DATA.target["view_1"] == 0)
    unaligned = {"view_0": UNALIGNED["view_0"], "view_1": UNALIGNED["view_1"][rows]}
    own = {"view_0": DATA.target["view_0"], "view_1": np.zeros(len(rows))}
    unlabeled = np.full(len(Y), np.nan)
    model = trained().fit(LINKED, unlabeled, unaligned=unaligned, unaligned_y=own)
    # Linked rows have taught it the classes it has no labels of.
    found = model.predict({"view_1": LINKED["view_1"]})
    assert set(found) == {0, 1, 2}
    assert model.score(LINKED, Y) > 0.8


def test_the_callers_gradient_mode_and_default_dtype_do_not_matter():
    expected = small().fit(LINKED, Y).predict_proba(LINKED)
    with torch.inference_mode():
        np.testing.assert_array_equal(small().fit(LINKED, Y).predict_proba(LINKED), expected)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            np.testing.assert_array_equal(small().fit(LINKED, Y).predict_proba(LINKED), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_ctrl_c_in_the_last_pass_does_not_lose_what_was_learned(monkeypatch, press_ctrl_c):
    draw = result.draw_null

    def pressed(*arguments):
        press_ctrl_c()
        return draw(*arguments)

    monkeypatch.setattr(result, "draw_null", pressed)
    with pytest.warns(UserWarning, match="interrupted"):
        model = small(coupling="hot-reference").fit(LINKED, Y, unaligned=UNALIGNED)
    assert model.plan_ is not None
    assert len(model.predict(LINKED)) == len(Y)


def test_one_model_serves_several_threads(semisupervised):
    many = {name: np.tile(X, (40, 1)) for name, X in LINKED.items()}
    calls = [semisupervised.predict_proba, semisupervised.transform] * 4
    expected = [call(many) for call in calls[:2]]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda call: call(many), calls))
    np.testing.assert_equal(found, expected * 4)


def test_labels_that_are_left_out_do_not_influence_who_left_them_out(monkeypatch):
    # Two weights of every view, and the shares of the classes, are estimated from all labels.
    monkeypatch.setattr(soft_labels, "calibrate", lambda graphs, *_: np.ones((len(graphs), 2)))
    monkeypatch.setattr(soft_labels, "class_priors", lambda codes, n: np.full((3, n), 1 / n))
    own = {"view_1": DATA.target["view_1"]}
    data, p = data_of(voting(), LINKED, Y, unaligned=UNALIGNED, unaligned_y=own)
    left_out = results_of(monkeypatch, learner, "score_left_out")
    made = results_of(monkeypatch, fit_module, "make_folds")
    (expected,) = fit_estimators([(data, p)])
    folds = [fold.left_out(data)[0] for fold in made[0]]
    monkeypatch.setattr(
        fit_module, "make_folds", lambda data, *_: [data.hide(rows) for rows in folds]
    )
    is_linked, codes = (folds[1] >= 0).all(axis=1), [one.copy() for one in data.codes]
    for row in (folds[1][is_linked][4], folds[1][~is_linked][-4]):
        for s in np.flatnonzero(row >= 0):
            codes[s][row[s]] = (codes[s][row[s]] + 1) % 3
    changed = replace(data, targets=replace(data.targets, codes=tuple(codes)))
    (changed,) = fit_estimators([(changed, p)])
    before, after = ([fold.scores for fold in of_fit] for of_fit in left_out)
    # The member that left them out predicts the same bits, and is now wrong about them, or right.
    np.testing.assert_array_equal(after[1].scores, before[1].scores)
    np.testing.assert_array_equal(after[1].joint, before[1].joint)
    assert (after[1].target != before[1].target).sum() == 2
    for r in (0, 2):  # the others are trained on them
        assert not np.array_equal(after[r].scores, before[r].scores)
    # In the end all predictors are fitted to all labels.
    knn = [fit.learner.predictors.views[1]["neighbors"] for fit in (expected, changed)]
    assert not np.allclose(knn[0].soft_labels, knn[1].soft_labels, atol=1e-3)


def test_small_tables_are_trained_on_for_as_many_steps_as_large_ones(monkeypatch):
    def look(trainer, schedule, *_):
        found.append((schedule.max_epochs, schedule.steps_per_epoch))

    monkeypatch.setattr(networks, "train", look)
    found = []
    for n, settings in (
        (40, {"steps_per_epoch": 5}),
        (40, {"steps_per_epoch": 30}),
        (1000, {"batch_size": 4}),  # where one pass would take 250
    ):
        X = np.random.default_rng(0).normal(size=(n, 2))
        model = small(max_epochs=None, hidden=(), **settings)
        fit = prepared(model, [X, -X], np.arange(n) % 2)
        networks.train_networks([(fit.members, fit.p)], nullcontext(), None)
    assert found == [(16, 5), (10, 30), (10, 60)]


ODD = np.arange(40)[:, None] % 2  # the class
OFTEN = np.where(np.arange(300) < 60, 0.1 + 0.8 * ODD, 0.2)  # means of words
WIDE = {
    "words": np.random.default_rng(0).poisson(OFTEN),
    "genes": np.random.default_rng(1).normal(size=(40, 280)) + 0.5 * ODD,
    "age": np.random.default_rng(2).normal(size=(40, 3)) + 1.5 * ODD,
}
WIDE["words"][:, -1] = 0  # a constant column


def fit_wide(views=WIDE, **parameters):
    return voting(**{"n_estimators": 1, "max_epochs": 1, **parameters}).fit(views, ODD[:, 0])


def test_wide_views_are_reduced_and_counts_are_recognized():
    model = fit_wide(n_estimators=2, max_epochs=5)
    assert model.preprocessing_ == {
        "words": "square roots of the shares of counts in their row; 300 columns reduced to 40 "
        "components",
        "genes": "standardized; 280 columns reduced to 40 components",
        "age": "standardized",
    }
    assert model.n_features_per_view_ == {"words": 300, "genes": 280, "age": 3}
    assert model.network_.encoders[0][0].in_features == 40
    stored = {name: sparse.csr_array(X) for name, X in WIDE.items()}
    P = model.predict_proba(WIDE)
    np.testing.assert_allclose(model.predict_proba(stored), P, atol=1e-4)
    again = fit_wide(stored, n_estimators=2, max_epochs=5)
    np.testing.assert_allclose(again.predict_proba(WIDE), P, atol=0.02)
    # The number of words of a row does not matter.
    np.testing.assert_allclose(model.predict_proba({**WIDE, "words": 3 * WIDE["words"]}), P)


def test_a_view_with_an_encoder_of_ones_own_or_standardized_is_not_reduced():
    kinds = {"words": "standardize", "genes": "pca", "age": "none"}
    views = {**WIDE, "words": WIDE["words"][:, :-1]}  # of a constant column, a fit warns
    model = fit_wide(views, preprocessing=kinds, encoders={"genes": torch.nn.Linear(280, 4)})
    assert list(model.preprocessing_.values()) == ["standardized", "standardized", "as given"]


def test_kinds_of_columns_that_are_not_recognized_can_be_said(capsys):
    views = {"words": WIDE["words"][:, :20], "age": np.random.default_rng(0).normal(size=(40, 9))}
    kinds = {"words": "counts", "age": "components"}
    model = fit_wide(views, preprocessing=kinds, verbose=True)
    assert model.preprocessing_["words"] == "square roots of the shares of counts in their row"
    assert model.preprocessing_["age"] == "components, standardized in part"
    assert "age: components, standardized in part" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'words' to hold counts, but it contains negative"):
        fit_wide({**views, "words": -views["words"]}, preprocessing=kinds)


def test_labels_in_another_order_than_their_rows_are_refused_everywhere():
    people = [f"p{i}" for i in range(len(Y))]
    views = {name: pd.DataFrame(X, people).add_prefix("c") for name, X in LINKED.items()}
    y = pd.Series(Y, people)
    model = small(max_epochs=1)
    refused = pytest.raises(ValueError, match="row labels of view 'view_0' and of y differ")
    with refused:
        model.fit(views, y[::-1])
    with refused:
        model.fit(views, y, unaligned=views, unaligned_y={"view_0": y[::-1]})
    model.fit(views, y, unaligned=views, unaligned_y={"view_0": y})
    assert model.score(views, y.astype(object)) == model.score(views, y)
    with refused:
        model.score(views, y[::-1])


def test_callbacks_get_the_ensemble_member():
    linked = {name: X.astype(float) for name, X in LINKED.items()}
    linked["view_0"][::3] = np.nan  # so that networks differ in shape
    seen = []
    model = voting(pseudo_labels=False, max_epochs=2)
    model.set_params(callbacks=[lambda epoch: seen.append((epoch.member, epoch.number))])
    model.fit(linked, Y, unaligned=UNALIGNED)
    assert sorted(seen) == [(r, number) for r in range(3) for number in (1, 2)]


UNEQUAL = np.where((Y == 2) & (np.arange(len(Y)) % 4 > 0), -1, Y)  # few labels of class 2


def with_prior(**parameters):
    """One member, so that probabilities are no mean."""
    return voting(n_estimators=1, **parameters).fit(LINKED, UNEQUAL)


def test_a_given_prior_and_weights_of_classes_multiply_the_likelihood():
    plain = with_prior()
    prior = np.exp(plain.model_.learner.weights.log_prior[0])
    assert prior[2] < 0.9 / 3  # as among the labels
    given = with_prior(class_prior={0: 0.2, 1: 0.1, 2: 0.7})
    weighted = with_prior(class_weight={2: 5.0})
    for names in (NAMES, ["view_1"], ["view_0", "view_2"]):
        views = only(LINKED, names)
        for model, factors in ((given, [0.2, 0.1, 0.7] / prior), (weighted, [1, 1, 5])):
            expected = plain.predict_proba(views) * factors
            expected /= expected.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(model.predict_proba(views), expected, rtol=1e-6)


def three_views(n=120, seed=0):
    random, y = np.random.default_rng(seed), np.arange(n) % 3
    centers = 3 * random.normal(size=(3, 3, 5))
    return {s: C[y] + random.normal(size=(n, 5)) for s, C in zip("abc", centers, strict=True)}, y


def labels_in_one_view():
    """Arguments of fit, and the classes of the linked rows."""
    views, y = three_views()
    linked, own = ({n: X[rows] for n, X in views.items()} for rows in (slice(60, None), slice(60)))
    labels = {"unaligned": own, "unaligned_y": {"a": y[:60]}}
    return {"Xs": linked, "y": np.full(60, -1), **labels}, y[60:]


def partial_rows():
    views, y = three_views()
    views["a"][::4] = views["c"][1::4] = np.nan
    return {"Xs": views, "y": np.where(np.arange(120) < 60, y, -1)}, y


@pytest.mark.parametrize("situation", (labels_in_one_view, partial_rows))
def test_a_model_predicts_from_all_views_and_each_and_the_same_after_loading(situation, tmp_path):
    arguments, y = situation()
    model = voting(coupling="hot-reference", n_estimators=2).fit(**arguments)
    assert model.score(arguments["Xs"], y) > 0.9
    joint = model.model_.learner.predictors.joint
    assert list(joint) == (["ridge"] if situation is partial_rows else [])
    loaded = load(model.save(tmp_path / "m.hotview"))
    new, truth = three_views()
    for names in (["a", "b", "c"], ["a"], ["b"], ["c"], ["a", "c"]):
        P = model.predict_proba(only(new, names))
        np.testing.assert_array_equal(loaded.predict_proba(only(new, names)), P)
        assert np.mean(P.argmax(axis=1) == truth) > 0.75


def test_a_view_without_labels_is_taught_over_rows_that_lack_a_third():
    views, y = three_views(180)
    labeled, linked = np.arange(180) < 60, np.arange(180) >= 120
    # Labels are in a and c; rows with a and b are linked, and none of all three.
    Xs = {name: X[linked] for name, X in views.items()}
    Xs["c"] = np.full_like(Xs["c"], np.nan)
    own = {name: views[name][labeled] for name in "ac"}
    labels = dict.fromkeys("ac", y[labeled])
    model = voting().fit(Xs, np.full(60, -1), unaligned=own, unaligned_y=labels)
    new = (np.arange(180) >= 60) & ~linked
    assert model.score({"b": views["b"][new]}, y[new]) > 0.8
    assert model.score({name: X[new] for name, X in views.items()}, y[new]) > 0.9
    assert model.out_of_fold_["b"]["expected"]


def test_rows_that_are_left_out_do_not_teach(monkeypatch):
    seen, label_nodes = [], soft_labels.label_nodes

    def look(*arguments):
        seen.append(arguments[-2])
        return label_nodes(*arguments)

    monkeypatch.setattr(soft_labels, "label_nodes", look)
    arguments, _ = labels_in_one_view()
    left_out = results_of(monkeypatch, learner, "score_left_out")
    fit_estimators([data_of(voting(max_epochs=1), **arguments)])
    for scores in left_out[0]:
        # A third of the linked rows tells how good the views are that others teach.
        assert len(scores.linked.target) == 20
        assert (scores.linked.target == -1).all()
    *of_members, in_the_end = seen
    assert np.sum(of_members, axis=0).tolist() == [1] * 60  # each by one member
    assert not in_the_end.any()  # then all rows teach


@pytest.mark.filterwarnings("ignore")
def test_several_rows_of_one_person_do_not_look_like_dependence():
    random = np.random.default_rng(0)
    people = np.repeat(np.arange(20), 3)
    views = {name: random.normal(size=(20, 4))[people] for name in "ab"}
    noise = {name: X + 0.1 * random.normal(size=X.shape) for name, X in views.items()}
    model = voting(n_estimators=2, max_epochs=1)
    y = np.arange(20)[people] % 2
    alone = model.fit(noise, y, groups=people).view_similarity_
    assert alone.n_rows[0, 1] == 20
    assert alone.p_value[0, 1] > 0.05 > model.fit(noise, y).view_similarity_.p_value[0, 1]
