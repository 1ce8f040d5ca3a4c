from collections.abc import Mapping, Sequence
from typing import get_args, get_origin

import numpy as np

from hotview import _types


def test_views_are_a_mapping_by_name_or_a_sequence():
    origins = {get_origin(option) for option in get_args(_types.Views)}
    assert origins == {Mapping, Sequence}


def test_a_random_state_is_nothing_a_seed_or_a_generator():
    assert set(get_args(_types.RandomState)) == {type(None), int, np.random.Generator}
