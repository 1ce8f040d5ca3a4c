from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import hotview
from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.evaluation import permutation_importance
from hotview.evaluation.record import describe_settings, describe_views, make_record
from hotview.report.view_data import effective_ranks, learning_curves
from hotview.similarity.sentences import describe_common_space, describe_similarity
from hotview.training.trainer import History

PLAIN = {"umap": False, "importance": False}


def test_a_model_alone(classifier):
    record = make_record(classifier)
    assert (record.kind, record.views) == ("MultiViewClassifier", classifier.view_names_)
    assert record.classes == [str(c) for c in classifier.classes_]
    assert record.rows == {}
    assert record.scores is record.embedding is record.baselines is None


def test_rows_with_labels(classifier, test, tmp_path):
    X, y = test
    before = {name: view.copy() for name, view in X.items()}
    record = make_record(classifier, X, y, ids=[f"id {i}" for i in range(80)], **PLAIN)
    assert record.scores.accuracy.value == classifier.score(X, y)
    assert (record.n_labeled, set(record.rows.values())) == (80, {80})
    space = record.embedding
    assert space.ids[space.individuals[5]] == "id 5"
    predicted = np.searchsorted(classifier.classes_, classifier.predict(X))
    assert space.predicted[:80] == predicted.tolist()
    assert not record.seen
    np.testing.assert_equal(X, before)
    # The common space is that of the first ensemble member.
    Z = np.vstack([Z[:, :10] for Z in classifier.transform(X, space="common").values()])
    spread = np.array(space.layouts[0].points).var(axis=0)
    largest = np.linalg.eigvalsh(np.cov(Z.T, bias=True))[::-1][:2]
    np.testing.assert_allclose(spread, largest, rtol=1e-2)
    loaded = hotview.load(classifier.save(tmp_path / "model.hotview"))
    again = make_record(loaded, X, y, **PLAIN)
    assert again.scores == record.scores
    listed = make_record(classifier, [*list(X.values())[:3], None], y, **PLAIN)
    assert list(listed.rows) == classifier.view_names_[:3]
    some = {name: X[name] for name in listed.rows}
    assert listed.scores.accuracy.value == classifier.score(some, y)


def test_labels_and_rows_may_be_missing_or_of_classes_that_were_never_seen(classifier, test):
    X, y = test
    last = np.arange(80)[:, None] == 79
    holes = {name: np.where(last, np.nan, view) for name, view in X.items()}
    some = np.where(np.arange(80) < 5, 99, np.where(np.arange(80) < 30, y, -1))
    record = make_record(classifier, holes, some, **PLAIN)
    assert set(record.rows.values()) == {79}
    assert record.scores.accuracy.n == record.n_labeled == 30
    assert sum(record.scores.confusion[-1]) == 5
    assert record.embedding.truth[0] == len(record.classes)
    assert record.embedding.truth[78] == -1
    none = make_record(classifier, X, np.full(80, np.nan), **PLAIN)
    assert (none.scores, none.n_labeled) == (None, 0)


def test_an_encoders_rows(encoder, train):
    views = {name: X[: 80 - 10 * s] for s, (name, X) in enumerate(train[0].items())}
    record = make_record(encoder, views, umap=False)
    assert record.rows == {name: len(X) for name, X in views.items()}
    assert not record.embedding.linked
    labels = {name: ["a", None] * (len(X) // 2) for name, X in views.items()}
    ids = {name: np.arange(len(X)) for name, X in views.items()}
    record = make_record(encoder, views, labels, ids=ids, umap=False)
    assert record.embedding.linked
    assert (record.classes, record.n_labeled) == (["a"], 130)
    assert max(record.embedding.individuals) == 79
    assert record.embedding.truth[:2] == [0, -1]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    (
        ("classifier", {"views": None}, "Expected views beside y"),
        ("encoder", {"training": {"Xs": None}}, "an encoder predicts nothing"),
        ("classifier", {"y": None, "training": {"Xs": None}}, "Expected y beside training"),
        ("classifier", {"y": None, "ids": [1, 2]}, "ids to hold one entry for each of the 80"),
        ("encoder", {"y": [1, 2]}, "rows of view 'view_0'"),
        ("classifier", {"views": {"view_0": np.ones((5, 20))}}, "Expected aligned views"),
    ),
)
def test_what_does_not_fit_is_refused(kind, change, message, test, request):
    arguments = dict(zip(("views", "y"), test, strict=True)) | change
    if "view_0" in (arguments["views"] or ()):
        arguments["views"] = test[0] | arguments["views"]
    with pytest.raises(ValueError, match=message):
        make_record(request.getfixturevalue(kind), **arguments, umap=False)


def test_training_rows_add_baselines_and_nothing_is_printed(classifier, test, train, capsys):
    training = {"Xs": train[0], "y": train[1]}
    record = make_record(classifier, *test, training=training, **PLAIN, verbose=True)
    assert len(record.baselines) == 5
    alone = make_record(classifier, *test, **PLAIN, verbose=False)
    assert alone.baselines == record.baselines[:1]
    assert capsys.readouterr().out == ""


def test_frames_with_text():
    random, y = np.random.default_rng(0), np.arange(60) % 2
    sex = np.where(random.random(60) < 0.1, "F", np.where(y > 0, "F", "M"))
    people = pd.DataFrame({"sex": sex, "age": random.normal(size=60)})
    views = {"people": people, "scan": random.normal(size=(60, 3))}
    model = hotview.MultiViewClassifier("none", max_epochs=1, n_estimators=1, random_state=0)
    training = {"Xs": views, "y": y}
    model.fit(**training)
    other = {**views, "people": people[["age", "sex"]]}
    ours, theirs = (make_record(model, X, y, training=training, **PLAIN) for X in (views, other))
    assert theirs.scores == ours.scores
    assert [b.accuracy for b in theirs.baselines] == [b.accuracy for b in ours.baselines]
    assert all(baseline.accuracy is not None for baseline in ours.baselines)


def test_importance_is_that_of_the_permutations_unless_not_wanted(classifier, test):
    found = make_record(classifier, *test, umap=False).importance
    expected = permutation_importance(classifier, *test, n_repeats=3, max_columns=20, max_rows=300)
    assert found.views.views == expected.views.views
    np.testing.assert_allclose(found.views.loss_increase, expected.views.loss_increase)
    assert len(found.columns) > 1
    assert found.columns.columns == expected.columns.columns
    assert make_record(classifier, *test, **PLAIN).importance is None
    assert make_record(classifier, test[0], umap=False).importance is None


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
    uncoupled = MultiViewEncoder("none", max_epochs=2, random_state=0).fit(train[0])
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
