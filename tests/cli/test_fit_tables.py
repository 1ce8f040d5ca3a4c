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


def test_ids_that_differ_in_spelling_stop_and_the_options_work(hotview, write_csv):
    for name, spelling in {"a": "00{}", "b": "{}.0"}.items():
        ids = [spelling.format(i) for i in range(10, 30)] + ["both"]
        write_csv(f"{name}.csv", {"id": ids, "x": numbers(21), "y": numbers(21, 1)})
    command = ("a.csv", "b.csv", "--id-column", "id")
    result = hotview("fit", *command, "--dry-run", code=1)
    words = "leading zeros or '.0' at the end did not count, such as"
    assert f"20 more ids would match if {words}" in result.err
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


def test_numbers_and_dates_of_two_readings_stop_and_both_options_work(lab):
    cells = ["142,741", "85,300", "7,125"]
    err = lab(cells, code=1).err
    assert "the numbers of column 'x' can be read in two ways, such as '142,741'." in err
    decimal, thousands = (paste(err, flag) for flag in ("--decimal", "--thousands"))
    assert f"{decimal[0]} 'my lab=,' if it is 142.741, or {thousands[0]} 'my lab=,'" in err
    grouped = lab(cells, *thousands)["views"][0]
    assert grouped["formats"]["x"] == "thousands separated by ',' ('142,741' is 142741)"
    plain = lab(cells, *decimal)["views"][0]
    assert (plain["formats"], plain["columns"]) == ({}, 1)  # a column of numbers like any other
    cells = ["03/04/2024", "05/07/2024"]
    err = lab(cells, code=1).err
    for which, order in enumerate(("day first", "month first")):
        text = lab(cells, *paste(err, "--dates", which))["views"][0]["formats"]["x"]
        assert text == f"dates, read as days since 2024-0{4 - which}-0{3 + which} ({order})"


def test_how_columns_were_read_is_printed(lab, hotview):
    lab(["1,050.5 mg", "<5 mg", "-", "7 mg"])
    printed = hotview("fit", "my lab.csv", "scan.csv", "--id-column", "id", "--dry-run").out
    line = "my lab: column 'x': thousands separated by ',' ('1,050.5 mg' is 1050.5), unit 'mg', "
    assert f"{line}'<5 mg' read as the limit (1 cell), '-' missing (1 cell)." in printed


@pytest.mark.parametrize("word", ("n=0", "it's -", "-x", "inf"))
def test_a_few_words_and_infinity_stop_and_may_be_missing_or_dropped(lab, word):
    cells = [*"123456789", word]
    err = lab(cells, beside="1", code=1).err
    if word == "inf":
        assert "my lab.csv: expected finite numbers, but there is infinity in 1 cell, the" in err
        assert "first in column 'x', row 10." in err
        assert lab(cells, *paste(err, "--drop"), beside="1")["views"][0]["columns"] == 1
    else:
        assert f"but for 1 of 10 cells, the first being {word!r} in row 10" in err
        summary = lab(cells, *paste(err, "--missing"), beside="1")["views"][0]
        assert (summary["missing"], summary["columns"]) == ({"x": 1}, 2)


def test_every_table_may_have_its_own_format(hotview, write_csv, tmp_path):
    ids = [f"p{i}" for i in range(20)]
    comma = [cell.replace(".", ",") for cell in numbers(20)]
    write_csv("here.csv", {"id": ids, "x": numbers(20)})
    write_csv("there.csv", {"id": ids, "größe": comma, "n": ["1.250"] * 20}, ";", "latin-1")
    write_csv("far.csv", {"id": ids, "€": numbers(20, 1)}, encoding="cp1252")
    write_csv("wide.csv", {"id": ids, "größe": numbers(20, 2)}, "\t", "utf-16")
    book = Workbook()
    for i, row in enumerate([["id", "x", "sex", "seen"], *([key] for key in ids)]):
        seen = datetime.datetime(2024, 1, 30) + datetime.timedelta(days=i)
        book.active.append([*row, None if i == 3 else i / 4, "FM"[i % 2], seen] if i else row)
    book.create_sheet("Lab 2").append(["id", "note"])
    book.save(tmp_path / "the lab.xlsx")
    with duckdb.connect(str(tmp_path / "my db.duckdb")) as database:
        rows = "SELECT 'p' || range AS id, range AS n"
        database.execute(f'CREATE TABLE "the people" AS {rows}, range / 4 AS x FROM range(20)')
        database.execute(f"CREATE TABLE visits AS {rows} FROM range(20)")
    files = ["here.csv", "there.csv", "far.csv", "wide.csv", "the lab.xlsx", "my db.duckdb"]
    command, flags, dry = [*files, "--id-column", "id"], [], ("--impute", "median", "--dry-run")
    while (result := hotview("fit", *command, *dry, code=None)).code:
        known = "delimiter|encoding|decimal|sheet|query"  # what is suggested works
        command += paste(result.err, re.search(rf"--({known}) ", result.err)[0].strip())
        flags.append(tuple(command[-2:]))
        assert len(flags) <= 8
    assert sorted(flags) == [
        ("--decimal", "there=,"),
        ("--delimiter", "there=;"),
        ("--delimiter", r"wide=\t"),
        ("--encoding", "far=cp1252"),
        ("--encoding", "there=latin-1"),
        ("--encoding", "wide=utf-16"),
        ("--query", 'my db=SELECT * FROM "the people"'),
        ("--sheet", "the lab=Sheet"),
    ]
    summary = dry_run(hotview, *command)
    assert [view["columns"] for view in summary["views"]] == [1, 2, 1, 1, 4, 2]
    assert summary["linked_in_all_views"] == 20
    there, lab = summary["views"][1], summary["views"][4]
    assert there["formats"] == {"n": "thousands separated by '.' ('1.250' is 1250)"}
    assert lab["formats"] == {"seen": "dates, read as days since 2024-01-31"}
    assert (lab["missing"], lab["categorical"]) == ({"x": 1}, {"sex": ["F", "M"]})
    joined = 'SELECT p.id, x, v.n FROM "the people" p, visits v WHERE p.id=v.id AND x>=1'
    database = ("my db.duckdb", "here.csv", "--id-column", "id", "--query")
    assert dry_run(hotview, *database, joined)["linked_rows"] == 16
    refused = hotview("fit", *database, "DROP TABLE visits", "--dry-run", code=1)
    assert len(refused.err.splitlines()) == 1


def test_one_encoding_for_all_files_does_not_garble_others(hotview, write_csv):
    ids = [f"p{i}" for i in range(20)]
    write_csv("a.csv", {"id": ids, "größe": numbers(20)}, encoding="latin-1")
    write_csv("b.csv", {"id": ids, "müde": numbers(20, 1)})
    write_csv("c.csv", {"id": ids, "x": numbers(20, 2)})  # ASCII, which is also Latin-1
    command = ("a.csv", "b.csv", "c.csv", "--id-column", "id", "--encoding", "latin-1")
    result = hotview("fit", *command, "--dry-run", code=1)
    assert "b.csv is UTF-8 text, whose letters would be others" in result.err
    views = dry_run(hotview, *command, *paste(result.err, "--encoding"))["preprocessing"]["views"]
    assert [view["columns"][0] for _, view in views] == ["größe", "müde", "x"]
