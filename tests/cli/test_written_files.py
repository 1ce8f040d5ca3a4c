import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotview.cli.runner import make_folder, write_table
from hotview.tables.delimited import TextTable


def test_spreadsheets_run_nothing_of_a_csv_file(tmp_path):
    ids = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "-7", "+3.5e-2", "a=b", "'=x", "'t Hooft", None]
    safe = ["'=1+1", "'+x", "'-x", "'@SUM(A1)", "'\tx", *ids[5:8], "''=x", *ids[9:]]
    columns = {"=id": ids, "x": [-1.5] * len(ids), "n": [-1] * len(ids)}
    write_table(columns, tmp_path / "a.csv")
    options = pyarrow.csv.ConvertOptions(column_types={"'=id": "string"})
    written = pyarrow.csv.read_csv(tmp_path / "a.csv", convert_options=options).to_pydict()
    assert written == {"'=id": [*safe[:-1], ""], "x": columns["x"], "n": columns["n"]}
    write_table(columns, tmp_path / "a.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pydict() == columns


TEXT = st.text(st.sampled_from("'=+-@＝ab1.5e"), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_ids_are_read_back_from_a_csv_file(tmp_path, ids):
    path = write_table({"id": ids, "x": range(len(ids))}, tmp_path / "a.csv")
    assert TextTable(path).read_text(["id"]) == [ids]


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="length"):
        write_table({"a": [1], "b": [1, 2]}, tmp_path / "a.csv")
    for name in ("../a.csv", "a/b.csv", ".csv"):
        with pytest.raises(ValueError, match="No file can be called"):
            make_folder(tmp_path / "out", [name], force=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        make_folder(tmp_path / "out", ["a.csv"], force=False)
