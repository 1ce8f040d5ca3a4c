import datetime
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.preprocessing import OneHotEncoder

from hotview.datasets.files import Options
from hotview.ingest.columns import Column, ViewColumns, choose_columns, encode_table
from hotview.ingest.dates import DateFormat
from hotview.ingest.numbers import NumberFormat
from hotview.ingest.tables import open_table

PEOPLE = "id,age,sex,town\n1,31,F,Bonn\n2,,M,Ulm\n3,54,,Bonn\n4,7,M,Ulm\n5,7,F,Bonn\n6,8,F,Ulm\n"


def test_numbers_stay_and_text_becomes_categories(table):
    view = choose_columns(table(PEOPLE), {"id"}, ())
    assert view.columns == (
        Column("age"),
        Column("sex", ("F", "M")),
        Column("town", ("Bonn", "Ulm")),
    )
    assert view.n_columns == 5


def test_categories_are_one_hot_as_in_scikit_learn(table):
    opened = table(PEOPLE)
    X = encode_table(opened, choose_columns(opened, {"id"}, ())).X
    towns = np.array(opened.read_text(["town"])[0])[:, None]
    np.testing.assert_array_equal(X[:, 3:], OneHotEncoder(sparse_output=False).fit_transform(towns))
    np.testing.assert_array_equal(X[:, 0], [31, np.nan, 54, 7, 7, 8])


def test_a_missing_category_is_missing_in_all_its_columns(table):
    opened = table(PEOPLE)
    X = encode_table(opened, choose_columns(opened, {"id"}, ())).X
    assert np.isnan(X[2, 1:3]).all()
    assert not np.isnan(X[[0, 1, 3, 4, 5], 1:3]).any()


def test_an_unseen_category_is_zero_in_all_columns_and_reported(table):
    view = choose_columns(table(PEOPLE), {"id"}, ())
    new = table("town,sex,age\nKiel,F,3\nUlm,X,4\n", "b.csv")  # and columns in another order
    encoded = encode_table(new, view)
    np.testing.assert_array_equal(encoded.X, [[3, 1, 0, 0, 0], [4, 0, 0, 0, 1]])
    assert encoded.unseen == {"sex": ["X"], "town": ["Kiel"]}


def test_numbers_can_be_categories(table):
    view = choose_columns(table("ward,age\n1,30\n2,40\n1,50\n"), (), {"ward"})
    assert view.columns == (Column("ward", ("1", "2")), Column("age"))


def test_free_text_raises_all_columns_at_once(table):
    rows = "\n".join(f"person {i},{i},street {i % 60}" for i in range(130))
    text = f"name,age,street\n{rows}\n"
    with pytest.raises(ValueError, match=r"'name' \(130 different.*'street' \(60 different") as e:
        choose_columns(table(text), (), ())
    assert "drop=['name', 'street']" in str(e.value)
    view = choose_columns(table(text), {"name"}, {"street"})  # on explicit request
    assert view.n_columns == 61


def test_a_decimal_comma_is_recognized(table):
    opened = table("dose;age\n1,5;3\n2,5;4\n-3,25;5\n", delimiter=";")
    view = choose_columns(opened, (), ())
    assert view.columns == (Column("dose", None, NumberFormat(",")), Column("age"))
    encoded = encode_table(opened, view)
    np.testing.assert_array_equal(encoded.X, [[1.5, 3], [2.5, 4], [-3.25, 5]])
    assert encoded.formats == {"dose": "decimal point ',' ('1,5' is 1.5)"}


def test_few_rows_of_names_are_no_categories(table):
    with pytest.raises(ValueError, match=r"'name' \(3 different"):
        choose_columns(table("name,age\nanna,1\nbert,2\ncarl,3\n"), (), ())


def test_one_word_among_numbers_is_a_mistake_and_not_a_category(table):
    rows = "\n".join(["31"] * 11 + ["twelve"] + ["7"] * 5)
    with pytest.raises(
        ValueError, match=r"but for 1 of 17 cells, the first being 'twelve' in row 12"
    ):
        choose_columns(table(f"age\n{rows}\n"), (), ())
    assert choose_columns(table(f"age\n{rows}\n"), (), {"age"}).n_columns == 3


def test_a_saved_index_raises(table):
    with pytest.raises(ValueError, match="looks like a row index"):
        choose_columns(table(",age\n0,3\n1,4\n"), (), ())
    assert choose_columns(table(",age\n0,3\n1,4\n"), {""}, ()).n_columns == 1


def test_a_column_that_is_gone_is_named(table):
    view = choose_columns(table("age,weight\n1,2\n"), (), ())
    with pytest.raises(ValueError, match=r"no column 'weight', as at fit. Did you mean 'Weight'"):
        encode_table(table("age,Weight\n1,2\n", "b.csv"), view)


def test_text_far_down_is_found(table):
    rows = "\n".join(["1.5"] * 100_000 + ["A", "B"] * 50_000)
    opened = table(f"dose,age\n{rows.replace(chr(10), ',1' + chr(10))},1\n")
    assert opened.find_text() == ["dose"]


def test_parquet_columns_are_what_their_types_say(tmp_path):
    people = pa.table(
        {
            "age": [31, None, 5, 6],
            "ill": [True, False, None, True],
            "sex": pa.array(["F", "M", "F", "M"]).dictionary_encode(),
        }
    )
    parquet.write_table(people, tmp_path / "a.parquet")
    opened = open_table(tmp_path / "a.parquet", Options())
    view = choose_columns(opened, (), ())
    assert view.columns == (Column("age"), Column("ill"), Column("sex", ("F", "M")))
    X = encode_table(opened, view).X
    np.testing.assert_array_equal(X[0], [31, 1, 1, 0])
    np.testing.assert_array_equal(X[1], [np.nan, 0, 0, 1])


@pytest.mark.parametrize(
    "kind",
    (pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
    ids=str,
)
def test_dates_of_parquet_files_are_days_since_the_first(tmp_path, kind):
    born = [datetime.date(2000, 2, 28), None, datetime.date(2001, 3, 1)]
    people = pa.table({"born": pa.array(born, pa.date32()).cast(kind), "age": [1, 2, 3]})
    parquet.write_table(people, tmp_path / "a.parquet")
    opened = open_table(tmp_path / "a.parquet", Options())
    view = choose_columns(opened, (), ())
    assert view.columns == (Column("born", None, DateFormat("2000-02-28")), Column("age"))
    X = encode_table(opened, view).X
    np.testing.assert_array_equal(X[:, 0], [0, np.nan, (born[2] - born[0]).days])


@pytest.mark.parametrize(
    "view", (ViewColumns(None, 4), ViewColumns((Column("a"), Column("b", ("x", "ü"))), 3))
)
def test_columns_survive_json(view):
    assert ViewColumns.from_json(json.loads(json.dumps(view.to_json()))) == view
