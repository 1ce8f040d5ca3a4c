import pytest
from typer.main import get_command

from hotview.cli.main import app
from hotview.cli.options import (
    files_by_view,
    methods_by_view,
    parse_formats,
    spread_methods,
)
from hotview.cli.runner import UsageError
from hotview.datasets.files import PER_FILE


def test_files_are_split_by_view():
    assert files_by_view(["a=x.csv", "b=y=z.csv"]) == {"a": "x.csv", "b": "y=z.csv"}
    assert files_by_view(None) == methods_by_view(None) == methods_by_view([]) == {}
    for incomplete in ("x.csv", "=x.csv", "a="):
        with pytest.raises(UsageError, match="VIEW=FILE"):
            files_by_view([incomplete])


@pytest.mark.parametrize(
    ("specs", "expected"),
    (
        (["mean"], "mean"),
        (["labs=median"], {"labs": "median"}),
        (["a=b=mean"], {"a=b": "mean"}),
        (["labs=median", "mean"], {"labs": "median", "genes": "mean"}),
        (["mean", "labz=median"], {"labs": "mean", "genes": "mean", "labz": "median"}),
    ),
    ids=str,
)
def test_methods_are_those_of_a_view_or_of_all_others(specs, expected):
    assert spread_methods(methods_by_view(specs), ["labs", "genes"]) == expected


@pytest.mark.parametrize(
    ("specs", "message"),
    (
        ([""], "METHOD or VIEW=METHOD"),
        (["=mean"], "METHOD or VIEW=METHOD"),
        (["labs="], "METHOD or VIEW=METHOD"),
        (["mean", "median"], "once for every view, but got 'median' too"),
        (["a=mean", "a=median"], "once for every view"),
    ),
    ids=str,
)
def test_methods_that_are_incomplete_or_twice_raise(specs, message):
    with pytest.raises(UsageError, match=message):
        methods_by_view(specs)


@pytest.mark.parametrize(
    ("name", "typed", "expected"),
    (
        ("delimiter", [";"], ";"),
        ("delimiter", ["lab=;"], {"lab": ";"}),
        ("delimiter", [",", "lab=;"], {"": ",", "lab": ";"}),
        ("delimiter", [r"\t"], "\t"),
        ("delimiter", [r"lab=\t"], {"lab": "\t"}),
        ("delimiter", ["="], "="),
        ("delimiter", ["lab=="], {"lab": "="}),
        ("decimal", ["year=2024=,"], {"year=2024": ","}),
        ("thousands", ["lab= "], {"lab": " "}),
        ("encoding", ["a b=latin-1"], {"a b": "latin-1"}),
        ("sheet", ["lab=a=b"], {"lab": "a=b"}),
        ("missing", ["?", "unknown"], ["?", "unknown"]),
        ("missing", ["lab=?", "lab=a=b"], {"lab": ["?", "a=b"]}),
        ("missing", ["?", "lab=x"], {"": ["?"], "lab": ["?", "x"]}),
        ("query", ["SELECT * FROM t WHERE a=1"], "SELECT * FROM t WHERE a=1"),
        ("query", ["lab=SELECT * FROM t WHERE a=1"], {"lab": "SELECT * FROM t WHERE a=1"}),
        ("query", ["my lab=FROM t"], {"my lab": "FROM t"}),
        ("query", ["with x as (select 1 as a) from x where a=1"], None),
        ("query", ["(select 1) union select 1 where 1=1"], None),
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
