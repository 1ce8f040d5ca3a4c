import json
import re
from dataclasses import replace

import numpy as np
import pytest

from hotview.evaluation.record.schema import Layout
from hotview.report.page.embedding import space_chart


def facts(found):
    text = re.search(r'<script type="application/json" id="points">(.*?)</script>', found)[1]
    return json.loads(text)


def test_the_script_gets_every_point(record):
    found = space_chart(record.space, record.views, record.classes)
    told = facts(found)
    n = len(record.space.views)
    assert found.count(" data-i=") == n
    assert told["view"] == record.space.views
    assert told["ids"] == record.space.ids
    assert np.shape(told["layouts"]) == (2, n, 2)


def test_shapes_are_kept_and_inside_the_drawing(record):
    told = facts(space_chart(record.space, record.views, record.classes))
    for layout, places in zip(record.space.layouts, told["layouts"], strict=True):
        here, there = np.array(layout.places), np.array(places) * [1, -1]
        unit = np.ptp(there, axis=0) / np.ptp(here, axis=0)
        assert unit[0] == pytest.approx(unit[1], rel=1e-2)
        assert np.all((np.array(places) >= 0) & (np.array(places) <= [720, 500]))


def test_text_cannot_leave_its_element(record):
    evil = "</script><script>alert(1)</script>&<!--"
    space = replace(record.space, ids=[evil] * len(record.space.ids))
    found = space_chart(space, [evil] * 4, [evil] * 3)
    assert found.count("<script") == 1
    assert facts(found)["ids"][0] == evil
    assert facts(found)["views"][0] == evil


def test_only_what_can_be_switched_is_offered(record):
    n = len(record.space.views)
    bare = replace(
        record.space, truth=[-1] * n, predicted=[-1] * n, layouts=record.space.layouts[:1]
    )
    found = space_chart(bare, record.views, [])
    assert 'value="class"' not in found
    assert 'name="layout"' not in found
    assert 'legend" aria' not in found
    assert found.count('type="checkbox"') == 4


def test_points_that_coincide(record):
    n = len(record.space.views)
    space = replace(record.space, layouts=[Layout("PCA", ["a", "b"], [[0.0, 0.0]] * n)])
    assert np.unique(
        facts(space_chart(space, record.views, record.classes))["layouts"]
    ).tolist() == [
        250.0,
        360.0,
    ]


def test_many_classes_are_cut_in_the_legend(make_one):
    record = make_one(classes=[f"class {k}" for k in range(60)], n=130)
    found = space_chart(record.space, record.views, record.classes)
    assert "<li>and 20 more</li>" in found
