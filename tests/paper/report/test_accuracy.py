import numpy as np
import pytest

from paper.markdown import number, signed
from paper.models import CONTROLS, MODELS
from paper.published import PUBLISHED
from paper.report.accuracy import accuracy_part, accuracy_table

TASKS = {"table2": "semi-supervised", "table3": "unsupervised"}


def rows_of(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def in_words(scores):
    return f"{number(np.mean(scores))} ± {number(np.std(scores, ddof=1))}"


@pytest.mark.parametrize(("name", "task"), TASKS.items())
@pytest.mark.parametrize("dataset", ("handwritten", "caltech20", "msrc"))
def test_every_number_is_numpys(results, scores, interval_of, name, task, dataset):
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


def test_controls_stand_below_a_line(results, scores):
    rows = rows_of(accuracy_table(results.outcomes["table2"], "handwritten", "semi-supervised"))
    line = next(i for i, row in enumerate(rows) if row[0].startswith("*controls"))
    below = [row[0] for row in rows[line + 1 :]]
    assert line == 11
    assert below[:2] == ["no coupling", "no coupling + AE"]
    assert below[2:4] == ["hotview default, coupling=none", "hotview default"]
    assert below[4:] == list(CONTROLS)
    plain = scores("table2", method=CONTROLS[0], dataset="handwritten")
    assert rows[line + 5][2] == in_words(plain)


def test_missing_trials_are_told(summaries, change, read):
    change(summaries["table2"], [90, None, 91, None, 92], method="SW (8)", dataset="handwritten")
    text = accuracy_part(read(summaries), "table2").text
    row = next(line for line in text.splitlines() if line.startswith("| SW (8) (2 trials missing)"))
    assert "91.0 ± 1.0" in row


def test_a_row_without_any_trial_has_dashes(summaries, change, read):
    change(summaries["table2"], [None] * 5, method="SW (8)", dataset="handwritten")
    text = accuracy_part(read(summaries), "table2").text
    assert "| SW (8) (5 trials missing) | 88.6 ± 3.3 | – | – | – | – |" in text


def test_rows_far_from_the_paper_are_named_on_both_sides(summaries, change, read):
    change(summaries["table2"], [99] * 5, dataset="handwritten")
    change(summaries["table2"], [50] * 5, dataset="handwritten", method="LSCCA")
    text = accuracy_part(read(summaries), "table2").text.split("### Caltech7")[0]
    assert "0 of 11 rows are within one standard deviation of the paper's mean" in text
    assert "; LSCCA is further below." in text
    assert "; DGCCA, AECCA, SW (8)" in text


def test_what_coupling_adds_is_counted(summaries, change, read):
    change(summaries["table3"], [80, 81, 82, 83, 84], dataset="msrc")
    change(summaries["table3"], [90, 92, 91, 93, 94], dataset="msrc", method="HOT (11)")
    change(summaries["table3"], [70, 72, 71, 73, 74], dataset="msrc", method="DGCCA")
    text = accuracy_part(read(summaries), "table3").text.split("### MSRC-v1")[1]
    assert text.count("above zero in 1 of 11 rows (HOT (11)), and below in 1 (DGCCA).") == 2


def test_table_3_explains_itself(results, scores):
    text = accuracy_part(results, "table3").text
    assert text.count("features lack the classes") == 1
    where = {"dataset": "handwritten", "method": "HOT (11)"}
    told = [
        in_words(scores("table3", kind, settings=settings, **where))
        for settings in ("paper", "robust")
        for kind in ("test", "standardized", "unpenalized", "labels_20", "all_labels")
    ]
    assert f"| HOT (11) | {' | '.join(told)} |" in text
    assert "features lack the classes" not in accuracy_part(results, "table2").text


def test_of_a_row_without_any_trial_nothing_is_said(summaries, change, read):
    change(summaries["table2"], [99] * 5, dataset="handwritten")
    change(summaries["table2"], [None] * 5, dataset="handwritten", method="SW (8)")
    text = accuracy_part(read(summaries), "table2").text.split("### Caltech7")[0]
    assert "0 of 10 rows are within" in text
    assert "further below" not in text
    assert "in 0 of 10 rows" in text
