from dataclasses import replace

import pytest
from small_federation import settings

from hotview.federated.session import SentHead, SentPlan, SentPool, Session, check_names

NAMES = ["a", "b", "c"]
POOL = SentPool(["a", "b"], [1.0, 0.5, 0.2], [1.0, 2.0], 0.7)
PLAN = SentPlan(["a", "b"], [[0.3, 0.2], [0.5, 0.0]], [[1.0, 2.0], [0.0, 3.0]])
HEAD = SentHead(["a", "c"], [[0.5] * 8] * 3, [0.0, 1.0, -1.0])


@pytest.mark.parametrize(
    "changes",
    (
        {"power": float("nan")},
        {"power": 10**30},
        {"power": 17.0},
        {"power": -17.0},
        {"partial": [1.0, -0.1]},
        {"partial": [1.0]},
        {"complete": [1.0, 2.0]},
        {"complete": [1.0, 2.0, 1e7]},
        {"names": ["a"]},
        {"names": ["a", "d"]},
        {"names": ["a", "a"]},
    ),
)
def test_a_pool_has_weights_of_known_views(changes):
    POOL.check(NAMES)
    with pytest.raises(ValueError, match=r"its (pool|names) (is|cannot)"):
        replace(POOL, **changes).check(NAMES)


@pytest.mark.parametrize(
    "changes",
    (
        {"names": []},
        {"names": ["a", "d"]},
        {"W": [[0.5, 0.5]]},
        {"W": [[0.0, 0.0], [0.5, 0.5]]},
        {"W": [[0.5, -0.5], [0.5, 0.5]]},
        {"W": [[0.5, float("nan")], [0.5, 0.5]]},
        {"C": [[1.0, 2.0], [3.0]]},
        {"C": [[1e300, 2.0], [3.0, 1.0]]},
    ),
)
def test_a_plan_has_a_row_for_every_view(changes):
    PLAN.check(NAMES, settings())
    with pytest.raises(ValueError, match=r"its (plan|names cannot)"):
        replace(PLAN, **changes).check(NAMES, settings())


@pytest.mark.parametrize(
    "changes", ({"bias": [0.0]}, {"weight": [[0.5] * 7] * 3}, {"names": ["a"]}, {"names": ["d"]})
)
def test_a_joint_head_has_weights_of_all_features(changes):
    HEAD.check(NAMES, settings(), 3)
    with pytest.raises(ValueError, match=r"its (joint head is|names cannot)"):
        replace(HEAD, **changes).check(NAMES, settings(), 3)


def test_classes_are_different_texts_or_numbers():
    for classes in (["ill", "well"], [0, 1, 2], [False, True], [-0.5, 2.5], []):
        assert Session("id", 4, classes).classes == classes
    wrong = (["a", "a"], [1, 1.0], ["a", None], [["a"], ["b"]], ["a", 1], [1, 10**400], [{}, 1])
    unsorted = (["b", "a"], [2, 1], [True, False], [1.5, 0.5])
    nan, infinite = [0.0, float("nan")], [0.0, float("inf")]
    for classes in (*wrong, *unsorted, nan, infinite, [1, 2.5], [False, 2], [2**62, 2**62 + 0.5]):
        with pytest.raises(ValueError, match="not distinct texts or numbers"):
            Session("id", 4, classes)
    with pytest.raises(ValueError, match="two classes or more"):
        Session("id", 4, ["a"])
    for text in ("a\0", "\ud800", "x" * 10**6):
        with pytest.raises(ValueError, match="a text that is no line"):
            Session("id", 4, ["a", text])
    with pytest.raises(ValueError, match="1001 classes, more than 1000"):
        Session("id", 4, list(range(1001)))
    with pytest.raises(ValueError, match="2000000000 linked rows, more than"):
        Session("id", 2 * 10**9, [])


def test_names_are_names_of_views():
    check_names(["clinical", "st. mary's"])
    for names in ([""], [3], ["a\nb"], ["\ud800"], ["x" * 2000], [None]):
        with pytest.raises(ValueError, match="Expected names of organizations, but there is"):
            check_names(names)
    with pytest.raises(ValueError, match="distinct names"):
        check_names(["a", "a"])
    with pytest.raises(ValueError, match="at most 1000 names"):
        check_names([str(i) for i in range(1001)])
