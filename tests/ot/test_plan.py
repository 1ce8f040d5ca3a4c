import pytest
import torch

from hotview.ot import sinkhorn


def eye(S):
    return torch.eye(S, dtype=torch.bool)


def test_view_labels_of_pairs():
    # Views on a line, at 0 and at 5: the plan keeps mass within each place.
    x = torch.tensor([0.0, 5.0, 0.1, 5.1, 0.2, 5.2])
    plan = sinkhorn((x - x[:, None]).square(), reg=0.2, relative=True, mask=eye(6))
    assert plan.pairwise
    assert plan.view_labels().labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert plan.view_labels(n_groups=1).n_groups == 1


def test_view_labels_of_references():
    C = torch.tensor([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.2]])
    plan = sinkhorn(C, reg=0.1)
    assert not plan.pairwise
    assert plan.view_labels().labels.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="2 references"):
        plan.view_labels(n_groups=2)


def test_a_square_plan_to_references_is_not_taken_for_pairs():
    C = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])  # symmetric by chance
    plan = sinkhorn(C, reg=0.1)
    assert plan.symmetric
    assert not plan.pairwise
    assert plan.view_labels().labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("options", ({"n_groups": 2.5}, {"n_groups": 0}, {"tie_tol": -1.0}))
def test_bad_options_of_view_labels(options):
    plan = sinkhorn(torch.zeros(4, 4), reg=1.0, mask=eye(4))
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        plan.view_labels(**options)


def test_pairs_with_unequal_marginals_are_still_pairs():
    C = torch.rand(4, 4)
    a = torch.tensor([0.3, 0.3, 0.2, 0.2])
    assert sinkhorn(C + C.T, a, reg=0.5, mask=eye(4)).pairwise


def test_batched_plans_are_labelled_one_by_one():
    with pytest.raises(ValueError, match="one plan"):
        sinkhorn(torch.rand(2, 4, 3), reg=0.1).view_labels()


def test_repr_says_whether_it_converged():
    C = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    assert "converged in" in repr(sinkhorn(C, reg=1.0))
    assert "NOT converged in 1 iterations" in repr(sinkhorn(C, reg=0.01, max_iter=1))
    assert "2 × 6 × 4" in repr(sinkhorn(C.expand(2, 6, 4), reg=1.0))


def test_a_plan_cannot_be_changed():
    plan = sinkhorn(torch.rand(3, 2), reg=1.0)
    with pytest.raises(AttributeError):
        plan.W = plan.C
