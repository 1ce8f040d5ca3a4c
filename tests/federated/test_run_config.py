from dataclasses import fields
from pathlib import Path

import pytest

from hotview.federated import Settings
from hotview.federated.run_config import read_run_config, told_run_config

NAMES = ("clinical", "genetic")
OTHER = Settings(
    rounds=3,
    hidden=(64, 32),
    label_holder="clinical",
    share_features=True,
    coupling="hot-pairwise",
    learning_rate=0.01,
)


@pytest.mark.parametrize("settings", (Settings(), OTHER, Settings(hidden=())))
def test_what_is_told_is_read_again(settings):
    config = read_run_config(told_run_config(NAMES, settings))
    assert config.organizations == list(NAMES)
    assert config.settings == settings


def test_all_settings_are_told_in_a_form_that_flower_takes():
    from flwr.common.serde import user_config_from_proto, user_config_to_proto

    told = told_run_config(NAMES, OTHER)
    assert {field.name.replace("_", "-") for field in fields(Settings)} < set(told)
    assert user_config_from_proto(user_config_to_proto(told)) == told


def test_what_is_not_said_has_its_default():
    config = read_run_config({"organizations": "a, b"})
    assert config.organizations == ["a", "b"]
    assert config.settings == Settings()
    assert (config.folder, config.timeout, config.patience) == (Path("coordinator"), 600, 600)


@pytest.mark.parametrize("names", ("", "clinical", "clinical,clinical", ","))
def test_fewer_than_two_organizations_are_refused(names):
    with pytest.raises(ValueError, match="two or more"):
        read_run_config({"organizations": names})


@pytest.mark.parametrize(
    ("told", "message"),
    (
        ({"round": 3}, "'round'"),
        ({"hidden": "128;64"}, "whole numbers with commas"),
        ({"rounds": 0}, "rounds"),
        ({"timeout": 0.0}, "timeout"),
        ({"patience": -1}, "patience"),
        ({"coupling": "cca"}, "coupling"),
    ),
)
def test_what_means_nothing_is_refused(told, message):
    with pytest.raises(ValueError, match=message):
        read_run_config({"organizations": "a,b", **told})
