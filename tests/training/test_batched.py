import gc
from dataclasses import fields

import numpy as np
import pytest
import torch

from hotview.losses import DGCCA, LSCCA, HOTPairwise, HOTReference, NoCoupling, Planner, SWPairwise
from hotview.losses.objective import Batch, Objective
from hotview.losses.specifications import REGULARIZERS
from hotview.nn.multiview import Widths, make_network
from hotview.training import batched
from hotview.training.batched import BatchedTrainer
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.loop import Schedule, train
from hotview.training.trainer import SingleTrainer, Training
from tests.training.small_training import as_rows, seeded

COLUMNS, NAMES, N, R = (4, 5, 3, 6), ("a", "b", "c", "d"), 60, 3
COUPLINGS = {
    "none": lambda g: NoCoupling(),
    "lscca": lambda g: LSCCA(0.1),
    "dgcca": lambda g: DGCCA(),
    "sw-pairwise": lambda g: SWPairwise(0.1, n_projections=4),
    "hot-reference": lambda g: HOTReference(2, 2, 0.1, n_points=20, n_projections=4, generator=g),
    "exact": lambda g: HOTReference(2, 2, float("inf"), n_points=20, n_projections=4, generator=g),
    "of another size": lambda g: HOTReference(2, 2, 0.1, n_points=13, generator=g),
    "paper": lambda g: HOTPairwise(
        0.01, Planner(0.1, False, 20, 0.0), n_projections=3, projections="iid", reduction="sum"
    ),
}
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def make_training(
    r,
    coupling="hot-reference",
    regularizer="autoencoder",
    device="cpu",
    *,
    weights=(1.0, 0.1),
    n_classes=2,
    told=None,
    **own,
):
    """One of several trainings that differ in their rows, seeds and, where told, weights."""
    random = np.random.default_rng(r)
    views = [
        as_rows(random.normal(size=(N, D)).astype(np.float32), device=device, often=True)
        for D in COLUMNS
    ]
    target = np.where(np.arange(N) < 10, np.arange(N) % n_classes, -1)
    neighbors = [random.integers(N, size=(N, 3)) for _ in COLUMNS]
    aligned = np.stack([np.arange(N)] * 4, axis=1)
    data = TrainingRows(views, aligned, target, neighbors=neighbors, **(told or {}))
    widths = Widths(COLUMNS, [(6,)] * 4, 5, 2, n_classes, regularizer == "autoencoder")
    network = make_network(widths, seeded(r), [None] * 4, NAMES).to(device)
    own |= {"coupling_weight": weights[0], "regularizer_weight": weights[1], "head_weight": 1.0}
    regularizer = REGULARIZERS[regularizer]().build()
    objective = Objective(COUPLINGS[coupling](seeded(r)), regularizer, **own).to(device)
    sampler = Sampler(data, 20, random, couples=True, aligned=coupling in ("lscca", "dgcca"))
    return Training(network, objective, sampler, seeded(r + 10), None, r)


def run_alone(trainings, schedule):
    return [train(SingleTrainer(training, 0.01), schedule)[0] for training in trainings]


def weights_of(training):
    return {
        f"{i}.{name}": value.detach().cpu().clone()
        for i, module in enumerate(training.modules)
        for name, value in module.state_dict().items()
    }


def check_same(together, alone):
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(weights_of(one), weights_of(other), rtol=2e-4, atol=2e-4)


def check_same_history(found, expected):
    assert len(found) == len(expected) > 0
    assert found.names == expected.names
    for name in set(found.names) - {"seconds", "marginal_error"}:
        np.testing.assert_allclose(found[name], expected[name], 1e-3, 1e-4, err_msg=name)


def compare(make, n_epochs=2, *, in_advance=False, **options):
    """Train replicas together and alone, and return the names of what was recorded."""
    schedule = Schedule(n_epochs, view_names=NAMES, **options)
    together, alone = ([make(r) for r in range(R)] for _ in range(2))
    trainer = BatchedTrainer(together, 0.01)
    if in_advance:
        trainer.draw_in_advance(n_epochs * together[0].sampler.n_steps)
    outcomes = train(trainer, schedule)
    expected = run_alone(alone, schedule)
    check_same(together, alone)
    for found, outcome in zip(outcomes, expected, strict=True):
        check_same_history(found.history, outcome.history)
        if not options:  # what is drawn ahead is what would be drawn
            assert found.sampler.random.random() == outcome.sampler.random.random()
            assert torch.equal(found.generator.get_state(), outcome.generator.get_state())
    assert not together[0].network.training
    return set(outcomes[0].history.names)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("coupling", "regularizer"),
    (
        *(("none", "autoencoder"), ("lscca", "none"), ("dgcca", "manifold"), ("exact", "none")),
        *(("sw-pairwise", "none"), ("of another size", "manifold"), ("paper", "autoencoder")),
    ),
)
def test_a_replica_becomes_what_it_would_alone(coupling, regularizer, device):
    compare(lambda r: make_training(r, coupling, regularizer, device))


