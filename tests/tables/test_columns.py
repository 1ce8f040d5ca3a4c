import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.preprocessing import OneHotEncoder

from hotview.data.columns import Column, choose_columns, encode_table
from hotview.data.dates import DateFormat
from hotview.data.numbers import NumberFormat
from hotview.data.options import Options
from hotview.tables.files import open_table

DAY = DateFormat("2024-01-31")
PEOPLE = "id,age,sex,town\n1,31,F,Bonn\n2,,M,Ulm\n3,54,,Bonn\n4,7,M,Ulm\n5,7,F,Bonn\n6,8,F,Ulm\n"


def test_categories_are_one_hot_as_in_scikit_learn(table):
    opened = table(PEOPLE)
    view = choose_columns(opened, {"id"}, ())
    assert view.columns == (
        Column("age"),
        Column("sex", ("F", "M")),
        Column("town", ("Bonn", "Ulm")),
    )
    assert view.n_columns == 5
    X = encode_table(opened, view).X
    towns = np.array(opened.read_text(["town"])[0])[:, None]
    np.testing.assert_array_equal(X[:, 3:], OneHotEncoder(sparse_output=False).fit_transform(towns))
    np.testing.assert_array_equal(X[:, 0], [31, np.nan, 54, 7, 7, 8])
    nan = np.nan  # a missing category is missing in all its columns
    sexes = [[1, 0], [0, 1], [nan, nan], [0, 1], [1, 0], [1, 0]]
    np.testing.assert_array_equal(X[:, 1:3], sexes)


def test_an_unseen_category_is_zero_in_all_columns_and_reported(table):
    view = choose_columns(table(PEOPLE), {"id"}, ())
    new = table("town,sex,age\nKiel,F,3\nUlm,X,4\n", "b.csv")  # and columns in another order
    encoded = encode_table(new, view)
    np.testing.assert_array_equal(encoded.X, [[3, 1, 0, 0, 0], [4, 0, 0, 0, 1]])
    assert encoded.unseen == {"sex": ["X"], "town": ["Kiel"]}


def test_free_text_raises_all_columns_at_once(table):
    rows = "\n".join(f"person {i},{i},street {i % 60}" for i in range(130))
    text = f"name,age,street\n{rows}\n"
    with pytest.raises(ValueError, match=r"'name' \(130 different.*'street' \(60 different") as e:
        choose_columns(table(text), (), ())
    assert "drop=['name', 'street']" in str(e.value)
    view = choose_columns(table(text), {"name"}, {"street"})  # on explicit request
    assert view.n_columns == 61
    with pytest.raises(ValueError, match=r"'name' \(3 different"):  # of three rows
        choose_columns(table("name,age\nanna,1\nbert,2\ncarl,3\n"), (), ())


@pytest.mark.parametrize("day", ("{} mars 2024", "{}/2024", "Mo, {}. Mai 2024", "2024-{}"))
def test_dates_in_other_spellings_are_not_said_to_be_ids(table, day):
    rows = "\n".join(f"{day.format(i)!r},person {i}" for i in range(1, 13))
    with pytest.raises(ValueError, match="expected text columns") as caught:
        choose_columns(table(f"seen,who\n{rows}\n".replace("'", '"')), (), ())
    assert "Dates are read if they are written as 2024-01-31." in str(caught.value)
    assert "id_column='who'" in str(caught.value)
    with pytest.raises(ValueError, match="expected text columns") as caught:
        choose_columns(table(f"seen,who\n{rows}\n".replace("'", '"')), ("who",), ())
    assert "id_column" not in str(caught.value)


def test_one_word_among_numbers_is_a_mistake_and_not_a_category(table):
    rows = "\n".join(["31"] * 11 + ["twelve"] + ["7"] * 5)
    with pytest.raises(
        ValueError, match=r"but for 1 of 17 cells, the first being 'twelve' in row 12"
    ):
        choose_columns(table(f"age\n{rows}\n"), (), ())
    assert choose_columns(table(f"age\n{rows}\n"), (), {"age"}).n_columns == 3
    view = choose_columns(table("ward,age\n1,30\n2,40\n1,50\n"), (), {"ward"})
    assert view.columns == (Column("ward", ("1", "2")), Column("age"))  # by request


def test_a_column_that_is_gone_is_named(table):
    view = choose_columns(table("age,weight\n1,2\n"), (), ())
    with pytest.raises(ValueError, match=r"no column 'weight', as at fit. Did you mean 'Weight'"):
        encode_table(table("age,Weight\n1,2\n", "b.csv"), view)


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


