import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from hotview.datasets import load_handwritten, unalign
from paper import caltech
from paper.caltech import load_caltech
from paper.cells import DATASETS, Cell
from paper.data import SYNTHETIC, find_datasets, load_dataset, split_dataset


def test_msrc_is_read_from_a_folder_or_a_file(tmp_path):
    arrays = {"view_0": np.ones((70, 3)), "view_1": np.ones((70, 5)), "y": np.arange(70) % 7}
    file = tmp_path / "msrc_v1.npz"
    np.savez(file, view_names=np.array(["CM", "HOG"]), **arrays)
    for path in (file, tmp_path):
        about = load_dataset("msrc", path).describe()
        assert (about["views"], about["classes"]) == ({"CM": 3, "HOG": 5}, 7)
    elsewhere = file.rename(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError, match=r"No msrc_v1\.npz at .*other"):
        load_dataset("msrc", elsewhere)


def test_datasets_are_found_where_they_are(reextracted):
    found, missing = find_datasets(None)
    assert found == ["handwritten", "synthetic"]
    assert set(found) | set(missing) == set(DATASETS)
    assert all("--data PATH" in reason for reason in missing.values())
    found, missing = find_datasets(reextracted.parent)
    assert found == ["handwritten", "caltech7", "caltech20", "synthetic"]
    assert list(missing) == ["msrc"]
    about = load_dataset("caltech20", reextracted.parent).describe()
    assert (about["label"], about["classes"]) == ("Caltech20 (re-extracted)", 20)


def test_a_fingerprint_tells_any_other_number():
    digits = load_dataset("handwritten")
    assert replace(digits, label="another").fingerprint == digits.fingerprint
    changed = {**digits.views, "mor": digits.views["mor"].copy()}
    changed["mor"][-1, -1] += 1
    for changes in ({"views": changed}, {"target": np.roll(digits.target, 1)}):
        assert replace(digits, **changes).fingerprint != digits.fingerprint


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
    fixed = split_dataset(replace(cell, split=3), None, 5)
    np.testing.assert_array_equal(fixed.split.test, expected.split.test)
    own = split_dataset(cell, None, 5)
    assert not np.array_equal(own.split.test, expected.split.test)


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
NAMES_7 = "Faces Motorbikes dollar_bill garfield snoopy stop_sign windsor_chair"
SIZES_7 = dict(zip(NAMES_7.split(), (435, 798, 52, 34, 35, 64, 56), strict=True))
NAME, N_BYTES = "Caltech101-7.mat", "22,531,288"
CHECKSUM = "f59a571b53c6791350e8bb71082446656ed4b7e2755c8b075ef1be547c11678c"
REAL = Path(__file__).parents[3] / "shared" / "data" / "caltech101_reextracted.npz"


def make_matrices(n_rows=1474):
    """Make zeros, with values in two corners that tell the rows from the columns."""
    matrices = [np.zeros((n_rows, n_columns), np.float32) for n_columns in COLUMNS.values()]
    for s, X in enumerate(matrices):
        X[0, -1], X[-1, 0] = s + 0.5, -s - 0.25
    return matrices


