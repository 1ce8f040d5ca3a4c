import io
import json
import re

import numpy as np
import pytest
from rich.console import Console
from scipy import sparse

from hotview.cli.input_summary import (
    check_cells,
    check_missing,
    count_missing,
    describe_dataset,
    print_dataset,
)
from hotview.ingest.columns import Column, ViewColumns
from hotview.ingest.dataset import DatasetFiles, read_dataset
from hotview.ingest.preprocessing import AlignedRows, Preprocessing
from hotview.training.process_group import ProcessGroup

COLUMNS = ViewColumns((Column("iron"), Column("sex", ("F", "M"))), 3)
NAN = np.nan


@pytest.fixture
def summary(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[a].csv").write_text("id,iron,sex\nanna,1,F\nbert,,M\ncarl,3,F\ndora,,\n")
    np.save("b.npy", np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]]))
    dataset = read_dataset(DatasetFiles(("[a].csv", "b.npy"), drop=["id"]))
    return describe_dataset(dataset, "MultiViewEncoder", None)


def test_missing_cells_are_counted_but_for_rows_that_are_absent(summary):
    first, second = summary["views"]
    assert first["missing"] == {"iron": 1}  # dora is absent as a whole
    assert second["missing"] == {"column 2": 1}


def test_missing_cells_raise_by_file_and_column(summary):
    text = r"\[a\].csv: cells are missing in 'iron' \(1\).*--impute '\[a\]=median';"
    with pytest.raises(ValueError, match=text):
        check_missing(summary, {"[a]": None, "b": "mean"})
    with pytest.raises(ValueError, match=r"b\.npy: cells are missing in 'column 2' .*b=median;"):
        check_missing(summary, {"[a]": "mean", "b": None})
    check_missing(summary, {"[a]": "mean", "b": "median+indicator"})


def test_json_can_hold_it(summary):
    assert json.loads(json.dumps(summary)) == summary


def test_names_are_printed_as_they_are(summary):
    console = Console(width=120, record=True, file=open("out.txt", "w"))  # noqa: SIM115
    print_dataset(summary, console)
    console.file.close()
    printed = console.export_text()
    for part in (
        "[a].csv",
        "Missing cells: [a]: iron (1)",
        "Categorical columns: [a]: sex (2: F, M)",
    ):
        assert part in printed


def aligned(X):
    ids = np.array([f"p{i}" for i in range(len(X))], dtype=object)
    return AlignedRows(ids, {"blood": X}, True, {"blood": np.ones(len(X), dtype=bool)})


def test_missing_cells_have_the_names_of_their_columns():
    X = np.array([[NAN, 1, 0], [NAN, NAN, NAN], [2.0, NAN, NAN]])
    assert count_missing(X, COLUMNS) == {"iron": 1, "sex": 1}
    assert count_missing(X, ViewColumns(None, 3)) == {"column 1": 1, "column 2": 1, "column 3": 1}
    assert count_missing(sparse.csr_array(np.eye(3)), COLUMNS) == {}


def test_several_processes_count_in_their_own_rows_and_add_up():
    class Ours(ProcessGroup):
        def all_gather_arrays(self, array):
            sent.append(array)
            return sent

    X, sent = np.full((5, 3), NAN), []
    X[:, 1:] = 1.0
    read = []

    class Watched:
        shape = X.shape

        def __getitem__(self, rows):
            read.append((rows.start, rows.stop))
            return X[rows]

    count_missing(Watched(), COLUMNS, Ours(0, 2))
    assert count_missing(Watched(), COLUMNS, Ours(1, 2)) == {"iron": 5}
    assert read == [(0, 2), (2, 5)]


def test_missing_cells_raise_unless_they_are_imputed():
    X = np.array([[NAN, 1, 0], [2.0, 0, 1]])
    preprocessing = Preprocessing({"blood": COLUMNS})
    with pytest.raises(
        ValueError, match=r"view 'blood' are missing, in 'iron'. .*--impute blood=median"
    ):
        check_cells(aligned(X), preprocessing, {"blood": None})
    check_cells(aligned(X), preprocessing, {"blood": "mean"})


def test_empty_rows_are_named():
    X = np.array([[1.0, 1, 0], [NAN, NAN, NAN]])
    with pytest.raises(ValueError, match=r"1 of 2 are empty: 'p1'"):
        check_cells(aligned(X), Preprocessing({"blood": COLUMNS}), {"blood": "mean"})


def test_links_are_counted_and_printed_by_pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, ids in {"blood": "xyz", "genes": "yzu", "scan": "zv"}.items():
        (tmp_path / f"{name}.csv").write_text("id,n\n" + "".join(f"{key},1\n" for key in ids))
    dataset = read_dataset(DatasetFiles(("blood.csv", "genes.csv", "scan.csv"), id_column="id"))
    summary = describe_dataset(dataset, "MultiViewEncoder", None)
    assert summary["links"] == [["blood", "genes", 2], ["blood", "scan", 1], ["genes", "scan", 1]]
    assert (summary["linked_rows"], summary["linked_in_all_views"]) == (2, 1)
    console = Console(width=120, record=True, file=io.StringIO())
    print_dataset(summary, console)
    printed = console.export_text()
    assert "Linked rows: 2 in two views or more (1 in all), of which 0 have a label." in printed
    pairs = printed.split("Linked rows by pair")[1].split("Linked rows:")[0]
    assert [re.findall(r"\w+", line) for line in pairs.splitlines() if re.search(r"\w", line)] == [
        ["genes", "scan"],
        ["blood", "2", "1"],
        ["genes", "1"],
    ]


def test_formats_of_columns_are_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text('n,seen\n"1,5",2024-01-31\n2,2024-02-01\n')
    summary = describe_dataset(read_dataset(DatasetFiles(["a.csv"])), "MultiViewEncoder", None)
    console = Console(width=120, record=True, file=io.StringIO())
    print_dataset(summary, console)
    printed = console.export_text()
    assert "a: column 'n': decimal point ',' ('1,5' is 1.5)." in printed
    assert "a: column 'seen': dates, read as days since 2024-01-31." in printed
    assert "Linked rows by pair" not in printed


def test_a_column_without_values_is_to_be_dropped():
    view = {"name": "a", "file": "a.csv", "rows": 3, "missing": {"my q": 3, "x": 1}}
    with pytest.raises(ValueError, match=r"no cell of 'my q' has a value. Pass --drop 'my q'"):
        check_missing({"views": [view]}, {"a": None})