def column(*cells, name="x"):
    """Text of a table of one column, whose cells may have commas."""
    return "".join(f"{cell}\n" for cell in (name, *cells))


def encode(table, text, name="a.tsv", **options):
    opened = table(text, name, **options)
    return encode_table(opened, choose_columns(opened, (), ()))


def test_numbers_and_dates_of_text_columns_become_numbers(table):
    text = "dose\tsex\tseen\tiron\n1,050 mg\tF\t31.01.2024\t5\n850.5 mg\tM\t01.02.2024\t<4\n"
    opened = table(text + "-\tF\t\t6\n7 mg\tM\t03.02.2024\t7\n", "a.tsv")
    view = choose_columns(opened, (), ())
    assert view.columns == (
        Column("dose", None, NumberFormat(".", ",", "mg")),
        Column("sex", ("F", "M")),
        Column("seen", None, DateFormat("2024-01-31")),
        Column("iron", None, NumberFormat()),
    )
    encoded = encode_table(opened, view)
    nan = np.nan
    expected = [[1050, 1, 0, 0, 5], [850.5, 0, 1, 1, 4], [nan, 1, 0, nan, 6], [7, 0, 1, 3, 7]]
    np.testing.assert_array_equal(encoded.X, expected)
    assert encoded.formats == {
        "dose": "thousands separated by ',' ('1,050 mg' is 1050), unit 'mg', '-' missing (1 cell)",
        "seen": "dates, read as days since 2024-01-31",
        "iron": "'<4' read as the limit (1 cell)",
    }
    assert encoded.notes == []


@pytest.mark.parametrize(
    ("beside", "numbers"),
    (
        ("0.5", [142741, 850]),  # a decimal point in a column of numbers
        ("1.5 mg", [142741, 850]),  # or of text
        ("0,5", [142.741, 850]),
        ("31.12.2024", None),  # dates say nothing about numbers
        ("1.250", None),  # nor do points that may separate thousands
        ("7", None),
    ),
)
def test_other_columns_of_a_file_decide_between_two_readings(table, beside, numbers):
    text = f"x\ty\n142,741\t{beside}\n850\t{beside}\n"
    if numbers is None:
        with pytest.raises(
            ValueError, match=r"'142,741'. Pass decimal={'a': ','} if it is 142.741"
        ):
            encode(table, text)
    else:
        np.testing.assert_array_equal(encode(table, text).X[:, 0], numbers)


def test_points_beside_decimal_commas_are_refused_until_the_user_decides(table):
    text = "x\ty\n1.250\t1,5\n12.500\t2,5\n"
    with pytest.raises(ValueError, match=r"'x', such as '1.250', have a point.*decimal=\{'a': ','"):
        encode(table, text)
    for options in ({"decimal": {"a": ","}}, {"thousands": "."}):
        np.testing.assert_array_equal(encode(table, text, **options).X, [[1250, 1.5], [12500, 2.5]])
    plain = encode(table, text.replace("12.500", "12.5"))
    np.testing.assert_array_equal(plain.X, [[1.25, 1.5], [12.5, 2.5]])


def test_points_in_a_file_of_semicolons_may_separate_thousands(table):
    text = "x;y\n1.050;a\n12.500;b\n" + "".join(f"{i}.{100 + i};a\n850;b\n" for i in range(2, 12))
    with pytest.raises(ValueError, match=r"'x'.*two ways.*'1.050'"):
        encode(table, text, "a.csv", delimiter=";")
    decided = encode(table, text, "a.csv", delimiter=";", decimal={"a": "."})
    assert decided.X[0, 0] == 1.05


GROUPED = [*(f"{i},{100 + i}" for i in range(1, 13)), "850"]
#: Cells of the fit, cells of a new file, and the numbers that these are.
AS_AT_FIT = [
    (GROUPED, ["1,050"], [1050]),
    (["1,5", "2,5"], ["1,050"], [1.05]),
    (["5", "6"], ["<8", "n.a."], [8, np.nan]),
    (["03/25/2024", "01/02/2024"], ["04/05/2024"], [94]),
    (["31.01.2024", "1.2.2024"], ["2024-01-30 12:00"], [-0.5]),
]


@pytest.mark.parametrize(("fit", "new", "numbers"), AS_AT_FIT)
def test_new_files_are_read_in_the_format_of_the_fit(table, fit, new, numbers):
    view = choose_columns(table(column(*fit), "a.tsv"), (), ())
    encoded = encode_table(table(column(*new), "b.tsv"), view)
    np.testing.assert_allclose(encoded.X[:, 0], numbers)
    assert encoded.notes == []


