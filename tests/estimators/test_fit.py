"""A fit from end to end: what it records, callbacks, encoders of one's own, bad input."""

import copy
import signal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder
from torch import nn

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from tests.estimators.small_fits import BOTH, KINDS, UNCOUPLED, prepared

PLAIN = {"pseudo_labels": False, "fusion": "average"}
DATA = make_views(24, n_views=3, n_columns=[5, 6, 4], n_classes=2, labeled=1.0, random_state=0)
VIEWS, Y = DATA.linked, DATA.linked_target
FRAMES = {name: pd.DataFrame(X).add_prefix("c") for name, X in VIEWS.items()}


def small(kind, **parameters):
    plain = PLAIN if kind is MultiViewClassifier else {}
    return kind(**{**UNCOUPLED, "max_epochs": 3, **plain, **parameters})


def fit(model, views=VIEWS, y=Y):
    return model.fit(views, y)  # an encoder does not use y


@pytest.mark.parametrize(
    ("kind", "n_estimators"), ((MultiViewEncoder, 1), (MultiViewClassifier, 2))
)
def test_bfloat16_learns_nearly_the_same_and_is_not_used_after(kind, n_estimators):
    parameters = {"coupling": "hot-reference", "view_regularizer": "autoencoder"}
    parameters |= {"n_estimators": n_estimators, "max_epochs": 10}
    exact = fit(small(kind, **parameters))
    rounded, again = (fit(small(kind, **parameters, precision="bfloat16")) for _ in range(2))
    assert rounded.history_["loss"] == again.history_["loss"] != exact.history_["loss"]
    np.testing.assert_allclose(rounded.history_["loss"], exact.history_["loss"], rtol=0.03)
    columns = rounded.model_.views[0].scaler
    X = torch.as_tensor((VIEWS["view_0"] - columns.mean) / columns.scale)
    exact = [copy.deepcopy(network.encoders[0]).double() for network in rounded.networks_]
    with torch.no_grad():
        F = [encoder(X.double()) for encoder in exact]
    found = rounded.transform_view(VIEWS["view_0"], "view_0")
    np.testing.assert_allclose(found, torch.cat(F, dim=1), rtol=1e-4, atol=1e-5)


def test_callbacks_are_told_and_can_stop():
    seen, weights = [], []

    def look(epoch):
        seen.append((epoch.number, dict(epoch.row)))
        weights.append(epoch.network.maps[0].weight.detach().clone())
        epoch.row.clear()  # a copy: the history stays
        assert epoch.network.training
        epoch.network.eval()  # which does not last
        epoch.stop = epoch.number == 2

    def count(epoch):
        seen.append(epoch.number)

    settings = {"coupling": "sw-reference", "callbacks": (look, count), "max_epochs": 9}
    model = fit(small(MultiViewClassifier, **settings))
    assert len(model.history_) == 2
    assert seen == [(1, model.history_[0]), 1, (2, model.history_[1]), 2]
    torch.testing.assert_close(weights[-1], model.network_.maps[0].weight)
    assert not torch.equal(weights[0], weights[1])

    def fail(epoch):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fit(small(MultiViewClassifier, callbacks=[fail]))


@BOTH
def test_ctrl_c_leaves_a_usable_model(kind, press_ctrl_c):
    def interrupt(epoch):
        if epoch.number == 2:
            press_ctrl_c()

    before = signal.getsignal(signal.SIGINT)
    model = small(kind, coupling="hot-reference", max_epochs=50, callbacks=[interrupt])
    with pytest.warns(UserWarning, match=r"interrupted in epoch 2.*fitted.*fit again") as caught:
        fit(model)
    assert len(caught) == 1
    assert signal.getsignal(signal.SIGINT) is before
    assert len(model.history_) == 2
    assert model.plan_.converged
    same = fit(small(kind, coupling="hot-reference", max_epochs=2))
    np.testing.assert_equal(same.transform(VIEWS), model.transform(VIEWS))


