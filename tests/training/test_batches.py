import tracemalloc
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch

from hotview._validation import ViewTable
from hotview.training import batches, row_streams
from hotview.training import rows as training_rows
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.columns import Columns
from hotview.training.row_sharding import RowShard, ShardAssignment, own_rows
from hotview.training.rows import ViewRows


class CountingTable(ViewTable):
    """A table that remembers how many rows were asked for."""

    @cached_property
    def asked(self):
        return []

    def rows(self, rows):
        self.asked.append(len(rows))
        return super().rows(rows)


def random_numbers(seed=0):
    return np.random.default_rng(seed)


def make_rows(sizes=(50, 30, 20), n_columns=2, kind=ViewTable):
    """Views whose entries say which row of which view they are."""
    views = []
    for s, n in enumerate(sizes):
        X = (1000 * s + np.arange(n)[:, None] + np.zeros(n_columns)).astype(np.float32)
        columns = Columns(np.zeros(n_columns), np.ones(n_columns), None)
        views.append(ViewRows([kind(X)], columns, torch.device("cpu")))
    return views


def unlabeled(sizes=(50, 30, 20)):
    return TrainingRows(make_rows(sizes), np.empty((0, len(sizes)), dtype=np.int64))


def with_aligned(n=12, sizes=(50, 30, 20), target=None):
    """The first n individuals are in all views, each time in another row."""
    aligned = np.stack([random_numbers(s).permutation(size)[:n] for s, size in enumerate(sizes)], 1)
    target = np.empty(0, dtype=np.int64) if target is None else np.asarray(target)
    return TrainingRows(make_rows(sizes), aligned, target)


def sampler(data, batch_size=10, couples=True, aligned=False, seed=0):
    return Sampler(data, batch_size, random_numbers(seed), couples=couples, aligned=aligned)


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
    assert data.teachers == []
    none, two, one = np.empty(0, dtype=np.int64), np.array([0, 1]), np.array([1])

    def knowing(data, *targets):
        rows = [np.arange(len(target)) for target in targets]
        return replace(data, own=rows, own_target=list(targets))

    unlabeled = with_aligned(5, target=[-1] * 5)
    assert knowing(unlabeled, two, none, two).teachers == [0, 2]
    assert knowing(unlabeled, none, two, none).teachers == [1]
    assert knowing(unlabeled, two, one, none).teachers == [0]  # who knows less does not teach
    assert knowing(unlabeled, two, two, two).teachers == []  # nobody is left to teach
    assert knowing(data, two, none, one).teachers == []  # labels of linked rows teach all
    assert knowing(data, two, none, np.array([3])).teachers == [2]  # but for a class they lack
    assert knowing(unlabeled, two, none, none).taught.tolist() == [0, 1, 2, 3, 4]
    assert knowing(data, two, two, two).taught.tolist() == []


