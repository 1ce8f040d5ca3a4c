import h5py
import numpy as np
import pytest

from hotview.datasets.readers.hdf5 import open_hdf5

TEXTS = [f"cell-{i}" for i in range(300)]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "texts.h5"
    with h5py.File(path, "w") as file:
        file["names"] = TEXTS  # of variable length, in heaps
        file["X"] = np.ones((3, 2))
    return path


def test_texts_and_numbers_of_a_whole_file_are_read(path):
    with open_hdf5(path, "an HDF5 file") as file:
        assert file["names"].asstr()[:].tolist() == TEXTS
        assert file["X"].shape == (3, 2)


def test_texts_without_a_size_are_refused(path):
    data = bytearray(path.read_bytes())
    heap = data.index(b"GCOL")
    first = heap + 16
    data[first : first + 16] = bytes(16)  # free space of size 0
    path.write_bytes(data)
    problem = rf"texts\.h5 .* an HDF5 file.* byte {first} has no size"
    with pytest.raises(ValueError, match=problem), open_hdf5(path, "an HDF5 file"):
        pass


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "empty.h5"
    path.touch()
    with pytest.raises(ValueError, match=r"empty\.h5 cannot"), open_hdf5(path, "an HDF5 file"):
        pass
