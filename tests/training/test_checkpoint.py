import copy
import runpy
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch

from hotview._archive import read_archive, write_archive
from hotview.training import batches
from hotview.training.batched import BatchedTrainer
from hotview.training.checkpoint import _CHECKPOINT, Checkpoint, read_checkpoint
from hotview.training.loop import Schedule, train
from hotview.training.trainer import SingleTrainer, Training

MAKE = runpy.run_path(str(Path(__file__).parent / "test_loop.py"))
NAMES, weights_of, N_EPOCHS = MAKE["NAMES"], MAKE["weights_of"], 6


@pytest.fixture(autouse=True)
def _one_thread():
    """Steps are small here: a second thread would only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Dropping(torch.nn.Module):
    """An encoder that draws from torch's global generator, and counts batches."""

    def __init__(self):
        super().__init__()
        layers = [torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.5)]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(6, 5))

    def forward(self, X):
        return self.layers(X)


def make_training(seed, coupling="hot-reference", *, drops=False, score=False):
    network, random = MAKE["make_network_of_views"](), np.random.default_rng(seed)
    torch.manual_seed(seed)
    for p in network.parameters():
        p.data += 0.1 * torch.randn(p.shape)
    if drops:
        network.encoders[0] = Dropping()
    sampler = MAKE["Sampler"](MAKE["make_data"](), 13, random, couples=True, aligned=False)
    objective = MAKE["make_objective"](coupling, head_weight=1.0)
    generator = torch.Generator().manual_seed(seed)
    member = Training(network, objective, sampler, generator)
    if score:  # something that depends on the weights alone
        member.score = lambda: float(sum(x.double().sum() for x in weights_of(network)).sin())
    return member


def make_trainer(n, **options):
    trainings = [make_training(seed, **options) for seed in range(n)]
    torch.manual_seed(99)
    return SingleTrainer(trainings[0], 0.01) if n == 1 else BatchedTrainer(trainings, 0.01)


def results(trainings):
    weights = [x.clone() for t in trainings for m in t.modules for x in m.state_dict().values()]
    rows = [{k: v for k, v in row.items() if k != "seconds"} for t in trainings for row in t.rows]
    drawn = [t.sampler.random.random() for t in trainings]
    drawn += [torch.rand(1, generator=t.generator).item() for t in trainings]
    return weights, rows, [*drawn, torch.rand(1).item()]


def assert_same(a, b):
    assert all(torch.equal(x, y) for x, y in zip(a[0], b[0], strict=True))
    assert a[1:] == b[1:]


OPTIONS = {
    "default": {},
    "pairwise": {"coupling": "hot-pairwise"},
    "none": {"coupling": "none"},
    "dropout": {"drops": True},
}


@pytest.mark.parametrize("n", (1, 3))
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_going_on_from_any_epoch_gives_the_same_bits(tmp_path, n, options):
    schedule = Schedule(N_EPOCHS, view_names=NAMES, checkpoint_every=1)
    trainer = make_trainer(n, **options)
    whole = results(train(trainer, schedule))
    for stop in (1, 4, N_EPOCHS):
        path = tmp_path / f"{stop}.checkpoint"
        first = Checkpoint(path, {"seed": 0})
        train(make_trainer(n, **options), Schedule(stop, view_names=NAMES), first)
        trainer = make_trainer(n, **options)
        checkpoint = read_checkpoint(path)
        assert_same(results(train(trainer, schedule, checkpoint)), whole)


@pytest.mark.parametrize("n", (1, 2))
def test_an_order_in_windows_is_resumed(tmp_path, n, monkeypatch):
    for name, value in (("_LARGE", 0), ("_LEAST", 0), ("_BLOCKS", 4)):
        monkeypatch.setattr(batches, name, value)
    test_going_on_from_any_epoch_gives_the_same_bits(tmp_path, n, {})
    # Not by chance: in windows the order is another.
    found = results(train(make_trainer(n), Schedule(1, view_names=NAMES)))
    monkeypatch.undo()
    other = results(train(make_trainer(n), Schedule(1, view_names=NAMES)))
    assert found[1] != other[1]


@pytest.mark.parametrize("n", (1, 3))
def test_the_best_weights_and_patience_are_gone_on_with(tmp_path, n):
    schedule = Schedule(40, view_names=NAMES, patience=3)
    trainer = make_trainer(n, score=True)
    whole = results(train(trainer, schedule))
    assert len(whole[1]) < 40 * n  # or patience was not needed
    for stop in (2, 4, 40):
        first = Checkpoint(tmp_path / "a.checkpoint", {})
        shorter = Schedule(stop, view_names=NAMES, patience=3)
        train(make_trainer(n, score=True), shorter, first)
        trainer = make_trainer(n, score=True)
        checkpoint = read_checkpoint(first.path)
        assert_same(results(train(trainer, schedule, checkpoint)), whole)


