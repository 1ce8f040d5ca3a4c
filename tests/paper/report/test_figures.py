import numpy as np

from hotview.report.figures import new_figure
from paper.cells import Cell
from paper.markdown import number
from paper.report.curves import plot_curve
from paper.report.plan_figures import draw_plans
from paper.report.results import Entry
from paper.report.sweeps import sweeps_part


def test_means_and_spreads_are_numpys():
    _, (ax,) = new_figure()
    plot_curve(["1", "2", "3"], [[1.0, 3.0], [4.0, np.nan], [6.0, 6.0]], ax=ax, label="ours")
    (line, _, (bars,)) = ax.containers[0]
    np.testing.assert_array_equal(line.get_ydata(), [2, 4, 6])
    ends = [segment[:, 1] for segment in bars.get_segments()]
    std = np.std([1, 3], ddof=1)
    np.testing.assert_allclose(ends, [[2 - std, 2 + std], [4, 4], [6, 6]])


PAIRS = np.kron(np.eye(3), np.ones((2, 1))) / 6
VIEWS = list("abcdef")


def entry(method, plans):
    cell = Cell("synthetic", "unsupervised", method, "paper")
    return Entry(cell, {}, record={"Ws": [np.asarray(W).tolist() for W in plans]})


def test_references_are_matched_before_they_are_averaged():
    figure = draw_plans([entry("HOT (11)", [PAIRS, PAIRS[:, [2, 0, 1]]])], VIEWS)
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(np.sort(shown, axis=1), np.sort(PAIRS * 6, axis=1))
    assert {t.get_text() for t in figure.axes[0].texts} == {"1.00\n±0.00", "0.00\n±0.00"}


def test_mean_and_spread_of_pairwise_plans_are_numpys():
    rng = np.random.default_rng(0)
    plans = rng.random((4, 6, 6)) * (1 - np.eye(6))
    figure = draw_plans([entry("HOT (10)", plans)], VIEWS)
    shares = plans / plans.sum(2, keepdims=True)
    texts = [t.get_text() for t in figure.axes[0].texts]
    mean, std = shares.mean(0)[0, 1], shares.std(0, ddof=1)[0, 1]
    assert texts[0] == f"{mean:.2f}\n±{std:.2f}"
    assert len(texts) == 30  # no view goes to itself


def test_numbers_are_numpys_and_missing_trials_of_a_point_are_told(summaries, read, scores):
    for entry in summaries["figure3"]["cells"]:
        if entry["cell"].get("overrides") == {"batch_size": 50}:
            entry["scores"]["test"][1] = None
            entry["missing"] = 1
    text = sweeps_part(read(summaries), "figure3").text
    assert "| 50 (1 trial missing) |" in text
    where = {"dataset": "handwritten", "settings": "paper"}
    usual = scores("figure3", **where)
    at_5 = scores("figure3", overrides={"coupling__n_references": 5}, **where)
    mean, std = number(np.mean(at_5)), number(np.std(at_5, ddof=1))
    assert f"| references K | 5 | {mean} ± {std} |" in text
    assert f"| references K | 3 | {number(np.mean(usual))} ±" in text
