import gc

import numpy as np
import pytest
import torch

from hotview.losses import (
    DGCCA,
    LSCCA,
    HOTPairwise,
    HOTReference,
    NoCoupling,
    Planner,
    SWPairwise,
    SWReference,
)
from hotview.losses.coupling import Terms
from hotview.losses.objective import VIEW_REGULARIZERS, Batch, Evaluation, Objective
from hotview.nn.multiview import Widths, make_network
from hotview.training import batched
from hotview.training.batched import BatchedTrainer, GraphedStep, _without_collection
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
    "sw-reference": lambda g: SWReference(2, 0.1, n_points=20, n_projections=4, generator=g),
    "hot-pairwise": lambda g: HOTPairwise(0.1, n_projections=4),
    "hot-reference": lambda g: HOTReference(2, 2, 0.1, n_points=20, n_projections=4, generator=g),
    "exact": lambda g: HOTReference(2, 2, float("inf"), n_points=20, n_projections=4, generator=g),
    "of another size": lambda g: HOTReference(2, 2, 0.1, n_points=13, generator=g),
    "paper": lambda g: HOTPairwise(
        0.01, Planner(0.1, False, 20, 0.0), n_projections=3, projections="iid", reduction="sum"
    ),
}
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def make_training(
    r, coupling="hot-reference", regularizer="autoencoder", device="cpu", weights=(1.0, 0.1), **own
):
    """One of several trainings that differ in their rows, seeds and, where told, weights."""
    random = np.random.default_rng(r)
    n_classes = own.get("n_classes", 2)
    views = [
        as_rows(random.normal(size=(N, D)).astype(np.float32), device=device, often=True)
        for D in COLUMNS
    ]
    target = np.where(np.arange(N) < 10, np.arange(N) % n_classes, -1)
    data = TrainingRows(
        views,
        np.stack([np.arange(N)] * 4, axis=1),
        target,
        neighbors=[random.integers(N, size=(N, 3)) for _ in COLUMNS],
        soft_labels=own.get("soft_labels", []),
        coordinates=own.get("coordinates", []),
        links=own.get("links", np.empty((0, 0), dtype=np.int64)),
        link_targets=own.get("link_targets", []),
    )
    widths = Widths(COLUMNS, [(6,)] * 4, 5, 2, n_classes, regularizer == "autoencoder")
    network = make_network(widths, seeded(r), [None] * 4, NAMES).to(device)
    objective = Objective(
        COUPLINGS[coupling](seeded(r)),
        VIEW_REGULARIZERS[regularizer],
        coupling_weight=weights[0],
        regularizer_weight=weights[1],
        head_weight=1.0,
        class_weight=own.get("class_weight"),
        alignment_weight=own.get("alignment_weight", 1.0),
    ).to(device)
    sampler = Sampler(data, 20, random, couples=True, aligned=coupling in ("lscca", "dgcca"))
    return Training(network, objective, sampler, seeded(r + 10), own.get("score"), r)


def run_alone(trainings, schedule):
    return [train(SingleTrainer(training, 0.01), schedule)[0] for training in trainings]


def weights_of(training):
    return {
        f"{i}.{name}": value.detach().cpu().clone()
        for i, module in enumerate(training.modules)
        for name, value in module.state_dict().items()
    }


def check_same(together, alone, tolerance=2e-4):
    for one, other in zip(together, alone, strict=True):
        found, expected = weights_of(one), weights_of(other)
        assert found.keys() == expected.keys()
        for name in found:
            torch.testing.assert_close(
                found[name], expected[name], rtol=tolerance, atol=tolerance, msg=name
            )


def check_same_history(found, expected, tolerance=1e-3):
    assert len(found) == len(expected) > 0
    assert found.names == expected.names
    for name in set(found.names) - {"seconds", "marginal_error"}:
        np.testing.assert_allclose(
            found[name], expected[name], rtol=tolerance, atol=1e-4, err_msg=name
        )


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
def test_a_replica_is_told_and_aligned_as_it_would_be_alone(coupling, weights, device):
    def make(r):
        told = {"soft_labels": tell(r, 2, True, device), "coordinates": tell(r, 5, False, device)}
        options = {"alignment_weight": weights[r], **linked(r, device=device), **told}
        return make_training(r, coupling, "diffusion", device, **options)

    names = compare(make, in_advance=True)
    assert {"alignment", "extension", "view_heads", "diffusion"} <= names
    assert not {"orthogonality", "classification"} & names


