import math

import numpy as np
import pytest
import torch

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview._archive import read_archive
from hotview._codec import decode
from hotview.estimators.batch_correction import BatchOffsets
from hotview.ingest.columns import Column, ViewColumns
from hotview.persistence.models import _MODEL, _widen, load_model, save_model
from hotview.persistence.schema import (
    NOT_SAVED,
    SPECIFICATIONS,
    SavedModel,
    SavedView,
    check_model,
    check_tensors,
)
from hotview.persistence.serialize import deserialize, network_widths, restore_parameters
from hotview.training.column_scaler import ColumnScaler

MISFIT = r"changed\.hotview to be a model that hotview saved, but its parts do not fit"
BAD_COLUMNS = (
    *((n, None) for n in (0, -1, "20", 10**30, math.inf, None, [], 19)),
    *((20, columns) for columns in (3, {}, "c" * 20, ["c"] * 19, [None] * 20, [3] * 20, [{}] * 20)),
    *((20, [["c", x]] * 20) for x in (None, 3, "ab", {}, [1], [None], [["a"]], ["a", "b"])),
    *((20, [entry] * 20) for entry in ([], ["c"], [3, ["a"]], ["c", ["a"], 1], [["c"], ["a"]])),
)
WRONG = {
    "estimator": ("MultiViewThing", None, 3, ["MultiViewEncoder"], "os.system", "MultiViewEncoder"),
    "parameters": (
        [],
        None,
        {"nothing": 1},
        {"checkpoint": "/x"},
        {"encoders": None},
        {"a" * 999: 1},
    ),
    "views": ([], {}, None, [["a", 1]], [{"name": 1, "n_columns": 20, "columns": None}]),
    "own_encoders": ("view_0", None, ["other"]),
    "batch_size": (0, -1, 1.5, "3", True, 10**30),
    "trained_on": ([], "x", {"linked": 3}, {"versions": 3}),
    "fit_warnings": ("x", [1]),
    "metadata": ([], 3),
    "output": ("excel", 1),
    "columns": ([], None, [{"mean": None}]),
    "pool": (
        {},
        [],
        {"complete": [1.0], "partial": [1.0], "power": 1.0},
        {"complete": [1.0] * 4, "partial": [1.0] * 3, "power": 10**30},
        {"complete": [1.0] * 4, "partial": [1.0] * 3, "power": -1e300},
        {"complete": [1.0] * 3 + [1e30], "partial": [1.0] * 3, "power": 1.0},
        {"complete": [1.0] * 4, "partial": [1.0, 1.0, -1.0], "power": 1.0},
    ),
    "set_scores": ({}, [], {"groups": []}, {"groups": [None] * 4}, {"groups": [None] * 6}),
    "disagreement": ({}, [], {"groups": [None] * 6}, {"groups": 3}),
    "ranges": ([], {}, [None], [{"quantiles": None, "mean": None, "missing": None, "n_rows": 1}]),
    "super_learner": ({}, None, {"predictors": [], "complete": []}),
    "predictors": ([], {}, None, {"knn": [], "ridge": None}),
    "members": ([], {}, None, [None]),
    "other": (1, None),
    "classes": (
        {"dtype": "O", "labels": [0, 1, 2, 3]},
        {"dtype": "<U9999999", "labels": ["a"] * 4},
        {"dtype": "<U99999999", "labels": ["a"] * 4},
        {"dtype": "i8,i8", "labels": [0, 1, 2, 3]},
        {"dtype": "<i8", "labels": ["a", 1, 2, 3]},
        {"dtype": "<i8", "labels": [0, 1, 2]},
        {"dtype": "<i8", "labels": [0, 1, 2, 2]},
        {"dtype": "<i8", "labels": [0, 2, 1, 3]},
        {"dtype": "|i1", "labels": [0, 1, 2, 256]},
        {"dtype": "|u1", "labels": [-1, 0, 1, 2]},
        {"dtype": "<U3", "labels": ["abc", "abcd", "b", "c"]},
        {"dtype": "<U3", "labels": ["a\0", "b", "c", "d"]},
        {"dtype": "<f4", "labels": [0.1, 1.0, 2.0, 3.0]},
        {"dtype": "|b1", "labels": [False, True, True, True]},
        {"dtype": "<i8", "labels": 4},
        {"dtype": "<f8", "labels": [0.0, 1.0, 2.0, float("nan")]},
        {"dtype": "<i8"},
        "<i8",
        None,
    ),
}
WRONG_IN_A_MEMBER = {
    "network": ({}, 3),
    "history": ({}, [1], [{"loss": "x"}], None),
    "plan": ({}, 3, None),
    "rule": ({}, None),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_facts_of_the_wrong_type_are_refused(load_changed, name, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: facts.update({name: value}))


@pytest.mark.parametrize(("n", "columns"), BAD_COLUMNS)
def test_columns_of_a_view_that_nothing_can_have_written_are_refused(load_changed, n, columns):
    problem = r"its columns of view 'view_0' do not fit|its 'views\.0\.(n_)?columns' cannot be"
    problem += r"|it lacks weights|should be 19"
    with pytest.raises(ValueError, match=problem):
        load_changed(lambda _, facts: facts["views"][0].update(n_columns=n, columns=columns))


def test_columns_of_a_view_may_have_names_and_categories(load_changed):
    columns = ["a"] * 17 + [["sex", ["F", "M"]], "b"]
    model = load_changed(lambda _, facts: facts["views"][0].update(columns=columns))
    found = model.columns_["view_0"]
    assert found == ViewColumns((*[Column("a")] * 17, Column("sex", ("F", "M")), Column("b")), 20)
    assert model.n_features_per_view_["view_0"] == 19
    assert SavedView.of("view_0", found) == SavedView("view_0", 20, columns)


@pytest.mark.parametrize("member", (0, 1))
@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG_IN_A_MEMBER.items() for value in values],
)
def test_members_of_the_wrong_type_are_refused(load_changed, member, name, value):
    def change(tensors, facts):
        if name == "network":
            for key in [key for key in tensors if key.startswith(f"members.{member}.network.maps")]:
                del tensors[key]
        else:
            facts["members"][member][name] = value

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change)


