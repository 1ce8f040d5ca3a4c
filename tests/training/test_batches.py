from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview._processes import shard_of_rank
from hotview._validation import ViewTable
from hotview.preprocessing.rows import RowsByRank, RowShard
from hotview.training import batches
from hotview.training.batches import ShuffledIndices, TrainingRows
from tests.training.small_training import as_rows, make_sampler


class CountingTable(ViewTable):
    """A table that remembers which rows were asked for."""

    @cached_property
    def asked(self):
        return []

    def rows(self, rows, **options):
        self.asked.append(np.arange(self.n_rows)[rows])
        return super().rows(rows, **options)


def make_rows(sizes=(50, 30, 20), n_columns=2, kind=ViewTable):
    """Views whose entries say which row of which view they are."""
    return [
        as_rows((1000 * s + np.arange(n)[:, None] + np.zeros(n_columns)).astype("f4"), table=kind)
        for s, n in enumerate(sizes)
    ]


def unlabeled(sizes=(50, 30, 20)):
    return TrainingRows(make_rows(sizes), np.empty((0, len(sizes)), dtype=np.int64))


def with_aligned(n=12, sizes=(50, 30, 20), target=None):
    """The first n individuals are in all views, each time in another row."""
    aligned = np.stack(
        [np.random.default_rng(s).permutation(size)[:n] for s, size in enumerate(sizes)], 1
    )
    target = np.empty(0, dtype=np.int64) if target is None else np.asarray(target)
    return TrainingRows(make_rows(sizes), aligned, target)


def sampler(data, batch_size=10, couples=True, aligned=False, seed=0):
    return make_sampler(data, batch_size, seed, couples=couples, aligned=aligned)


def row_numbers(batch):
    """Which rows of which view a batch holds, by part."""
    parts = batch.split(batch.Xs)
    return {
        name: [(X[:, 0] - 1000 * s).long().tolist() for s, X in enumerate(Xs)]
        for name, Xs in parts.items()
    }


def test_what_is_known_about_training_rows():
    data = with_aligned(5, target=[1, -1, 0, 2, -1])
    assert data.labeled.tolist() == [0, 2, 3]
    assert data.source_views == []
    none, two, one = np.empty(0, dtype=np.int64), np.array([0, 1]), np.array([1])

    def with_labels(data, *targets):
        rows = [np.arange(len(target)) for target in targets]
        return replace(data, view_labeled=rows, view_targets=list(targets))

    unlabeled = with_aligned(5, target=[-1] * 5)
    assert with_labels(unlabeled, two, none, two).source_views == [0, 2]
    assert with_labels(unlabeled, none, two, none).source_views == [1]
    assert with_labels(unlabeled, two, one, none).source_views == [0]  # 1 has fewer classes
    assert with_labels(unlabeled, two, two, two).source_views == []  # no target view is left
    assert with_labels(data, two, none, one).source_views == []  # linked rows have labels
    assert with_labels(data, two, none, np.array([3])).source_views == [2]  # which linked rows lack
    assert with_labels(unlabeled, two, none, none).transfer_rows.tolist() == [0, 1, 2, 3, 4]
    assert with_labels(data, two, two, two).transfer_rows.tolist() == []


@pytest.mark.parametrize(
    ("sizes", "batch_size", "n_steps", "size"),
    (
        ((50, 30, 20), 12, 5, 10),  # cut evenly: not four of twelve and one of two
        ((20, 50, 30), 40, 2, 25),
        ((50, 30, 20), 1000, 1, 50),  # shrinks to the rows there are
        ((51, 30, 20), 50, 2, 26),
        ((50, 30, 20), 1, 50, 1),
    ),
)
def test_an_epoch_passes_over_the_largest_view_and_smaller_ones_repeat(
    sizes, batch_size, n_steps, size
):
    drawn = sampler(unlabeled(sizes), batch_size)
    assert (drawn.n_steps, drawn.batch_size) == (n_steps, size)
    batches = [row_numbers(drawn.draw())["rows"] for _ in range(n_steps)]
    same, other = (sampler(unlabeled(sizes), batch_size, seed=seed).draw() for seed in (0, 1))
    assert row_numbers(same)["rows"] == batches[0] != row_numbers(other)["rows"]
    for s, n in enumerate(sizes):
        assert {len(batch[s]) for batch in batches} == {min(size, n)}
        seen = np.concatenate([batch[s] for batch in batches])
        assert set(seen.tolist()) == set(range(n))
        counts = np.bincount(seen, minlength=n)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("n", (12, 40))
