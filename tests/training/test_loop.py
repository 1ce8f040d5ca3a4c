import copy
import io
import math
import pickle
import re
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console
from torch import nn

from hotview.losses import NoCoupling
from hotview.preprocessing.pca import effective_rank
from hotview.training.batches import TrainingRows
from hotview.training.loop import Schedule, train
from hotview.training.progress import ProgressBar, track, wants_progress
from hotview.training.trainer import History, SingleTrainer, Training, make_optimizer, train_step
from tests.training.small_training import (
    NAMES,
    make_data,
    make_network_of_views,
    make_objective,
    make_sampler,
    seeded,
    weights_of,
)


def run(max_epochs=3, *, network=None, objective=None, sampler=None, rate=0.01, **options):
    network, objective = network or make_network_of_views(), objective or make_objective()
    score = options.pop("score", None)
    schedule = Schedule(max_epochs, view_names=NAMES, **options)
    training = Training(network, objective, sampler or make_sampler(), seeded(2), score)
    train(SingleTrainer(training, rate), schedule)
    return training, network, objective


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def hand_written_adam(parameters, grads, states, rate, t):
    for p, g, state in zip(parameters, grads, states, strict=True):
        g = g.double()
        state["m"] = 0.9 * state["m"] + 0.1 * g
        state["v"] = 0.999 * state["v"] + 0.001 * g**2
        m, v = state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.999**t)
        p -= (rate * m / (v.sqrt() + 1e-8)).to(p.dtype)


@pytest.mark.parametrize("coupling", ("none", "dgcca", "hot-reference"))
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


def test_without_a_term_or_a_parameter_to_train_there_is_no_step():
    network, objective = make_network_of_views(0), make_objective("none")
    before = weights_of(network)
    data = TrainingRows(make_data().views, np.empty((0, 3), dtype=np.int64))
    batch = make_sampler(data, aligned=False).draw()
    evaluation = train_step(network, objective, make_optimizer([network], 0.1), batch, seeded())
    assert evaluation.terms.total.item() == 0
    assert same(before, weights_of(network))
    network = make_network_of_views()
    network.encoders[1].requires_grad_(False)
    before, modes = weights_of(network.encoders[1]), []
    network.encoders[0].register_forward_hook(lambda *_: modes.append(network.training))

    def score():
        network.eval()  # which the next epoch must not be in
        return 0.5

    run(2, network=network, score=score)
    assert modes == [True] * 4
    assert same(before, weights_of(network.encoders[1]))
    for nothing in ([nn.ReLU(), NoCoupling()], [nn.Linear(2, 2).requires_grad_(False)]):
        assert make_optimizer(nothing, 0.1) is None


@pytest.mark.parametrize("coupling", ("none", "hot-pairwise"))
def test_training_lowers_the_loss_records_it_and_shows_it_on_request(coupling, capsys):
    training, network, _ = run(30, objective=make_objective(coupling, 0.1))
    assert capsys.readouterr() == ("", "")
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
    run(2, verbose=True, score=lambda: 0.75)
    assert re.search(r"loss .*validation_score 0\.75", capsys.readouterr().err)


@pytest.mark.parametrize("steps", (None, 5))
def test_a_row_is_the_mean_over_the_steps_of_its_epoch(steps):
    network, objective = make_network_of_views(), make_objective("sw-pairwise")
    twin, twin_objective = copy.deepcopy((network, objective))
    history = run(2, network=network, objective=objective, steps_per_epoch=steps)[0].history
    optimizer, sampler = make_optimizer([twin, twin_objective], 0.01), make_sampler()
    generator = seeded(2)
    for row in history:
        seen = [
            train_step(twin, twin_objective, optimizer, sampler.draw(), generator)
            for _ in range(steps or 2)
        ]
        for name in seen[0].terms.parts:
            assert row[name] == pytest.approx(np.mean([e.terms[name].item() for e in seen]))
        for name, Z in zip(NAMES, seen[-1].latents, strict=True):
            assert row[f"effective_rank_{name}"] == pytest.approx(effective_rank(Z))
    assert same(weights_of(network), weights_of(twin))


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


def test_a_loss_that_is_no_longer_finite_is_refused_with_a_remedy():
    with pytest.raises(FloatingPointError, match=r"in epoch \d+ \(.+\)\. Lower learning_rate, or"):
        run(20, objective=make_objective("none", head_weight=1.0), rate=1e25)


def test_a_single_row_under_batch_norm_is_explained():
    network = make_network_of_views()
    network.encoders[0] = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5))
    sampler = make_sampler(batch_size=1, couples=False)
    with pytest.raises(ValueError, match=r"at least 2 rows of a view.*Raise batch_size"):
        run(1, network=network, sampler=sampler)


ROWS = [
    {"epoch": 1, "loss": 2.0},
    {"epoch": 2, "loss": 1.5, "validation_score": 0.5},
    {"epoch": 3, "loss": 1.0},
]


