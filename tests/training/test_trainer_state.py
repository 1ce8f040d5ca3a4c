"""Every tensor and every fact of a saved state is checked before any of it is restored."""

import copy
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from hotview.training.checkpoint import Checkpoint, EncodedState
from hotview.training.loop import Schedule, train
from hotview.training.trainer import make_optimizer
from hotview.training.trainer_state import (
    check_random_state,
    check_tensors,
    load_optimizer_state,
    optimizer_state,
)

MAKE = runpy.run_path(str(Path(__file__).parent / "test_checkpoint.py"))
NAMES, make_trainer = MAKE["NAMES"], MAKE["make_trainer"]
OPTIONS = {"score": True, "drops": True}
N_STEPS = 5


@pytest.fixture(
    scope="module", params=((1, "hot-reference"), (2, "hot-reference"), (2, "hot-pairwise"))
)
def saved(request, tmp_path_factory):
    """A fresh trainer, and the encoded state of another one in the middle of an epoch."""
    n, coupling = request.param
    path = tmp_path_factory.mktemp("states") / "a.checkpoint"
    trainer = make_trainer(n, coupling=coupling, **OPTIONS)
    schedule = Schedule(2, steps_per_epoch=N_STEPS, patience=10, view_names=NAMES)
    train(trainer, schedule, Checkpoint(path, {}))
    trainer.network.train()
    trainer.means.add(trainer.step())
    state = EncodedState.of(trainer)
    return make_trainer(n, coupling=coupling, **OPTIONS), state, path


def restore(saved, change):
    """Restore a state after a change of its tensors and facts."""
    trainer, state, path = saved
    tensors, facts = dict(state.tensors), copy.deepcopy(state.facts)
    change(tensors, facts)
    Checkpoint(path, {}, [EncodedState(tensors, facts)]).restore(trainer, 0, 100, N_STEPS)


def assert_refused(saved, change, what):
    __tracebackhide__ = True
    message = "this state was restored"
    try:
        restore(saved, change)
    except ValueError as error:
        message = str(error)
    assert message.startswith(f"Expected {saved[2]} to be "), what


def wrong_tensors(name, x):
    """Tensors that cannot stand in the place of another."""
    yield "longer", x.new_zeros((*x.shape, 7))
    yield "integers", x.to(torch.int16)
    if x.is_floating_point():
        yield "not a number", torch.full_like(x, torch.nan)
    if x.is_floating_point() and not name.startswith("sums."):
        yield "double", x.double()
    if name.endswith((".step", ".exp_avg_sq")):
        yield "negative", -x - 1
    if x.dtype == torch.uint8:  # a random generator
        wrong = x.clone()
        wrong[8:12], wrong[16:24] = _bytes(np.int32(624)), _bytes(np.int64(624))
        yield "beyond the end", wrong
        yield "no generator", torch.full_like(x, 255)
    if "orders" in name:
        yield "outside", torch.tensor([10**6])
        yield "below", torch.tensor([-1])
        yield "twice", torch.zeros(2, dtype=torch.int64)


def _bytes(number):
    return torch.frombuffer(bytearray(number.tobytes()), dtype=torch.uint8)


def test_every_tensor_is_compared_with_that_of_the_trainer(saved):
    trainer, state, _ = saved
    before = EncodedState.of(trainer)
    parts = {name.split(".")[0] for name in state.tensors}
    assert parts == {"network", "objective", "optimizer", "generator", "sums", "trainings"}
    assert "trainings.0.best_objective.coupling.mean_cost" in state.tensors
    parts = ("objective", "optimizer.0", "optimizer.10.", "generator", "sums", "trainings.0")
    for name, x in state.tensors.items():
        if len(trainer.trainings) > 1 and not name.startswith(parts):
            continue  # the same as for one training
        for what, wrong in wrong_tensors(name, x):
            assert_refused(saved, lambda t, f, k=name, w=wrong: t.update({k: w}), (name, what))
        if not name.endswith("mean_cost"):  # which begins with the first step
            assert_refused(saved, lambda t, f, k=name: t.pop(k), (name, "lost"))
    for part in ("network", "objective", "optimizer", "sums", "optimizer.0", "optimizer.x"):
        name = f"{part}.other"
        assert_refused(saved, lambda t, f, k=name: t.update({k: torch.zeros(2)}), name)
    assert_equal_states(EncodedState.of(trainer), before)


def assert_equal_states(a, b):
    assert a.facts == b.facts
    assert a.tensors.keys() == b.tensors.keys()
    assert all(torch.equal(x, b.tensors[name]) for name, x in a.tensors.items())


