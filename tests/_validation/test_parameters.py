import math
from functools import partial

import numpy as np
import pytest

from hotview._validation import (
    check_choice,
    check_count,
    check_positive,
    check_share,
    check_switch,
    check_values,
    check_weight,
)

COUPLINGS = ("none", "lscca", "dgcca", "sw-pairwise", "sw-reference", "hot-pairwise")
NO_NUMBERS = (math.nan, math.inf, "1", None, True, np.True_, 1j, [1.0])


@pytest.mark.parametrize(
    ("check", "numbers"),
    (
        (check_share, (0, 1, 0.05, np.float32(0.5))),
        (check_weight, (0, 0.1, 7, np.float32(0.5), np.int64(2), 1e300)),
        (check_positive, (1e-300, 0.1, 7, np.float32(0.5), np.int64(2))),
    ),
)
def test_numbers_become_floats(check, numbers):
    for number in numbers:
        checked = check("x", number)
        assert checked == number
        assert type(checked) is float
    assert check_count("n", np.int32(3)) == 3
    assert check_count("n", 0, at_least=0) == 0


@pytest.mark.parametrize(
    ("check", "values", "message"),
    (
        (check_share, (-0.1, 1.1, 5, math.nan, math.inf, "0.5", None), r"a share.*x=0\.05"),
        (check_count, (0, -1, 2.0, "3", None), "a whole number of at least 1"),
        (partial(check_count, at_least=5), (4, -1), r"at least 5, but it is (4|-1).*x=5"),
        (check_weight, (-1e-9, -1, *NO_NUMBERS), "a finite .* 0.*=0 to swi"),
        (check_positive, (0, 0.0, -1, *NO_NUMBERS), r"a positive.*x=0\.1"),
    ),
)
def test_numbers_outside_their_range_are_refused(check, values, message):
    for value in values:
        with pytest.raises(ValueError, match=f"Expected x to be .*{message}"):
            check("x", value)


def test_a_choice_of_the_list_is_taken():
    for choice in COUPLINGS:
        assert check_choice("coupling", choice, COUPLINGS) == choice
    for choice in ("xyz", 3, ["none", "lscca"]):  # near nothing
        with pytest.raises(ValueError, match=r"Write coupling='none', say\.$"):
            check_choice("coupling", choice, COUPLINGS)


@pytest.mark.parametrize(
    ("choice", "nearest"),
    (("hot_pairwise", "hot-pairwise"), ("DGCCA", "dgcca"), ("lsca", "lscca"), (None, "none")),
)
def test_a_misspelt_choice_is_told_the_list_and_the_nearest(choice, nearest):
    with pytest.raises(ValueError, match="coupling to be one of") as error:
        check_choice("coupling", choice, iter(COUPLINGS))
    text = str(error.value)
    assert all(repr(word) in text for word in (*COUPLINGS, choice))
    assert text.endswith(f"Did you mean {nearest!r}?")


def test_values_are_checked_by_name_and_may_be_none_where_optional():
    checks = {"n_views": check_count, "patience": check_count}
    check_values({"n_views": 3, "patience": None, "other": "x"}, checks, optional=("patience",))
    with pytest.raises(ValueError, match="Expected coupling__n_views to be a whole number"):
        check_values({"n_views": 0}, checks, prefix="coupling__")
    with pytest.raises(ValueError, match="Expected patience to be a whole number"):
        check_values({"patience": None}, checks)


def test_bounds_are_excluded_or_included_as_requested():
    assert check_weight("weight", float("inf"), infinite=True) == float("inf")
    with pytest.raises(ValueError, match="weight to be a finite number"):
        check_weight("weight", float("inf"))
    assert check_share("decay", 1.0) == 1.0
    with pytest.raises(ValueError, match="decay below 1"):
        check_share("decay", 1.0, below_one=True)


@pytest.mark.parametrize("switch", ("no", None, 1))
def test_a_switch_is_true_or_false(switch):
    assert check_switch("standardize", np.bool_(True)) is True
    with pytest.raises(ValueError, match="standardize to be True or False"):
        check_switch("standardize", switch)
