import json
import os
import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from hotview._archive import FileFormat, read_archive, round_to_float16, write_archive

FORMAT = FileFormat("test", 2, "a test", "Write it again.")
TENSORS = {
    "a.weight": torch.arange(6.0).view(2, 3),
    "a.bias": torch.tensor(3, dtype=torch.int64),
    "mask": torch.tensor([True, False]),
    "none": torch.empty(0, 4),
    "expanded": torch.ones(()).expand(1),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
}
METADATA = {"words": ["ä", "b"], "x": 0.1, "inf": float("inf"), "nothing": None}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.test"
    write_archive(path, FORMAT, TENSORS, METADATA)
    return path


def test_round_trip_through_an_ordinary_safetensors_file_with_one_key(path):
    found = read_archive(path, FORMAT)
    assert {k: v for k, v in found.metadata.items() if k not in ("format", "version")} == METADATA
    assert found.tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(found.tensors[name], tensor)
        assert found.tensors[name].dtype == tensor.dtype
    with safe_open(path, framework="np") as file:
        np.testing.assert_array_equal(file.get_tensor("mask"), [True, False])
        assert list(file.metadata()) == ["hotview"]


def test_other_processes_write_the_same_bytes(path, tmp_path):
    code = f"""
import sys, torch
from pathlib import Path
sys.path.insert(0, {str(os.path.dirname(__file__))!r})
from test_archive import METADATA, FORMAT, TENSORS
from hotview._archive import write_archive
write_archive(Path(sys.argv[1]), FORMAT, dict(reversed(TENSORS.items())), METADATA)
"""
    other = tmp_path / "b.test"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code, str(other)], check=True, env=environment)
    assert other.read_bytes() == path.read_bytes()


def test_any_flipped_bit_is_detected(path):
    good = path.read_bytes()
    n_header = 8 + int.from_bytes(good[:8], "little")
    random = np.random.default_rng(0)
    places = [*range(8), *random.integers(8, n_header, 150), *range(n_header, len(good))]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << int(random.integers(8))
        path.write_bytes(bad)
        try:
            found = read_archive(path, FORMAT)
        except ValueError as error:
            assert "Write it again" in str(error) or "Give the path" in str(error)  # noqa: PT017
        else:  # another encoding of the same values, as any byte but 0 is true
            assert found.metadata["words"] == METADATA["words"]
            assert all(torch.equal(found.tensors[name], x) for name, x in TENSORS.items())


def test_a_truncated_file_is_refused(path):
    whole = path.read_bytes()
    short = [whole[:length] for length in (0, 1, 7, 8, 50, -1)]
    huge = [struct.pack("<Q", n) + whole[8:] for n in (2**60, 2**64 - 1, 2**31, 0)]
    for data in (*short, *huge):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.test to be a test that hotview saved, but it"):
            read_archive(path, FORMAT)


def test_a_header_that_is_huge_is_not_read(path):
    n = 200 * 2**20
    with path.open("wb") as file:
        file.write(struct.pack("<Q", n))
        file.truncate(8 + n)
    tracemalloc.start()
    with pytest.raises(ValueError, match="its header has 209715200 bytes"):
        read_archive(path, FORMAT)
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()


HIDDEN = ("[" + "[]\\u002c" * (2**20 + 1) + "[]]").replace("[", "\\u005b")  # by escapes


@pytest.mark.parametrize(
    "header",
    (
        json.dumps({"__metadata__": {"hotview": "[" + "[]," * 2**20 + "[]]"}}),
        json.dumps({"__metadata__": {"hotview": '{"x": [' + "{}," * 2**20 + "{}]}"}}),
        json.dumps({"__metadata__": {f"{i}\\": "\\" for i in range(2**19)}}),
        json.dumps({"a": {"dtype": "F32", "shape": [0] * 2**21, "data_offsets": [0, 0]}}),
        "{" + ",".join(f'"{i}":{{"dtype":"F32","shape":[0]}}' for i in range(2**17)) + "}",
        '{"__metadata__":{"hotview":"' + HIDDEN + '"}}',
    ),
    ids=("lists", "dicts", "keys", "shape", "tensors", "escapes"),
)
def test_a_header_that_would_take_much_memory_is_not_parsed(path, header):
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    tracemalloc.start()
    message = r"(its header has|metadata have) up to [0-9]+ values, more than 1048576"
    with pytest.raises(ValueError, match=message):
        read_archive(path, FORMAT)
    assert tracemalloc.get_traced_memory()[1] < 2 * len(header)
    tracemalloc.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="there are no such limits")
