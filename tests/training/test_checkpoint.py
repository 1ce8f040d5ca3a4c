import copy
import signal

import numpy as np
import pytest
import torch

from hotview._archive import read_archive, write_archive
from hotview._codec import decode, encode
from hotview.training import batches
from hotview.training.batched import BatchedTrainer
from hotview.training.checkpoint import (
    _CHECKPOINT,
    Checkpoint,
    TrainerState,
    check_tensors,
    read_checkpoint,
)
from hotview.training.loop import Schedule, train
from hotview.training.trainer import SingleTrainer, Training
from tests.training.small_training import (
    NAMES,
    make_network_of_views,
    make_objective,
    make_sampler,
    seeded,
    weights_of,
)

N_EPOCHS = 4


class Dropping(torch.nn.Module):
    """An encoder that draws from torch's global generator, and counts batches."""

    def __init__(self):
        super().__init__()
        layers = [torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.5)]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(6, 5))

    def forward(self, X):
        return self.layers(X)


def make_training(seed, coupling="hot-reference", *, drops=False, score=False):
    network = make_network_of_views()
    torch.manual_seed(seed)
    for p in network.parameters():
        p.data += 0.1 * torch.randn(p.shape)
    if drops:
        network.encoders[0] = Dropping()
    sampler = make_sampler(batch_size=13, seed=seed, aligned=False)
    objective = make_objective(coupling, head_weight=1.0)
    member = Training(network, objective, sampler, seeded(seed))
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


@pytest.mark.parametrize(
    ("n", "options"),
    ((1, {"drops": True}), (1, {"coupling": "none"}), (2, {"drops": True, "score": True})),
)
def test_going_on_from_any_epoch_gives_the_same_bits(tmp_path, n, options):
    """Also with the best weights, and the patience, of the epochs before."""
    patience = {"patience": 3} if options.get("score") else {}
    n_epochs = 40 if patience else N_EPOCHS
    schedule = Schedule(n_epochs, view_names=NAMES, checkpoint_every=1, **patience)
    whole = results(train(make_trainer(n, **options), schedule))
    assert not patience or len(whole[1]) < 40 * n  # or patience was not needed
    for stop in (2, n_epochs):
        first = Checkpoint(tmp_path / f"{stop}.checkpoint", 0)
        shorter = Schedule(stop, view_names=NAMES, **patience)
        train(make_trainer(n, **options), shorter, first)
        trainer, checkpoint = make_trainer(n, **options), read_checkpoint(first.path)
        assert_same(results(train(trainer, schedule, checkpoint)), whole)


def test_an_order_in_windows_is_resumed(tmp_path, monkeypatch):
    for name, value in (("_LARGE", 0), ("_LEAST", 0), ("_BLOCKS", 4)):
        monkeypatch.setattr(batches, name, value)
    test_going_on_from_any_epoch_gives_the_same_bits(tmp_path, 1, {})
    # Not by chance: in windows the order is another.
    found = results(train(make_trainer(1), Schedule(1, view_names=NAMES)))
    monkeypatch.undo()
    other = results(train(make_trainer(1), Schedule(1, view_names=NAMES)))
    assert found[1] != other[1]


