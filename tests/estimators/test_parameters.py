import numpy as np
import pytest
import torch
from torch import nn

import hotview as hv
from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.parameters import (
    check_parameters,
    encoders_of,
    hidden_of,
    impute_of,
    pick_device,
    pick_processes,
)
from hotview.losses import SWPairwise

NAMES = ["a", "b", "c"]
DEFAULTS = MultiViewClassifier().get_params()


class OwnRegularizer(hv.RegularizerSpec):
    def build(self):
        return hv.AutoencoderSpec().build()


@pytest.mark.parametrize("kind", (MultiViewEncoder, MultiViewClassifier))
def test_the_defaults_are_accepted_and_not_changed(kind):
    parameters = kind().get_params()
    before = dict(parameters)
    check_parameters(parameters)
    assert parameters == before


@pytest.mark.parametrize(
    "change",
    (
        {"encoder_dim": np.int64(3)},
        {"coupling": hv.LSCCASpec(weight=0)},
        {"head_weight": 0.0},
        {"learning_rate": np.float32(0.1)},
        {"coupling": hv.HOTPairwiseSpec(cost_decay=0)},
        {"view_regularizer": hv.ManifoldSpec()},
        {"preprocessing": {"a": "pca"}},
        {"verbose": True},
        {"verbose": 1},
        {"verbose": "auto"},
        {"steps_per_epoch": 1},
        {"callbacks": ()},
        {"callbacks": [print]},
        {"impute": "mean"},
        {"impute": "median+indicator"},
        {"impute": {"a": "mean+indicator", "b": None}},
        {"pseudo_labels": np.bool_(False)},
        {"fusion": "average"},
        {"max_epochs": None},
        {"max_epochs": np.int64(3)},
        {"view_regularizer": "diffusion"},
        {"precision": "tf32"},
        {"precision": "bfloat16"},
    ),
    ids=str,
)
def test_what_may_be_said_otherwise(change):
    check_parameters({**DEFAULTS, **change})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    (
        ({"coupling": "HOT-pairwise "}, ValueError, "Did you mean 'hot-pairwise'"),
        ({"coupling": ["none"]}, ValueError, "coupling to be one of"),
        ({"coupling": SWPairwise()}, TypeError, r"or a CouplingSpec, but it is SWPairwise\("),
        ({"coupling": hv.LSCCASpec}, TypeError, r"the class LSCCASpec. Pass coupling=hotview.LSC"),
        ({"view_regularizer": "AE"}, ValueError, "'none', 'autoencoder', 'manifold', 'diffusion'"),
        ({"precision": "bf16"}, ValueError, "precision to be one of.*'float32', 'tf32'"),
        ({"fusion": "mean"}, ValueError, "fusion to be one of.*'weighted', 'average'"),
        ({"fusion": None}, ValueError, "fusion to be one of"),
        ({"fusion": True}, ValueError, "fusion to be one of"),
        ({"pseudo_labels": "yes"}, ValueError, "pseudo_labels to be True or False.*'yes'"),
        ({"pseudo_labels": None}, ValueError, "pseudo_labels to be True or False"),
        ({"pseudo_labels": 1}, ValueError, "pseudo_labels=False to do without"),
        ({"max_epochs": 0}, ValueError, "max_epochs"),
        ({"max_epochs": 2.0}, ValueError, "max_epochs"),
        ({"max_epochs": "auto"}, ValueError, "max_epochs"),
        ({"head_weight": -1.0}, ValueError, "head_weight"),
        ({"head_weight": None}, ValueError, "head_weight"),
        ({"coupling": hv.LSCCASpec(weight=True)}, ValueError, "coupling__weight"),
        ({"encoder_dim": 2.0}, ValueError, "encoder_dim"),
        ({"patience": 1.5}, ValueError, "patience"),
        ({"preprocessing": None}, ValueError, "preprocessing to be one of.*but it is None"),
        ({"verbose": "yes"}, ValueError, "verbose to be True, False or 'auto'"),
        ({"callbacks": print}, TypeError, "callbacks to be a list"),
    ),
    ids=str,
)
def test_what_may_not(change, error, message):
    with pytest.raises(error, match=message):
        check_parameters({**DEFAULTS, **change})


# devices


@pytest.mark.parametrize("device", ("cpu", torch.device("cpu")))
def test_devices(device):
    assert pick_device(device) == torch.device("cpu")


def test_auto_takes_cuda_where_there_is_any():
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert pick_device("auto").type == expected


@pytest.mark.parametrize("device", ("warp", "meta", "cuda:99", None, 1.5, ""))
def test_devices_that_cannot_be_used(device):
    with pytest.raises(ValueError, match=r"device to be 'auto' or a device.*Use device='cpu'"):
        pick_device(device)


# hidden layers


@pytest.mark.parametrize(
    ("hidden", "expected"),
    (
        ((128,), [(128,)] * 3),
        ([4, 5], [(4, 5)] * 3),
        ((), [()] * 3),
        ({"c": (1,), "a": (), "b": [2, 3]}, [(), (2, 3), (1,)]),
        ((np.int64(3),), [(3,)] * 3),
    ),
)
def test_hidden_layers(hidden, expected):
    assert hidden_of(hidden, NAMES) == expected


