"""Every part of a model file, changed in turn: it is refused, or what it predicts is proper."""

import copy
import warnings

import numpy as np
import pytest
import torch

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.cli.inspect import _lines, describe_model, result_lines
from hotview.datasets import make_views
from hotview.persistence.models import _MODEL, _widen, load_model, save_model
from hotview.training import table_scan

DATA = make_views(40, n_views=2, n_columns=5, labeled=0.5, random_state=0)
VIEWS, LINKED = list(DATA.views.values()), list(DATA.linked.values())
SMALL = {"hidden": (4,), "encoder_dim": 3, "n_components": 2, "max_epochs": 1, "random_state": 0}
VALUES = (None, True, -1, 0, 3, 10**30, -0.5, 1e300, float("nan"), float("inf"), "x", [], {})
STEP = {"classifier": 31, "heads": 23, "encoder": 23, "reduced": 17}  # every n-th change, for time


def changed_facts(value):
    """A part of the facts in all changed forms."""
    if isinstance(value, dict):
        yield {}
        yield {**value, "more": 1}
        for key, item in value.items():
            yield {k: x for k, x in value.items() if k != key}
            yield from ({**value, key: other} for other in changed_facts(item))
    elif isinstance(value, list):
        yield from ([], [*value, *value[:1]], value[:-1], value[::-1], [*value, None], "x")
        for i, item in enumerate(value):
            yield from ([*value[:i], other, *value[i + 1 :]] for other in changed_facts(item))
    else:
        yield from (other for other in VALUES if repr(other) != repr(value))


def changed_tensors(tensors):
    """All tensors, one of which is changed or missing."""
    for name, x in tensors.items():
        yield {k: tensor for k, tensor in tensors.items() if k != name}
        others = [
            x[None],
            x[..., :-1],
            x.flatten(),
            x.double(),
            x.float(),
            x.long(),
            x.bool(),
            ~x.bool(),
        ]
        for factor in (1e30, 1e38, -1.0, 1e-30, 1e-300, 0.0, torch.nan, torch.inf):
            others.append(x * factor if x.is_floating_point() else x.double() * factor)
        for other in others:
            if (other.dtype, other.shape) != (x.dtype, x.shape) or not torch.equal(other, x):
                yield {**tensors, name: other.contiguous()}


def all_changes(archive):
    facts = {k: x for k, x in archive.metadata.items() if k not in ("format", "version")}
    for other in changed_facts(facts):
        yield archive.tensors, other
    # In float32, which holds larger numbers than the float16 of a file.
    for tensors in changed_tensors({k: _widen(x) for k, x in archive.tensors.items()}):
        yield tensors, facts


def check_outputs(model):
    """Raise an error unless all outputs are finite, and probabilities add up to 1."""
    for space in ("features", "common"):
        for dtype in (np.float32, np.float64):
            for Z in model.transform([X.astype(dtype) for X in VIEWS], space=space):
                assert np.isfinite(Z).all()
    if hasattr(model, "classes_"):
        for views in (LINKED, [None, LINKED[1]]):
            P = model.predict_proba(views)
            assert (P >= 0).all()
            np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-9)
            assert set(model.predict(views)) <= set(model.classes_)
    assert [*_lines(describe_model(model)), *result_lines(model)]


def load_or_refuse(path, tensors, facts):
    """Whether a changed model was loaded; the error that refuses it names the file."""
    write_archive(path, _MODEL, tensors, copy.deepcopy(facts))
    try:
        model = load_model(path, device="cpu")
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        return False
    try:
        check_outputs(model)
    except ValueError as error:  # a scaler of other data
        words = ("contains extreme values", "contains negative numbers")
        assert any(text in str(error) for text in words)  # noqa: PT017
    return True


def fit(kind):
    if kind == "reduced":
        counts = {
            name: np.random.default_rng(0).poisson(0.4, X.shape) for name, X in DATA.views.items()
        }
        return hv.MultiViewEncoder(**SMALL, device="cpu").fit(counts)
    if kind == "encoder":
        return hv.MultiViewEncoder(**SMALL, device="cpu").fit(DATA.views)
    own = (
        {"n_estimators": 2} if kind == "classifier" else {"pseudo_labels": False, "n_estimators": 1}
    )
    model = hv.MultiViewClassifier(**SMALL, **own, device="cpu")
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


@pytest.mark.filterwarnings("ignore:Rows of different views may not:UserWarning")
@pytest.mark.parametrize("kind", STEP)
def test_a_changed_model_is_refused_or_predicts_properly(tmp_path, kind, monkeypatch):
    if kind == "reduced":
        monkeypatch.setattr(table_scan, "WIDE", 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = read_archive(save_model(fit(kind), tmp_path / "m.hotview"), _MODEL)
    changes = list(all_changes(archive))
    assert len(changes) > 900
    loaded = [load_or_refuse(tmp_path / "c.hotview", *c) for c in changes[:: STEP[kind]]]
    assert 0 < sum(loaded) < 0.4 * len(loaded)
