"""Sentences about the similarity of views."""

from dataclasses import replace

import numpy as np

from hotview.similarity import CommonSpace, PairSimilarity, ViewSimilarity
from hotview.similarity.sentences import (
    describe_common_space,
    describe_shapes,
    describe_similarity,
    name_groups,
)

NAMES = ["labs", "vitals", "genes", "junk"]


def similarity(S=4, groups=None, *, within=True, p=0.001):
    """All pairs at 0.5, but the first at 0.9; the last view shares nothing."""
    value = np.full((S, S), 0.5)
    value[0, 1] = value[1, 0] = 0.9
    p_value = np.full((S, S), p)
    if S > 3:
        value[-1] = value[:, -1] = -0.014
        p_value[-1] = p_value[:, -1] = 0.4
    np.fill_diagonal(value, 1.0)
    pairs = (value, value - 0.1, np.minimum(value + 0.05, 1), p_value, np.full((S, S), 60))
    beyond = PairSimilarity(value / 2, *pairs[1:]) if within else None
    return ViewSimilarity(*pairs, beyond, groups, 0.97)


def test_three_sentences_say_who_shares_how_much_and_in_which_groups():
    shared, extremes, groups = describe_similarity(similarity(), NAMES)
    assert shared.startswith("By 60 linked rows, 3 of 6 pairs of views share information (p ≤ 0.05")
    assert shared.endswith("6 pairs); 'junk' with no other view measurably.")
    assert "'labs' and 'vitals', 0.90 (95 % interval 0.80 to 0.95); least, 'labs'" in extremes
    assert "'junk', −0.01 (95 % interval −0.11 to 0.04)" in extremes
    assert extremes.endswith("beyond what the class explains, these are 0.45 and −0.01.")
    assert groups.startswith("No stable groups of views")


def test_groups_that_hold_are_named_with_their_stability():
    assert name_groups(np.array([0, 1, 1, 2]), NAMES)[0] == ["vitals", "genes"]  # larger ones first
    found = similarity(groups=np.array([0, 0, 1, 2]))
    sentence = describe_similarity(found, NAMES)[2]
    assert "'labs' and 'vitals'; each of 'genes' and 'junk' is in no group. In 97 %" in sentence
    assert "within classes" in sentence
    total = describe_similarity(replace(found, within_classes=None), NAMES)[2]
    assert "within classes" not in total


def test_all_pairs_or_none():
    for p, words in ((0.001, "every pair of views shares"), (0.3, "no two views measurably share")):
        found = similarity(p=p)
        found.p_value[-1] = found.p_value[:, -1] = p
        assert words in describe_similarity(found, NAMES)[0]


def test_two_views_have_one_number_with_its_interval_and_p_value():
    total, within = describe_similarity(similarity(2), NAMES[:2])
    assert total.startswith("By 60 linked rows, 'labs' and 'vitals' share information, similarity")
    assert "0.90 (95 % interval 0.80 to 0.95), p = 0.001; on a scale from 0" in total
    assert within.startswith("Within classes, beyond what the class explains, it is 0.45")
    (alone,) = describe_similarity(similarity(2, within=False, p=0.2), NAMES[:2])
    assert "do not measurably share information" in alone


def test_pairs_that_were_not_compared_are_counted():
    found = similarity()
    matrices = (found.value, found.low, found.high, found.p_value)
    for matrix in matrices:
        matrix[0, 3] = matrix[3, 0] = np.nan
    found.n_rows[0, 2] = found.n_rows[2, 0] = 40
    first, _, groups = describe_similarity(found, NAMES)
    assert first.startswith("By 40 to 60 linked rows, 3 of 5 pairs")
    assert first.endswith("1 pair has too few linked rows in common to be compared.")
    assert groups.startswith("Groups of views are not looked for")
    for matrix in matrices:
        matrix[3, :3] = matrix[:3, 3] = np.nan  # which is not to share nothing
    first = describe_similarity(found, NAMES)[0]
    assert "'junk'" not in first
    assert "3 pairs have too few" in first


def test_a_sample_of_linked_rows_is_called_one_and_no_interval_reaches_below_0():
    found = similarity()
    found.n_rows[:] = 100
    assert describe_similarity(found, NAMES, 100)[0].startswith("By 100 linked rows, ")
    first = describe_similarity(found, NAMES, 2000)[0]
    assert first.startswith("By a sample of 2,000 linked rows (100 of every pair), ")
    found.low[0, 1] = -0.2
    assert "(95 % interval 0.00 to 0.95)" in describe_similarity(found, NAMES)[1]


def test_shapes_are_not_called_information():
    costs = np.array([[0, 1, 4, 3], [1, 0, 5, 3], [4, 5, 0, 2], [3, 3, 2, 0]]) / 10
    first, second = describe_shapes(costs, 0.4, NAMES)
    assert first == "No rows are linked, so that it cannot be measured what views share."
    assert "'labs' and 'vitals' are most alike" in second
    assert "(p = 0.40)" in second
    assert second.endswith("Tables of one shape need not share any information.")
    assert "p =" not in describe_shapes(costs, 0.05, NAMES)[1]
    assert "p =" not in describe_shapes(costs[:2, :2], 1.0, NAMES[:2])[1]


def common_space(S=3, value=0.04, high=0.06, n=20):
    off = np.where(np.eye(S, dtype=bool), np.nan, value)
    return CommonSpace(off, 1 - off, np.where(np.eye(S, dtype=bool), 0, n), 0.02, high)


def test_the_common_space_of_two_views_is_one_sentence():
    text = describe_common_space(common_space(2), NAMES[:2])
    assert "rows of different views can be compared: of 20 linked rows that were held out" in text
    assert "4 % of the rows of the other view are nearer than the individual's own" in text
    assert text.endswith("(FOSCTTM 0.04, 95 % interval 0.02 to 0.06; chance is 0.50).")
    text = describe_common_space(common_space(2, 0.49, 0.55), NAMES[:2])  # at chance
    assert text.startswith("In the common space, rows of different views cannot be compared: of 20")


def test_of_several_pairs_the_worst_is_named_and_unmeasured_ones_are_left_out():
    found = common_space()
    found.foscttm[0, 2] = found.foscttm[2, 0] = 0.3
    found.n_rows[0, 2] = found.n_rows[2, 0] = 5
    text = describe_common_space(found, NAMES[:3])
    assert "of 5 to 20 linked rows" in text
    assert text.endswith("chance is 0.50), least near are 'labs' and 'genes', 0.30.")
    found.foscttm[0, 2] = found.foscttm[2, 0] = np.nan
    text = describe_common_space(found, NAMES[:3])
    assert "of 20 linked rows" in text
    assert "'labs' and 'genes'" not in text
