import json
import platform

import numpy as np
import pytest
import torch

import hotview as hv
from hotview.datasets import make_views
from hotview.estimators.batched_fit import fit_batched

DATA = make_views(60, n_views=3, labeled=0.5, random_state=0)
SMALL = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2, "random_state": 0}
SMALL |= {"n_estimators": 2, "device": "cpu"}


def test_rows_and_labels_are_counted():
    y, own = DATA.linked_target.astype(float), DATA.target["view_1"].astype(float)
    y[:3], own[:7] = np.nan, np.nan
    model = hv.MultiViewClassifier(**SMALL)
    model.fit(DATA.linked, y, unaligned=DATA.views, unaligned_y={"view_1": own})
    told = model.trained_on_
    known = np.concatenate([y[3:], own[7:]])
    assert told["linked"] == len(y)
    assert told["linked_labeled"] == len(y) - 3
    assert told["unaligned"] == {name: len(X) for name, X in DATA.views.items()}
    assert told["unaligned_labeled"] == {"view_1": len(own) - 7}
    assert told["classes"] == [[c, int((known == c).sum())] for c in np.unique(known)]
    assert told["device"] == "cpu"
    assert told["seconds"] > 0
    assert told["versions"]["python"] == platform.python_version()
    assert told["versions"]["torch"] == str(torch.__version__)
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize(("paired", "linked"), ((False, 0), (True, 60)))
def test_an_encoder_counts_rows_alone(paired, linked):
    told = hv.MultiViewEncoder(**SMALL).fit(DATA.views, paired=paired).trained_on_
    assert told["linked"] == linked
    assert told["unaligned"] == ({} if paired else dict.fromkeys(DATA.views, 60))
    assert "classes" not in told


@pytest.mark.parametrize(
    ("asked", "used"),
    (("float32", "float32"), ("tf32", "float32"), ("bfloat16", "bfloat16")),
)
def test_the_precision_is_the_one_that_was_used(asked, used):
    encoder = hv.MultiViewEncoder(**SMALL, precision=asked).fit(DATA.views)
    assert encoder.trained_on_["precision"] == used  # a CPU has no TF32


def test_remarks_are_warned_of_and_kept_once():
    views = {name: np.c_[X, np.ones(len(X))] for name, X in DATA.views.items()}
    encoder = hv.MultiViewEncoder(**SMALL)
    with pytest.warns(UserWarning, match="ColumnScaler with a single value") as caught:
        encoder.fit(views)
    assert encoder.fit_warnings_ == [str(one.message) for one in caught]
    assert encoder.fit(DATA.views).fit_warnings_ == []


def test_remarks_of_fits_at_once_belong_to_each():
    views = {name: np.c_[X, np.ones(len(X))] for name, X in DATA.views.items()}
    first, second = hv.MultiViewEncoder(**SMALL), hv.MultiViewEncoder(**SMALL)
    with pytest.warns(UserWarning, match="ColumnScaler with a single value"):
        fit_batched([(first, {"Xs": DATA.views}), (second, {"Xs": views})])
    assert (len(first.fit_warnings_), len(second.fit_warnings_)) == (0, 1)


def test_notes_are_empty_after_every_fit():
    encoder = hv.MultiViewEncoder(**SMALL).fit(DATA.views)
    assert encoder.metadata_ == {}
    encoder.metadata_["a"] = 1
    assert encoder.fit(DATA.views).metadata_ == {}