def test_ctrl_c_in_the_middle_of_an_epoch_stops_after_the_step(press_ctrl_c):
    steps = []

    class Counting(nn.Linear):
        def forward(self, X):
            if self.training:
                steps.append(len(X))
                if len(steps) == 2:
                    press_ctrl_c()
            return super().forward(X)

    model = small(MultiViewEncoder, encoders={"view_0": Counting(5, 4)}, batch_size=4)
    with pytest.warns(UserWarning, match="interrupted in epoch 1"):
        fit(model)  # of 6 steps an epoch
    assert len(steps) == 2
    assert len(model.history_) == 1


@pytest.mark.filterwarnings("ignore:Predictions from .* not measurably better:UserWarning")
def test_ctrl_c_while_predictors_are_fitted_leaves_a_classifier(press_ctrl_c):
    class Late(nn.Linear):
        def forward(self, X):
            calls.append(self.training)
            # The rows whose labels were held out are fewer than all that are encoded before.
            if True in calls and len(X) == len(y) // 2 and None not in calls:
                calls.append(None)
                press_ctrl_c()
            return super().forward(X)

    calls, y = [], np.arange(len(VIEWS["view_0"])) % 2
    encoders = {name: Late(X.shape[1], 4) for name, X in VIEWS.items()}
    model = small(MultiViewClassifier, encoders=encoders, pseudo_labels=True, fusion="weighted")
    model.set_params(n_estimators=2, alignment_weight=0.0)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(VIEWS, y)
    assert None in calls
    assert set(model.predict(VIEWS)) <= {0, 1}


@pytest.mark.parametrize("holder", (dict, nn.ModuleList))
def test_encoders_of_ones_own_are_copied_and_trained(holder):
    given = {name: nn.Linear(X.shape[1], 2 + s) for s, (name, X) in enumerate(VIEWS.items())}
    encoders = given if holder is dict else holder(given.values())
    before = {name: f.weight.detach().clone() for name, f in given.items()}
    settings = {"encoders": encoders, "view_regularizer": "autoencoder", "n_estimators": 2}
    model = fit(small(MultiViewEncoder, **settings))
    for s, (name, module) in enumerate(given.items()):
        assert torch.equal(module.weight, before[name])
        assert module.training
        assert module.weight.grad is None
        trained = model.network_.encoders[s]
        assert trained is not module
        assert 0 < (trained.weight - before[name]).abs().max() < 0.01  # three steps of Adam
        other = model.networks_[1].encoders[s]  # every member has a copy
        assert not torch.equal(other.weight, trained.weight)
        assert model.transform(VIEWS)[name].shape == (24, 2 * (2 + s))


def test_views_without_an_encoder_of_ones_own_get_the_usual():
    own = nn.Sequential(nn.Linear(6, 7), nn.Tanh())
    hidden = {"view_2": (), "view_0": (7, 5), "view_1": [3]}
    model = fit(small(MultiViewEncoder, encoders=[None, own, None], hidden=hidden))
    Z = model.transform(VIEWS)
    assert [z.shape[1] for z in Z.values()] == [4, 7, 4]
    assert np.abs(Z["view_1"]).max() <= 1
    for s, widths in ((0, [7, 5, 4]), (2, [4])):
        layers = [one for one in model.network_.encoders[s] if isinstance(one, nn.Linear)]
        assert [layer.out_features for layer in layers] == widths


def test_an_encoder_may_have_no_weights_and_may_behave_otherwise_in_training():
    encoders = {"view_0": nn.Identity(), "view_1": nn.BatchNorm1d(6)}
    model = fit(small(MultiViewClassifier, encoders=encoders, view_regularizer="none"))
    X, Z = VIEWS["view_0"].astype(float), model.transform(VIEWS)
    np.testing.assert_allclose(Z["view_0"], (X - X.mean(0)) / X.std(0), rtol=1e-4, atol=1e-5)
    one = model.transform({"view_1": VIEWS["view_1"][:1]})["view_1"]  # as in evaluation: one row
    np.testing.assert_allclose(one, Z["view_1"][:1], rtol=1e-5)


def gives(change):
    """A module that computes something else."""
    module = nn.Module()
    module.forward = change
    return module


