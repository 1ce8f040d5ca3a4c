import pytest
import torch

from hotview.ot.pairwise import PairProblem, pair_costs, pair_grads, sort_clouds


def clouds(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in sizes]


def problem(n_rows, n_columns=None, weights=None, p=2.0):
    n = n_rows + (n_columns or 0)
    return PairProblem(n_rows, n_columns, p, tuple(weights or [None] * n))


def test_groups_are_of_equal_size_and_weighted_clouds_stand_alone():
    weights = [None, None, torch.ones(5), None]
    Zs = clouds((5, 7, 5, 5))
    groups = sort_clouds(
        problem(4, weights=weights), torch.eye(3).double(), Zs, torch.zeros(1, 3), with_origin=True
    )
    assert [group.ids for group in groups] == [[0, 3], [1], [2]]
    for group in groups:
        assert (group.values.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("n_columns", (None, 2))
def test_the_short_cut_for_one_group_changes_nothing(n_columns):
    # A weight of ones makes the last cloud a group of its own: the same numbers the long way.
    Zs, theta = clouds((6,) * 5), torch.eye(3, dtype=torch.float64)
    n_rows = 5 - (n_columns or 0)
    results = []
    for weights in ([None] * 5, [None] * 4 + [torch.ones(6)]):
        t = problem(n_rows, n_columns, weights)
        groups = sort_clouds(t, theta, Zs, torch.zeros(1, 3), with_origin=True)
        C = pair_costs(t, groups)
        grads = pair_grads(t, groups, torch.ones_like(C))
        results.append(
            (
                C,
                torch.cat(
                    [
                        g
                        for _, g in sorted(
                            zip(  # back in the order of the clouds
                                [i for group in groups for i in group.ids],
                                torch.cat(grads),
                                strict=True,
                            ),
                            key=lambda pair: pair[0],
                        )
                    ]
                ),
            )
        )
    torch.testing.assert_close(results[0], results[1])