def test_rows_by_number_slice_and_name():
    history = History(ROWS)
    assert (len(history), history[0], history[-1]) == (3, ROWS[0], ROWS[2])
    assert history[1:] == History(ROWS[1:])
    assert history["loss"] == [2.0, 1.5, 1.0]
    assert list(history) == ROWS
    assert repr(history) == "History(3 epochs: epoch, loss, validation_score)"
    scores = history["validation_score"]  # not recorded in all epochs
    assert scores[1] == 0.5
    assert math.isnan(scores[0])
    with pytest.raises(IndexError):
        history[3]
    with pytest.raises(KeyError, match=r"'rank' was not recorded.*epoch, loss, validation_score"):
        history["rank"]
    empty = History()
    assert (len(empty), empty.names, empty.to_pandas().shape) == (0, [], (0, 0))
    assert history == History(ROWS) == pickle.loads(pickle.dumps(history))
    assert history != History(ROWS[:2])
    assert history != ROWS
    pd.testing.assert_frame_equal(history.to_pandas(), pd.DataFrame(ROWS))


def test_nothing_that_is_read_or_was_given_changes_it():
    rows = [dict(row) for row in ROWS]
    history = History(rows)
    for row in (rows[0], history[0], next(iter(history))):
        row["loss"] = 9.0
    rows.append({})
    history["loss"].append(9.0)
    frame = history.to_pandas()
    frame.loc[0, "loss"] = 9.0
    assert list(history) == ROWS
    with pytest.raises(TypeError):
        history[0] = {}


@pytest.fixture
def _no_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def _terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)


def run_bar(n_epochs, steps_per_epoch, *, shown=True, stop_after=None):
    with ProgressBar(n_epochs * steps_per_epoch, shown=shown) as bar:
        for epoch in range(1, (stop_after or n_epochs) + 1):
            for _ in range(steps_per_epoch):
                bar.step()
            row = {"epoch": epoch, "loss": 1 / epoch, "transport": 0.25, "seconds": 3.0}
            bar.epoch(row, ["loss", "transport", "validation_score"])
    return bar


def test_by_default_it_is_shown_at_a_prompt_and_in_notebooks_only(monkeypatch):
    assert [wants_progress(verbose) for verbose in (True, False, 1, 0)] == [True, False] * 2
    monkeypatch.delattr(sys, "ps1", raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert not wants_progress("auto")
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    assert wants_progress("auto")
    monkeypatch.delitem(sys.modules, "ipykernel")
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert wants_progress("auto")


@pytest.mark.usefixtures("_no_terminal")
@pytest.mark.parametrize(
    ("n_epochs", "steps_per_epoch", "n_lines"),
    ((100, 1, 10), (19, 1, 10), (99, 7, 10), (7, 1, 7), (3, 50, 3), (1, 1, 1)),
)
def test_a_log_gets_ten_lines_or_one_per_epoch(n_epochs, steps_per_epoch, n_lines, capsys):
    run_bar(n_epochs, steps_per_epoch)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == n_lines
    total = n_epochs * steps_per_epoch
    assert lines[-1].startswith(f"epoch {n_epochs}, step {total}/{total}: loss ")
    epochs = [int(line.split(",")[0].removeprefix("epoch ")) for line in lines]
    gaps = [b - a for a, b in zip([0, *epochs], epochs, strict=False)]
    assert max(gaps) - min(gaps) <= 1  # spread evenly


@pytest.mark.usefixtures("_no_terminal")
def test_a_line_holds_the_terms_that_were_recorded(capsys):
    run_bar(2, 4).print("stopped [early] after 2 epochs: " + "x" * 200)
    assert capsys.readouterr().err.splitlines() == [
        "epoch 1, step 4/8: loss 1  transport 0.25",
        "epoch 2, step 8/8: loss 0.5  transport 0.25",
        "stopped [early] after 2 epochs: " + "x" * 200,
    ]
    run_bar(100, 1, stop_after=35)
    assert len(capsys.readouterr().err.splitlines()) == 3
    run_bar(20, 2, shown=False).print("done")
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("_terminal")
def test_a_terminal_gets_a_bar_with_the_terms(capsys):
    assert run_bar(4, 5).draws
    out, err = capsys.readouterr()
    assert out == ""
    for text in ("training", "20/20", "100%", "loss 0.25  transport 0.25"):
        assert text in err
    assert "epoch 4, step" not in err
    run_bar(20, 2, shown=False).print("done")
    assert capsys.readouterr() == ("", "")


def test_a_bar_appears_after_its_delay():
    written = []
    for delay, is_terminal in ((0.0, True), (1000.0, True), (0.0, False)):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=90)
        with ProgressBar(30, description="predicting", delay=delay, console=console) as bar:
            for _ in range(3):
                bar.step(10)
        written.append(console.file.getvalue())
    assert "predicting" in written[0]
    assert "30/30" in written[0]
    assert [text.strip() for text in written[1:]] == ["", ""]


@pytest.mark.usefixtures("_terminal")
def test_items_are_tracked(capsys):
    assert list(track(iter("abc"), "scoring", shown=True)) == ["a", "b", "c"]
    assert "scoring" in capsys.readouterr().err
    assert list(track("abc", "scoring", shown=False)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
