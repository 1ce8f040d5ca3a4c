import numpy as np
import pytest
import torch
from torch import nn

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.parameters import (
    check_parameters,
    encoders_of,
    hidden_of,
    pick_device,
    pick_processes,
)

NAMES = ["a", "b", "c"]
DEFAULTS = MultiViewClassifier().get_params()


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
        {"coupling_weight": 0},
        {"head_weight": 0.0},
        {"learning_rate": np.float32(0.1)},
        {"cost_decay": 0},
        {"standardize": np.bool_(False)},
        {"verbose": True},
        {"verbose": 1},
        {"verbose": "auto"},
        {"steps_per_epoch": 1},
        {"callbacks": ()},
        {"callbacks": [print]},
        {"impute": "mean"},
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
        ({"view_regularizer": "AE"}, ValueError, "'none', 'autoencoder', 'manifold', 'diffusion'"),
        ({"precision": "bf16"}, ValueError, "precision to be one of.*'float32', 'tf32'"),
        ({"fusion": "mean"}, ValueError, "fusion to be one of.*'stacked', 'average'"),
        ({"fusion": None}, ValueError, "fusion to be one of"),
        ({"fusion": True}, ValueError, "fusion to be one of"),
        ({"pseudo_labels": "yes"}, ValueError, "pseudo_labels to be True or False.*'yes'"),
        ({"pseudo_labels": None}, ValueError, "pseudo_labels to be True or False"),
        ({"pseudo_labels": 1}, ValueError, "pseudo_labels=False to do without"),
        ({"max_epochs": 0}, ValueError, "max_epochs"),
        ({"max_epochs": 2.0}, ValueError, "max_epochs"),
        ({"max_epochs": "auto"}, ValueError, "max_epochs"),
        ({"head_weight": -1.0}, ValueError, "head_weight"),
        ({"coupling_weight": True}, ValueError, "coupling_weight"),
        ({"encoder_dim": 2.0}, ValueError, "encoder_dim"),
        ({"patience": 1.5}, ValueError, "patience"),
        ({"cost_decay": 1}, ValueError, "cost_decay below 1"),
        ({"cost_decay": -0.1}, ValueError, "cost_decay to be a share"),
        ({"standardize": None}, ValueError, "standardize to be True or False, but it is None"),
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
        ({"strategy": "fsdp"}, "strategy"),
        ({"strategy": "ddp", "devices": 0}, "devices"),
        ({"strategy": "ddp", "devices": "all"}, "devices"),
        ({"devices": 2}, "Set strategy='ddp'"),
    ),
)
def test_processes_are_asked_for_by_name_and_number(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        check_parameters({**DEFAULTS, **change})
    check_parameters({**DEFAULTS, "strategy": "ddp", "devices": "auto"})


def test_without_a_strategy_there_is_one_process():
    assert not pick_processes(DEFAULTS).is_distributed


def test_every_process_gets_a_device_of_its_own():
    with pytest.raises(ValueError, match="gives every process a device of its own"):
        pick_processes({**DEFAULTS, "strategy": "ddp", "device": "cpu:0"})
