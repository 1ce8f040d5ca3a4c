"""A small model, and a way to change its file, checksum included."""

import copy

import numpy as np
import pytest

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.datasets import make_views
from hotview.persistence.models import _MODEL, _widen, load_model, save_model

DATA = make_views(60, n_views=3, labeled=0.5, random_state=0)
SMALL = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2, "random_state": 0}


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The path of a model with two ensemble members, which have predictors."""
    model = hv.MultiViewClassifier(**SMALL, n_estimators=2, device="cpu")
    model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)
    return save_model(model, tmp_path_factory.mktemp("model") / "m.hotview")


@pytest.fixture(scope="session")
def saved_imputing(tmp_path_factory):
    """The path of an encoder that marks missing cells of columns 2 and 5 of a view."""
    views = {name: X.copy() for name, X in DATA.views.items()}
    views["view_1"][3, 2] = views["view_1"][7, 5] = np.nan
    model = hv.MultiViewEncoder(**SMALL, impute={"view_1": "median+indicator"}, device="cpu")
    return save_model(model.fit(views), tmp_path_factory.mktemp("model") / "m.hotview")


@pytest.fixture
def load_changed(saved, tmp_path):
    """Load the model after a change of its tensors, in float32, and facts."""

    def load(change, saved=saved):
        archive = copy.deepcopy(read_archive(saved, _MODEL))
        tensors = {name: _widen(tensor) for name, tensor in archive.tensors.items()}
        change(tensors, archive.metadata)
        write_archive(tmp_path / "changed.hotview", _MODEL, tensors, archive.metadata)
        return load_model(tmp_path / "changed.hotview", device="cpu")

    return load
