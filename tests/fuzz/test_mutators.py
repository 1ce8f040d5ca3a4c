import json

import numpy as np
import pytest

from fuzz.mutators import mutate_array, mutate_bytes, mutate_json

N = 300


def draws(mutate, value):
    return [mutate(np.random.default_rng(seed), value) for seed in range(N)]


def test_bytes_change_in_many_ways_and_the_original_stays():
    data = bytes(range(256)) * 4
    changed = draws(mutate_bytes, data)
    assert data == bytes(range(256)) * 4
    assert len(set(changed)) > 0.9 * N
    assert {len(x) < len(data) for x in changed} == {True, False}
    assert draws(mutate_bytes, data) == changed
    for data in (b"", b"x"):
        assert len(set(draws(mutate_bytes, data))) > 10


def test_json_changes_in_one_part_at_any_depth():
    value = {"a": [1, {"b": "text"}], "c": 0.5}
    kept = json.dumps(value)
    changed = draws(mutate_json, value)
    assert json.dumps(value) == kept
    assert any(x["a"][1] != {"b": "text"} and x["c"] == 0.5 for x in changed if valid(x))
    assert any(x["c"] != 0.5 and x["a"] == value["a"] for x in changed if valid(x))
    assert any(not isinstance(x, dict) or x.keys() != value.keys() for x in changed)


def valid(x):
    both = isinstance(x, dict) and x.keys() == {"a", "c"}
    return both and isinstance(x["a"], list) and len(x["a"]) == 2


@pytest.mark.parametrize("X", (np.ones((3, 2)), np.arange(4), np.array(2.0, np.float32)))
def test_arrays_change_in_shape_dtype_or_values(X):
    kept = X.copy()
    changed = draws(mutate_array, X)
    assert (kept == X).all()
    assert {x.shape for x in changed} > {X.shape}
    assert len({x.dtype for x in changed}) > 2
    assert all(isinstance(x, np.ndarray) for x in changed)