@pytest.mark.parametrize(
    ("path", "value"),
    (
        (("rule", "n_classes"), [4, 4]),
        (("rule", "log_prior"), [0.0, 0.0, float("-inf"), 0.0]),
        (("rule", "log_prior"), [0.0, 0.0, 0.0, 0.0]),
        (("rule", "log_prior"), [1e300, 0.0, 0.0, 0.0]),
        (("rule", "n_classes"), [4, 4, 5]),
        (("rule", "joint"), 1),
        (("plan", "n_iter"), -1),
        (("plan", "reg"), "0.1"),
        (("plan", "null"), None),
    ),
)
def test_parts_of_a_member_of_the_wrong_type_are_refused(load_changed, path, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda _, facts: set_part(facts["members"][1], path, value))


def set_part(place, path, value):
    for key in path[:-1]:
        place = place[key]
    place[path[-1]]  # is there
    place[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value"),
    (
        (("knn", 0, "n_neighbors"), 0),
        (("knn", 0, "n_neighbors"), 1.5),
        (("knn", 0, "points"), []),
        (("knn", 0, "coordinates"), None),
        (("knn", 0, "coordinates"), {}),
        (("knn", 0, "coordinates", "offset"), 0.0),
        (("knn", 0), {}),
        (("knn",), []),
        (("ridge",), None),
        (("ridge",), []),
        (("ridge", 0, "weights"), []),
        (("joint",), None),
        (("joint", "weights"), []),
    ),
)
def test_parts_of_predictors_of_the_wrong_type_are_refused(load_changed, path, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda _, facts: set_part(facts["predictors"], path, value))


@pytest.mark.parametrize(
    "change", ({"n_classes": [4, 4, 3]}, {"joint": False}, {"joint_only": True})
)
def test_members_that_share_predictors_share_a_fusion_rule(load_changed, change):
    def change_members(facts, numbers):
        for number in numbers:
            facts["members"][number]["rule"].update(change)

    with pytest.raises(ValueError, match=MISFIT + r".*share predictors, but no fusion rule"):
        load_changed(lambda _, facts: change_members(facts, [1]))
    load_changed(lambda _, facts: change_members(facts, [0, 1]))


