import json
import logging
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import hotview as hv
from hotview.datasets import make_views
from hotview.model.onnx import _require_onnx, to_onnx

onnxruntime = pytest.importorskip("onnxruntime")
try:
    _require_onnx()
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

DATA = make_views(80, n_views=3, labeled=0.5, random_state=0)
LINKED = {name: 1e4 + 50 * X.astype(float) for name, X in DATA.linked.items()}
UNALIGNED = {name: 1e4 + 50 * X.astype(float) for name, X in DATA.views.items()}
SMALL = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2, "random_state": 0}


def classifier(**parameters):
    model = hv.MultiViewClassifier(**{**SMALL, "n_estimators": 2, "device": "cpu", **parameters})
    views = {name: X.copy() for name, X in LINKED.items()}
    if "impute" in parameters:
        views["view_1"][5:9, 2:4] = np.nan
    return model.fit(views, DATA.linked_target, unaligned=UNALIGNED)


def run(path, views):
    session = onnxruntime.InferenceSession(str(path))
    return session.run(None, {one.name: views[one.name] for one in session.get_inputs()})


def with_gaps(views, *, single=False):
    """Rows that lack one or two views, and, if requested, single cells."""
    views = {name: X.copy() for name, X in views.items()}
    views["view_0"][::3] = np.nan
    views["view_1"][::6] = np.nan
    views["view_2"][1::6] = np.nan
    if single:
        views["view_1"][1, 2:5] = np.nan
    return views


@pytest.mark.parametrize(
    "parameters",
    (
        {"impute": "mean"},
        {"impute": {"view_1": "median+indicator"}, "n_estimators": 1},
        {"pseudo_labels": False, "fusion": "average", "view_regularizer": "autoencoder"},
    ),
    ids=("default", "indicators", "heads alone"),
)
def test_probabilities_are_the_estimators(tmp_path, parameters):
    model = classifier(**parameters)
    path = to_onnx(model, tmp_path / "m.onnx")
    views = with_gaps(LINKED, single="impute" in parameters)
    for n in (1, 2, 7, len(DATA.linked_target)):
        for every in (LINKED, views):
            few = {name: X[:n] for name, X in every.items()}
            (found,) = run(path, few)
            np.testing.assert_allclose(found, model.predict_proba(few), atol=1e-5)
    assert list(tmp_path.iterdir()) == [path]
    if model.n_estimators == 1:  # one view alone
        (found,) = run(to_onnx(model, tmp_path / "one.onnx", view="view_1"), LINKED)
        alone = model.predict_proba({"view_1": LINKED["view_1"]})
        np.testing.assert_allclose(found, alone, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "coupling"),
    (("partial rows", "none"), ("of one view", "hot-reference"), ("own", "none")),
)
def test_probabilities_wherever_the_labels_are(tmp_path, labels, coupling):
    options = {**SMALL, "n_estimators": 2, "device": "cpu", "coupling": coupling}
    model, y, own = hv.MultiViewClassifier(**options), DATA.linked_target, DATA.target
    if labels == "partial rows":
        model.fit(with_gaps(LINKED), y, unaligned=UNALIGNED)
    else:
        own = {"view_1": own["view_1"]} if labels == "of one view" else own
        model.fit(LINKED, np.full(len(y), -1), unaligned=UNALIGNED, unaligned_y=own)
    has_joint = len(model.model_.learner.predictors.joint) > 0
    assert has_joint == (labels == "partial rows")
    path = to_onnx(model, tmp_path / "m.onnx")
    for views in (LINKED, with_gaps(LINKED)):
        (found,) = run(path, views)
        np.testing.assert_allclose(found, model.predict_proba(views), atol=1e-5)


def test_counts_are_reduced_as_by_the_estimator(tmp_path):
    random, y = np.random.default_rng(0), np.arange(40) % 2
    rates = np.where(np.arange(300) < 40, 0.2 + 0.8 * y[:, None], 0.2)
    views = {
        "words": random.poisson(rates).astype(np.float64),
        "age": random.normal(size=(40, 3)) + y[:, None],
    }
    views["words"][20:, 100] = np.nan
    options = {**SMALL, "n_estimators": 2, "device": "cpu", "impute": "median+indicator"}
    model = hv.MultiViewClassifier(**options).fit(views, y)
    assert model.preprocessing_["words"].endswith("301 columns reduced to 40 components")
    path = to_onnx(model, tmp_path / "m.onnx")
    views["words"][0] = np.nan
    views["words"][1, 5:9] = np.nan
    (found,) = run(path, views)
    np.testing.assert_allclose(found, model.predict_proba(views), atol=1e-4)
    views["words"][3, 7] = -1
    (found,) = run(path, views)
    np.testing.assert_array_equal(np.isnan(found).any(axis=1), np.arange(40) == 3)


def test_what_the_estimator_refuses_is_nan_and_the_model_is_not_changed(tmp_path, capfd):
    model = classifier(n_estimators=1, pseudo_labels=False, fusion="average")
    before, level = model.predict_proba(LINKED), logging.getLogger("torch.onnx").level
    capfd.readouterr()
    path = to_onnx(model, tmp_path / "m.onnx")
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("torch.onnx").level == level
    np.testing.assert_array_equal(model.predict_proba(LINKED), before)
    views = {name: X[:5].copy() for name, X in LINKED.items()}
    views["view_0"][0, 0] = np.nan  # a single cell, without impute
    views["view_1"][1, 3] = np.inf
    for X in views.values():
        X[2] = np.nan
    views["view_2"][3, 1] = 1e30  # extreme
    (found,) = run(path, views)
    assert np.isnan(found).all(axis=1).tolist() == [True, True, True, True, False]


