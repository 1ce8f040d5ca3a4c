"""Options and configuration files: what is written is read, and repeats the fit."""

import json
import re
import tomllib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.main import get_command

import hotview as hv
from hotview.cli import app
from hotview.cli.fit import parse_settings, read_config, write_config
from hotview.cli.options import files_by_view, methods_by_view, parse_formats, spread_methods
from hotview.cli.runner import UsageError
from hotview.data.options import PER_FILE

from .conftest import QUICK

EVERYTHING = """
views = ["blood=/data/a.csv", "the scan=b.npy"]
labels = "labels.csv"
out = "models/a.hotview"
id_column = "id"
label_column = "state"
drop = ["note", "x y"]
match_ids = "zeros"
hold_out = 0.2
linked_only = true
max_epochs = 5
unlabeled_marker = -1
impute = "mean"
decimal = ","
header = false

[ids]
"the scan" = "who.csv"

[delimiter]
blood = ";"

[missing]
blood = ["?", -99]

[encoding]
labels = "latin-1"

[parameters]
hidden = [8, 4]
class_weight = "balanced"
coupling__reg = 0.5
"""


def test_a_configuration_is_options_as_they_would_be_typed(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(EVERYTHING, encoding="utf-8-sig")
    assert read_config(path) == {
        "out": str(tmp_path / "models/a.hotview"),
        "id_column": "id",
        "label_column": "state",
        "drop": ["note", "x y"],
        "match_ids": ["zeros"],
        "hold_out": 0.2,
        "linked_only": True,
        "max_epochs": 5,
        "unlabeled_marker": "-1",
        "impute": ["mean"],
        "decimal": [","],
        "header": False,
        "views": ["blood=/data/a.csv", f"the scan={tmp_path / 'b.npy'}"],
        "ids": [f"the scan={tmp_path / 'who.csv'}"],
        "delimiter": ["blood=;"],
        "missing": ["blood=?", "blood=-99"],
        "labels": str(tmp_path / "labels.csv"),
        "encoding": ["labels=latin-1"],
        "settings": ["hidden=(8, 4)", "class_weight=balanced", "coupling__reg=0.5"],
    }


REFUSED = (
    ("id_column = \n", "Expected .*study.toml to be TOML, but it is not: .*line 1"),
    ('lable_column = "y"\n', "unknown key 'lable_column'. Did you mean 'label_column'?"),
    ("force = true\n", "unknown key 'force'"),
    ("labels = 5\n", "Expected 'labels' in .* to be text, but it is 5"),
    ("views = 'a.csv'\n", "Expected 'views' in .* to be a list, but it is 'a.csv'"),
    ("ids = 'a.csv'\n", "Expected 'ids' in .* to be a table"),
    ("[sheet]\na = []\n", r"Expected 'sheet' in .* to be text, but it is \[\]"),
    ("max_epochs = true\n", "'max_epochs' in .* to be a whole number"),
    ("hold_out = '0.2'\n", "'hold_out' in .* to be a number, but it is '0.2'"),
)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_no_configuration_is_refused_in_a_sentence(hotview, tmp_path, text, message):
    path = tmp_path / "study.toml"
    path.write_text(text)
    result = hotview("fit", "--config", path, code=2)
    assert re.fullmatch(rf"hotview: .*{message}.*\n", result.err)


NAMES = st.text(min_size=1, max_size=8).filter(
    lambda name: (
        not set(name) & set("=/\\\0\n\r") and name not in (".", "..") and name.isprintable()
    )
)
LINES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
CHARACTERS = st.sampled_from(";|,.' \t")
LITERALS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    LINES,
    st.lists(st.integers(), max_size=3),
    st.tuples(st.integers(), st.integers()),
    st.dictionaries(st.integers(), st.floats(0, 9), max_size=2),
    st.tuples(st.tuples(st.integers()), st.none()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(NAMES, min_size=1, max_size=3, unique=True),
    st.dictionaries(st.sampled_from(["id_column", "group_column", "batch_column"]), LINES),
    st.dictionaries(
        st.sampled_from(["drop", "categorical", "variable"]), st.lists(LINES, min_size=1)
    ),
    st.data(),
)
def test_options_survive_being_written_and_read(tmp_path, names, texts, lists, data):
    views = [f"{name}={tmp_path / 'data' / f'{s}.csv'}" for s, name in enumerate(names)]
    options = {"views": views, **texts, **lists}
    for option in ("delimiter", "decimal", "thousands", "obsm", "layer"):
        if owners := data.draw(st.lists(st.sampled_from(names), unique=True)):
            options[option] = [f"{owner}={data.draw(CHARACTERS)}" for owner in owners]
    if owners := data.draw(st.lists(st.sampled_from(names), unique=True)):
        options["ids"] = [f"{owner}={tmp_path / 'who.csv'}" for owner in owners]
        options["sheet"] = [f"{owner}={data.draw(LINES)}" for owner in owners]
        options["missing"] = [f"{owner}={data.draw(LINES)}" for owner in owners]
    values = data.draw(st.dictionaries(st.sampled_from(["hidden", "x", "y__z"]), LITERALS))
    options["settings"] = [f"{name}={value!r}" for name, value in values.items()]
    path = tmp_path / "study.toml"
    write_config(path, options)
    found = read_config(path)
    assert parse_settings(found.pop("settings", [])) == values
    del options["settings"]
    for name in {*options, *found} & set(PER_FILE):
        one = parse_formats({name: found.pop(name, None)})
        assert one == parse_formats({name: options.pop(name, None)})
    assert sorted(found.pop("ids", [])) == sorted(options.pop("ids", []))
    assert found == options


def test_only_given_values_are_written_and_names_of_several_views_stay(tmp_path):
    views, ids = [str(tmp_path / "all.npz"), f"c={tmp_path / 'c.csv'}"], f"a={tmp_path / 'who.csv'}"
    given = {"views": views, "ids": [ids], "max_epochs": 0}
    absent = {"drop": [], "linked_only": False, "coupling": None}
    write_config(tmp_path / "study.toml", {**given, **absent})
    assert read_config(tmp_path / "study.toml") == given


@pytest.fixture
def messy(study, tmp_path):
    """A study with names that need quotes, and a table of another country."""
    folder = tmp_path / "my data"
    folder.mkdir()
    blood = (study / "views" / "blood.csv").read_text()
    (folder / "a 'b'.csv").write_text(blood.replace(",", ";").replace(".", ","))
    (folder / "scan.csv").write_text((study / "views" / "scan.csv").read_text())
    (folder / "labels.csv").write_text((study / "labels.csv").read_text())
    blood, scan, labels = (folder / name for name in ("a 'b'.csv", "scan.csv", "labels.csv"))
    views = (f'the "blood" 1={blood}', scan, "--labels", labels)
    columns = ("--label-column", "state", "--id-column", "id")
    formats = ("--delimiter", 'the "blood" 1=;', "--decimal", 'the "blood" 1=,')
    return (*views, *columns, *formats, "--hold-out", "0.25", "--missing", "?")


def summary(result):
    values = json.loads(result.out)
    for view in values["views"]:
        view.pop("file")
    return values


def test_what_is_written_gives_the_same_summary_and_the_same_model(
    hotview, messy, tmp_path, monkeypatch
):
    path = tmp_path / "configs" / "study.toml"
    path.parent.mkdir()
    model, again = tmp_path / "m.hotview", tmp_path / "again.hotview"
    typed = hotview("fit", *messy, *QUICK, "-o", model, "--write-config", path)
    assert f"Configuration written to {path}: hotview fit --config {path}" in typed.out
    written = tomllib.loads(path.read_text())
    assert (written["out"], written["labels"]) == ("../m.hotview", "../my data/labels.csv")
    expected = summary(hotview("fit", *messy, *QUICK, "--dry-run", "--json"))
    monkeypatch.chdir(path.parent)  # and not in the folder of the fit
    repeated = hotview("fit", "--config", "study.toml", "--dry-run", "--json", "--force")
    assert summary(repeated) == expected
    hotview("fit", "--config", "study.toml", "-o", again)
    first, second = hv.load(model), hv.load(again)
    assert first.metadata_["preprocessing"] == second.metadata_["preprocessing"]
    rng = np.random.default_rng(0)
    new = {name: rng.normal(size=(9, n)) for name, (n, _) in first.model_.shapes.items()}
    np.testing.assert_array_equal(first.predict_proba(new), second.predict_proba(new))
    assert first.get_params()["hidden"] == second.get_params()["hidden"] == (8,)


def test_typed_options_come_before_those_of_the_file(hotview, files, tmp_path):
    path, again = tmp_path / "study.toml", tmp_path / "again.toml"
    common = (*files, "--drop", "sex", "--hold-out", "0.25")
    hotview("fit", *common, "--dry-run", "--write-config", path)
    found = summary(hotview("fit", "--config", path, "--dry-run", "--json"))
    assert found["rows_held_out"] == 10
    assert found["views"][0]["left_out"] == ["id", "sex"]
    more = ("--hold-out", "0.5", "--drop", "blood_0")
    found = summary(hotview("fit", "--config", path, *more, "--dry-run", "--json"))
    assert found["rows_held_out"] == 20
    assert found["views"][0]["left_out"] == ["id", "blood_0"]
    more = ("--impute", "mean", "--dry-run", "--write-config", again)
    hotview("fit", "--config", path, *more)
    assert read_config(again) == {**read_config(path), "impute": ["mean"]}


def test_nothing_is_written_where_the_fit_cannot_begin(hotview, files, tmp_path):
    path = tmp_path / "study.toml"
    for more in (("--drop", "no", "--write-config", path), ("--write-config", path / "a.toml")):
        hotview("fit", *files, "--dry-run", *more, code=1)
    missing = hotview("fit", "--config", path, code=1)
    assert missing.err == f"hotview: There is no configuration {path}.\n"
    assert list(tmp_path.iterdir()) == []
    path.write_text("mine")
    result = hotview("fit", *files, "--dry-run", "--write-config", path, code=1)
    assert "--force" in result.err
    assert path.read_text() == "mine"
    hotview("fit", *files, "--dry-run", "--write-config", path, "--force")
    assert list(tmp_path.iterdir()) == [path]
    assert read_config(path)["id_column"] == "id"


def test_files_are_split_by_view():
    assert files_by_view(["a=x.csv", "b=y=z.csv"]) == {"a": "x.csv", "b": "y=z.csv"}
    assert files_by_view(None) == methods_by_view(None) == methods_by_view([]) == {}
    for incomplete in ("x.csv", "=x.csv", "a="):
        with pytest.raises(UsageError, match="VIEW=FILE"):
            files_by_view([incomplete])


def test_methods_are_those_of_a_view_or_of_all_others():
    for specs, expected in (
        (["mean"], "mean"),
        (["a=b=mean"], {"a=b": "mean"}),
        (["labs=median", "mean"], {"labs": "median", "genes": "mean"}),
        (["mean", "labz=median"], {"labs": "mean", "genes": "mean", "labz": "median"}),
    ):
        assert spread_methods(methods_by_view(specs), ["labs", "genes"]) == expected
    for specs, message in (
        (["=mean"], "METHOD or VIEW=METHOD"),
        (["labs="], "METHOD or VIEW=METHOD"),
        (["mean", "median"], "once for every view, but got 'median' too"),
        (["a=mean", "a=median"], "once for every view"),
    ):
        with pytest.raises(UsageError, match=message):
            methods_by_view(specs)


@pytest.mark.parametrize(
    ("name", "typed", "expected"),
    (
        ("delimiter", [",", "lab=;"], {"": ",", "lab": ";"}),
        ("delimiter", [r"lab=\t"], {"lab": "\t"}),
        ("delimiter", ["lab=="], {"lab": "="}),
        ("sheet", ["lab=a=b"], {"lab": "a=b"}),
        ("missing", ["lab=?", "lab=a=b"], {"lab": ["?", "a=b"]}),
        ("missing", ["?", "lab=x"], {"": ["?"], "lab": ["?", "x"]}),
        ("query", ["SELECT * FROM t WHERE a=1"], "SELECT * FROM t WHERE a=1"),
        ("query", ["with x as (select 1 as a) from x where a=1"], None),
    ),
)
def test_options_about_formats_may_name_a_file(name, typed, expected):
    assert parse_formats({name: typed}) == {name: typed[0] if expected is None else expected}
    for several in ([";", ","], ["lab=;", "lab=,"]):
        with pytest.raises(UsageError, match=r"Expected --delimiter once for .*';' and ','"):
            parse_formats({"delimiter": several})


@pytest.mark.parametrize("command", ("fit", "predict", "transform", "evaluate", "report"))
def test_commands_that_read_files_have_these_options(command):
    names = {option.name for option in get_command(app).commands[command].params}
    assert set(PER_FILE) <= names