@pytest.mark.parametrize("width", (float("nan"), -1, 0, 1.5, "20", 10**12, None, 2**31 - 1, 19))
def test_widths_of_views_that_cannot_be_are_refused(load_changed, width):
    def change(tensors, facts):
        facts["views"][1]["n_columns"] = width

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change)


def mark(*columns):
    return {"columns.1.indicators": torch.tensor(columns)}


@pytest.mark.parametrize(
    ("tensors", "impute", "expected"),
    (
        ({}, {"columns": "mode"}, "cannot be imputed by 'mode'"),
        ({}, {"columns": "median"}, "cannot be imputed by 'median'"),
        ({}, {"columns": None}, "cannot be imputed by None"),
        ({}, {"columns": 3}, r"'columns\.1\.impute' cannot be 3"),
        ({}, {"parameter": "median"}, "'impute' cannot be 'median'"),
        ({}, {"parameter": {"view_0": "median+indicator"}}, "'impute' cannot be"),
        ({}, {"parameter": {"view_1": "mode"}}, r"impute\['view_1'\] to be one of"),
        ({}, {"parameter": {"view_9": "mean"}}, "impute to name views among"),
        (mark(2, 20), {}, "cannot be imputed"),
        (mark(-1, 2), {}, "cannot be imputed"),
        (mark(5, 2), {}, "cannot be imputed"),
        (mark(2, 2), {}, "cannot be imputed"),
        (mark(2.0, 5.0), {}, "cannot be imputed"),
        (mark([2, 5]), {}, "cannot be imputed"),
        (mark(), {}, "cannot be imputed"),
        (mark(2), {}, r"'columns\.1\.mean' should be 21 of float64"),
        ({"columns.1.fill": torch.zeros(22).double()}, {}, r"fill' should be 20 of float64"),
        ({"columns.1.indicators": None}, {}, r"'columns\.1\.mean' should be 20 of float64"),
        ({"columns.1.fill": None}, {}, "cannot be imputed by 'median"),
    ),
    ids=str,
)
def test_imputations_that_cannot_be_are_refused(
    load_changed, saved_imputing, tensors, impute, expected
):
    def change(stored, facts):
        for name, tensor in tensors.items():
            stored[name] = tensor
            if tensor is None:
                del stored[name]
        if "columns" in impute:
            facts["columns"][1]["impute"] = impute["columns"]
        facts["parameters"]["impute"] = impute.get("parameter", facts["parameters"]["impute"])

    assert load_changed(lambda *_: None, saved_imputing)._columns["view_1"].n_indicators == 2
    with pytest.raises(ValueError, match=MISFIT + f".*{expected}"):
        load_changed(change, saved_imputing)


@pytest.mark.parametrize(
    "name", ("../../etc/x", "/etc/x", "a/../b", "..\\x", "a\0b", "a\nb", "x" * 5000, "view_0", "")
)
def test_names_that_lead_elsewhere_are_refused(load_changed, name):
    def change(tensors, facts):
        facts["views"][1]["name"] = name

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change)


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("hidden", [10**9]),
        ("hidden", [8, 10**9]),
        ("hidden", [1] * 10**5),
        ("hidden", {"view_0": [8]}),
        ("hidden", "abc"),
        ("hidden", [-8]),
        ("encoder_dim", 10**9),
        ("n_components", 10**9),
        ("n_components", "3"),
        ("coupling", "__import__('os')"),
        ("view_regularizer", "autoencoder"),
        ("coupling", {"own": 3}),
        ("coupling", {"name": "hot-reference"}),
        ("coupling", {"name": "MultiViewEncoder", "settings": {}}),
        ("coupling", {"name": ["hot-reference"], "settings": {}}),
        ("coupling", {"name": "hot-reference", "settings": {"n_references": 0}}),
        ("coupling", {"name": "hot-reference", "settings": {"n_references": [3]}}),
        ("coupling", {"name": "hot-reference", "settings": {"nothing": 3}}),
        ("coupling", {"name": "hot-reference", "settings": {}, "own": "x"}),
        ("coupling", {"name": "autoencoder", "settings": {}}),
        ("coupling", ["hot-reference"]),
        ("view_regularizer", {"name": "manifold", "settings": {"weight": "1"}}),
        ("class_weight", {"items": 3}),
        ("class_weight", {"items": [[[], 1.0]]}),
        ("class_weight", {}),
        ("class_weight", "x"),
        ("class_weight", {"items": [[0, -1.0]]}),
        ("class_prior", "balanced"),
        ("class_prior", {"items": [[0, -0.5]]}),
        ("validation_fraction", "x"),
        ("batch_size", 10**30),
        ("n_estimators", None),
        ("verbose", "loud"),
    ),
)
def test_parameters_that_cannot_be_are_refused_before_memory_is_taken(load_changed, name, value):
    def change(tensors, facts):
        facts["parameters"][name] = value

    why = r" \((TypeError: )?(Expected|it lacks|its '|.*size mismatch|.*Missing key)"  # not memory
    with pytest.raises(ValueError, match=MISFIT + why):
        load_changed(change)


