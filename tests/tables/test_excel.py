"""Sheets of xlsx files: what is read, and what is refused instead of being lost."""

import datetime
import sys
import warnings
import zipfile

import numpy as np
import pytest
from openpyxl import Workbook, load_workbook
from openpyxl.worksheet.formula import ArrayFormula

from hotview.data.arrow import read_sheet
from hotview.datasets import read_views
from hotview.tables.files import Options, open_table

NAN = np.nan


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lab.xlsx"


def write(path, rows, **others):
    """Write a workbook of a sheet 'Sheet', and other sheets by name."""
    book = Workbook()
    for sheet, part in {book.active: rows, **others}.items():
        page = sheet if sheet is book.active else book.create_sheet(sheet)
        for row in part:
            page.append(row)
    book.save(path)
    return path


def test_numbers_and_cells_of_nothing(path):
    rows = [["a", None, " b ", "c"], [1, None, 2.5, True], [3, " ", "  ", False], [None] * 4]
    before = write(path, [*rows, [7], [" ", None, None]]).read_bytes()
    table = read_sheet(path)
    assert table.names == ["a", "b", "c"]
    X = table.read(["a", "b", "c"])
    np.testing.assert_array_equal(X, [[1, 2.5, 1], [3, NAN, 0], [NAN] * 3, [7, NAN, NAN]])
    assert X.dtype == np.float64
    assert path.read_bytes() == before


def test_text_is_read_as_from_a_csv_file(path):
    rows = [["id", "sex", "dose"], ["p1", " F ", "1,5"], ["p2", "NA", 2], [3, "?", 2.25]]
    table = open_table(write(path, rows), Options(missing={"lab": ["?"]}))
    assert table.find_text() == ["id", "sex", "dose"]
    expected = [["p1", "p2", "3"], ["F", None, None], ["1,5", "2", "2.25"]]
    assert table.read_text(["id", "sex", "dose"]) == expected


@pytest.mark.parametrize("key", (33743, 20240131001, 999999999999999, 2**53))
def test_ids_that_are_numbers_are_written_out(path, key):
    table = read_sheet(write(path, [["id", "x"], [key, 1], [7, 2]]))
    assert table.read_text(["id"]) == [[str(key), "7"]]
    mixed = read_sheet(write(path, [["id", "x"], [float(key), 1], [7.5, 2], ["p1", 3]]))
    assert mixed.read_text(["id"]) == [[str(key), "7.5", "p1"]]


def test_dates_are_text_of_dates(path):
    day, moment = datetime.date(2024, 1, 31), datetime.datetime(2024, 2, 1, 12, 30)
    table = read_sheet(write(path, [["a", "b"], [day, 1], [moment, 2], [None, 3]]))
    assert table.find_text() == ["a"]
    [cells] = table.read_text(["a"])
    assert [cell and cell[:16] for cell in cells] == ["2024-01-31 00:00", "2024-02-01 12:30", None]


def test_formulas_without_values_are_refused_wherever_they_are(path):
    rows = [["id", "x"], [1, 5]]
    for formulas in ([2, "=1+1"], ["=A2+1", "=B2+1"]):  # a cell, and a whole row at the end
        with pytest.raises(ValueError, match=r"lab.xlsx: the formula '=\w+\+1' in row 3 has no st"):
            read_sheet(write(path, [*rows, formulas]))
    book = load_workbook(write(path, rows))
    book.active["B3"] = ArrayFormula("B3:B3", "=SUM(B2:B2)")
    book.save(path)
    with pytest.raises(ValueError, match=r"formula '=SUM\(B2:B2\)' in row 3 has no stored value"):
        read_sheet(path)
    book = load_workbook(write(path, rows))
    book.active["A2"].value, book.active["A2"].data_type = "=x", "s"  # a text like a formula
    book.save(path)
    assert read_sheet(path).read_text(["id"]) == [["=x"]]


def test_one_of_several_sheets_is_named(path):
    write(path, [["a", "b"], [1, 2]], **{"Lab 2": [["a", "b"], [3, 4]]})
    with pytest.raises(ValueError, match=r"has 2 sheets: 'Sheet', 'Lab 2'.*sheet=\{'lab': 'Sheet'"):
        read_views(path)
    np.testing.assert_array_equal(read_views(path, sheet="Lab 2")["lab"], [[3, 4]])
    np.testing.assert_array_equal(read_views(path, sheet={"lab": "Sheet"})["lab"], [[1, 2]])
    with pytest.raises(ValueError, match=r"no sheet 'lab 2'\. Did you mean 'Lab 2'"):
        read_views(path, sheet="lab 2")


# Rows of a sheet, and what the message says.
REFUSED = {
    "nothing": ([], "a row of names and rows below"),
    "title": ([["Results"], ["a", "b"], [1, 2]], "but it has the one cell 'Results'. Remove"),
    "empty row": ([[None, None], ["a", "b"], [1, 2]], "but it is empty. Remove the rows above"),
    "no names": ([[1, 2.5], [3, 4]], r"only numbers: '1', '2\.5'.*header=True.*header=False"),
    "a name twice": ([["a", "a"], [1, 2]], "more than one column is called 'a'"),
    "one without a name": ([["a", None, "b"], [1, 5, 2]], "column '' looks like a row index"),
    "digits": ([["x"], [2**53 + 4]], "column 'x' holds the whole number 90071992547409"),
    "time": ([["x", "y"], [datetime.time(10), 1]], r"'x' holds time64.*drop=\['x'\]"),
}


@pytest.mark.parametrize(("rows", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(path, rows, message):
    with pytest.raises(ValueError, match=rf"lab\.xlsx.*({message})"):
        read_views(write(path, rows))


def test_names_may_be_numbers_or_absent_if_the_user_says_so(path):
    write(path, [[2019, 2020], [1, 2]])
    np.testing.assert_array_equal(read_views(path, header=True)["lab"], [[1, 2]])
    np.testing.assert_array_equal(read_views(path, header=False)["lab"], [[2019, 2020], [1, 2]])
    assert open_table(path, Options(header=False, encoding={})).names == ["column_0", "column_1"]


def test_a_damaged_file_is_one_sentence(path, monkeypatch):
    write(path, [["a", "b"], *([i, i] for i in range(500))])
    content = path.read_bytes()
    message = r"lab\.xlsx cannot be read as an xlsx file"
    for share in (0.5, 0.95):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match=f"{message}: it is damaged"):
            read_views(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=message):
        read_views(path)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r'lab\.xlsx needs openpyxl.*"hotview\[excel\]"'):
        read_views(path)


def test_remarks_about_styles_are_not_shown(path, tmp_path):
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with (
        zipfile.ZipFile(write(tmp_path / "a.xlsx", [["a", "b"], [1, 2]])) as book,
        zipfile.ZipFile(path, "w") as bare,
    ):
        for name in book.namelist():
            styles = f'<styleSheet xmlns="{namespace}"/>'.encode()
            bare.writestr(name, styles if name == "xl/styles.xml" else book.read(name))
    with pytest.warns(UserWarning, match="no stylesheet"):
        load_workbook(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_sheet(path).names == ["a", "b"]
