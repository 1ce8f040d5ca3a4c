import json

import numpy as np
import pytest

from paper.catalog import EXPERIMENTS
from paper.report.load_results import read_outcome, read_results


def test_everything_comes_back(results, made, scores):
    assert list(results.outcomes) == list(EXPERIMENTS)
    for name, outcome in results.outcomes.items():
        assert 0 < len(outcome.entries) <= len(made[name]["cells"])
    cell = EXPERIMENTS["table2"].cells(["handwritten"])[0]
    found = results.find("table2", cell).scores["test"]
    wanted = {k: v for k, v in cell.to_json().items() if k in ("dataset", "method", "settings")}
    np.testing.assert_allclose(found, scores("table2", **wanted))


@pytest.mark.parametrize(
    ("broken", "says"),
    (
        ("{", "it is not JSON"),
        ("[]", "it holds no object"),
        ("{}", "'format' is missing"),
        ('{"format": 2}', "its format is 2, and 1 can be read"),
        ('{"format": 1, "experiment": "table3"}', "it holds 'table3'"),
        ('{"format": 1, "experiment": "table2"}', "'cells' is missing"),
    ),
)
def test_foreign_files_are_named(tmp_path, broken, says):
    path = tmp_path / "table2.json"
    path.write_text(broken)
    with pytest.raises(ValueError, match=r"table2\.json is not a result file") as e:
        read_results(tmp_path)
    assert says in str(e.value)


def first_entry(summary):
    return summary["cells"][0]


@pytest.mark.parametrize(
    ("breaking", "says"),
    (
        (lambda s: first_entry(s)["cell"].update(method="magic"), "Expected method to be one of"),
        (lambda s: first_entry(s)["cell"].update(extra=1), "unexpected keyword argument"),
        (lambda s: first_entry(s)["scores"].pop("test"), "has no test scores"),
        (lambda s: first_entry(s)["scores"]["test"].pop(), "has 4 test scores of 5 trials"),
        (lambda s: first_entry(s)["scores"].update(test=[87.0] * 5), "between 0 and 1, got 87.0"),
        (lambda s: first_entry(s)["scores"].update(test=["x"] * 5), "not supported between"),
        (lambda s: first_entry(s).update(Ws=[1, 2]), "are not matrices"),
        (lambda s: s["datasets"].pop("handwritten"), "'handwritten' is missing"),
        (lambda s: s["datasets"]["handwritten"].pop("label"), "has no label"),
    ),
)
def test_what_is_wrong_inside_is_said(tmp_path, summaries, breaking, says):
    breaking(summaries["table2"])
    path = tmp_path / "table2.json"
    path.write_text(json.dumps(summaries["table2"]))
    with pytest.raises(ValueError, match=r"table2\.json is not a result file") as e:
        read_outcome(path)
    assert says in str(e.value)


def test_a_file_of_another_name_is_not_passed_over(tmp_path):
    (tmp_path / "table7.json").write_text("{}")
    with pytest.raises(ValueError, match=r"table7\.json is none of table2"):
        read_results(tmp_path)


def test_benches_and_runs_lie_beside(tmp_path):
    paper, bench = tmp_path / "paper", tmp_path / "bench"
    paper.mkdir()
    bench.mkdir()
    (paper / "runs.jsonl").write_text('{"jobs": 2}\n')
    (bench / "replicas.json").write_text('{"cases": []}')
    results = read_results(paper)
    assert results.runs == ({"jobs": 2},)
    assert results.benches == {"replicas": {"cases": []}}
    (paper / "runs.jsonl").write_text('{"jobs"\n')
    with pytest.raises(ValueError, match=r"notes of runs in .*paper"):
        read_results(paper)


def test_a_bench_that_lacks_something_is_named(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "paper").mkdir()
    (tmp_path / "bench" / "ground_distances.json").write_text('{"cases": []}')
    with pytest.raises(ValueError, match=r"ground_distances\.json has no 'contestants'"):
        read_results(tmp_path / "paper")
