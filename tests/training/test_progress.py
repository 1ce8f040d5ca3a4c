import io
import sys

import pytest
from rich.console import Console

from hotview.training.progress import ProgressBar, track, wants_progress


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


def run(n_epochs, steps_per_epoch, *, shown=True, stop_after=None):
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
    run(n_epochs, steps_per_epoch)
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
    run(2, 4).print("stopped [early] after 2 epochs: " + "x" * 200)
    assert capsys.readouterr().err.splitlines() == [
        "epoch 1, step 4/8: loss 1  transport 0.25",
        "epoch 2, step 8/8: loss 0.5  transport 0.25",
        "stopped [early] after 2 epochs: " + "x" * 200,
    ]
    run(100, 1, stop_after=35)
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.usefixtures("_terminal")
def test_a_terminal_gets_a_bar_with_the_terms(capsys):
    bar = run(4, 5)
    assert bar.draws
    assert bar.progress.tasks[0].completed == 20
    assert bar.progress.finished
    out, err = capsys.readouterr()
    assert out == ""
    assert "training" in err
    assert "20/20" in err
    assert "100%" in err
    assert "loss 0.25  transport 0.25" in err
    assert "epoch 4, step" not in err


@pytest.mark.parametrize("where", ("_terminal", "_no_terminal"))
def test_what_is_not_shown_prints_nothing(where, request, capsys):
    request.getfixturevalue(where)
    run(20, 2, shown=False).print("done")
    assert capsys.readouterr() == ("", "")


def predict_rows(delay, *, terminal=True):
    """Return what is written while three batches of ten rows are done."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=90)
    with ProgressBar(30, description="predicting", delay=delay, console=console) as bar:
        for _ in range(3):
            bar.step(10)
    return console.file.getvalue()


def test_a_bar_appears_after_its_delay():
    assert "predicting" in (written := predict_rows(0.0))
    assert "30/30" in written
    assert predict_rows(1000.0) == ""
    assert predict_rows(0.0, terminal=False).strip() == ""  # to a file


@pytest.mark.usefixtures("_terminal")
def test_items_are_tracked(capsys):
    assert list(track(iter("abc"), "scoring", shown=True)) == ["a", "b", "c"]
    assert "scoring" in capsys.readouterr().err
    assert list(track("abc", "scoring", shown=False)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
