from paper.report.exact_matching import exact_part
from paper.report.results import Results

SHARE = {"exact_individual": {"mean": 0.021}, "exact_class": {"mean": 0.141}}
BENCH = {
    "data": "Handwritten",
    "chance": {"individual": 0.01, "class": 0.1},
    "costs": {
        "untrained network": {
            "exact": {"by_pair": []},
            "3 iid": {"pearson": {"mean": 0.5, "spread_over_draws": 0.21}},
        }
    },
    "partners": {"untrained network": {"validation": SHARE}},
    "training": {},
}


def test_correlations_and_partners_are_shown():
    lines = exact_part(Results({}, {"sliced_against_exact": BENCH})).text.splitlines()
    assert lines[-1] == "| untrained network | 0.50 ± 0.21 | 2.1 % | 14.1 % |"
    assert "same individual (chance 1.0 %) | same class (chance 10.0 %)" in lines[-3]


def test_what_was_not_asked_has_a_dash():
    lines = exact_part(Results({}, {"sliced_against_exact": {**BENCH, "partners": {}}})).text
    assert lines.splitlines()[-1] == "| untrained network | 0.50 ± 0.21 | – | – |"
