"""Parts of a model file, changed in turn: it is refused, or what it predicts is proper."""

import copy
import math
import re
import warnings

import numpy as np
import pytest
import torch

import hotview as hv
from hotview._archive import write_archive
from hotview.cli.inspect import _lines, describe_model, result_lines
from hotview.data.columns import Column, ViewColumns
from hotview.datasets import make_views
from hotview.model import load_model, save_model
from hotview.model.files import _MODEL
from hotview.preprocessing import table_scan
from hotview.preprocessing.batch_correction import BatchOffsets
from hotview.preprocessing.column_scaler import ColumnScaler

MISFIT = r"changed\.hotview to be a model that hotview saved, but its parts do not fit"


def set_part(place, path, value):
    for key in path[:-1]:
        place = place[key]
    place[path[-1]]  # is there
    place[path[-1]] = value


def put(tensors, name, tensor):
    """Put a tensor in the place of another, or take that away."""
    tensors[name] = tensor
    if tensor is None:
        del tensors[name]


def class_labels(dtype, *labels):
    return {"dtype": dtype, "labels": [*labels]}


def interval(low, high):
    return {"n": 30, "increase": 0.1, "low": low, "high": high}


LEARNER = ("model", "learner")
LOSS = (*LEARNER, "scores", "view_0", "loss_without")
PREDICTORS, RULE = (*LEARNER, "predictors"), (*LEARNER, "rule")
OF_VIEW, JOINT = (*PREDICTORS, "views", 0), (*PREDICTORS, "joint")
KNN, WEIGHTS = (*OF_VIEW, "neighbors"), (*LEARNER, "weights")
COLUMNS = ("views", 0, "columns", "columns")
#: where a fact is, and what cannot be there
FACTS = [
    *((("estimator",), x) for x in ("MultiViewThing", ["MultiViewEncoder"], "MultiViewEncoder")),
    *((("parameters",), x) for x in (None, {"nothing": 1}, {"checkpoint": "/x"}, {"encoders": 1})),
    *((("views",), x) for x in ([], [["a", 1]])),
    *((("own_encoders",), x) for x in ("view_0", ["other"])),
    *((("model", "batch_size"), x) for x in (0, 1.5, 10**30)),
    *((("model", "trained_on"), x) for x in ([], {"linked": 3}, {"versions": 3})),
    *((("model", name), x) for name, x in (("warnings", [1]), ("metadata", []))),
    *(((name,), x) for name, x in (("output", "excel"), ("more", 1))),
    *((("views", 0, "scaler"), x) for x in ([], {"mean": None})),
    *((WEIGHTS, x) for x in ({}, {"predictors": [], "complete": []})),
    *(((*WEIGHTS, "complete"), x) for x in ([1.0], [1.0, 1.0, 1.0, 1e30])),
    *(((*WEIGHTS, "partial"), x) for x in ([1.0] * 3, [1.0, 1.0, -1.0, 1.0])),
    *(((*WEIGHTS, "predictors"), x) for x in ([[1.0] * 3] * 2, [[1.0] * 2] * 3)),
    ((*WEIGHTS, "power"), -1e300),
    *(((*LEARNER, "set_scores"), {"groups": x}) for x in ([None] * 4, [])),
    *(((*LEARNER, "disagreement"), {"groups": x}) for x in (3, [None] * 4)),
    *((("views", 0, "ranges"), x) for x in ({}, {"n_rows": 3})),
    *((x, None) for x in (LEARNER, PREDICTORS, RULE)),
    *((PREDICTORS, x) for x in ({"views": []}, {"views": [], "joint": {}})),
    *(((*PREDICTORS, "views"), x) for x in ([], [{}, {}, {}])),
    *((OF_VIEW, x) for x in ({}, {"neighbors": {}}, {"__import__('os')": {}})),
    *((JOINT, x) for x in (None, [], {"neighbors": {}}, {"ridge": {}}, {"head": {}})),
    *((("networks",), x) for x in ([], [None], [{}])),
    *((("classes",), x) for x in (None, {"dtype": "<i8"}, class_labels("O", 0, 1, 2, 3))),
    (("classes",), class_labels("<U99999999", *"abcd")),
    *((("classes",), class_labels("<i8", *x)) for x in (range(3), (0, 2, 1, 3), ("a", 1, 2, 3))),
    (("classes",), class_labels("<f4", 0.1, 1.0, 2.0, 3.0)),
    (("classes",), class_labels("|u1", -1, 0, 1, 2)),
    (("classes",), class_labels("<U3", "abc", "abcd", "b", "c")),
    (("classes",), class_labels("<f8", 0.0, 1.0, 2.0, math.nan)),
    *((("model", "histories", 1), x) for x in ([1], [{"loss": "x"}])),
    *((("model", "plans", 0), x) for x in ({}, None)),
    *((("model", name), None) for name in ("plans", "plan")),
    *(((*RULE, "n_classes"), x) for x in ([4, 4], [4, 4, 5], [4, 4, -1], [4, 4, 1.5])),
    *(((*RULE, "log_prior"), [x, 0.0, 0.0, 0.0]) for x in (-math.inf, 0.0, 1e300, math.nan)),
    ((*RULE, "log_prior"), [math.log(1 / 3)] * 3),
    *((("model", "plans", 1, "n_iter"), x) for x in (-1, "3")),
    *(((*KNN, "n_neighbors"), x) for x in (0, 1.5)),
    *(((*KNN, "n_nearest"), x) for x in (0, 11, -1)),
    *(((*KNN, "coordinates"), {}), (KNN, {}), ((*OF_VIEW, "ridge"), [])),
    *((at, []) for at in ((*OF_VIEW, "ridge", "weights"), (*JOINT, "ridge", "ridge", "weights"))),
    *(((*OF_VIEW, "head"), x) for x in ({}, {"floor": 0.01}, {"floor": -1.0, "log_prior": None})),
    *(((*OF_VIEW, "head", "floor"), x) for x in (-0.01, 1.1, math.nan, "0")),
    *((("views", 1, "columns", "n_columns"), x) for x in (-1, "20", 2**31 - 1, 19)),
    *((COLUMNS, x) for x in (3, ["c"] * 19, [None] * 20, [3] * 20)),
    *((COLUMNS, [["c", x]] * 20) for x in (3, [1], [["a"]], ["a", "b"])),
    *((COLUMNS, [entry] * 20) for entry in ([], [3, ["a"]], ["c", ["a"], 1])),
    *((("views", 1, "name"), x) for x in ("../../etc/x", "x" * 5000, "view_0")),
    *((LOSS, x) for x in ({}, interval(0.15, 0.2), {**interval(0.0, 0.2), "n": 0})),
    (("model", "common_space"), {"low": 0.1, "high": 0.9, "foscttm": 0.3}),
    *((("model", "common_space", "low"), x) for x in (-0.1, 0.9, math.nan)),
    *((("model", "common_space", "high"), x) for x in (1.1, "1", 0.001)),
    (("model", "view_similarity"), []),
    (("model", "view_similarity", "stability"), -0.1),
]


