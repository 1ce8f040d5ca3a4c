import math
from dataclasses import replace

import pytest

from hotview.evaluation.record import Record, make_record
from hotview.evaluation.record.schema import BaselineScore, Curve, Learning


def test_a_record_survives_json(classifier, encoder, test):
    record = make_record(classifier, *test, umap=False)
    assert Record.from_json(record.to_json()) == record
    curve = Curve("loss", [math.inf, -math.inf, 1.0], [math.nan, math.nan, 0.5])
    learning = Learning(1, 3, [1, 2, 3], [curve], [])
    rival = BaselineScore("x", None, None, "no rows")
    record = replace(make_record(encoder), learning=learning, baselines=[rival])
    again = Record.from_json(replace(record, metadata={"text": "nan"}).to_json())
    (found,) = again.learning.terms
    assert found.mean == curve.mean
    assert math.isnan(found.std[0])
    assert again.metadata == {"text": "nan"}
    assert again.baselines == [rival]


def test_what_is_no_record_is_refused(encoder):
    with pytest.raises(ValueError, match="format 3, but it is something else"):
        Record.from_json("[1]")
    text = make_record(encoder).to_json()
    with pytest.raises(ValueError, match="fields do not match the schema"):
        Record.from_json(text.replace('"seen": false', '"seen": "no"'))
    with pytest.raises(ValueError, match="fields do not match the schema"):
        Record.from_json(text.replace('"coupling"', '"cuopling"'))
