"""`read_views` as a whole: sources, names and options; each format has a test file of its own."""

import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from anndata import AnnData

from hotview.data.options import Options, list_files
from hotview.datasets import read_views
from hotview.tables.files import FORMATS, open_file

X = np.array([[0.1, 2.0], [np.nan, 1e-300], [-4.0, 1 / 3]])


def write_text(path, delimiter=","):
    lines = [delimiter.join(map(repr, row)) for row in X.tolist()]
    path.write_text("\n".join([delimiter.join("pq"), *lines]))


WRITERS = {
    ".csv": write_text,
    ".tsv": lambda path: write_text(path, "\t"),
    ".parquet": lambda path: pq.write_table(pa.table({"p": X[:, 0], "q": X[:, 1]}), path),
    ".npy": lambda path: np.save(path, X),
    ".npz": lambda path: np.savez(path, one=X),
    ".mat": lambda path: scipy.io.savemat(path, {"one": X}),
}


@pytest.fixture
def folder(tmp_path):
    for ending, write in WRITERS.items():
        write(tmp_path / f"one{ending}")
    return tmp_path


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_gives_the_same_numbers(folder, ending):
    for kind in (str, Path):
        views = read_views(kind(folder / f"one{ending}"))
        assert list(views) == ["one"]
        assert views["one"].dtype == np.float64
        np.testing.assert_array_equal(views["one"], X)