def sized(path, value):
    return f"{'.'.join(map(str, path))}-{value!r:.40}"


@pytest.mark.parametrize(("path", "value"), FACTS, ids=[sized(*case) for case in FACTS])
def test_facts_that_no_fit_gives_are_refused(load_changed, path, value):
    def change(tensors, facts):
        if path == ("more",):
            facts["more"] = value
        else:
            set_part(facts, path, value)

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change)


def test_columns_of_a_view_may_have_names_and_categories_and_other_parts_be_absent(load_changed):
    columns = ["a"] * 17 + [["sex", ["F", "M"]], "b"]

    def change(tensors, facts):
        facts["views"][0]["columns"].update(columns=columns)
        facts["model"]["learner"]["scores"]["view_1"]["loss_without"] = None
        facts["model"]["common_space"] = None
        for name in ("foscttm", "neighbor_agreement", "n_rows"):
            del tensors[f"model.common_space.{name}"]

    model = load_changed(change)
    expected = (*[Column("a")] * 17, Column("sex", ("F", "M")), Column("b"))
    assert model.columns_["view_0"] == ViewColumns(expected, 20)
    assert model.n_features_per_view_["view_0"] == 19
    assert model.out_of_fold_["view_1"]["loss_without"] is None
    assert model.common_space_ is None
    with pytest.raises(ValueError, match=MISFIT):  # unknown, but not absent
        load_changed(lambda _, facts: facts["model"]["learner"]["scores"]["view_0"].popitem())


def coupling(name, **settings):
    return {"name": name, "settings": settings}


