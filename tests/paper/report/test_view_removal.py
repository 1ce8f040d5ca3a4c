import numpy as np
import pytest
from scipy import stats

from paper.markdown import number, signed
from paper.report.view_removal import rank_correlation, removal_part, removal_table


def test_numbers_are_numpys(results, scores, interval_of):
    text = removal_table(results.outcomes["table4"], "handwritten")
    row = next(line for line in text.splitlines() if line.startswith("| mor |"))
    assert "79.3 ± 2.6" in row
    for method, settings in (("HOT (11)", "paper"), ("PCA + logistic regression", "-")):
        where = {"dataset": "handwritten", "method": method, "settings": settings}
        without, with_all = (scores("table4", without=view, **where) for view in ("mor", None))
        mean, std = np.mean(without), np.std(without, ddof=1)
        assert f"{number(mean)} ± {number(std)}" in row
        low, high = interval_of(without, with_all)
        interval = f"[{signed(low, 2)}, {signed(high, 2)}]"
        assert interval in row


def test_all_views_come_first(results):
    lines = removal_table(results.outcomes["table4"], "caltech7").splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| none", "| Gabor", "| WM", "| CENTRIST", "| HOG", "| GIST", "| LBP",
    ]  # fmt: skip
    assert lines[2].startswith("| none | 86.3 ± 1.8 |")


def test_what_is_missed_is_told(summaries, change, read):
    table = summaries["table4"]
    change(table, [90, 91, 92, 93, 94], dataset="handwritten")
    change(table, [80, 82, 81, 83, 84], dataset="handwritten", without="mor")
    text = removal_part(read(summaries)).text.split("### Handwritten")[1]
    assert text.count("removals that hurt (interval below zero): mor; rank correlation") == 2
    assert "PCA + logistic regression loses: 1.00." in text


def test_rank_correlation_is_spearmans():
    a, b = np.random.default_rng(0).normal(size=(2, 6))
    assert rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == 0