INCREASE = {"n": 30, "increase": 0.1, "low": 0.0, "high": 0.2}


@pytest.mark.parametrize(
    "value",
    (
        [],
        {},
        3,
        {**INCREASE, "low": float("nan")},
        {**INCREASE, "low": 0.15},
        {**INCREASE, "high": 0.05},
        {**INCREASE, "n": 0},
        {**INCREASE, "n": 1.5},
        {**INCREASE, "more": 1},
    ),
)
def test_losses_without_a_view_that_cannot_be_are_refused(load_changed, value):
    def change(tensors, facts):
        scores = facts["trained_on"]["out_of_fold"]["view_0"]
        assert scores["loss_without"].keys() == INCREASE.keys()
        scores["loss_without"] = value

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change)


def test_the_loss_without_a_view_may_be_unknown_and_not_absent(load_changed):
    def change(tensors, facts):
        facts["trained_on"]["out_of_fold"]["view_1"]["loss_without"] = None

    assert load_changed(change).out_of_fold_["view_1"]["loss_without"] is None
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda _, facts: facts["trained_on"]["out_of_fold"]["view_0"].popitem())


def test_what_is_not_saved_is_a_parameter():
    for estimator in (MultiViewClassifier(), MultiViewEncoder()):
        assert set(NOT_SAVED) <= set(estimator.get_params())


def test_specifications_are_parameters():
    for estimator in (MultiViewClassifier(), MultiViewEncoder()):
        assert set(SPECIFICATIONS) <= set(estimator.get_params())


def build(tensors, facts):
    model = decode(SavedModel, facts, tensors)
    check_model(model)
    estimator = restore_parameters(model, "cpu", {})
    check_tensors(model, tensors, network_widths(estimator, model))
    deserialize(estimator, model)


def test_every_tensor_is_needed_and_of_one_shape(saved):
    archive = read_archive(saved, _MODEL)
    tensors = {name: _widen(tensor) for name, tensor in archive.tensors.items()}
    facts = {k: x for k, x in archive.metadata.items() if k not in ("format", "version")}
    build(tensors, facts)
    assert len(tensors) > 60
    for name, tensor in tensors.items():
        if not name.endswith("mask") and name != "references":
            less = {k: x for k, x in tensors.items() if k != name}
            with pytest.raises((ValueError, RuntimeError), match=r"it lacks|Missing key"):
                build(less, facts)
        other = torch.zeros((1, 1, 1, max(2, tensor.numel())), dtype=tensor.dtype)
        with pytest.raises((ValueError, RuntimeError), match=r"should be|size mismatch"):
            build({**tensors, name: other}, facts)


@pytest.mark.parametrize(
    ("name", "expected"),
    (
        ("members.0.network.maps.0.weight", r"'maps\.0\.weight' should be of float32"),
        ("columns.0.mean", r"'columns\.0\.mean' should be 20 of float64, but is \[20\] of"),
    ),
)
def test_dtypes_are_checked(load_changed, name, expected):
    def change(tensors, facts):
        tensors[name] = tensors[name].to(torch.int64)

    with pytest.raises(ValueError, match=expected):
        load_changed(change)


@pytest.mark.parametrize("name", ("more", "members.7.network.maps.0.weight"))
def test_unexpected_tensors_are_refused(load_changed, name):
    with pytest.raises(ValueError, match=f"unexpected tensor '{name}'"):
        load_changed(lambda tensors, facts: tensors.update({name: torch.zeros(1)}))


