import pytest

from paper.report.claims.losses import LOSSES, equal_loss_claim, loss_claim

USUAL = [90, 91, 92, 93, 94]


@pytest.mark.parametrize(
    ("without", "verdict"), (([70, 72, 71, 73, 74], "holds"), (USUAL, "does not hold"))
)
def test_mor_is_missed_or_not(summaries, change, read, without, verdict):
    change(summaries["table4"], USUAL)
    change(summaries["table4"], without, without="mor", dataset="handwritten")
    claim = loss_claim(read(summaries), LOSSES[0])
    assert [f.how for f in claim.findings] == [
        "HOT (11), the paper's settings",
        "HOT (11), robust settings",
        "PCA + logistic regression",
    ]
    assert {f.verdict for f in claim.findings} == {verdict}


def test_on_other_data_a_claim_is_only_not_seen(summaries, change, read):
    change(summaries["table4"], USUAL)
    claim = loss_claim(read(summaries), LOSSES[1])
    assert {f.verdict for f in claim.findings} == {"not on our data"}


def test_pix_fac_and_kar_alike_or_not(summaries, change, read):
    change(summaries["table4"], USUAL)
    claim = equal_loss_claim(read(summaries))
    assert {f.verdict for f in claim.findings} == {"holds"}
    change(summaries["table4"], [70, 72, 71, 73, 74], without="kar")
    claim = equal_loss_claim(read(summaries))
    assert {f.verdict for f in claim.findings} == {"does not hold"}


def test_a_view_that_was_not_removed_leaves_no_finding(summaries, read):
    table = summaries["table4"]
    table["cells"] = [e for e in table["cells"] if e["cell"].get("without") != "kar"]
    assert equal_loss_claim(read(summaries)).findings == ()
