import numpy as np

from paper.catalog import GRIDS
from paper.markdown import number
from paper.report.sweeps import find_sweeps, sweeps_part


def test_all_values_of_the_grids_are_found(results):
    for figure, grid in GRIDS.items():
        sweeps = find_sweeps(results, figure)
        assert [s.parameter for s in sweeps] == [*grid, *grid]
        for sweep in sweeps:
            assert tuple(sweep.points) == grid[sweep.parameter][1]
            assert sweep.marked in sweep.points


def test_controls_are_those_of_the_table_with_the_same_settings(results, scores):
    for sweep in find_sweeps(results, "figure4"):
        ae = sweep.parameter == "view_regularizer__weight"
        method = f"no coupling{' + AE' * ae}"
        where = {"dataset": "handwritten", "method": method, "settings": sweep.settings}
        np.testing.assert_allclose(sweep.control.scores["test"], scores("table2", **where))


def test_without_the_table_there_is_no_control(summaries, read):
    del summaries["table3"]
    assert all(s.control is None for s in find_sweeps(read(summaries), "figure3"))


def test_numbers_are_numpys(results, scores):
    text = sweeps_part(results, "figure3").text
    where = {"dataset": "handwritten", "settings": "paper"}
    usual = scores("figure3", **where)
    at_5 = scores("figure3", overrides={"coupling__n_references": 5}, **where)
    mean, std = number(np.mean(at_5)), number(np.std(at_5, ddof=1))
    assert f"| references K | 5 | {mean} ± {std} |" in text
    assert f"| references K | 3 | {number(np.mean(usual))} ±" in text


def test_the_pictures_have_a_panel_per_parameter(results):
    part = sweeps_part(results, "figure4")
    figure = part.pictures["figure4-paper.svg"]()
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [
        "α (coupling__orthogonality_weight): HOT (11)",
        "τ (view_regularizer__weight): HOT (11) + AE",
        "γ (coupling__weight): HOT (11)",
    ]
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 3


def test_missing_trials_of_a_point_are_told(summaries, read):
    cells, small = summaries["figure3"]["cells"], {"batch_size": 50}
    entries = [entry for entry in cells if entry["cell"].get("overrides") == small]
    assert entries
    for entry in entries:
        entry["scores"]["test"][1] = None
        entry["missing"] = 1
    assert "| 50 (1 trial missing) |" in sweeps_part(read(summaries), "figure3").text
