"""Text tables: what is read, to the last bit, and what is refused, with the file and column."""

import gzip
import math

import numpy as np
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotview.data.options import Options
from hotview.data.table_file import escape_formulas
from hotview.datasets import read_views
from hotview.tables.delimited import TextTable


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lab.csv"


def read(path, text, **options):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_views(path, **options)["lab"]


PLAIN = np.array([[1.5, 2.0], [-3e-7, 4.0]])

SAME = {
    "plain": "a,b\n1.5,2\n-3e-7,4\n",
    "no end of line": "a,b\n1.5,2\n-3e-7,4",
    "Windows": "a,b\r\n1.5,2\r\n-3e-7,4\r\n",
    "old Macintosh": "a,b\r1.5,2\r-3e-7,4\r",
    "byte order mark": "\ufeffa,b\n1.5,2\n-3e-7,4\n",
    "quotes": '"a","b"\n"1.5","2"\n"-3e-7","4"\n',
    "spaces": "a, b\n1.5, 2\n -3e-7 ,4 \n",
    "blank lines": "\na,b\n\n1.5,2\n\n-3e-7,4\n\n",
    "plus and zeros": "a,b\n+1.50,02\n-3.0E-07,4.\n",
    "a comma in a name": '"a, b c",d\n1.5,2\n-3e-7,4\n',
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_ways_to_write_the_same_numbers(path, text):
    np.testing.assert_array_equal(read(path, text), PLAIN)


@pytest.mark.parametrize("ending", (".csv", ".CSV", ".tsv", ".csv.gz", ".tsv.gz"))
def test_endings(tmp_path, ending):
    text = SAME["plain"].replace(",", "\t" if "t" in ending else ",").encode()
    path = tmp_path / f"lab{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    np.testing.assert_array_equal(read_views(path)["lab"], PLAIN)


MARKERS = ["", "NA", "na", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>", '""', " NA"]


def test_missing_values_are_nan_and_their_row_stays(path):
    nan, rows = np.nan, "".join(f"{m},3\n4,{m}\n{m},{m}\n" for m in MARKERS)
    np.testing.assert_array_equal(
        read(path, f"a,b\n{rows}"), [[nan, 3], [4, nan], [nan, nan]] * len(MARKERS)
    )


def test_long_lines_long_cells_and_what_comes_behind_many_blocks(path):
    n = 400_000
    got = read(path, "a,b\n" + "1,2\n" * n + "0.5,NA\n")
    np.testing.assert_array_equal(got[-2:], [[1, 2], [0.5, np.nan]])
    assert len(got) == n + 1
    with pytest.raises(ValueError, match=r"column 'b' .*'x' in row 400001 below"):
        read(path, "a,b\n" + "1,2\n" * n + "1,x\n1,2\n")
    names = ",".join(f"g{j}" for j in range(20_000))
    numbers = ",".join(f"{j}.{0:0200}" for j in range(20_000))
    np.testing.assert_array_equal(read(path, f"{names}\n{numbers}\n"), np.arange(20_000)[None])
    got = read(path, "a,note\n" + '1,"two\nlines"\n' * 250_000, drop=["note"])
    np.testing.assert_array_equal(got, np.ones((250_000, 1)))
    sequence = "ACGT" * 400_000
    got = read(path, f"a,dna\n1,{sequence}\n2,{sequence}\n", drop=["dna"])
    np.testing.assert_array_equal(got, [[1], [2]])


@pytest.mark.parametrize("name", ("id", "age", "state"))
def test_rows_that_stray_quotes_swallow_are_missed_in_every_column(tmp_path, name):
    rows = [["id", "age", "state"], *([f"p{i}", f"{30 + i}", "ill"] for i in range(1, 41))]
    others = [column for column in rows[0] if column != name]
    j = rows[0].index(name)
    rows[10][j], rows[26][j] = f'"{rows[10][j]}', f'{rows[26][j]}"'
    path = tmp_path / "lab.csv.gz"
    path.write_bytes(gzip.compress("".join(",".join(row) + "\n" for row in rows).encode()))
    message = rf"column '{name}' of .*lab\.csv\.gz, in the row that begins in line 11, has a line "
    for names in ([name], others):
        with pytest.raises(ValueError, match=message):
            TextTable(path).read_text(names)


ROWS = [f"{i},{i * 2},n{i}" for i in range(10)]
SWALLOWED = {
    "one row": {2: '2,4,"n2', 3: '3,6,n3"'},
    "a row with a further cell": {2: '2,4,"n2', 4: "4,8,n,4", 6: '6,12,n6"'},
    "an empty cell in quotes": {2: '2,4,"n2', 3: '"",6,n3"'},
    "an empty cell": {2: '2,4,"n2', 3: ',NA,n3"'},
    "a separator of lines within a line": {2: '2,4,"n2', 3: '3,6,n\u20283"'},
    "a quoted cell": {2: '2,4,"n2', 3: '3,6,"n3"'},
    "rows between cells of two lines": {2: '2,4,"two\nlines""', 6: '6,12,""two\nlines"'},
    "never closed": {9: '8,16,"n8\n9,18,n9\n\n'},
}
ENDS = pytest.mark.parametrize("end", ("\n", "\r", "\r\n"), ids=["LF", "CR", "CRLF"])


@ENDS
@pytest.mark.parametrize("rows", SWALLOWED.values(), ids=SWALLOWED)
def test_rows_that_stray_quotes_swallow_in_a_column_that_is_left_out(path, rows, end):
    lines = ["a,b,c", *(rows.get(i, row) for i, row in enumerate(ROWS))]
    message = rf"column 'c' of .*in the row that begins in line {2 + min(rows)},"
    with pytest.raises(ValueError, match=message):
        read(path, "\n".join(lines).replace("\n", end) + end, drop=["c"])


@pytest.mark.parametrize(
    "text",
    (
        'note,a\n"x,0\n",1\ny,2\n',  # a quotation mark at the end of a line
        'a,note,b\n0,"two\nlines"",x\n1,",x\n2,y,x\n',  # behind a cell of two lines
        'id,note,a\np1,"two, 3\nlines, or a row",1\np2,x,2\n',  # a note that may be a row
    ),
)
def test_one_row_that_stray_quotes_swallow_in_a_column_before_others(path, text):
    with pytest.raises(ValueError, match=r"column 'note' of .*in the row that begins in line 2,"):
        read(path, text, columns=["a"])


@ENDS
@pytest.mark.parametrize(
    "note",
    ("two\nlines", "one, two\nthree", "first\nthen, later", "one, 2\n\nthree, four, 5", "one\n"),
)
@pytest.mark.parametrize("place", (0, 1, 2))
def test_notes_of_several_lines_are_told_from_rows_by_columns_of_numbers(path, note, end, place):
    rows = [["a", "b"], ["1", "2"], ["3", "4"]]
    for row, cell in zip(rows, ("note", f'"{note}"', "x"), strict=True):
        row.insert(place, cell)
    text = "\n".join(map(",".join, rows)).replace("\n", end) + end
    np.testing.assert_array_equal(read(path, text, drop=["note"]), [[1, 2], [3, 4]])


def test_names_like_formulas_survive_a_round_trip(path):
    columns = {"=a": [1.0, 2.0], "'=a": [3.0, 4.0], "@id": ["=x", "y"], "b": [5.0, 6.0]}
    pyarrow.csv.write_csv(pyarrow.table(escape_formulas(columns)), path)
    table = TextTable(path)
    assert table.names == list(columns)
    assert table.find_text() == ["@id"]
    assert table.read_text(["@id"]) == [["=x", "y"]]
    np.testing.assert_array_equal(table.read(["'=a", "=a"]), [[3, 1], [4, 2]])


@pytest.mark.parametrize(
    ("text", "encoding", "line"),
    (
        ('\nid,note\n\n1,"two\nlines"\n\n"2\n3",x\n', "utf-8", 7),
        ('id,note\n1,x\n"2\n3",x\n', "utf-16", 3),
    ),
)
def test_the_line_is_counted_through_blank_lines_and_cells_of_several_lines(
    path, text, encoding, line
):
    path.write_bytes(text.encode(encoding))
    message = rf"'id' of .*lab\.csv, in the row that begins in line {line},"
    with pytest.raises(ValueError, match=message):
        TextTable(path, options=Options(encoding=encoding)).read_text(["id"])


NOTE = 'a,note\n1,"two\nlines, ""quoted"""\n2,caf\xe9\n'.encode("latin-1")
READ = (
    ("a;b\n1,5;2\n-3e-7;4\n", {"delimiter": ";", "decimal": ","}, PLAIN),
    ("a;b\n1\n", {"delimiter": ","}, [[1]]),
    ("a,b\ninf,-inf\nInfinity,+inf\n", {}, [[np.inf, -np.inf], [np.inf, np.inf]]),
    ("a,b,c\n1,2,3\n", {"columns": ["c", "a"]}, [[3, 1]]),
    ("1,2,x\n3,4,y", {"header": False, "drop": ["column_2"]}, [[1, 2], [3, 4]]),
    ("2019,2020\n1,2\n", {"header": True}, [[1, 2]]),
    (",a\n0,7\n1,8\n", {"columns": ["", "a"]}, [[0, 7], [1, 8]]),
    (",a\n0,7\n1,8\n", {"drop": [""]}, [[7], [8]]),
    (f"a,b\n{2**53},1e300\n-{2**53},-12345678901234567890.5\n", {},
     [[2**53, 1e300], [-(2**53), -12345678901234567890.5]]),
    (NOTE, {"drop": ["note"]}, [[1], [2]]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "options", "expected"), READ)
def test_what_is_read(path, text, options, expected):
    np.testing.assert_array_equal(read(path, text, **options), expected)


# What is wrong, the text, the options, and what the message has to say besides the file's name.
REFUSED = [
    ("only blank lines", "\n\r\n\n", {}, "is empty"),
    ("only names, no line end", "a,b", {}, "no rows"),
    ("row too short", "a,b\n1,2\n3\n4,5\n", {}, r"row 2 below the names has 1 cells where 2"),
    ("row too long at the end", "a,b\n1,2,\n3,4,\n", {}, r"row 1 .* has 3 cells where 2"),
    ("text", "a,b\n1,2\n3,x\n4,y\n", {}, r"column 'b' holds text.*'x' in row 2.*drop=\['b'\]"),
    ("text, no names", "1,2\n3,x\n", {"header": False}, r"column 'column_1'.*'x' in row 2"),
    ("python's digits", "a\n1_000\n", {}, "column 'a' holds text.*'1_000'"),
    ("decimal comma", 'a,b\n1,"2,5"\n', {}, "column 'b' holds text.*'2,5'"),
    ("unclosed quote", 'a,b\n1,"2\n3,4\n', {}, "column 'b' holds text"),
    ("numbers and gaps", "1,,NA\n3,4,5\n", {}, r"'1'.*header=True.*header=False"),
    ("a name of two lines", 'a,"b\nc"\n1,2\n', {}, "has a line break"),
    ("duplicate names, dropped", "a,b,a\n1,2,3\n", {"drop": ["a"]}, "more than one.* 'a'"),
    ("semicolons", "a;b\n1;2\n", {}, r"'a;b'.*delimiter=\{'lab': ';'\}"),
    ("tabs", "a\tb\n1\t2\n", {}, r"delimiter=\{'lab': '\\t'\}"),
    ("a line for spreadsheets", "sep=;\nid;x\n1;2\n", {}, "'sep=;', is for spreadsheet programs"),
    ("another format", b"PK\3\4\xff" + bytes(50), {}, "is not text, but a file of another format"),
    ("Latin-1 value", "a,b\n1,2\xa05\n".encode("latin-1"), {}, "not UTF-8"),
    ("saved index", ",a\n0,7\n1,8\n", {}, r"column '' looks like a row index.*drop=\[''\]"),
    ("unknown column", "age,b\n1,2\n", {"columns": ["agee"]}, "no column 'agee'.*mean 'age'"),
    ("column asked for twice", "a,b\n1,2\n", {"columns": ["a", "a"]}, "column 'a' .*twice"),
    ("nothing left", "a,b\n1,2\n", {"drop": ["a", "b"]}, "no column is left"),
    ("blank line, one column", "a\n1\n\n2\n", {}, "column 'a' and a blank line"),
    ("long integer", f"a,b\n1,{2**53 + 1}\n", {}, f"column 'b'.*{2**53 + 1}.*digits"),
    ("huge first cell", "a;" * 100_000 + "\n1\n", {}, "that delimiter"),
]


@pytest.mark.parametrize(
    ("text", "options", "message"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_is_refused(path, text, options, message):
    with pytest.raises(ValueError, match=rf"(?s)lab\.csv.*{message}"):
        read(path, text, **options)


def test_a_compressed_file_cut_short_is_named(tmp_path):
    path = tmp_path / "lab.csv.gz"
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 200_000)
    for share in (0.2, 0.9):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match=r"lab\.csv\.gz cannot be read"):
            read_views(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(), st.floats(width=32)), min_size=1, max_size=20))
