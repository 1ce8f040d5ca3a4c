import io
import re
from contextlib import nullcontext

import numpy as np
import pytest
from rich.console import Console
from scipy import sparse

from hotview.cli import models
from hotview.cli.fit_job import check_missing, describe_dataset, describe_summary
from hotview.cli.models import check_cells, count_missing
from hotview.data.columns import Column, ViewColumns
from hotview.tables.dataset import DatasetFiles, read_dataset
from hotview.tables.preprocessing import AlignedRows, Preprocessing

COLUMNS = ViewColumns((Column("iron"), Column("sex", ("F", "M"))), 3)
NAN = np.nan


@pytest.fixture
def summary(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[a].csv").write_text("id,iron,sex\nanna,1,F\nbert,,M\ncarl,3,F\ndora,,\n")
    np.save("b.npy", np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]]))
    dataset = read_dataset(DatasetFiles(("[a].csv", "b.npy"), drop=["id"]))
    return describe_dataset(dataset, "MultiViewEncoder", None)


def printed(summary):
    console = Console(width=120, file=io.StringIO())
    for part in describe_summary(summary):
        console.print(part, markup=False)
    return console.file.getvalue()


def test_missing_cells_are_counted_but_for_rows_that_are_absent(summary):
    first, second = summary["views"]
    assert first["missing"] == {"iron": 1}  # dora is absent as a whole
    assert second["missing"] == {"column 2": 1}
    text = printed(summary)  # names are printed as they are
    for part in ("[a].csv", "Missing cells: [a]: iron (1)", "columns: [a]: sex (2: F, M)"):
        assert part in text


def test_missing_cells_raise_by_file_and_column(summary):
    text = r"\[a\].csv: cells are missing in 'iron' \(1\).*impute={'\[a\]': 'median'};"
    with pytest.raises(ValueError, match=text):
        check_missing(summary, {"[a]": None, "b": "mean"})
    with pytest.raises(
        ValueError, match=r"b\.npy: cells are missing in 'column 2' .*'b': 'median'};"
    ):
        check_missing(summary, {"[a]": "mean", "b": None})
    check_missing(summary, {"[a]": "mean", "b": "median+indicator"})
    view = {"name": "a", "file": "a.csv", "rows": 3, "missing": {"my q": 3, "x": 1}}
    with pytest.raises(ValueError, match=r"no cell of 'my q' has a value. Pass drop=\['my q'\]"):
        check_missing({"views": [view]}, {"a": None})


def test_missing_cells_have_the_names_of_their_columns_and_processes_add_theirs_up(monkeypatch):
    X = np.array([[NAN, 1, 0], [NAN, NAN, NAN], [2.0, NAN, NAN]])
    assert count_missing(X, COLUMNS) == {"iron": 1, "sex": 1}
    assert count_missing(X, ViewColumns(None, 3)) == {"column 1": 1, "column 2": 1, "column 3": 1}
    assert count_missing(sparse.csr_array(np.eye(3)), COLUMNS) == {}

    monkeypatch.setattr(models, "world_size", lambda: 2)
    monkeypatch.setattr(models, "all_gather_arrays", lambda x: sent.append(x) or sent)
    X, sent = np.full((5, 3), NAN), []
    X[:, 1:] = 1.0
    for rank, expected in ((0, 2), (1, 5)):
        monkeypatch.setattr(models, "rank", lambda rank=rank: rank)
        assert count_missing(X, COLUMNS) == {"iron": expected}


@pytest.mark.parametrize(
    ("row", "impute", "message"),
    (
        ([NAN, 0, 1], None, r"view 'blood' are missing, in 'iron'. .*impute={'blood': 'median'}"),
        ([NAN, NAN, NAN], "mean", r"1 of 2 are empty: 'p1'"),
        ([NAN, 0, 1], "mean", None),
    ),
)
def test_cells_of_new_rows_are_there_or_imputed(row, impute, message):
    X, ids = np.array([[1.0, 1, 0], row]), np.array(["p0", "p1"], dtype=object)
    rows = AlignedRows(ids, {"blood": X}, True, {"blood": np.ones(2, dtype=bool)})
    with nullcontext() if message is None else pytest.raises(ValueError, match=message):
        check_cells(rows, Preprocessing({"blood": COLUMNS}), {"blood": impute})


def test_links_are_counted_and_printed_by_pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, ids in {"blood": "xyz", "genes": "yzu", "scan": "zv"}.items():
        (tmp_path / f"{name}.csv").write_text("id,n\n" + "".join(f"{key},1\n" for key in ids))
    dataset = read_dataset(DatasetFiles(("blood.csv", "genes.csv", "scan.csv"), id_column="id"))
    summary = describe_dataset(dataset, "MultiViewEncoder", None)
    assert summary["links"] == [["blood", "genes", 2], ["blood", "scan", 1], ["genes", "scan", 1]]
    assert (summary["linked_rows"], summary["linked_in_all_views"]) == (2, 1)
    text = printed(summary)
    assert "Linked rows: 2 in two views or more (1 in all), of which 0 have a label." in text
    pairs = text.split("Linked rows by pair")[1].split("Linked rows:")[0]
    assert re.findall(r"\w+", pairs) == ["genes", "scan", "blood", "2", "1", "genes", "1"]
