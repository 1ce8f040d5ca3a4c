import pytest

from hotview.cli.options import files_by_view, parse_formats
from hotview.cli.runner import UsageError


def test_files_are_split_by_view():
    assert files_by_view(["a=x.csv", "b=y=z.csv"]) == {"a": "x.csv", "b": "y=z.csv"}
    assert files_by_view(None) == {}


@pytest.mark.parametrize("spec", ("x.csv", "=x.csv", "a="))
def test_incomplete_specs_raise(spec):
    with pytest.raises(UsageError, match="VIEW=FILE"):
        files_by_view([spec])


def test_only_given_options_count():
    given = {"header": None, "delimiter": [";"], "decimal": None}
    assert parse_formats(given) == {"delimiter": ";"}
    assert parse_formats({"header": False, "decimal": [","]}) == {"header": False, "decimal": ","}
