from math import inf

import numpy as np
import pytest
import torch

import hotview as hv
from hotview import MultiViewClassifier
from hotview._processes import is_distributed
from hotview.losses import SWPairwise
from hotview.model.parameters import check_parameters, hidden_of, pick_device, pick_processes

NAMES = ["a", "b", "c"]
DEFAULTS = MultiViewClassifier().get_params()


@pytest.mark.parametrize(
    "change",
    (
        {},
        {"encoder_dim": np.int64(3), "learning_rate": np.float32(0.1), "head_weight": 0.0},
        {"coupling": hv.LSCCASpec(weight=0), "verbose": True, "impute": "mean"},
        {"coupling": hv.HOTPairwiseSpec(cost_decay=0), "view_regularizer": "diffusion"},
        {"verbose": 1, "impute": "median+indicator", "precision": "bfloat16"},
        {"callbacks": (), "max_epochs": None, "devices": "auto"},
        {"callbacks": [print], "pseudo_labels": np.bool_(False), "fusion": "average"},
    ),
    ids=str,
)
def test_what_may_be_said_otherwise(change):
    given = {**DEFAULTS, **change}
    before = dict(given)
    check_parameters(given)
    assert given == before


WHOLE = ("steps_per_epoch", "batch_size", "n_components", "n_neighbors", "n_estimators", "patience")


def coupled(**settings):
    return {"coupling": hv.HOTReferenceSpec(**settings)}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    (
        ({"coupling": "HOT-pairwise "}, ValueError, "one of 'none', .*Did you mean 'hot-pairwise'"),
        ({"coupling": SWPairwise()}, TypeError, r"or a CouplingSpec, but it is SWPairwise\("),
        ({"coupling": hv.LSCCASpec}, TypeError, r"the class LSCCASpec. Pass coupling=hotview.LSC"),
        ({"coupling": hv.LSCCASpec(weight=True)}, ValueError, "coupling__weight"),
        (coupled(reduction="total"), ValueError, "'mean', 'sum'"),
        (coupled(n_references=0), ValueError, "coupling__n_references"),
        ({"view_regularizer": "AE"}, ValueError, "'none', 'autoencoder', 'manifold', 'diffusion'"),
        ({"view_regularizer": hv.LSCCASpec()}, ValueError, "view_regularizer to be one of"),
        ({"view_regularizer": hv.AutoencoderSpec(inf)}, ValueError, "view_regularizer__weight"),
        ({"precision": "bf16"}, ValueError, "precision to be one of.*'float32', 'tf32'"),
        ({"initialization": "zero"}, ValueError, "'pca', 'random'"),
        ({"fusion": True}, ValueError, "fusion to be one of.*'weighted', 'average'"),
        ({"pseudo_labels": None}, ValueError, "pseudo_labels to be True or False"),
        ({"max_epochs": "auto"}, ValueError, "max_epochs"),
        *(({name: 0}, ValueError, f"{name} to be") for name in WHOLE),
        ({"n_estimators": True}, ValueError, "n_estimators to be a whole number of at least 1"),
        ({"encoder_dim": 2.0}, ValueError, "encoder_dim"),
        ({"head_weight": None}, ValueError, "head_weight"),
        ({"learning_rate": 0}, ValueError, "learning_rate to be a positive"),
        ({"alignment_weight": float("nan")}, ValueError, "Expected alignment_weight to be"),
        ({"preprocessing": None}, ValueError, "preprocessing to be one of.*but it is None"),
        ({"impute": "medain"}, ValueError, "impute to be one of 'mean'.*Did you mean 'median'"),
        ({"impute": {"b": "mode"}}, ValueError, r"impute\['b'\] to be one"),
        ({"random_state": "0"}, ValueError, "random_state to be None, a whole number.*'0'"),
        ({"verbose": "yes"}, ValueError, "verbose to be True, False or 'auto'"),
        ({"callbacks": print}, TypeError, r"callbacks to be a list of functions.*\[function\]"),
        ({"devices": 0}, ValueError, "devices"),
        ({"device": "warp"}, ValueError, "device.*'warp'.*Use device='cpu'"),
        ({"hidden": {"a": (8,)}}, ValueError, r"lacks \['b'\]"),
        ({"impute": {"aa": "mean"}}, ValueError, r"also names \['aa'\]\. Did you mean 'a'"),
    ),
    ids=str,
)
def test_what_may_not(change, error, message):
    views = {name: np.arange(8.0).reshape(4, 2) for name in "ab"}
    with pytest.raises(error, match=message):
        MultiViewClassifier(**{"device": "cpu", **change}).fit(views, [0, 1, 0, 1])


def test_devices():
    for device in ("cpu", torch.device("cpu")):
        assert pick_device(device) == torch.device("cpu")
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pick_processes(DEFAULTS):
        assert not is_distributed()
    with pytest.raises(ValueError, match="gives every process a device of its own"):
        pick_processes({**DEFAULTS, "devices": 2, "device": "cpu:0"})
    for device in ("meta", "cuda:99", None, 1.5, ""):
        with pytest.raises(ValueError, match=r"device to be 'auto' or a device.*Use device='cpu'"):
            pick_device(device)


def test_a_regularizer_of_the_users_own_is_fitted_in_one_process():
    class Own(hv.RegularizerSpec):
        def build(self):
            return hv.AutoencoderSpec().build()

    with pytest.raises(ValueError, match="Expected devices=None"):
        check_parameters({**DEFAULTS, "devices": 2, "view_regularizer": Own()})


@pytest.mark.parametrize(
    ("hidden", "expected"),
    (
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
        ((0,), r"at least 1.*\(0,\)"),
        ((8, -1), "at least 1"),
        ({"a": (1,), "b": (1,), "c": (1,), "d": (1,)}, r"also names \['d'\]"),
    ),
)
def test_hidden_layers_that_cannot_be(hidden, message):
    with pytest.raises(ValueError, match=message):
        hidden_of(hidden, NAMES)


def test_names_become_specifications_with_the_estimators_default_weight():
    parameters = {**DEFAULTS, "coupling": "lscca", "view_regularizer": "manifold"}
    found = check_parameters(parameters, 0.7)
    assert repr(found["coupling"]) == "LSCCASpec()"
    assert repr(found["view_regularizer"]) == "ManifoldSpec(weight=0.7)"
    others = DEFAULTS.keys() - {"coupling", "view_regularizer"}
    assert all(found[name] is DEFAULTS[name] for name in others)
    regularizer = hv.ManifoldSpec()  # the user's is not changed
    found = check_parameters({**DEFAULTS, "view_regularizer": regularizer}, 0.7)
    assert regularizer.weight is None
    assert found["view_regularizer"].weight == 0.7
    own = check_parameters({**DEFAULTS, "view_regularizer": hv.ManifoldSpec(0.1)}, 0.7)
    assert own["view_regularizer"].weight == 0.1