def test_a_lack_of_memory_names_the_file(path):
    write_archive(path, FORMAT, TENSORS, {"text": "x" * 2**24})
    program = """
import resource, sys
from pathlib import Path
from hotview._archive import FileFormat, read_archive
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10 * 2**20, -1))
try:
    read_archive(Path(sys.argv[1]), FileFormat("test", 2, "a test", "Write it again."))
except MemoryError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"{path} needs more memory than there is.\n", done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    (
        *((text, "") for text in ("[" * 100_000, "3", "null", "[1]", "{", "\ud7ff")),
        ('{"format": "test", "version": "2"}', ""),
        ('{"format": "test", "version": 2, "x": "\\ud800"}', ""),  # which cannot be written
        ('{"format": "test", "version": 2}', "its checksum is wrong"),
        ('{"format": "test", "version": 1}', r"format is 1, and this .* 2\. Write it again"),
        ('{"format": "test", "version": 3}', r"format is 3, and this .* 2\. Update hotview"),
    ),
)
def test_invalid_metadata_and_other_versions_are_refused(path, text, message):
    save_file({"x": torch.ones(3)}, path, {"hotview": text})
    with pytest.raises(ValueError, match=message or r"to be a test that hotview saved, but"):
        read_archive(path, FORMAT)


@pytest.mark.parametrize(
    ("value", "problem"),
    (("x" * 2**25, "has 33554[0-9]+ bytes"), ([[]] * 2**19, "has up to 10[0-9]+ values")),
)
def test_nothing_is_written_that_could_not_be_read(tmp_path, value, problem):
    expected = rf"histories to fit into the header of .*a\.test, but its header {problem}"
    with pytest.raises(ValueError, match=expected):
        write_archive(tmp_path / "a.test", FORMAT, TENSORS, {"x": value})
    assert list(tmp_path.iterdir()) == []


def test_a_large_model_can_be_written(path):
    names = [[f"chr{i}:{i}-{i}", None] for i in range(80_000)]  # genes and peaks
    history = [{"epoch": i, "loss": 1 / 3, "seconds": 2 / 3} for i in range(10_000)]
    ids = "0123456789a" * 10**6  # hashes of a million
    metadata = {"columns": names, "again": names, "histories": [history] * 5, "ids": ids}
    write_archive(path, FORMAT, TENSORS, metadata)
    assert read_archive(path, FORMAT).metadata["columns"] == names


@pytest.mark.parametrize("scale", (2.0**-7, 0.1, 1.0, 300.0, 2.0**15))
def test_numbers_are_rounded_to_those_of_float16_by_their_largest(scale):
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    x = x / x.abs().max() * scale
    found = round_to_float16(x)
    assert found.dtype == torch.float32
    expected = x.numpy().astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    assert not torch.equal(found, x)
    # By 2⁻¹¹ of a number, or 2⁻¹⁸ of the largest where it is subnormal.
    bound = torch.clamp(2.0**-11 * x.abs(), min=2.0**-18 * scale)
    assert ((found - x).abs() <= bound).all()
    assert torch.equal(round_to_float16(found), found)


@pytest.mark.parametrize(
    "largest", (0.0, 1e-30, 0.99 * 2.0**-7, -0.99 * 2.0**-7, 1.01 * 2.0**15, -1e30, np.nan, np.inf)
)
def test_numbers_beyond_the_range_of_float16_are_left_as_they_are(largest):
    for x in (torch.tensor([0.1, 0.003, 1.0]) * largest, torch.empty(0, 3)):
        assert round_to_float16(x) is x
