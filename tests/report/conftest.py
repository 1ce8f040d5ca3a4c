import pytest

from tests.report import records


@pytest.fixture(scope="session")
def record():
    return records.make()