def tell(r, n_columns, softmax=False, device="cpu"):
    """What is told to a replica about the rows of every view."""
    told = [torch.randn(N, n_columns, generator=seeded(100 * r + s)) for s in range(4)]
    return [(t.softmax(1) if softmax else t).to(device) for t in told]


def linked(r, n=7, device="cpu"):
    """Some individuals in some views, and the targets of all rows."""
    random = np.random.default_rng(50 + r)
    links = random.permuted(np.tile(np.arange(N), (4, 1)), axis=1)[:, :n].T
    links[random.random(links.shape) < 0.3] = -1
    return {"links": links, "link_targets": tell(r, 2, device=device)}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("coupling", "weights"), (("hot-reference", (0.5, 1.0, 2.0)), ("paper", (1.0,) * R))
)
def test_a_replica_is_told_and_aligned_as_it_would_be_alone(coupling, weights, device, monkeypatch):
    monkeypatch.setattr(batched, "_BUFFER", 20_000)  # to be filled more than once

    def make(r):
        told = {"soft_labels": tell(r, 2, True, device), "coordinates": tell(r, 5, False, device)}
        told |= linked(r, device=device)
        own = {"alignment_weight": weights[r], "told": told}
        return make_training(r, coupling, "diffusion", device, **own)

    names = compare(make, in_advance=True)
    assert {"alignment", "extension", "view_heads", "diffusion"} <= names
    assert not {"orthogonality", "classification"} & names


def test_replicas_may_have_their_own_weights_and_numbers_of_classes():
    def make(r):
        told = {"soft_labels": tell(r, 2 + r, True)}
        training = make_training(r, weights=(10.0**r, 0.1**r), n_classes=2 + r, told=told)
        training.objective.coupling.orthogonality_weight = 0.1 * r
        return training

    compare(make)


def test_replicas_may_have_class_weights_of_their_own_and_share_their_rows():
    data = make_training(0).sampler.data

    def make(r):
        class_weight = torch.tensor([1.0, 2.0 + r, 0.5][: 2 + r % 2])
        training = make_training(r, class_weight=class_weight, n_classes=2 + r % 2)
        training.sampler.data = data
        return training

    compare(make)


def test_every_replica_stops_for_itself_and_keeps_its_best_weights():
    def make(r):
        training = make_training(r)
        scores = iter([*range(r + 1), *[-1.0] * 20])  # best after epoch 1, 2 and 3
        training.score = lambda: float(next(scores))
        made.append(training)
        return training

    made = []
    compare(make, 8, patience=2)
    assert [len(training.history) for training in made[:R]] == [3, 4, 5]


def test_a_callback_sees_every_replica_and_changes_and_stops_it_alone():
    together, alone = ([make_training(r) for r in range(R)] for _ in range(2))
    firsts, seen = (together[0].network, alone[0].network), []

    def shrink_all_and_stop_the_first(epoch):
        seen.append((epoch.number, epoch.member))
        with torch.no_grad():
            epoch.network.maps[0].weight.mul_(0.1)
        epoch.stop = epoch.network in firsts and epoch.number == 2

    schedule = Schedule(3, view_names=NAMES, callbacks=(shrink_all_and_stop_the_first,))
    outcomes = train(BatchedTrainer(together, 0.01), schedule)
    assert [len(outcome.history) for outcome in outcomes] == [2, 3, 3]
    assert seen == [(n, r) for n in (1, 2, 3) for r in range(R) if (n, r) != (3, 0)]
    run_alone(alone, schedule)
    check_same(together, alone)


def test_a_replica_that_has_stopped_may_diverge():
    together = [make_training(r, "lscca") for r in range(R)]
    first = together[0].network

    def stop_and_break(epoch):
        if epoch.network is first:
            epoch.stop = True
            with torch.no_grad():
                epoch.network.maps[0].weight.fill_(torch.nan)

    schedule = Schedule(3, view_names=NAMES, callbacks=(stop_and_break,))
    outcomes = train(BatchedTrainer(together, 0.01), schedule)
    assert [len(outcome.history) for outcome in outcomes] == [1, 3, 3]


def test_a_recorded_step_copies_everything_of_a_batch_that_changes():
    kinds = {field.name: field.type for field in fields(Batch) if field.name != "sizes"}
    parts = {name: [torch.zeros(1)] for name in kinds}
    single = {name: x[0] for name, x in parts.items() if "list" not in kinds[name]}
    found = batched._tensors(Batch(sizes={}, **{**parts, **single}))
    assert {id(x) for x in found} == {id(x) for (x,) in parts.values()}


def test_nothing_is_collected_while_a_step_is_recorded():
    with batched._without_collection():
        assert not gc.isenabled()
    with pytest.raises(ZeroDivisionError), batched._without_collection():
        raise ZeroDivisionError
    assert gc.isenabled()
