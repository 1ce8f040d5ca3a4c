import io
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from sample_tables import NAMES

import hotview
from hotview.federated import Settings
from hotview.federated.configuration import (
    format_run_config,
    read_client_config,
    render_app,
    write_app,
)


@pytest.fixture
def app(tmp_path):
    return write_app(tmp_path / "study", NAMES, Settings(rounds=3, label_holder="clinical"))


def test_flower_takes_the_app(app):
    from flwr.cli.config_utils import load_and_validate

    config, warnings = load_and_validate(app / "pyproject.toml")
    assert set(config["tool"]["flwr"]["app"]["components"]) == {"serverapp", "clientapp"}
    assert warnings == []


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
def test_only_code_is_sent_to_others(app):
    from flwr.cli.build import build_fab_from_disk

    (app / "organizations" / "clinical.json").write_text('{"Ann": "ill"}')
    (app / "coordinator").mkdir()
    (app / "coordinator" / "outcome.json").write_text("{}")
    with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(app))) as bundle:
        sent = set(bundle.namelist())
    code = {f"federation/{name}.py" for name in ("__init__", "client_app", "server_app")}
    assert sent == {"pyproject.toml", ".info/CONTENT", *code}


def test_every_organization_has_its_configuration_and_can_use_what_is_commented_out(app):
    for name in NAMES:
        config = read_client_config(app / "organizations" / f"{name}.toml")
        assert (config.name, config.file.name, config.folder.name) == (name, f"{name}.csv", name)
    path = app / "organizations" / "genetic.toml"
    lines = path.read_text().splitlines()
    used = [re.sub(r"^# (?=\[?\w+( = .*|\])$)", "", line) for line in lines]
    path.write_text("\n".join(used))
    config = read_client_config(path)
    assert config.privacy.epsilon == 8.0
    assert config.linked.name == "linked.txt"
    assert (config.impute, config.drop, config.categorical) == ("mean", ("postcode",), ("ward",))


def test_an_empty_folder_is_filled_and_another_one_left_as_it_was(tmp_path):
    (tmp_path / "study").mkdir()
    assert (write_app(tmp_path / "study", NAMES) / "README.md").is_file()
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        write_app(tmp_path, NAMES)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", "study"}


def test_nothing_is_left_half_written(tmp_path, monkeypatch):
    def fail(*arguments, **more):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="no space"):
        write_app(tmp_path / "study", NAMES)
    monkeypatch.undo()
    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no space"):
        write_app(tmp_path / "study", NAMES)
    assert list(tmp_path.iterdir()) == []


def test_names_that_cannot_be_used_are_refused(tmp_path):
    wrong = {(): "distinct names of two", ("Clinical",): "distinct names of two"}
    wrong |= {(name,): "as in files" for name in ("../genetic", "a,b", 'x"y')}
    for names, message in wrong.items():
        with pytest.raises(ValueError, match=message):
            write_app(tmp_path / "study", ("clinical", *names))
    with pytest.raises(ValueError, match="label_holder among"):
        write_app(tmp_path / "study", NAMES, Settings(label_holder="dental"))
    assert list(tmp_path.iterdir()) == []


def test_the_project_has_every_type_of_value():
    settings = Settings(hidden=(64, 32), share_labels=True, learning_rate=1e-5)
    project = tomllib.loads(render_app(NAMES, settings)["pyproject.toml"])
    assert project["tool"]["flwr"]["app"]["config"] == format_run_config(NAMES, settings)
    assert project["project"]["dependencies"] == [f"hotview[federated]>={hotview.__version__}"]
    assert "clinical, genetic and imaging" in project["project"]["description"]


def test_the_readme_has_all_commands_with_tls_and_without_telemetry():
    readme = render_app(NAMES, Settings())["README.md"]
    for name in NAMES:
        for command in ("ssh-keygen", "flwr supernode register", "flower-supernode"):
            found = re.findall(rf"{command}(?:[^\n]|\\\n)*\b{name}\b", readme)
            assert len(found) == 1, command
    assert len(set(re.findall(r"--port (\d+)", readme))) == len(NAMES)
    assert "FLWR_TELEMETRY_ENABLED=0" in readme
    assert "FLWR_DISABLE_UPDATE_CHECK=1" in readme
    assert "--insecure" not in readme