@pytest.mark.parametrize(
    ("name", "value"),
    (
        *(("hidden", x) for x in ([10**9], [1] * 10**5, {"view_0": [8]}, "abc", [-8])),
        *(("encoder_dim", 10**9), ("n_components", 10**9), ("n_components", "3")),
        *(("coupling", x) for x in ("__import__('os')", {"own": 3}, {"name": "hot-reference"})),
        *(("coupling", coupling(x)) for x in ("MultiViewEncoder", ["none"], "autoencoder")),
        *(("coupling", coupling("hot-reference", n_references=x)) for x in (0, [3])),
        ("coupling", coupling("hot-reference", nothing=3)),
        ("coupling", {**coupling("hot-reference"), "own": "x"}),
        ("view_regularizer", "autoencoder"),
        ("view_regularizer", coupling("manifold", weight="1")),
        *(("class_weight", x) for x in ({}, "x", {"items": 3}, {"items": [[[], 1.0]]})),
        ("class_weight", {"items": [[0, -1.0]]}),
        *(("class_prior", x) for x in ("balanced", {"items": [[0, -0.5]]})),
        *(("validation_fraction", "x"), ("batch_size", 10**30), ("verbose", "loud")),
    ),
)
def test_parameters_that_cannot_be_are_refused_before_memory_is_taken(load_changed, name, value):
    why = r"Expected|it lacks|its '|.*size mismatch|.*Missing key|Invalid parameter"  # not memory
    with pytest.raises(ValueError, match=MISFIT + rf" \((TypeError|AttributeError|{why})"):
        load_changed(lambda _, facts: facts["parameters"].update({name: value}))


def mark(*columns):
    return {"views.1.scaler.indicators": torch.tensor(columns)}


@pytest.mark.parametrize(
    ("tensors", "impute", "expected"),
    (
        *(({}, {"columns": x}, f"imputed by {x!r}") for x in ("mode", "median", None)),
        ({}, {"columns": 3}, r"'views\.1\.scaler\.impute' cannot be 3"),
        ({}, {"parameter": "median"}, "'impute' cannot be 'median'"),
        ({}, {"parameter": {"items": [["view_1", "mode"]]}}, r"impute\['view_1'\] to be one of"),
        ({}, {"parameter": {"items": [["view_9", "mean"]]}}, "impute to name views among"),
        *((mark(*at), {}, "indicators") for at in ((2, 20), (-1, 2), (5, 2), (2, 2))),
        *((mark(*at), {}, "indicators") for at in ((2.0, 5.0), ([2, 5],), ())),
        (mark(2), {}, r"'fill' should be 21 of float64"),
        ({"views.1.scaler.fill": torch.zeros(22).double()}, {}, r"fill' should be 20 of float64"),
        ({"views.1.scaler.indicators": None}, {}, r"'fill' should be 22 of float64"),
        ({"views.1.scaler.fill": None}, {}, "its indicators mark no columns"),
    ),
    ids=str,
)
def test_imputations_that_cannot_be_are_refused(
    load_changed, saved_imputing, tensors, impute, expected
):
    def change(stored, facts):
        for name, tensor in tensors.items():
            put(stored, name, tensor)
        if "columns" in impute:
            facts["views"][1]["scaler"]["impute"] = impute["columns"]
        facts["parameters"]["impute"] = impute.get("parameter", facts["parameters"]["impute"])

    with pytest.raises(ValueError, match=MISFIT + f".*{expected}"):
        load_changed(change, saved_imputing)


def test_every_tensor_is_needed_and_of_one_shape_and_type(load_changed, read_parts, saved):
    known = {}  # one of every kind, whatever the number of its view and member
    for name, x in read_parts(saved)[0].items():
        known.setdefault(re.sub(r"\d", "#", name), (name, x))
    assert len(known) > 30
    for name, x in known.values():
        if not name.endswith(("mask", "std")) and name != "model.references":
            with pytest.raises(ValueError, match=r"it lacks|Missing key"):
                load_changed(lambda tensors, _, name=name: tensors.pop(name))
        shape = torch.zeros((1, 1, 1, max(2, x.numel())), dtype=x.dtype)
        for other in (shape, x.long() if x.is_floating_point() else x.double()):
            with pytest.raises(ValueError, match=r"should be|size mismatch|are none"):
                load_changed(lambda tensors, _, name=name, y=other: tensors.update({name: y}))
    for name in ("more", "networks.7.maps.0.weight"):
        with pytest.raises(ValueError, match=f"unexpected tensor '{name}'"):
            load_changed(lambda tensors, _, name=name: tensors.update({name: torch.zeros(1)}))


