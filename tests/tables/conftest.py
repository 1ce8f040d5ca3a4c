import pytest

from hotview.tables.files import Options, open_table


@pytest.fixture
def table(tmp_path):
    """Make an opened table from text."""

    def make(text, name="a.csv", **options):
        path = tmp_path / name
        path.write_text(text)
        return open_table(path, Options(**options))

    return make
