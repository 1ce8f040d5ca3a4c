import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, log_loss

from hotview import MultiViewClassifier, load
from hotview.datasets import load_handwritten, make_views
from hotview.estimators import fit, member_fit
from hotview.estimators import inputs as inputs_module
from hotview.estimators.fit import EnsembleFit, fit_views
from hotview.losses.coupling_specs import COUPLINGS
from hotview.losses.objective import VIEW_REGULARIZERS
from hotview.semisupervised import graph, pseudo_labels
from hotview.semisupervised.class_prior import class_priors
from hotview.semisupervised.pseudo_labels import label_nodes
from hotview.semisupervised.super_learner import fit_super_learner

SMALL = {
    "coupling": "none",
    "view_regularizer": "none",
    "hidden": (8,),
    "encoder_dim": 4,
    "n_components": 3,
    "max_epochs": 2,
    "learning_rate": 0.01,
    "n_estimators": 1,
    "device": "cpu",
    "random_state": 0,
}
PLAIN = {"pseudo_labels": False, "fusion": "average"}
DATA = make_views(
    [60, 50, 70],
    n_views=3,
    n_groups=1,
    n_classes=3,
    n_columns=[5, 6, 4],
    labeled=0.8,
    random_state=0,
)
LINKED, Y, UNALIGNED = DATA.linked, DATA.linked_target, DATA.views
NAMES = list(LINKED)
TEXT = ["class 0", "class 1", "class 2"]
SUBSETS = list(chain.from_iterable(combinations(NAMES, n) for n in (1, 2, 3)))
may_collapse = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


def small(**parameters):
    """A plain network, which most of these tests are about."""
    return MultiViewClassifier(**{**SMALL, **PLAIN, **parameters})


def trained(**parameters):
    return small(max_epochs=60, learning_rate=0.03, **parameters)


@pytest.fixture(scope="module")
def model():
    return trained().fit(LINKED, Y, unaligned=UNALIGNED)


def hide(y, every=2):
    """Labels with gaps: every second one is known."""
    return np.where(np.arange(len(y)) % every == 0, y, np.nan)


def only(views, names):
    return {name: X for name, X in views.items() if name in names}


# training


@may_collapse
@pytest.mark.parametrize("view_regularizer", VIEW_REGULARIZERS)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_every_combination_trains(coupling, view_regularizer):
    data = make_views(
        20, n_views=4, n_groups=1, n_classes=2, n_columns=5, labeled=1.0, random_state=0
    )
    aligned = coupling in ("lscca", "dgcca")
    classifier = small(coupling=coupling, view_regularizer=view_regularizer, max_epochs=15)
    classifier.fit(data.linked, hide(data.linked_target), unaligned=None if aligned else data.views)
    history = classifier.history_
    others = {"epoch", "loss", "seconds", "marginal_error", "foscttm", "neighbor_agreement"}
    ranks = {f"effective_rank_{name}" for name in data.views}
    parts = set(history.names) - others - ranks
    assert {"classification", "view_heads"} <= parts
    assert ("agreement" in parts) == aligned
    assert ("transport" in parts) == (coupling.startswith(("sw", "hot")))
    assert ("reconstruction" in parts) == (view_regularizer == "autoencoder")
    assert ({"smoothness", "score_smoothness"} <= parts) == (view_regularizer == "manifold")
    assert ("diffusion" in parts) == (view_regularizer == "diffusion")
    assert ("marginal_error" in history.names) == coupling.startswith("hot")
    assert ranks <= set(history.names)
    assert ({"alignment", "extension", "foscttm"} <= set(history.names)) == (not aligned)
    for row in history:
        assert np.isfinite(list(row.values())).all()
        assert row["loss"] == pytest.approx(sum(row[name] for name in parts))
    assert np.mean(history["loss"][-5:]) < np.mean(history["loss"][:5])
    np.testing.assert_allclose(classifier.predict_proba(data.linked).sum(1), 1)


@pytest.mark.parametrize("coupling", ("lscca", "dgcca"))
def test_couplings_of_individuals_refuse_unaligned_rows(coupling):
    classifier = small(coupling=coupling)
    message = rf"aligned rows for coupling='{coupling}'.*\['view_1'\] have unaligned.*leave"
    with pytest.raises(ValueError, match=message):
        classifier.fit(LINKED, Y, unaligned={"view_1": UNALIGNED["view_1"]})
    classifier.fit(LINKED, hide(Y))
    assert classifier.batch_size_ == len(Y)  # rows without a label are coupled too


def test_it_learns_from_all_views_and_from_each(model):
    assert model.score(LINKED, Y) > 0.95
    for name in NAMES:  # rows that it saw without a label
        assert model.score({name: UNALIGNED[name]}, DATA.target[name]) > 0.8


def test_scikit_learn_sees_a_classifier(model):
    assert is_classifier(model)
    assert model.classes_.tolist() == [0, 1, 2]


def test_unaligned_rows_take_part(model):
    alone = small(coupling="sw-reference", view_regularizer="autoencoder").fit(LINKED, Y)
    more = small(coupling="sw-reference", view_regularizer="autoencoder")
    more.fit(LINKED, Y, unaligned=UNALIGNED)
    assert alone.batch_size_ == 40
    assert more.batch_size_ == 110  # 40 linked and 70 unaligned rows of view_2
    some = clone(more).fit(LINKED, Y, unaligned={"view_1": UNALIGNED["view_1"], "view_0": None})
    assert some.batch_size_ == 90
    as_list = clone(more).fit(LINKED, Y, unaligned=[None, UNALIGNED["view_1"], None])
    assert as_list.history_["loss"] == some.history_["loss"]


def test_a_row_without_a_view_is_an_unaligned_row_of_the_others_and_keeps_its_label():
    views = {name: X.copy() for name, X in LINKED.items()}
    views["view_1"][:10] = np.nan
    gaps = small(alignment_weight=0).fit(views, Y)  # it is still linked in the others
    apart = small(alignment_weight=0).fit(
        {name: X[10:] for name, X in LINKED.items()},
        Y[10:],
        unaligned={name: LINKED[name][:10] for name in ("view_0", "view_2")},
        unaligned_y=dict.fromkeys(("view_0", "view_2"), Y[:10]),
    )
    np.testing.assert_allclose(
        gaps.history_["classification"], apart.history_["classification"], rtol=1e-5
    )
    np.testing.assert_allclose(gaps.history_["view_heads"], apart.history_["view_heads"], rtol=1e-5)


# any subset of views


@pytest.mark.parametrize("names", SUBSETS, ids=" ".join)
def test_every_way_to_leave_views_out_is_the_same(model, names):
    here = only(LINKED, names)
    expected = model.predict_proba(here)
    np.testing.assert_allclose(expected.sum(1), 1)
    assert (expected >= 0).all()
    hidden = {name: X if name in names else np.full_like(X, np.nan) for name, X in LINKED.items()}
    ways = (
        {name: here.get(name) for name in NAMES},
        dict(reversed(here.items())),
        [here.get(name) for name in NAMES],
        tuple(here.get(name) for name in NAMES),
        hidden,
    )
    for views in ways:
        np.testing.assert_allclose(model.predict_proba(views), expected, rtol=1e-10)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(views)), expected, rtol=1e-10)
        np.testing.assert_array_equal(model.predict(views), model.classes_[expected.argmax(1)])
        assert model.score(views, Y) == accuracy_score(Y, model.classes_[expected.argmax(1)])
    assert model.score(here, Y) > 0.8
    Z = model.transform(here)
    assert list(Z) == list(names)
    assert all(np.isfinite(z).all() for z in Z.values())


def test_each_row_is_predicted_from_the_views_that_it_has(model):
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
    assert model.score(views, Y) > 0.8


