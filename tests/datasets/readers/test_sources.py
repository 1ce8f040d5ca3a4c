from pathlib import Path

import numpy as np
import pytest

from hotview.datasets.readers.sources import list_files

ENDINGS = (".csv", ".csv.gz", ".npy")


@pytest.fixture
def folder(tmp_path):
    for name in ("blood.csv", "GENES.CSV.GZ", "scans.v2.npy", "notes.txt", ".csv"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("kind", (str, Path))
def test_a_path_may_be_text_or_a_path(folder, kind):
    (file,) = list_files(kind(folder / "blood.csv"), ENDINGS)
    assert file == (folder / "blood.csv", ".csv", "blood", False)


@pytest.mark.parametrize("container", (list, tuple))
def test_a_file_names_its_view_without_its_known_ending(folder, container):
    source = container([folder / "GENES.CSV.GZ", folder / "scans.v2.npy"])
    assert [(file.name, file.ending) for file in list_files(source, ENDINGS)] == [
        ("GENES", ".csv.gz"),
        ("scans.v2", ".npy"),
    ]


def test_a_dict_names_the_views(folder):
    (file,) = list_files({"lab": str(folder / "blood.csv")}, ENDINGS)
    assert (file.name, file.named_by_user) == ("lab", True)


def test_a_missing_file_is_named_with_the_nearest_one_beside_it(folder):
    with pytest.raises(FileNotFoundError, match=r"blod\.csv.*Did you mean 'blood\.csv'"):
        list_files(folder / "blod.csv", ENDINGS)


def test_a_file_that_could_not_be_read_is_not_proposed(folder):
    with pytest.raises(FileNotFoundError) as caught:
        list_files(folder / "note.csv", ENDINGS)
    assert "notes.txt" not in str(caught.value)


def test_a_missing_folder_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"nor a folder .*elsewhere"):
        list_files(folder / "elsewhere" / "a.csv", ENDINGS)


@pytest.mark.parametrize(
    ("name", "error"), ((".", IsADirectoryError), ("notes.txt", ValueError), (".csv", TypeError))
)
def test_what_has_no_format_or_no_name_is_refused(folder, name, error):
    with pytest.raises(error, match=str(folder / name)) as caught:
        list_files(folder / name, ENDINGS)
    assert error is TypeError or ".csv, .csv.gz, .npy" in str(caught.value)


@pytest.mark.parametrize("name", ("", 3, None))
def test_a_view_needs_a_name_that_is_text(folder, name):
    with pytest.raises(TypeError, match=r"blood\.csv"):
        list_files({name: folder / "blood.csv"}, ENDINGS)


@pytest.mark.parametrize("source", ([], {}))
def test_an_empty_source_is_refused(source):
    with pytest.raises(ValueError, match="at least one file"):
        list_files(source, ENDINGS)


@pytest.mark.parametrize("source", (3, None, iter(["a.csv"]), np.zeros(3)))
def test_what_is_no_source_is_refused(source):
    with pytest.raises(TypeError, match="Expected a path, a list of paths or a dict"):
        list_files(source, ENDINGS)
