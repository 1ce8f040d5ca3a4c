import numpy as np

from paper.cells import Cell
from paper.report.plan_figures import draw_plans, plans_part
from paper.report.results import Entry

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


def test_figure_2_shows_both_settings_in_one_and_figure_5_in_two(results):
    two, five = (plans_part(results, name) for name in ("figure2", "figure5"))
    assert sorted(two.pictures) == ["figure2-caltech7.svg", "figure2-handwritten.svg"]
    assert "figure5-msrc-robust.svg" in five.pictures
    assert len(five.pictures) == 8
    for part in (two, five):
        for name in part.pictures:
            assert f"{{pictures}}/{name}" in part.text


def test_without_plans_there_is_no_picture(summaries, read):
    for cell in summaries["figure2"]["cells"]:
        del cell["Ws"]
    assert plans_part(read(summaries), "figure2").pictures == {}


def test_a_dataset_of_which_nothing_was_run_has_no_picture(summaries, read):
    summaries["figure5"]["datasets"]["msrc"] = {"label": "msrc"}
    cells = summaries["figure5"]["cells"]
    summaries["figure5"]["cells"] = [e for e in cells if e["cell"]["dataset"] != "msrc"]
    assert not [name for name in plans_part(read(summaries), "figure5").pictures if "msrc" in name]