def test_a_row_without_any_view_is_named(model):
    views = {name: X.copy() for name, X in LINKED.items()}
    for X in views.values():
        X[[5, 9]] = np.nan
    for method in (model.predict, model.predict_proba, model.predict_log_proba):
        with pytest.raises(ValueError, match=r"'view_0', 'view_1', 'view_2'.* 2 have none.*row 5"):
            method(views)
    one = np.full_like(LINKED["view_0"], np.nan)
    with pytest.raises(ValueError, match=f"{len(Y)} have none, the first being row 0"):
        model.predict({"view_0": one})
    with pytest.raises(ValueError, match=r"at least one of the views.*all are absent"):
        model.predict({"view_0": None})
    with pytest.raises(ValueError, match="all are absent"):
        model.predict({})


def test_rows_of_predict_are_aligned(model):
    views = {**LINKED, "view_1": LINKED["view_1"][:7]}
    for method in (model.predict, model.predict_proba, model.predict_log_proba):
        with pytest.raises(ValueError, match=r"numbers of rows differ \('view_0': 40, 'view_1': 7"):
            method(views)


def test_many_rows_are_predicted_in_chunks(model):
    many = {name: np.tile(X, (110, 1)) for name, X in LINKED.items()}  # 4,400 rows
    found = model.predict_proba(many)
    assert found.shape == (4400, 3)
    np.testing.assert_allclose(found[-40:], model.predict_proba(LINKED), rtol=1e-4, atol=1e-7)


def test_with_a_head_weight_of_0_the_heads_of_views_change_nothing_but_themselves():
    settings = {"view_regularizer": "autoencoder", "head_weight": 0.0}
    beside = small(**settings).fit(LINKED, Y)
    with torch.no_grad():
        Fs = [torch.from_numpy(Z) for Z in beside.transform(LINKED).values()]
        joint = beside.network_.score(Fs).softmax(1)
    np.testing.assert_allclose(beside.predict_proba(LINKED), joint, rtol=1e-4)
    part_of_it = small(**{**settings, "head_weight": 1.0}).fit(LINKED, Y)
    assert part_of_it.history_["classification"][1] != beside.history_["classification"][1]
    # Labels that only a head learns from move no feature.
    more = {"unaligned": {"view_0": UNALIGNED["view_0"]}}
    target = {"view_0": DATA.target["view_0"]}
    one = small(**settings).fit(LINKED, Y, **more, unaligned_y=target)
    two = small(**settings).fit(LINKED, Y, **more, unaligned_y={"view_0": target["view_0"][::-1]})
    for name in NAMES:
        np.testing.assert_array_equal(one.transform(LINKED)[name], two.transform(LINKED)[name])
    alone = {"view_0": LINKED["view_0"]}
    assert not np.array_equal(one.predict_proba(alone), two.predict_proba(alone))


def test_scores_can_be_weighted(model):
    right = model.predict({"view_2": LINKED["view_2"]}) == Y
    weights = np.where(right, 3.0, 1.0)
    found = model.score({"view_2": LINKED["view_2"]}, Y, sample_weight=weights)
    assert found == pytest.approx(np.average(right, weights=weights))


# labels


@pytest.mark.parametrize(
    ("y", "classes"),
    (
        (Y.tolist(), [0, 1, 2]),
        (Y.astype(np.uint8), [0, 1, 2]),
        (Y.astype(float), [0.0, 1.0, 2.0]),
        (Y > 0, [False, True]),
        ([TEXT[c] for c in Y], TEXT),
        (np.where(np.arange(len(Y)) % 3, Y, -1), [0, 1, 2]),
        (hide(Y), [0.0, 1.0, 2.0]),
        ([None if i % 2 else TEXT[c] for i, c in enumerate(Y)], TEXT),
        (pd.Series(pd.array([pd.NA, *Y[1:]], dtype="Int64"), index=range(40, 80)), [0, 1, 2]),
        (pd.Categorical([None, *(TEXT[c] for c in Y[1:])]), TEXT),
    ),
    ids=("list", "uint8", "floats", "bool", "text", "-1", "NaN", "None", "NA", "categorical"),
)
def test_labels_of_every_kind(y, classes):
    classifier = trained().fit(LINKED, y)
    assert classifier.classes_.tolist() == classes
    predicted = classifier.predict(LINKED)
    assert predicted.dtype == classifier.classes_.dtype
    truth = np.array(classes)[np.minimum(Y, len(classes) - 1)]
    assert np.mean(predicted == truth) > 0.8
    assert classifier.score(LINKED, truth) == np.mean(predicted == truth)


def test_a_row_without_a_label_is_not_counted_as_wrong(model):
    with pytest.raises(ValueError, match="class of every row, but 1 of 40 have none"):
        model.score(LINKED, [-1, *Y[1:]])


def test_gaps_of_every_kind_are_the_same_gap():
    y = hide(Y)
    expected = small().fit(LINKED, y).history_["loss"]
    known = ~np.isnan(y)
    for gaps in (
        np.where(known, Y, -1),
        [int(c) if k else None for c, k in zip(Y, known, strict=True)],
        [int(c) if k else np.nan for c, k in zip(Y, known, strict=True)],
        pd.array(np.where(known, Y, -1), dtype="Int64"),
    ):
        assert small().fit(LINKED, gaps).history_["loss"] == expected
    marked = small(unlabeled_marker=99).fit(LINKED, np.where(known, Y, 99))
    assert marked.history_["loss"] == expected
    names = small(unlabeled_marker="?").fit(LINKED, np.where(known, Y.astype(str), "?"))
    assert names.history_["loss"] == expected


def test_rows_without_a_label_are_not_classified():
    """With nothing else to learn from them, they might as well not be there."""
    settings = {"preprocessing": "none", "initialization": "random", "batch_size": 1000}
    settings |= {"alignment_weight": 0.0}
    with_gaps = small(**settings).fit(LINKED, hide(Y))
    without = small(**settings).fit({name: X[::2] for name, X in LINKED.items()}, Y[::2])
    assert with_gaps.history_["loss"] == pytest.approx(without.history_["loss"], rel=1e-5)


def test_minus_one_can_be_a_class():
    y = np.where(Y > 0, 1, -1)
    with pytest.raises(ValueError, match=r"only -1 and 1.*unlabeled_marker=None"):
        small().fit(LINKED, y)
    assert small(unlabeled_marker=None).fit(LINKED, y).classes_.tolist() == [-1, 1]


# labels of unaligned rows


def test_labels_of_unaligned_rows_alone_suffice():
    unlabeled = np.full(len(Y), -1)
    classifier = trained().fit(
        LINKED, unlabeled, unaligned=UNALIGNED, unaligned_y={"view_0": DATA.target["view_0"]}
    )
    assert "classification" not in classifier.history_.names
    assert classifier.score({"view_0": LINKED["view_0"]}, Y) > 0.8
    # The linked rows carry what view_0 knows over to the others.
    for name in ("view_1", "view_2"):
        assert classifier.score({name: UNALIGNED[name]}, DATA.target[name]) > 0.8
    assert classifier.score(LINKED, Y) > 0.8


def test_labels_of_unaligned_rows_may_have_gaps_and_add_classes():
    target = DATA.target["view_2"].astype(float)
    target[::3] = np.nan
    known = np.flatnonzero(Y < 2)
    with pytest.warns(UserWarning, match="1 of the 3 classes have no linked row with a label"):
        classifier = trained().fit(
            {name: X[known] for name, X in LINKED.items()},
            Y[known],
            unaligned={"view_2": UNALIGNED["view_2"]},
            unaligned_y={"view_2": target},
        )
    assert classifier.classes_.tolist() == [0, 1, 2]
    found = classifier.predict({"view_2": LINKED["view_2"]})
    assert np.mean(found[Y == 2] == 2) > 0.7


