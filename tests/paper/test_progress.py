import io

from rich.console import Console

from paper.progress import TrainingsBar


def test_ten_lines_at_most_in_a_file():
    console = Console(file=io.StringIO(), width=80)
    with TrainingsBar(100, 100.0, console) as bar:
        for _ in range(100):
            bar.advance(1, 1.0)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("10/100 trainings, about")
    assert lines[-1] == "100/100 trainings, about 0 s left"


def test_the_time_left_follows_the_work_and_not_the_count(monkeypatch):
    clock = iter((0.0, 30.0, 630.0))
    monkeypatch.setattr("paper.progress.time.perf_counter", lambda: next(clock))
    console = Console(file=io.StringIO(), width=80)
    bar = TrainingsBar(20, 100.0, console)
    bar.advance(1, 50.0)
    bar.advance(1, 10.0)
    assert console.file.getvalue().splitlines() == [
        "1/20 trainings, about 30 s left",
        "2/20 trainings, about 7 min left",
    ]


def test_a_terminal_sees_a_bar_that_is_full_in_the_end():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with TrainingsBar(4, 8.0, console) as bar:
        bar.advance(4, 8.0)
        assert bar.progress.finished
    drawn = console.file.getvalue()
    assert "4/4 trainings" in drawn
    assert "100 %" in drawn
    assert "about" not in drawn
