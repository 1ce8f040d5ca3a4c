import copy
import signal

import numpy as np
import pytest
import torch
from torch import nn

from hotview._validation import ViewTable
from hotview.losses import (
    DGCCA,
    LSCCA,
    HOTPairwise,
    HOTReference,
    NoCoupling,
    SWPairwise,
    SWReference,
)
from hotview.losses.objective import VIEW_REGULARIZERS, Objective
from hotview.nn.multiview import Widths, make_network
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.column_scaler import ColumnScaler
from hotview.training.loop import Schedule, train
from hotview.training.pca import effective_rank
from hotview.training.rows import ViewRows
from hotview.training.trainer import SingleTrainer, Training, make_optimizer, train_step

COLUMNS, N = (4, 3, 5), 40
NAMES = ("a", "b", "c")
COUPLINGS = {
    "none": lambda: NoCoupling(),
    "lscca": lambda: LSCCA(),
    "dgcca": lambda: DGCCA(),
    "sw-pairwise": lambda: SWPairwise(),
    "sw-reference": lambda: SWReference(2, n_points=20),
    "hot-pairwise": lambda: HOTPairwise(),
    "hot-reference": lambda: HOTReference(2, 2, n_points=20),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make_data():
    random = np.random.default_rng(0)
    views = []
    for D in COLUMNS:
        X = random.normal(size=(N, D)).astype(np.float32)
        columns = ColumnScaler(np.zeros(D), np.ones(D), None)
        views.append(ViewRows([ViewTable(X)], columns, torch.device("cpu")))
    return TrainingRows(views, np.stack([np.arange(N)] * 3, axis=1), np.arange(N) % 2)


def make_network_of_views(n_classes=2):
    widths = Widths(COLUMNS, [(6,)] * 3, 5, 2, n_classes, False)
    return make_network(widths, seeded(), [None] * 3, NAMES)


def make_objective(coupling="hot-reference", weight=1.0, **options):
    torch.manual_seed(0)
    options = {"coupling_weight": weight, "regularizer_weight": 0.0} | options
    return Objective(COUPLINGS[coupling](), VIEW_REGULARIZERS["none"], **options)


def make_sampler(data=None, batch_size=20, **options):
    options = {"couples": True, "aligned": True} | options
    return Sampler(data or make_data(), batch_size, np.random.default_rng(1), **options)


def run(max_epochs=3, *, network=None, objective=None, sampler=None, rate=0.01, **options):
    network, objective = network or make_network_of_views(), objective or make_objective()
    score = options.pop("score", None)
    schedule = Schedule(max_epochs, view_names=NAMES, **options)
    training = Training(network, objective, sampler or make_sampler(), seeded(2), score)
    train(SingleTrainer(training, rate), schedule)
    return training, network, objective


def weights_of(*modules):
    return [p.detach().clone() for module in modules for p in module.parameters()]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def hand_written_adam(parameters, grads, states, rate, t):
    for p, g, state in zip(parameters, grads, states, strict=True):
        g = g.double()
        state["m"] = 0.9 * state["m"] + 0.1 * g
        state["v"] = 0.999 * state["v"] + 0.001 * g**2
        m, v = state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.999**t)
        p -= (rate * m / (v.sqrt() + 1e-8)).to(p.dtype)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_a_step_is_one_step_of_adam_on_networks_and_references(coupling):
    network, objective = make_network_of_views(), make_objective(coupling)
    twin, twin_objective = copy.deepcopy((network, objective))
    optimizer = make_optimizer([network, objective], 0.01)
    parameters = [*twin.parameters(), *twin_objective.parameters()]
    states = [
        {"m": torch.zeros_like(p).double(), "v": torch.zeros_like(p).double()} for p in parameters
    ]
    sampler, generators = make_sampler(), (seeded(3), seeded(3))
    for t in (1, 2):
        batch = sampler.draw()
        found = train_step(network, objective, optimizer, batch, generators[0])
        expected = twin_objective(twin, batch, generator=generators[1])
        torch.testing.assert_close(found.terms.total, expected.terms.total, rtol=1e-4, atol=1e-5)
        grads = torch.autograd.grad(expected.terms.total, parameters, allow_unused=True)
        grads = [
            torch.zeros_like(p) if g is None else g for p, g in zip(parameters, grads, strict=True)
        ]
        with torch.no_grad():
            hand_written_adam(parameters, grads, states, 0.01, t)
        for p, q in zip([*network.parameters(), *objective.parameters()], parameters, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_without_a_term_there_is_no_step():
    network, objective = make_network_of_views(0), make_objective("none")
    before = weights_of(network)
    data = TrainingRows(make_data().views, np.empty((0, 3), dtype=np.int64))
    sampler = make_sampler(data, aligned=False)
    evaluation = train_step(
        network, objective, make_optimizer([network], 0.1), sampler.draw(), seeded()
    )
    assert evaluation.terms.total.item() == 0
    assert same(before, weights_of(network))


def test_frozen_parameters_stay_and_nothing_to_train_has_no_optimizer():
    network = make_network_of_views()
    network.encoders[1].requires_grad_(False)
    before = weights_of(network.encoders[1])
    run(2, network=network)
    assert same(before, weights_of(network.encoders[1]))
    assert make_optimizer([nn.ReLU(), NoCoupling()], 0.1) is None
    assert make_optimizer([nn.Linear(2, 2).requires_grad_(False)], 0.1) is None


@pytest.mark.parametrize("coupling", ("none", "sw-reference", "hot-pairwise"))
def test_training_lowers_the_loss_and_records_it(coupling):
    training, network, _ = run(30, objective=make_objective(coupling, 0.1))
    history = training.history
    assert history["epoch"] == list(range(1, 31))
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    named = {"epoch", "loss", "seconds", *(f"effective_rank_{name}" for name in NAMES)}
    terms = [name for name in history.names if name not in {*named, "marginal_error"}]
    assert terms[:2] == ["classification", "view_heads"]
    for row in history:
        assert row["loss"] == pytest.approx(sum(row[name] for name in terms))
        assert row["seconds"] > 0
    assert ("marginal_error" in history.names) == coupling.startswith("hot")
    assert not network.training
    assert not training.interrupted


def test_a_row_is_the_mean_over_the_steps_of_its_epoch():
    network, objective = make_network_of_views(), make_objective("sw-pairwise")
    twin, twin_objective = copy.deepcopy((network, objective))
    history = run(2, network=network, objective=objective)[0].history
    optimizer, sampler = make_optimizer([twin, twin_objective], 0.01), make_sampler()
    generator = seeded(2)
    for row in history:
        seen = [
            train_step(twin, twin_objective, optimizer, sampler.draw(), generator) for _ in "12"
        ]
        for name in seen[0].terms.parts:
            assert row[name] == pytest.approx(np.mean([e.terms[name].item() for e in seen]))
        for name, Z in zip(NAMES, seen[-1].latents, strict=True):
            assert row[f"effective_rank_{name}"] == pytest.approx(effective_rank(Z))
    assert same(weights_of(network), weights_of(twin))


@pytest.mark.parametrize(("steps", "n_draws"), ((None, 2 * 3), (5, 15)))
def test_steps_of_an_epoch(steps, n_draws):
    sampler, draws = make_sampler(), []
    draw = sampler.draw
    sampler.draw = lambda: draws.append(1) or draw()
    training, _, _ = run(3, sampler=sampler, steps_per_epoch=steps)
    assert len(draws) == n_draws
    assert len(training.history) == 3


def test_steps_are_known_in_advance_without_patience_callbacks_and_checkpoints():
    assert Schedule(3).is_fixed
    assert not Schedule(3, patience=2).is_fixed
    assert not Schedule(3, callbacks=(print,)).is_fixed
    assert not Schedule(3, checkpoint_every=2).is_fixed


def test_training_is_reproducible_bit_for_bit():
    first, second = run(4), run(4)
    assert same(weights_of(*first[1:]), weights_of(*second[1:]))
    assert first[0].history["loss"] == second[0].history["loss"]


def test_a_callback_sees_every_epoch_and_can_stop():
    seen = []

    def stop_at_the_third(epoch):
        seen.append((epoch.number, epoch.row["loss"], epoch.network))
        epoch.row["loss"] = -1.0  # its own copy
        epoch.stop = epoch.number == 3

    others = []  # which are called all the same
    training, network, _ = run(
        10, callbacks=[stop_at_the_third, lambda epoch: others.append(epoch.number)]
    )
    assert [number for number, *_ in seen] == others == [1, 2, 3]
    assert [loss for _, loss, _ in seen] == training.history["loss"]
    assert all(given is network for *_, given in seen)
    assert not training.interrupted


SCORES = [0.1, 0.5, 0.4, 0.5, 0.3, 0.9, 0.2, 0.1]


@pytest.mark.parametrize(
    ("patience", "n_epochs", "best"), ((1, 3, 2), (3, 5, 2), (4, 8, 6), (None, 8, 8))
)
def test_patience_stops_and_the_best_weights_come_back(patience, n_epochs, best):
    scores, kept = iter(SCORES), []
    network, objective = make_network_of_views(), make_objective()

    def remember(epoch):
        kept.append(weights_of(network, objective))

    options = {"score": lambda: next(scores), "callbacks": [remember], "patience": patience}
    training, _, _ = run(8, network=network, objective=objective, **options)
    assert training.history["validation_score"] == SCORES[:n_epochs]
    # Network and references: those of one epoch belong together.
    assert same(weights_of(network, objective), kept[best - 1])
    if best < n_epochs:
        assert not same(kept[best - 1], kept[-1])


def test_a_score_may_put_the_network_into_evaluation_mode():
    modes = []
    network = make_network_of_views()
    network.encoders[0].register_forward_hook(lambda *_: modes.append(network.training))

    def score():
        network.eval()
        return 0.5

    run(2, network=network, score=score)
    assert modes == [True] * 4


@pytest.mark.parametrize("coupling", ("lscca", "sw-reference", "hot-pairwise"))
def test_a_loss_that_is_no_longer_finite_is_refused_with_a_remedy(coupling):
    objective = make_objective(coupling, head_weight=1.0)
    with pytest.raises(
        FloatingPointError,
        match=r"no longer finite in epoch \d+ \(.+\)\. Lower learning_rate, or look for extreme",
    ):
        run(20, objective=objective, rate=1e25)


class Pressing:
    """A sampler at whose n-th draw somebody presses Ctrl-C."""

    def __init__(self, *when, n_steps=4):
        self.inner, self.when, self.n_steps, self.n = make_sampler(), when, n_steps, 0

    def draw(self):
        self.n += 1
        for _ in range(self.when.count(self.n)):
            signal.raise_signal(signal.SIGINT)
        return self.inner.draw()


@pytest.fixture
def _pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_pythons_own_handler")
def test_ctrl_c_stops_after_the_current_step():
    sampler = Pressing(6)
    training, network, _ = run(10, sampler=sampler)
    assert sampler.n == 6
    assert training.interrupted
    assert training.history["epoch"] == [1, 2]
    assert not network.training


@pytest.mark.usefixtures("_pythons_own_handler")
def test_ctrl_c_between_epochs_stops_too():
    training, _, _ = run(
        10, callbacks=[lambda e: e.number == 2 and signal.raise_signal(signal.SIGINT)]
    )
    assert training.interrupted
    assert len(training.history) == 2


@pytest.mark.usefixtures("_pythons_own_handler")
def test_ctrl_c_twice_stops_at_once():
    with pytest.raises(KeyboardInterrupt):
        run(10, sampler=Pressing(3, 3))


def test_progress_is_shown_on_request(capsys):
    run(2, verbose=True, score=lambda: 0.75)
    lines = capsys.readouterr().err
    assert "loss" in lines
    assert "validation_score 0.75" in lines
    run(2)
    assert capsys.readouterr() == ("", "")


def test_a_single_row_under_batch_norm_is_explained():
    network = make_network_of_views()
    network.encoders[0] = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5))
    sampler = make_sampler(batch_size=1, couples=False)
    with pytest.raises(ValueError, match=r"at least 2 rows of a view.*Raise batch_size"):
        run(1, network=network, sampler=sampler)
