"""Views in any container, what `transform` gives back, and how much memory that takes."""

import tracemalloc
from functools import cache

import anndata as ad
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from torch import nn

from hotview import MultiViewClassifier, MultiViewEncoder
from tests.estimators.small_fits import BOTH, VIEWS, fit, fitted, not_comparable, small


def same_features(found, expected, **tolerance):
    for name, Z in expected.items():
        np.testing.assert_allclose(found[name], Z, **{"rtol": 1e-4, "atol": 1e-5, **tolerance})


def as_memmap(X, folder):
    path = folder / f"{X.shape[1]}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def as_cells(X):
    return ad.AnnData(X, var=pd.DataFrame(index=names_of(X)))


def as_backed(X, folder):
    path = folder / f"{X.shape[1]}.h5ad"
    as_cells(X).write_h5ad(path)
    return ad.read_h5ad(path, backed="r")


def names_of(X):
    return [f"c{j}" for j in range(X.shape[1])]


CONTAINERS = {
    "float64": lambda X, _: X.astype(np.float64),
    "Fortran order": lambda X, _: np.asfortranarray(X),
    "big-endian": lambda X, _: X.astype(">f4"),
    "read-only": lambda X, _: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "memory map": as_memmap,
    "strided": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "nested lists": lambda X, _: X.tolist(),
    "torch with gradient": lambda X, _: torch.from_numpy(X.copy()).requires_grad_(),
    "pandas": lambda X, _: pd.DataFrame(X, columns=names_of(X)),
    "polars": lambda X, _: pl.DataFrame(X, schema=names_of(X)),
    "pyarrow": lambda X, _: pa.table(dict(zip(names_of(X), X.T, strict=True))),
    "sparse anndata": lambda X, _: as_cells(sparse.csr_matrix(X)),
    "anndata on disk": lambda X, folder: as_backed(X, folder),
    "sparse anndata on disk": lambda X, folder: as_backed(sparse.csr_matrix(X), folder),
    "csr": lambda X, _: sparse.csr_matrix(X),
    "csc": lambda X, _: sparse.csc_array(X),
    "coo": lambda X, _: sparse.coo_array(X),
    "int16": lambda X, _: X.astype(np.int16),
    "int8": lambda X, _: X.astype(np.int8),
    "float16": lambda X, _: X.astype(np.float16),
}
ORDER = list(CONTAINERS)
# Integers are exact in all of them; zeros are for the sparse ones.
WHOLE = {name: np.round(3 * X).astype(np.float32) for name, X in VIEWS.items()}


@cache
def fitted_to_whole_numbers(kind):
    return fit(small(kind), WHOLE)


@pytest.mark.parametrize("first", range(0, len(ORDER), 3), ids=lambda i: ORDER[i])
def test_every_container_gives_the_same_result(first, tmp_path):
    """A view of every kind, three at a time, by one of the estimators."""
    kind = (MultiViewEncoder, MultiViewClassifier)[first % 2]
    chosen = [ORDER[i % len(ORDER)] for i in range(first, first + 3)]
    pairs = zip(chosen, WHOLE.items(), strict=True)
    others = {name: CONTAINERS[container](X, tmp_path) for container, (name, X) in pairs}
    expected, model = fitted_to_whole_numbers(kind), fit(small(kind), others)
    np.testing.assert_allclose(model.history_["loss"], expected.history_["loss"], rtol=1e-5)
    for mine, theirs in ((others, WHOLE), (WHOLE, others)):
        found = model.transform(mine)
        same_features(found, expected.transform(theirs))
        assert all(np.asarray(Z).dtype == np.float32 for Z in found.values())
    if kind is MultiViewClassifier:
        P = expected.predict_proba(WHOLE)
        np.testing.assert_allclose(model.predict_proba(others), P, rtol=1e-4)


def test_switches_and_bytes_are_numbers():
    views = {name: X > 0 for name, X in VIEWS.items()}
    floats = {name: X.astype(np.float32) for name, X in views.items()}
    views["view_1"] = views["view_1"].astype(np.uint8)
    # Of rows that are equal, rounding decides which are neighbors in the graphs of linked rows.
    expected, model = (fit(small(alignment_weight=0), Xs) for Xs in (floats, views))
    np.testing.assert_allclose(model.history_["loss"], expected.history_["loss"], rtol=1e-5)
    same_features(model.transform(views), expected.transform(floats))


