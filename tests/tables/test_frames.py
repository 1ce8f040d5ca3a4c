"""Data frames with text columns: what they are encoded as, and what is refused."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from hotview._validation import EncodedView
from hotview.data.columns import Column, ViewColumns, choose_columns, encode_table
from hotview.data.frames import encode_known_views, encode_views
from hotview.tables.files import Options, open_table

NAN = np.nan
PEOPLE = pd.DataFrame(
    {
        "sex": ["F", "M", None, "F", "M", "F"],
        "age": [61.0, 48.0, 33.0, NAN, 70.0, 25.0],
        "ward": ["b", "a", "b", "a", "b", "b"],
    }
)
ENCODED = np.array(
    [
        [1, 0, 61, 0, 1],
        [0, 1, 48, 1, 0],
        [NAN, NAN, 33, 0, 1],
        [1, 0, NAN, 1, 0],
        [0, 1, 70, 0, 1],
        [1, 0, 25, 0, 1],
    ]
)
CONTAINERS = pytest.mark.parametrize(
    "make",
    (
        lambda frame: frame,
        lambda frame: pl.from_pandas(frame),
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    ),
    ids=("pandas", "polars", "pyarrow"),
)


def encode(*frames):
    parts = encode_views(*({"a": frame} for frame in frames))
    return [part["a"] for part in parts]


def column(values, name="x"):
    """One column, encoded, beside a number in every row."""
    [view] = encode(pd.DataFrame({name: values, "row": np.arange(float(len(values)))}))
    return view


@CONTAINERS
def test_text_columns_are_one_hot_encoded(make):
    [view] = encode(make(PEOPLE))
    assert isinstance(view, EncodedView)
    assert view.columns.columns == (
        Column("sex", ("F", "M")),
        Column("age"),
        Column("ward", ("a", "b")),
    )
    assert view.names == ("sex = F", "sex = M", "age", "ward = a", "ward = b")
    np.testing.assert_array_equal(view.X, ENCODED)
    assert PEOPLE["sex"].tolist() == ["F", "M", None, "F", "M", "F"]  # as it was


@given(st.lists(st.sampled_from("abcdeé 1"), min_size=20, max_size=60))
def test_the_encoding_is_that_of_scikit_learn(cells):
    cells = [f"v{cell}" for cell in cells]
    view = column(cells)
    expected = OneHotEncoder(sparse_output=False).fit(np.array(cells)[:, None])
    np.testing.assert_array_equal(view.X[:, :-1], expected.transform(np.array(cells)[:, None]))
    assert view.columns.columns[0].categories == tuple(c.strip() for c in expected.categories_[0])


def test_a_frame_is_encoded_as_the_file_that_it_was_written_to(tmp_path):
    frame = PEOPLE.assign(yes=[True, False, True, True, False, True])
    frame["yes"] = frame["yes"].map({True: "yes", False: "no"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    table = open_table(tmp_path / "a.csv", Options())
    columns = choose_columns(table, (), ())
    X = encode_table(table, columns).X
    [view] = encode(frame)
    assert view.columns == columns
    np.testing.assert_array_equal(view.X, X)


@pytest.mark.parametrize(
    ("values", "expected"),
    (
        (pd.array(["u", None, "v", "v"], dtype="string"), [[1, 0], [NAN, NAN], [0, 1], [0, 1]]),
        (np.array(["u", NAN, "v", "v"], dtype=object), [[1, 0], [NAN, NAN], [0, 1], [0, 1]]),
        (["u", "NA", " v ", ""], [[1, 0], [NAN, NAN], [0, 1], [NAN, NAN]]),
        (pd.Categorical(["u", None, "v", "v"]), [[1, 0], [NAN, NAN], [0, 1], [0, 1]]),
        (pd.Series([True, None, False, True], dtype=object), [[1], [NAN], [0], [1]]),
        (pd.Series([1, None, 2.5, 3], dtype=object), [[1], [NAN], [2.5], [3]]),
        (pd.Series([None] * 4, dtype=object), [[NAN]] * 4),
    ),
)
def test_missing_cells_and_objects(values, expected):
    view = column(values)
    np.testing.assert_array_equal(view.X[:, :-1], expected)


@pytest.mark.parametrize("dtype", ("Int64", "Float64", "boolean", "int8", "float32", "bool"))
def test_numbers_beside_text_of_every_type_of_pandas(dtype):
    numbers = pd.array([1, 0, 1, 1], dtype=dtype)
    frame = pd.DataFrame({"n": numbers, "t": ["u", "v", "u", "v"]})
    [view] = encode(frame)
    np.testing.assert_array_equal(view.X[:, 0], [1, 0, 1, 1])
    if dtype[0].isupper() or dtype == "boolean":
        frame["n"] = pd.array([1, None, 1, 1], dtype=dtype)
        np.testing.assert_array_equal(encode(frame)[0].X[:, 0], [1, NAN, 1, 1])
    frame["n"] = pd.arrays.SparseArray([0.0, 0.0, 2.0, 0.0])
    np.testing.assert_array_equal(encode(frame)[0].X[:, 0], [0, 0, 2, 0])


def test_categories_are_those_that_occur_sorted_whatever_the_order_of_the_type():
    levels = ["low", "mid", "high", "never"]
    values = ["mid", "low", "high", "low"]
    for values_of_type in (
        pd.Series(pd.Categorical(values, levels, ordered=True)),
        pl.Series(values, dtype=pl.Enum(levels)).to_pandas(),
    ):
        view = column(values_of_type)
        assert view.columns.columns[0].categories == ("high", "low", "mid")


def test_what_is_declared_categorical_may_be_anything():
    many = pd.Categorical([f"name {i}" for i in range(60)])
    assert column(many).shape == (60, 61)
    codes = pd.Categorical([3, 1, 3, None])
    assert column(codes).columns.columns[0].categories == ("1", "3")
    intervals = pd.cut(pd.Series([0.0, 1.0, 2.0, NAN]), [-1, 0.5, 3])
    assert column(intervals).columns.columns[0].categories == ("(-1.0, 0.5]", "(0.5, 3.0]")
    for frame in (
        pl.DataFrame({"x": pl.Series(list(map(str, many)), dtype=pl.Categorical)}),
        pa.table({"x": pa.array(list(map(str, many))).dictionary_encode()}),
    ):
        assert encode(frame)[0].shape == (60, 60)


def test_mixed_values_are_text_as_in_a_file():
    view = column([1, "x", 1.0, "x", None, "1", 2.5, 2.5, True, True])
    assert view.columns.columns[0].categories == ("1", "2.5", "True", "x")
    np.testing.assert_array_equal(view.X[:4, :4], np.eye(4)[[0, 3, 0, 3]])
    day = datetime.date(2024, 1, 31)
    assert column([day, "later", day, "later"]).names[0] == "x = 2024-01-31"


def test_categories_are_those_of_all_tables_of_a_view():
    first, second = PEOPLE[:3], PEOPLE[3:].replace({"F": "X"})
    views = encode(first, second[["ward", "sex", "age"]])
    for view, rows in zip(views, (first, second), strict=True):
        assert view.columns.columns[0] == Column("sex", ("F", "M", "X"))
        assert view.index is rows.index or view.index.equals(rows.index)
        np.testing.assert_array_equal(view.X[:, 3], rows["age"])
    np.testing.assert_array_equal(views[1].X[:, :3], [[0, 0, 1], [0, 1, 0], [0, 0, 1]])


def test_a_column_that_is_text_in_one_table_is_text_in_all():
    nobody = pd.DataFrame(NAN, index=range(2), columns=PEOPLE.columns)
    empty, view = encode(nobody, PEOPLE)
    assert np.isnan(empty.X).all()
    np.testing.assert_array_equal(view.X, ENCODED)
    numbers = pd.DataFrame({"grade": [1.0, 2.0, NAN, 1.0]})
    first, second = encode(numbers, pl.DataFrame({"grade": ["1", "low", "1", "low"]}))
    assert first.names == second.names == ("grade = 1", "grade = 2", "grade = low")
    np.testing.assert_array_equal(first.X[:2], [[1, 0, 0], [0, 1, 0]])


def test_numbers_of_different_types_in_several_tables():
    first = pd.DataFrame({"n": [1, 2], "t": ["u", "v"]})
    second = pd.DataFrame({"n": [True, False], "t": ["u", "v"]})
    third = pl.DataFrame({"n": [None, None], "t": ["u", "v"]})
    views = encode(first, second, third)
    found = np.concatenate([view.X[:, 0] for view in views])
    np.testing.assert_array_equal(found, [1, 2, 1, 0, NAN, NAN])


def test_numeric_frames_of_a_view_are_brought_into_one_order():
    frame = PEOPLE[["age"]].assign(dose=1.0)
    first, second = encode(frame, frame[["dose", "age"]])
    assert first is frame
    assert list(second) == ["age", "dose"]
    with pytest.raises(ValueError, match="it has no column 'dose'"):
        encode(frame, frame[["age"]])


def test_what_has_no_text_columns_is_returned_as_it_is():
    table = pl.DataFrame({"x": [1.0, None], "y": [True, None]})
    numbers = {"a": PEOPLE[["age"]], "b": np.eye(3), "c": None}
    no_dicts = ([PEOPLE[["age"]], np.eye(3)], [table], [pd.DataFrame(np.eye(3))])
    for views in (numbers, *no_dicts, PEOPLE, np.eye(3), "text", None, {}, []):
        [found] = encode_views(views)
        assert found is views


def test_lists_stay_lists_and_may_name_views_by_position():
    found, others = encode_views({"a": PEOPLE, "b": np.eye(6)}, [PEOPLE[:2], None])
    assert isinstance(found["a"], EncodedView)
    assert isinstance(others, list)
    assert others[0].shape == (2, 5)
    assert others[1] is None
    short = [PEOPLE]
    assert encode_views({"a": np.eye(3), "b": np.eye(3)}, short)[1] is short


COLUMNS = encode(PEOPLE)[0].columns


def known(frame, columns=COLUMNS, left_out=()):
    return encode_known_views({"a": frame}, {"a": columns}, left_out)["a"]


@CONTAINERS
def test_columns_are_found_by_name_in_any_order(make):
    view = known(make(PEOPLE[["age", "ward", "sex"]][:1]))
    np.testing.assert_array_equal(view.X, ENCODED[:1])
    assert view.columns is COLUMNS


def test_values_that_are_not_known_are_zero_with_one_warning():
    frame = PEOPLE.assign(sex=["X", "Y", "F", "F", "X", None], ward="c")
    text = r"0 in all categories: 'X', 'Y' in column 'sex' of view 'a'; 'c' in column 'ward'"
    with pytest.warns(UserWarning, match=text) as caught:
        view = known(frame)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(
        view.X[:, :2], [[0, 0], [0, 0], [1, 0], [1, 0], [0, 0], [NAN] * 2]
    )
    np.testing.assert_array_equal(view.X[:, 3:], np.zeros((6, 2)))


def test_additional_columns_are_left_out_with_one_warning_of_all_views():
    frames = {name: PEOPLE.assign(site="n", id=[*range(6)]) for name in "ab"}
    text = "left out: 'site', 'id' of view 'a'; 'site', 'id' of view 'b'"
    with pytest.warns(UserWarning, match=text) as caught:
        found = encode_known_views(frames, dict.fromkeys("ab", COLUMNS))
    assert len(caught) == 1
    np.testing.assert_array_equal(found["b"].X, ENCODED)
    known(frames["a"], left_out={"site", "id"})  # no warning
    with pytest.warns(UserWarning, match="left out: 'site' of view 'a'") as caught:
        first, second = encode(PEOPLE, PEOPLE.assign(site="north"))
    assert len(caught) == 1
    np.testing.assert_array_equal(first.X, second.X)


def test_numeric_frames_are_matched_and_copied_only_if_they_differ():
    columns = ViewColumns((Column("x"), Column("y")), 2)
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    assert known(frame, columns) is frame
    for other in (frame[["y", "x"]], pl.from_pandas(frame[["y", "x"]])):
        view = known(other, columns)
        assert type(view) is type(other)
        np.testing.assert_array_equal(np.asarray(view), frame)
    with pytest.warns(UserWarning, match="'z' of view 'a'"):
        pd.testing.assert_frame_equal(known(frame.assign(z="u"), columns), frame)
    objects = known(frame.astype(object), columns)
    np.testing.assert_array_equal(objects.X, frame)
    unnamed = pd.DataFrame(np.eye(2))
    assert known(unnamed, columns) is unnamed  # by position


def test_missing_columns_and_text_where_the_fit_knew_no_names_are_refused():
    with pytest.raises(
        ValueError, match=r"'a' to have the columns.*no column 'sex'\. Did you mean 'Sex'"
    ):
        known(PEOPLE.rename(columns={"sex": "Sex"}))
    with pytest.raises(ValueError, match="no column 'sex', 'ward'"):
        known(PEOPLE[["age"]])
    numeric, unnamed = PEOPLE[["age"]], r"'a' to hold numbers.*no names at fit.*not numeric: 'sex'"
    assert known(numeric, ViewColumns(None, 1)) is numeric
    with pytest.raises(TypeError, match=unnamed):
        known(PEOPLE, ViewColumns(None, 3))


@pytest.mark.parametrize(
    ("make", "drop", "categorical"),
    (
        (pd.DataFrame, r"X\.drop\(columns=\['x'\]\)", r"X\.astype\({'x': 'category'}\)"),
        (pl.DataFrame, r"X\.drop\(\['x'\]\)", r"X\.cast\({'x': polars\.Categorical}\)"),
        (pa.table, r"X\.drop_columns\(\['x'\]\)", r"X\['x'\]\.dictionary_encode\(\)"),
    ),
    ids=("pandas", "polars", "pyarrow"),
)
def test_free_text_is_refused_with_what_to_do_in_python(make, drop, categorical):
    with pytest.raises(
        ValueError, match=f"^view 'a': expected text columns.*{drop}.*{categorical}"
    ):
        encode(make({"x": [f"name {i}" for i in range(20)]}))
    words = [str(i) for i in range(19)] + ["unknown"]
    with pytest.raises(ValueError, match=f"numbers but for 1 of 20 cells.*{categorical}"):
        encode(make({"x": words}))


def test_numbers_and_dates_as_people_write_them_are_read_as_in_files():
    frame = pd.DataFrame(
        {
            "x": [f"{i},5 mmol/L" for i in range(20)],
            "day": pd.date_range("2024-01-31", periods=20),
            "visit": [f"{i + 1}.02.2024" for i in range(20)],
        }
    )
    [view] = encode(frame)
    np.testing.assert_array_equal(view.X, np.arange(20.0)[:, None] + [0.5, 0, 0])
    again = encode_known_views({"a": frame.iloc[[3]]}, {"a": view.columns})["a"]
    np.testing.assert_array_equal(again.X, [[3.5, 3, 3]])
    other = frame.assign(x=[f"{i} mg/dL" for i in range(20)])
    with pytest.raises(ValueError, match="unit of column 'x' was 'mmol/L' at fit, and is 'mg/dL'"):
        encode_known_views({"a": other}, {"a": view.columns})
    plain = frame.assign(x=np.arange(20.0))
    otherwise = pytest.warns(UserWarning, match="written otherwise than at fit")
    with otherwise, pytest.warns(UserWarning, match="'mmol/L' at fit, and is none here"):
        encode_known_views({"a": plain}, {"a": view.columns})
    with pytest.raises(ValueError, match=r"two ways.*decimal=',' where the file is read"):
        encode(pd.DataFrame({"x": [f"1,{i}" for i in range(100, 120)]}))


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    (
        (PEOPLE.set_axis([0, 1, 2], axis=1), TypeError, r"named by text.*called 0 \(int\)"),
        (PEOPLE.set_axis(["x", "x", "y"], axis=1), ValueError, "own name, but 'x' occur more"),
        (PEOPLE.assign(x=[object()] * 6), TypeError, "'x' of view 'a'.*in row 0 it holds a object"),
        (PEOPLE.assign(x=1j), TypeError, "'x' of view 'a'.*holds a complex"),
        (pl.DataFrame({"x": [[1]]}), ValueError, "view 'a': column 'x' holds large_list<"),
        (PEOPLE.assign(sex="a\nb"), ValueError, "view 'a', in row 1, has a line break"),
        (pa.Table.from_pandas(PEOPLE.set_axis(list("uvwxyz"))), ValueError,
         r"row index.*X\.drop_columns\(\['__index_level_0__'\]\)"),
    ),
    ids=range(7),
)  # fmt: skip
def test_other_columns_are_refused(frame, error, message):
    for several in ((frame,), (frame, frame)):
        with pytest.raises(error, match=message):
            encode(*several)
