import numpy as np
import pytest
import torch

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.evaluation.record.model_summary import (
    describe_settings,
    describe_views,
    summarize_learning,
    summarize_plan,
    summarize_ranks,
    summarize_similarity,
)
from hotview.similarity.sentences import describe_common_space, describe_similarity
from hotview.training.trainer import History

SMALL = {"max_epochs": 2, "verbose": False, "random_state": 0}


class Recorded:
    """What `summarize_learning` looks at."""

    def __init__(self, *histories):
        self.histories_ = [History(rows) for rows in histories]
        self.view_names_ = ["a"]
        self.n_components = 7


def rows(values, name="loss"):
    return [{"epoch": i + 1, name: x, "seconds": 1.0} for i, x in enumerate(values)]


def test_the_plan_is_the_estimators(classifier):
    found, plan = summarize_plan(classifier), classifier.plan_
    np.testing.assert_allclose(found.W, plan.W)
    np.testing.assert_allclose(found.C, plan.C)
    np.testing.assert_allclose(found.std, plan.std)
    names = ["reference 1", "reference 2", "reference 3"]
    assert (found.pairwise, found.columns) == (False, names)
    assert found.null.p_value == plan.null.p_value
    np.testing.assert_allclose(found.null.costs, plan.null.plan.C)
    assert found.n_members == 2


def test_the_similarity_is_the_estimators(classifier):
    found, ours = summarize_similarity(classifier), classifier.view_similarity_
    for name in ("value", "low", "high", "p_value", "n_rows"):
        np.testing.assert_array_equal(getattr(found, name), getattr(ours, name))
    np.testing.assert_array_equal(found.within, ours.within_classes.value)
    groups = None if ours.groups is None else ours.groups.tolist()
    assert (found.groups, found.stability) == (groups, ours.stability)
    names, nearness = classifier.view_names_, classifier.common_space_
    sentences = [*describe_similarity(ours, names), describe_common_space(nearness, names)]
    assert describe_views(classifier) == sentences


def test_without_linked_rows_shapes_are_described_and_without_coupling_no_plan(encoder, train):
    assert summarize_similarity(encoder) is None
    first, second = describe_views(encoder)
    assert first.startswith("No rows are linked")
    assert second.startswith("In shape, ")
    uncoupled = MultiViewEncoder("none", **SMALL).fit(train[0])
    assert describe_views(uncoupled) == [first]
    assert summarize_plan(uncoupled) is None


def test_pairwise_plans_name_views(train):
    model = MultiViewEncoder("hot-pairwise", **SMALL).fit(train[0])
    found = summarize_plan(model)
    assert found.pairwise
    assert found.columns == model.view_names_
    assert found.std is None


def test_curves_are_means_over_replicas():
    model = Recorded(rows([1.0, 2.0, 3.0]), rows([3.0, 6.0]))
    found = summarize_learning(model)
    (curve,) = found.terms
    assert (found.n_estimators, found.n_epochs, found.epochs) == (2, 3, [1, 2, 3])
    assert curve.mean == [2.0, 4.0, 3.0]
    np.testing.assert_allclose(curve.std, [np.sqrt(2), np.sqrt(8), np.nan])


def test_long_trainings_are_thinned_but_keep_their_ends():
    found = summarize_learning(Recorded(rows(np.arange(1000.0))))
    assert (len(found.epochs), found.epochs[0], found.epochs[-1]) == (200, 1, 1000)
    assert found.terms[0].mean[-1] == 999.0
    assert found.n_epochs == 1000


def test_ranks_are_those_of_the_last_epoch():
    name = "effective_rank_a"
    (found,) = summarize_ranks(Recorded(rows([1.0, 2.0], name), rows([1.0, 4.0], name)))
    assert (found.view, found.mean, found.max_rank) == ("a", 3.0, 7)
    assert found.std == pytest.approx(np.sqrt(2))
    assert summarize_learning(Recorded([])) is None
    assert summarize_ranks(Recorded([])) == []


def test_changed_settings_come_first():
    found = describe_settings(MultiViewClassifier(hidden=(64,), n_components=np.int64(10)))
    assert (found[0].name, found[0].value, found[0].default) == ("hidden", "(64,)", "(128,)")
    assert not any(setting.changed for setting in found[1:])
    model = MultiViewClassifier(unlabeled_marker=None)
    assert "unlabeled_marker" in {s.name for s in describe_settings(model) if s.changed}
    model.metadata_ = {"preprocessing": {}}  # of the command line
    assert "unlabeled_marker" not in {s.name for s in describe_settings(model)}


def test_objects_are_described_without_addresses():
    model = MultiViewEncoder(encoders={"view_0": torch.nn.Linear(3, 20)}, callbacks=[print])
    told = {s.name: s.value for s in describe_settings(model)}
    assert told["encoders"] == "{'view_0': Linear}"
    assert told["callbacks"] == "(print)"
