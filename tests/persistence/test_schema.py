import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.persistence.schema import NOT_SAVED, prefixes

MISFIT = r"changed\.hotview to be a model that hotview saved, but its parts do not fit"
WRONG = {
    "class": ("MultiViewThing", None, 3, ["MultiViewEncoder"], "os.system"),
    "parameters": (
        [],
        None,
        {"nothing": 1},
        {"checkpoint": "/x"},
        {"encoders": None},
        {"a" * 999: 1},
    ),
    "views": ([], {}, None, [["a", 1]], [[1, 20, None]]),
    "own_encoders": ("view_0", None, ["other"]),
    "batch_size": (0, -1, 1.5, "3", True, 10**30),
    "history": ({}, [1], [{"loss": "x"}]),
    "more_histories": ({}, [[], [], []], [None]),
    "trained_on": ([], "x"),
    "remarks": ("x", [1]),
    "notes": ([], 3),
    "output": ("excel", 1),
    "pool": ({}, [], {"complete": [1.0], "partial": [1.0], "power": 1.0}),
    "plan": ({}, 3),
    "fusion": ({}, None),
    "knn": ([], [[1.0, 0]] * 3, [[float("nan"), 5]] * 3, {}),
    "replica.1.fusion": ({}, None),
    "classes": (
        ["O", [0, 1, 2, 3]],
        ["<U9999999", ["a"] * 4],
        ["<U99999999", ["a"] * 4],
        ["i8,i8", [0, 1, 2, 3]],
        ["<i8", ["a", 1, 2, 3]],
        ["<i8", [0, 1, 2]],
        ["<i8", 4],
        ["<f8", [0.0, 1.0, 2.0, float("nan")]],
        "<i8",
        None,
    ),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_facts_of_the_wrong_kind_are_refused(load_changed, name, value):
    with pytest.raises(ValueError, match=MISFIT):
        load_changed(lambda tensors, facts: facts.update({name: value}))


@pytest.mark.parametrize("width", (float("nan"), -1, 0, 1.5, "20", 10**12, None, 2**31 - 1, 19))
def test_widths_of_views_that_cannot_be_are_refused(load_changed, width):
    def change(tensors, facts):
        facts["views"][1][1] = width

    with pytest.raises(ValueError, match=MISFIT):
        load_changed(change)


@pytest.mark.parametrize(
    "name", ("../../etc/x", "/etc/x", "a/../b", "..\\x", "a\0b", "a\nb", "x" * 5000, "view_0", "")
)
def test_names_that_lead_elsewhere_are_refused(load_changed, name):
    def change(tensors, facts):
        facts["views"][1][0] = name

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
        ("class_weight", {"items": 3}),
        ("class_weight", {"items": [[[], 1.0]]}),
        ("class_weight", {}),
        ("n_estimators", None),
        ("verbose", "loud"),
    ),
)
def test_parameters_that_cannot_be_are_refused_before_memory_is_taken(load_changed, name, value):
    def change(tensors, facts):
        facts["parameters"][name] = value

    why = r" \((Expected|it lacks|its '|'.*' should be)"  # no word of memory
    with pytest.raises(ValueError, match=MISFIT + why):
        load_changed(change)


def test_every_replica_has_its_own_prefix():
    assert prefixes({}) == [""]
    assert prefixes({"more_histories": [[], []]}) == ["", "replica.1.", "replica.2."]


def test_what_is_not_saved_is_a_parameter():
    for estimator in (MultiViewClassifier(), MultiViewEncoder()):
        assert set(NOT_SAVED) <= set(estimator.get_params())
