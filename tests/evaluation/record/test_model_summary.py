from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.evaluation.record import describe_settings, describe_views
from hotview.report.view_data import effective_ranks, learning_curves
from hotview.similarity.sentences import describe_common_space, describe_similarity
from hotview.training.trainer import History

SMALL = {"max_epochs": 2, "verbose": False, "random_state": 0}


def recorded(*histories):
    """What `learning_curves` looks at."""
    histories = [History(rows) for rows in histories]
    return SimpleNamespace(histories_=histories, view_names_=["a"])


def rows(values, name="loss"):
    return [{"epoch": i + 1, name: x, "seconds": 1.0} for i, x in enumerate(values)]


def test_views_are_described_by_their_similarity_and_nearness(classifier):
    ours = classifier.view_similarity_
    names, nearness = classifier.view_names_, classifier.common_space_
    sentences = [*describe_similarity(ours, names), describe_common_space(nearness, names)]
    assert describe_views(classifier) == sentences


def test_without_linked_rows_shapes_are_described_and_without_coupling_no_plan(encoder, train):
    first, second = describe_views(encoder)
    assert first.startswith("No rows are linked")
    assert second.startswith("In shape, ")
    uncoupled = MultiViewEncoder("none", **SMALL).fit(train[0])
    assert describe_views(uncoupled) == [first]


def test_curves_are_means_over_replicas():
    model = recorded(rows([1.0, 2.0, 3.0]), rows([3.0, 6.0]))
    found = learning_curves(model)
    (curve,) = found.terms
    assert (found.n_epochs, found.epochs) == (3, [1, 2, 3])
    assert curve.mean.tolist() == [2.0, 4.0, 3.0]
    np.testing.assert_allclose(curve.std, [np.sqrt(2), np.sqrt(8), np.nan])
    # Long trainings are thinned, but keep their ends.
    found = learning_curves(recorded(rows(np.arange(1000.0))))
    assert (len(found.epochs), found.epochs[0], found.epochs[-1]) == (200, 1, 1000)
    assert (found.terms[0].mean[-1], found.n_epochs) == (999.0, 1000)


def test_ranks_are_those_of_the_last_epoch():
    name = "effective_rank_a"
    (found,) = effective_ranks(recorded(rows([1.0, 2.0], name), rows([1.0, 4.0], name)))
    assert (found.name, found.mean) == ("a", [3.0])
    assert found.std == pytest.approx(np.sqrt(2))
    assert learning_curves(recorded([])) is None
    assert effective_ranks(recorded([])) == []


def test_changed_settings_come_first():
    found = describe_settings(MultiViewClassifier(hidden=(64,), n_components=np.int64(10)))
    assert (found[0].name, found[0].value, found[0].default) == ("hidden", "(64,)", "(128,)")
    assert not any(setting.changed for setting in found[1:])
    model = MultiViewClassifier(unlabeled_marker=None)
    assert "unlabeled_marker" in {s.name for s in describe_settings(model) if s.changed}
    model.model_ = SimpleNamespace(metadata={"preprocessing": {}})  # of the command line
    assert "unlabeled_marker" not in {s.name for s in describe_settings(model)}
    # Objects are described without addresses.
    model = MultiViewEncoder(encoders={"view_0": torch.nn.Linear(3, 20)}, callbacks=[print])
    told = {s.name: s.value for s in describe_settings(model)}
    assert (told["encoders"], told["callbacks"]) == ("{'view_0': Linear}", "(print)")
