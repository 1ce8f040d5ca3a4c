from paper.report.results import Results
from paper.report.speed import distances_part, speed_part

RUN = {
    "command": "hotview reproduce all",
    "date": "2025-01-31",
    "seconds": 3700.0,
    "jobs": 2,
    "device": "Some processor, 2 cores",
    "trainings": 1560,
    "controls": 300,
    "failed": 0,
    "interrupted": False,
}
BENCH = {
    "contestants": {"sliced_3": "3 directions", "emd2": "exact"},
    "n_views": 6,
    "dimension": 10,
    "cases": [{"n": 100, "k": 3, "j": 20, "ms": {"sliced_3": 0.6328, "emd2": 24.9}}],
    "slopes": {"N": {"slope": {"emd2": {"all": 2.22, "last_two": 2.5649}}}},
}


def test_runs_are_told():
    row = speed_part(Results({}, runs=(RUN,))).text.splitlines()[-1]
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells == [
        "`hotview reproduce all`", "2025-01-31", "Some processor, 2 cores", "2", "1560", "300",
        "62 min",
    ]  # fmt: skip


def test_what_went_wrong_is_told_too():
    text = speed_part(Results({}, runs=({**RUN, "failed": 2, "interrupted": True}, {}))).text
    assert "`hotview reproduce all` (2 failed, interrupted)" in text
    assert text.splitlines()[-1].startswith("| `–` | – |")


def test_experiments_are_added_up(results):
    assert "| figure2 | 20 | 100 s | Some processor, 2 cores |" in speed_part(results).text


def test_replicas_are_shown_beside_what_they_replace():
    took = {"20 replicas": {"fit": 0.5, "steps": 0.4}, "sequential": {"fit": 1.0, "steps": 1.2}}
    ratio = {"20 replicas": {"fit": 2.0, "steps": 3.0}, "sequential": {"fit": 1.0, "steps": 1.0}}
    case = {"training": "HOT (11)", "threads": 2, "seconds_per_training": took, "ratio": ratio}
    record = {"cpu": {"machine": "2 cores", "cases": [case]}, "cuda": {"machine": "a GPU"}}
    lines = speed_part(Results({}, {"replicas": record})).text.splitlines()
    assert lines[-2] == "| 2 cores | HOT (11) | 2 | 20 replicas | 500 | 2.0× | 400 | 3.0× |"
    assert lines[-1] == "| 2 cores | HOT (11) | 2 | sequential | 1,000 | 1.0× | 1,200 | 1.0× |"


def test_times_and_slopes_of_ground_distances():
    text = distances_part(Results({}, {"ground_distances": BENCH})).text
    assert "| 100, 3, 20 | 0.633 | 24.9 |" in text
    assert "| of N, largest two | – | 2.56 |" in text
