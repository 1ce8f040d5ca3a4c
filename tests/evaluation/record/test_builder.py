import numpy as np
import pandas as pd
import pytest

import hotview
from hotview.evaluation import permutation_importance
from hotview.evaluation.record import make_record

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
