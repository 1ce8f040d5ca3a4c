"""What both estimators promise: scikit-learn's contract, seeds, copies, and nothing changed."""

import copy
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn

import hotview as hv
from hotview import MultiViewClassifier, MultiViewEncoder
from tests.estimators.small_fits import BOTH, VIEWS, Y, fit, fitted, may_collapse, small


def bits(model):
    """Everything that a fit has learned, seconds left out."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in model.history_]
    weights = {k: v.numpy().tobytes() for k, v in model.network_.state_dict().items()}
    plan = model.plan_
    found = None if plan is None else [array.tobytes() for array in (plan.W, plan.C, plan.null.C)]
    references = None if model.references_ is None else model.references_.tobytes()
    return rows, weights, found, references


@BOTH
def test_the_constructor_stores_what_it_is_given_and_nothing_else(kind):
    parameters = inspect.signature(kind).parameters
    given = {name: object() for name in parameters}
    model = kind(**given)
    assert vars(model) == given
    assert model.get_params(deep=False) == given
    positional = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
    assert positional == ["coupling", "view_regularizer"]
    assert all(p.default is not p.empty for p in parameters.values())
    assert len(parameters) <= 32


@BOTH
def test_settings_are_set_in_a_specification_not_in_a_name(kind):
    model = kind(hv.HOTReferenceSpec(), hv.AutoencoderSpec())
    model.set_params(coupling__n_projections=7, view_regularizer__weight=0.3)
    assert model.coupling.n_projections == 7
    assert model.get_params()["view_regularizer__weight"] == 0.3
    message = r"it is the name 'hot-ref.*=hotview\.HOTReferenceSpec\(n_projections=...\)"
    with pytest.raises(ValueError, match=message):
        kind().set_params(coupling__n_projections=7)
    model.set_params(coupling=hv.LSCCASpec(), coupling__weight=0.5)
    assert model.coupling.weight == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'n_projections' for estimator LS"):
        model.set_params(coupling__n_projections=7)
    with pytest.raises(ValueError, match="Invalid parameter 'n_latent'"):
        model.set_params(n_latent=3)


@BOTH
def test_a_fit_returns_the_estimator_and_leaves_its_parameters(kind):
    model = small(kind)
    before = copy.deepcopy(model.get_params())
    assert fit(model) is model
    assert model.get_params() == before
    assert model.view_names_ == list(VIEWS)
    assert model.n_views_ == 3
    assert model.n_features_per_view_ == {"view_0": 5, "view_1": 6, "view_2": 4}
    assert len(model.history_) == 2
    assert model.batch_size_ == 15  # 30 rows are cut evenly
    assert model.plan_ is model.references_ is None
    assert not model.network_.training
    again = clone(model)
    with pytest.raises(NotFittedError):
        again.transform(VIEWS)
    assert bits(fit(again)) == bits(model)


@BOTH
def test_nothing_is_encoded_or_predicted_before_fit(kind):
    model = kind()
    calls = {"transform": (VIEWS,), "transform_view": (VIEWS["view_0"], "view_0")}
    calls["get_feature_names_out"] = ()
    predictions = ("predict", "predict_proba", "predict_log_proba", "predict_set")
    assert all(hasattr(model, name) == (kind is MultiViewClassifier) for name in predictions)
    if kind is MultiViewClassifier:
        calls |= {"score": (VIEWS, Y), **dict.fromkeys(predictions, (VIEWS,))}
    for name, arguments in calls.items():
        with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted"):
            getattr(model, name)(*arguments)


@pytest.mark.parametrize(
    ("kind", "coupling", "view_regularizer"),
    (
        (MultiViewEncoder, "sw-pairwise", "manifold"),
        (MultiViewClassifier, "hot-reference", "diffusion"),
    ),
)
def test_the_seed_decides_every_bit(kind, coupling, view_regularizer):
    model = small(kind, coupling=coupling, view_regularizer=view_regularizer, n_estimators=2)
    first, again = fit(clone(model)), fit(clone(model))
    other = fit(clone(model).set_params(random_state=1))
    assert bits(first) == bits(again)
    assert all(a != b for a, b in zip(bits(first)[:3], bits(other)[:3], strict=True))
    if kind is MultiViewClassifier:
        for views in (VIEWS, {"view_1": VIEWS["view_1"]}):
            P = first.predict_proba(views)
            np.testing.assert_array_equal(P, again.predict_proba(views))
            assert not np.array_equal(P, other.predict_proba(views))


def test_a_generator_is_moved_on_and_no_seed_is_fresh():
    make = np.random.RandomState
    generator = make(3)
    first, second = (bits(fit(small(MultiViewEncoder, random_state=generator))) for _ in range(2))
    assert first != second
    assert bits(fit(small(MultiViewEncoder, random_state=make(3)))) == first
    fresh = (bits(fit(small(MultiViewEncoder, random_state=None))) for _ in range(2))
    assert next(fresh) != next(fresh)


def test_refitting_on_other_views_starts_anew():
    model = fit(small(MultiViewClassifier, coupling="sw-pairwise").set_output(transform="pandas"))
    others = {"p": VIEWS["view_1"], "q": VIEWS["view_2"]}
    labels = np.array(["no", "yes"])[Y % 2]
    model.fit(others, labels)
    assert model.view_names_ == ["p", "q"]
    assert model.n_features_per_view_ == {"p": 6, "q": 4}
    assert model.transform(others)["q"].shape == (30, 4)
    with pytest.raises(ValueError, match=r"among \['p', 'q'\].*'view_0'"):
        model.transform(VIEWS)
    assert set(model.predict(others)) <= {"no", "yes"}
    fresh = small(MultiViewClassifier, coupling="sw-pairwise")
    assert bits(fit(fresh, others, labels)) == bits(model)


def global_state():
    of_numpy = str(np.random.get_state())  # noqa: NPY002
    return torch.get_rng_state().tolist(), of_numpy, torch.get_num_threads()


@may_collapse
def test_fits_in_three_threads_are_those_of_one_and_leave_global_generators_alone():
    own = {"view_0": nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5))}
    models = [
        small(MultiViewEncoder, encoders=own, random_state=0),
        small(MultiViewEncoder, random_state=1),
        small(MultiViewEncoder, encoders=own, random_state=2),
        small(MultiViewClassifier, encoders=own),
    ]
    np.random.seed(1)  # noqa: NPY002
    before, start = global_state(), Barrier(3)
    serial = [bits(fit(clone(model))) for model in models]
    assert serial[0] != serial[2]
    fit(clone(models[0]).set_params(random_state=None)).transform(VIEWS)
    assert global_state() == before
    torch.manual_seed(77)
    before = global_state()

    def fit_at_once(model):
        model = clone(model)
        start.wait()
        return bits(fit(model))

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(fit_at_once, models[:3])) == serial[:3]
    assert bits(fit(clone(models[3]))) == serial[3]
    assert global_state() == before


def test_a_fit_without_code_of_the_users_does_not_wait_for_one_with():
    found = []

    class Waits(nn.Linear):
        def forward(self, X):
            if self.training and not found:
                found.append(threads.submit(fit, small(MultiViewEncoder)).result(timeout=120))
            return super().forward(X)

    with ThreadPoolExecutor(1) as threads:
        fit(small(MultiViewEncoder, encoders={"view_0": Waits(5, 4)}))
    assert bits(found[0]) == bits(fitted(MultiViewEncoder))


@BOTH
def test_copies_of_a_fitted_model_predict_the_same(kind):
    model = fit(small(kind, coupling="hot-reference").set_output(transform="pandas"))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert bits(twin) == bits(model)
        for name, Z in model.transform(VIEWS).items():
            pd.testing.assert_frame_equal(twin.transform(VIEWS)[name], Z)
        if kind is MultiViewClassifier:
            for views in (VIEWS, {"view_1": VIEWS["view_1"]}):
                P = model.predict_proba(views)
                np.testing.assert_array_equal(twin.predict_proba(views), P)


@BOTH
def test_what_the_caller_passes_is_not_changed(kind):
    views = {name: X.copy() for name, X in VIEWS.items()}
    views["view_0"][3] = np.nan
    views["view_1"][5, 2] = np.nan
    unaligned = {name: X[:9].copy() for name, X in VIEWS.items()}
    y = [None if i % 3 else str(label) for i, label in enumerate(Y)]
    unaligned_y = {"view_1": Y[:9].astype(str).tolist()}
    hidden = {name: [8] for name in views}
    callbacks = [lambda epoch: None]
    before = copy.deepcopy((views, unaligned, y, unaligned_y, hidden))
    kept = dict(views)
    model = small(kind, impute="mean", hidden=hidden, callbacks=callbacks)
    model.set_params(view_regularizer="diffusion")
    if kind is MultiViewClassifier:
        model.fit(views, y, unaligned=unaligned, unaligned_y=unaligned_y, validation=(views, y))
        model.predict(views)
    else:
        model.fit(views)
    model.transform(views)
    assert all(X is kept[name] for name, X in views.items())
    np.testing.assert_equal((views, unaligned, y, unaligned_y, hidden), before)
    assert len(callbacks) == 1