def of_view(s, part):
    return f"model.learner.predictors.views.{s}.{part}"


def weights(*parts):
    return [f"networks.0.{part}.weight" for part in parts]


@pytest.mark.parametrize(
    ("names", "factor"),
    (
        (weights("maps.0"), math.nan),
        (["networks.0.joint_head.bias"], 1e39),
        ([of_view(2, "ridge.weights.0")], 1e300),
        (["model.learner.predictors.joint.ridge.ridge.weights.0"], 1e300),
        *(([of_view(1, "head.log_prior")], factor) for factor in (1e300, math.nan)),
        ([of_view(0, "neighbors.points")], math.nan),
        *(([of_view(0, "neighbors.soft_labels")], factor) for factor in (-1, 2)),
        ([of_view(0, "neighbors.coordinates.columns")], 1e39),
        ([of_view(1, "neighbors.coordinates.features")], math.nan),
        ([of_view(0, "neighbors.coordinates.offset")], 1e300),
        *((["views.0.scaler.scale"], factor) for factor in (0, -1, 1e-310)),
        *((["views.0.scaler.mean"], 1e307), (["model.plans.1.W"], -1), (["model.plan.C"], 1e39)),
        (["model.learner.set_scores.groups.0"], -1.0),
        (["model.learner.disagreement.groups.1"], 1e6),
        *((["views.0.ranges.quantiles"], -1.0), (["views.1.ranges.quantiles"], math.nan)),
    ),
)
def test_numbers_that_no_fit_gives_are_refused(load_changed, names, factor):
    why = r".*(not finite|so large|its \w+ of training rows are none|its ranges of columns)"
    with pytest.raises(ValueError, match=MISFIT + why):
        load_changed(lambda tensors, _: [tensors[name].mul_(factor) for name in names])


@pytest.mark.parametrize(
    "shorter", (lambda x: x[:-1], lambda x: x[..., :-1]), ids=("first", "last")
)
@pytest.mark.parametrize("part", ("columns", "features", "offset"))
def test_coordinates_of_other_sizes_are_refused(load_changed, part, shorter):
    names = [of_view(s, f"neighbors.coordinates.{part}") for s in range(3)]
    with pytest.raises(ValueError, match=MISFIT + ".*should be"):
        load_changed(lambda tensors, _: tensors.update({k: shorter(tensors[k]) for k in names}))


def test_a_file_decides_on_the_dimensions_in_which_neighbors_are_found_and_has_some(load_changed):
    def change(tensors, facts):
        for part in ("points", "coordinates.columns", "coordinates.features", "coordinates.offset"):
            name = of_view(1, f"neighbors.{part}")
            tensors[name] = tensors[name][..., :-1]

    def leave_none(tensors, facts):
        for part in ("points", "soft_labels"):
            name = of_view(1, f"neighbors.{part}")
            tensors[name] = tensors[name][:0]

    views = make_views(60, n_views=3, labeled=0.5, random_state=0).linked
    assert np.isfinite(load_changed(change).predict_proba(views)).all()
    with pytest.raises(ValueError, match=r"there are no neighbors \(in .*views\.1\.neighbors"):
        load_changed(leave_none)


PAIRS = torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=torch.float64)
PAIRS[PAIRS == 0] = torch.nan
DOUBLE = {"dtype": torch.float64}
#: the name of a tensor, and what cannot be in its place
TENSORS = (
    *(("common_space.foscttm", x * PAIRS) for x in (1.5, -0.1, math.nan, 0.999)),
    ("common_space.foscttm", torch.full((3, 3), 0.5, **DOUBLE)),  # of a view and itself
    *(("common_space.foscttm", x) for x in (PAIRS.triu(), PAIRS[:2, :2].contiguous(), None)),
    *(("common_space.neighbor_agreement", x * PAIRS) for x in (2, -1, math.nan)),
    *(("common_space.n_rows", torch.full((3, 3), x)) for x in (3, -3)),
    *(("view_similarity.value", torch.full((3, 3), x, **DOUBLE)) for x in (1.5, torch.nan)),
    *(("view_similarity.low", x.double()) for x in (torch.zeros(3, 2), torch.ones(3, 3))),
    ("view_similarity.high", torch.full((3, 3), torch.inf, **DOUBLE)),
    ("view_similarity.p_value", torch.full((3, 3), -0.1, **DOUBLE)),
    ("view_similarity.n_rows", torch.full((3, 3), -1)),
    *(("view_similarity.groups", torch.tensor(x)) for x in ([0, 1, 3], [0, -1, 1], [0, 0, 0])),
    *(("view_similarity.groups", torch.tensor(x)) for x in ([0, 1, 2], [1, 0, 0])),
    ("view_similarity.within_classes.value", torch.zeros(2, 2, **DOUBLE)),
    *(("learner.set_scores.groups.4", torch.tensor(x, **DOUBLE)) for x in ([0.5, 1.1], [0.5, 0.4])),
)


