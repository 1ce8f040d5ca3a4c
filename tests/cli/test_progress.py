import io

from rich.console import Console

from hotview.cli import progress
from hotview.cli.progress import RowsBar


def count(monkeypatch, patience, terminal=True):
    """What is written while three parts of ten rows are done."""
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=90)
    with RowsBar("predicting", 30, console) as bar:
        for _ in range(3):
            bar.advance(10)
    return console.file.getvalue()


def test_who_waits_is_told_how_far_it_is(monkeypatch):
    told = count(monkeypatch, -1.0)
    assert "predicting" in told
    assert "30/30" in told


def test_what_is_quick_says_nothing(monkeypatch):
    assert count(monkeypatch, 1000.0) == ""


def test_nothing_is_written_to_a_file(monkeypatch):
    assert count(monkeypatch, -1.0, terminal=False).strip() == ""
