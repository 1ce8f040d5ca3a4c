"""Plots take a model, and rows where they need them, and make their own axes."""

from dataclasses import replace

import numpy as np
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from hotview.report import figures
from hotview.report.model_record import as_record, new_axes

DATA = make_views(60, n_views=4, n_columns=4, n_groups=1, labeled=1.0, random_state=0)
MODEL_ALONE = ("plot_plan", "plot_similarity", "plot_graph", "plot_learning")
WITH_ROWS = (
    "plot_space",
    "plot_importance",
    "plot_column_importance",
    "plot_number_of_views",
    "plot_confusion",
    "plot_calibration",
)


@pytest.fixture(scope="module")
def model():
    classifier = MultiViewClassifier(max_epochs=2, n_estimators=2, hidden=(4,), random_state=0)
    return classifier.fit(DATA.linked, DATA.linked_target)


@pytest.fixture(autouse=True)
def close():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.mark.parametrize("name", MODEL_ALONE)
def test_a_model_is_drawn_on_new_axes_and_on_given_ones(model, name):
    import matplotlib.pyplot as plt

    draw = getattr(figures, name)
    ax = draw(model)
    assert ax is plt.gca()
    given = figures.new_figure()[1][0]
    assert draw(model, ax=given) is given
    assert given.has_data()
    assert len(plt.get_fignums()) == 1  # none for the given axes


@pytest.mark.parametrize("name", WITH_ROWS)
def test_rows_stand_beside_the_model(model, name):
    draw = getattr(figures, name)
    assert draw(model, DATA.linked, DATA.linked_target).has_data()
    with pytest.raises(ValueError, match=r"beside the model|a classifier and labeled rows"):
        draw(model)


def test_what_cannot_be_drawn_leaves_no_empty_figure(record):
    import matplotlib.pyplot as plt

    parts = ("plan", "similarity", "scores", "embedding", "learning", "importance")
    bare = replace(record, **dict.fromkeys(parts))
    for name in (*MODEL_ALONE, *WITH_ROWS):
        with pytest.raises(ValueError, match="Expected"):
            getattr(figures, name)(bare)
    assert plt.get_fignums() == []


def test_all_plots_of_models_are_tested():
    plots = {name for name in figures.__all__ if name.startswith("plot_")}
    assert plots == {*MODEL_ALONE, *WITH_ROWS, "plot_matrix"}


def test_numbers_are_those_of_the_model(model):
    ax = figures.plot_plan(model)
    np.testing.assert_allclose(ax.images[0].get_array(), model.plan_.W)


def test_a_record_is_taken_as_it_is(record):
    assert as_record(record) is record
    with pytest.raises(ValueError, match="they are beside a record"):
        as_record(record, DATA.linked)
    with pytest.raises(TypeError, match="but got a dict"):
        as_record({})


def test_an_encoder_is_drawn_too():
    encoder = MultiViewEncoder(max_epochs=1, hidden=(4,), random_state=0).fit(DATA.linked)
    assert as_record(encoder).kind == "MultiViewEncoder"
    assert len(figures.plot_space(encoder, DATA.linked).collections) == 4


def test_a_matrix_makes_its_axes():
    assert figures.plot_matrix(np.eye(2), ["a", "b"], ["a", "b"]).images


def test_new_axes_have_the_given_height():
    assert new_axes(height=7.0).figure.get_size_inches()[1] == 7.0
