import json

import numpy as np
import pytest
from rich.console import Console

from hotview.cli.input_summary import check_missing, describe_study, print_study
from hotview.ingest.dataset import DatasetFiles, read_dataset


@pytest.fixture
def facts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[a].csv").write_text("id,iron,sex\nanna,1,F\nbert,,M\ncarl,3,F\ndora,,\n")
    np.save("b.npy", np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]]))
    study = read_dataset(DatasetFiles(("[a].csv", "b.npy"), id_column="id"))
    return describe_study(study, "MultiViewEncoder", None)


def test_missing_cells_are_counted_but_for_rows_that_are_absent(facts):
    first, second = facts["views"]
    assert first["missing"] == {"iron": 1}  # dora is absent as a whole
    assert second["missing"] == {"column 2": 1}


def test_missing_cells_are_refused_by_file_and_column(facts):
    with pytest.raises(ValueError, match=r"\[a\].csv: cells are missing in 'iron' \(1\).*--impute"):
        check_missing(facts, None)
    check_missing(facts, "mean")


def test_json_can_hold_it(facts):
    assert json.loads(json.dumps(facts)) == facts


def test_names_are_printed_as_they_are(facts):
    console = Console(width=120, record=True, file=open("out.txt", "w"))  # noqa: SIM115
    print_study(facts, console)
    console.file.close()
    printed = console.export_text()
    for part in ("[a].csv", "Missing cells: [a]: iron (1)", "Categories: [a]: sex (2: F, M)"):
        assert part in printed
