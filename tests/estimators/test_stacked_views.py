import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, get_tags

from hotview import MultiViewClassifier, MultiViewEncoder, StackedViews
from hotview.estimators.stacked_views import resolve_views
from tests.estimators import small_fits

# Small networks of widths that are multiples of 4: then torch computes a row in the same way
# wherever it stands, as some checks ask to seven digits.
SMALL = {**small_fits.SMALL, "n_components": 4, "max_epochs": 5}
CLASSIFIER = MultiViewClassifier(**SMALL, learning_rate=0.1, unlabeled_marker=None, impute="mean")
ENCODER = MultiViewEncoder(**{**SMALL, "max_epochs": 2}, impute="mean")
VIEWS = {"a": slice(0, 1), "b": slice(1, None)}
BOTH = [StackedViews(CLASSIFIER, VIEWS), StackedViews(ENCODER, VIEWS)]

#: Checks that scikit-learn has, but runs on its own estimators only.
FURTHER_CHECKS = (
    "check_dataframe_column_names_consistency",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_inplace_ensure_writeable",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
)

# Networks this small on data this simple do collapse; some checks have constant or perfect columns.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The latents of .* have collapsed:UserWarning",
    "ignore:Columns with a single value:UserWarning",
    "ignore:Columns alone tell the class:UserWarning",
)


