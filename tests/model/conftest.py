"""Fitted models, their files, and a way to change a file, checksum included."""

import copy

import numpy as np
import pytest

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.datasets import make_views
from hotview.model import load_model, save_model
from hotview.model.files import _MODEL, _widen

DATA = make_views(60, n_views=3, labeled=0.5, random_state=0)
SMALL = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2, "random_state": 0}


@pytest.fixture(scope="session")
def fitted():
    """A classifier of two ensemble members, which have predictors; nobody may change it."""
    model = hv.MultiViewClassifier(**SMALL, n_estimators=2, device="cpu")
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


@pytest.fixture(scope="session")
def saved(fitted, tmp_path_factory):
    """The path of that classifier."""
    return save_model(fitted, tmp_path_factory.mktemp("model") / "m.hotview")


@pytest.fixture(scope="session")
def saved_imputing(tmp_path_factory):
    """The path of an encoder that marks missing cells of columns 2 and 5 of a view."""
    views = {name: X.copy() for name, X in DATA.views.items()}
    views["view_1"][3, 2] = views["view_1"][7, 5] = np.nan
    model = hv.MultiViewEncoder(**SMALL, impute={"view_1": "median+indicator"}, device="cpu")
    return save_model(model.fit(views), tmp_path_factory.mktemp("model") / "m.hotview")


@pytest.fixture(scope="session")
def read_parts():
    """Read a file once: tensors, in float32, and facts."""
    known = {}

    def read(path):
        if path not in known:
            archive = read_archive(path, _MODEL)
            tensors = {name: _widen(tensor) for name, tensor in archive.tensors.items()}
            known[path] = tensors, archive.metadata
        tensors, facts = known[path]
        return {name: x.clone() for name, x in tensors.items()}, copy.deepcopy(facts)

    return read


@pytest.fixture
def load_changed(saved, read_parts, tmp_path):
    """Load a model after a change of its tensors and facts."""

    def load(change, path=saved):
        tensors, facts = read_parts(path)
        change(tensors, facts)
        write_archive(tmp_path / "changed.hotview", _MODEL, tensors, facts)
        return load_model(tmp_path / "changed.hotview", device="cpu")

    return load
