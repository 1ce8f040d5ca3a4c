from pathlib import Path

import numpy as np
import pytest
from sample_tables import NAMES
from small_federation import settings, train

import hotview as hv
from hotview.federated import Privacy, Settings
from hotview.federated.client_data import hash_ids
from hotview.federated.configuration import (
    ClientConfig,
    RunConfig,
    format_run_config,
    open_client,
    read_client_config,
    read_run_config,
)

EVERYTHING = """
name = "clinical"
file = "tables/clinical.csv"
folder = "kept"
id_column = "id"
linked = "linked.txt"
label_column = "diagnosis"
drop = ["remark", "date"]
categorical = ["ward"]
impute = "mean"
device = "cpu"
share = ["features"]

[privacy]
epsilon = 5
delta = 1e-6
clip = 3.0
seed = 7
"""
LEAST = 'name = "a"\nfile = "a.csv"\nfolder = "kept"\n'


def write(folder, text, name="clinical.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_is_read(tmp_path):
    assert read_client_config(write(tmp_path, EVERYTHING)) == ClientConfig(
        "clinical",
        tmp_path / "tables" / "clinical.csv",
        tmp_path / "kept",
        id_column="id",
        linked=tmp_path / "linked.txt",
        label_column="diagnosis",
        drop=("remark", "date"),
        categorical=("ward",),
        impute="mean",
        device="cpu",
        privacy=Privacy(5, delta=1e-6, clip=3.0, seed=7),
        share=("features",),
    )


def test_paths_are_relative_to_the_file_and_may_be_whole(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    elsewhere = tmp_path / "elsewhere.csv"
    text = f'name = "a"\nfile = "{elsewhere.as_posix()}"\nfolder = "../kept"\n'
    path = write(tmp_path / "here", text)
    monkeypatch.chdir(tmp_path / "here")
    for given in (path, str(path)):
        found = read_client_config(given)
        assert (found.file, found.folder.resolve()) == (elsewhere, tmp_path / "kept")


@pytest.mark.parametrize(
    ("text", "why"),
    (
        ("name = ", "to configure an organization, but Invalid value"),
        (LEAST + "labels = 'y'", r"there is 'labels', .* of the keys .*label_column"),
        (LEAST.replace("folder", "# folder"), "it lacks 'folder'"),
        (LEAST.replace('"a"', "3"), "its name is 3, which is no str"),
        (LEAST + 'drop = "remark"', "its drop is 'remark', which is no list"),
        (LEAST + "drop = [1]", "its drop are .1., no names"),
        (LEAST + 'linked = "linked.txt"', "the column of ids: id_column"),
        (LEAST + "[privacy]\nnoise = 3", "unexpected keyword argument 'noise'"),
        (LEAST + "[privacy]\nepsilon = -1", "Expected epsilon"),
    ),
)
def test_what_is_wrong_is_refused(tmp_path, text, why):
    with pytest.raises(ValueError, match=why):
        read_client_config(write(tmp_path, text))


def columns_of(own):
    (_, view), *_ = own.preprocessing["views"]
    return [column if isinstance(column, str) else column[0] for column in view["columns"]]


def test_an_organization_holds_what_its_file_says(tables):
    lines = (tables / "clinical.csv").read_text().splitlines()
    header, *rows = (line.split(",") for line in lines)
    own = open_client(tables / "clinical.toml").data
    truth = np.array([[float(x) for x in row[1:-1]] for row in rows])
    np.testing.assert_allclose(np.asarray(own.table.data), truth, rtol=1e-6)
    assert columns_of(own) == header[1:-1]
    assert own.labels.tolist() == [row[-1] for row in rows]
    assert own.classes == ["class 0", "class 1"]
    ids = [row[0] for row in rows]
    assert own.linked.tolist() == [ids.index(f"p{i}") for i in range(24)]
    (tables / "linked.txt").write_bytes("\ufeffp3\r\n  p1 \r\n\r\np2".encode())
    assert open_client(tables / "clinical.toml").data.digest == hash_ids(["p3", "p1", "p2"])


def test_columns_are_dropped_categories_told_apart_and_gaps_filled(tables):
    lines = (tables / "genetic.csv").read_text().splitlines()
    ward = [line + f",{i % 3}" for i, line in enumerate(lines[1:])]
    ward[4] = ",".join([ward[4].split(",")[0], "", *ward[4].split(",")[2:]])
    (tables / "genetic.csv").write_text("\n".join([lines[0] + ",ward", *ward]) + "\n")
    path = tables / "genetic.toml"
    path.write_text(path.read_text() + 'drop = ["x5"]\ncategorical = ["ward"]\nimpute = "mean"\n')
    own = open_client(path).data
    assert own.impute == "mean"
    assert columns_of(own) == [*(f"x{j}" for j in range(5)), "ward"]
    assert own.table.n_columns == 5 + 3  # a column for every ward
    path.write_text(path.read_text().replace('impute = "mean"', 'impute = "mode"'))
    with pytest.raises(ValueError, match="impute"):
        open_client(path)


def test_privacy_and_device_reach_the_organization_and_what_is_not_there_is_refused(tables):
    path = tables / "clinical.toml"
    text = path.read_text()
    path.write_text(text + 'device = "cpu"\n[privacy]\nepsilon = 2.0\n')
    client = open_client(path)
    assert (client.privacy, client.device.type) == (Privacy(2.0), "cpu")
    wrong = [text.replace(f'= "{column}"', '= "nothing"') for column in ("id", "label")]
    for changed in (text + 'device = "nothing"', *wrong):
        path.write_text(changed)
        with pytest.raises(ValueError, match="nothing"):
            open_client(path)
    with pytest.raises(FileNotFoundError, match=r"none\.toml"):
        open_client(tables / "none.toml")


def test_a_part_reads_new_files_as_the_table_was_read(tables):
    clients = {name: open_client(tables / f"{name}.toml") for name in NAMES}
    train(clients, settings(rounds=1, local_steps=1, label_holder="clinical"))
    recipe = hv.load(tables / "clinical" / "part.hotview").metadata_["preprocessing"]
    assert recipe == clients["clinical"].data.preprocessing
    assert recipe["id_column"] == "id"


PAIR = ("clinical", "genetic")
OTHER = Settings(
    **{"rounds": 3, "hidden": (64, 32), "label_holder": "clinical", "share_features": True},
    **{"coupling": "hot-pairwise", "learning_rate": 0.01},
)


@pytest.mark.parametrize("settings", (Settings(), OTHER, Settings(hidden=())))
def test_what_is_told_in_a_form_that_flower_takes_is_read_again(settings):
    from flwr.common.serde import user_config_from_proto, user_config_to_proto

    told = format_run_config(PAIR, settings)
    config = read_run_config(user_config_from_proto(user_config_to_proto(told)))
    assert config.organizations == list(PAIR)
    assert config.settings == settings


def test_what_is_not_said_has_its_default():
    config = RunConfig(["a", "b"], Settings(), Path("coordinator"), 600.0, 600.0)
    assert read_run_config({"organizations": "a, b"}) == config


@pytest.mark.parametrize(
    ("told", "message"),
    (
        ({"round": 3}, "'round'"),
        ({"hidden": "128;64"}, "whole numbers with commas"),
        ({"timeout": 0.0}, "timeout"),
        ({"coupling": "cca"}, "coupling"),
        *(({"organizations": names}, "two organizations or more") for names in ("", "a", "a,a")),
    ),
)
def test_what_means_nothing_is_refused(told, message):
    with pytest.raises(ValueError, match=message):
        read_run_config({"organizations": "a,b", **told})
