import math

import pytest

from paper.report.claims.verdicts import (
    ADDS,
    HARMLESS,
    VERDICTS,
    Finding,
    is_the_papers,
)
from paper.statistics import Difference


def interval(low, high):
    return Difference((low + high) / 2, low, high, 20)


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    (
        (0.1, 3.0, True),
        (0.01, 0.2, True),  # little, but more than nothing
        (-1.0, 0.4, False),  # at best too little to matter
        (-3.0, -1.0, False),
        (-0.1, 0.6, None),
        (-math.inf, math.inf, None),
    ),
)
def test_adds(low, high, holds):
    assert ADDS.decide(interval(low, high)) is holds


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    (
        (0.1, 3.0, True),
        (-0.4, 0.4, True),
        (-0.4, -0.1, True),  # harm, but too little to matter
        (-2.0, -0.1, False),
        (-0.6, 0.1, None),
        (-math.inf, math.inf, None),
    ),
)
def test_harmless(low, high, holds):
    assert HARMLESS.decide(interval(low, high)) is holds


def test_verdicts():
    assert [Finding("", "", "", holds).verdict for holds in (True, False, None)] == [
        VERDICTS[0],
        VERDICTS[1],
        VERDICTS[3],
    ]
    assert [Finding("", "", "", holds, own=False).verdict for holds in (True, False, None)] == [
        VERDICTS[0],
        VERDICTS[2],
        VERDICTS[3],
    ]


@pytest.mark.parametrize(
    ("dataset", "label", "own"),
    (
        ("handwritten", "Handwritten", True),
        ("caltech7", "Caltech7", True),
        ("caltech7", "Caltech7 (re-extracted)", False),
        ("caltech20", "Caltech20 (not the published file)", False),
        ("msrc", "MSRC-v1", False),
        ("synthetic", "Synthetic", False),
    ),
)
def test_whose_data(dataset, label, own):
    assert is_the_papers(dataset, {"label": label}) is own
