import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from hotview.datasets import load_handwritten, unalign
from paper import caltech
from paper.caltech import load_caltech
from paper.cells import DATASETS, Cell
from paper.data import SYNTHETIC, Dataset, find_datasets, load_dataset, split_dataset


@pytest.fixture
def msrc(tmp_path):
    """A file in the format of MSRC-v1."""
    rng = np.random.default_rng(0)
    arrays = {"view_0": rng.random((70, 3)), "view_1": rng.random((70, 5))}
    file = tmp_path / "msrc_v1.npz"
    np.savez(file, view_names=np.array(["CM", "HOG"]), y=np.arange(70) % 7, **arrays)
    return file


def test_without_files_those_of_the_package_are_found():
    found, missing = find_datasets(None)
    assert found == ["handwritten", "synthetic"]
    assert set(found) | set(missing) == set(DATASETS)
    for reason in missing.values():
        assert "--data PATH" in reason


def test_msrc_is_read_from_a_folder_or_a_file(msrc):
    for path in (msrc, msrc.parent):
        data = load_dataset("msrc", path)
        assert data.describe()["views"] == {"CM": 3, "HOG": 5}
        assert data.describe()["classes"] == 7
    elsewhere = msrc.with_name("other.npz")
    shutil.copy(msrc, elsewhere)
    with pytest.raises(FileNotFoundError, match=r"No msrc_v1\.npz at .*other"):
        load_dataset("msrc", elsewhere)


def test_re_extracted_caltech_is_labeled_so(reextracted):
    found, missing = find_datasets(reextracted.parent)
    assert found == ["handwritten", "caltech7", "caltech20", "synthetic"]
    assert list(missing) == ["msrc"]
    about = load_dataset("caltech20", reextracted.parent).describe()
    assert (about["label"], about["classes"]) == ("Caltech20 (re-extracted)", 20)


def test_a_fingerprint_tells_any_other_number():
    digits = load_dataset("handwritten")
    same = Dataset("handwritten", "another label", digits.views, digits.target)
    assert same.fingerprint == digits.fingerprint
    changed = {name: X.copy() for name, X in digits.views.items()}
    changed["mor"][-1, -1] += 1
    assert Dataset("handwritten", "", changed, digits.target).fingerprint != digits.fingerprint
    other = np.roll(digits.target, 1)
    assert Dataset("handwritten", "", digits.views, other).fingerprint != digits.fingerprint


def test_synthetic_views_are_drawn_anew_in_every_trial():
    first, second = (load_dataset("synthetic", None, trial) for trial in (0, 1))
    assert first.fingerprint != second.fingerprint
    assert first.groups == second.groups == (0, 0, 1, 1, 2, 2)
    assert len(set(first.groups)) == SYNTHETIC["n_groups"]
    assert load_dataset("handwritten", None, 0) is load_dataset("handwritten", None, 1)


def test_the_split_of_a_trial_is_the_protocols():
    digits = load_handwritten()
    cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    found = split_dataset(cell, None, 3)
    expected = unalign(digits.views, digits.target, random_state=3)
    np.testing.assert_array_equal(found.split.test, expected.split.test)
    for name in digits.views:
        np.testing.assert_array_equal(found.unaligned[name], expected.unaligned[name])
    np.testing.assert_array_equal(found.train_target, digits.target[expected.split.train])


def test_a_cell_can_fix_the_split():
    cells = [Cell("handwritten", "unsupervised", "HOT (11)", "paper", split=s) for s in (None, 0)]
    (own, fixed), (_, first) = (
        [split_dataset(cell, None, trial).split.test for cell in cells] for trial in (5, 0)
    )
    np.testing.assert_array_equal(fixed, first)
    assert not np.array_equal(own, first)


def test_a_view_is_left_out_everywhere_and_the_others_stay():
    cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    less = Cell("handwritten", "unsupervised", "HOT (11)", "paper", without="fou")
    whole, part = split_dataset(cell, None, 0), split_dataset(less, None, 0)
    for field in ("linked", "unaligned", "paired", "validation", "test"):
        assert list(part[field]) == ["pix", "fac", "zer", "kar", "mor"]
        np.testing.assert_array_equal(part[field]["mor"], whole[field]["mor"])
    assert "fou" in whole.linked  # what is kept is not changed
    with pytest.raises(ValueError, match="no view 'nose'"):
        split_dataset(Cell("handwritten", "-", "logistic regression", "-", "nose"), None, 0)


COLUMNS = {"Gabor": 48, "WM": 40, "CENTRIST": 254, "HOG": 1984, "GIST": 512, "LBP": 928}
SIZES_7 = {
    "Faces": 435,
    "Motorbikes": 798,
    "dollar_bill": 52,
    "garfield": 34,
    "snoopy": 35,
    "stop_sign": 64,
    "windsor_chair": 56,
}
PUBLISHED = {
    7: (
        "Caltech101-7.mat",
        22_531_288,
        "f59a571b53c6791350e8bb71082446656ed4b7e2755c8b075ef1be547c11678c",
    ),
    20: (
        "Caltech101-20.mat",
        36_482_487,
        "aa51f62a9f37e177fb74abf7eab1bbe8c9a160e831835e20c3ff292793ac5658",
    ),
}
REAL = Path(__file__).parents[3] / "shared" / "data" / "caltech101_reextracted.npz"
needs_real_file = pytest.mark.skipif(
    not REAL.is_file(), reason="the re-extracted Caltech file is not beside the repository"
)


