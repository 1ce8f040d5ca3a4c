import inspect
import json
from dataclasses import fields

import pytest

from hotview import HOTReferenceSpec, MultiViewClassifier
from hotview.federated.settings import Settings

OTHER = {
    "rounds": 3,
    "coupling": "hot-pairwise",
    "hidden": (8, 4),
    "label_holder": "clinical",
    "share_features": True,
    "fusion_fraction": 0.0,
    "cost_decay": 0.0,
    "learning_rate": 1e-2,
    "random_state": 2**30,
}


def test_settings_go_through_json():
    given = Settings(**OTHER)
    assert Settings.from_json(json.loads(json.dumps(given.to_json()))) == given
    with pytest.raises(ValueError, match=r"settings among .*'rounds'.*, but there is 'round'"):
        Settings.from_json({"round": 3})


def test_settings_of_estimators_have_the_same_names_and_defaults():
    estimator = inspect.signature(MultiViewClassifier).parameters
    theirs = {name: parameter.default for name, parameter in estimator.items()}
    theirs |= HOTReferenceSpec().get_params()
    theirs["coupling_weight"] = theirs.pop("weight")
    ours = {field.name: field.default for field in fields(Settings)}
    own = {"rounds", "local_steps", "quantiles", "label_holder", "linked_batch", "fusion_fraction"}
    own |= {"share_features", "share_labels", "min_clients"}
    own |= {"regularizer_weight"}  # 1.0 in a classifier, 0.01 in an encoder
    assert set(ours) - set(theirs) == own
    # Neither is None: all sides need the seed, and messages are checked for K.
    for name in set(ours) - own - {"random_state", "n_references"}:
        assert ours[name] == theirs[name], name


WRONG = (
    *((name, 0) for name in ("rounds", "local_steps", "quantiles", "batch_size", "learning_rate")),
    *((name, 2.0) for name in ("rounds", "n_components", "n_references", "linked_batch")),
    *((name, True) for name in ("rounds", "encoder_dim")),
    *((name, -1) for name in ("coupling_weight", "regularizer_weight", "orthogonality_weight")),
    *((name, float("nan")) for name in ("reg", "head_weight", "cost_decay")),
    *((name, 1.0) for name in ("cost_decay", "fusion_fraction")),
    *((name, "sliced") for name in ("coupling", "view_regularizer", "projections")),
    *(("hidden", value) for value in ((8, 0), 8, "8", (8,) * 17)),
    *(("min_clients", 1), ("label_holder", 3), ("share_features", "no"), ("share_labels", 1)),
    *(("random_state", value) for value in (None, -1, 1.0, True)),
)


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_makes_no_sense_is_refused(name, value):
    with pytest.raises(ValueError, match=f"Expected {name}"):
        Settings(**{name: value})
    with pytest.raises(ValueError, match=f"Expected {name}"):
        Settings.from_json({name: list(value) if isinstance(value, tuple) else value})


LARGE = {"batch_size": 2**17, "local_steps": 1}


@pytest.mark.parametrize(
    ("given", "product"),
    (
        ({"quantiles": 2**14, "n_projections": 2**11, "batch_size": 1}, "n_projections × quan"),
        ({"n_projections": 2**14, "quantiles": 1, "n_components": 2**11}, "n_projections × n_com"),
        ({"n_references": 1000, "n_components": 2**10}, "n_references × quantiles"),
        ({"batch_size": 2**16, "quantiles": 2**9}, "batch_size × quantiles"),
        ({"hidden": (8, 2**12, 2**12 + 1)}, "hidden"),
        ({"hidden": (2**10,), **LARGE}, "batch_size × the largest width"),
        ({"n_projections": 2**10, **LARGE}, "n_projections × n_references × batch_size"),
        ({"local_steps": 10_000, "batch_size": 2**14, "hidden": (2**10, 2**10)}, "local_steps ×"),
    ),
)
def test_what_nobody_could_send_hold_or_compute_is_refused(given, product):
    with pytest.raises(ValueError, match=f"Expected {product}.* to be at most .*, but it is"):
        Settings(**given)
    # Long trainings of large networks are possible all the same.
    Settings(rounds=1000, local_steps=1000, batch_size=4096, hidden=(1024, 512), encoder_dim=128)


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("hidden", (838860,)),
        ("hidden", (8, 2**13)),
        *((name, 10**400) for name in ("rounds", "learning_rate", "head_weight")),
        *((name, -(10**400)) for name in ("rounds", "cost_decay")),
        *((name, 1e7) for name in ("coupling_weight", "regularizer_weight", "reg")),
        *((name, 10**7) for name in ("quantiles", "n_projections", "n_references", "n_components")),
        *((name, 10**7) for name in ("encoder_dim", "batch_size", "linked_batch", "min_clients")),
        *(("local_steps", 10**9), ("sinkhorn_max_iter", 10**7)),
        *(("random_state", 2**31), ("learning_rate", 1e3)),
    ),
)
def test_every_number_has_an_upper_bound(name, value):
    with pytest.raises(ValueError, match=rf"Expected {name} to be at most \d+, but it is .*\. Ch"):
        Settings.from_json({name: list(value) if isinstance(value, tuple) else value})
