import shutil

import numpy as np
import pytest

from hotview.datasets import load_handwritten, unalign
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


def write_caltech(path):
    """A file in the format of the re-extracted features, its numbers made up."""
    rng = np.random.default_rng(0)
    views = {
        f"view_{s}": rng.random((2386, n)).astype(np.float16)
        for s, n in enumerate((48, 40, 254, 1984, 512, 928))
    }
    labels = {"y": np.arange(2386) % 20, "y_7": np.arange(1474) % 7}
    np.savez(path, rows_7=np.arange(1474), **labels, **views)


def test_without_files_those_of_the_package_are_found():
    found, missing = find_datasets(None)
    assert found == ["handwritten", "synthetic"]
    assert set(found) | set(missing) == set(DATASETS)
    for reason in missing.values():
        assert "--data PATH" in reason


def test_only_what_is_asked_for_is_looked_for():
    assert find_datasets(None, ["msrc"])[0] == []
    assert list(find_datasets(None, ["msrc"])[1]) == ["msrc"]


def test_msrc_is_read_from_a_folder_or_a_file(msrc):
    for path in (msrc, msrc.parent):
        data = load_dataset("msrc", path)
        assert data.describe()["views"] == {"CM": 3, "HOG": 5}
        assert data.describe()["classes"] == 7
    elsewhere = msrc.with_name("other.npz")
    shutil.copy(msrc, elsewhere)
    with pytest.raises(FileNotFoundError, match=r"No msrc_v1\.npz at .*other"):
        load_dataset("msrc", elsewhere)


def test_re_extracted_caltech_is_labeled_so(tmp_path):
    write_caltech(tmp_path / "caltech101_reextracted.npz")
    found, missing = find_datasets(tmp_path)
    assert found == ["handwritten", "caltech7", "caltech20", "synthetic"]
    assert list(missing) == ["msrc"]
    for n_classes in (7, 20):
        about = load_dataset(f"caltech{n_classes}", tmp_path).describe()
        assert about["label"] == f"Caltech{n_classes} (re-extracted)"
        assert about["classes"] == n_classes


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


@pytest.mark.parametrize("keep", (False, True))
def test_the_split_of_a_trial_is_the_protocols(keep):
    digits = load_handwritten()
    cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    found = split_dataset(cell, None, 3, keep=keep)
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