@pytest.mark.parametrize("n", (1, 2))
@pytest.mark.parametrize("step", (1, 5, 8))
def test_what_was_interrupted_within_an_epoch_is_gone_on_with(tmp_path, n, step):
    schedule = Schedule(N_EPOCHS, view_names=NAMES, checkpoint_every=100)
    trainer = make_trainer(n)
    whole = results(train(trainer, schedule))
    trainer, first = make_trainer(n), Checkpoint(tmp_path / "a.checkpoint", {})
    take, taken = trainer.step, []

    def interrupted():
        taken.append(take())
        if len(taken) == step:
            signal.raise_signal(signal.SIGINT)
        return taken[-1]

    trainer.step = interrupted
    assert all(training.interrupted for training in train(trainer, schedule, first))
    assert len(taken) == step
    trainer = make_trainer(n)
    checkpoint = read_checkpoint(first.path)
    assert_same(results(train(trainer, schedule, checkpoint)), whole)


def test_nothing_is_written_twice(tmp_path):
    first = Checkpoint(tmp_path / "a.checkpoint", {})
    schedule = Schedule(4, view_names=NAMES, checkpoint_every=2)
    written = []
    write = first.write
    first.write = lambda: (written.append(first.trainers[0].facts["epoch"]), write())
    train(make_trainer(1), schedule, first)
    assert written == [2, 4]


def test_teams_are_kept_side_by_side(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", {"why": "so"})
    schedule = Schedule(2, view_names=NAMES)
    train(make_trainer(1), schedule, checkpoint)
    train(make_trainer(2), schedule, checkpoint, 1)
    found = read_checkpoint(checkpoint.path)
    assert found.facts["why"] == "so"
    assert [len(state.facts["trainings"]) for state in found.trainers] == [1, 2]
    for state, other in zip(found.trainers, checkpoint.trainers, strict=True):
        assert state.facts == other.facts
        assert state.tensors.keys() == other.tensors.keys()
        assert all(torch.equal(x, other.tensors[name]) for name, x in state.tensors.items())


def test_a_checkpoint_does_not_change_while_training_goes_on(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", {})
    trainer = make_trainer(2)
    train(trainer, Schedule(2, view_names=NAMES), checkpoint)
    before = copy.deepcopy(checkpoint.trainers[0].tensors)
    train(trainer, Schedule(4, view_names=NAMES))
    assert all(torch.equal(x, before[name]) for name, x in checkpoint.trainers[0].tensors.items())


def test_fewer_epochs_than_were_made_are_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", {})
    train(make_trainer(1), Schedule(3, view_names=NAMES), checkpoint)
    with pytest.raises(ValueError, match=r"Expected max_epochs to be at least 3.* but it is 2"):
        train(make_trainer(1), Schedule(2, view_names=NAMES), checkpoint)


def test_a_reader_disturbs_no_writer(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", {})
    train(make_trainer(1), Schedule(1, view_names=NAMES), checkpoint)
    ended = Event()

    def read():
        while not ended.is_set():
            assert len(read_checkpoint(checkpoint.path).trainers) == 1

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            for _ in range(50):
                checkpoint.write()
        finally:
            ended.set()
        reading.result()


def change_team(tensors, facts):
    facts["trainers"][0]["trainings"] = []


def change_streams(tensors, facts):
    tensors["0.trainings.0.orders.0.remaining"] = torch.tensor([1000])


def change_random(tensors, facts):
    facts["trainers"][0]["trainings"][0]["random"] = {"bit_generator": "other"}


def lose_weights(tensors, facts):
    del tensors["0.network.maps.0.weight"]


def shorten_moments(tensors, facts):  # past whose end the optimizer would write
    for name in tensors:
        if "exp_avg" in name:
            tensors[name] = torch.zeros(1)


def change_fact(name, value):
    return lambda tensors, facts: facts["trainers"][0].update({name: value})


def change_file(name, value):
    return lambda tensors, facts: facts.update({name: value})


@pytest.mark.parametrize(
    "change",
    (
        *(change_team, change_streams, change_random, lose_weights, shorten_moments),
        *(change_fact("epoch", value) for value in (float("inf"), -5, 10**9, None)),
        *(change_fact("step", value) for value in (10**9, -1)),
        change_fact("n_kept", 10**8),
        *(change_file("seconds", value) for value in ([], -1.0, float("inf"), 10**400, None)),
        *(change_file("trainers", value) for value in ([], [1], {}, [{}] * 100)),
    ),
)
def test_a_checkpoint_whose_parts_do_not_fit_is_refused(tmp_path, change):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", {})
    train(make_trainer(1), Schedule(1, view_names=NAMES), checkpoint)
    archive = read_archive(checkpoint.path, _CHECKPOINT)
    change(archive.tensors, archive.metadata)
    write_archive(checkpoint.path, _CHECKPOINT, archive.tensors, archive.metadata)
    message = rf"Expected {checkpoint.path} to be a checkpoint that hotview saved, but"
    with pytest.raises(ValueError, match=message):
        train(make_trainer(1), Schedule(2, view_names=NAMES), read_checkpoint(checkpoint.path))


def test_replicas_that_take_turns_do_not_go_on_together(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", {})
    train(make_trainer(1), Schedule(1, view_names=NAMES), checkpoint)
    with pytest.raises(ValueError, match="trains 2 at a time, but it is of one that trains 1"):
        train(make_trainer(2), Schedule(2, view_names=NAMES), checkpoint)


def test_another_file_is_refused(tmp_path):
    write_archive(tmp_path / "a.checkpoint", _CHECKPOINT, {}, {"trainers": 3})
    with pytest.raises(ValueError, match="a checkpoint that hotview saved, but its 'seconds'"):
        read_checkpoint(tmp_path / "a.checkpoint")
