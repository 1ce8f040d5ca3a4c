"""What a fit is given, and what it leaves behind."""

from hotview.estimators.gathering import Source
from hotview.estimators.task import Task


def test_a_task_holds_no_label_out_unless_told():
    task = Task(Source(["a", "b"], {}, {}), None, {})
    assert len(task.held) == 0
    assert task.validation is None
    assert task.weigh_classes(None) is None
