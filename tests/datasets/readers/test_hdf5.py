import h5py
import numpy as np
import pytest

from hotview.datasets.readers import hdf5
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
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"texts\.h5 cannot"), open_hdf5(path, "an HDF5 file"):
        pass


def test_texts_without_a_size_are_refused(path):
    data = bytearray(path.read_bytes())
    heap = data.index(b"GCOL")
    first = heap + 16
    data[first : first + 16] = bytes(16)  # free space of size 0
    path.write_bytes(data)
    problem = rf"texts\.h5 .* an HDF5 file.* byte {first} has no size"
    with pytest.raises(ValueError, match=problem), open_hdf5(path, "an HDF5 file"):
        pass


def heap(n_bytes):
    return b"GCOL\1\0\0\0" + n_bytes.to_bytes(8, "little")


def text(n_bytes):
    return b"\1" + bytes(7) + n_bytes.to_bytes(8, "little")


@pytest.mark.parametrize(
    "before",
    (heap(2**40) + heap(2**40), heap(64) + text(16) + heap(2**40) + text(0)),
    ids=["a heap as a text without end", "a shorter heap with the same text"],
)
def test_damage_is_found_behind_heaps_that_overlap(path, before):
    data = path.read_bytes() + before
    path.write_bytes(data + bytes(16))
    problem = rf"byte {len(data)} has no size"
    with pytest.raises(ValueError, match=problem), open_hdf5(path, "an HDF5 file"):
        pass


def test_the_objects_that_heaps_share_are_read_once(tmp_path, monkeypatch):
    sizes = []
    read_size = hdf5._read_size
    monkeypatch.setattr(hdf5, "_read_size", lambda *at: sizes.append(at) or read_size(*at))
    path = tmp_path / "heaps.h5"
    path.write_bytes((heap(2**40) + text(16)) * 500)
    with pytest.raises(ValueError, match=r"heaps\.h5 cannot"), open_hdf5(path, "an HDF5 file"):
        pass
    assert len(sizes) <= 2000  # of 500 heaps and 1000 objects
