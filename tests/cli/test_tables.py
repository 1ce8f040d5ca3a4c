from dataclasses import replace

import numpy as np
import pytest

from hotview.cli.models import open_model
from hotview.cli.tables import feature_columns, prediction_columns


def test_predictions_are_the_models(model, new_files):
    opened = open_model(model)
    people = opened.read_people([str(f) for f in new_files], {}).people
    columns = prediction_columns(opened, people)
    P = opened.estimator.predict_proba(people.views)
    assert list(columns)[:3] == ["id", "predicted", "probability"]
    np.testing.assert_array_equal(columns["probability_odd"], P[:, 1])
    np.testing.assert_array_equal(
        columns["disagreement"], opened.estimator.predict_disagreement(people.views)
    )


def test_rows_are_judged_once_and_counted(model, new_files, monkeypatch):
    opened = open_model(model)
    people = opened.read_people([str(f) for f in new_files], {}).people
    reads, told = [], []
    once = opened.estimator._rows
    monkeypatch.setattr(opened.estimator, "_rows", lambda t: reads.append(1) or once(t))
    prediction_columns(opened, people, told.append)
    assert len(reads) == 1
    assert sum(told) == len(people.ids)


def test_features_are_the_models(model, new_files):
    opened = open_model(model)
    [scan] = opened.read_rows([str(new_files[1])], {}).values()
    columns = feature_columns(opened, "scan", scan, "features")
    assert columns["id"] == scan.ids
    Z = opened.estimator.transform_view(scan.X, "scan")
    np.testing.assert_array_equal(columns["scan_0"], Z[:, 0])
    assert len(columns) == 1 + Z.shape[1]


def test_ids_do_not_give_way_to_results(model, new_files):
    opened = open_model(model)
    people = opened.read_people([str(f) for f in new_files], {}).people
    opened = replace(opened, recipe=replace(opened.recipe, id_column="n_views"))
    with pytest.raises(ValueError, match="The column of ids is called 'n_views'"):
        prediction_columns(opened, people)
