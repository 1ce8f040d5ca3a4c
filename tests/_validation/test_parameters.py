import math

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
NOT_NUMBERS = ("1", None, True, np.True_, 1j, [1.0])


@pytest.mark.parametrize("share", (0, 1, 0.05, np.float32(0.5)))
def test_a_share_is_a_number_from_0_to_1(share):
    checked = check_share("labeled", share)
    assert checked == share
    assert type(checked) is float


@pytest.mark.parametrize("share", (-0.1, 1.1, 5, np.nan, np.inf, "0.5", None))
def test_what_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match=r"labeled to be a share.*labeled=0\.05"):
        check_share("labeled", share)


def test_a_count_is_a_whole_number():
    assert check_count("n", np.int32(3)) == 3
    assert check_count("n", 0, at_least=0) == 0


@pytest.mark.parametrize("count", (0, -1, 2.0, "3", None))
def test_what_is_no_count_is_refused(count):
    with pytest.raises(ValueError, match="n_views to be a whole number of at least 1"):
        check_count("n_views", count)


@pytest.mark.parametrize("count", (4, -1))
def test_the_smallest_count_is_named(count):
    with pytest.raises(ValueError, match=rf"n to be .* at least 5, but it is {count}.*n=5"):
        check_count("n", count, at_least=5)


@pytest.mark.parametrize("weight", (0, 0.1, 7, np.float32(0.5), np.int64(2), 1e300))
def test_a_weight_is_at_least_0(weight):
    checked = check_weight("regularizer_weight", weight)
    assert checked == weight
    assert type(checked) is float


@pytest.mark.parametrize("weight", (-1e-9, -1, math.nan, math.inf, -math.inf, *NOT_NUMBERS))
def test_what_is_no_weight_is_refused(weight):
    with pytest.raises(ValueError, match=r"regularizer_weight to be a finite .* 0.*=0 to swi"):
        check_weight("regularizer_weight", weight)


@pytest.mark.parametrize("number", (1e-300, 0.1, 7, np.float32(0.5), np.int64(2)))
def test_a_positive_number(number):
    checked = check_positive("learning_rate", number)
    assert checked == number
    assert type(checked) is float


@pytest.mark.parametrize("number", (0, 0.0, -1, math.nan, math.inf, *NOT_NUMBERS))
def test_what_is_not_positive_is_refused(number):
    with pytest.raises(ValueError, match=r"learning_rate to be a positive.*learning_rate=0\.1"):
        check_positive("learning_rate", number)


@pytest.mark.parametrize("choice", COUPLINGS)
def test_a_choice_of_the_list_is_taken(choice):
    assert check_choice("coupling", choice, COUPLINGS) == choice


@pytest.mark.parametrize(
    ("choice", "nearest"),
    (
        ("hot_pairwise", "hot-pairwise"),
        ("SW-Reference", "sw-reference"),
        ("DGCCA", "dgcca"),
        ("lsca", "lscca"),
        ("None", "none"),
        (None, "none"),
    ),
)
def test_a_misspelt_choice_is_told_the_list_and_the_nearest(choice, nearest):
    with pytest.raises(ValueError, match="coupling to be one of") as error:
        check_choice("coupling", choice, iter(COUPLINGS))
    text = str(error.value)
    assert all(repr(word) in text for word in COUPLINGS)
    assert repr(choice) in text
    assert text.endswith(f"Did you mean {nearest!r}?")


@pytest.mark.parametrize("choice", ("xyz", 3, ["none", "lscca"]))
def test_a_choice_near_nothing_is_told_how_to_write_one(choice):
    with pytest.raises(ValueError, match=r"Write coupling='none', say\.$"):
        check_choice("coupling", choice, COUPLINGS)


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