def leaves_of(facts, at=()):
    """The paths of all values and containers in facts."""
    yield at
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
    trainer, state, _ = saved
    before, n_cases = EncodedState.of(trainer), 0
    for i, at in enumerate(leaves_of(state.facts)):
        if not at or fact_at(state.facts, at) is None:  # a tensor
            continue
        for value in WRONG[i % 3 :: 3]:  # neighbors in lists are alike
            is_one = value is True and ("random" in at or at[-1] in ("stopped", "has_best"))
            if not is_one and (value, at[-1]) != (None, "best_score"):
                assert_refused(saved, lambda t, f, a=at, v=value: place(f, a, v), (at, value))
                n_cases += 1
    assert n_cases > 100
    assert_equal_states(EncodedState.of(trainer), before)


def fact_at(facts, at):
    for key in at:
        facts = facts[key]
    return facts


@pytest.mark.parametrize(
    ("name", "value"),
    (
        *(("epoch", value) for value in (-5, 0, 1, 3, 10**9, 2**31)),
        *(("step", value) for value in (-1, 0, N_STEPS, 10**9)),
        *(("terms", value) for value in ([], ["x"], ["transport"])),
        ("n_kept", 10**8),
    ),
)
def test_impossible_facts_of_a_trainer_are_refused(saved, name, value):
    assert_refused(saved, lambda t, f: f.update({name: value}), (name, value))


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("n_worse", -1),
        ("n_worse", 2**31),
        ("n_best", 10**8),
        ("rows", [{}, {}]),
        ("rows", [{"epoch": 2, "loss": 1, "seconds": 1}, {"epoch": 1, "loss": 1, "seconds": 1}]),
        ("rows", [{"epoch": 1, "loss": 1, "seconds": 1}]),
        ("orders", []),
    ),
)
def test_impossible_facts_of_a_training_are_refused(saved, name, value):
    assert_refused(saved, lambda t, f: f["trainings"][0].update({name: value}), (name, value))


def test_a_state_is_restored_whole(saved):
    trainer, state, _ = saved
    trainer = copy.deepcopy(trainer) if len(trainer.trainings) == 1 else trainer
    Checkpoint(saved[2], {}, [state]).restore(trainer, 0, 100, N_STEPS)
    assert_equal_states(EncodedState.of(trainer), state)
    assert [type(row["epoch"]) for row in trainer.trainings[0].rows] == [int, int]


def test_values_that_are_meant_not_to_be_finite_may_stay():
    mask = torch.tensor([0.0, -torch.inf])
    check_tensors({"mask": mask}, {"mask": mask.clone()})
    with pytest.raises(ValueError, match="its 'mask' has values that are not finite"):
        check_tensors({"mask": mask}, {"mask": torch.zeros(2)})


def test_a_state_of_another_optimizer_is_refused():
    layers = [torch.nn.Linear(4, n) for n in (2, 3)]
    optimizers = [make_optimizer([layer], 0.1) for layer in layers]
    for layer, optimizer in zip(layers, optimizers, strict=True):
        layer(torch.ones(5, 4)).sum().backward()
        optimizer.step()
    with pytest.raises(ValueError, match=r"its '0\.exp_avg' is torch\.float32 of shape \[3, 4\]"):
        load_optimizer_state(optimizers[0], optimizer_state(optimizers[1]))
    with pytest.raises(ValueError, match="unexpected"):
        load_optimizer_state(None, optimizer_state(optimizers[1]))
    load_optimizer_state(None, {})


def test_moments_of_all_gradients_are_accepted_and_larger_ones_are_not():
    weight = torch.nn.Linear(5, 1, bias=False)
    optimizer = make_optimizer([weight], 0.01)
    for i in range(80):  # the growth of the first gives the largest steps that there are
        factors = (0.999 / 0.9) ** i, 1.0, 1e-25, float(i == 79), (-1) ** i * 1e15
        weight.weight.grad = torch.tensor([factors])
        optimizer.step()
        load_optimizer_state(optimizer, optimizer_state(optimizer))
    state = optimizer_state(optimizer)
    with pytest.raises(ValueError, match=r"its '0\.exp_avg' is larger than its square allows"):
        load_optimizer_state(optimizer, {**state, "0.exp_avg": 1.2 * state["0.exp_avg"]})


def test_weights_that_no_training_gives_are_refused(saved):
    for name in saved[1].tensors:
        if name.endswith(("maps.0.weight", "references")):
            huge = torch.full_like(saved[1].tensors[name], 1e30)
            assert_refused(saved, lambda t, f, k=name, x=huge: t.update({k: x}), name)


@pytest.mark.parametrize("value", (-1, 2**200, 1.5, "x", None, []))
def test_impossible_random_states_are_refused(value):
    generator = np.random.PCG64(0)
    before = generator.state
    for name in ("state", "inc"):
        wrong = {**before, "state": {**before["state"], name: value}}
        with pytest.raises(ValueError, match="its random state cannot be"):
            check_random_state(generator, wrong)
    for name in ("has_uint32", "uinteger", "bit_generator"):
        with pytest.raises(ValueError, match="its random state cannot be"):
            check_random_state(generator, {**before, name: value})
    assert generator.state == before
    check_random_state(generator, before)
