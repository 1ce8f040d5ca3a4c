"""Results of queries to DuckDB databases, which are read and nothing else."""

import sys

import duckdb
import numpy as np
import pytest

from hotview._messages import Parameter
from hotview.data.arrow import read_query
from hotview.data.options import Options
from hotview.datasets import read_views
from hotview.tables.files import open_table


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lab.duckdb"


def write(path, *statements):
    with duckdb.connect(str(path)) as database:
        for statement in statements:
            database.execute(statement)
    return path


PEOPLE = """
CREATE TABLE people AS SELECT * FROM (VALUES
    (20240131001, 31, 1.25::DECIMAL(9, 2), TRUE, 'F', DATE '2024-01-31'),
    (20240131002, NULL, 2.50::DECIMAL(9, 2), FALSE, NULL, DATE '2024-02-01')
) t(id, age, dose, ill, sex, seen)
"""


def test_a_database_of_one_table_needs_no_query(path):
    table = read_query(write(path, PEOPLE), "lab")
    np.testing.assert_array_equal(
        table.read(["age", "dose", "ill"]), [[31, 1.25, 1], [np.nan, 2.5, 0]]
    )
    assert table.find_text() == ["sex", "seen"]
    expected = [["20240131001", "20240131002"], ["F", None], ["2024-01-31", "2024-02-01"]]
    assert table.read_text(["id", "sex", "seen"]) == expected
    some = open_table(path, Options(missing=["F"]))
    assert some.read_text(["sex"]) == [[None, None]]


def test_a_view_is_the_result_of_a_query(path):
    write(path, PEOPLE, "CREATE TABLE other AS SELECT 5 AS x")
    query = "SELECT p.age * 2 AS age, o.x FROM people p, other o WHERE p.age = 31"
    for given in (query, {"lab": query}):
        np.testing.assert_array_equal(read_views(path, query=given)["lab"], [[62, 5]])


def test_one_of_several_tables_is_to_be_chosen(path):
    write(path, PEOPLE, 'CREATE TABLE "a ""b" AS SELECT 5 AS x')
    message = r"to have one table, but it has 'a \"b', 'people'.*query=\{'lab': '(.*)'\}\.$"
    with pytest.raises(ValueError, match=message) as caught:
        read_views(path)
    [suggested] = [p.value["lab"] for p in caught.value.args[0].parts if isinstance(p, Parameter)]
    np.testing.assert_array_equal(read_views(path, query=suggested)["lab"], [[5]])
    with pytest.raises(ValueError, match=r"to have one table, but it has none"):
        read_views(write(path.with_name("empty.duckdb")))


@pytest.mark.parametrize(
    ("query", "message"),
    (
        ("SELEC 1", "Parser Error.*SELEC"),
        ("SELECT * FROM peple", 'peple does not exist! Did you mean "people"?'),
        ("SELECT * FROM people WHERE FALSE", "returns no rows"),
        ("SELECT age, age AS age FROM people", "more than one column is called 'age'"),
    ),
)
def test_a_query_that_fails_is_one_line(path, query, message):
    write(path, PEOPLE)
    with pytest.raises(ValueError, match=rf"lab\.duckdb: .*{message}") as caught:
        read_query(path, options=Options(query=query))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    (
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT file FROM glob('{folder}/*')",
        "SET enable_external_access = true; SELECT * FROM read_csv('{secret}')",
        "ATTACH '{folder}/other.duckdb'",
        "COPY people TO '{folder}/copy.csv'",
        "INSTALL httpfs",
        "DROP TABLE people",
        "DELETE FROM people",
        "CREATE TABLE x (a INT)",
    ),
)
def test_a_query_has_no_access_to_other_files_and_changes_nothing(path, tmp_path, query):
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    content, before = write(path, PEOPLE).read_bytes(), sorted(tmp_path.iterdir())
    changes = query.split()[0] in ("DROP", "DELETE", "UPDATE", "CREATE")
    message = "read-only" if changes else r"lab\.duckdb: the query .* fails"
    with pytest.raises(ValueError, match=message):
        read_query(path, options=Options(query=query.format(secret=secret, folder=tmp_path)))
    assert sorted(tmp_path.iterdir()) == before
    assert path.read_bytes() == content


@pytest.mark.parametrize("value", ("[1, 2]", "INTERVAL 1 DAY", "'x'::BLOB", "TIME '10:30'"))
def test_values_that_are_neither_numbers_nor_text_are_refused(path, value):
    write(path, f"CREATE TABLE t AS SELECT {value} AS x")
    with pytest.raises(ValueError, match=r"column 'x' holds .*, not numbers.*drop=\['x'\]"):
        read_views(path)


def test_a_file_that_is_no_database_and_duckdb_that_is_not_installed(path, monkeypatch):
    path.write_bytes(b"a,b\n1,2\n" * 1000)
    with pytest.raises(ValueError, match=r"lab\.duckdb cannot be read as a DuckDB database"):
        read_views(path)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r'lab\.duckdb needs duckdb.*"hotview\[sql\]"'):
        read_views(path)
