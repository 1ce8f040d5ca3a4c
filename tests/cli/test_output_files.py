import pyarrow.csv
import pyarrow.parquet
import pytest

from hotview.cli.output_files import make_folder, write_table


def test_tables_are_read_back(tmp_path):
    columns = {"id": ["ä", 'b"c'], "x": [1.5, -2.0]}
    assert pyarrow.csv.read_csv(write_table(columns, tmp_path / "a.csv")).to_pydict() == columns
    written = write_table(columns, tmp_path / "a.parquet")
    assert pyarrow.parquet.read_table(written).to_pydict() == columns


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="length"):
        write_table({"a": [1], "b": [1, 2]}, tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ("../a.csv", "a/b.csv", ".csv"))
def test_names_with_folders_raise(tmp_path, name):
    with pytest.raises(ValueError, match="No file can be called"):
        make_folder(tmp_path / "out", [name], force=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        make_folder(tmp_path / "out", ["a.csv"], force=False)
