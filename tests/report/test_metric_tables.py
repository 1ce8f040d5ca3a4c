from dataclasses import replace

import numpy as np
import pytest

from hotview.evaluation import assess
from hotview.evaluation.metrics import Estimate
from hotview.report.metric_tables import describe_metrics, metric_tables


@pytest.fixture(scope="module")
def metrics():
    """Metrics of 1,000 rows, 32 of which are positive, that are all predicted to be negative."""
    p = np.repeat([0.4, 0.04], 500)
    y = np.where(np.arange(1000) % 31 == 0, "yes", "no")
    return assess(y, np.column_stack([1 - p, p]), ["no", "yes"], cost=9)


def test_the_majority_class_comes_before_the_accuracy(metrics):
    first = metric_tables(metrics)[0]
    names = [row[0] for row in first.rows]
    assert names[:2] == ["majority class, always no", "accuracy"]
    assert first.rows[0][1] == first.rows[1][1] == "96.7"
    assert first.rows[1][2] == "95.4 to 97.6"
    assert {"area under the ROC curve", "average precision", "log loss (nats)"} <= set(names)


def test_classes_with_prevalence_and_mean_probability(metrics):
    (_, of_no), (_, of_yes) = ((row[0], row) for row in metric_tables(metrics)[1].rows)
    assert of_no[1].startswith("96.7 (95.4–97.6)")
    assert of_yes[2].startswith("22.0 (")
    assert of_yes[4].startswith("0.0 (0.0–")
    assert of_yes[5] == "–"  # it is never predicted


def test_the_positive_class_at_both_thresholds(metrics):
    table = metric_tables(metrics)[2]
    assert table.title.startswith("Positive class yes (the rarer class of these rows)")
    default, chosen = table.rows
    assert default[:2] == ("most probable class", "–")
    assert chosen[1] == "0.100"
    assert chosen[3].startswith("51.5 (")
    assert chosen[4].startswith("50.1 (")
    cost = (9 * 16 + 483) / 1000
    assert chosen[6].startswith(f"{cost:.3f} (")
    assert table.headings[6] == "cost per row"
    sentence = describe_metrics(metrics)[1]
    assert sentence.startswith("Class yes is predicted from a probability of 0.100 on: 1/(1 + 9)")
    assert sentence.endswith("A missed row costs 9, a false alarm 1.")
    plain = replace(metrics, binary=replace(metrics.binary, cost_ratio=None, chosen=None))
    assert len(metric_tables(plain)[2].rows[0]) == len(metric_tables(plain)[2].headings) == 6


def test_many_classes_have_no_positive_one():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 90)
    found = assess(P.argmax(axis=1), P, range(3))
    assert len(metric_tables(found)) == 2
    assert len(describe_metrics(found)) == 1


def test_a_mean_probability_that_is_too_high_is_said(metrics):
    text = describe_metrics(metrics)[0].replace("\N{NO-BREAK SPACE}", " ")
    assert text.startswith("The mean probability of 'yes' is too high: 22.0 % against a prevalence")
    assert "(difference +18.7 points, 95 % interval +16.4 to +21.0)" in text
    near = replace(metrics.by_class[1], excess=Estimate(0.01, -0.01, 0.03))
    calibrated = replace(metrics, by_class=[metrics.by_class[0], near])
    assert len(describe_metrics(calibrated)) == len(describe_metrics(metrics)) - 1


def test_what_is_resampled_is_said(metrics):
    assert "1,000 bootstrap resamples of the rows" in describe_metrics(metrics)[-1]
    grouped = replace(metrics, resampled="groups")
    assert "1,000 bootstrap resamples of groups" in describe_metrics(grouped)[-1]


def test_missing_numbers_are_dashes(metrics):
    found = replace(metrics, log_loss=None)
    assert metric_tables(found)[0].rows[-1] == ("log loss (nats)", "–", "–")


def test_rare_classes_are_named():
    P = [[0.9, 0.1, 0.0]] * 40
    text = describe_metrics(assess([0] * 37 + [1] * 3, P, [0, 1, 2]))
    assert "Classes with fewer than 20 rows: 1 (3), 2 (none). " in text[0]
    assert "leave out classes without any" in text[0]
    both = describe_metrics(assess([0, 1] * 20, [[0.9, 0.1]] * 40, [0, 1], positive=1))
    assert not any("fewer than" in sentence for sentence in both)
