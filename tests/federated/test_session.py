import pytest

from hotview.federated.session import Session, check_names


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