def make_stacked():
    """Two views of three and four columns side by side, whose classes are blobs in both."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(60) % 2)
    return 2.0 - 4.0 * y[:, None] + rng.normal(size=(60, 7)), y


SLICES = {"first": slice(0, 3), "second": slice(3, None)}


def split(X):
    return {name: X[:, columns] for name, columns in SLICES.items()}


def small(kind=MultiViewClassifier, **parameters):
    return kind(**{**SMALL, "learning_rate": 0.03, **parameters})


def stacked(kind=MultiViewClassifier, **parameters):
    return StackedViews(small(kind, **parameters), SLICES)


@estimator_checks.parametrize_with_checks(BOTH)
def test_scikit_learns_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # or one would be skipped
    check(estimator)


# They fit frames and transform arrays, of which scikit-learn warns.
@pytest.mark.filterwarnings("ignore:X (has|does not have) .*feature names:UserWarning")
@pytest.mark.parametrize("name", FURTHER_CHECKS)
def test_checks_that_scikit_learn_makes_of_its_own(name):
    getattr(estimator_checks, name)("StackedViews", StackedViews(ENCODER, VIEWS))


@pytest.mark.parametrize(
    ("name", "wrapped", "message"),
    (
        ("check_estimators_pickle", small(impute=None), "NaN in 8 entries.*impute='mean'"),
        ("check_classifiers_classes", small(), "only -1 and 1.*unlabeled_marker=None"),
    ),
)
def test_checks_that_the_usual_settings_refuse_as_the_docs_say(name, wrapped, message):
    with pytest.raises(ValueError, match=message):
        getattr(estimator_checks, name)("StackedViews", StackedViews(wrapped, VIEWS))


def test_the_columns_are_the_views():
    X, y = make_stacked()
    wrapped, plain = small().set_output(transform="pandas"), small().fit(split(X), y)
    before = dict(vars(wrapped))
    model = StackedViews(wrapped, SLICES).fit(X, y)  # which changes nothing of what it wraps
    assert vars(wrapped) == before
    assert (model.estimator is wrapped, model.estimator_ is wrapped) == (True, False)
    assert isinstance(model.transform(X), np.ndarray)
    for method in ("predict", "predict_proba", "predict_log_proba"):
        found, expected = getattr(model, method)(X), getattr(plain, method)(split(X))
        np.testing.assert_array_equal(found, expected)
    for weights in (None, np.arange(len(y))):
        assert model.score(X, y, weights) == plain.score(split(X), y, weights)
    Z = plain.transform(split(X))
    np.testing.assert_array_equal(model.transform(X), np.hstack([Z["first"], Z["second"]]))
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert [c.tolist() for c in model.view_columns_.values()] == [[0, 1, 2], [3, 4, 5, 6]]
    X = np.where(np.abs(X) < 1, 0.0, X)
    expected, model = stacked().fit(X, y).predict_proba(X), stacked().fit(sparse.coo_array(X), y)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_matrix(X)), expected, rtol=1e-5)


def make_blocks():
    """Complete rows, then rows of the second view alone, then rows of the first alone."""
    X, y = make_stacked()
    A, B = X[:, :3].copy(), X[:, 3:].copy()
    A[30:45] = B[45:] = np.nan
    return A, B, y


def test_rows_of_one_view_are_unaligned_rows_that_keep_their_labels():
    A, B, y = make_blocks()
    X = np.hstack([A, B])
    heads = {"pseudo_labels": False}  # neighbors predict these rows from few labels already
    model, plain = stacked(**heads).fit(X, y), small(**heads)
    own = {"first": y[45:], "second": y[30:45]}
    others = {"first": A[45:], "second": B[30:45]}
    plain.fit({"first": A[:30], "second": B[:30]}, y[:30], unaligned=others, unaligned_y=own)
    expected = plain.predict_proba(split(X))
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-4)
    # The labels of the incomplete rows have been used: without them the model is another.
    hidden = np.where(np.arange(60) < 30, y, -1)
    other = stacked(**heads).fit(X, hidden).predict_proba(X)
    assert np.abs(other - expected).max() > 1e-3
    # Features of absent views are NaN.
    absent = np.repeat(np.isnan(X[:, [0, -1]]), 4, axis=1)
    np.testing.assert_array_equal(np.isnan(model.transform(X)), absent)
    nothing = np.full((1, 7), np.nan)
    with pytest.raises(ValueError, match=r"at least one of the views.*1 have none.*row 60"):
        model.predict(np.vstack([X, nothing]))
    assert np.isnan(model.transform(nothing)).all()


@pytest.mark.parametrize("paired", (False, True))
def test_the_encoder_learns_from_rows_of_one_view(paired):
    A, B, _ = make_blocks()
    model = stacked(MultiViewEncoder, alignment_weight=0.0).fit(np.hstack([A, B]))
    if not paired:
        A, B = np.delete(A, range(30, 45), 0), B[:45]
    plain = small(MultiViewEncoder, alignment_weight=0.0)
    plain.fit({"first": A, "second": B}, paired=paired)
    X, _ = make_stacked()
    Z = plain.transform(split(X))
    np.testing.assert_array_equal(model.transform(X), np.hstack([Z["first"], Z["second"]]))


def test_pipeline():
    X, y = make_stacked()
    model = make_pipeline(StandardScaler(), stacked(MultiViewEncoder), LogisticRegression())
    assert model.fit(X, y).score(X, y) > 0.8
    words = np.array(["no", "yes"], dtype=object)[y]
    words[50:] = None  # rows without a label
    last = make_pipeline(StandardScaler(), stacked(max_epochs=40)).fit(X, words)
    assert last.score(X[50:], np.array(["no", "yes"])[y[50:]]) > 0.8
    assert last.classes_.tolist() == ["no", "yes"]


def test_grid_search_over_nested_parameters_and_calibration():
    X, y = make_stacked()
    grid = {"estimator__max_epochs": [1, 20]}
    model = stacked(learning_rate=0.01, pseudo_labels=False)
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert search.best_estimator_.estimator_.max_epochs == 20
    assert search.best_score_ > 0.8
    calibrated = CalibratedClassifierCV(stacked(max_epochs=10), cv=2).fit(X, y)
    assert calibrated.score(X, y) > 0.8


def test_methods_and_tags_are_those_of_the_wrapped_estimator():
    methods = ("predict", "predict_proba", "predict_log_proba", "score")
    assert is_classifier(StackedViews())  # None is the default classifier
    assert all(hasattr(StackedViews(), name) for name in methods)
    assert not any(hasattr(stacked(MultiViewEncoder), name) for name in (*methods, "classes_"))
    for model, is_one in ((stacked(), True), (stacked(MultiViewEncoder), False)):
        assert hasattr(model, "fit_transform")
        tags = get_tags(model)
        assert tags.estimator_type == ("classifier" if is_one else None)
        assert (tags.classifier_tags is not None) == tags.target_tags.required == is_one
        assert tags.transformer_tags.preserves_dtype == []
        assert tags.input_tags.allow_nan
        assert tags.input_tags.sparse


def test_columns_by_name():
    X, y = make_stacked()
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "g1", "g2", "g3", "g4"])
    views = {"second": ["g1", "g2", "g3", "g4"], "first": ["bmi", "age"]}
    model = StackedViews(small(), views).fit(frame, y)
    names = [f"{view}_{j}" for view in views for j in range(4)]
    assert model.get_feature_names_out().tolist() == names
    assert model.view_columns_["first"].tolist() == [2, 0]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    arrays = {"second": X[:, 3:], "first": X[:, [2, 0]]}
    expected = small().fit(arrays, y).predict_proba(arrays)
    np.testing.assert_array_equal(model.predict_proba(frame), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    (
        ({"estimator": LogisticRegression()}, TypeError, "MultiViewClassifier or a MultiView"),
        ({"estimator": MultiViewClassifier}, TypeError, "Pass an instance"),
        ({"view_slices": {"a": ["age"], "b": ["sex"]}}, ValueError, "and no names.*column 'age'"),
        ({"view_slices": {0: [0], 1: [1]}}, TypeError, "name to be a non-empty string"),
        ({"view_slices": {"a": slice(0, 5)}}, ValueError, "at least 2 views, but got 1"),
        ({"view_slices": {}}, ValueError, "at least 2 views, but the collection is empty"),
    ),
)
def test_what_cannot_be_fitted_is_refused(change, error, message):
    X, y = make_stacked()
    with pytest.raises(error, match=message):
        StackedViews(**{"estimator": small(), "view_slices": SLICES, **change}).fit(X, y)
    for value, text in ((np.inf, "infinity"), (np.nan, "'first' to hold finite numbers")):
        X[5, 1] = value
        with pytest.raises(ValueError, match=text):
            stacked().fit(X, y)


NAMES = np.array(["age", "sex", "bmi", "gene_1", "gene_2"], dtype=object)


@pytest.mark.parametrize(
    ("slices", "expected"),
    (
        ({"a": slice(0, 2), "b": slice(2, None)}, {"a": [0, 1], "b": [2, 3, 4]}),
        ({"a": slice(None, -2), "b": slice(-2, 5)}, {"a": [0, 1, 2], "b": [3, 4]}),
        ({"a": slice(0, 5, 2), "b": slice(1, 5, 2)}, {"a": [0, 2, 4], "b": [1, 3]}),
        ([[4, 0], [1]], {"view_0": [4, 0], "view_1": [1]}),  # two columns are in no view
        ((np.array([0, 1]), range(2, 4)), {"view_0": [0, 1], "view_1": [2, 3]}),
        ({"a": [-1], "b": [0]}, {"a": [4], "b": [0]}),
        ({"a": ["bmi", "age"], "b": slice(3, None)}, {"a": [2, 0], "b": [3, 4]}),
        ({"a": NAMES[:2], "b": tuple(NAMES[3:])}, {"a": [0, 1], "b": [3, 4]}),
    ),
)
def test_columns_are_found_by_slice_number_and_name(slices, expected):
    found = resolve_views(slices, 5, NAMES)
    assert {view: columns.tolist() for view, columns in found.items()} == expected


@pytest.mark.parametrize(
    ("slices", "message"),
    (
        (None, "view_slices to be a dict or list.*it is None.*slice"),
        ({"a": slice(0, 3), "b": [4, 2]}, "column 2 is in 'a' and again in 'b'"),
        ({"a": [0], "b": [5]}, r"\['b'\] to be a slice.*n_features = 5.*X has no column 5"),
        ({"a": slice(0, 2), "b": slice(7, None)}, "X has no column 7"),
        ({"a": slice(0, 5), "b": slice(5, None)}, "'b' to have at least one.*n_features = 5"),
        ({"a": ["age", "size"], "b": ["sex"]}, "the names .'age' 'sex' 'bmi'.*no column 'size'"),
        ({"a": [3.0], "b": [1]}, r"\['a'\] to be a slice.*list of numbers.*\[3.0\]"),
        ({"a": "age", "b": [1]}, "it is 'age'. Count columns from 0, or list their names in"),
        ({"a": slice("age", "sex"), "b": [4]}, "slice of column numbers, or.*no column 'age'"),
    ),
)
def test_what_makes_no_views_is_refused(slices, message):
    with pytest.raises(ValueError, match=message):
        resolve_views(slices, 5, NAMES)