def test_floats_survive_to_the_last_bit(path, rows):
    text = "a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in rows)
    got = read(path, text)
    assert got.shape == (len(rows), 2)
    for value, expected in zip(got.ravel().tolist(), [x for row in rows for x in row], strict=True):
        same_sign = math.copysign(1, value) == math.copysign(1, expected)
        assert (value == expected and same_sign) or (math.isnan(value) and math.isnan(expected))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(min_value=-(2**64), max_value=2**64))
def test_a_whole_number_is_read_exactly_or_not_at_all(path, number):
    try:
        got = read(path, f"a,b\n{number},0\n")
    except ValueError:
        assert abs(number) > 2**53
    else:
        assert int(got[0, 0]) == number


NAMES = "größe,y\n1,2\n3,4\n"
ENCODINGS = {
    "latin-1": NAMES.encode("latin-1"),
    "cp1252": NAMES.replace("größe", "€").encode("cp1252"),
    "utf-16": NAMES.encode("utf-16"),
    "utf-16-le": NAMES.encode("utf-16-le"),
    "utf-16-be": NAMES.encode("utf-16-be"),
}


@pytest.mark.parametrize(("encoding", "content"), ENCODINGS.items(), ids=ENCODINGS)
def test_the_encoding_is_proposed_and_the_file_then_read(tmp_path, encoding, content):
    path = tmp_path / ("lab.csv.gz" if encoding == "latin-1" else "lab.csv")
    path.write_bytes(gzip.compress(content) if encoding == "latin-1" else content)
    with pytest.raises(ValueError, match=rf"not UTF-8.*encoding=\{{'lab': '{encoding}'\}}"):
        read_views(path)
    np.testing.assert_array_equal(read_views(path, encoding=encoding)["lab"], [[1, 2], [3, 4]])
    names = TextTable(path, options=Options(encoding=encoding)).names
    assert names == content.decode(encoding).lstrip("\ufeff").splitlines()[0].split(",")


