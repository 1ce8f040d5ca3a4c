import json
import math

import numpy as np
import pytest
import torch

from paper.json_files import dump_json, plain, write_json

VALUE = {
    "title": "α",
    "cells": [{"scores": {"test": [0.1] * 20}, "W": [[0.5, 0.0], [0.0, 0.5]]}, {"missing": None}],
    "empty": {},
    "none": [],
}


def test_what_is_laid_out_can_be_read_back():
    assert json.loads(dump_json(VALUE)) == VALUE


def test_lists_of_numbers_stand_on_one_line():
    lines = dump_json(VALUE).splitlines()
    assert any(line.strip().startswith('"test": [0.1, 0.1') and "]" in line for line in lines)
    assert any('"W": [[0.5, 0.0], [0.0, 0.5]]' in line for line in lines)
    assert ' "title": "α",' in lines


def test_short_objects_stand_on_one_line_and_long_ones_do_not():
    assert dump_json({"a": 1, "b": {"c": 2}}) == '{"a": 1, "b": {"c": 2}}'
    assert len(dump_json({f"a long name, number {i}": i for i in range(9)}).splitlines()) == 11


@pytest.mark.parametrize("value", (math.nan, [math.inf]))
def test_what_json_does_not_know_is_refused(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json({"a": value})


def test_numbers_of_all_libraries_become_plain():
    given = {
        "W": torch.tensor([[1 / 3, 2 / 3]], dtype=torch.float64),
        "y": np.array([1, 2]),
        "n": np.float32(0.5),
        "yes": np.True_,
        "hidden": (128,),
        "bad": [math.nan, math.inf, -math.inf],
        "none": None,
        "name": "pix",
    }
    found = plain(given, 3)
    assert found == {
        "W": [[0.333, 0.667]],
        "y": [1, 2],
        "n": 0.5,
        "yes": True,
        "hidden": [128],
        "bad": [None, "inf", "-inf"],
        "none": None,
        "name": "pix",
    }
    json.dumps(found, allow_nan=False)


def test_a_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "new" / "folder" / "a.json"
    write_json(path, {"x": 1})
    assert path.read_text() == '{"x": 1}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"x": math.nan})
    assert path.read_text() == '{"x": 1}\n'
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]