@pytest.mark.parametrize(
    ("unaligned_y", "error", "message"),
    (
        ({"other": Y}, ValueError, r"\['view_0', 'view_1'\], but it labels 'other'"),
        ({"view_2": Y}, ValueError, "labels 'view_2'.*Pass that view's rows in unaligned"),
        ({"view_0": Y}, ValueError, "one label for each of the 60 rows, but it holds 40"),
        ({"view_1": DATA.target["view_1"].astype(str)}, ValueError, "some are text and some are"),
        ({"view_1": DATA.target["view_1"] + 0.5}, ValueError, r"_y\['view_1'\].*fractions"),
        ([DATA.target["view_0"]], TypeError, r"a dict of labels by view.*list.*unaligned_y="),
    ),
)
def test_labels_of_unaligned_rows_that_do_not_fit(unaligned_y, error, message):
    unaligned = only(UNALIGNED, ("view_0", "view_1"))
    with pytest.raises(error, match=message):
        small().fit(LINKED, Y, unaligned=unaligned, unaligned_y=unaligned_y)
    with pytest.raises((ValueError, TypeError)):
        small().fit(LINKED, Y, unaligned_y=unaligned_y)


def test_a_view_may_be_called_y():
    views = {"y": LINKED["view_0"], "z": LINKED["view_1"]}
    unaligned = {"y": UNALIGNED["view_0"]}
    target = {"y": DATA.target["view_0"]}
    found = small().fit(views, Y, unaligned=unaligned, unaligned_y=target)
    expected = small().fit(
        {"x": views["y"], "z": views["z"]},
        Y,
        unaligned={"x": unaligned["y"]},
        unaligned_y={"x": target["y"]},
    )
    assert found.history_["loss"] == expected.history_["loss"]


# weights of classes


def test_equal_weights_are_no_weights():
    expected = small().fit(LINKED, Y).history_["loss"]
    found = small(class_weight={0: 1.0, 1: 1.0, 2: 1.0}).fit(LINKED, Y).history_["loss"]
    assert found == pytest.approx(expected)


def test_balanced_weights_are_one_over_the_frequency_of_labels():
    y = np.where(Y == 2, 1, Y)  # a third of the rows against two thirds
    counts = np.bincount(y)
    weights = {c: len(y) / (2 * n) for c, n in enumerate(counts)}
    balanced = small(class_weight="balanced").fit(LINKED, y).history_["loss"]
    assert balanced == small(class_weight=weights).fit(LINKED, y).history_["loss"]
    assert balanced != pytest.approx(small().fit(LINKED, y).history_["loss"])


def test_a_heavy_class_is_predicted_more_often():
    rng = np.random.default_rng(0)
    views = {name: rng.normal(size=(60, 3)) for name in ("a", "b")}
    y = np.repeat([0, 1], 30)
    share = [
        np.mean(trained(class_weight={0: w, 1: 1.0}).fit(views, y).predict({"a": views["a"]}) == 0)
        for w in (0.05, 20.0)
    ]
    assert share[0] < 0.2
    assert share[1] > 0.8


@pytest.mark.parametrize(
    ("class_weight", "message"),
    (
        ({0: -1.0}, r"class_weight.*at least 0.*weights of \[0, 1, 2\] are \[-1.0, 1.0, 1.0\]"),
        ({0: np.nan}, "class_weight.*finite"),
        ({0: np.inf}, "class_weight.*finite"),
        (dict.fromkeys(range(3), 0.0), "not all 0"),
        ({7: 1.0}, "not in class_weight"),
        ("even", "'balanced'"),
    ),
)
def test_bad_class_weights_are_refused(class_weight, message):
    with pytest.raises(ValueError, match=message):
        small(class_weight=class_weight).fit(LINKED, Y)


# validation


def test_given_rows_are_scored_after_every_epoch():
    test, classes = UNALIGNED["view_1"], DATA.target["view_1"]
    scores = []

    def score(epoch):
        twin = clone(classifier).set_params(max_epochs=epoch.number, callbacks=None)
        scores.append(twin.fit(LINKED, Y).score({"view_1": test}, classes))

    classifier = small(max_epochs=3, learning_rate=0.1, callbacks=[score])
    classifier.fit(LINKED, Y, validation=({"view_1": test}, classes))
    assert classifier.history_["validation_score"] == pytest.approx(scores)
    assert scores[-1] == classifier.score({"view_1": test}, classes)


def test_validation_rows_without_a_label_and_of_new_classes():
    test = UNALIGNED["view_1"]
    classes = DATA.target["view_1"].astype(float)
    classes[:10] = np.nan
    expected = small().fit(LINKED, Y, validation=({"view_1": test[10:]}, classes[10:]))
    found = small().fit(LINKED, Y, validation=({"view_1": test}, classes))
    assert found.history_["validation_score"] == expected.history_["validation_score"]
    classes[10:] = 7  # which cannot be right
    none = small().fit(LINKED, Y, validation=({"view_1": test}, classes))
    assert none.history_["validation_score"] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("validation", "error", "message"),
    (
        (LINKED, TypeError, r"views and their labels.*dict.*validation=\(Xs, y\)"),
        ((LINKED, Y[:5]), ValueError, "each of the 40 rows, but it holds 5"),
        ((LINKED, np.full(40, -1)), ValueError, "validation's y.*no row has one"),
        ((LINKED, Y.astype(str)), ValueError, "some are text and some are numbers"),
        ((LINKED, Y + 0.5), ValueError, "validation's y to hold classes"),
        (({"other": LINKED["view_0"]}, Y), ValueError, "'other'"),
        (({**LINKED, "view_0": LINKED["view_0"][:3]}, Y), ValueError, "numbers of rows differ"),
        (({"view_0": LINKED["view_0"][:, :3]}, Y), ValueError, "'view_0' to have 5 columns"),
        (({"view_0": LINKED["view_0"] * np.inf}, Y), ValueError, "'view_0'.*infinity"),
    ),
)
def test_validation_rows_that_do_not_fit(validation, error, message):
    with pytest.raises(error, match=message), np.errstate(all="ignore"):
        small().fit(LINKED, Y, validation=validation)


def test_a_fraction_of_the_labels_can_be_held_out():
    held_out = small(validation_fraction=0.25, max_epochs=3).fit(LINKED, Y)
    scores = held_out.history_["validation_score"]
    np.testing.assert_allclose(np.multiply(scores, 10), np.round(np.multiply(scores, 10)))
    other = small(validation_fraction=0.25, max_epochs=3, random_state=1).fit(LINKED, Y)
    assert other.history_["loss"] != held_out.history_["loss"]
    assert "validation_score" not in small().fit(LINKED, Y).history_.names


@pytest.mark.parametrize("parameters", ({}, PLAIN), ids=("default", "plain"))
def test_a_fraction_is_the_same_as_rows_whose_labels_are_not_given(parameters):
    arguments = {"unaligned": UNALIGNED, "unaligned_y": {"view_1": hide(DATA.target["view_1"], 3)}}
    held_out = voting(validation_fraction=0.25, **parameters)
    inputs = held_out._inputs(LINKED, Y, **arguments)
    rows = inputs.validation.rows
    assert len(rows) == len(Y) // 4
    np.testing.assert_array_equal(inputs.validation.target, Y[rows])
    assert all(member.validation is inputs.validation for member in EnsembleFit(inputs).members)
    known = np.where(np.isin(np.arange(len(Y)), rows), -1, Y)
    found = held_out.fit(LINKED, Y, **arguments)
    views = {name: X[rows] for name, X in LINKED.items()}
    for y in (Y[rows], (Y[rows] + 1) % 3):  # whose labels influence nothing but the record
        other = voting(**parameters).fit(LINKED, known, validation=(views, y), **arguments)
        for names in (NAMES, ["view_1"]):
            expected = other.predict_proba(only(LINKED, names))
            np.testing.assert_array_equal(found.predict_proba(only(LINKED, names)), expected)
        scores = ([each["validation_score"] for each in m.histories_] for m in (found, other))
        assert np.array_equal(*scores) == np.array_equal(y, Y[rows])


@pytest.mark.parametrize("random_state", (-1, "0", 0.5))
def test_a_bad_random_state_is_refused_in_words_with_a_fraction_too(random_state):
    model = small(validation_fraction=0.25, random_state=random_state)
    with pytest.raises(ValueError, match="random_state to be None, a whole number"):
        model.fit(LINKED, Y)