@pytest.mark.parametrize(
    ("encoders", "error", "message"),
    (
        (nn.Linear(5, 4), TypeError, r"a list or dict of torch modules.*Linear"),
        ([nn.Linear(5, 4)], ValueError, r"each of the 3 views, but it holds 1\. Write None"),
        ({"other": nn.Linear(5, 4)}, ValueError, r"among \['view_0', 'view_1', 'vi.*'other'"),
        ({"view_1": nn.Linear}, TypeError, "encoder of view 'view_1' to be a torch module.*type"),
        ({"view_1": nn.Linear(5, 4)}, ValueError, r"'view_1' .* \(2, 6\).*failed.*cannot be mul"),
        ({"view_1": nn.Unflatten(1, (2, 3))}, ValueError, r"'view_1'.*shape \(2, 2, 3\).*Flatten"),
        ({"view_1": gives(lambda X: (X, None))}, ValueError, "'view_1'.*it gave tuple"),
        ({"view_1": gives(torch.Tensor.double)}, ValueError, "'view_1'.*float64.*make it float32"),
    ),
)
def test_encoders_that_cannot_be_used(encoders, error, message):
    with pytest.raises(error, match=message):
        fit(small(MultiViewEncoder, encoders=encoders))


def test_a_loss_that_is_not_finite_is_explained():
    wild = small(MultiViewEncoder, coupling="sw-pairwise", learning_rate=1e30, max_epochs=5)
    with pytest.raises(FloatingPointError, match=r"no longer finite in epoch 2.*learning_rate"):
        fit(wild)


def with_entries(view, *entries):
    """Views with some entries of one replaced."""
    views = {name: X.copy() for name, X in VIEWS.items()}
    for row, column, value in entries:
        views[view][row, column] = value
    return views


NAN, INF = np.nan, np.inf
GAPS = with_entries("view_1", (4, 2, NAN), (9, 0, NAN))
CITIES = FRAMES["view_1"].assign(city=[f"city {i}" for i in range(24)])
BAD_VIEWS = (
    (GAPS, ValueError, r"'view_1'.*NaN in 2 ent.*first in row 4, column 2.*impute='mean'"),
    (with_entries("view_2", (7, 1, -INF)), ValueError, r"'view_2'.*infinity.*row 7, column 1"),
    ({**VIEWS, "view_1": np.full((24, 6), NAN)}, ValueError, "'view_1'.*2 rows with values.* 0"),
    ({**VIEWS, "view_0": np.zeros((0, 5))}, ValueError, "'view_0'.*at least one row"),
    ({**VIEWS, "view_0": 1e300 * VIEWS["view_0"].astype(float)}, ValueError, "'view_0'.*too large"),
    ({"a": VIEWS["view_0"]}, ValueError, "at least 2 views, but got 1"),
    (FRAMES["view_0"], TypeError, "dict or list of two or more tables.*single DataF"),
    ({**FRAMES, "view_1": CITIES}, ValueError, r"'view_1': exp.*categorical.*drop.*\['city'\]"),
)


@pytest.mark.parametrize(("views", "error", "message"), BAD_VIEWS)
def test_bad_views(views, error, message):
    for kind in KINDS:
        model = small(kind)
        with pytest.raises(error, match=message):
            fit(model, views)
        assert not hasattr(model, "network_")


def keep(present):
    """The linked rows, NaN throughout the views that they lack."""
    kept = {name: X[: len(present)].copy() for name, X in VIEWS.items()}
    for X, rows in zip(kept.values(), np.transpose(present), strict=True):
        X[~rows] = np.nan
    return kept


def test_linked_rows_that_do_not_fit_each_other():
    with pytest.raises(ValueError, match="one label for each of the 24 rows, but it holds 20"):
        small(MultiViewClassifier).fit(VIEWS, Y[:20])
    short = {**VIEWS, "view_1": VIEWS["view_1"][:20]}
    absent = keep(~np.isin(np.arange(24), (6, 11))[:, None].repeat(3, 1))
    for views, message in (
        (short, r"numbers of rows differ \('view_0': 24, 'view_1': 20, 'view_2': 24\)"),
        (absent, "2 are NaN throughout all of them, the first being row 6"),
    ):
        with pytest.raises(ValueError, match=message):
            small(MultiViewClassifier).fit(views, Y)
        with pytest.raises(ValueError, match=message):
            small(MultiViewEncoder).fit(views, paired=True)


