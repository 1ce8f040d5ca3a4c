import json

import numpy as np
import pytest
import torch
from scipy import sparse

from tests.golden import record as golden
from tests.golden.digests import digest

P = np.array([[0.25, 0.75], [0.5, 0.5]])
STAGES = {"rows": np.arange(3.0), "networks": torch.ones(2), "probabilities": [P]}


def compare(changes, *, here=None):
    """What is said of a run that differs from the record by changes of its stages."""
    record = {"environment": golden.environment()}
    record["cases"] = {"a fit": golden.summarize(STAGES)}
    cases = {"a fit": golden.summarize(STAGES | changes)}
    return golden.compare(json.loads(json.dumps(record)), cases, here)


def test_equal_bits_are_no_difference_and_the_first_stage_that_moved_is_named():
    assert compare({}) == []
    next_float = np.nextafter(np.arange(3.0), 9)
    (text,) = compare({"rows": next_float, "probabilities": [P + 1e-9]})
    assert text.startswith("a fit: first in 'rows' (all: rows, probabilities)")
    assert compare({"networks": torch.ones(2, dtype=torch.float64)}) != []


def test_elsewhere_probabilities_are_compared_within_a_tolerance():
    here = golden.environment() | {"cpu": "another"}
    assert compare({"rows": np.zeros(3), "probabilities": [P + 5e-4]}, here=here) == []
    assert "up to 0.002" in compare({"probabilities": [P + 2e-3]}, here=here)[0]
    assert "up to inf" in compare({"probabilities": [P[:1]]}, here=here)[0]


def test_cases_that_are_missing_and_new_ones_are_differences():
    record = {"environment": golden.environment(), "cases": {"old": golden.summarize(STAGES)}}
    new = {"new": golden.summarize(STAGES)}
    assert len(golden.compare(record, new)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    (
        ([1, 2], [[1], 2]),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (sparse.csr_array(np.eye(2)), np.eye(2)),
        (0.0, -0.0),
        (None, "None"),
        ({"a": 1}, {"b": 1}),
    ),
)
def test_results_that_differ_have_different_digests(one, other):
    assert digest(one) == digest(one) != digest(other)
    assert digest(sparse.csc_array(np.eye(2))) == digest(sparse.csr_array(np.eye(2)))


def test_a_record_that_is_written_is_read_and_names_its_reason(tmp_path):
    cases = {"a fit": golden.summarize(STAGES)}
    golden.write(cases, "one generator per stage", path := tmp_path / "record.json")
    found = golden.read(path)
    assert (found["cases"], found["reason"]) == (cases, "one generator per stage")
    assert golden.compare(found, cases) == []