@pytest.mark.parametrize(
    ("sizes", "batch_size", "n_steps", "size"),
    (
        ((50, 30, 20), 10, 5, 10),
        ((50, 30, 20), 12, 5, 10),  # cut evenly: not four of twelve and one of two
        ((20, 50, 30), 40, 2, 25),
        ((50, 30, 20), 50, 1, 50),
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
    for s, n in enumerate(sizes):
        assert {len(batch[s]) for batch in batches} == {min(size, n)}
        seen = np.concatenate([batch[s] for batch in batches])
        assert set(seen.tolist()) == set(range(n))
        counts = np.bincount(seen, minlength=n)
        assert counts.max() - counts.min() <= 1


def test_views_are_shuffled_independently():
    batch = row_numbers(sampler(unlabeled((50, 50, 50)), 50).draw())["rows"]
    assert batch[0] != batch[1]
    assert batch[1] != batch[2]


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
    data = unlabeled()
    graph = [random_numbers(s).integers(0, n, size=(n, 4)) for s, n in enumerate((50, 30, 20))]
    drawn = sampler(replace(data, neighbors=graph), 10)
    seen = [set() for _ in graph]
    for _ in range(200):
        parts = row_numbers(drawn.draw())
        assert list(parts) == ["rows", "neighbors"]
        for s in range(3):
            for row, neighbor in zip(parts["rows"][s], parts["neighbors"][s], strict=True):
                assert neighbor in graph[s][row]
                seen[s].add((row, neighbor))
    # Sooner or later every edge comes.
    edges = [{(i, j) for i, near in enumerate(g.tolist()) for j in near} for g in graph]
    assert all(len(seen[s]) > 0.99 * len(edges[s]) for s in range(3))


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


def test_own_rows_come_with_their_classes():
    own = [np.array([3, 8, 40, 41]), np.empty(0, dtype=np.int64), np.array([7])]
    classes = [np.array([0, 1, 0, 1]), np.empty(0, dtype=np.int64), np.array([1])]
    data = replace(with_aligned(target=[0, 1] + [-1] * 10), own=own, own_target=classes)
    batch = sampler(data, 3, couples=False).draw()
    assert list(batch.sizes) == ["labeled", "own"]
    assert batch.sizes["own"] == [3, 0, 1]
    numbers = row_numbers(batch)["own"]
    for rows, y, all_rows, all_y in zip(numbers, batch.own_targets, own, classes, strict=True):
        known = dict(zip(all_rows.tolist(), all_y.tolist(), strict=True))
        assert [known[row] for row in rows] == y.tolist()


def test_taught_rows_are_aligned_individuals_without_a_label():
    nobody = np.empty(0, dtype=np.int64)
    data = replace(
        with_aligned(target=[-1] * 12),
        own=[np.array([3, 8]), nobody, nobody],
        own_target=[np.array([0, 1]), nobody, nobody],
    )
    drawn = sampler(data, 6)
    individuals = {tuple(rows) for rows in data.aligned.tolist()}
    seen = set()
    for _ in range(2):
        batch = drawn.draw()
        assert list(batch.sizes) == ["own", "taught", "rows"]
        seen |= set(zip(*row_numbers(batch)["taught"], strict=True))
    assert seen == individuals


def test_with_labels_nobody_is_taught():
    data = with_aligned(target=[0, 1] + [-1] * 10)
    nobody = np.empty(0, dtype=np.int64)
    data = replace(
        data, own=[np.array([3]), nobody, nobody], own_target=[np.array([0]), nobody, nobody]
    )
    assert list(sampler(data).draw().sizes) == ["labeled", "own", "rows"]


def tell(sizes, width):
    """What is told about every row of every view: its number, in the first of some columns."""
    return [
        torch.cat([torch.arange(n)[:, None], torch.full((n, width - 1), s)], dim=1).float()
        for s, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("aligned", (False, True))
def test_what_is_told_about_rows_comes_with_them(aligned):
    soft_labels, coordinates = tell((50, 30, 20), 3), tell((50, 30, 20), 4)
    data = replace(
        with_aligned(target=[0, 1] * 6), soft_labels=soft_labels, coordinates=coordinates
    )
    drawn = sampler(data, 10, aligned=aligned)
    for _ in range(5):
        batch = drawn.draw()
        for told, width in ((batch.soft_labels, 3), (batch.coordinates, 4)):
            assert [t.shape[1] for t in told] == [width] * 3
            numbers = [t[:, 0].long().tolist() for t in told]
            assert numbers == row_numbers(batch)["rows"]
            assert [set(t[:, 1].tolist()) for t in told] == [{0.0}, {1.0}, {2.0}]


def test_with_lessons_rows_with_a_label_are_not_taught_apart():
    nobody = np.empty(0, dtype=np.int64)
    data = replace(
        with_aligned(target=[-1] * 12),
        own=[np.arange(45), nobody, nobody],
        own_target=[np.arange(45) % 2, nobody, nobody],
    )
    assert list(sampler(data).draw().sizes) == ["own", "taught", "rows"]
    taught = sampler(replace(data, soft_labels=tell((50, 30, 20), 2)), couples=False)
    batch = taught.draw()
    assert list(batch.sizes) == ["rows"]  # also where nothing is coupled
    assert len(batch.target) == len(batch.own_targets) == 0
    assert (taught.n_steps, taught.batch_size) == (5, 10)


def test_coordinates_alone_change_no_draw():
    data = with_aligned(target=[0, 1] * 6)
    plain = sampler(data).draw()
    told = sampler(replace(data, coordinates=tell((50, 30, 20), 2))).draw()
    assert row_numbers(told) == row_numbers(plain)
    assert plain.soft_labels == plain.coordinates == told.soft_labels == []


def test_the_longest_part_decides_on_the_length_of_an_epoch():
    own = [np.arange(45), np.empty(0, dtype=np.int64), np.arange(5)]
    data = replace(
        with_aligned(target=np.zeros(12, dtype=np.int64)), own=own, own_target=[o * 0 for o in own]
    )
    assert sampler(data, 10, aligned=True).n_steps == 5
    assert sampler(data, 10, aligned=False).n_steps == 5
    assert sampler(with_aligned(), 10, aligned=True).n_steps == 2


def test_the_seed_decides():
    first, same, other = (sampler(unlabeled(), seed=s).draw() for s in (1, 1, 2))
    assert row_numbers(first) == row_numbers(same)
    assert row_numbers(first) != row_numbers(other)


@pytest.mark.parametrize("n", (100, 20_000))
def test_a_step_asks_for_a_batch_of_rows_whatever_their_number(n):
    views = make_rows((n, n // 2, 60), kind=CountingTable)
    aligned = np.stack([np.arange(50)] * 3, axis=1)
    graph = [np.zeros((len(view), 5), dtype=np.int64) for view in views]
    data = TrainingRows(views, aligned, np.arange(50) % 2, neighbors=graph)
    drawn = sampler(data, 20)
    for _ in range(3):
        drawn.draw()
    # 20 labeled, 20 coupled and a neighbor of each.
    assert [view.tables[0].asked for view in views] == [[60] * 3] * 3


def test_the_memory_of_a_step_does_not_depend_on_the_number_of_rows():
    peaks = []
    for n in (2_000, 200_000):
        data = TrainingRows(
            make_rows((n, n), n_columns=20),
            np.stack([np.arange(n)] * 2, axis=1),
            np.zeros(n, dtype=np.int64),
        )
        drawn = sampler(data, 100)
        drawn.draw()
        tracemalloc.start()
        for _ in range(3):
            drawn.draw()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.fixture
def _far(monkeypatch):
    """Small tables are read as large ones are: in windows, and ahead."""
    for module, name, value in (
        (training_rows, "_SMALL", 0),
        (row_streams, "_LARGE", 0),
        (row_streams, "_LEAST", 0),
        (row_streams, "_BLOCKS", 4),
    ):
        monkeypatch.setattr(module, name, value)


def labeled_twice():
    """Rows for every purpose: linked ones with a label and without, and some with their own."""
    own = [np.array([3, 8, 40, 41]), np.empty(0, dtype=np.int64), np.array([7])]
    data = replace(
        with_aligned(target=[-1, 0, 1] * 4), own=own, own_target=[o * 0 + 2 for o in own]
    )
    graph = [random_numbers(s).integers(0, n, size=(n, 4)) for s, n in enumerate((50, 30, 20))]
    return replace(data, neighbors=graph)


@pytest.mark.usefixtures("_far")
@pytest.mark.parametrize("make", (unlabeled, with_aligned, labeled_twice))
@pytest.mark.parametrize("aligned", (False, True))
def test_reading_ahead_changes_nothing(make, aligned, monkeypatch):
    if make is unlabeled and aligned:
        return
    ahead = sampler(make(), 7, aligned=aligned)
    found = [ahead.draw() for _ in range(30)]
    assert ahead._ahead is not None
    monkeypatch.setattr(batches, "READS_AHEAD", 0)
    plain = sampler(make(), 7, aligned=aligned)
    for batch in found:
        expected = plain.draw()
        assert row_numbers(batch) == row_numbers(expected)
        assert torch.equal(batch.target, expected.target)
        assert all(map(torch.equal, batch.own_targets, expected.own_targets))
    assert plain._ahead is None
    # Neither has drawn any more than the other, whatever was read.
    assert ahead.random.bit_generator.state == plain.random.bit_generator.state


@pytest.mark.usefixtures("_far")
def test_reading_ahead_follows_streams_that_are_put_elsewhere():
    drawn = sampler(unlabeled(), 7)
    for _ in range(3):
        drawn.draw()
    states = [stream.state for stream in drawn.streams if stream is not None]
    random = drawn.random.bit_generator.state
    first = [row_numbers(drawn.draw()) for _ in range(12)]
    before = drawn._ahead
    for stream, state in zip((s for s in drawn.streams if s is not None), states, strict=True):
        stream.state = state
    drawn.random.bit_generator.state = random
    assert [row_numbers(drawn.draw()) for _ in range(12)] == first
    assert drawn._ahead is not before


@pytest.mark.usefixtures("_far")
def test_an_error_of_the_reader_is_raised_in_the_step_that_needs_the_rows():
    class Failing(ViewTable):
        def rows(self, rows):
            if 3 in rows:
                raise OSError("the disk is gone")
            return super().rows(rows)

    drawn = sampler(TrainingRows(make_rows((64, 64), kind=Failing), np.empty((0, 2), int)), 4)
    twin, seen = drawn._twin(), 0
    while all(3 not in rows for rows in twin.pick().rows):
        drawn.draw()
        seen += 1
    with pytest.raises(OSError, match="the disk is gone"):
        drawn.draw()
    assert seen < 16


@pytest.mark.usefixtures("_far")
@pytest.mark.parametrize("aligned", (False, True))
def test_rows_are_touched_before_they_are_taken(aligned, monkeypatch):
    monkeypatch.setattr(row_streams, "_BLOCKS", 8)
    touched = {s: set() for s in range(2)}
    data = TrainingRows(make_rows((400, 400)), np.stack([np.arange(400)] * 2, axis=1))
    for s, view in enumerate(data.views):
        view.touch = lambda start, end, s=s: touched[s].update(range(start, end))
    drawn = sampler(data, 4, aligned=aligned)
    for _ in range(50):
        drawn.draw()
    drawn._ahead._thread.shutdown(wait=True)
    # Of every window but the first, half of the rows were taken by now, and more are coming.
    assert all(len(rows) > 150 for rows in touched.values())


def test_small_tables_are_not_read_ahead():
    drawn = sampler(unlabeled())
    drawn.draw()
    assert drawn._ahead is None


@pytest.mark.usefixtures("_far")
def test_what_is_closed_reads_no_more_and_can_go_on():
    one, other = sampler(unlabeled(), 7), sampler(unlabeled(), 7)
    for _ in range(3):
        assert row_numbers(one.draw()) == row_numbers(other.draw())
    thread = one._ahead._thread
    one.close()
    assert one._ahead is None
    assert thread._shutdown
    for _ in range(3):
        assert row_numbers(one.draw()) == row_numbers(other.draw())


class ReadTable(ViewTable):
    """A table that remembers which rows were read."""

    @cached_property
    def read(self):
        return set()

    def rows(self, rows):
        self.read.update(np.arange(self.n_rows)[rows].tolist())
        return super().rows(rows)

    def touch(self, rows):
        self.read.update(range(*rows.indices(self.n_rows)))


@pytest.mark.parametrize("far", (False, True))
def test_processes_read_their_own_rows_and_together_all_of_a_batch(far, monkeypatch):
    if far:  # then rows are read ahead, and pages of those that come later
        monkeypatch.setattr(training_rows, "_SMALL", 0)
        monkeypatch.setattr(row_streams, "_LARGE", 0)
        monkeypatch.setattr(row_streams, "_LEAST", 8 * 20)
    sizes = (300, 200)

    def sampler(rank, n_ranks):
        views = make_rows(sizes, kind=ReadTable)
        aligned = np.arange(20)[:, None].repeat(2, axis=1)
        one = Sampler(
            TrainingRows(views, aligned), 40, random_numbers(), couples=True, aligned=False
        )
        one.share = RowShard.of([view.starts for view in views], rank, n_ranks)
        return one

    whole, *parts = sampler(0, 1), sampler(0, 2), sampler(1, 2)
    for _ in range(20):
        picks = whole.pick()
        Xs = whole.fetch(picks).Xs
        dealt = [one.fetch(one.pick()).Xs for one in parts]
        for s, X in enumerate(Xs):
            deal = ShardAssignment.of(parts[0].share.owners(s, picks.rows[s]), 2)
            torch.testing.assert_close(torch.cat([part[s] for part in dealt])[deal.back], X)
    for rank, one in enumerate(parts):
        one.close()
        for view, n in zip(one.data.views, sizes, strict=True):
            own = own_rows(n, rank, 2)
            assert view.tables[0].read <= set(range(own.start, own.stop))
            assert len(view.tables[0].read) > 0