def test_indicators_are_columns_of_zeros_and_ones():
    X = GAPS["view_1"]
    filled = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    given = {"impute": {"view_1": "median+indicator"}, "preprocessing": "none"}
    model = fit(small(MultiViewClassifier, **given), GAPS)
    columns = {**GAPS, "view_1": np.hstack([filled, np.isnan(X[:, [0, 2]])])}
    expected = fit(small(MultiViewClassifier, preprocessing="none"), columns)
    np.testing.assert_allclose(model.history_["loss"], expected.history_["loss"], rtol=1e-5)
    assert model.impute == {"view_1": "median+indicator"}
    assert model.n_features_per_view_["view_1"] == X.shape[1]
    assert model.trained_on_["impute"] == {**dict.fromkeys(VIEWS), "view_1": "median+indicator"}
    assert "replaced by the median and marked in 2 more" in model.preprocessing_["view_1"]
    Z = model.transform({"view_1": X})["view_1"]
    np.testing.assert_allclose(Z, expected.transform(columns)["view_1"], rtol=1e-4, atol=1e-5)


def test_only_views_that_are_named_may_have_gaps():
    with pytest.raises(ValueError, match=r"'view_1'.*NaN in 2.*impute=\{'view_1': 'mean'\}"):
        fit(small(MultiViewEncoder, impute={"view_0": "mean", "view_1": None}), GAPS)
    model = fit(small(MultiViewEncoder, impute={"view_1": "mean"}), GAPS)
    model.impute = None  # what was fitted stays
    X = GAPS["view_1"]
    filled = {**GAPS, "view_1": np.where(np.isnan(X), np.nanmean(X, axis=0), X)}
    found, expected = (model.transform(views)["view_1"] for views in (GAPS, filled))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"'view_0'.*NaN in 1 entry"):
        model.transform(with_entries("view_0", (1, 1, NAN)))


def test_bad_views_after_fit():
    encoder = fit(small(MultiViewEncoder), FRAMES)
    classifier = fit(small(MultiViewClassifier), FRAMES)
    for views, error, message in (
        ({"other": VIEWS["view_1"]}, ValueError, r"got \['other'\]"),
        (list(VIEWS.values())[:2], ValueError, "3 views, as at fit, but got 2. Write None"),
        ({"view_0": VIEWS["view_1"]}, ValueError, "'view_0' to have 5 columns.*it has 6"),
        (with_entries("view_0", (3, 3, NAN)), ValueError, "'view_0'.*NaN in 1 entry.*row 3"),
        (with_entries("view_0", (3, 3, INF)), ValueError, "'view_0'.*infinity"),
        (VIEWS["view_0"], TypeError, "dict or list of tables"),
        ({}, ValueError, "at least one of the views"),
        ({"view_0": FRAMES["view_0"].rename(columns={"c3": "age"})}, ValueError, "no column 'c3'"),
        ({"view_0": FRAMES["view_0"].assign(c1="high")}, ValueError, "'c1', as at fit.*'high' in"),
    ):
        for method in (encoder.transform, classifier.transform, classifier.predict):
            with pytest.raises(error, match=message):
                method(views)