def peak_of(run, *arguments):
    tracemalloc.start()
    run(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_is_needed_for_a_batch_and_not_for_a_copy(tmp_path):
    # Both are larger than what is looked at together; what is left to grow is a few numbers a row.
    plain = {"max_epochs": 1, "steps_per_epoch": 2, "encoder_dim": 2, "view_regularizer": "none"}
    plain |= {"preprocessing": "standardize", "initialization": "random"}
    plain |= {"pseudo_labels": False, "alignment_weight": 0.0}  # without neighbors of all rows
    peaks, sizes = [], []
    for n in (12_000, 36_000):  # rows of two views in files
        tables = np.random.default_rng(0).standard_normal((2, n, 200), dtype=np.float32)
        np.save(tmp_path / "views.npy", tables)
        views = list(np.load(tmp_path / "views.npy", mmap_mode="r"))
        model = small(MultiViewClassifier, **plain)
        y = np.where(np.arange(n) < 100, np.arange(n) % 2, -1)
        peaks.append([peak_of(model.fit, views, y)])
        peaks[-1] += [peak_of(step, views) for step in (model.transform, model.predict)]
        sizes.append(sum(X.nbytes for X in views))
    assert (np.diff(peaks, axis=0) < 0.25 * np.diff(sizes)).all()


def test_views_come_back_as_they_came():
    model = fitted()
    by_number = fit(small(), tuple(VIEWS.values()))
    assert by_number.view_names_ == ["view_0", "view_1", "view_2"]
    assert by_number.history_["loss"] == model.history_["loss"]
    Z = model.transform(VIEWS)
    assert {name: z.shape for name, z in Z.items()} == dict.fromkeys(VIEWS, (30, 4))
    np.testing.assert_equal(model.transform(list(VIEWS.values())), list(Z.values()))
    np.testing.assert_equal({name: model.transform_view(X, name) for name, X in VIEWS.items()}, Z)
    turned = model.transform(dict(reversed(VIEWS.items())))
    assert list(turned) == ["view_2", "view_1", "view_0"]
    np.testing.assert_equal(turned, Z)


def test_absent_views_and_rows_stay_absent_and_rows_need_not_be_aligned():
    model = fitted()
    expected = model.transform(VIEWS)
    some = model.transform({"view_2": None, "view_1": VIEWS["view_1"]})
    assert list(some) == ["view_2", "view_1"]
    assert some["view_2"] is None
    np.testing.assert_array_equal(some["view_1"], expected["view_1"])
    assert model.transform([None, VIEWS["view_1"], None])[::2] == [None, None]
    X = VIEWS["view_0"].copy()
    X[[2, 9]] = np.nan
    Z = model.transform_view(X, "view_0")
    present = np.setdiff1d(np.arange(30), [2, 9])
    assert np.isnan(Z[[2, 9]]).all()
    np.testing.assert_allclose(Z[present], expected["view_0"][present], rtol=1e-5)
    found = model.transform({"view_0": VIEWS["view_0"][:3], "view_2": VIEWS["view_2"][:7]})
    assert [len(z) for z in found.values()] == [3, 7]
    np.testing.assert_allclose(found["view_2"], expected["view_2"][:7], rtol=1e-4, atol=1e-6)


@not_comparable
@BOTH
def test_transform_is_the_network_on_standardized_rows(kind):
    model = fitted(kind, coupling="hot-reference")
    X = VIEWS["view_1"].astype(np.float64)
    standard = torch.from_numpy((X - X.mean(0)) / X.std(0)).float()
    with torch.no_grad():
        F = model.network_.encoders[1](standard)
        Z = F @ model.network_.maps[1].weight.T
    np.testing.assert_allclose(model.transform(VIEWS)["view_1"], F, rtol=1e-4, atol=1e-5)
    common = model.transform(VIEWS, space="common")["view_1"]
    np.testing.assert_allclose(common, Z, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(model.transform_view(VIEWS["view_1"], "view_1", "common"), common)
    with pytest.raises(ValueError, match="space to be one of 'features', 'common'"):
        model.transform(VIEWS, space="latent")


@not_comparable
def test_pandas_frames_keep_the_index_and_name_the_columns():
    index = [f"person {i}" for i in range(30)]
    frames = {name: pd.DataFrame(X, index=index).add_prefix("c") for name, X in VIEWS.items()}
    model = fit(small(MultiViewClassifier, encoders={"view_1": nn.Linear(6, 2)}), frames)
    arrays = model.transform(frames)
    assert model.set_output(transform="pandas") is model
    Z = model.transform(frames)
    for name, n in zip(VIEWS, (4, 2, 4), strict=True):
        assert Z[name].index.tolist() == index
        assert Z[name].columns.tolist() == [f"{name}_{j}" for j in range(n)]
        np.testing.assert_array_equal(Z[name], arrays[name])
    names = [column for frame in Z.values() for column in frame.columns]
    assert model.get_feature_names_out().tolist() == names
    common = model.transform_view(frames["view_1"], "view_1", space="common")
    assert common.columns.tolist() == ["view_1_0", "view_1_1", "view_1_2"]
    assert model.transform(VIEWS)["view_0"].index.tolist() == list(range(30))
    assert model.transform({"view_0": None, "view_1": frames["view_1"]})["view_0"] is None
    polars = model.set_output(transform="polars").transform(frames)["view_2"]
    assert isinstance(polars, pl.DataFrame)
    assert polars.columns == ["view_2_0", "view_2_1", "view_2_2", "view_2_3"]
    np.testing.assert_array_equal(polars.to_numpy(), arrays["view_2"])
    copy = clone(model.set_output(transform=None))  # which is cloned, and None changes nothing
    vars(copy).update(vars(model))
    assert isinstance(copy.transform(VIEWS)["view_2"], pl.DataFrame)
    default = model.set_output(transform="default").transform(VIEWS)["view_2"]
    np.testing.assert_array_equal(default, arrays["view_2"])
    with pytest.raises(ValueError, match=r"'default', 'pandas', 'polars'.*Did you mean 'pandas'"):
        model.set_output(transform="panda")


def test_features_come_back_in_what_the_view_came_in(tmp_path):
    model = clone(fitted())
    vars(model).update(vars(fitted()))  # whose output is chosen below
    expected = model.transform_view(VIEWS["view_1"], "view_1")
    frames = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    kinds = {"torch with gradient": torch.Tensor, "anndata on disk": pd.DataFrame, **frames}
    for container in (*kinds, "memory map", "csc", "coo", "nested lists"):
        kind = kinds.get(container, np.ndarray)
        view = CONTAINERS[container](VIEWS["view_1"], tmp_path)
        Z = model.transform([VIEWS["view_0"], view, None])
        assert [type(z) for z in Z] == [np.ndarray, kind, type(None)]
        np.testing.assert_allclose(Z[1], expected, rtol=1e-4, atol=1e-6)
        if kind is torch.Tensor:
            assert not Z[1].requires_grad
        elif kind is not np.ndarray:
            names = Z[1].column_names if kind is pa.Table else Z[1].columns
            assert list(names) == [f"view_1_{j}" for j in range(4)]
        if container == "anndata on disk":
            assert Z[1].index.tolist() == view.obs_names.tolist()
        model.set_output(transform="pandas")
        assert isinstance(model.transform_view(view, "view_1"), pd.DataFrame)
        model.set_output(transform="default")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_tensors_go_back_to_their_device():
    Z = fitted().transform_view(torch.from_numpy(VIEWS["view_0"]).cuda(), "view_0")
    assert Z.device.type == "cuda"


@BOTH
def test_scikit_learns_global_setting_is_used_and_harms_no_fit(kind):
    with config_context(transform_output="pandas"):
        model = fit(small(kind, view_regularizer="manifold"))
        assert isinstance(model.transform(VIEWS)["view_0"], pd.DataFrame)
        own = model.set_output(transform="default").transform(VIEWS)["view_0"]
        assert isinstance(own, np.ndarray)  # the estimator's own choice comes first
    expected = fit(small(kind, view_regularizer="manifold"))
    assert model.history_["loss"] == expected.history_["loss"]
    np.testing.assert_array_equal(own, expected.transform(VIEWS)["view_0"])