def make_labels():
    """Make labels from 1, as MATLAB counts, the classes in turn mixed up."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(7) + 1.0, [*SIZES_7.values()]))


def content_of(matrices, labels):
    """What the published files hold: X and Y, and more, text too."""
    cells = np.empty((1, len(matrices)), object)
    cells[0] = matrices
    return {"X": cells, "Y": labels[:, None], "note": "some text"}


def write_reextracted(path, **changes):
    """Write a file like ours: 2386 rows of 20 classes, the last 1474 are the subset of 7."""
    y = np.arange(2386) % 20
    rows = np.arange(2386 - 1474, 2386)
    content = {f"view_{s}": X.astype(np.float16) for s, X in enumerate(make_matrices(2386))}
    content |= {"view_names": list(COLUMNS), "y": y, "rows_7": rows, "y_7": np.arange(1474) % 7}
    content |= changes
    np.savez_compressed(path, **{key: X for key, X in content.items() if X is not None})


@pytest.fixture(scope="module")
def mat_file(tmp_path_factory):
    """A file of the right shapes."""
    path = tmp_path_factory.mktemp("mat") / "Caltech101-7.mat"
    savemat(path, content_of(make_matrices(), make_labels()), do_compression=True)
    return path


@pytest.fixture(scope="module")
def reextracted(tmp_path_factory):
    path = tmp_path_factory.mktemp("npz") / "caltech101_reextracted.npz"
    write_reextracted(path)
    return path


def test_the_published_format_is_read_and_another_checksum_told(mat_file, monkeypatch):
    with pytest.warns(UserWarning, match="not that file") as caught:
        data = load_caltech(7, mat_file)
    checksum = hashlib.sha256(mat_file.read_bytes()).hexdigest()
    for words in (CHECKSUM, N_BYTES, checksum):
        assert words in str(caught[0].message)
    assert caught[0].filename == __file__
    assert data.verified is False
    assert "WARNING" in data.DESCR
    assert data.view_names == list(COLUMNS)
    for name, X in zip(COLUMNS, make_matrices(), strict=True):
        assert data.views[name].dtype == np.float32
        np.testing.assert_array_equal(data.views[name], X)
    np.testing.assert_array_equal(data.target, make_labels() - 1)
    assert data.target_names == list(SIZES_7)
    assert data.source == "Caltech101-7"
    known = replace(caltech._PUBLISHED[7], sha256=checksum)
    monkeypatch.setitem(caltech._PUBLISHED, 7, known)
    data = load_caltech(7, mat_file)  # verified, without a warning
    assert data.verified is True
    assert "byte for byte" in data.DESCR


def test_a_missing_file_says_what_to_get_and_where_to_put_it(tmp_path):
    for path in (tmp_path, tmp_path / NAME):
        with pytest.raises(FileNotFoundError) as caught:
            load_caltech(7, path)
        for words in (NAME, f"{N_BYTES} bytes", CHECKSUM, str(path), "folder"):
            assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    (
        (content_of(make_matrices(9), np.ones(9)), r"six views of shapes \[\(1474, 48.* \[\(9, 48"),
        (content_of(make_matrices(), make_labels()[1:]), "each of the 1474 rows.* holds 1473"),
        (content_of(make_matrices(), make_labels() % 6), "labels of 7 classes.*holds 6"),
        ({"X": np.eye(3), "Y": np.ones((3, 1))}, r"X in .* to be a cell array"),
        ({"data": np.eye(3)}, r"Caltech101-7\.mat.*X"),
    ),
    ids=["rows", "labels", "classes", "no cells", "no X"],
)
def test_other_contents_than_the_published_are_refused(tmp_path, content, message):
    savemat(tmp_path / NAME, content)
    with pytest.raises(ValueError, match=message):
        load_caltech(7, tmp_path)


def test_other_classes_archives_and_pickles_are_refused(tmp_path, reextracted):
    with pytest.raises(ValueError, match="7 or 20"):
        load_caltech("7", reextracted)
    path = tmp_path / "other.npz"
    np.savez(path, view_0=np.eye(3), y=np.arange(3))
    with pytest.raises(ValueError, match=r"lacks \['rows_7', 'view_1'.*'y_7'\]"):
        load_caltech(7, path)
    write_reextracted(path, y_7=np.arange(1474).astype(object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_caltech(7, path)


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


def test_a_folder_with_both_gives_the_published_file(tmp_path, mat_file, reextracted):
    shutil.copy(mat_file, tmp_path)
    shutil.copy(reextracted, tmp_path)
    with pytest.warns(UserWarning, match="not that file"):
        assert load_caltech(7, tmp_path).source == "Caltech101-7"
    assert load_caltech(20, tmp_path).source == "Caltech (re-extracted)"


@pytest.mark.skipif(not REAL.is_file(), reason="the file is not beside the repository")
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