def test_shapes_tell_what_cannot_go_together():
    few, same, more = (make_training(0, **linked(0, n)).shape for n in (7, 7, 8))
    assert few == same
    assert len({few, more, make_training(0).shape}) == 3
    plain = make_training(0).shape
    assert make_training(1).shape == make_training(1, n_classes=3).shape == plain
    fewer = make_training(1)
    target = fewer.sampler.data.target.copy()
    target[5] = -1
    data = TrainingRows(fewer.sampler.data.views, fewer.sampler.data.aligned, target)
    fewer.sampler = Sampler(data, 20, np.random.default_rng(0), couples=True, aligned=False)
    assert fewer.shape != plain


def test_replicas_may_have_their_own_weights_and_numbers_of_classes():
    def make(r):
        own = {
            "weights": (10.0**r, 0.1**r),
            "n_classes": 2 + r,
            "soft_labels": tell(r, 2 + r, True),
        }
        training = make_training(r, **own)
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


def test_what_is_drawn_ahead_in_parts_is_what_would_be_drawn(monkeypatch):
    monkeypatch.setattr(batched, "_BUFFER", 20_000)
    together, alone = ([make_training(r) for r in range(R)] for _ in range(2))
    schedule = Schedule(4, view_names=NAMES)
    trainer = BatchedTrainer(together, 0.01)
    trainer.draw_in_advance(4 * together[0].sampler.n_steps)
    train(trainer, schedule)
    run_alone(alone, schedule)
    check_same(together, alone)
    for one, other in zip(together, alone, strict=True):
        assert one.sampler.random.random() == other.sampler.random.random()
        assert torch.equal(one.generator.get_state(), other.generator.get_state())


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


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
MAKERS = {
    "one recording": lambda: SWReference(3, n_points=16, generator=seeded(0)),
    "interrupted by a plan": lambda: HOTReference(3, 2, n_points=16, generator=seeded(0)),
    "with a plan in it": lambda: HOTReference(
        3, 2, planner=Planner(max_iter=20), n_points=16, generator=seeded(0)
    ),
    "interrupted by a shared G": lambda: DGCCA(),
}


def make_batch(i):
    Xs = [torch.randn(2, 16, 3, generator=seeded(10 * i + s), device="cpu").cuda() for s in (0, 1)]
    theta = torch.nn.functional.normalize(torch.randn(2, 4, 3, generator=seeded(99 + i)), dim=-1)
    return Batch(Xs, {"rows": [16, 16]}, torch.empty(0).cuda(), directions=theta)


def make_step(make):
    coupling = make().cuda()
    if hasattr(coupling, "references"):  # those of two replicas
        clouds = torch.stack([coupling.references.detach(), 2 * coupling.references.detach()])
        coupling.references = torch.nn.Parameter(clouds)
    maps = torch.nn.Parameter(torch.eye(3).expand(2, 3, 3).contiguous().cuda())
    optimizer = torch.optim.Adam([maps, *coupling.parameters()], 0.01, capturable=True)

    def step(batch):
        Zs = [X @ maps for X in batch.Xs]
        directions = batch.directions.cuda()
        terms = Terms(dict(coupling(Zs, directions=directions).parts))
        optimizer.zero_grad(set_to_none=True)
        terms.total.sum().backward()
        optimizer.step()
        return Evaluation(terms, Zs)

    return step, coupling, maps


@needs_gpu
@pytest.mark.parametrize("name", MAKERS)
def test_a_recorded_step_does_what_the_step_does(name):
    step, _, expected = make_step(MAKERS[name])
    other, coupling, found = make_step(MAKERS[name])
    recorded = GraphedStep(other, coupling)
    for i in range(12):
        a, b = step(make_batch(i)), recorded(make_batch(i))
        torch.testing.assert_close(a.terms.total, b.terms.total, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(recorded.graphs) == (2 if name.startswith("interrupted") else 1)
    assert coupling.outside is None


def test_nothing_is_collected_while_a_step_is_recorded():
    with _without_collection():
        assert not gc.isenabled()
    with pytest.raises(ZeroDivisionError), _without_collection():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_recorded_step_copies_everything_of_a_batch_that_changes():
    sizes = {"rows": [2, 2], "linked": [3, 3]}
    parts = {
        "view_targets": [torch.zeros(1)],
        "soft_labels": [torch.zeros(2)],
        "coordinates": [torch.zeros(3)],
        "linked_present": torch.ones(3, 2, dtype=torch.bool),
        "link_targets": [torch.zeros(4), torch.zeros(5)],
        "directions": torch.zeros(6),
    }
    batch = Batch([torch.zeros(5, 2)], sizes, torch.zeros(1), **parts)
    found = {id(tensor) for tensor in batched._tensors(batch)}
    for value in vars(batch).values():
        tensors = value if isinstance(value, list) else [value]
        assert {id(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor)} <= found