@pytest.mark.parametrize("kind", (np.random.default_rng, np.random.RandomState))
def test_a_generator_draws_the_fraction(kind):
    same, again, other = (
        small(validation_fraction=0.25, random_state=kind(seed))._inputs(LINKED, Y).validation.rows
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(same, again)
    assert not np.array_equal(same, other)


def test_given_rows_take_the_place_of_a_fraction():
    given = (LINKED, Y)
    expected = small().fit(LINKED, Y, validation=given).history_
    found = small(validation_fraction=0.25).fit(LINKED, Y, validation=given).history_
    assert found["loss"] == expected["loss"]
    assert found["validation_score"] == expected["validation_score"]


@pytest.mark.parametrize("fraction", (1.5, -0.1, "half", np.nan, 0.0, 1.0, 0.01))
def test_fractions_out_of_range(fraction):
    with pytest.raises(ValueError, match="Expected validation_fraction to"):
        small(validation_fraction=fraction).fit(LINKED, Y)


def test_patience_needs_rows_to_validate_on():
    with pytest.raises(ValueError, match=r"patience is set.*validation=\(Xs, y\).*validation_frac"):
        small(patience=3).fit(LINKED, Y)
    with pytest.raises(ValueError, match="patience to be a whole number"):
        small(patience=0, validation_fraction=0.5).fit(LINKED, Y)


def test_patience_stops_and_goes_back_to_the_best():
    rng = np.random.default_rng(0)
    noise = {name: rng.normal(size=X.shape) for name, X in LINKED.items()}
    validation = (noise, rng.permutation(Y))  # where more training is no better
    settings = {"max_epochs": 100, "learning_rate": 0.05}
    classifier = small(patience=5, **settings).fit(LINKED, Y, validation=validation)
    scores = classifier.history_["validation_score"]
    best = int(np.argmax(scores))
    assert len(scores) == best + 1 + 5 < 100
    assert classifier.score(*validation) == max(scores) > scores[-1]
    until_then = small(**{**settings, "max_epochs": best + 1}).fit(LINKED, Y)
    np.testing.assert_array_equal(
        until_then.predict_proba(LINKED), classifier.predict_proba(LINKED)
    )
    plain = small(**settings).fit(LINKED, Y, validation=validation)
    assert len(plain.history_) == 100
    assert plain.score(*validation) == plain.history_["validation_score"][-1]


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


def test_the_callers_gradient_mode_does_not_matter():
    expected = small(max_epochs=3).fit(LINKED, Y).history_["loss"]
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            assert small(max_epochs=3).fit(LINKED, Y).history_["loss"] == expected


def test_the_callers_default_dtype_does_not_matter():
    expected = small().fit(LINKED, Y).predict_proba(LINKED)
    torch.set_default_dtype(torch.float64)
    try:
        np.testing.assert_array_equal(small().fit(LINKED, Y).predict_proba(LINKED), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_classes_of_weight_0_may_fill_a_batch():
    model = small(class_weight={0: 0.0, 1: 0.0, 2: 1.0}, batch_size=2).fit(LINKED, Y)
    assert np.isfinite(model.history_["loss"]).all()


def test_extreme_values_are_named_and_not_taken_for_absent_rows():
    model = small().fit(LINKED, Y)
    X = LINKED["view_1"].astype(np.float64)
    X[4, 2] = 1e39
    for method in (model.predict, model.transform):
        with pytest.raises(ValueError, match=r"'view_1'.*extreme values in 1 entry.*row 4"):
            method({"view_1": X})


def test_a_callback_may_leave_the_network_in_evaluation_mode():
    seen = []

    def look(epoch):
        seen.append(epoch.network.training)
        epoch.network.eval()

    small(max_epochs=3, callbacks=[look]).fit(LINKED, Y)
    assert seen == [True, True, True]


def test_ctrl_c_in_the_last_pass_does_not_lose_what_was_learned(monkeypatch):
    import signal

    draw = member_fit.draw_null

    def pressed(*arguments):
        signal.raise_signal(signal.SIGINT)
        return draw(*arguments)

    monkeypatch.setattr(member_fit, "draw_null", pressed)
    with pytest.warns(UserWarning, match="interrupted"):
        model = small(coupling="hot-reference").fit(LINKED, Y, unaligned=UNALIGNED)
    assert model.plan_ is not None
    assert len(model.predict(LINKED)) == len(Y)


def test_rows_in_another_order_are_not_linked():
    frame = {name: pd.DataFrame(X) for name, X in LINKED.items()}
    names = [f"p{i}" for i in range(len(Y))]
    labeled = {name: X.set_axis(names) for name, X in frame.items()}
    y = pd.Series(Y, index=names)
    small().fit(labeled, y)
    with pytest.raises(ValueError, match="and of y differ"):
        small().fit(labeled, y[::-1])


def test_heads_count_by_default():
    def losses(**settings):
        return small(**settings).fit(LINKED, Y).history_["loss"]

    assert losses() == losses(head_weight=1.0)
    assert losses() != losses(head_weight=0.0)


# labels that spread, and judgments that are weighed


def voting(**parameters):
    """The default, with fewer and smaller networks."""
    return MultiViewClassifier(**{**SMALL, "n_estimators": 3, "max_epochs": 5, **parameters})


def rows_of(model):
    """The history without durations."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in model.history_]


@pytest.fixture(scope="module")
def semisupervised():
    return voting().fit(LINKED, hide(Y), unaligned=UNALIGNED)


def test_predictors_are_accurate_in_all_views_and_in_each(semisupervised):
    assert semisupervised.score(LINKED, Y) > 0.9
    for name in NAMES:
        assert semisupervised.score({name: UNALIGNED[name]}, DATA.target[name]) > 0.8


def test_one_model_serves_several_threads(semisupervised):
    many = {name: np.tile(X, (40, 1)) for name, X in LINKED.items()}
    calls = [semisupervised.predict_proba, semisupervised.transform] * 4
    expected = [call(many) for call in calls[:2]]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda call: call(many), calls))
    for one in found[::2]:
        np.testing.assert_array_equal(one, expected[0])
    for one in found[1::2]:
        for name, Z in one.items():
            np.testing.assert_array_equal(Z, expected[1][name])


def test_without_pseudo_labels_and_weights_it_is_the_plain_network():
    plain = voting(pseudo_labels=False, fusion="average", n_estimators=1)
    plain.fit(LINKED, Y, unaligned=UNALIGNED)
    with torch.no_grad():
        Fs = [torch.from_numpy(Z) for Z in plain.transform(LINKED).values()]
        heads = [head(F) for head, F in zip(plain.network_.view_heads, Fs, strict=True)]
        expected = torch.stack([*heads, plain.network_.score(Fs)]).log_softmax(2).mean(0).softmax(1)
    np.testing.assert_allclose(plain.predict_proba(LINKED), expected, rtol=1e-4)
    assert "classification" in plain.history_.names
    alone = [plain.predict_proba({name: LINKED[name]}) for name in NAMES]
    for found, head in zip(alone, heads, strict=True):
        np.testing.assert_allclose(found, head.softmax(1), rtol=1e-4)


def test_with_pseudo_labels_the_joint_head_is_not_used(semisupervised):
    assert "classification" not in semisupervised.history_.names
    assert "view_heads" in semisupervised.history_.names
    before = semisupervised.predict_proba(LINKED)
    with torch.no_grad():
        for network in semisupervised.networks_:
            network.joint_head.weight.mul_(100.0)
    np.testing.assert_array_equal(semisupervised.predict_proba(LINKED), before)


@pytest.mark.parametrize("view_regularizer", ("none", "manifold", "diffusion"))
def test_the_same_seed_gives_the_same_bits(view_regularizer):
    first, same, other = (
        voting(random_state=seed, view_regularizer=view_regularizer, coupling="hot-reference").fit(
            LINKED, hide(Y), unaligned=UNALIGNED
        )
        for seed in (0, 0, 1)
    )
    assert rows_of(first) == rows_of(same)
    for views in (LINKED, only(LINKED, ["view_1"])):
        np.testing.assert_array_equal(first.predict_proba(views), same.predict_proba(views))
        assert not np.array_equal(first.predict_proba(views), other.predict_proba(views))


@pytest.mark.parametrize("parameters", ({}, PLAIN), ids=("default", "plain"))
def test_the_callers_arrays_are_not_changed(parameters):
    views = {name: X.copy() for name, X in LINKED.items()}
    others = {name: X.copy() for name, X in UNALIGNED.items()}
    y, own = hide(Y), {"view_0": DATA.target["view_0"].copy()}
    voting(**parameters, view_regularizer="diffusion").fit(
        views, y, unaligned=others, unaligned_y=own
    ).predict_proba(views)
    for name in NAMES:
        np.testing.assert_array_equal(views[name], LINKED[name])
        np.testing.assert_array_equal(others[name], UNALIGNED[name])
    np.testing.assert_array_equal(y, hide(Y))
    np.testing.assert_array_equal(own["view_0"], DATA.target["view_0"])


@pytest.mark.parametrize("of_one_view", (False, True), ids=("linked", "of one view"))
def test_labels_that_are_left_out_do_not_influence_who_left_them_out(monkeypatch, of_one_view):
    # Two weights of every view, and the shares of the classes, are estimated from all labels.
    monkeypatch.setattr(fit, "calibrate", lambda graphs, members, codes: np.ones((len(graphs), 2)))
    monkeypatch.setattr(inputs_module, "class_priors", lambda codes, n: np.full((3, n), 1 / n))
    own = {"view_1": DATA.target["view_1"]}
    inputs = voting()._inputs(LINKED, Y, unaligned=UNALIGNED, unaligned_y=own)
    (expected,) = fit_views([inputs])
    rows, n_linked = inputs.held_out[1], len(Y)
    row = rows[rows >= n_linked][4] if of_one_view else rows[rows < n_linked][4]
    linked, others = inputs.labels.linked.copy(), inputs.labels.unaligned["view_1"].copy()
    codes, i = (others, row - n_linked) if of_one_view else (linked, row)
    codes[i] = (codes[i] + 1) % 3
    labels = replace(inputs.labels, linked=linked, unaligned={"view_1": others})
    (changed,) = fit_views([replace(inputs, labels=labels)])
    before, after = ([m.out_of_fold for m in fit.members] for fit in (expected, changed))
    # The member that left it out predicts the same bits, and is now wrong about it, or right.
    np.testing.assert_array_equal(after[1].scores, before[1].scores)
    np.testing.assert_array_equal(after[1].joint, before[1].joint)
    assert (after[1].target != before[1].target).sum() == 1
    for r in (0, 2):  # the others are trained on it
        assert not np.array_equal(after[r].scores, before[r].scores)
    # In the end all predictors are fitted to all labels.
    knn = [fit.ensemble.predictors.knn[1] for fit in (expected, changed)]
    assert not np.allclose(knn[0].soft_labels, knn[1].soft_labels, atol=1e-3)


@pytest.mark.parametrize("parameters", ({"fusion": "average"}, {"n_estimators": 1}), ids=str)
def test_nothing_is_left_out_by_one_or_where_all_count_alike(parameters):
    inputs = voting(**parameters)._inputs(LINKED, Y, unaligned=UNALIGNED)
    assert len(inputs.held_out) == 0
    model = voting(**parameters).fit(LINKED, Y)
    learner = model._ensemble.super_learner
    start = fit_super_learner([], np.array(learner.log_prior), [True] * 3, None)
    assert learner == start  # weights before any label was seen
    assert model.out_of_fold_ == {}
    plain = voting(pseudo_labels=False, **parameters).fit(LINKED, Y)
    assert (plain._ensemble.pool is None) == ("fusion" in parameters)


def test_heads_may_be_weighed_too():
    model = voting(pseudo_labels=False).fit(LINKED, Y, unaligned=UNALIGNED)
    assert "classification" in model.history_.names
    average = voting(pseudo_labels=False, fusion="average").fit(LINKED, Y, unaligned=UNALIGNED)
    assert not np.allclose(model.predict_proba(LINKED), average.predict_proba(LINKED))


def test_noise_counts_less_than_what_tells_classes_apart():
    data = make_views(
        150, n_views=3, n_groups=1, n_classes=3, n_columns=5, labeled=1.0, random_state=0
    )
    y, rng = data.linked_target, np.random.default_rng(0)
    views = {name: X + rng.normal(size=X.shape) for name, X in data.linked.items()}
    message = "view 'noise' are not measurably better than the shares of the classes: on 150 labels"
    with pytest.warns(UserWarning, match=message):
        model = voting().fit({**views, "noise": rng.normal(size=(len(y), 6))}, y)
    learner = model._ensemble.super_learner
    for weights in (learner.complete, learner.partial):
        *others, noise = np.sum(learner.predictors, axis=1) * weights[:-1]
        assert noise < 0.9 * min(others)


@pytest.mark.parametrize("names", SUBSETS, ids=" ".join)
def test_predictors_need_only_the_views_that_are_present(semisupervised, names):
    here = only(LINKED, names)
    expected = semisupervised.predict_proba(here)
    np.testing.assert_allclose(expected.sum(1), 1)
    gaps = {name: X if name in names else np.full_like(X, np.nan) for name, X in LINKED.items()}
    np.testing.assert_allclose(semisupervised.predict_proba(gaps), expected, rtol=1e-6)
    order = np.random.default_rng(0).permutation(len(Y))
    mixed = semisupervised.predict_proba({name: X[order] for name, X in here.items()})
    np.testing.assert_allclose(mixed, expected[order], rtol=1e-4, atol=1e-6)


def test_each_row_is_predicted_by_the_neighbors_in_its_views(semisupervised):
    views = {name: X.copy() for name, X in LINKED.items()}
    views["view_0"][:10] = np.nan
    views["view_2"][5:20] = np.nan
    found = semisupervised.predict_proba(views)
    parts = ((slice(0, 5), NAMES[1:]), (slice(5, 10), NAMES[1:2]), (slice(10, 20), NAMES[:2]))
    for rows, names in (*parts, (slice(20, None), NAMES)):
        alone = semisupervised.predict_proba({name: LINKED[name][rows] for name in names})
        np.testing.assert_allclose(found[rows], alone, rtol=1e-4, atol=1e-6)


def test_a_row_does_not_depend_on_those_that_are_predicted_with_it(semisupervised):
    views = {name: X[:20].copy() for name, X in LINKED.items()}
    views["view_0"][:10] = np.nan
    views["view_2"][5:15] = np.nan
    together = semisupervised.predict_proba(views)
    for i in range(20):
        row = {name: X[i : i + 1] for name, X in views.items() if not np.isnan(X[i, 0])}
        np.testing.assert_allclose(semisupervised.predict_proba(row)[0], together[i], rtol=1e-9)


@pytest.mark.parametrize("n_classes", (3, 5))
def test_a_view_without_labels_is_taught_by_another(n_classes):
    data = make_views(150, n_views=2, n_groups=1, n_classes=n_classes, labeled=0.2, random_state=1)
    model = voting(n_estimators=2).fit(
        data.linked,
        np.full(len(data.linked_target), -1),
        unaligned=data.views,
        unaligned_y={"view_0": data.target["view_0"]},
    )
    assert model.score({"view_0": data.linked["view_0"]}, data.linked_target) > 0.8
    assert model.score({"view_1": data.views["view_1"]}, data.target["view_1"]) > 2.2 / n_classes


def test_rows_with_gaps_keep_their_labels_in_the_views_they_have():
    views = {name: X.copy() for name, X in LINKED.items()}
    views["view_1"][:15] = np.nan
    model = voting().fit(views, Y, unaligned=UNALIGNED)
    assert model.score(LINKED, Y) > 0.9


def test_a_constant_view_and_few_rows_do_no_harm():
    few = {name: X[:8] for name, X in LINKED.items()}
    few["constant"] = np.zeros((8, 3))
    y = np.array([0, 0, 1, 1, 0, 1, 0, 1])
    with pytest.warns(UserWarning, match="constant"):
        found = voting().fit(few, y).predict_proba(few)
    np.testing.assert_allclose(found.sum(1), 1)


def test_classes_of_weight_0_are_not_predicted():
    model = voting(class_weight={0: 0.0, 1: 1.0, 2: 1.0}).fit(LINKED, Y, unaligned=UNALIGNED)
    assert 0 not in model.predict({"view_0": LINKED["view_0"]})
    assert np.isfinite(model.predict_proba(LINKED)).all()


def test_a_short_training_of_small_tables_has_as_many_steps_as_a_long_one_of_large():
    lengths = {
        steps: len(small(max_epochs=None, steps_per_epoch=steps).fit(LINKED, Y).history_)
        for steps in (None, 5, 30)
    }
    assert lengths == {None: 80, 5: 16, 30: 10}


def test_epochs_of_a_training_without_given_length_are_short_in_long_tables():
    X = np.random.default_rng(0).normal(size=(1000, 2))
    inputs = small(max_epochs=None, batch_size=4, hidden=())._inputs([X, -X], np.arange(1000) % 2)
    (member,) = fit_views([inputs])[0].members
    assert member.training.sampler.n_steps == 250
    schedule = member.schedule()
    assert (schedule.max_epochs, schedule.steps_per_epoch) == (10, 60)


ODD = np.arange(40)[:, None] % 2  # the class
OFTEN = np.where(np.arange(300) < 60, 0.1 + 0.8 * ODD, 0.2)  # means of words
WIDE = {
    "words": np.random.default_rng(0).poisson(OFTEN),
    "genes": np.random.default_rng(1).normal(size=(40, 280)) + 0.5 * ODD,
    "age": np.random.default_rng(2).normal(size=(40, 3)) + 1.5 * ODD,
}
WIDE["words"][:, -1] = 0  # a constant column
HELD = slice(160, None)


def fit_wide(views=WIDE, **parameters):
    return voting(n_estimators=2, **parameters).fit(views, np.arange(40) % 2)


def test_wide_views_are_reduced_and_counts_are_recognized():
    model = fit_wide()
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
    np.testing.assert_allclose(fit_wide(stored).predict_proba(WIDE), P, atol=0.02)
    # The number of words of a row does not matter.
    np.testing.assert_allclose(model.predict_proba({**WIDE, "words": 3 * WIDE["words"]}), P)


def test_the_reduction_can_be_switched_off():
    model = fit_wide(preprocessing={"words": "pca", "genes": "standardize"})
    assert list(model.preprocessing_.values()) == [
        "standardized; 300 columns reduced to 40 components",
        "standardized",
        "standardized",
    ]
    assert set(fit_wide(preprocessing="none").preprocessing_.values()) == {"as given"}
    with pytest.raises(ValueError, match=r"preprocessing to name views.*also names \['word'\]"):
        fit_wide(preprocessing={"word": "pca"})


@pytest.mark.filterwarnings("ignore:Predictions from")
def test_an_indicator_finds_a_class_that_decides_what_is_measured():
    """Ill people mostly have one lab value, others mostly not; the value itself tells nothing."""
    random, y = np.random.default_rng(0), np.arange(240) % 2
    views = {"labs": random.normal(size=(240, 6)), "genes": random.normal(size=(240, 5))}
    measured = random.random(240) < np.where(y == 1, 0.9, 0.1)
    views["labs"][~measured, 3] = np.nan
    first, last = ({name: X[rows] for name, X in views.items()} for rows in (slice(160), HELD))
    scores = {}
    for method in ("median", "median+indicator"):
        model = voting(n_estimators=3, impute={"labs": method}).fit(first, y[:160])
        scores[method] = model.score(last, y[HELD])
    best = np.mean(measured[HELD] == y[HELD])
    assert best > 0.9
    assert scores["median+indicator"] > best - 0.05
    assert scores["median"] < 0.65


def test_an_encoder_of_the_users_own_gets_indicators_too():
    views = {name: X.astype(np.float64) for name, X in WIDE.items()}
    views["age"][3:7, 1] = np.nan
    encoders = {"age": torch.nn.Linear(4, 4)}
    model = fit_wide(views, encoders=encoders, impute={"age": "mean+indicator"})
    assert model.predict_proba(views).shape == (40, 2)
    with pytest.raises(ValueError, match=r"'age' to turn float32 rows of shape \(2, 4\)"):
        fit_wide(views, encoders={"age": torch.nn.Linear(3, 4)}, impute="mean+indicator")


def test_an_encoder_of_the_users_own_gets_all_columns():
    model = fit_wide(encoders={"genes": torch.nn.Linear(280, 4)})
    assert model.preprocessing_["genes"] == "standardized"


def test_where_counts_were_negative_numbers_are_refused():
    with pytest.raises(ValueError, match=r"'words' to hold counts.*negative numbers in 1 entry.*2"):
        fit_wide().predict(
            {
                **WIDE,
                "words": np.where(np.eye(40, 300) * np.arange(40)[:, None] == 2, -1, WIDE["words"]),
            }
        )


def test_one_negative_number_among_counts_makes_them_ordinary_columns():
    X = WIDE["words"].copy()
    X = np.vstack([X] * 30)  # 1,200 rows, of which some are looked at first
    X[1] = -1
    views = {"words": X, "age": np.random.default_rng(0).normal(size=(1200, 3))}
    model = voting(n_estimators=1, max_epochs=1).fit(views, np.arange(1200) % 2)
    assert model.preprocessing_["words"] == "standardized; 300 columns reduced to 64 components"


def test_components_are_weighted_not_standardized():
    random = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = np.eye(3)[y] @ random.normal(size=(3, 50)) * 3 + random.normal(size=(600, 50))
    views = {name: PCA(30).fit_transform(X + random.normal(size=X.shape)) for name in "ab"}
    few = np.where(np.arange(600) < 9, y, -1)
    model = voting(n_estimators=2).fit(views, few)
    assert set(model.preprocessing_.values()) == {"components, standardized in part"}
    plain = voting(n_estimators=2, preprocessing="standardize").fit(views, few)
    assert log_loss(y, model.predict_proba(views)) < 0.7 * log_loss(y, plain.predict_proba(views))
    assert model.score(views, y) >= plain.score(views, y)


def test_kinds_of_columns_that_are_not_recognized_can_be_said(capsys):
    views = {"words": WIDE["words"][:, :20], "age": np.random.default_rng(0).normal(size=(40, 9))}
    kinds = {"words": "counts", "age": "components"}
    model = voting(n_estimators=1, max_epochs=1, preprocessing=kinds, verbose=True)
    model.fit(views, np.arange(40) % 2)
    assert model.preprocessing_ == {
        "words": "square roots of the shares of counts in their row",
        "age": "components, standardized in part",
    }
    assert "age: components, standardized in part" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'words' to hold counts, but it contains negative"):
        model.fit({**views, "words": -views["words"]}, np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"preprocessing\['age'\] to be one of"):
        model.set_params(preprocessing={"age": "pcs"}).fit(views, np.arange(40) % 2)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"pseudo_labels": "no"}, "pseudo_labels to be True or False, but it is 'no'"),
        ({"fusion": "mean"}, "fusion to be one of.*'weighted', 'average'"),
        ({"max_epochs": 0}, "max_epochs"),
    ),
    ids=str,
)
def test_bad_settings_are_refused_before_anything_is_learned(change, message):
    with pytest.raises(ValueError, match=message):
        voting(**change).fit(LINKED, Y)


def test_labels_in_another_order_than_their_rows_are_refused_everywhere():
    rng = np.random.default_rng(0)
    ids = [f"p{i}" for i in range(40)]
    views = {name: pd.DataFrame(rng.normal(size=(40, 3)), index=ids) for name in ("a", "b")}
    y = pd.Series(rng.integers(0, 2, 40), index=ids)
    model = MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    with pytest.raises(ValueError, match="row labels of view 'a' and of y differ"):
        model.fit(views, y, unaligned=views, unaligned_y={"a": y[::-1]})
    model.fit(views, y, unaligned=views, unaligned_y={"a": y})
    assert model.score(views, y.astype(object)) == model.score(views, y)
    with pytest.raises(ValueError, match="row labels of view 'a' and of y differ"):
        model.score(views, y[::-1])


def test_callbacks_get_the_ensemble_member():
    data = make_views(90, n_views=3, n_groups=1, labeled=0.8, random_state=0)
    linked = {name: X.astype(float) for name, X in data.linked.items()}
    linked["view_0"][::3] = np.nan  # so that networks differ in shape
    seen = []
    model = MultiViewClassifier(max_epochs=2, n_estimators=4, pseudo_labels=False, random_state=0)
    model.set_params(callbacks=[lambda epoch: seen.append((epoch.member, epoch.number))])
    model.fit(linked, data.linked_target, unaligned=data.views)
    assert sorted(seen) == [(r, number) for r in range(4) for number in (1, 2)]


# large views and views with labels of some classes


def _blobs(n, n_classes, noise, seed):
    random = np.random.default_rng(seed)
    y = random.integers(n_classes, size=n)
    centers = random.normal(size=(2, n_classes, 6))
    return [2 * c[y] + noise * random.normal(size=(n, 6)) for c in centers], y


def _uncoupled():
    return MultiViewClassifier(coupling="none", max_epochs=5, n_estimators=2, random_state=0)


def test_labeled_rows_and_anchors_become_nodes_before_other_linked_rows(monkeypatch):
    monkeypatch.setattr(graph, "_MAX_NODES", 100)
    monkeypatch.setattr(pseudo_labels, "_N_ANCHORS", 25)
    Xs, y = _blobs(1000, 4, 0.5, 0)
    known = np.full(1000, -1)
    for c in range(4):
        known[np.flatnonzero(y == c)[-5:]] = c
    assert _uncoupled().fit(Xs, known).score([Xs[0], None], y) > 0.9
    unaligned = {f"view_{s}": X for s, X in enumerate(Xs)}
    linked = {name: X[:30] for name, X in unaligned.items()}
    model = _uncoupled()
    model.fit(linked, np.full(30, -1), unaligned=unaligned, unaligned_y={"view_0": y})
    assert model.score({"view_1": Xs[1]}, y) > 0.6


def test_a_view_keeps_its_own_labels_of_classes_that_it_has():
    Xs, y = _blobs(900, 4, 1.2, 3)
    first, second = np.arange(10, 110), np.flatnonzero(y < 3)[50:300]
    model = _uncoupled().fit(
        {"a": Xs[0][:10], "b": Xs[1][:10]},
        np.full(10, -1),
        unaligned={"a": Xs[0][first], "b": Xs[1][second]},
        unaligned_y={"a": y[first], "b": y[second]},  # b has labels of all classes but one
    )
    new = np.flatnonzero(y < 3)[300:]
    assert model.score({"b": Xs[1][new]}, y[new]) > 0.8


def test_there_is_a_joint_predictor_where_a_labeled_row_has_two_views():
    own = {name: DATA.target[name] for name in NAMES}
    joint = []
    for labels in (Y, np.full(len(Y), -1)):
        model = small(pseudo_labels=True, max_epochs=1)
        model.fit(LINKED, labels, unaligned=UNALIGNED, unaligned_y=own)
        joint.append(model._ensemble.predictors.joint)
        assert len(model._ensemble.predictors.ridge) == 3
    assert joint[0] is not None
    assert joint[1] is None


def test_score_validates_its_input_once(model, monkeypatch):
    calls, check = [], MultiViewClassifier._check

    def count(self, *args, **options):
        calls.append(1)
        return check(self, *args, **options)

    monkeypatch.setattr(MultiViewClassifier, "_check", count)
    assert model.score(LINKED, Y) > 0.5
    assert len(calls) == 1


# prior probabilities of the classes


def with_prior(y=None, **parameters):
    """One member, so that probabilities are no mean."""
    return voting(n_estimators=1, **parameters).fit(LINKED, Y if y is None else y)


UNEQUAL = np.where((Y == 2) & (np.arange(len(Y)) % 4 > 0), -1, Y)  # few labels of class 2


def test_a_given_prior_multiplies_the_likelihood():
    plain = with_prior(UNEQUAL)
    prior = np.exp(plain._ensemble.super_learner.log_prior[0])
    assert prior[2] < 0.9 / 3  # as among the labels
    given = {0: 0.2, 1: 0.1, 2: 0.7}
    found = with_prior(UNEQUAL, class_prior=given)
    for names in (NAMES, ["view_1"], ["view_0", "view_2"]):
        views = only(LINKED, names)
        expected = plain.predict_proba(views) / prior * [0.2, 0.1, 0.7]
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.predict_proba(views), expected, rtol=1e-6)


def test_balanced_weights_are_a_uniform_prior():
    balanced, uniform = (
        with_prior(UNEQUAL, class_weight="balanced"),
        with_prior(UNEQUAL, class_prior="uniform"),
    )
    np.testing.assert_array_equal(balanced.predict_proba(LINKED), uniform.predict_proba(LINKED))
    np.testing.assert_allclose(balanced._ensemble.super_learner.log_prior, np.log(1 / 3))
    assert not np.allclose(
        with_prior(UNEQUAL).predict_proba(LINKED), balanced.predict_proba(LINKED)
    )


def test_weights_of_classes_multiply_the_prior():
    plain, weighted = with_prior(UNEQUAL), with_prior(UNEQUAL, class_weight={2: 5.0})
    expected = plain.predict_proba(LINKED) * [1, 1, 5]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weighted.predict_proba(LINKED), expected, rtol=1e-6)


def test_priors_that_cannot_be_used_are_refused():
    with pytest.raises(ValueError, match="pseudo_labels=True beside class_prior"):
        voting(pseudo_labels=False, class_prior="uniform").fit(LINKED, Y)
    for given in ({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.4, 2: 0.3}, "equal", [0.2, 0.3, 0.5]):
        with pytest.raises(ValueError, match="class_prior to be None, 'uniform' or positive"):
            voting(class_prior=given).fit(LINKED, Y)


def test_the_prior_is_that_of_the_labels():
    model = voting().fit(LINKED, UNEQUAL, unaligned=UNALIGNED)
    found = np.exp(model._ensemble.super_learner.log_prior)
    codes = [UNEQUAL[UNEQUAL >= 0]] * 3
    np.testing.assert_allclose(found, class_priors(codes, 3), rtol=1e-9)


def rare(n, seed, share=0.05, gap=0.6):
    """Two views with little signal, and classes of which one is rare."""
    random = np.random.default_rng(seed)
    y = (random.random(n) < share).astype(int)
    return {name: random.normal(size=(n, 8)) + gap * y[:, None] / 2 for name in "ab"}, y


@pytest.mark.filterwarnings("ignore:Predictions from .* not measurably better:UserWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_rare_class_is_predicted_as_often_as_it_occurs(seed):
    views, y = rare(400, seed)
    new, truth = rare(3000, seed + 100)
    model = voting(max_epochs=None, n_estimators=3).fit(views, y)
    for names in (["a", "b"], ["a"], ["b"]):
        P = model.predict_proba(only(new, names))
        assert np.mean(P.argmax(axis=1) == truth) > 1 - truth.mean() - 0.01  # the majority
        assert P[:, 1].mean() == pytest.approx(truth.mean(), abs=0.02)
        prior = log_loss(truth, np.tile([1 - y.mean(), y.mean()], (3000, 1)))
        assert log_loss(truth, P) < prior + 0.02


# what rows have


def masked(views, absent):
    """Views with NaN in rows that are absent, by view."""
    return {
        name: np.where(absent[name][:, None], np.nan, X) if name in absent else X
        for name, X in views.items()
    }


def three_views(n=120, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return {
        name: 3 * random.normal(size=(3, 5))[y] + random.normal(size=(n, 5)) for name in "abc"
    }, y


def situation(name):
    """Arguments of fit, and the classes of the linked rows."""
    views, y = three_views()
    first = np.arange(120) < 60
    if name == "complete":
        return {"Xs": views, "y": np.where(first, y, -1)}, y
    if name == "partial rows":
        absent = {"a": np.arange(120) % 4 == 0, "c": np.arange(120) % 4 == 1}
        return {"Xs": masked(views, absent), "y": np.where(first, y, -1)}, y
    linked = {name: X[~first] for name, X in views.items()}
    own = {name: X[first] for name, X in views.items()}
    nothing = np.full(60, -1)
    if name == "labels in one view":
        labels = {"a": y[first]}
    elif name == "own labels":
        labels = {"a": y[first], "b": y[first], "c": y[first]}
    return {"Xs": linked, "y": nothing, "unaligned": own, "unaligned_y": labels}, y[~first]


SITUATIONS = ("complete", "partial rows", "labels in one view", "own labels")


@pytest.mark.parametrize("coupling", ("none", "hot-reference"))
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_model_predicts_from_all_views_and_each_and_the_same_after_loading(
    name, coupling, tmp_path
):
    arguments, y = situation(name)
    first, same = (voting(coupling=coupling).fit(**arguments) for _ in range(2))
    assert first.score(arguments["Xs"], y) > 0.9
    has_joint = name in ("complete", "partial rows")
    assert (first._ensemble.predictors.joint is not None) == has_joint
    loaded = load(first.save(tmp_path / "m.hotview"))
    new, truth = three_views(seed=0)
    for names in (["a", "b", "c"], ["a"], ["b"], ["c"], ["a", "c"]):
        P = first.predict_proba(only(new, names))
        np.testing.assert_array_equal(P, same.predict_proba(only(new, names)))
        np.testing.assert_array_equal(loaded.predict_proba(only(new, names)), P)
        assert np.mean(P.argmax(axis=1) == truth) > 0.75
    gaps = masked(new, {"b": np.arange(120) % 2 == 0})
    P = first.predict_proba(gaps)
    np.testing.assert_allclose(P[1::2], first.predict_proba(new)[1::2], rtol=1e-6)
    without = first.predict_proba(only(new, ["a", "c"]))
    np.testing.assert_allclose(P[::2], without[::2], rtol=1e-6)


def test_a_view_without_labels_is_taught_over_rows_that_lack_a_third():
    views, y = three_views(180)
    labeled, linked = np.arange(180) < 60, np.arange(180) >= 120
    # Labels are in a and c; rows with a and b are linked, and none of all three.
    Xs = {name: X[linked] for name, X in views.items()}
    Xs["c"] = np.full_like(Xs["c"], np.nan)
    own = {name: views[name][labeled] for name in "ac"}
    model = voting().fit(
        Xs, np.full(60, -1), unaligned=own, unaligned_y=dict.fromkeys("ac", y[labeled])
    )
    new = (np.arange(180) >= 60) & ~linked
    assert model.score({"b": views["b"][new]}, y[new]) > 0.8
    assert model.score({name: X[new] for name, X in views.items()}, y[new]) > 0.9
    assert model.out_of_fold_["b"]["expected"]


def test_linked_rows_whose_labels_are_left_out_do_not_teach(monkeypatch):
    seen = []

    def look(graphs, labels, scores, weights, left_out, random):
        seen.append(left_out)
        return label_nodes(graphs, labels, scores, weights, left_out, random)

    monkeypatch.setattr(member_fit, "label_nodes", look)
    arguments, _ = situation("complete")
    inputs = voting()._inputs(**arguments)
    fit_views([inputs])
    for left_out, held_out in zip(seen, inputs.held_out, strict=False):
        assert np.flatnonzero(left_out).tolist() == held_out.tolist()
    assert len(seen) == 4  # of three members, and, by all labels, of all
    assert not seen[-1].any()


def test_rows_that_are_left_out_do_not_teach(monkeypatch):
    seen = []

    def look(graphs, labels, scores, weights, left_out, random):
        seen.append(left_out)
        return label_nodes(graphs, labels, scores, weights, left_out, random)

    monkeypatch.setattr(member_fit, "label_nodes", look)
    arguments, _ = situation("labels in one view")
    (fitted,) = fit_views([voting()._inputs(**arguments)])
    for member in fitted.members:
        # A third of the linked rows tells how good the views are that others teach.
        assert len(member.linked_scores.target) == 20
        assert (member.linked_scores.target == -1).all()
    *of_members, in_the_end = seen
    assert np.sum(of_members, axis=0).tolist() == [1] * 60  # each by one member
    assert not in_the_end.any()  # then all rows teach
    with_labels, _ = situation("complete")
    (fitted,) = fit_views([voting()._inputs(**with_labels)])
    assert all(member.linked_scores is None for member in fitted.members)


# accuracy on the handwritten digits


@pytest.fixture(scope="module")
def digits():
    data = load_handwritten()
    order = np.random.default_rng(0).permutation(2000)
    names = ("fou", "kar", "zer")
    return {name: data.views[name][order] for name in names}, data.target[order]


def test_few_labels_of_digits_are_enough(digits):
    views, y = digits
    train, few = np.arange(2000) < 600, np.arange(600) < 100
    model = MultiViewClassifier(random_state=0, n_estimators=3, device="cpu")
    model.fit({n: X[train] for n, X in views.items()}, np.where(few, y[:600], -1))
    new = {name: X[~train] for name, X in views.items()}
    assert model.score(new, y[~train]) > 0.85
    for name, floor in (("fou", 0.55), ("kar", 0.75), ("zer", 0.55)):
        assert model.score({name: new[name]}, y[~train]) > floor
        assert model.out_of_fold_[name]["accuracy"] > floor - 0.1


# One Fourier coefficient does tell 3 from 5 in these 130 rows, few of which are a 5.
@pytest.mark.filterwarnings("ignore:Columns alone tell the class")
def test_unequal_classes_of_digits_are_told_apart(digits):
    views, y = digits
    chosen = np.flatnonzero(np.isin(y, [3, 5]))
    chosen = chosen[(y[chosen] == 3) | (np.arange(len(chosen)) % 9 == 0)]  # about 9 to 1
    views, target = {name: X[chosen] for name, X in views.items()}, y[chosen]
    train = np.arange(len(chosen)) < 130
    model = MultiViewClassifier(random_state=0, n_estimators=3, device="cpu")
    model.fit({name: X[train] for name, X in views.items()}, target[train])
    new, truth = {name: X[~train] for name, X in views.items()}, target[~train]
    majority = np.mean(truth == 3)
    assert model.score(new, truth) >= majority
    for name in views:
        assert model.score({name: new[name]}, truth) > majority - 0.03
    balanced = model.set_params(class_prior="uniform").fit(
        {name: X[train] for name, X in views.items()}, target[train]
    )
    assert np.mean(balanced.predict(new)[truth == 5] == 5) > 0.7


def test_several_rows_of_one_person_do_not_look_like_dependence():
    random = np.random.default_rng(0)
    people = np.repeat(np.arange(20), 3)
    views = {name: random.normal(size=(20, 4))[people] for name in "ab"}
    noise = {name: X + 0.1 * random.normal(size=X.shape) for name, X in views.items()}
    settings = {"max_epochs": 1, "hidden": (4,), "n_estimators": 2, "random_state": 0}
    y = np.arange(20)[people] % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = MultiViewClassifier(**settings).fit(noise, y, groups=people).view_similarity_
        repeated = MultiViewClassifier(**settings).fit(noise, y).view_similarity_
    assert alone.n_rows[0, 1] == 20
    assert alone.p_value[0, 1] > 0.05 > repeated.p_value[0, 1]
