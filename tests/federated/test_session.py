import pytest

from hotview.federated.session import Session, check_names


def test_classes_are_different_texts_or_numbers():
    for classes in (["ill", "well"], [0, 1, 2], [False, True], [-0.5, 2.5], []):
        assert Session("id", 4, classes).classes == classes
    wrong = (["a", "a"], ["a", None], [["a"], ["b"]], ["a", 1], [1, 10**400], [0.0, float("nan")])
    unsorted = (["b", "a"], [2, 1], [True, False])
    for classes in (*wrong, *unsorted, [1, 2.5], [False, 2], [2**62, 2**62 + 0.5]):
        with pytest.raises(ValueError, match="not distinct texts or numbers"):
            Session("id", 4, classes)
    for n_linked, classes, problem in (
        (4, ["a"], "two classes or more"),
        (4, ["a", "a\0"], "a text that is no line"),
        (4, list(range(1001)), "1001 classes, more than 1000"),
        (2 * 10**9, [], "2000000000 linked rows, more than"),
    ):
        with pytest.raises(ValueError, match=problem):
            Session("id", n_linked, classes)


def test_names_are_names_of_views():
    check_names(["clinical", "st. mary's"])
    for names in ([""], [3], ["a\nb"], ["\ud800"], ["x" * 2000]):
        with pytest.raises(ValueError, match="Expected names of organizations, but there is"):
            check_names(names)
    with pytest.raises(ValueError, match="distinct names"):
        check_names(["a", "a"])
    with pytest.raises(ValueError, match="at most 1000 names"):
        check_names([str(i) for i in range(1001)])
