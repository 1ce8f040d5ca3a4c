import re
import tomllib

import pytest

from hotview.federated.app_files import organization_text, project_text, readme_text

NAMES = ("clinical", "genetic", "imaging")


def test_the_project_holds_every_kind_of_value():
    config = {"a": "x,y", "b": 3, "c": 0.5, "d": True, "e": "", "f": 1e-5}
    told = tomllib.loads(project_text(NAMES, config, "1.2"))
    assert told["tool"]["flwr"]["app"]["config"] == config
    assert told["project"]["dependencies"] == ["hotview[federated]>=1.2"]
    assert "clinical, genetic and imaging" in told["project"]["description"]


def test_a_configuration_has_the_name_of_its_organization():
    assert tomllib.loads(organization_text("lab"))["name"] == "lab"


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_has_the_commands_of_everybody(name):
    text = readme_text(NAMES)
    for command in ("ssh-keygen", "flwr supernode register", "flower-supernode"):
        found = re.findall(rf"{command}(?:[^\n]|\\\n)*\b{name}\b", text)
        assert len(found) == 1, command


def test_nodes_on_one_machine_have_ports_of_their_own():
    ports = re.findall(r"--port (\d+)", readme_text(NAMES))
    assert len(set(ports)) == len(NAMES)


def test_nothing_is_sent_to_the_makers_of_flower():
    text = readme_text(NAMES)
    assert "FLWR_TELEMETRY_ENABLED=0" in text
    assert "FLWR_DISABLE_UPDATE_CHECK=1" in text
    assert "--insecure" not in text
