"""Warnings: once, at the caller's line, with the remedy; and none where all is well."""

import inspect
import json
import platform
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import hotview as hv
from hotview import MultiViewClassifier, MultiViewEncoder, StackedViews
from hotview.datasets import make_views
from hotview.estimators.base import fit_batched
from hotview.estimators.diagnostics import FitWarnings, collapse_warning
from tests.estimators.small_fits import BOTH, SMALL, UNCOUPLED

SETTINGS = {**UNCOUPLED, "n_components": 4}
DATA = make_views(40, n_views=4, n_columns=6, n_classes=3, labeled=1.0, random_state=0)
VIEWS, Y = DATA.linked, DATA.linked_target


def small(kind, **parameters):
    return kind(**{**SETTINGS, **parameters})


def warned(model, views=VIEWS, y=Y, category=UserWarning, **more):
    """The one warning of a fit, which must be for the line below."""
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(category) as caught:
        model.fit(views, y, **more)
    assert [(w.category, w.filename, w.lineno) for w in caught] == [(category, __file__, line)]
    return str(caught[0].message)


def test_labels_that_are_texts_of_missing_values_are_counted():
    names = np.array(["ill", "odd", "well"])[Y].astype("U8")
    y, own, truth = names.copy(), names.copy(), names[:9].copy()
    y[[3, 5]], y[7], own[4], truth[2] = "", "nan", "None", "<NA>"
    more = {"unaligned": {"view_0": VIEWS["view_0"]}, "unaligned_y": {"view_0": own}}
    more["validation"] = {name: X[:9] for name, X in VIEWS.items()}, truth
    model = small(MultiViewClassifier)
    text = warned(model, y=y, **more)
    assert "(y: 2 times '', 1 times 'nan'; unaligned_y['view_0']: 1 times 'None'; vali" in text
    assert "validation's y: 1 times '<NA>')" in text
    assert "by None or NaN" in text
    assert model.fit_warnings_ == [text]
    assert model.classes_.tolist() == ["ill", "odd", "well"]
    other = small(MultiViewClassifier, unlabeled_marker=None).fit(VIEWS, y)
    assert other.classes_.tolist() == ["", "ill", "nan", "odd", "well"]


def test_constant_columns_are_mentioned_once():
    views = {name: X.copy() for name, X in VIEWS.items()}
    views["view_0"][:, [1, 4]] = 7.0
    views["view_2"] = np.hstack([views["view_2"], np.ones((40, 8), np.float32)])
    model = small(MultiViewEncoder)
    text = warned(model, views)
    assert "'view_0': 1, 4; 'view_2': 6, 7, 8, 9, 10 and 3 more" in text
    assert "kept and become 0" in text
    assert model.n_features_per_view_["view_2"] == 14
    other = views["view_0"] + 2.0  # more than in training: no division by 0
    assert np.isfinite(model.transform_view(other, "view_0")).all()
    # Warnings and notes of a fit are of that fit alone.
    assert model.fit_warnings_ == [text]
    assert model.metadata_ == {}
    model.metadata_["a"] = 1
    assert model.fit(VIEWS).fit_warnings_ == []
    assert model.metadata_ == {}
    first, second = small(MultiViewEncoder, preprocessing="none"), small(MultiViewEncoder)
    with pytest.warns(UserWarning, match="Columns with a single value"):
        fit_batched([(first, {"Xs": views}), (second, {"Xs": views})])
    # Without preprocessing nothing becomes 0.
    assert [len(m.fit_warnings_) for m in (first, second)] == [0, 1]


@pytest.mark.parametrize(("kind", "n_views"), ((MultiViewEncoder, 2), (MultiViewClassifier, 3)))
def test_few_views_leave_the_plan_no_freedom(kind, n_views):
    views = dict(list(VIEWS.items())[:n_views])
    model = small(kind, coupling="hot-pairwise")
    text = warned(model, views)
    assert f"With {n_views} views the plan of 'hot-pairwise' has no freedom" in text
    assert "coupling='hot-reference'" in text
    weights = model.plan_.W[~np.eye(n_views, dtype=bool)]
    np.testing.assert_allclose(weights, 1 / len(weights), rtol=1e-5)
    for coupling in ("sw-pairwise", "hot-reference"):
        small(kind, coupling=coupling).fit(views, Y)


