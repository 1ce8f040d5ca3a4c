import pytest

from hotview.cli.options import files_by_view, methods_by_view, parse_formats, spread_methods
from hotview.cli.runner import UsageError


def test_files_are_split_by_view():
    assert files_by_view(["a=x.csv", "b=y=z.csv"]) == {"a": "x.csv", "b": "y=z.csv"}
    assert files_by_view(None) == {}


@pytest.mark.parametrize("spec", ("x.csv", "=x.csv", "a="))
def test_incomplete_specs_raise(spec):
    with pytest.raises(UsageError, match="VIEW=FILE"):
        files_by_view([spec])


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


def test_without_a_method_there_is_none():
    assert methods_by_view(None) == methods_by_view([]) == {}


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


def test_only_given_options_count():
    given = {"header": None, "delimiter": [";"], "decimal": None}
    assert parse_formats(given) == {"delimiter": ";"}
    assert parse_formats({"header": False, "decimal": [","]}) == {"header": False, "decimal": ","}