@pytest.mark.parametrize(
    "name",
    (
        "members.0.network.maps.0.weight",
        "predictors.knn.0.points",
        "predictors.knn.0.coordinates.columns",
        "predictors.knn.1.coordinates.features",
        "predictors.knn.2.coordinates.offset",
    ),
)
def test_numbers_that_are_not_finite_are_refused(load_changed, name):
    with pytest.raises(ValueError, match=f"{name[-8:]}' is not finite"):
        load_changed(lambda tensors, facts: tensors[name].fill_(torch.nan))


KNN = "predictors.knn.1"


@pytest.mark.parametrize(
    "shorter", (lambda x: x[:-1], lambda x: x[..., :-1]), ids=("first", "last")
)
@pytest.mark.parametrize("part", ("columns", "features", "offset"))
def test_coordinates_of_other_sizes_are_refused(load_changed, part, shorter):
    names = [f"predictors.knn.{s}.coordinates.{part}" for s in range(3)]
    with pytest.raises(ValueError, match=MISFIT + ".*should be"):
        load_changed(lambda tensors, _: tensors.update({k: shorter(tensors[k]) for k in names}))


def test_a_file_decides_on_the_dimensions_in_which_neighbors_are_found(load_changed):
    def change(tensors, facts):
        for part in ("points", "coordinates.columns", "coordinates.features", "coordinates.offset"):
            tensors[f"{KNN}.{part}"] = tensors[f"{KNN}.{part}"][..., :-1]

    assert load_changed(change)._ensemble.predictors.knn[1].points.shape[1] > 1


def test_a_view_needs_neighbors(load_changed):
    def change(tensors, facts):
        for part in ("points", "soft_labels"):
            name = f"predictors.knn.1.{part}"
            tensors[name] = tensors[name][:0]

    with pytest.raises(ValueError, match="there are no neighbors in view 1"):
        load_changed(change)


@pytest.mark.parametrize(
    ("name", "factor"),
    (
        ("members.0.network.encoders.1.0.weight", 1e33),
        ("members.0.network.maps.1.weight", 1e33),
        ("members.0.network.joint_head.bias", 1e39),
        ("predictors.ridge.2.weights.0", 1e300),
        ("predictors.joint.weights.0", 1e300),
        ("predictors.knn.0.soft_labels", -1),
        ("predictors.knn.0.soft_labels", 2),
        ("predictors.knn.0.coordinates.columns", 1e39),
        ("predictors.knn.0.coordinates.offset", 1e300),
        ("columns.0.scale", 0),
        ("columns.0.scale", -1),
        ("columns.0.scale", 1e-310),
        ("columns.0.mean", 1e307),
        ("members.1.plan.W", -1),
        ("members.1.plan.C", 1e39),
    ),
)
def test_numbers_that_no_fit_gives_are_refused(load_changed, name, factor):
    with pytest.raises(ValueError, match=MISFIT + r".*(not finite|so large)"):
        load_changed(lambda tensors, facts: tensors[name].mul_(factor))


def test_layers_whose_weights_are_large_only_together_are_refused(load_changed):
    def change(tensors, facts):
        for name in ("encoders.1.0.weight", "encoders.1.2.weight", "maps.1.weight"):
            tensors[f"members.0.network.{name}"].mul_(1e15)

    with pytest.raises(ValueError, match="or not finite, that outputs overflow"):
        load_changed(change)


COMMON = "common_space"
PAIRS = torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=torch.float64)
PAIRS[PAIRS == 0] = torch.nan


@pytest.mark.parametrize("value", (3, [], {}, {"low": 0.1, "high": 0.9, "foscttm": 0.3}))
def test_a_common_space_of_the_wrong_type_is_refused(load_changed, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: facts.update({COMMON: value}))