@BOTH
def test_a_view_along_one_line_is_named(kind):
    line = np.outer(np.arange(40.0), np.ones(6)) * [1, 2, 3, 4, 5, 6]
    model = small(kind, coupling="sw-reference", alignment_weight=0.0)
    text = warned(model, {**VIEWS, "view_2": line})
    assert "latents of 'view_2' (effective rank 1.0) have collapsed" in text
    usual = kind().get_params()["view_regularizer"]
    assert ("use view_regularizer='autoencoder'" in text) == (usual != "autoencoder")
    assert "raise the coupling's orthogonality_weight" in text
    assert "lower the coupling's weight" in text
    small(kind, coupling="none").fit({**VIEWS, "view_2": line}, Y)  # where nothing can collapse


def cloud(*scales, n=200):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, len(scales), generator=generator) * torch.tensor(scales)


@pytest.mark.parametrize(
    ("latents", "named"),
    (
        ([cloud(1.0, 1.0, 1.0), cloud(1.0, 0.9, 0.8)], []),
        ([cloud(1.0, 1.0, 1.0), cloud(1.0, 0.1, 0.1)], ["b"]),
        ([cloud(1.0, 1.0, 1.0), cloud(1e-3, 1e-3, 1e-3), cloud(1.0, 1.0, 1.0)], ["b"]),
        ([cloud(0.04, 0.04, 0.04), cloud(0.06, 0.06, 0.06)], ["a"]),
        ([cloud(0.0, 0.0, 0.0), cloud(0.0, 0.0, 0.0)], ["a", "b"]),
        ([cloud(1.0, 0.0, 0.0, n=3), cloud(1.0, 1.0, 1.0)], []),  # three rows are too few
        ([cloud(1.0, 0.05), cloud(1.0, 1.0)], []),  # latents of two columns may be a line
    ),
    ids=("round", "line", "small", "all small", "points", "few", "flat"),
)
def test_which_latents_have_collapsed(latents, named):
    names, widths, scale = ["a", "b", "c"][: len(latents)], [5] * len(latents), 3**0.5
    text = collapse_warning(names, latents, widths, scale, ["this", "that"])
    assert [name for name in names if f"'{name}'" in str(text)] == named
    assert (text is not None) == ("To prevent it, this, or that." in str(text))
    line = [cloud(1.0, 0.0, 0.0), cloud(1.0, 1.0, 1.0)]  # as may be those of two columns
    assert collapse_warning(["a", "b"], line, [2, 5], 1.0, ["this"]) is None


@pytest.mark.parametrize(("kind", "n"), ((MultiViewEncoder, 2), (MultiViewClassifier, 1)))
def test_a_plan_that_has_not_converged(kind, n):
    spec = hv.HOTReferenceSpec(n_references=3, sinkhorn_max_iter=1)
    model = small(kind, coupling=spec, n_estimators=n)
    text = warned(model, category=ConvergenceWarning)
    assert not model.plan_.converged
    assert f"off by {model.plan_.marginal_error:.1e} of the mass after 1 iter" in text
    assert "Raise sinkhorn_max_iter or reg" in text
    assert model.history_["marginal_error"][-1] > 1e-6


def test_classes_without_a_linked_label():
    own = {"unaligned": {"view_3": VIEWS["view_3"]}, "unaligned_y": {"view_3": Y}}
    text = warned(small(MultiViewClassifier), VIEWS, np.where(Y == 1, -1, Y), **own)
    assert "1 of the 3 classes have no linked row with a label (1)" in text
    assert "Link and label a few rows of every class" in text
    # Without any linked label, there is nothing to complain of.
    small(MultiViewClassifier).fit(VIEWS, np.full(40, -1), **own)
    own["unaligned_y"] = {"view_3": np.arange(40) % 9}  # not all are named
    text = warned(small(MultiViewClassifier), VIEWS, (np.arange(40) >= 20).astype(int), **own)
    assert "7 of the 9 classes have no linked row with a label (2, 3, 4, 5, 6 and 2 more)" in text