@pytest.mark.parametrize("every", (1, 100))
@pytest.mark.parametrize(("n", "step", "epochs"), ((1, 1, 0), (1, 8, 2), (1, 10, 2), (2, 5, 1)))
def test_an_interrupted_epoch_is_repeated(tmp_path, n, step, epochs, every, pythons_own_handler):
    """Its steps count for the model at that time, and not for the checkpoint."""
    n_steps = make_training(0).sampler.n_steps
    schedule = Schedule(N_EPOCHS, view_names=NAMES, checkpoint_every=every)
    whole = results(train(make_trainer(n), schedule))
    trainer, first = make_trainer(n), Checkpoint(tmp_path / "a.checkpoint", 0)
    take, numbers = trainer.step, iter(range(1, 100))

    def interrupted():
        if next(numbers) == step:
            signal.raise_signal(signal.SIGINT)
        return take()

    trainer.step = interrupted
    assert all(training.interrupted for training in train(trainer, schedule, first))
    assert next(numbers) == step + 1
    assert len(trainer.trainings[0].rows) == -(-step // n_steps)
    trainer, checkpoint = make_trainer(n), read_checkpoint(first.path)
    assert checkpoint.trainers[0].epoch == step // n_steps == epochs
    assert_same(results(train(trainer, schedule, checkpoint)), whole)


def test_teams_are_kept_side_by_side_and_do_not_change_while_training_goes_on(tmp_path):
    checkpoint, trainer = Checkpoint(tmp_path / "a.checkpoint", 5, {"why": "so"}), make_trainer(2)
    train(make_trainer(1), Schedule(2, view_names=NAMES), checkpoint)
    train(trainer, Schedule(2, view_names=NAMES), checkpoint, 1)
    train(trainer, Schedule(4, view_names=NAMES))
    found = read_checkpoint(checkpoint.path)
    assert (found.seed, found.fingerprint) == (5, {"why": "so"})
    assert [len(state.trainings) for state in found.trainers] == [1, 2]
    for state, other in zip(found.trainers, checkpoint.trainers, strict=True):
        assert_equal_states(state, other)


@pytest.mark.parametrize(
    "change",
    (
        *({"seed": value} for value in ("x", -5, 1.0, True, None)),
        *({"fingerprint": value} for value in ([], {"y": 1}, None)),
        *({"seconds": value} for value in ([], -1.0, 10**400, None)),
        *({"trainers": value} for value in ([], [1], {}, [{}] * 100)),
    ),
    ids=str,
)
def test_a_checkpoint_whose_parts_do_not_fit_is_refused(tmp_path, change):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", 0)
    train(make_trainer(1), Schedule(1, view_names=NAMES), checkpoint)
    archive = read_archive(checkpoint.path, _CHECKPOINT)
    write_archive(checkpoint.path, _CHECKPOINT, archive.tensors, {**archive.metadata, **change})
    message = rf"Expected {checkpoint.path} to be a checkpoint that hotview saved, but"
    with pytest.raises(ValueError, match=message):
        train(make_trainer(1), Schedule(2, view_names=NAMES), read_checkpoint(checkpoint.path))


def test_a_checkpoint_of_more_epochs_or_of_another_number_of_replicas_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.checkpoint", 0)
    train(make_trainer(1), Schedule(3, view_names=NAMES), checkpoint)
    with pytest.raises(ValueError, match=r"Expected max_epochs to be at least 3.* but it is 2"):
        train(make_trainer(1), Schedule(2, view_names=NAMES), checkpoint)
    with pytest.raises(ValueError, match="trains 2 at a time, but it is of one that trains 1"):
        train(make_trainer(2), Schedule(4, view_names=NAMES), checkpoint)


SCORED = {"score": True, "drops": True}


@pytest.fixture(scope="module", params=((1, "hot-reference"), (2, "hot-pairwise")))
def saved(request, tmp_path_factory):
    """A fresh trainer, and the state of another one between two epochs."""
    n, coupling = request.param
    path = tmp_path_factory.mktemp("states") / "a.checkpoint"
    trainer = make_trainer(n, coupling=coupling, **SCORED)
    schedule = Schedule(2, steps_per_epoch=5, patience=10, view_names=NAMES)
    train(trainer, schedule, Checkpoint(path, 0))
    state = TrainerState.of(trainer)
    return make_trainer(n, coupling=coupling, **SCORED), state, path


def encoded(state):
    """The tensors and facts of a state, as a file has them."""
    tensors = {}
    facts = copy.deepcopy(encode(TrainerState, state, tensors))
    return tensors, facts


def assert_refused(saved, change, what):
    """Expect an error of a changed state; pytest shows what was changed where there is none."""
    trainer, state, path = saved
    tensors, facts = encoded(state)
    change(tensors, facts)
    try:
        changed = decode(TrainerState, facts, tensors)
    except ValueError:
        return  # it cannot be read
    with pytest.raises(ValueError, match=f"Expected {path} to be "):
        Checkpoint(path, 0, {}, [changed]).restore(trainer, 0, 100)


def wrong_tensors(name, x):
    """Tensors that cannot stand in the place of another."""
    yield "longer", x.new_zeros((*x.shape, 7))
    yield "integers", x.to(torch.int16)
    if x.is_floating_point():
        yield "not a number", torch.full_like(x, torch.nan)
        yield "double", x.double()
    if name.endswith((".step", ".exp_avg_sq")):
        yield "negative", -x - 1
    if x.dtype == torch.uint8:  # a random generator
        wrong = x.clone()
        wrong[8:12], wrong[16:24] = _bytes(np.int32(624)), _bytes(np.int64(624))
        yield "beyond the end", wrong
        yield "no generator", torch.full_like(x, 255)
    if ".orders." in name:
        yield "outside", torch.tensor([10**6])
        yield "below", torch.tensor([-1])
        yield "twice", torch.zeros(2, dtype=torch.int64)


def _bytes(number):
    return torch.frombuffer(bytearray(number.tobytes()), dtype=torch.uint8)


def test_every_tensor_is_compared_with_that_of_the_trainer(saved):
    trainer, state, _ = saved
    tensors, _ = encoded(state)
    parts = {name.split(".")[0] for name in tensors}
    assert parts == {"network", "objective", "optimizer", "generator", "trainings"}
    assert "trainings.0.best.1.coupling.mean_cost" in tensors
    parts = ("objective", "optimizer.0", "optimizer.10.", "generator", "trainings.0.")
    seen = set()
    for name, x in tensors.items():
        if len(trainer.trainings) > 1 and not name.startswith(parts):
            continue  # the same as for one training
        role = (*name.split(".")[:3:2], name.split(".")[-1], x.dtype)
        for what, wrong in wrong_tensors(name, x):
            if what == "longer" or role not in seen:
                assert_refused(saved, lambda t, f, k=name, w=wrong: t.update({k: w}), (name, what))
        seen.add(role)
        if not name.endswith("mean_cost"):  # which begins with the first step
            assert_refused(saved, lambda t, f, k=name: t.pop(k), (name, "lost"))
    parts = (
        "network",
        "objective",
        "optimizer",
        "optimizer.0",
        "optimizer.x",
        "trainings.0.best.0",
    )
    for name in (f"{part}.other" for part in parts):
        assert_refused(saved, lambda t, f, k=name: t.update({k: torch.zeros(2)}), name)


def assert_equal_states(a, b):
    (own, facts), (others, other_facts) = encoded(a), encoded(b)
    assert facts == other_facts
    assert own.keys() == others.keys()
    assert all(torch.equal(x, others[name]) for name, x in own.items())


def leaves_of(facts, at=()):
    """The paths of all values and containers in facts, and what is there."""
    yield at, facts
    if isinstance(facts, dict | list):
        for key in facts if isinstance(facts, dict) else range(len(facts)):
            yield from leaves_of(facts[key], (*at, key))


def place(facts, at, value):
    for key in at[:-1]:
        facts = facts[key]
    facts[at[-1]] = value


WRONG = (None, [], {}, "x", [[]], {"x": 1}, True, float("inf"), -float("inf"), float("nan"))
WRONG += (10**400, -(10**400), [0] * 5)


def test_every_fact_is_checked(saved):
    _, state, _ = saved
    n_cases = 0
    for i, (at, fact) in enumerate(leaves_of(encoded(state)[1])):
        if not at or fact is None:  # a tensor
            continue
        for value in WRONG[i % 5 :: 5]:  # neighbors in lists are alike
            is_one = value is True and ("random" in at or at[-1] == "stopped")
            may_be = ((None, "best_score"), ([], "best"))  # so for a training without a score
            if not is_one and (value, at[-1]) not in may_be:
                assert_refused(saved, lambda t, f, a=at, v=value: place(f, a, v), (at, value))
                n_cases += 1
    assert n_cases > 100


def test_impossible_facts_are_refused(saved):
    for name, values in {
        "epoch": (-5, 0, 1, 3, 10**9, 2**31),
        "n_kept": (10**8,),
    }.items():
        for value in values:
            assert_refused(saved, lambda t, f, k=name, v=value: f.update({k: v}), (name, value))
    first, second = ({"epoch": i, "loss": 1, "seconds": 1} for i in (1, 2))
    for name, values in {
        "n_worse": (-1, 2**31),
        "n_best": (10**8,),
        "history": ([{}, {}], [second, first], [first]),
    }.items():
        for value in values:
            wrong = {name: value}
            assert_refused(saved, lambda t, f, w=wrong: f["trainings"][0].update(w), (name, value))


def test_values_that_are_meant_not_to_be_finite_may_stay():
    mask = torch.tensor([0.0, -torch.inf])
    check_tensors({"mask": mask}, {"mask": mask.clone()})
    with pytest.raises(ValueError, match="its 'mask' has values that are not finite"):
        check_tensors({"mask": mask}, {"mask": torch.zeros(2)})
