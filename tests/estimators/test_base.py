"""What both estimators promise: scikit-learn's contract, any container, `transform`."""

import copy
import inspect
import pickle
import re
import tracemalloc

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
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch import nn

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview._validation import ViewTable, check_tables
from hotview.datasets import make_views
from hotview.estimators.base import output_container, wrap_rows
from hotview.losses.coupling_specs import as_coupling

BOTH = pytest.mark.parametrize("kind", (MultiViewEncoder, MultiViewClassifier))
SMALL = {
    "hidden": (8,),
    "encoder_dim": 4,
    "n_components": 3,
    "batch_size": 16,
    "max_epochs": 2,
    "n_estimators": 1,
    "device": "cpu",
    "random_state": 0,
}
DATA = make_views(30, n_views=3, n_columns=[5, 6, 4], labeled=1.0, random_state=0)
VIEWS, Y = DATA.linked, DATA.linked_target


not_comparable = pytest.mark.filterwarnings("ignore:Rows of different views may not:UserWarning")


def small(kind, **parameters):
    return kind(**{**SMALL, "coupling": "none", **parameters})


def fit(model, views=VIEWS, y=Y):
    return model.fit(views, y)  # an encoder does not use y


def bits(model):
    """Everything that a fit has learned, seconds left out."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in model.history_]
    weights = {k: v.numpy().tobytes() for k, v in model.network_.state_dict().items()}
    plan = model.plan_
    found = None if plan is None else [array.tobytes() for array in (plan.W, plan.C, plan.null.C)]
    references = None if model.references_ is None else model.references_.tobytes()
    return rows, weights, found, references


# scikit-learn's contract


@BOTH
def test_the_constructor_stores_what_it_is_given_and_nothing_else(kind):
    names = list(inspect.signature(kind).parameters)
    given = {name: object() for name in names}
    model = kind(**given)
    assert vars(model) == given
    assert model.get_params(deep=False) == given


@BOTH
def test_all_but_two_parameters_are_keywords_with_defaults(kind):
    parameters = inspect.signature(kind).parameters.values()
    assert [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY] == [
        "coupling",
        "view_regularizer",
    ]
    assert all(p.default is not p.empty for p in parameters)


@BOTH
def test_parameters_are_set_and_cloned(kind):
    model = small(kind).set_params(encoder_dim=3, hidden={"a": (2,)}, coupling="dgcca")
    copied = clone(model)
    assert copied is not model
    assert copied.get_params() == model.get_params()
    assert copied.encoder_dim == 3
    with pytest.raises(ValueError, match="Invalid parameter 'n_latent'"):
        model.set_params(n_latent=3)


@BOTH
def test_a_clone_of_a_fitted_model_is_not_fitted(kind):
    model = fit(small(kind))
    with pytest.raises(NotFittedError):
        clone(model).transform(VIEWS)
    assert bits(fit(clone(model))) == bits(model)


@BOTH
@pytest.mark.parametrize("holder", (list, dict, nn.ModuleList))
def test_a_model_with_encoders_of_ones_own_is_cloned(kind, holder):
    torch.manual_seed(0)
    modules = [nn.Linear(X.shape[1], 4) for X in VIEWS.values()]
    encoders = dict(zip(VIEWS, modules, strict=True)) if holder is dict else holder(modules)
    model = small(kind, encoders=encoders)
    copied = clone(model)
    assert copied.encoders is not encoders
    assert bits(fit(copied)) == bits(fit(model))


@BOTH
@pytest.mark.parametrize(
    "call",
    (
        lambda model: model.transform(VIEWS),
        lambda model: model.transform_view(VIEWS["view_0"], "view_0"),
        lambda model: model.get_feature_names_out(),
    ),
    ids=("transform", "transform_view", "get_feature_names_out"),
)
def test_nothing_is_encoded_before_fit(kind, call):
    with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted"):
        call(kind())


@pytest.mark.parametrize("method", ("predict", "predict_proba", "predict_log_proba"))
def test_nothing_is_predicted_before_fit(method):
    with pytest.raises(NotFittedError, match="This MultiViewClassifier instance is not fitted"):
        getattr(MultiViewClassifier(), method)(VIEWS)
    with pytest.raises(NotFittedError, match="This MultiViewClassifier instance is not fitted"):
        MultiViewClassifier().score(VIEWS, Y)
    assert not hasattr(MultiViewEncoder(), method)


@BOTH
def test_fit_returns_the_estimator_and_leaves_its_parameters(kind):
    model = small(kind)
    before = copy.deepcopy(model.get_params())
    assert fit(model) is model
    assert model.get_params() == before


@BOTH
def test_what_a_fit_leaves_behind(kind):
    model = fit(small(kind))
    assert model.view_names_ == list(VIEWS)
    assert model.n_views_ == 3
    assert model.n_features_per_view_ == {"view_0": 5, "view_1": 6, "view_2": 4}
    assert len(model.history_) == 2
    assert model.batch_size_ == 15  # 30 rows are cut evenly
    assert model.plan_ is model.references_ is None
    assert not model.network_.training


@BOTH
@pytest.mark.parametrize("coupling", ("hot-reference", "hot-pairwise", "sw-reference", "dgcca"))
def test_plans_references_and_groups_of_views(kind, coupling):
    views = {**VIEWS, "fourth": VIEWS["view_0"][:, ::-1].copy()}
    spec = as_coupling(coupling)
    settings = {"n_references": 2}
    spec.set_params(**{k: n for k, n in settings.items() if k in spec.get_params()})
    model = small(kind, coupling=spec)
    model = model.fit(views, Y) if kind is MultiViewClassifier else model.fit(views, paired=True)
    n_columns = {"hot-reference": 2, "sw-reference": 1}.get(coupling, 4)
    assert model.plan_.W.shape == model.plan_.C.shape == (4, n_columns)
    np.testing.assert_allclose(model.plan_.W.sum(1), 0.25, rtol=1e-5)
    assert model.plan_.null.C.shape == (19, 4, 4)
    if coupling in ("hot-reference", "sw-reference"):
        assert model.references_.shape == (n_columns, 15, 3)
    else:
        assert model.references_ is None


@BOTH
@pytest.mark.parametrize("coupling", ("hot-reference", "sw-pairwise"))
@pytest.mark.parametrize("view_regularizer", ("manifold", "autoencoder"))
def test_the_seed_decides_every_bit(kind, coupling, view_regularizer):
    model = small(kind, coupling=coupling, view_regularizer=view_regularizer)
    first, again = bits(fit(clone(model))), bits(fit(clone(model)))
    other = bits(fit(clone(model).set_params(random_state=1)))
    assert first == again
    assert all(a != b for a, b in zip(first[:3], other[:3], strict=True))


@BOTH
def test_refitting_starts_anew(kind):
    model = fit(small(kind, coupling="hot-reference"))
    first = bits(model)
    assert bits(fit(model)) == first


@BOTH
def test_refitting_on_other_views(kind):
    model = fit(small(kind, coupling="sw-pairwise").set_output(transform="pandas"))
    others = {"p": VIEWS["view_1"], "q": VIEWS["view_2"]}
    labels = np.array(["no", "yes"])[Y % 2]
    model.fit(others, labels)
    assert model.view_names_ == ["p", "q"]
    assert model.n_features_per_view_ == {"p": 6, "q": 4}
    assert model.transform(others)["q"].shape == (30, 4)
    with pytest.raises(ValueError, match=r"among \['p', 'q'\].*'view_0'"):
        model.transform(VIEWS)
    if kind is MultiViewClassifier:
        assert set(model.predict(others)) <= {"no", "yes"}
        assert bits(fit(small(kind, coupling="sw-pairwise"), others, labels)) == bits(model)


@pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
@BOTH
def test_neither_numpys_nor_torchs_own_generator_is_moved(kind):
    dropping = {"view_0": nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5))}
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    before = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    for seed in (0, None):
        model = small(kind, coupling="hot-reference", encoders=dropping, random_state=seed)
        fit(model).transform(VIEWS)
    after = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    assert str(before[0]) == str(after[0])
    assert torch.equal(before[1], after[1])


@BOTH
def test_dropout_of_ones_own_follows_the_seed(kind):
    dropping = {"view_0": nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5))}
    model = small(kind, encoders=dropping)
    first = bits(fit(clone(model)))
    torch.manual_seed(77)
    assert bits(fit(clone(model))) == first
    assert bits(fit(clone(model).set_params(random_state=1))) != first


@BOTH
@pytest.mark.parametrize("copied", (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))))
def test_copies_of_a_fitted_model_predict_the_same(kind, copied):
    model = fit(small(kind, coupling="hot-reference").set_output(transform="pandas"))
    twin = copied(model)
    assert bits(twin) == bits(model)
    for name, Z in model.transform(VIEWS).items():
        pd.testing.assert_frame_equal(twin.transform(VIEWS)[name], Z)
    if kind is MultiViewClassifier:
        some = {"view_1": VIEWS["view_1"]}
        np.testing.assert_array_equal(twin.predict_proba(VIEWS), model.predict_proba(VIEWS))
        np.testing.assert_array_equal(twin.predict_proba(some), model.predict_proba(some))


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
    if kind is MultiViewClassifier:
        model.fit(views, y, unaligned=unaligned, unaligned_y=unaligned_y, validation=(views, y))
        model.predict(views)
    else:
        model.fit(views)
    model.transform(views)
    as_list = list(views.values())
    model.transform(as_list)
    assert all(X is kept[name] for name, X in views.items())
    assert all(X is Z for X, Z in zip(as_list, kept.values(), strict=True))
    np.testing.assert_equal((views, unaligned, y, unaligned_y, hidden), before)
    assert len(callbacks) == 1


@BOTH
def test_scikit_learn_takes_views_for_samples_and_says_so_where_there_are_labels(kind):
    how = {"cv": 2, "error_score": "raise", "scoring": lambda *_: 0.0}
    for views in (VIEWS, list(VIEWS.values())):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            cross_val_score(small(kind), views, Y, **how)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            GridSearchCV(small(kind), {"encoder_dim": [2, 3]}, **how).fit(views, Y)


# any container


def as_memmap(X, folder):
    path = folder / f"{X.shape[1]}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def as_read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def as_frame(X, frame):
    return frame(X, **{"columns" if frame is pd.DataFrame else "schema": names_of(X)})


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
    "big-endian doubles": lambda X, _: X.astype(">f8"),
    "read-only": lambda X, _: as_read_only(X),
    "memory map": as_memmap,
    "strided": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "nested lists": lambda X, _: X.tolist(),
    "torch": lambda X, _: torch.from_numpy(X.copy()),
    "torch with gradient": lambda X, _: torch.from_numpy(X.copy()).requires_grad_(),
    "pandas": lambda X, _: as_frame(X, pd.DataFrame),
    "polars": lambda X, _: as_frame(X, pl.DataFrame),
    "pyarrow": lambda X, _: pa.table(dict(zip(names_of(X), X.T, strict=True))),
    "anndata": lambda X, _: as_cells(X),
    "sparse anndata": lambda X, _: as_cells(sparse.csr_matrix(X)),
    "anndata on disk": lambda X, folder: as_backed(X, folder),
    "sparse anndata on disk": lambda X, folder: as_backed(sparse.csr_matrix(X), folder),
    "csr": lambda X, _: sparse.csr_matrix(X),
    "csc": lambda X, _: sparse.csc_array(X),
    "coo": lambda X, _: sparse.coo_array(X),
}


@BOTH
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_result(kind, container, tmp_path):
    # Integers are exact in all of them; zeros are for the sparse ones.
    views = {name: np.round(3 * X).astype(np.float32) for name, X in VIEWS.items()}
    convert = CONTAINERS[container]
    others = {name: convert(X, tmp_path) for name, X in views.items()}
    expected, model = fit(small(kind), views), fit(small(kind), others)
    np.testing.assert_allclose(model.history_["loss"], expected.history_["loss"], rtol=1e-5)
    for mine, theirs in ((others, views), (views, others)):
        Z, Z_expected = model.transform(mine), expected.transform(theirs)
        for name in views:
            np.testing.assert_allclose(Z[name], Z_expected[name], rtol=1e-4, atol=1e-5)
            assert np.asarray(Z[name]).dtype == np.float32
    if kind is MultiViewClassifier:
        found = model.predict_proba(others)
        np.testing.assert_allclose(found, expected.predict_proba(views), rtol=1e-4)


@BOTH
@pytest.mark.parametrize("dtype", (np.int64, np.int8, np.uint8, bool, np.float16))
def test_every_kind_of_number_gives_the_same_result(kind, dtype):
    views = {name: (X > 0).astype(dtype) for name, X in VIEWS.items()}
    floats = {name: X.astype(np.float32) for name, X in views.items()}
    # Of rows that are equal, rounding decides which are neighbors in the graphs of linked rows.
    expected, model = (fit(small(kind, alignment_weight=0), Xs) for Xs in (floats, views))
    np.testing.assert_allclose(model.history_["loss"], expected.history_["loss"], rtol=1e-5)
    Z, Z_expected = model.transform(views), expected.transform(floats)
    for name in views:
        np.testing.assert_allclose(Z[name], Z_expected[name], rtol=1e-4, atol=1e-5)


@BOTH
def test_dicts_lists_and_tuples_name_the_same_views(kind):
    model = fit(small(kind), list(VIEWS.values()))
    assert model.view_names_ == ["view_0", "view_1", "view_2"]
    assert bits(model) == bits(fit(small(kind))) == bits(fit(small(kind), tuple(VIEWS.values())))


@BOTH
def test_standardizing_makes_units_and_origins_irrelevant(kind):
    others = {name: 1000 * X.astype(np.float64) + 1e6 for name, X in VIEWS.items()}
    expected, model = fit(small(kind)), fit(small(kind), others)
    np.testing.assert_allclose(model.history_["loss"], expected.history_["loss"], rtol=1e-4)
    raw = fit(small(kind, preprocessing="none"), others)
    assert not np.allclose(raw.history_["loss"], expected.history_["loss"], rtol=0.1)


# memory


def test_float32_tables_are_used_where_they_lie():
    X = np.zeros((7, 3), np.float32)
    tables = check_tables([X, np.zeros((7, 3))])
    assert tables["view_0"].data is X
    assert np.shares_memory(tables["view_0"].rows(slice(2, 5)), X)


def write_views(folder, n):
    """Two large views in files, of which some rows are read at a time."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{n}_{s}.npy" for s in range(2)]
    for path in paths:
        np.save(path, rng.standard_normal((n, 50), dtype=np.float32))
    return [np.load(path, mmap_mode="r") for path in paths]


