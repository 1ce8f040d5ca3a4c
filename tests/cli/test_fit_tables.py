"""Tables as people write them: what `hotview fit` suggests, works."""

import datetime
import json
import re

import duckdb
import pytest
from openpyxl import Workbook

from .conftest import numbers, paste


def dry_run(hotview, *arguments):
    """Return the summary of a dry run, which missing cells do not stop."""
    result = hotview("fit", *arguments, "--impute", "median", "--dry-run", "--json")
    return json.loads(result.out)


SPELLINGS = {
    "zeros": ("00{}", "{}.0", "leading zeros or '.0' at the end"),
    "spaces": ("P {}", "P{}", "spaces"),
}


@pytest.mark.parametrize(("first", "second", "words"), SPELLINGS.values(), ids=SPELLINGS)
def test_ids_that_differ_in_spelling_stop_and_the_options_work(
    hotview, write_csv, first, second, words
):
    for name, spelling in {"a": first, "b": second}.items():
        ids = [spelling.format(i) for i in range(10, 30)] + ["both"]
        write_csv(f"{name}.csv", {"id": ids, "x": numbers(21), "y": numbers(21, 1)})
    command = ("a.csv", "b.csv", "--id-column", "id")
    result = hotview("fit", *command, "--dry-run", code=1)
    assert f"20 more ids would match if {words} did not count, such as" in result.err
    ignored, exact = (paste(result.err, "--match-ids", which) for which in (0, 1))
    assert dry_run(hotview, *command, *ignored)["linked_rows"] == 21
    assert dry_run(hotview, *command, *exact)["linked_rows"] == 1
    refused = hotview("fit", *command, *exact, "--match-ids", "case", "--dry-run", code=1)
    assert "'exact' ignores no difference. Correct --match-ids." in refused.err


@pytest.fixture
def lab(hotview, write_csv):
    """Type a fit of two tables, of which one, the first, has a column of given cells."""

    def run(cells, *more, beside=None, code=0):
        ids = [f"p{i}" for i in range(len(cells))]
        extra = {} if beside is None else {"beside": [beside] * len(cells)}
        write_csv("my lab.csv", {"id": ids, "x": cells, **extra})
        write_csv("scan.csv", {"id": ids, "size": numbers(len(cells))})
        command = ("my lab.csv", "scan.csv", "--id-column", "id", *more)
        return hotview("fit", *command, "--dry-run", code=1) if code else dry_run(hotview, *command)

    return run


def test_a_comma_before_three_digits_stops_and_both_options_work(lab):
    cells = ["142,741", "85,300", "7,125"]
    result = lab(cells, code=1)
    assert "the numbers of column 'x' can be read in two ways, such as '142,741'." in result.err
    decimal, thousands = (paste(result.err, flag) for flag in ("--decimal", "--thousands"))
    assert f"{decimal[0]} 'my lab=,' if it is 142.741, or {thousands[0]} 'my lab=,'" in result.err
    grouped = lab(cells, *thousands)["views"][0]
    assert grouped["formats"]["x"] == "thousands separated by ',' ('142,741' is 142741)"
    plain = lab(cells, *decimal)["views"][0]
    assert plain["formats"] == {}  # a column of numbers like any other
    assert plain["columns"] == 1


def test_how_columns_were_read_is_printed(lab, hotview):
    lab(["1,050.5 mg", "<5 mg", "-", "7 mg"])
    printed = hotview("fit", "my lab.csv", "scan.csv", "--id-column", "id", "--dry-run").out
    line = "my lab: column 'x': thousands separated by ',' ('1,050.5 mg' is 1050.5), unit 'mg', "
    assert f"{line}'<5 mg' read as the limit (1 cell), '-' missing (1 cell)." in printed


@pytest.mark.parametrize("word", ("n=0", "it's -", "-x"))
def test_a_few_words_stop_and_may_mean_missing(lab, word):
    cells = [*"123456789", word]
    result = lab(cells, beside="1", code=1)
    assert f"but for 1 of 10 cells, the first being {word!r} in row 10" in result.err
    summary = lab(cells, *paste(result.err, "--missing"), beside="1")["views"][0]
    assert (summary["missing"], summary["columns"]) == ({"x": 1}, 2)


def test_two_readings_of_dates_stop_and_both_options_work(lab):
    cells = ["03/04/2024", "05/07/2024"]
    result = lab(cells, code=1)
    for which, order in enumerate(("day first", "month first")):
        option = paste(result.err, "--dates", which)
        text = lab(cells, *option)["views"][0]["formats"]["x"]
        assert text == f"dates, read as days since 2024-0{4 - which}-0{3 + which} ({order})"


