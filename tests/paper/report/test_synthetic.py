import numpy as np

from paper.report.synthetic import share_in_group, synthetic_part

GROUPS = [0, 0, 1, 1, 2, 2]
PAIRS = np.kron(np.eye(3), np.ones((2, 1))) / 6


def test_shares_of_views_in_their_group():
    assert share_in_group(PAIRS, GROUPS, pairwise=False) == 1
    assert share_in_group(PAIRS[[0, 2, 1, 3, 4, 5]], GROUPS, pairwise=False) == 1 / 3
    assert share_in_group(np.full((6, 3), 1 / 18), GROUPS, pairwise=False) == 0


def test_groups_found_are_counted(summaries, read):
    for entry in summaries["synthetic"]["cells"]:
        if entry["cell"]["method"] == "HOT (11)" and entry["cell"].get("overrides"):
            entry["Ws"] = [PAIRS.tolist()] * 4 + [PAIRS[[0, 2, 1, 3, 4, 5]].tolist()]
    text = synthetic_part(read(summaries)).text
    how = "the paper's settings, n_components = 4, preprocessing = none"
    assert f"| HOT (11) | {how} | 87 % | 20 % | 4 of 5 trials |" in text


def test_both_tasks_have_their_table(results):
    text = synthetic_part(results).text
    assert "### Semi-supervised" in text
    assert "### Unsupervised" in text
    assert "6 views in 3 planted groups, 10 classes, 2000 rows" in text
