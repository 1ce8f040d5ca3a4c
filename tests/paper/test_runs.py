from paper.runs import append_run, read_runs


def test_runs_are_noted_in_order(tmp_path):
    assert read_runs(tmp_path) == []
    for seconds in (1.5, 2.5):
        path = append_run(tmp_path, {"command": "hotview reproduce", "seconds": seconds})
    assert [run["seconds"] for run in read_runs(tmp_path)] == [1.5, 2.5]
    # Reports take every .json of this folder for an experiment.
    assert path.relative_to(tmp_path).as_posix() == "paper/runs.jsonl"