@pytest.mark.parametrize(
    ("hidden", "message"),
    (
        (128, r"tuple of layer widths.*128.*hidden=\(128,\)"),
        (None, "None"),
        ("128", "'128'"),
        ((0,), r"at least 1.*\(0,\)"),
        ((8, -1), "at least 1"),
        ((8.0,), "at least 1"),
        ({"a": (1,), "b": (1,), "c": 5}, "but it is 5"),
        ({"a": (1,)}, r"lacks \['b', 'c'\]"),
        ({"a": (1,), "b": (1,), "c": (1,), "d": (1,)}, r"also names \['d'\]"),
    ),
)
def test_hidden_layers_that_cannot_be(hidden, message):
    with pytest.raises(ValueError, match=message):
        hidden_of(hidden, NAMES)


# imputation


def test_imputation_by_view():
    assert impute_of(None, NAMES) == {"a": None, "b": None, "c": None}
    assert impute_of("mean", NAMES) == {"a": "mean", "b": "mean", "c": "mean"}
    given = {"b": "median", "c": None}
    assert impute_of(given, NAMES) == {"a": None, "b": "median", "c": None}
    assert given == {"b": "median", "c": None}
    with pytest.raises(ValueError, match=r"impute to name views among.*\['lab'\]\. Did you mean"):
        impute_of({"lab": "mean"}, ["blood", "labs"])


# encoders


def test_encoders_are_copies_in_the_order_of_the_views():
    first, second = nn.Linear(2, 3), nn.Linear(4, 5)
    found = encoders_of({"c": second, "a": first}, NAMES)
    assert found[1] is None
    assert found[0] is not first
    assert found[2] is not second
    assert [found[0].in_features, found[2].in_features] == [2, 4]
    torch.testing.assert_close(found[0].weight, first.weight)
    assert encoders_of(None, NAMES) == [None, None, None]
    assert encoders_of({}, NAMES) == [None, None, None]
    assert encoders_of([None, None, None], NAMES) == [None, None, None]


def test_one_module_for_two_views_becomes_two():
    shared = nn.Linear(2, 3)
    found = encoders_of([shared, shared, None], NAMES)
    assert found[0] is not found[1]


@pytest.mark.parametrize(
    ("encoders", "error", "message"),
    (
        ([nn.ReLU()] * 2, ValueError, "each of the 3 views, but it holds 2"),
        ({"z": nn.ReLU()}, ValueError, r"encoders to name views among \['a', 'b', 'c'\].*\['z'\]"),
        ([nn.ReLU(), nn.ReLU(), "relu"], TypeError, "view 'c' to be a torch module.*str"),
        (nn.ReLU(), TypeError, "list or dict of torch modules, one per view, but it is a ReLU"),
        (3, TypeError, "int"),
    ),
)
def test_encoders_that_cannot_be(encoders, error, message):
    with pytest.raises(error, match=message):
        encoders_of(encoders, NAMES)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"devices": 0}, "devices"),
        ({"devices": "all"}, "devices"),
        ({"devices": 2, "view_regularizer": OwnRegularizer()}, "Expected devices=None"),
    ),
)
def test_devices_is_a_number_of_processes(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        check_parameters({**DEFAULTS, **change})
    check_parameters({**DEFAULTS, "devices": "auto"})


def test_without_devices_there_is_one_process():
    assert not pick_processes(DEFAULTS).is_distributed


def test_every_process_gets_a_device_of_its_own():
    with pytest.raises(ValueError, match="gives every process a device of its own"):
        pick_processes({**DEFAULTS, "devices": 2, "device": "cpu:0"})


# specifications


def test_names_become_specifications_with_the_estimators_default_weight():
    parameters = {**DEFAULTS, "coupling": "lscca", "view_regularizer": "manifold"}
    found = check_parameters(parameters, 0.7)
    assert repr(found["coupling"]) == "LSCCASpec()"
    assert repr(found["view_regularizer"]) == "ManifoldSpec(weight=0.7)"
    others = DEFAULTS.keys() - {"coupling", "view_regularizer"}
    assert all(found[name] is DEFAULTS[name] for name in others)


def test_specifications_of_the_user_are_not_changed():
    regularizer = hv.ManifoldSpec()
    found = check_parameters({**DEFAULTS, "view_regularizer": regularizer}, 0.7)
    assert regularizer.weight is None
    assert found["view_regularizer"].weight == 0.7
    own = check_parameters({**DEFAULTS, "view_regularizer": hv.ManifoldSpec(0.1)}, 0.7)
    assert own["view_regularizer"].weight == 0.1


@pytest.mark.parametrize("kind", (MultiViewEncoder, MultiViewClassifier))
def test_settings_are_set_in_a_specification_not_in_a_name(kind):
    model = kind(hv.HOTReferenceSpec(), hv.AutoencoderSpec())
    model.set_params(coupling__n_projections=7, view_regularizer__weight=0.3)
    assert model.coupling.n_projections == 7
    assert model.get_params()["view_regularizer__weight"] == 0.3
    message = (
        "Expected coupling to be a specification object to set coupling__n_projections, but it is "
        r"the name 'hot-reference'. Pass coupling=hotview.HOTReferenceSpec\(n_projections=...\)"
    )
    with pytest.raises(ValueError, match=message):
        kind().set_params(coupling__n_projections=7)
    with pytest.raises(ValueError, match="is the name 'lscca'"):
        model.set_params(coupling="lscca", coupling__weight=0.5)
    model.set_params(coupling=hv.LSCCASpec(), coupling__weight=0.5)
    assert model.coupling.weight == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'n_projections' for estimator LS"):
        model.set_params(coupling__n_projections=7)


def test_the_constructor_has_few_parameters():
    assert len(DEFAULTS) <= 32