@pytest.mark.parametrize(("name", "tensor"), TENSORS)
def test_tensors_that_cannot_be_are_refused(load_changed, name, tensor):
    def change(tensors, facts):
        assert f"model.{name}" in tensors or name.endswith("groups")
        put(tensors, f"model.{name}", tensor)

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change)


@pytest.mark.parametrize(("name", "factor"), (("value", 0.5), ("p_value", math.nan)))
def test_similarities_that_contradict_each_other_are_refused(load_changed, name, factor):
    with pytest.raises(ValueError, match=MISFIT):  # the other half of the matrix stays
        load_changed(lambda tensors, _: tensors[f"model.view_similarity.{name}"][0, 1].mul_(factor))


def test_pairs_of_views_without_enough_rows_are_nan(load_changed):
    def change(tensors, facts):
        for name in ("foscttm", "neighbor_agreement", "n_rows"):
            tensor = tensors[f"model.common_space.{name}"]
            tensor[0, 1] = tensor[1, 0] = torch.nan if tensor.is_floating_point() else 0
        facts["model"]["common_space"].update(low=0.0, high=1.0)
        for name in ("value", "low", "high", "p_value"):
            tensor = tensors[f"model.view_similarity.{name}"]
            tensor[0, 1] = tensor[1, 0] = torch.nan

    model = load_changed(change)
    assert model.common_space_.n_rows[0, 1] == 0
    assert np.isnan(model.view_similarity_.value[0, 1])


@pytest.fixture(scope="session")
def saved_batches(saved, tmp_path_factory):
    """The path of a model whose first view was corrected for two batches, after a reduction."""
    model = load_model(saved, device="cpu")
    components = np.ones((300, 20), dtype=np.float32)
    scaler = ColumnScaler(np.zeros(300), np.ones(300), None, components=components)
    offsets = BatchOffsets(["a", "b"], np.arange(40.0).reshape(2, 20), scaler)
    model.model_.batch_offsets = {"view_0": offsets, "view_1": None}
    return save_model(model, tmp_path_factory.mktemp("batches") / "m.hotview")


def test_batches_are_saved(saved_batches, tmp_path):
    loaded = load_model(saved_batches, device="cpu")
    again = save_model(loaded, tmp_path / "again.hotview")
    assert again.read_bytes() == saved_batches.read_bytes()
    assert list(loaded.model_.batch_offsets) == ["view_0"]


NAMELESS = [
    {"batches": names, "offsets": None, "scaler": None}
    for names in ([], ["a", "a"], ["a"], ["a", 2])
]


@pytest.mark.parametrize("value", ({}, 3, [None], *NAMELESS))
def test_batches_that_cannot_be_are_refused(load_changed, saved_batches, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda _, facts: facts["views"][0].update(batch_offsets=value), saved_batches)


@pytest.mark.parametrize(
    ("name", "tensor"),
    (
        *((part, None) for part in ("offsets", "scaler.mean", "scaler.components")),
        *(("offsets", x) for x in (torch.zeros(2, 3), torch.full((2, 20), torch.nan, **DOUBLE))),
        ("scaler.mean", torch.zeros(299, **DOUBLE)),
        ("scaler.components", torch.zeros(300, 2)),
        ("scaler.fill", torch.zeros(300, **DOUBLE)),
        ("scaler.indicators", torch.zeros(1, dtype=torch.int64)),
    ),
)
def test_offsets_that_cannot_be_are_refused(load_changed, saved_batches, name, tensor):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(
            lambda tensors, _: put(tensors, f"views.0.batch_offsets.{name}", tensor), saved_batches
        )