@pytest.mark.parametrize("encoding", ("cp1252", "utf-16"))
def test_letters_far_down_are_read_in_their_encoding_and_no_other(path, encoding):
    cells = ["a"] * 200_000 + ["€"]
    path.write_bytes(("x,word\n" + "".join(f"1,{c}\n" for c in cells)).encode(encoding))
    with pytest.raises(ValueError, match=f"encoding={{'lab': '{encoding}'}}"):
        TextTable(path).find_text()
    table = TextTable(path, options=Options(encoding=encoding))
    assert table.find_text() == ["word"]
    assert table.read_text(["word"]) == [cells]
    for other in ("ascii", "utf-16", "shift_jis"):
        with pytest.raises(ValueError, match=rf"lab\.csv is not text in the encoding {other}\. Pa"):
            read(path, NAMES.encode("latin-1") + b"1,\xff\n", encoding=other)


def test_more_cells_may_mean_missing_and_points_be_text(path):
    path.write_text("a,b, c\n-99,x, -99\n2,unknown, 3\n.,y, .\n")
    table = TextTable(path, options=Options(missing=["-99", "unknown", "."]))
    assert table.find_text() == ["b"]
    np.testing.assert_array_equal(table.read(["a", " c"]), [[np.nan] * 2, [2, 3], [np.nan] * 2])
    assert table.read_text(["b"]) == [["x", None, "y"]]
    path.write_text("a;b;c\n1,5;1.250;7\n2,5;3.500;8\n")
    options = Options(delimiter=";", decimal=",")  # a point is not a part of numbers then
    table = TextTable(path, options=options)
    assert table.find_text() == ["b"]
    np.testing.assert_array_equal(table.read(["a", "c"]), [[1.5, 7], [2.5, 8]])
    assert table.read_text(["b"]) == [["1.250", "3.500"]]
    got = read(path, "1,x\n2,3\n", missing=["x"], header=False)
    np.testing.assert_array_equal(got, [[1, np.nan], [2, 3]])
    with pytest.raises(ValueError, match="first line holds only numbers"):
        read(path, "1,x\n2,3\n", missing=["x"])