def peak_of(run):
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@BOTH
def test_memory_is_needed_for_a_batch_and_not_for_a_copy(kind, tmp_path):
    # Both are larger than what is looked at together; what is left to grow is a few numbers a row.
    plain = {"view_regularizer": "none", "encoder_dim": 2}
    if kind is MultiViewClassifier:  # neighbors of so many rows take minutes
        plain["pseudo_labels"] = False
    peaks, sizes = [], []
    for n in (60_000, 300_000):
        views, model = write_views(tmp_path, n), small(kind, max_epochs=1, steps_per_epoch=2)
        model.set_params(**plain)
        y = np.arange(n) % 2
        steps = [lambda: fit(model, views, y), lambda: model.transform(views)]  # noqa: B023
        if kind is MultiViewClassifier:
            steps.append(lambda: model.predict(views))  # noqa: B023
        peaks.append([peak_of(step) for step in steps])
        sizes.append(sum(X.nbytes for X in views))
    assert (np.diff(peaks, axis=0) < 0.25 * np.diff(sizes)).all()


# transform


@BOTH
def test_views_come_back_as_they_came(kind):
    model = fit(small(kind))
    Z = model.transform(VIEWS)
    assert list(Z) == list(VIEWS)
    assert {name: z.shape for name, z in Z.items()} == dict.fromkeys(VIEWS, (30, 4))
    as_list = model.transform(list(VIEWS.values()))
    assert isinstance(as_list, list)
    for one, other in zip(as_list, Z.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    turned = model.transform(dict(reversed(VIEWS.items())))
    assert list(turned) == ["view_2", "view_1", "view_0"]
    for name, z in Z.items():
        np.testing.assert_array_equal(turned[name], z)
        np.testing.assert_array_equal(model.transform_view(VIEWS[name], name), z)


@BOTH
def test_absent_views_and_rows_stay_absent(kind):
    model = fit(small(kind))
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


@BOTH
def test_rows_of_transform_need_not_be_aligned(kind):
    model = fit(small(kind))
    Z = model.transform({"view_0": VIEWS["view_0"][:3], "view_2": VIEWS["view_2"][:7]})
    assert [len(z) for z in Z.values()] == [3, 7]
    np.testing.assert_allclose(
        Z["view_2"], model.transform(VIEWS)["view_2"][:7], rtol=1e-4, atol=1e-6
    )


@not_comparable
@BOTH
def test_transform_is_the_network_on_standardized_rows(kind):
    model = fit(small(kind, coupling="hot-reference"))
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


@BOTH
def test_many_rows_are_encoded_in_parts(kind):
    model = fit(small(kind))
    X = np.tile(VIEWS["view_0"], (150, 1))  # 4,500 rows
    Z = model.transform_view(X, "view_0")
    assert Z.shape == (4500, 4)
    np.testing.assert_allclose(Z[-30:], model.transform(VIEWS)["view_0"], rtol=1e-4, atol=1e-6)


@BOTH
def test_means_of_training_fill_gaps(kind):
    model = fit(small(kind, impute="mean"))
    X = VIEWS["view_0"].copy()
    X[4, 1] = np.nan
    filled = X.copy()
    filled[4, 1] = VIEWS["view_0"][:, 1].mean()
    np.testing.assert_allclose(
        model.transform_view(X, "view_0"), model.transform_view(filled, "view_0"), rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"'view_0'.*NaN in 1 entry, the first in row 4, column 1"):
        fit(small(kind)).transform_view(X, "view_0")


# checks without training


def test_what_fit_refuses_is_found_without_training(monkeypatch):
    model = small(MultiViewClassifier)
    y = np.zeros(30)
    with pytest.raises(ValueError, match="all are of one class") as expected:
        model.fit(VIEWS, y)
    with pytest.raises(ValueError, match=re.escape(str(expected.value))):
        model._check_fit(Xs=VIEWS, y=y)
    apart = {"unaligned": VIEWS, "unaligned_y": {"view_0": np.arange(30) % 2}}
    with pytest.raises(ValueError, match="but 'view_1' and 'view_2' have neither") as expected:
        model.fit(None, None, **apart)
    with pytest.raises(ValueError, match=re.escape(str(expected.value))):
        model._check_fit(Xs=None, y=None, **apart)
    monkeypatch.setattr("hotview.training.rows.ViewRows.part", None)  # no row is standardized
    model._check_fit(Xs=VIEWS, y=np.arange(30) % 2)
    assert not hasattr(model, "network_")


def test_a_check_warns_as_fit_does():
    views = {**VIEWS, "view_0": np.hstack([VIEWS["view_0"], np.ones((30, 1))])}
    with pytest.warns(UserWarning, match="Columns with a single value"):
        small(MultiViewEncoder)._check_fit(Xs=views)


# output as data frames


@not_comparable
@BOTH
def test_pandas_frames_keep_the_index_and_name_the_columns(kind):
    index = [f"person {i}" for i in range(30)]
    frames = {name: pd.DataFrame(X, index=index).add_prefix("c") for name, X in VIEWS.items()}
    model = fit(small(kind), frames)
    arrays = model.transform(frames)
    assert model.set_output(transform="pandas") is model
    Z = model.transform(frames)
    for name in VIEWS:
        assert Z[name].index.tolist() == index
        assert Z[name].columns.tolist() == [f"{name}_{j}" for j in range(4)]
        np.testing.assert_array_equal(Z[name], arrays[name])
    common = model.transform_view(frames["view_1"], "view_1", space="common")
    assert common.columns.tolist() == ["view_1_0", "view_1_1", "view_1_2"]
    assert model.transform(VIEWS)["view_0"].index.tolist() == list(range(30))
    assert model.transform({"view_0": None, "view_1": frames["view_1"]})["view_0"] is None


@BOTH
@pytest.mark.parametrize(
    ("container", "expected"),
    (
        ("memory map", np.ndarray),
        ("csc", np.ndarray),
        ("pandas", pd.DataFrame),
        ("polars", pl.DataFrame),
        ("pyarrow", pa.Table),
        ("torch with gradient", torch.Tensor),
        ("anndata on disk", pd.DataFrame),
    ),
)
def test_features_come_back_in_what_the_view_came_in(kind, container, expected, tmp_path):
    view = CONTAINERS[container](VIEWS["view_1"], tmp_path)
    model = fit(small(kind))
    Z = model.transform([VIEWS["view_0"], view, None])
    assert [type(z) for z in Z] == [np.ndarray, expected, type(None)]
    assert type(model.transform_view(view, "view_1")) is expected
    np.testing.assert_array_equal(Z[1], model.transform_view(VIEWS["view_1"], "view_1"))
    model.set_output(transform="pandas")
    assert isinstance(model.transform_view(view, "view_1"), pd.DataFrame)


@BOTH
def test_polars_frames(kind):
    frames = {name: as_frame(X, pl.DataFrame) for name, X in VIEWS.items()}
    model = fit(small(kind).set_output(transform="polars"), frames)
    Z = model.transform(frames)["view_2"]
    assert isinstance(Z, pl.DataFrame)
    assert Z.columns == ["view_2_0", "view_2_1", "view_2_2", "view_2_3"]
    arrays = model.set_output(transform="default").transform(VIEWS)
    np.testing.assert_array_equal(Z.to_numpy(), arrays["view_2"])


@BOTH
def test_the_choice_of_a_container_is_cloned_and_none_changes_nothing(kind):
    model = clone(small(kind).set_output(transform="pandas")).set_output()
    assert isinstance(fit(model).transform(VIEWS)["view_0"], pd.DataFrame)
    assert isinstance(fit(small(kind).set_output()).transform(VIEWS)["view_0"], np.ndarray)
    with pytest.raises(ValueError, match=r"'default', 'pandas', 'polars'.*Did you mean 'pandas'"):
        model.set_output(transform="panda")


@BOTH
def test_scikit_learns_global_setting_is_used_and_harms_no_fit(kind):
    with config_context(transform_output="pandas"):
        model = fit(small(kind, view_regularizer="manifold"))
        assert isinstance(model.transform(VIEWS)["view_0"], pd.DataFrame)
        own = model.set_output(transform="default").transform(VIEWS)["view_0"]
        assert isinstance(own, np.ndarray)
    assert bits(fit(small(kind, view_regularizer="manifold"))) == bits(model)


@BOTH
def test_names_of_features(kind):
    model = fit(small(kind, encoders={"view_1": nn.Linear(6, 2)}))
    names = model.get_feature_names_out()
    assert names.tolist() == [
        *(f"view_0_{j}" for j in range(4)),
        *(f"view_1_{j}" for j in range(2)),
        *(f"view_2_{j}" for j in range(4)),
    ]
    frames = model.set_output(transform="pandas").transform(VIEWS)
    assert names.tolist() == [c for frame in frames.values() for c in frame.columns]


X = np.arange(6, dtype=np.float32).reshape(3, 2)
TABLE = ViewTable(np.zeros((3, 4)))


def test_the_estimators_own_choice_comes_first():
    model = MultiViewEncoder()
    assert output_container(model) == "default"
    with config_context(transform_output="polars"):
        assert output_container(model) == "polars"
        assert output_container(model.set_output(transform="pandas")) == "pandas"
        assert output_container(model.set_output(transform="default")) == "default"


@pytest.mark.parametrize(
    "view", (np.zeros((3, 4)), [[0.0]] * 3, sparse.csr_array((3, 4)), sparse.coo_matrix((3, 4)))
)
def test_arrays_are_passed_through(view):
    assert wrap_rows("default", X, ["a", "b"], check_tables([view])["view_0"]) is X


@pytest.mark.parametrize(
    "view", (pd.DataFrame(np.zeros((3, 1)), index=["x", "y", "z"]), ad.AnnData(np.zeros((3, 1))))
)
def test_by_default_frames_and_cells_give_frames_with_their_names(view):
    table = check_tables([view])["view_0"]
    frame = wrap_rows("default", X, ["a", "b"], table)
    index = view.index if isinstance(view, pd.DataFrame) else view.obs_names
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, index=index, columns=["a", "b"]))
    assert isinstance(wrap_rows("polars", X, ["a", "b"], table), pl.DataFrame)