@pytest.mark.parametrize(
    ("name", "tensor"),
    (
        ("foscttm", 1.5 * PAIRS),
        ("foscttm", -0.1 * PAIRS),
        ("foscttm", torch.nan * PAIRS),
        ("foscttm", torch.inf * PAIRS),
        ("foscttm", torch.full((3, 3), 0.5, dtype=torch.float64)),  # of a view and itself
        ("foscttm", PAIRS.triu()),
        ("foscttm", PAIRS[:2, :2]),
        ("foscttm", PAIRS.float()),
        ("foscttm", 0.999 * PAIRS),  # not in the interval
        ("neighbor_agreement", 2 * PAIRS),
        ("neighbor_agreement", -PAIRS),
        ("neighbor_agreement", torch.nan * PAIRS),
        ("neighbor_agreement", PAIRS[:, :2]),
        ("n_rows", torch.zeros(3, 3, dtype=torch.int64)),
        ("n_rows", torch.full((3, 3), 3)),
        ("n_rows", torch.full((3, 3), -3)),
        ("n_rows", PAIRS.nan_to_num()),
    ),
)
def test_measures_of_the_common_space_that_cannot_be_are_refused(load_changed, name, tensor):
    tensor = tensor.contiguous()
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: tensors.update({f"{COMMON}.{name}": tensor}))


@pytest.mark.parametrize(
    "interval",
    ((-0.1, 0.6), (0.0, 1.1), (0.9, 0.1), (float("nan"), 1.0), (0.0, "1"), (0.0, 0.001), (1, None)),
)
def test_the_interval_of_the_common_space_is_one_around_the_mean(load_changed, interval):
    changed = dict(zip(("low", "high"), interval, strict=True))
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: facts[COMMON].update(changed))


def test_pairs_of_views_without_held_out_rows_are_nan_in_the_common_space(load_changed):
    def change(tensors, facts):
        for name in ("foscttm", "neighbor_agreement", "n_rows"):
            tensor = tensors[f"{COMMON}.{name}"]
            tensor[0, 1] = tensor[1, 0] = torch.nan if tensor.is_floating_point() else 0
        facts[COMMON].update(low=0.0, high=1.0)

    assert load_changed(change).common_space_.n_rows[0, 1] == 0


@pytest.mark.parametrize("name", ("foscttm", "neighbor_agreement", "n_rows"))
def test_a_common_space_that_lacks_a_part_is_refused(load_changed, name):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: tensors.pop(f"{COMMON}.{name}"))


def test_models_without_linked_rows_have_no_common_space(load_changed):
    def change(tensors, facts):
        facts[COMMON] = None
        for name in ("foscttm", "neighbor_agreement", "n_rows"):
            del tensors[f"{COMMON}.{name}"]

    assert load_changed(change).common_space_ is None


SIMILARITY = "view_similarity"


@pytest.mark.parametrize(
    "value", (3, [], {}, None, {"groups": None, "stability": 1.0, "within_classes": None})
)
def test_a_similarity_of_the_wrong_type_is_refused(load_changed, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: facts.update({SIMILARITY: value}))


@pytest.mark.parametrize(
    ("name", "tensor"),
    (
        ("value", torch.full((3, 3), 1.5, dtype=torch.float64)),
        ("low", torch.zeros(3, 2, dtype=torch.float64)),
        ("high", torch.full((3, 3), torch.inf, dtype=torch.float64)),
        ("p_value", torch.full((3, 3), -0.1, dtype=torch.float64)),
        ("n_rows", torch.full((3, 3), -1)),
        ("n_rows", torch.zeros(3, 3, dtype=torch.float64)),
        ("groups", torch.tensor([0, 1, 3])),
        ("groups", torch.tensor([0, -1, 1])),
        ("groups", torch.zeros(3, dtype=torch.float64)),
        ("within_classes.value", torch.zeros(2, 2, dtype=torch.float64)),
    ),
)
def test_similarities_that_cannot_be_are_refused(load_changed, name, tensor):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: tensors.update({f"{SIMILARITY}.{name}": tensor}))


@pytest.mark.parametrize("stability", (-0.1, 1.1, float("nan"), "1"))
def test_a_stability_is_a_share(load_changed, stability):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: facts[SIMILARITY].update(stability=stability))


def test_pairs_without_enough_linked_rows_may_be_nan(load_changed):
    def change(tensors, facts):
        for name in ("value", "low", "high", "p_value"):
            tensor = tensors[f"{SIMILARITY}.{name}"]
            tensor[0, 1] = tensor[1, 0] = torch.nan

    assert load_changed(change).view_similarity_.value[0, 1] != 0


