import pytest

from tests.report import records


@pytest.fixture(scope="session")
def make_one():
    """How to make a record."""
    return records.make


@pytest.fixture(scope="session")
def record():
    return records.make()