def test_by_default_polars_arrow_and_torch_give_their_own():
    views = (pl.DataFrame(X), pa.table({"c": X[:, 0]}), torch.from_numpy(X).requires_grad_())
    of_polars, of_arrow, of_torch = (
        wrap_rows("default", X, ["a", "b"], table) for table in check_tables(views).values()
    )
    assert of_polars.equals(pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}))
    assert of_arrow.equals(pa.table({"a": X[:, 0], "b": X[:, 1]}))
    assert torch.equal(of_torch, torch.from_numpy(X))
    assert not of_torch.requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_tensors_go_back_to_their_device():
    table = check_tables([torch.zeros(3, 4, device="cuda")])["view_0"]
    assert wrap_rows("default", X, ["a", "b"], table).device.type == "cuda"


def test_pandas_frames_have_the_index_of_what_came():
    index = pd.Index(["x", "y", "z"], name="who")
    table = check_tables([pd.DataFrame(np.zeros((3, 4)), index=index)])["view_0"]
    frame = wrap_rows("pandas", X, ["a", "b"], table)
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, index=index, columns=["a", "b"]))
    assert np.shares_memory(frame.to_numpy(), X)
    plain = wrap_rows("pandas", X, ["a", "b"], TABLE)
    assert plain.index.tolist() == [0, 1, 2]


def test_polars_frames_output_containers():
    frame = wrap_rows("polars", X, ["a", "b"], TABLE)
    assert frame.equals(pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}))


def test_an_unknown_container_is_refused():
    model = MultiViewEncoder()
    model._sklearn_output_config = {"transform": "arrow"}
    with pytest.raises(ValueError, match="'default', 'pandas', 'polars'"):
        output_container(model)


def test_report_writes_the_page_of_the_model_and_rows(tmp_path):
    data = make_views(40, n_views=2, n_groups=1, n_columns=4, labeled=1.0, random_state=0)
    model = MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    model.fit(data.linked, data.linked_target)
    assert model.report(tmp_path / "a.html") == tmp_path / "a.html"
    assert "Which views and columns matter" not in (tmp_path / "a.html").read_text()
    model.report(tmp_path / "b.html", data.linked, data.linked_target)
    assert "Which views and columns matter" in (tmp_path / "b.html").read_text()