def test_aligned_draws_are_the_same_individuals(n):
    data = with_aligned(n, sizes=(60, 60, 60))
    drawn = sampler(data, 10, aligned=True)
    assert drawn.n_steps == -(-n // 10)
    individuals = {tuple(rows) for rows in data.aligned.tolist()}
    seen = set()
    for _ in range(drawn.n_steps):
        rows = row_numbers(drawn.draw())["rows"]
        together = set(zip(*rows, strict=True))
        assert len(together) == drawn.batch_size
        assert together <= individuals
        seen |= together
    assert seen == individuals


def test_neighbors_are_neighbors():
    graph = [
        np.random.default_rng(s).integers(0, n, size=(n, 4)) for s, n in enumerate((50, 30, 20))
    ]
    drawn = sampler(replace(unlabeled(), neighbors=graph), 10)
    seen = [set() for _ in graph]
    for _ in range(120):
        parts = row_numbers(drawn.draw())
        assert list(parts) == ["rows", "neighbors"]
        for edges, rows, neighbors in zip(seen, parts["rows"], parts["neighbors"], strict=True):
            edges |= set(zip(rows, neighbors, strict=True))
    for edges, g in zip(seen, graph, strict=True):  # sooner or later every edge comes
        expected = {(i, j) for i, near in enumerate(g.tolist()) for j in near}
        assert edges <= expected
        assert len(edges) > 0.99 * len(expected)


def test_labeled_rows_come_with_their_classes():
    target = np.arange(12) % 3
    target[[2, 7]] = -1
    data = with_aligned(target=target)
    drawn = sampler(data, 10, couples=False)
    assert drawn.n_steps == 5  # a control is trained for as many steps as what couples
    class_of = {tuple(rows): y for rows, y in zip(data.aligned.tolist(), target, strict=True)}
    seen = []
    for _ in range(3):
        batch = drawn.draw()
        assert list(batch.sizes) == ["labeled"]
        individuals = list(zip(*row_numbers(batch)["labeled"], strict=True))
        assert [class_of[rows] for rows in individuals] == batch.target.tolist()
        assert batch.target.dtype == torch.int64
        seen += individuals
    assert {rows for rows in class_of if class_of[rows] >= 0} == set(seen)


def test_own_rows_come_with_their_classes_and_transfer_rows_are_aligned_ones_without():
    own = [np.array([3, 8, 40, 41]), np.empty(0, dtype=np.int64), np.array([7])]
    classes = [np.array([0, 1, 0, 1]), np.empty(0, dtype=np.int64), np.array([1])]
    data = replace(with_aligned(target=[-1] * 12), view_labeled=own, view_targets=classes)
    drawn, seen = sampler(data, 6), set()
    individuals = {tuple(rows) for rows in data.aligned.tolist()}
    for _ in range(2):
        batch = drawn.draw()
        assert list(batch.sizes) == ["view_labeled", "transfer", "rows"]
        assert batch.sizes["view_labeled"] == [4, 0, 1]
        numbers = row_numbers(batch)
        for rows, y, all_rows, all_y in zip(
            numbers["view_labeled"], batch.view_targets, own, classes, strict=True
        ):
            known = dict(zip(all_rows.tolist(), all_y.tolist(), strict=True))
            assert [known[row] for row in rows] == y.tolist()
        seen |= set(zip(*numbers["transfer"], strict=True))
    assert seen == individuals
    labeled = replace(data, target=np.array([0, 1] + [-1] * 10))  # then nothing is transferred
    assert list(sampler(labeled, 3, couples=False).draw().sizes) == ["labeled", "view_labeled"]


def tell(sizes, width):
    """What is told about every row of every view: its number, in the first of some columns."""
    return [
        torch.cat([torch.arange(n)[:, None], torch.full((n, width - 1), s)], dim=1).float()
        for s, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("aligned", (False, True))
def test_what_is_told_about_rows_comes_with_them(aligned):
    soft_labels, coordinates = tell((50, 30, 20), 3), tell((50, 30, 20), 4)
    plain = with_aligned(target=[0, 1] * 6)
    told = {"soft_labels": soft_labels, "coordinates": coordinates}
    told |= {"links": LINKS, "link_targets": tell((50, 30, 20), 5)}
    drawn = sampler(replace(plain, **told), 10, aligned=aligned)
    for _ in range(5):
        batch = drawn.draw()
        for told, width in (
            (batch.soft_labels, 3),
            (batch.coordinates, 4),
            (batch.link_targets, 5),
        ):
            assert [t.shape[1] for t in told] == [width] * 3
            numbers = [t[:, 0].long().tolist() for t in told]
            assert numbers == row_numbers(batch)["rows"]
            assert [set(t[:, 1].tolist()) for t in told] == [{0.0}, {1.0}, {2.0}]


def test_with_soft_labels_labeled_rows_are_not_drawn_separately():
    nobody = np.empty(0, dtype=np.int64)
    own = {"view_labeled": [np.arange(45), nobody, nobody]}
    own["view_targets"] = [np.arange(45) % 2, nobody, nobody]
    data = replace(with_aligned(target=[-1] * 12), **own)
    assert list(sampler(data).draw().sizes) == ["view_labeled", "transfer", "rows"]
    drawn = sampler(replace(data, soft_labels=tell((50, 30, 20), 2)), couples=False)
    batch = drawn.draw()
    assert list(batch.sizes) == ["rows"]  # also where nothing is coupled
    assert len(batch.target) == len(batch.view_targets) == 0
    assert (drawn.n_steps, drawn.batch_size) == (5, 10)
    # The longest part decides on the length of an epoch.
    labeled = replace(with_aligned(target=[0] * 12), **own)
    assert [sampler(labeled, aligned=aligned).n_steps for aligned in (True, False)] == [5, 5]
    assert sampler(with_aligned(), aligned=True).n_steps == 2


def test_a_step_asks_for_a_batch_of_rows_whatever_their_number():
    views = make_rows((200_000, 100_000, 60), kind=CountingTable)
    aligned = np.stack([np.arange(50)] * 3, axis=1)
    graph = [np.zeros((view.n_rows, 5), dtype=np.int64) for view in views]
    data = TrainingRows(views, aligned, np.arange(50) % 2, neighbors=graph)
    drawn = sampler(data, 20)
    for _ in range(3):
        drawn.draw()
    # 20 labeled, 20 coupled and a neighbor of each.
    assert [[len(rows) for rows in view.tables[0].asked] for view in views] == [[60] * 3] * 3


def test_processes_read_their_own_rows_and_together_all_of_a_batch():
    sizes = (300, 200)

    def sampler(rank, n_ranks):
        views = make_rows(sizes, kind=CountingTable)
        aligned = np.arange(20)[:, None].repeat(2, axis=1)
        one = make_sampler(TrainingRows(views, aligned), 40, 0, aligned=False)
        one.shard = RowShard.of([view.starts for view in views], rank, n_ranks)
        return one

    whole, *parts = sampler(0, 1), sampler(0, 2), sampler(1, 2)
    for _ in range(10):
        indices = whole.draw_indices()
        Xs = whole.load(indices).Xs
        sharded = [one.load(one.draw_indices()).Xs for one in parts]
        for s, X in enumerate(Xs):
            by_rank = RowsByRank.of(parts[0].shard.owners(s, indices.rows[s]), 2)
            gathered = torch.cat([part[s] for part in sharded])
            torch.testing.assert_close(gathered[by_rank.inverse], X)
    for rank, one in enumerate(parts):
        for view, n in zip(one.data.views, sizes, strict=True):
            own = shard_of_rank(n, rank, 2)
            read = np.concatenate(view.tables[0].asked)
            assert len(read) > 0
            assert np.isin(read, np.arange(own.start, own.stop)).all()


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 60),
    size=st.integers(1, 70),
    seed=st.integers(0, 100),
    window=st.sampled_from((None, 1, 5, 30)),
    blocks=st.sampled_from((1, 3, 128)),
)
def test_every_number_comes_once_before_any_comes_again(n, size, seed, window, blocks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_BLOCKS", blocks)
        stream = ShuffledIndices(n, size, np.random.default_rng(seed), window)
        drawn = [stream.next_batch() for _ in range(1 + 4 * n // min(size, n))]
    for batch in drawn:
        assert len(batch) == min(size, n)
        assert len(set(batch.tolist())) == len(batch)
    numbers = np.concatenate(drawn)
    for start in range(0, len(numbers) - n + 1, n):
        assert sorted(numbers[start : start + n]) == list(range(n))


@pytest.mark.parametrize("window", (None, 1))
def test_numbers_of_the_next_round_in_a_batch_are_a_fair_draw(window, monkeypatch):
    # Of four numbers, batches of three: the two that complete the second batch are any two others.
    monkeypatch.setattr(batches, "_BLOCKS", 2)
    counts = np.zeros(4)
    for seed in range(1000):
        stream = ShuffledIndices(4, 3, np.random.default_rng(seed), window)
        first, second = stream.next_batch(), stream.next_batch()
        (left,) = set(range(4)) - set(first.tolist())
        assert second[0] == left
        counts[second[1:]] += 1
    np.testing.assert_allclose(counts / 1000, 0.5, atol=0.07)


def test_a_window_is_random_blocks_of_consecutive_numbers_in_any_order():
    n, window = 100_000, 1280  # blocks of ten
    stream = ShuffledIndices(n, 128, np.random.default_rng(0), window)
    rounds = np.stack([[stream.next_batch() for _ in range(10)] for _ in range(n // window)])
    for numbers in rounds.reshape(-1, window):
        blocks, counts = np.unique(numbers // 10, return_counts=True)
        assert (len(blocks), set(counts)) == (128, {10})
        # Blocks are from anywhere, and neighbors in a block are neighbors no longer.
        assert np.abs(numbers.mean() - n / 2) < 5 * n / np.sqrt(12 * 128)
        assert np.mean(np.abs(np.diff(numbers)) < 10) < 0.05
    # A batch of a window holds of every block as much as any other, up to chance.
    held = [len(np.unique(batch // 10)) for batch in rounds.reshape(-1, 128)]
    expected = 128 * (1 - (1 - 0.1) ** 10)
    assert abs(np.mean(held) - expected) < 1


@pytest.mark.parametrize(("n", "size", "window"), ((103, 10, 20), (50, 50, 50), (0, 5, 1)))
def test_all_its_states_are_accepted_and_numbers_that_come_twice_are_not(
    monkeypatch, n, size, window
):
    monkeypatch.setattr(batches, "_BLOCKS", 4)
    order = ShuffledIndices(n, size, np.random.default_rng(0), window)
    other = (np.array([n]), np.array([-1]), np.zeros(3), np.zeros((1, 1), dtype=int))
    for _ in range(40):
        state = order.state
        order.check(state)
        for name, numbers in state.items():
            twice = [np.append(numbers, numbers[0])] if len(numbers) > 0 else []
            for wrong in (*other, *twice):
                with pytest.raises(ValueError, match=f"invalid {name} numbers"):
                    order.check({**state, name: wrong})
        if len(state["remaining"]) > 0:
            first = state["remaining"][:1]
            for wrong in ({"deferred": first}, {"blocks": first // order.block}):
                with pytest.raises(ValueError, match="remaining numbers twice"):
                    order.check({**state, **wrong})
        order.next_batch()


LINKS = np.array([[3, 8, -1], [4, -1, 2], [-1, 20, 7], [40, 9, 19], [0, 0, 0]])


def test_linked_rows_come_with_the_views_that_they_have():
    plain, drawn = sampler(unlabeled(), 3), sampler(replace(unlabeled(), links=LINKS), 3)
    assert (plain.n_steps, plain.batch_size) == (drawn.n_steps, drawn.batch_size)
    without, seen = plain.draw(), set()
    assert "linked" not in without.sizes
    assert without.linked_present.numel() == 0
    nobody = sampler(replace(unlabeled(), links=LINKS[:0]), 3).draw()
    assert row_numbers(nobody) == row_numbers(without)
    for _ in range(5):
        batch = drawn.draw()
        assert list(batch.sizes) == ["rows", "linked"]
        assert batch.sizes["linked"] == [3, 3, 3]
        assert batch.linked_present.dtype == torch.bool
        numbers = np.array(row_numbers(batch)["linked"]).T
        found = np.where(batch.linked_present.numpy(), numbers, -1)
        assert (numbers[~batch.linked_present.numpy()] == 0).all()  # any row in its place
        seen |= {tuple(row) for row in found.tolist()}
    assert seen == set(map(tuple, LINKS.tolist()))