OTHERWISE = [
    (["5 mg", "6 mg"], ["7"], [7], "unit of column 'x' was 'mg' at fit, and is none here. The"),
    (["5", "6"], ["7 mg"], [7], "the unit of column 'x' was none at fit, and is 'mg' here."),
    (["1.5 mg", "6 mg"], ["1.050"], [1.05], "was 'mg' at fit, and is none here."),
    (["1.5", "6"], ["1,5"], [1.5], "is written otherwise than at fit: decimal point ',' ('1,5' is"),
    (["1,5", "6"], ["1.5"], [1.5], "is written otherwise than at fit: decimal point '.'."),
    (["2024-01-31"], ["25/02/2024"], [25], "otherwise than at fit: dates, .* (day first)"),
]


@pytest.mark.parametrize(("fit", "new", "numbers", "note"), OTHERWISE)
def test_new_files_that_are_written_otherwise_are_noted(table, fit, new, numbers, note):
    view = choose_columns(table(column(*fit), "a.tsv"), (), ())
    encoded = encode_table(table(column(*new), "b.tsv"), view)
    np.testing.assert_allclose(encoded.X[:, 0], numbers)
    [found] = encoded.notes
    assert all(part in found for part in ("b.tsv", *note.split(".*")))


NOT_AS_AT_FIT = [
    (["5 mg", "6 mg"], ["7 g"], "was 'mg' at fit, and is 'g' here. Convert the numbers to 'mg'"),
    (["5 mg", "6 mg"], ["7 mg", "8"], "the unit 'mg' in column 'x'.* got '8' in row 2"),
    (["5", "6"], ["a=b"], r"pass missing=\{'b': \['a=b'\]\}"),
    (["5.5", "6"], ["1,050"], r"two ways.*decimal=\{'b': ','\} if it is 1.05"),
    (["1,5", "2,5"], ["1.050"], r"two ways.*thousands=\{'b': '.'\} if it is 1050"),
    (["2024-01-31", "2024-02-01"], ["soon"], "expected dates in column 'x', as at fit, but got"),
    (["2024-01-31", "2024-02-01"], ["03/04/2024"], r"two ways.*dates=\{'b': 'day-first'\}"),
]


@pytest.mark.parametrize(("fit", "new", "message"), NOT_AS_AT_FIT)
def test_new_files_that_cannot_be_read_as_at_fit_are_refused(table, fit, new, message):
    view = choose_columns(table(column(*fit), "a.tsv"), (), ())
    with pytest.raises(ValueError, match=f"b.tsv.*{message}"):
        encode_table(table(column(*new), "b.tsv"), view)


def test_what_is_said_of_a_new_file_comes_before_the_format_of_the_fit(table):
    view = choose_columns(table(column(*GROUPED), "a.tsv"), (), ())
    encoded = encode_table(table(column("1.050"), "b.tsv", thousands={"b": "."}), view)
    assert encoded.X[0, 0] == 1050
    encoded = encode_table(table(column("1,050"), "b.tsv", decimal={"b": ","}), view)
    assert encoded.X[0, 0] == 1.05
    view = choose_columns(table(column("03/25/2024", "01/02/2024"), "a.tsv"), (), ())
    encoded = encode_table(table(column("03/04/2024"), "b.tsv", dates={"b": "day-first"}), view)
    assert encoded.X[0, 0] == 92  # 3 April, where 25 March was the day 83
    said = {"thousands": {"": ","}, "dates": "day-first"}  # of all files, at fit too
    view = choose_columns(table(column("1,050", "2,050"), "a.tsv", **said), (), ())
    encoded = encode_table(table(column("<5", "1,050"), "b.tsv", **said), view)
    np.testing.assert_array_equal(encoded.X, [[5], [1050]])


def test_points_beside_decimal_commas_stop_in_new_files_too(table):
    rows = "".join(f'"{i},050",{i}.5 %\n' for i in range(1, 30))
    view = choose_columns(table(f"cost,share\n850,1.5 %\n{rows}"), (), ())
    new = table('cost,share\n1.050,"5,2 %"\n', "new.csv")
    with pytest.raises(
        ValueError, match=r"'cost'.*have a point, and those of column 'share' a dec"
    ):
        encode_table(new, view)
    given = table('cost,share\n1.050,"5,2 %"\n', "new.csv", decimal=",")
    np.testing.assert_array_equal(encode_table(given, view).X, [[1050, 5.2]])