@pytest.mark.parametrize(
    ("content", "message"),
    (
        (b"PK\3\4\xff" + bytes(50), "a.csv is not text, but a file of another format"),
        (b"sep=;\nid;x\n1;2\n", "the first line, 'sep=;', is for spreadsheet programs. Remove it"),
    ),
)
def test_files_that_are_no_table_are_refused(hotview, tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    result = hotview("fit", path, "--dry-run", code=1)
    assert message in result.err


def test_infinity_is_named_with_its_file_and_row(lab):
    result = lab(["5", "6", "inf"], code=1)
    assert "my lab.csv: expected finite numbers, but there is infinity in 1 cell, the" in result.err
    assert "first in column 'x', row 3." in result.err
    summary = lab(["5", "6", "inf"], *paste(result.err, "--drop"), beside="1")["views"][0]
    assert summary["columns"] == 1


def test_every_table_may_have_its_own_format(hotview, write_csv):
    ids = [f"p{i}" for i in range(20)]
    comma = [cell.replace(".", ",") for cell in numbers(20)]
    write_csv("here.csv", {"id": ids, "x": numbers(20)})
    write_csv("there.csv", {"id": ids, "größe": comma, "n": ["1.250"] * 20}, ";", "latin-1")
    write_csv("far.csv", {"id": ids, "€": numbers(20, 1)}, encoding="cp1252")
    write_csv("wide.csv", {"id": ids, "größe": numbers(20, 2)}, "\t", "utf-16")
    command = ["here.csv", "there.csv", "far.csv", "wide.csv", "--id-column", "id"]
    flags = []
    while (
        result := hotview("fit", *command, "--dry-run", code=None)
    ).code:  # what is suggested works
        flag = re.search(r"--(delimiter|encoding|decimal) ", result.err)[0].strip()
        command += paste(result.err, flag)
        flags.append((flag, command[-1]))
        assert len(flags) <= 6
    assert sorted(flags) == [
        ("--decimal", "there=,"),
        ("--delimiter", "there=;"),
        ("--delimiter", r"wide=\t"),
        ("--encoding", "far=cp1252"),
        ("--encoding", "there=latin-1"),
        ("--encoding", "wide=utf-16"),
    ]
    summary = dry_run(hotview, *command)
    assert [view["columns"] for view in summary["views"]] == [1, 2, 1, 1]
    assert summary["linked_in_all_views"] == 20
    text = "thousands separated by '.' ('1.250' is 1250)"
    assert summary["views"][1]["formats"] == {"n": text}


def test_one_encoding_for_all_files_does_not_garble_others(hotview, write_csv):
    ids = [f"p{i}" for i in range(20)]
    write_csv("a.csv", {"id": ids, "größe": numbers(20)}, encoding="latin-1")
    write_csv("b.csv", {"id": ids, "müde": numbers(20, 1)})
    write_csv("c.csv", {"id": ids, "x": numbers(20, 2)})  # ASCII, which is also Latin-1
    command = ("a.csv", "b.csv", "c.csv", "--id-column", "id", "--encoding", "latin-1")
    result = hotview("fit", *command, "--dry-run", code=1)
    assert "b.csv is UTF-8 text, whose letters would be others" in result.err
    views = dry_run(hotview, *command, *paste(result.err, "--encoding"))["preprocessing"]["views"]
    assert [view["columns"][0][0] for _, view in views] == ["größe", "müde", "x"]


def test_a_sheet_of_a_spreadsheet_is_a_view(hotview, write_csv, tmp_path):
    book = Workbook()
    book.active.append(["id", "note"])
    page = book.create_sheet("Lab 2")
    page.append(["id", "x", "sex", "seen"])
    for i in range(20):
        seen = datetime.datetime(2024, 1, 31) + datetime.timedelta(days=i)
        page.append([20240131000 + i, None if i == 3 else i / 4, "FM"[i % 2], seen])
    book.save(tmp_path / "the lab.xlsx")
    write_csv("scan.csv", {"id": [20240131000 + i for i in range(20)], "size": numbers(20)})
    command = ["the lab.xlsx", "scan.csv", "--id-column", "id"]
    result = hotview("fit", *command, "--dry-run", code=1)
    assert paste(result.err, "--sheet") == ["--sheet", "the lab=Sheet"]
    summary = dry_run(hotview, *command, "--sheet", "the lab=Lab 2")
    assert summary["linked_rows"] == 20
    view = summary["views"][0]
    assert view["formats"] == {"seen": "dates, read as days since 2024-01-31"}
    assert (view["missing"], view["categorical"]) == ({"x": 1}, {"sex": ["F", "M"]})


def test_a_query_to_a_database_is_a_view(hotview, write_csv, tmp_path):
    with duckdb.connect(str(tmp_path / "my lab.duckdb")) as database:
        ids = "SELECT 'p' || range AS id, range AS n"
        database.execute(f'CREATE TABLE "the people" AS {ids}, range / 4 AS x FROM range(20)')
        database.execute(f"CREATE TABLE visits AS {ids} FROM range(20)")
    write_csv("scan.csv", {"id": [f"p{i}" for i in range(20)], "size": numbers(20)})
    command = ["my lab.duckdb", "scan.csv", "--id-column", "id"]
    result = hotview("fit", *command, "--dry-run", code=1)
    summary = dry_run(hotview, *command, *paste(result.err, "--query"))
    assert (summary["linked_rows"], summary["views"][0]["columns"]) == (20, 2)
    joined = 'SELECT p.id, x, v.n FROM "the people" p, visits v WHERE p.id=v.id AND x>=1'
    assert dry_run(hotview, *command, "--query", joined)["linked_rows"] == 16
    for query in ("SELECT * FROM read_csv('scan.csv')", "DROP TABLE visits"):
        result = hotview("fit", *command, "--query", query, "--dry-run", code=1)
        assert len(result.err.splitlines()) == 1