def test_bad_labels_and_unaligned_rows():
    model = small(MultiViewClassifier)
    for y, message in (
        (None, "y to hold a label for every row, but it is None.*MultiViewEncoder"),
        (Y + 0.25, r"fractions such as 0\.25\. Regression is not offered"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(VIEWS, y)
    for unaligned, message in (
        ({"other": VIEWS["view_0"]}, "'other'"),
        ({"view_0": VIEWS["view_0"][:, :3]}, "'view_0' to have 5 columns"),
        (with_entries("view_1", (3, 0, NAN)), "'view_1'.*NaN in 1 entry.*row 3"),
        ({"view_0": None}, "all are absent"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(FRAMES, Y, unaligned=unaligned)
    with pytest.raises(ValueError, match=r"'view_1' has neither.*\(Xs\).*\(unaligned_y\)"):
        model.fit(None, None, unaligned=VIEWS, unaligned_y={"view_0": Y, "view_2": Y})


@BOTH
def test_the_least_that_can_be_trained_on(kind):
    views = {"a": np.array([[0.0], [1.0]]), "b": np.array([[1.0], [5.0]])}
    model = small(kind, coupling="hot-reference", view_regularizer="manifold")
    model.fit(views, [0, 1])
    assert np.isfinite(model.history_["loss"]).all()
    assert model.transform(views)["a"].shape == (2, 4)


NEITHER = "labels, because classes cannot be identified without, but {} neither. Link a few rows"


def reached(present, labeled):
    """Views that a label reaches, by walking from view to view over rows that both have."""
    found, n = set(labeled), -1
    while n < (n := len(found)):
        found |= {t for s in found for t in range(3) if (present[:, s] & present[:, t]).any()}
    return found


@pytest.mark.filterwarnings("ignore:Views have labels of fewer classes:UserWarning")
@pytest.mark.filterwarnings("ignore:.* classes have no linked row with a label:UserWarning")
@settings(max_examples=30, deadline=None)
@given(
    present=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    labels=st.lists(st.booleans(), min_size=4, max_size=4),
    own=st.sets(st.integers(0, 2)),
)
def test_views_that_no_label_reaches_are_refused_and_no_others(present, labels, own):
    masks = np.array([[bool(mask >> s & 1) for s in range(3)] for mask in present])
    n = len(masks)
    y = np.where(labels[:n], np.arange(n) % 2, np.nan)
    labeled = {s for s in range(3) if (masks[:, s] & (y >= 0)).any()} | own
    more = {"unaligned": VIEWS, "unaligned_y": {f"view_{s}": Y for s in own}}
    if len(own) == 0 and len(set(y[y >= 0])) < 2:
        return  # there is nothing to learn at all
    lost = [f"view_{s}" for s in range(3) if s not in reached(masks, labeled)]
    model = small(MultiViewClassifier)
    if not lost:
        prepared(model, keep(masks), y, **more)
        return
    names = " and ".join(map(repr, lost)) + (" has" if len(lost) == 1 else " have")
    with pytest.raises(ValueError, match=NEITHER.format(names)):
        model.fit(keep(masks), y, **more)


@pytest.mark.filterwarnings("ignore:Views have labels of fewer classes:UserWarning")
def test_a_label_that_the_first_member_leaves_out_is_a_label():
    present = np.eye(3, dtype=bool)[[0, 1] * 10 + [2]]  # nobody is in two views
    more = {"view_2": VIEWS["view_2"]}
    left_out = set()
    for seed in range(6):  # the one label of view_2, its first row, is in some fold
        model = MultiViewClassifier(**{**UNCOUPLED, "n_estimators": 3, "random_state": seed})
        fit = prepared(model, keep(present), Y[:21], unaligned=more)
        rows = [member.data.left_out(fit.rows.data)[0] for member in fit.members]
        left_out |= {r for r, of_member in enumerate(rows) if 0 in of_member[:, 2]}
    assert 0 in left_out


def make_people(n, random):
    """A frame with text, and what a person would make of it by hand."""
    sex, ward = random.choice(["F", "M"], n), random.choice(["a", "b", "c"], n)
    age = random.normal(size=n) + (sex == "F")
    frame = pd.DataFrame({"sex": sex, "age": age, "ward": ward}, index=[f"p{i}" for i in range(n)])
    encoder = OneHotEncoder(categories=[["F", "M"], ["a", "b", "c"]], sparse_output=False)
    one_hot = encoder.fit_transform(frame[["sex", "ward"]])
    return frame, np.hstack([one_hot[:, :2], age[:, None], one_hot[:, 2:]])


random = np.random.default_rng(0)
PEOPLE, BY_HAND = make_people(24, random)
OTHERS, OTHERS_BY_HAND = make_people(30, random)
SCANS = pd.DataFrame(VIEWS["view_0"], index=PEOPLE.index).add_prefix("s")


@pytest.mark.parametrize(
    ("kind", "make"), ((MultiViewEncoder, pl.from_pandas), (MultiViewClassifier, pd.DataFrame))
)
def test_a_frame_with_text_is_fitted_to_the_same_bits_as_its_encoding(kind, make):
    arrays = {"people": BY_HAND, "scans": SCANS.to_numpy()}
    expected = fit(small(kind), arrays)
    model = fit(small(kind), {"people": make(PEOPLE), "scans": make(SCANS)})
    for name, Z in model.transform({"people": make(PEOPLE), "scans": make(SCANS)}).items():
        np.testing.assert_array_equal(Z, expected.transform(arrays)[name])
    np.testing.assert_array_equal(model.history_["loss"], expected.history_["loss"])
    if kind is MultiViewClassifier:
        P = model.predict_proba({"people": make(OTHERS)})
        np.testing.assert_array_equal(P, expected.predict_proba({"people": OTHERS_BY_HAND}))
        assert model.predict(arrays).tolist() == expected.predict(arrays).tolist()


def test_linked_and_unaligned_frames_have_one_encoding():
    linked = {"people": PEOPLE.replace({"ward": {"c": "a"}}), "scans": SCANS}
    by_hand = BY_HAND.copy()
    by_hand[:, 3] += by_hand[:, 5]
    by_hand[:, 5] = 0
    unaligned = {"people": OTHERS[["ward", "age", "sex"]]}
    model = small(MultiViewClassifier).fit(linked, Y, unaligned=unaligned)
    arrays = {"people": by_hand, "scans": SCANS.to_numpy()}
    expected = small(MultiViewClassifier).fit(arrays, Y, unaligned={"people": OTHERS_BY_HAND})
    P = expected.predict_proba({"people": OTHERS_BY_HAND})
    np.testing.assert_array_equal(model.predict_proba({"people": OTHERS}), P)


def test_columns_and_values_that_the_fit_did_not_have_are_warned_of_at_the_callers_line():
    model = fit(small(MultiViewClassifier), {"people": PEOPLE, "scans": SCANS})
    expected = model.predict_proba({"people": PEOPLE})
    with pytest.warns(UserWarning, match="left out: 'city' of view 'people'") as caught:
        found = model.predict_proba({"people": PEOPLE.assign(city="Paris")})
    np.testing.assert_array_equal(found, expected)
    with pytest.warns(UserWarning, match="'d' in column 'ward' of view 'people'") as others:
        model.predict_proba({"people": PEOPLE.assign(ward="d")})
    assert [w.filename for w in (*caught, *others)] == [__file__] * 2
    gaps = PEOPLE.copy()
    gaps.loc["p3", "sex"] = None
    with pytest.raises(ValueError, match="NaN in 2 entries, the first in row 3, column 'sex = F'"):
        model.predict({"people": gaps})
    with pytest.raises(ValueError, match=r"infinity in 24 entries.*row 0, column 's4'"):
        model.predict({"scans": SCANS.assign(s4=INF)})
    with pytest.raises(ValueError, match="column 's1' is NaN in all rows"):
        fit(small(MultiViewEncoder, impute="mean"), [PEOPLE, SCANS.assign(s1=NAN)])


def test_a_fit_with_text_resumes(tmp_path):
    views = {"people": PEOPLE, "scans": SCANS}
    file = str(tmp_path / "a.checkpoint")
    small(MultiViewClassifier, checkpoint=file, max_epochs=2).fit(views, Y)
    resumed = small(MultiViewClassifier, checkpoint=file).fit(views, Y, resume=True)
    expected = small(MultiViewClassifier).fit(views, Y)
    np.testing.assert_array_equal(resumed.predict_proba(views), expected.predict_proba(views))
    renamed = {**views, "people": PEOPLE.replace({"F": "female"})}
    with pytest.raises(ValueError, match="linked rows of view 'people'"):
        small(MultiViewClassifier, checkpoint=file).fit(renamed, Y, resume=True)
