import numpy as np
import pytest

from hotview.training.process_group import RowShard, ShardAssignment, shard_of_rank


@pytest.mark.parametrize("n", (0, 1, 2, 7, 100))
@pytest.mark.parametrize("size", (1, 2, 3, 8))
def test_every_row_has_one_owner_and_nobody_much_more_than_others(n, size):
    parts = [np.arange(n)[shard_of_rank(n, rank, size)] for rank in range(size)]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(n))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("size", (1, 2, 3, 8))
def test_owners_are_those_of_every_table(size):
    sizes = (5, 0, 1, 12)
    starts = np.cumsum([0, *sizes])
    expected = [
        rank for n in sizes for rank in range(size) for _ in range(n)[shard_of_rank(n, rank, size)]
    ]
    for rank in range(size):
        share = RowShard.of([starts], rank, size)
        rows = np.random.default_rng(0).permutation(18)
        np.testing.assert_array_equal(share.owners(0, rows), np.array(expected)[rows])
        mine = [row for row in rows if expected[row] == rank]
        np.testing.assert_array_equal(share.pick(0, rows), mine)


def test_stretches_are_cut_to_what_is_ones_own():
    starts = [np.array([0, 10, 30])]
    first, second = (RowShard.of(starts, rank, 2) for rank in (0, 1))
    assert first.clip(0, 3, 25) == [(3, 5), (10, 20)]
    assert second.clip(0, 3, 25) == [(5, 10), (20, 25)]
    assert second.clip(0, 0, 5) == []


def test_rows_that_were_dealt_out_come_back_in_order():
    random = np.random.default_rng(0)
    owners, X = random.integers(3, size=20), random.normal(size=(20, 2))
    deal = ShardAssignment.of(owners, 4)  # the last of whom has nothing
    gathered = np.concatenate([X[places] for places in deal.places])
    np.testing.assert_array_equal(gathered[deal.back], X)
    assert all((owners[places] == rank).all() for rank, places in enumerate(deal.places))