DATA = make_views(40, n_views=2, n_columns=5, labeled=0.5, random_state=0)
VIEWS, LINKED = list(DATA.views.values()), list(DATA.linked.values())
TINY = {"hidden": (4,), "encoder_dim": 3, "n_components": 2, "max_epochs": 1, "random_state": 0}
VALUES = (None, True, -1, 0, 3, 10**30, -0.5, 1e300, math.nan, math.inf, "x", [], {})
STEP = {"classifier": 31, "heads": 23, "encoder": 23, "reduced": 17}  # every n-th change, for time


def changed_facts(value):
    """A part of the facts in all changed forms."""
    if isinstance(value, dict):
        yield {}
        yield {**value, "more": 1}
        for key, item in value.items():
            yield {k: x for k, x in value.items() if k != key}
            yield from ({**value, key: other} for other in changed_facts(item))
    elif isinstance(value, list):
        yield from ([], [*value, *value[:1]], value[:-1], value[::-1], [*value, None], "x")
        for i, item in enumerate(value):
            yield from ([*value[:i], other, *value[i + 1 :]] for other in changed_facts(item))
    else:
        yield from (other for other in VALUES if repr(other) != repr(value))


def changed_tensors(tensors):
    """All tensors, one of which is changed or missing."""
    for name, x in tensors.items():
        yield {k: tensor for k, tensor in tensors.items() if k != name}
        others = [x[None], x[..., :-1], x.flatten(), x.double(), x.float(), x.long()]
        others += [x.bool(), ~x.bool()]
        for factor in (1e30, 1e38, -1.0, 1e-30, 1e-300, 0.0, torch.nan, torch.inf):
            others.append(x * factor if x.is_floating_point() else x.double() * factor)
        for other in others:
            if (other.dtype, other.shape) != (x.dtype, x.shape) or not torch.equal(other, x):
                yield {**tensors, name: other.contiguous()}


def check_outputs(model):
    """Raise an error unless all outputs are finite, and probabilities add up to 1."""
    for space in ("features", "common"):
        for dtype in (np.float32, np.float64):
            for Z in model.transform([X.astype(dtype) for X in VIEWS], space=space):
                assert np.isfinite(Z).all()
    if hasattr(model, "classes_"):
        for views in (LINKED, [None, LINKED[1]]):
            P = model.predict_proba(views)
            assert (P >= 0).all()
            np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-9)
            assert set(model.predict(views)) <= set(model.classes_)
    assert [*_lines(describe_model(model)), *result_lines(model)]


def load_or_refuse(path, tensors, facts):
    """Whether a changed model was loaded; the error that refuses it names the file."""
    write_archive(path, _MODEL, tensors, copy.deepcopy(facts))
    try:
        model = load_model(path, device="cpu")
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        return False
    try:
        check_outputs(model)
    except ValueError as error:  # a scaler of other data
        words = ("contains extreme values", "contains negative numbers", "Expected finite outputs")
        assert any(text in str(error) for text in words)  # noqa: PT017
    return True


def fit(kind):
    if kind in ("encoder", "reduced"):
        views, random = DATA.views, np.random.default_rng(0)
        if kind == "reduced":  # by its counts
            views = {name: random.poisson(0.4, X.shape) for name, X in views.items()}
        return hv.MultiViewEncoder(**TINY, device="cpu").fit(views)
    own = {"n_estimators": 2} if kind == "classifier" else {"pseudo_labels": False}
    model = hv.MultiViewClassifier(**{**TINY, "n_estimators": 1, **own}, device="cpu")
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


@pytest.mark.filterwarnings("ignore:Rows of different views may not:UserWarning")
@pytest.mark.parametrize("kind", STEP)
@pytest.mark.parametrize("fewer", (6, pytest.param(1, marks=pytest.mark.slow)))
def test_a_changed_model_is_refused_or_predicts_properly(
    tmp_path, read_parts, kind, fewer, monkeypatch
):
    if kind == "reduced":
        monkeypatch.setattr(table_scan, "WIDE", 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors, metadata = read_parts(save_model(fit(kind), tmp_path / "m.hotview"))
    facts = {k: x for k, x in metadata.items() if k not in ("format", "version")}
    changes = [(tensors, other) for other in changed_facts(facts)]
    changes += [(others, facts) for others in changed_tensors(tensors)]
    assert len(changes) > 900
    some = changes[:: STEP[kind] * fewer]
    loaded = [load_or_refuse(tmp_path / "c.hotview", *change) for change in some]
    assert 0 < sum(loaded) < (0.4 if fewer == 1 else 0.6) * len(loaded)