def make_matrices(n_rows=1474, columns=COLUMNS):
    """Make zeros, with values in two corners that tell the rows from the columns."""
    matrices = []
    for s, n_columns in enumerate(columns.values()):
        X = np.zeros((n_rows, n_columns), np.float32)
        X[0, -1], X[-1, 0] = s + 0.5, -s - 0.25
        matrices.append(X)
    return matrices


def make_labels(sizes=SIZES_7):
    """Make labels from 1, as MATLAB counts, the classes in turn mixed up."""
    labels = np.repeat(np.arange(len(sizes)) + 1.0, list(sizes.values()))
    return np.random.default_rng(0).permutation(labels)


def write_mat_5(path, matrices, labels):
    cells = np.empty((1, len(matrices)), object)
    cells[0] = matrices
    # The published files hold more than X and Y, text too.
    content = {"X": cells, "Y": labels[:, None], "note": "some text"}
    savemat(path, content, do_compression=True)


def write_mat_73(path, matrices, labels):
    """Write as MATLAB 7.3 does: HDF5, transposed, a cell array is a list of references."""
    with h5py.File(path, "w", userblock_size=512) as file:
        inside = file.create_group("#refs#")
        cells = file.create_dataset("X", (len(matrices), 1), dtype=h5py.ref_dtype)
        cells.attrs["MATLAB_class"] = np.bytes_("cell")
        for s, X in enumerate(matrices):
            stored = inside.create_dataset(f"v{s}", data=X.T, compression=1)
            stored.attrs["MATLAB_class"] = np.bytes_("single")
            cells[s, 0] = stored.ref
        file.create_dataset("Y", data=labels[None, :]).attrs["MATLAB_class"] = np.bytes_("double")


def write_reextracted(path, **changes):
    """Write a file like ours: 2386 rows of 20 classes, the last 1474 are the subset of 7."""
    y = np.arange(2386) % 20
    rows = np.arange(2386 - 1474, 2386)
    content = {f"view_{s}": X.astype(np.float16) for s, X in enumerate(make_matrices(2386))}
    content |= {"view_names": list(COLUMNS), "y": y, "rows_7": rows, "y_7": np.arange(1474) % 7}
    content |= changes
    np.savez_compressed(path, **{key: X for key, X in content.items() if X is not None})


@pytest.fixture(scope="module")
def mat_files(tmp_path_factory):
    """One folder per MATLAB version, each with a Caltech101-7.mat of the right shapes."""
    files = {}
    for version, write in (("5", write_mat_5), ("7.3", write_mat_73)):
        files[version] = tmp_path_factory.mktemp(f"v{version}") / "Caltech101-7.mat"
        write(files[version], make_matrices(), make_labels())
    return files


@pytest.fixture(scope="module")
def reextracted(tmp_path_factory):
    path = tmp_path_factory.mktemp("npz") / "caltech101_reextracted.npz"
    write_reextracted(path)
    return path


@pytest.mark.parametrize(("version", "folder"), (("5", True), ("7.3", False)))
def test_both_matlab_versions_are_read(mat_files, version, folder):
    file = mat_files[version]
    with pytest.warns(UserWarning, match="not that file"):
        data = load_caltech(7, file.parent if folder else file)
    assert data.view_names == list(COLUMNS)
    for name, X in zip(COLUMNS, make_matrices(), strict=True):
        assert data.views[name].dtype == np.float32
        np.testing.assert_array_equal(data.views[name], X)
    assert data.target.dtype == np.int64
    np.testing.assert_array_equal(data.target, make_labels() - 1)
    assert data.target_names == list(SIZES_7)
    assert data.source == "Caltech101-7"


def test_labels_are_numbered_in_sorted_order_and_named_by_their_size(tmp_path):
    # The seven classes under other labels, in the opposite order.
    labels = 100 - 10 * make_labels()
    write_mat_5(tmp_path / "Caltech101-7.mat", make_matrices(), labels)
    with pytest.warns(UserWarning, match="not that file"):
        data = load_caltech(7, tmp_path)
    np.testing.assert_array_equal(data.target, 7 - make_labels())
    assert data.target_names == list(SIZES_7)[::-1]


def test_another_checksum_is_told(mat_files):
    file = mat_files["5"]
    with pytest.warns(UserWarning, match="not that file") as caught:
        data = load_caltech(7, file)
    message = str(caught[0].message)
    assert data.verified is False
    assert "WARNING" in data.DESCR
    for words in (PUBLISHED[7][2], "22,531,288", hashlib.sha256(file.read_bytes()).hexdigest()):
        assert words in message
    assert caught[0].filename == __file__


