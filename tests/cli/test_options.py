import pytest

from hotview.cli.options import by_view, written
from hotview.cli.runner import UsageError


def test_files_have_the_views_they_are_given_for():
    assert by_view(["a=x.csv", "b=y=z.csv"], "--ids") == {"a": "x.csv", "b": "y=z.csv"}
    assert by_view(None, "--ids") == {}


@pytest.mark.parametrize("spec", ("x.csv", "=x.csv", "a="))
def test_half_of_it_is_refused(spec):
    with pytest.raises(UsageError, match="VIEW=FILE"):
        by_view([spec], "--ids")


def test_only_what_was_said_counts():
    assert written(None, ";", None) == {"delimiter": ";"}
    assert written(False, None, ",") == {"header": False, "decimal": ","}