@pytest.mark.filterwarnings("ignore:Rows of different views may not be comparable:UserWarning")
@pytest.mark.parametrize("part", ("features", "common"))
def test_encoders_are_the_estimators(tmp_path, part):
    model = hv.MultiViewEncoder(**SMALL, n_estimators=2, device="cpu").fit(UNALIGNED)
    sizes = {"view_0": 1, "view_1": 5, "view_2": 30}
    views = {name: X[: sizes[name]].copy() for name, X in UNALIGNED.items()}
    views["view_1"][2] = np.nan
    expected = model.transform(views, space=part)
    if part == "features":
        found = run(to_onnx(model, tmp_path / "all.onnx", part=part), views)
        for Z, name in zip(found, views, strict=True):
            np.testing.assert_allclose(Z, expected[name], atol=1e-5)
    path = to_onnx(model, tmp_path / "one.onnx", part=part, view="view_1")
    (Z,) = run(path, views)
    np.testing.assert_allclose(Z, expected["view_1"], atol=1e-5)
    (output,) = onnxruntime.InferenceSession(str(path)).get_outputs()
    assert output.name == part
    assert Z.dtype == np.float32


class Own(torch.nn.Module):
    """An encoder that ONNX can express, or one that branches on the values of rows."""

    def __init__(self, *, branches):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(20, 4), torch.nn.Tanh())
        self.branches = branches

    def forward(self, X):
        F = self.layers(X)
        return F * 2 if self.branches and float(F.detach().sum()) > 0 else F


def build_input(frame, columns):
    """The input of a view from its raw table, by the metadata of the file alone."""
    blocks = []
    for name, categories in columns:
        cells = frame[name]
        if categories is None:
            blocks.append(cells.to_numpy(dtype=np.float64, na_value=np.nan)[:, None])
            continue
        block = np.array([[float(cell == c) for c in categories] for cell in cells])
        block[cells.isna()] = np.nan
        blocks.append(block)
    return np.hstack(blocks)


def test_the_metadata_say_how_to_encode_a_raw_table(tmp_path):
    random, n = np.random.default_rng(0), 60
    y = np.arange(n) % 2
    people = pd.DataFrame(
        {
            "ward": random.choice(["c", "a", "b"], n),
            "age": random.normal(size=n) + y,
            "sex": np.where(random.random(n) < 0.3 + 0.4 * y, "F", "M"),
            "ill": pd.array(random.random(n) < 0.5, dtype="boolean"),
        }
    )
    people.loc[3, "sex"] = people.loc[5, "ill"] = None
    views = {"people": people, "scans": random.normal(size=(n, 4)) + y[:, None]}
    names = np.array(["a", "ç"])
    model = hv.MultiViewClassifier(**SMALL, n_estimators=2, device="cpu", impute="mean")
    model.fit(views, names[y])
    session = onnxruntime.InferenceSession(to_onnx(model, tmp_path / "m.onnx"))
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == names.tolist()
    assert json.loads(metadata["views"]) == list(views)
    columns = json.loads(metadata["columns"])  # arrays have no names
    expected = [["ward", ["a", "b", "c"]], ["age", None], ["sex", ["F", "M"]], ["ill", None]]
    assert columns == {"people": expected, "scans": None}
    new = people[::-1].reset_index(drop=True)
    new.loc[7, "ward"] = "d"  # not among the categories
    inputs = {"people": build_input(new, columns["people"]), "scans": views["scans"]}
    (found,) = session.run(None, inputs)
    with pytest.warns(UserWarning, match="'d' in column 'ward'"):
        P = model.predict_proba({"people": new, "scans": views["scans"]})
    np.testing.assert_allclose(found, P, atol=1e-6)
    one = onnxruntime.InferenceSession(
        to_onnx(model, tmp_path / "f.onnx", part="features", view="people")
    )
    assert list(json.loads(one.get_modelmeta().custom_metadata_map["columns"])) == ["people"]


def test_encoders_of_ones_own_are_written_where_onnx_can_express_them(tmp_path):
    plain, branching = (
        hv.MultiViewEncoder(**SMALL, encoders={"view_0": Own(branches=branches)}, device="cpu")
        for branches in (False, True)
    )
    path = to_onnx(plain.fit(UNALIGNED), tmp_path / "m.onnx", part="features", view="view_0")
    (found,) = run(path, UNALIGNED)
    np.testing.assert_allclose(found, plain.transform(UNALIGNED)["view_0"], atol=1e-5)
    branching.fit(UNALIGNED)
    with pytest.raises(ValueError, match=r"that torch\.onnx\.export can write, but it cannot"):
        to_onnx(branching, tmp_path / "branches.onnx", part="features", view="view_0")
    assert list(tmp_path.iterdir()) == [path]


def test_wrong_arguments_are_refused(tmp_path, monkeypatch):
    views = {"features": LINKED["view_0"], "b": LINKED["view_1"]}
    encoder = hv.MultiViewEncoder(**SMALL).fit(views)
    features, file = {"part": "features"}, "m.onnx"
    for name, how, message in (
        (file, {**features, "view": "features"}, r"names mean nothing else .*\['features'\]"),
        ("m.pt", features, r"must end in \.onnx"),
        (file, {}, "Expected a MultiViewClassifier for part='predict_proba'"),
        (file, {"part": "plan"}, "part"),
        (file, {**features, "view": "view_9"}, "view"),
    ):
        with pytest.raises(ValueError, match=message):
            to_onnx(encoder, tmp_path / name, **how)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r'pip install "hotview\[onnx\]"'):
        _require_onnx()
