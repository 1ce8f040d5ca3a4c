import numpy as np
import pytest

from hotview._lazy import LazyRows
from hotview.datasets import make_views
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.distributed_checks import check_same_everywhere
from hotview.training.process_group import ProcessGroup

PEOPLE = make_views(80, n_views=2, labeled=0.5, random_state=0)


class Second(ProcessGroup):
    """The second of two processes, the first of which was given another task."""

    def __init__(self, first):
        super().__init__(1, 2)
        self.heard = First()
        check_same_everywhere(first, self.heard)

    def first(self, ask):
        return self.heard.told

    def collect(self, array):
        return [*self.heard.said, array]


class First(ProcessGroup):
    """The first of two, which remembers what it told."""

    def __init__(self):
        super().__init__(0, 2)

    def first(self, ask):
        self.told = ask()
        return self.told

    def collect(self, array):
        self.said = [array]
        return self.said


def task(views=None, y=None, **settings):
    model = MultiViewClassifier(random_state=0, **settings)
    views = PEOPLE.linked if views is None else views
    y = PEOPLE.linked_target if y is None else y
    return model._tasks(Xs=views, y=y, parameters=model.get_params(deep=False))[0]


def test_one_process_agrees_with_itself():
    check_same_everywhere(task(), ProcessGroup())


def test_the_same_is_agreed_on_whatever_only_the_first_heeds():
    ours = task(verbose=True, callbacks=[print], checkpoint="mine.checkpoint")
    check_same_everywhere(ours, Second(task(callbacks=[lambda epoch: None])))


def test_labels_are_compared_by_what_they_are():
    y = np.where(PEOPLE.linked_target == 0, "a", "b").astype(object)
    again = np.array(["".join(list(label)) for label in y], dtype=object)
    check_same_everywhere(task(y=again), Second(task(y=y)))


def changed(name, row):
    views = {view: X.copy() for view, X in PEOPLE.linked.items()}
    views[name][row] += 1
    return views


@pytest.mark.parametrize(
    ("ours", "what"),
    (
        ({"views": changed("view_1", 0)}, "linked rows of view 'view_1'"),
        ({"views": changed("view_0", -1)}, "linked rows of view 'view_0'"),
        ({"y": PEOPLE.linked_target[::-1]}, "labels y"),
        ({"max_epochs": 7}, "max_epochs"),
    ),
)
def test_what_differs_is_refused_by_name(ours, what):
    with pytest.raises(ValueError, match=f"rank 1 has other {what} than rank 0. Seed whatever"):
        check_same_everywhere(task(**ours), Second(task()))


class Packed(LazyRows):
    """Rows that nobody is to unpack before they are trained on."""

    def fill(self, block):
        raise AssertionError(f"block {block} was unpacked")


def test_of_rows_that_must_be_unpacked_the_number_is_compared():
    def packed(n):
        views = [Packed(np.zeros((n, 3)), np.array([0, 5, n])) for _ in range(2)]
        model = MultiViewEncoder(random_state=0)
        return model._tasks(Xs=views, parameters=model.get_params(deep=False))[0]

    check_same_everywhere(packed(9), Second(packed(9)))
    with pytest.raises(ValueError, match=r"rank 1 has other rows of view 'view_0'; rows of"):
        check_same_everywhere(packed(9), Second(packed(8)))