@pytest.mark.parametrize(
    "change",
    (
        lambda part: part["value"].fill_(torch.nan),
        lambda part: part["value"][0].mul_(0.5),
        lambda part: part["low"].copy_(part["high"] + 0).add_(0.01).clamp_(max=1),
        lambda part: part["p_value"][0, 1].fill_(torch.nan),
    ),
)
def test_similarities_that_contradict_each_other_are_refused(load_changed, change):
    def apply(tensors, facts):
        start = f"{SIMILARITY}."
        change({k.removeprefix(start): x for k, x in tensors.items() if k.startswith(start)})

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(apply)


@pytest.mark.parametrize("groups", ([0, 0, 0], [0, 1, 2], [1, 0, 0]))
def test_groups_that_are_none_are_refused(load_changed, groups):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(
            lambda tensors, _: tensors.update({f"{SIMILARITY}.groups": torch.tensor(groups)})
        )


@pytest.mark.parametrize(
    ("name", "factor", "problem"),
    (
        ("set_scores.groups.4", 2.0, "its set_scores of training rows are none"),
        ("set_scores.groups.0", -1.0, "its set_scores of training rows are none"),
        ("disagreement.groups.1", 1e6, "its disagreement of training rows are none"),
        ("ranges.0.quantiles", -1.0, "its ranges of columns of view 'view_0' are none"),
        ("ranges.1.quantiles", math.nan, r"its 'ranges\.1\.quantiles' is not finite"),
    ),
)
def test_what_new_rows_are_compared_with_is_checked(load_changed, name, factor, problem):
    def change(tensors, facts):
        tensors[name] = tensors[name] * factor

    with pytest.raises(ValueError, match=problem):
        load_changed(change)


@pytest.fixture(scope="session")
def saved_batches(saved, tmp_path_factory):
    """The path of a model whose first view was corrected for two batches, after a reduction."""
    model = load_model(saved, device="cpu")
    n = model._columns["view_0"].n_columns
    components = np.ones((300, n), dtype=np.float32)
    scaler = ColumnScaler(np.zeros(300), np.ones(300), None, components=components)
    offsets = BatchOffsets(["a", "b"], np.arange(2.0 * n).reshape(2, n), scaler)
    model._batch_offsets = {"view_0": offsets, "view_1": None, "view_2": None}
    return save_model(model, tmp_path_factory.mktemp("batches") / "m.hotview")


def test_batches_are_saved(saved, saved_batches):
    found = load_model(saved_batches, device="cpu")._batch_offsets
    assert found["view_0"].batches == ["a", "b"]
    assert found["view_0"].offsets[1, 0] == found["view_0"].offsets.shape[1]
    assert found["view_0"].scaler.n_columns == 300
    assert found["view_1"] is None
    assert load_model(saved, device="cpu")._batch_offsets is None
    assert "batch_offsets" not in read_archive(saved, _MODEL).metadata


@pytest.mark.parametrize(
    "value",
    (
        *({}, [], 3, [None], [None] * 4),
        *([{"batches": b, "offsets": None}, None, None] for b in (None, [1, 2])),
        *(
            [{"batches": b, "offsets": None, "scaler": None}, None, None]
            for b in (None, [], ["a", "a"], ["a"], ["a", "b", "c"], ["a", 2])
        ),
    ),
)
def test_batches_that_cannot_be_are_refused(load_changed, saved_batches, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda _, facts: facts.update(batch_offsets=value), saved_batches)


@pytest.mark.parametrize(
    ("name", "tensor"),
    (
        *((part, None) for part in ("offsets", "scaler.mean", "scaler.scale", "scaler.components")),
        *(("offsets", x) for x in (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.float64))),
        ("scaler.mean", torch.zeros(299, dtype=torch.float64)),
        ("scaler.components", torch.zeros(300, 2)),
        ("scaler.fill", torch.zeros(300, dtype=torch.float64)),
        ("scaler.indicators", torch.zeros(1, dtype=torch.int64)),
    ),
)
def test_offsets_of_other_shapes_are_refused(load_changed, saved_batches, name, tensor):
    def change(tensors, _):
        at = f"batch_offsets.0.{name}"
        tensors.pop(at, None) if tensor is None else tensors.update({at: tensor})

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change, saved_batches)


def test_offsets_that_are_not_finite_are_refused(load_changed, saved_batches):
    with pytest.raises(ValueError, match=r"offsets' is not finite"):
        load_changed(lambda t, _: t["batch_offsets.0.offsets"].fill_(math.nan), saved_batches)