def promise_npy(path):
    with open(path, "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**7)}
        np.lib.format.write_array_header_1_0(file, header)


def promise_npz(path):
    promise_npy(path)
    content = path.read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("A.npy", content)


def promise_mat(path):
    with h5py.File(path, "w", userblock_size=512) as file:
        A = file.create_dataset("A", (10**6, 10**7), np.float64, chunks=(1000, 1000))
        A.attrs["MATLAB_class"] = np.bytes_("double")


def promise_h5ad(path):
    AnnData(np.eye(2)).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        attributes = dict(file["X"].attrs)
        del file["X"]
        X = file.create_dataset("X", (10**6, 10**7), np.float64, chunks=(1000, 1000))
        X.attrs.update(attributes)


PROMISES = {".npy": promise_npy, ".npz": promise_npz, ".mat": promise_mat, ".h5ad": promise_h5ad}


@pytest.mark.parametrize("ending", PROMISES)
def test_a_small_file_that_announces_terabytes_is_named(tmp_path, ending):
    path = tmp_path / f"one{ending}"
    PROMISES[ending](path)
    with pytest.raises(MemoryError, match=rf"one\{ending} to fit into memory.*TiB"):
        read_views(path)


def test_a_dict_names_views_in_its_order_and_a_list_after_their_files(folder):
    source = {ending: folder / f"one{ending}" for ending in reversed(WRITERS)}
    assert list(read_views(source)) == list(source)
    (folder / "one.csv").rename(folder / "two.csv")
    paths = [folder / "two.csv", str(folder / "one.npy")]
    given = list(paths)
    assert list(read_views(paths)) == ["two", "one"]
    assert paths == given


def test_names_of_views_must_be_clear(folder):
    for second in ("one.npy", "one.npz"):
        with pytest.raises(ValueError, match=rf"'one', from .*one\.csv and .*{second}.*dict"):
            read_views([folder / "one.csv", folder / second])
    np.savez(folder / "all.npz", a=X, b=X)
    with pytest.raises(ValueError, match=r"all\.npz .*'lab' but holds 2: 'a', 'b'.*variables"):
        read_views({"lab": folder / "all.npz"})
    assert list(read_views({"lab": folder / "all.npz"}, variables=["b"])) == ["lab"]
    np.savez(folder / "a.npz", **{"one\ntwo": X})
    with pytest.raises(ValueError, match=r"name of a view in .*a\.npz has a line break"):
        read_views(folder / "a.npz")
    scipy.io.savemat(folder / "all.mat", {"X": np.empty((0, 0), dtype=object)})
    with pytest.raises(ValueError, match=r"all\.mat holds no views"):
        read_views(folder / "all.mat")


def test_columns_of_one_view_or_of_every_table_may_be_chosen_or_dropped(folder):
    source = {"a": folder / "one.csv", "b": folder / "one.parquet", "c": folder / "one.npy"}
    views = read_views(source, columns={"b": ["q"]})
    assert [view.shape for view in views.values()] == [(3, 2), (3, 1), (3, 2)]
    views = read_views(source, columns=["q", "p"])
    np.testing.assert_array_equal(views["a"], X[:, ::-1])
    np.testing.assert_array_equal(views["b"], X[:, ::-1])
    np.testing.assert_array_equal(views["c"], X)
    (folder / "two.csv").write_text("id,z\nanna,1\n")  # a file needs not have all
    views = read_views([folder / "one.csv", folder / "two.csv"], drop=["id", "p"])
    np.testing.assert_array_equal(views["one"], X[:, 1:])
    np.testing.assert_array_equal(views["two"], [[1]])


# An error that is about the options: the options, the type and what the message says.
REFUSED = [
    ({"drop": ["ids"]}, ValueError, r"one\.csv.*'ids'.*There are: 'p', 'q'"),
    ({"columns": ["P"]}, ValueError, r"one\.csv has no column 'P'.*mean 'p'"),
    ({"columns": {"onne": ["p"]}}, ValueError, r"not a table: 'onne'.*mean 'one'"),
    ({"drop": "p"}, TypeError, r"Write drop=\['p'\]"),
    ({"columns": "p"}, TypeError, r"Write columns=\['p'\]"),
    ({"missing": "x"}, TypeError, r"Write missing=\['x'\]"),
    ({"missing": {"one": [5]}}, TypeError, "missing to be a list of text"),
    ({"delimiter": ""}, ValueError, "delimiter to be one character"),
    ({"delimiter": {"on": ";"}}, ValueError, "No file is called 'on'.*mean 'one'.*delim"),
    ({"encoding": {"one": "nope"}}, ValueError, "name of an encoding.*'nope'.*encoding"),
    ({"delimiter": ",", "decimal": ","}, ValueError, "are both ','"),
    ({"variables": ["p"]}, ValueError, r"\.npz, \.mat, \.h5mu"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_options_that_cannot_be_followed_are_refused(folder, options, error, message):
    with pytest.raises(error, match=message):
        read_views(folder / "one.csv", **options)
    if options.keys() <= {"drop", "columns"} and error is ValueError:
        with pytest.raises(ValueError, match=r"are for \.csv, .*\.parquet"):
            read_views(folder / "one.npy", **options)


def test_the_docstring_lists_every_format():
    assert all(ending in read_views.__doc__ for ending in FORMATS)


ENDINGS = (".csv", ".csv.gz", ".npy")


@pytest.fixture
def sources(tmp_path):
    for name in ("blood.csv", "GENES.CSV.GZ", "scans.v2.npy", "notes.txt", ".csv"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_file_names_its_view_without_its_known_ending_unless_the_user_does(sources):
    files = [sources / "GENES.CSV.GZ", str(sources / "scans.v2.npy")]
    for container in (list, tuple):
        assert list_files(container(files), ENDINGS) == [
            (sources / "GENES.CSV.GZ", ".csv.gz", "GENES", False),
            (sources / "scans.v2.npy", ".npy", "scans.v2", False),
        ]
    (file,) = list_files({"lab": str(sources / "blood.csv")}, ENDINGS)
    assert (file.name, file.named_by_user) == ("lab", True)
    for name in ("", 3, None):
        with pytest.raises(TypeError, match=r"blood\.csv"):
            list_files({name: sources / "blood.csv"}, ENDINGS)


def test_a_missing_file_is_named_with_the_nearest_one_that_could_be_read(sources):
    with pytest.raises(FileNotFoundError, match=r"\{blod\}\.csv.*Did you mean 'blood\.csv'"):
        list_files(sources / "{blod}.csv", ENDINGS)  # braces do not confuse messages
    with pytest.raises(FileNotFoundError) as caught:
        list_files(sources / "note.csv", ENDINGS)
    assert "notes.txt" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"nor a folder .*elsewhere"):
        list_files(sources / "elsewhere" / "a.csv", ENDINGS)


def test_what_has_no_format_or_no_name_and_what_is_no_source_is_refused(sources):
    for name, error in ((".", IsADirectoryError), ("notes.txt", ValueError), (".csv", TypeError)):
        with pytest.raises(error, match=str(sources / name)) as caught:
            list_files(sources / name, ENDINGS)
        assert error is TypeError or ".csv, .csv.gz, .npy" in str(caught.value)
    for source in ([], {}):
        with pytest.raises(ValueError, match="at least one file"):
            list_files(source, ENDINGS)
    for source in (3, None, iter(["a.csv"]), np.zeros(3)):
        with pytest.raises(TypeError, match="Expected a path, a list of paths or a dict"):
            list_files(source, ENDINGS)


@pytest.fixture
def three(tmp_path):
    """Three tables of the same numbers, one of which is European and one in UTF-16."""
    (tmp_path / "here.csv").write_text("p,q\n1.5,2\n3,4\n")
    (tmp_path / "there.csv").write_text("p;q\n1,5;2\n3;4\n")
    (tmp_path / "far.csv").write_bytes("p|q\n1.5|2\nx|4\n".encode("utf-16"))
    return [tmp_path / f"{name}.csv" for name in ("here", "there", "far")]


PER_FILE = {
    "delimiter": {"there": ";", "far": "|"},
    "decimal": {"there": ","},
    "encoding": {"far": "utf-16"},
    "missing": {"far": ["x"]},
}


def test_every_file_may_have_its_own_format(three):
    views = read_views(three, **PER_FILE)
    for name, last in {"here": 3, "there": 3, "far": np.nan}.items():
        np.testing.assert_array_equal(views[name], [[1.5, 2], [last, 4]])
    # By the names that the user gives, and for all other files.
    views = read_views({"a": three[0], "b": three[1]}, delimiter={"b": ";"}, decimal={"b": ","})
    np.testing.assert_array_equal(views["a"], views["b"])
    three[0].write_text("p;q\n1,5;2\n3;4\n")
    others = {"delimiter": {"": ";", "far": "|"}, "decimal": {"": ",", "far": "."}}
    views = read_views(three, **(PER_FILE | others))
    np.testing.assert_array_equal(views["here"], [[1.5, 2], [3, 4]])
    assert views["far"][0, 0] == 1.5


def test_options_that_contradict_each_other_are_refused():
    for options, message in (
        ({"thousands": ",", "decimal": ","}, "thousands and the decimal point are both ','"),
        ({"thousands": ".", "delimiter": ","}, "delimiter and the decimal point are both ','"),
        ({"dates": "year-first"}, "day-first"),
        ({"sheet": {"lab": {"lab": "a"}}}, "sheet of a file to be one value"),
    ):
        for given in (options, {name: {"lab": value} for name, value in options.items()}):
            with pytest.raises(ValueError, match=message):
                Options(**given)


def test_a_point_between_thousands_makes_the_comma_decimal(tmp_path):
    (tmp_path / "a.tsv").write_text("p\tq\n1,5\t2\n")
    table = open_file(list_files(tmp_path / "a.tsv", FORMATS)[0], Options(thousands={"a": "."}))
    np.testing.assert_array_equal(table.read(["p"]), [[1.5]])
    assert (table.name, table.options.thousands, table.options.decimal) == ("a", ".", None)


def test_cells_that_mean_missing_do_so_in_every_format(tmp_path, monkeypatch):
    table = pa.table({"p": [-99, 2], "q": [1.5, -99.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("p,q\n-99,1.5\n2,-99\n")
    for large in (2**28, 0):  # which stays on disk
        monkeypatch.setattr("hotview.tables.parquet._LARGE", large)
        views = read_views([tmp_path / "a.parquet", tmp_path / "b.csv"], missing=["-99"], mmap=True)
        for view in views.values():
            np.testing.assert_array_equal(np.asarray(view), [[np.nan, 1.5], [2, np.nan]])
    pq.write_table(pa.table({"sex": ["F", "unknown"]}), tmp_path / "a.parquet")
    file = list_files(tmp_path / "a.parquet", FORMATS)[0]
    assert open_file(file, Options(missing=["unknown"])).read_text(["sex"]) == [["F", None]]
