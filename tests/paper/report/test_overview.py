from paper.report.claims.listing import list_claims
from paper.report.overview import opening_part
from paper.report.results import Results


def opening(results):
    return opening_part(results, []).text


def test_verdicts_are_counted(results):
    claims = list_claims(results)
    n = sum(len(claim.findings) for claim in claims)
    assert f"- Of {n} verdicts on {len(claims)} claims: " in opening_part(results, claims).text


def test_what_is_not_the_papers_is_said(results):
    text = opening(results)
    assert "Handwritten (2000 rows, 6 views, 10 classes)" in text
    named = "Caltech7 (re-extracted), Caltech20 (re-extracted), MSRC-v1 and Synthetic are not the"
    assert named in text


def test_how_it_was_made(results):
    text = opening(results)
    assert "Trials: 5. Machine: Some processor, 2 cores." in text
    assert "Versions: hotview 0.1, python 3.11.7." in text


def test_several_versions_are_all_told(summaries, read):
    summaries["table4"]["versions"]["hotview"] = "0.2"
    assert "hotview 0.1 and 0.2" in opening(read(summaries))


def test_findings_are_counted(summaries, change, read):
    for name in ("table2", "table3"):
        change(summaries[name], [90, 91, 92, 93, 94])
    change(summaries["table2"], [95, 97, 96, 98, 99], method="HOT (10)", settings="robust")
    change(summaries["table2"], [99] * 5, method="label propagation per view")
    text = opening(read(summaries))
    assert "Handwritten, semi-supervised: 7 of 11 rows are within one standard deviation" in text
    added = "semi-supervised, robust settings: of 44 rows over all data, 4 have an interval above"
    assert added in text
    assert (
        "Handwritten, semi-supervised: the best of the paper's rows is HOT (10) (robust settings) "
        "with 97.0, the best plain method label propagation per view with 99.0." in text
    )


def test_the_ceiling_with_all_labels_is_no_rival(summaries, change, read):
    change(summaries["table2"], [99] * 5, method="logistic regression, all labels")
    assert "the best plain method logistic regression, all labels" not in opening(read(summaries))


def test_nothing_was_run():
    assert "Nothing was run yet; `python -m paper run all`" in opening(Results({}))


def test_controls_without_any_trial_are_no_rivals(summaries, change, read):
    change(summaries["table2"], [None] * 5, dataset="handwritten", method="logistic regression")
    text = opening_part(read(summaries), []).text
    assert "with –" not in text
    assert "nan" not in text