@pytest.mark.parametrize(("n_linked", "pseudo_labels"), ((2, True), (2, False), (3, True)))
def test_views_that_too_few_linked_rows_teach_are_named(n_linked, pseudo_labels):
    names = list(VIEWS)[:3]
    linked = {name: VIEWS[name][: n_linked + 5].copy() for name in names}
    if pseudo_labels:  # with, rows that have two views are enough
        linked[names[2]][:] = np.nan
    linked[names[1]][n_linked:] = np.nan  # rows of the first view alone teach nobody
    own = {name: VIEWS[name] for name in (names[0], names[2])}
    model = small(MultiViewClassifier, pseudo_labels=pseudo_labels)
    more = {"unaligned": {**own, names[1]: VIEWS[names[1]]}, "unaligned_y": dict.fromkeys(own, Y)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(linked, np.full(n_linked + 5, -1), **more)
    found = [str(w.message) for w in caught if "fewer classes than others" in str(w.message)]
    expected = f"{names[1]!r} (0 of 3), and the other labels are transferred over 2 linked rows"
    assert len(found) == (n_linked < 3)
    assert all(expected in text for text in found)


def test_every_door_points_at_the_caller():
    views = dict(list(VIEWS.items())[:2])
    X, model = np.hstack(list(views.values())), small(MultiViewEncoder, coupling="hot-pairwise")
    stacked = StackedViews(model, [range(6), range(6, 12)])
    for call, given in ((model.fit_transform, views), (stacked.fit, X), (stacked.fit_transform, X)):
        with pytest.warns(UserWarning, match="no freedom") as caught:
            call(given)
        assert [w.filename for w in caught] == [__file__]


def test_warnings_are_issued_once_and_collected_in_silent_processes():
    silent, shown = FitWarnings(shown=False), FitWarnings()
    for text in ("first", "first", None):
        silent.add(text)
    with pytest.warns(ConvergenceWarning, match="second"):
        shown.add("second", ConvergenceWarning)
    shown.add("second", ConvergenceWarning)  # warnings are errors here
    assert (silent.texts, shown.texts) == (["first"], ["second"])


PEOPLE = make_views(60, n_views=3, labeled=0.5, random_state=0)


def test_rows_and_labels_are_counted():
    y, own = PEOPLE.linked_target.astype(float), PEOPLE.target["view_1"].astype(float)
    y[:3], own[:7] = np.nan, np.nan
    model = hv.MultiViewClassifier(**SMALL)
    model.fit(PEOPLE.linked, y, unaligned=PEOPLE.views, unaligned_y={"view_1": own})
    description = model.trained_on_
    known = np.concatenate([y[3:], own[7:]])
    assert description["linked"] == len(y)
    assert description["linked_labeled"] == len(y) - 3
    assert description["unaligned"] == {name: len(X) for name, X in PEOPLE.views.items()}
    assert description["unaligned_labeled"] == {"view_1": len(own) - 7}
    assert description["classes"] == [[c, int((known == c).sum())] for c in np.unique(known)]
    assert description["device"] == "cpu"
    assert description["seconds"] > 0
    assert description["versions"]["python"] == platform.python_version()
    assert description["versions"]["torch"] == str(torch.__version__)
    assert json.loads(json.dumps(description)) == description
    for requested, used in (("tf32", "float32"), ("bfloat16", "bfloat16")):
        encoder = hv.MultiViewEncoder(**SMALL, precision=requested).fit(PEOPLE.views, paired=True)
        description = encoder.trained_on_
        assert description["precision"] == used  # a CPU has no TF32
        assert (description["linked"], description["unaligned"]) == (60, {})
        assert "classes" not in description  # an encoder counts rows alone
