import math

import numpy as np
import pytest
from scipy import stats

from paper.markdown import number, signed
from paper.models import MODELS
from paper.published import PUBLISHED
from paper.report.accuracy import accuracy_part, accuracy_table
from paper.report.averaged import averaged_part
from paper.report.parts import written_difference
from paper.report.synthetic import synthetic_part
from paper.report.view_removal import rank_correlation, removal_part, removal_table
from paper.statistics import Difference


def test_differences_are_bold_where_zero_is_excluded():
    assert written_difference(Difference(0.3, -0.1, 0.7, 20)) == "+0.30 [−0.10, +0.70]"
    assert written_difference(Difference(0.3, -math.inf, math.inf, 1)) == "+0.30 (one trial)"
    for nothing in (None, Difference(math.nan, -math.inf, math.inf, 0)):
        assert written_difference(nothing) == "–"


TASKS = {"table2": "semi-supervised", "table3": "unsupervised"}


def rows_of(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def in_words(scores):
    return f"{number(np.mean(scores))} ± {number(np.std(scores, ddof=1))}"


@pytest.mark.parametrize(
    ("name", "dataset"), (("table2", "handwritten"), ("table3", "caltech20"), ("table3", "msrc"))
)
def test_every_number_is_numpys(results, scores, interval_of, name, dataset):
    task = TASKS[name]
    rows = rows_of(accuracy_table(results.outcomes[name], dataset, task))
    by_name = {row[0]: row[1:] for row in rows}
    assert [row[0] for row in rows[:11]] == [model.name for model in MODELS]
    for model in MODELS:
        paper, *ours = by_name[model.name]
        figure = PUBLISHED[task].get(dataset, {}).get(model.name)
        assert paper == (f"{number(figure[0])} ± {number(figure[1])}" if figure else "–")
        control = f"no coupling{' + AE' * (model.view_regularizer == 'autoencoder')}"
        for settings, mean, gain in zip(("paper", "robust"), ours[::2], ours[1::2], strict=True):
            where = {"dataset": dataset, "settings": settings}
            a, b = (scores(name, method=m, **where) for m in (model.name, control))
            assert mean == in_words(a)
            low, high = interval_of(a, b)
            bold = "**" if low > 0 or high < 0 else ""
            interval = f"[{signed(low, 2)}, {signed(high, 2)}]"
            assert gain == f"{bold}{signed(np.mean(a - b), 2)}{bold} {interval}"


def test_a_row_without_any_trial_has_dashes(summaries, change, read):
    change(summaries["table2"], [None] * 5, method="SW (8)", dataset="handwritten")
    lines = accuracy_part(read(summaries), "table2").text.splitlines()
    assert "| SW (8) (5 trials missing) | 88.6 ± 3.3 | – | – | – | – |" in lines


def test_what_coupling_adds_is_counted(summaries, change, read):
    change(summaries["table3"], [80, 81, 82, 83, 84], dataset="msrc")
    change(summaries["table3"], [90, 92, 91, 93, 94], dataset="msrc", method="HOT (11)")
    change(summaries["table3"], [70, 72, 71, 73, 74], dataset="msrc", method="DGCCA")
    text = accuracy_part(read(summaries), "table3").text.split("### MSRC-v1")[1]
    assert text.count("above zero in 1 of 11 rows (HOT (11)), and below in 1 (DGCCA).") == 2


def test_averaged_and_summed_losses_stand_side_by_side(results, scores):
    text = averaged_part(results).text.split("### ")[1]
    row = next(line for line in text.splitlines() if line.startswith("| HOT (11) |"))
    changed = {"coupling__weight": 6.0, "view_regularizer__weight": 0.6}
    where = {"dataset": "handwritten", "method": "HOT (11)"}
    summed, averaged = (scores("averaged", overrides=x, **where) for x in ({}, changed))
    difference = signed(np.mean(averaged - summed), 2)
    for words in (in_words(summed), in_words(averaged), difference):
        assert words in row


def test_numbers_are_numpys(results, scores, interval_of):
    text = removal_table(results.outcomes["table4"], "handwritten")
    row = next(line for line in text.splitlines() if line.startswith("| mor |"))
    assert "79.3 ± 2.6" in row
    for method, settings in (("HOT (11)", "paper"), ("PCA + logistic regression", "-")):
        where = {"dataset": "handwritten", "method": method, "settings": settings}
        without, with_all = (scores("table4", without=view, **where) for view in ("mor", None))
        assert in_words(without) in row
        low, high = interval_of(without, with_all)
        assert f"[{signed(low, 2)}, {signed(high, 2)}]" in row


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


GROUPS = [0, 0, 1, 1, 2, 2]
PAIRS = np.kron(np.eye(3), np.ones((2, 1))) / 6


def test_groups_found_are_counted(summaries, read):
    for entry in summaries["synthetic"]["cells"]:
        if entry["cell"]["method"] == "HOT (11)" and entry["cell"].get("overrides"):
            entry["Ws"] = [PAIRS.tolist()] * 4 + [PAIRS[[0, 2, 1, 3, 4, 5]].tolist()]
    text = synthetic_part(read(summaries)).text
    how = "the paper's settings, n_components = 4, preprocessing = none"
    assert f"| HOT (11) | {how} | 87 % | 20 % | 4 of 5 trials |" in text
