import pytest

from paper.report.claims.distances import bound_claim, cost_claim, exact_claim
from paper.report.results import Results

MS = {"sliced_3": 1.0, "sliced_50": 4.0, "assignment": 250.0, "emd2": 340.0}


def bench(**ms):
    case = {"ms": {**MS, "sinkhorn": 55.0, "sinkhorn_log": 220.0, **ms}}
    slow = {"ms": {**case["ms"], "assignment": 13000.0, "emd2": 12345.0}}
    return Results({}, {"ground_distances": {"cases": [case, slow]}})


def test_ratios_are_to_the_faster_rival():
    findings = {f.how: f for f in cost_claim(bench()).findings}
    assert findings["Wasserstein against 3 iid directions"].number == "250 to 12,000 times"
    assert findings["Sinkhorn against 50 orthogonal directions"].number == "14 to 14 times"
    assert {f.verdict for f in findings.values()} == {"holds"}


def test_one_size_at_which_it_is_slower_is_enough():
    findings = {f.how: f.verdict for f in cost_claim(bench(sinkhorn=3.0)).findings}
    assert findings["Sinkhorn against 50 orthogonal directions"] == "does not hold"
    assert findings["Sinkhorn against 3 iid directions"] == "holds"


@pytest.mark.parametrize(("share", "verdict"), ((6.0, "holds"), (10.5, "does not hold")))
def test_the_lower_bound(share, verdict):
    checks = {"n": 400, "d_times_sliced_over_exact": [0.1, share]}
    results = Results({}, {"ground_distances": {"dimension": 10, "checks": checks}})
    (finding,) = bound_claim(results).findings
    assert finding.verdict == verdict


def models(sliced):
    scores = {"exact": [0.90, 0.91, 0.92], "sliced, 3 iid": sliced, "no coupling": [0.9] * 3}
    told = {name: {"accuracy": {"by_split": values}} for name, values in scores.items()}
    return Results({}, {"sliced_against_exact": {"training": {"models": told}}})


@pytest.mark.parametrize(
    ("sliced", "verdict"),
    (
        ([0.901, 0.911, 0.921], "holds"),
        ([0.80, 0.81, 0.821], "does not hold"),
        ([0.80, 0.99, 0.92], "cannot be told"),
    ),
)
def test_sliced_against_exact(sliced, verdict):
    (finding,) = exact_claim(models(sliced)).findings
    assert finding.how == "sliced, 3 iid − exact"
    assert finding.verdict == verdict