def test_the_published_checksum_is_verified_without_a_warning(mat_files, monkeypatch):
    file = mat_files["5"]
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    known = replace(caltech._PUBLISHED[7], sha256=checksum)
    monkeypatch.setitem(caltech._PUBLISHED, 7, known)
    data = load_caltech(7, file)
    assert data.verified is True
    assert "byte for byte" in data.DESCR


def test_a_missing_file_says_what_to_get_and_where_to_put_it(tmp_path):
    n_classes = 20
    name, n_bytes, checksum = PUBLISHED[n_classes]
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / name):
        with pytest.raises(FileNotFoundError) as caught:
            load_caltech(n_classes, path)
        for words in (name, f"{n_bytes:,} bytes", checksum, str(path), "folder"):
            assert words in str(caught.value)
        assert "http" not in str(caught.value)


def test_only_seven_or_twenty_classes(tmp_path):
    for n_classes in (6, "7", [7]):
        with pytest.raises(ValueError, match="7 or 20"):
            load_caltech(n_classes, tmp_path)


@pytest.mark.parametrize(
    ("matrices", "labels", "message"),
    (
        (make_matrices(9), np.ones(9), r"six views of shapes \[\(1474, 48\).*holds \[\(9, 48\)"),
        (make_matrices(), make_labels()[1:], "each of the 1474 rows, but it holds 1473"),
        (make_matrices(), make_labels() % 6, "labels of 7 classes.*holds 6"),
    ),
    ids=["rows", "labels", "classes"],
)
def test_other_shapes_than_the_papers_are_refused(tmp_path, matrices, labels, message):
    write_mat_5(tmp_path / "Caltech101-7.mat", matrices, labels)
    with pytest.raises(ValueError, match=message):
        load_caltech(7, tmp_path)


def test_other_variables_are_refused(tmp_path):
    path = tmp_path / "Caltech101-7.mat"
    for content, message in (
        ({"X": np.eye(3), "Y": np.ones((3, 1))}, r"X in .* to be a cell array"),
        ({"data": np.eye(3)}, r"Caltech101-7\.mat.*X"),
    ):
        savemat(path, content)
        with pytest.raises(ValueError, match=message):
            load_caltech(7, tmp_path)


@pytest.mark.parametrize(("n_classes", "n_rows"), ((7, 1474), (20, 2386)))
def test_the_reextracted_file_is_read_and_labeled_as_such(reextracted, n_classes, n_rows):
    data = load_caltech(n_classes, reextracted.parent)
    assert data.source == "Caltech (re-extracted)"
    assert data.DESCR.startswith("Caltech (re-extracted)")
    assert re.search(r"extracted again.*other\s+numbers", data.DESCR, re.DOTALL)
    assert data.verified is False
    assert {name: X.shape[1] for name, X in data.views.items()} == COLUMNS
    assert all(X.dtype == np.float32 and len(X) == n_rows for X in data.views.values())
    np.testing.assert_array_equal(data.target, np.arange(n_rows) % n_classes)
    assert data.views["LBP"][0, -1] == (5.5 if n_classes == 20 else 0)
    assert data.views["LBP"][-1, 0] == -5.25


def test_a_folder_with_both_gives_the_published_file(tmp_path, mat_files, reextracted):
    shutil.copy(mat_files["5"], tmp_path)
    shutil.copy(reextracted, tmp_path)
    with pytest.warns(UserWarning, match="not that file"):
        assert load_caltech(7, tmp_path).source == "Caltech101-7"
    assert load_caltech(20, tmp_path).source == "Caltech (re-extracted)"


def test_another_npz_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", view_0=np.eye(3), y=np.arange(3))
    with pytest.raises(ValueError, match=r"lacks \['rows_7', 'view_1'.*'y_7'\]"):
        load_caltech(7, tmp_path / "other.npz")


def test_pickles_are_not_opened(tmp_path):
    y_7 = np.arange(1474).astype(object)
    write_reextracted(tmp_path / "caltech101_reextracted.npz", y_7=y_7)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_caltech(7, tmp_path)


@needs_real_file
def test_the_real_reextracted_features():
    seven, twenty = (load_caltech(n, REAL) for n in (7, 20))
    for data, n_rows, sizes in ((seven, 1474, SIZES_7), (twenty, 2386, caltech._CATEGORIES)):
        shapes = {name: (n_rows, n_columns) for name, n_columns in COLUMNS.items()}
        assert {name: X.shape for name, X in data.views.items()} == shapes
        assert all(np.isfinite(X).all() for X in data.views.values())
        assert dict(zip(data.target_names, np.bincount(data.target), strict=True)) == sizes
    names = np.array(twenty.target_names)[twenty.target]
    rows = np.flatnonzero(np.isin(names, seven.target_names))
    np.testing.assert_array_equal(seven.views["WM"], twenty.views["WM"][rows])
    np.testing.assert_array_equal(np.array(seven.target_names)[seven.target], names[rows])
