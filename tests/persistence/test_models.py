import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.datasets import load_handwritten, make_views, unalign
from hotview.losses.specifications import Specification
from hotview.persistence import load_model, save_model
from hotview.persistence.models import _MODEL, _narrow, _widen

DATA = make_views(60, n_views=4, labeled=0.5, random_state=0)
SMALL = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2, "random_state": 0}
SMALL |= {"n_estimators": 1}


@pytest.fixture(autouse=True)
def _modules_that_are_always_the_same():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def parameters_of(model):
    """Saved parameters, specifications by their text."""
    parameters = {
        k: v for k, v in model.get_params().items() if k not in ("random_state", "device")
    }
    return {k: repr(v) if isinstance(v, Specification) else v for k, v in parameters.items()}


def classifier(**parameters):
    model = hv.MultiViewClassifier(device="cpu", **{**SMALL, **parameters})
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


@pytest.mark.parametrize(
    "parameters",
    (
        {},
        {"coupling": "none", "view_regularizer": "none"},
        {"coupling": "hot-pairwise", "view_regularizer": "autoencoder", "impute": "mean"},
        {
            "class_weight": {0: 1.0, 1: 2.0, 2: 1.0, 3: 1.0},
            "class_prior": {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4},
            "coupling": hv.HOTReferenceSpec(n_references=2),
        },
        {"hidden": dict.fromkeys(DATA.views, (8,)), "preprocessing": "none"},
        {"n_estimators": 3},
        {"n_estimators": 2, "coupling": "none"},
        {"coupling": hv.HOTReferenceSpec(orthogonality_weight=float("inf"))},
        {"pseudo_labels": False, "fusion": "average"},
        {"pseudo_labels": False, "n_estimators": 3},
        {"fusion": "average", "n_estimators": 2},
        {"view_regularizer": "diffusion"},
    ),
    ids=(
        "default",
        "none",
        "pairwise",
        "weights",
        "hidden by view",
        "members",
        "members without a plan",
        "exact constraint",
        "plain",
        "weighted heads",
        "equal weights",
        "diffusion",
    ),
)
def test_a_loaded_classifier_predicts_the_same_bits(tmp_path, parameters):
    model = classifier(**parameters)
    loaded = load_model(save_model(model, tmp_path / "m.hotview"), device="cpu")
    for views in (DATA.linked, {"view_1": DATA.linked["view_1"]}):
        np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert parameters_of(loaded) == parameters_of(model)
    assert loaded.histories_ == model.histories_
    assert loaded.history_ == model.history_
    assert loaded.view_names_ == model.view_names_
    assert (loaded.plan_ is None) == (model.plan_ is None)
    if model.plan_ is not None:
        for name in ("W", "C", "f", "g", "std"):
            np.testing.assert_array_equal(getattr(loaded.plan_, name), getattr(model.plan_, name))
        assert loaded.plan_.n_iter == model.plan_.n_iter
        assert np.array_equal(loaded.plan_.null.C, model.plan_.null.C)
        assert loaded.plan_.pairwise == model.plan_.pairwise
        assert loaded.plan_.null.p_value == model.plan_.null.p_value
        for name in ("value", "low", "high", "p_value", "n_rows"):
            saved, found = (getattr(m.view_similarity_, name) for m in (model, loaded))
            np.testing.assert_array_equal(found, saved)


def test_a_model_without_a_joint_predictor_predicts_the_same_bits(tmp_path):
    known = DATA.linked_target > 0  # a class is known to one view alone
    model = hv.MultiViewClassifier(**SMALL, device="cpu")
    with pytest.warns(UserWarning, match="have no linked row with a label"):
        model.fit(
            {name: X[known] for name, X in DATA.linked.items()},
            DATA.linked_target[known],
            unaligned=DATA.views,
            unaligned_y={"view_1": DATA.target["view_1"]},
        )
    loaded = load_model(save_model(model, tmp_path / "m.hotview"), device="cpu")
    for views in (DATA.linked, {"view_1": DATA.linked["view_1"]}):
        np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))


def test_text_classes_and_column_names_survive(tmp_path):
    views = {name: pd.DataFrame(X).add_prefix("c") for name, X in DATA.linked.items()}
    y = np.array(["a", "b", "ç", "d"])[DATA.linked_target]
    model = hv.MultiViewClassifier(**SMALL).fit(views, y)
    loaded = load_model(save_model(model, tmp_path / "m.hotview"))
    assert loaded.predict(views).tolist() == model.predict(views).tolist()
    wrong = {name: X.rename(columns={"c0": "x"}) for name, X in views.items()}
    with pytest.raises(ValueError, match="it has no column 'c0'"):
        loaded.predict(wrong)


def test_an_encoder_survives(tmp_path):
    encoder = hv.MultiViewEncoder(**SMALL).fit(DATA.views)
    loaded = hv.load(encoder.save(tmp_path / "m.hotview"))
    for name, Z in encoder.transform(DATA.views, space="common").items():
        np.testing.assert_array_equal(loaded.transform(DATA.views, space="common")[name], Z)
    np.testing.assert_array_equal(loaded.references_, encoder.references_)


def test_specifications_survive_with_their_settings(tmp_path):
    coupling = hv.HOTPairwiseSpec(np.float64(0.5), n_projections=np.int64(6))
    encoder = hv.MultiViewEncoder(coupling, hv.ManifoldSpec(0.2), **SMALL).fit(DATA.views)
    loaded = hv.load(encoder.save(tmp_path / "m.hotview"))
    assert repr(loaded.coupling) == "HOTPairwiseSpec(n_projections=6, weight=0.5)"
    assert repr(loaded.view_regularizer) == "ManifoldSpec(weight=0.2)"
    assert loaded.view_similarity_ is encoder.view_similarity_ is None


class OwnSpec(hv.HOTReferenceSpec):
    """A coupling that hotview does not have."""


class OwnDecodingSpec(hv.RegularizerSpec):
    needs_decoders = True

    def build(self):
        return hv.AutoencoderSpec().build()


def test_specifications_of_the_users_own_must_be_passed_again(tmp_path):
    encoder = hv.MultiViewEncoder(OwnSpec(0.2), OwnDecodingSpec(0.1), **SMALL).fit(DATA.views)
    path = encoder.save(tmp_path / "m.hotview")
    with pytest.raises(ValueError, match=r"coupling to be a OwnSpec.*coupling=OwnSpec\(\.\.\.\)"):
        hv.load(path)
    with pytest.raises(
        ValueError, match="Expected view_regularizer to be a OwnDecodingSpec, as at"
    ):
        hv.load(path, coupling=OwnSpec())
    own = {"coupling": OwnSpec(0.2), "view_regularizer": OwnDecodingSpec(0.1)}
    loaded = hv.load(path, **own)
    assert {name: getattr(loaded, name) for name in own} == own
    for name, Z in encoder.transform(DATA.views).items():
        np.testing.assert_array_equal(loaded.transform(DATA.views)[name], Z)
    np.testing.assert_array_equal(loaded.references_, encoder.references_)
    assert np.array_equal(loaded.plan_.W, encoder.plan_.W)
    plain = hv.MultiViewEncoder(**SMALL).fit(DATA.views).save(tmp_path / "plain.hotview")
    with pytest.raises(
        ValueError, match="Expected coupling to be None, as at fit, but it is OwnSp"
    ):
        hv.load(plain, coupling=OwnSpec())


def test_encoders_of_the_users_own_must_be_passed_again(tmp_path):
    own = {"view_2": torch.nn.Linear(20, 5)}
    model = classifier(encoders=own)
    path = save_model(model, tmp_path / "m.hotview")
    with pytest.raises(ValueError, match=r"for the views \['view_2'\].*given for \[\]"):
        load_model(path)
    loaded = load_model(path, encoders={"view_2": torch.nn.Linear(20, 5)})
    np.testing.assert_array_equal(loaded.predict(DATA.linked), model.predict(DATA.linked))


def test_encoders_of_the_users_own_with_weights_that_are_not_finite_are_refused(tmp_path):
    path = save_model(
        classifier(encoders={"view_2": torch.nn.Linear(20, 5)}), tmp_path / "m.hotview"
    )
    archive = read_archive(path, _MODEL)
    archive.tensors["members.0.network.encoders.2.weight"][0, 0] = torch.nan
    write_archive(path, _MODEL, archive.tensors, archive.metadata)
    with pytest.raises(ValueError, match=r"m\.hotview .*weights are so large, or not finite"):
        load_model(path, encoders={"view_2": torch.nn.Linear(20, 5)})


def test_saving_twice_gives_the_same_bytes(tmp_path):
    model = classifier()
    first = save_model(model, tmp_path / "a.hotview").read_bytes()
    assert save_model(model, tmp_path / "b.hotview").read_bytes() == first


def test_nothing_unfitted_is_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        save_model(hv.MultiViewEncoder(), tmp_path / "m.hotview")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", (b"", b"hello", b"\x80\x04\x95garbage", bytes(100)))
def test_a_foreign_file_is_refused(tmp_path, content):
    path = tmp_path / "m.hotview"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="to be a model that hotview saved, but it cannot be read"):
        load_model(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = save_model(classifier(), tmp_path / "m.hotview")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot be read"):
        load_model(path)


def test_other_formats_are_refused(tmp_path):
    path = tmp_path / "m.hotview"
    save_file({"a": torch.zeros(1)}, path, {"hotview": json.dumps({"format": "other"})})
    with pytest.raises(ValueError, match="but it has another format"):
        load_model(path)
    remedies = {99: "Update hotview", 1: "Fit the model again", 9: "Fit the model again"}
    for version, remedy in remedies.items():
        metadata = {"format": "hotview model", "version": version}
        save_file({"a": torch.zeros(1)}, path, {"hotview": json.dumps(metadata)})
        problem = rf"its format is {version}, and this hotview reads format 10\. {remedy}"
        with pytest.raises(ValueError, match=problem):
            load_model(path)


# missing cells


@pytest.mark.parametrize("n_columns", (20, 300), ids=("columns", "components"))
def test_imputation_by_view_is_saved_to_the_last_bit(tmp_path, n_columns):
    views = {name: X.astype(np.float64) for name, X in DATA.linked.items()}
    random = np.random.default_rng(0)
    views["view_1"] = views["view_1"] @ random.normal(size=(20, n_columns))
    for name in ("view_1", "view_2"):
        views[name][random.random(views[name].shape) < 0.02] = np.nan
    methods = {"view_1": "median+indicator", "view_2": "mean"}
    model = hv.MultiViewClassifier(**{**SMALL, "impute": methods, "device": "cpu"})
    model.fit(views, DATA.linked_target)
    loaded = load_model(save_model(model, tmp_path / "m.hotview"), device="cpu")
    assert loaded.impute == methods
    assert loaded._columns["view_1"].n_indicators > 3
    assert (loaded.preprocessing_, loaded.trained_on_) == (model.preprocessing_, model.trained_on_)
    np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))
    again = save_model(loaded, tmp_path / "again.hotview")
    assert again.read_bytes() == (tmp_path / "m.hotview").read_bytes()
    model.impute = "mean"
    with pytest.raises(ValueError, match=r"'impute' cannot be 'mean'.*set them back"):
        model.save(tmp_path / "m.hotview")


# numbers that take half the space


def all_tensors(model):
    """Tensors of the networks and of the predictors of a classifier."""
    tensors = {
        f"{r}.{k}": x for r, f in enumerate(model.networks_) for k, x in f.state_dict().items()
    }
    for s, knn in enumerate(model._ensemble.predictors.knn):
        tensors |= {f"knn.{s}.points": knn.points, f"knn.{s}.soft_labels": knn.soft_labels}
        tensors |= {f"knn.{s}.{name}": x for name, x in vars(knn.coordinates).items()}
    return tensors


def is_same(a, b):
    """Whether two tensors have the same bits."""
    return a.dtype == b.dtype and torch.equal(*(x.contiguous().view(torch.uint8) for x in (a, b)))


def test_half_the_space_and_the_same_bits(tmp_path):
    model = classifier(n_estimators=2)
    path = save_model(model, tmp_path / "m.hotview")
    stored = read_archive(path, _MODEL).tensors
    for name in ("members.1.network.encoders.0.0.weight", "predictors.knn.0.points"):
        assert stored[name].dtype == torch.float16
    assert stored["predictors.knn.0.coordinates.columns"].dtype == torch.float32
    before, after = all_tensors(model), all_tensors(load_model(path, device="cpu"))
    assert before.keys() == after.keys()
    assert all(is_same(after[name], before[name]) for name in before)


@pytest.mark.parametrize(
    ("values", "dtype"),
    (
        ([0.5, -3.0, 65504.0, 2.0**-24, -0.0], torch.float16),
        ([], torch.float16),
        ([0.1], torch.float32),
        ([65520.0], torch.float32),  # infinity in float16
        ([2.0**-25], torch.float32),  # and 0
        ([1 + 2.0**-11], torch.float32),
        ([torch.nan], torch.float32),
    ),
)
def test_numbers_are_narrowed_where_they_stay_the_same(values, dtype):
    tensor = torch.tensor(values, dtype=torch.float32)
    stored = _narrow(tensor)
    assert stored.dtype == dtype
    assert is_same(_widen(stored), tensor)


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16, torch.int64, torch.bool))
def test_other_kinds_of_numbers_are_stored_as_they_are(dtype):
    tensor = torch.ones(3).to(dtype)
    assert _narrow(tensor) is tensor
    assert _widen(tensor) is tensor


def test_the_digits_take_2_megabytes(tmp_path):
    digits = load_handwritten()
    labeled = np.random.default_rng(0).permutation(len(digits.target))[:60]
    y = np.full(len(digits.target), -1)
    y[labeled] = digits.target[labeled]
    model = hv.MultiViewClassifier(random_state=0, max_epochs=1, device="cpu").fit(digits.views, y)
    path = save_model(model, tmp_path / "m.hotview")
    assert path.stat().st_size <= 2e6
    loaded = load_model(path, device="cpu")
    P = model.predict_proba(digits.views)
    np.testing.assert_array_equal(loaded.predict_proba(digits.views), P)


class OfDtype(torch.nn.Module):
    """An encoder whose weights have any precision, and whose features have that of float32."""

    def __init__(self, dtype, *, trained):
        super().__init__()
        weight = torch.randn(20, 5, dtype=torch.float64).to(dtype)
        self.weight = torch.nn.Parameter(weight, requires_grad=trained)

    def forward(self, X):
        return X @ self.weight.float()


@pytest.mark.parametrize(
    ("dtype", "trained"),
    ((torch.float64, True), (torch.float32, True), (torch.float16, False), (torch.bfloat16, False)),
)
def test_encoders_of_the_users_own_keep_their_weights(tmp_path, dtype, trained):
    model = classifier(encoders={"view_2": OfDtype(dtype, trained=trained)})
    path = save_model(model, tmp_path / "m.hotview")
    loaded = load_model(path, encoders={"view_2": OfDtype(dtype, trained=trained)}, device="cpu")
    before, after = (m.network_.encoders[2].weight for m in (model, loaded))
    assert before.dtype == dtype
    assert is_same(after, before)
    if trained:  # and are not rounded
        assert not torch.equal(before.half().to(dtype), before)
    np.testing.assert_array_equal(
        loaded.predict_proba(DATA.linked), model.predict_proba(DATA.linked)
    )


def test_a_wrong_suffix_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.hotview"):
        save_model(classifier(), tmp_path / "model.pkl")
    assert list(tmp_path.iterdir()) == []


def test_tied_weights_and_numpys_numbers_survive(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(20, 20), torch.nn.Linear(20, 20)
            self.last.weight = self.first.weight

        def forward(self, X):
            return self.last(self.first(X))

    model = classifier(encoders={"view_0": Tied()}, hidden=(np.int64(8),))
    path = save_model(model, tmp_path / "m.hotview")
    loaded = load_model(path, encoders={"view_0": Tied()})
    np.testing.assert_array_equal(
        loaded.predict_proba(DATA.linked), model.predict_proba(DATA.linked)
    )
    with pytest.raises(ValueError, match=r"parts do not fit.*pass the same modules"):
        load_model(path, encoders={"view_0": torch.nn.Linear(20, 3)})


def test_what_cannot_be_loaded_again_is_not_saved(tmp_path):
    class Own(hv.MultiViewEncoder):
        pass

    with pytest.raises(TypeError, match=r"but got Own\. Save the estimator inside"):
        save_model(Own(**SMALL).fit(DATA.views), tmp_path / "m.hotview")
    assert list(tmp_path.iterdir()) == []


def test_what_a_model_was_trained_on_and_notes_survive(tmp_path):
    model = classifier()
    model.metadata_ = {"columns": {"view_0": ["a", None, 1.5]}, "ok": True}
    model.fit_warnings_ = ["careful"]
    loaded = load_model(save_model(model, tmp_path / "m.hotview"))
    assert loaded.trained_on_ == model.trained_on_
    assert loaded.metadata_ == model.metadata_
    assert loaded.fit_warnings_ == ["careful"]


@pytest.mark.parametrize(
    "value", ((1, 2), np.float64("inf"), float("nan"), {1: 2}, b"x", {"a": [object()]})
)
def test_notes_that_json_cannot_hold_are_refused(tmp_path, value):
    model = classifier()
    model.metadata_["mine"] = value
    with pytest.raises(TypeError, match=r"Expected metadata_\['mine'\].*JSON can hold"):
        save_model(model, tmp_path / "m.hotview")
    assert list(tmp_path.iterdir()) == []


def test_the_container_of_transform_survives(tmp_path):
    encoder = hv.MultiViewEncoder(**SMALL).fit(DATA.views).set_output(transform="pandas")
    loaded = load_model(save_model(encoder, tmp_path / "m.hotview"))
    assert isinstance(loaded.transform(DATA.views)["view_0"], pd.DataFrame)


def test_another_process_loads_the_same_bits_and_saves_the_same_bytes(tmp_path):
    model = classifier(n_estimators=2)
    path = save_model(model, tmp_path / "m.hotview")
    np.savez(tmp_path / "linked.npz", **DATA.linked)
    code = """
import sys
import numpy as np
import hotview as hv
model = hv.load(sys.argv[1] + "/m.hotview", device="cpu")
model.save(sys.argv[1] + "/again.hotview")
linked = dict(np.load(sys.argv[1] + "/linked.npz"))
np.save(sys.argv[1] + "/predicted.npy", model.predict_proba(linked))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    assert (tmp_path / "again.hotview").read_bytes() == path.read_bytes()
    predicted = np.load(tmp_path / "predicted.npy")
    np.testing.assert_array_equal(predicted, model.predict_proba(DATA.linked))


def test_a_view_whose_name_leads_elsewhere_is_not_even_fitted():
    with pytest.raises(ValueError, match="one that files can hold"):
        hv.MultiViewEncoder(**SMALL).fit({f"../{k}": X for k, X in DATA.views.items()})


def test_parameters_that_json_cannot_hold_are_refused(tmp_path):
    model = classifier(unlabeled_marker=pd.NA)
    with pytest.raises(TypeError, match="Expected the parameter unlabeled_marker to be what JSON"):
        save_model(model, tmp_path / "m.hotview")


@pytest.mark.parametrize(
    "change",
    (
        {"encoder_dim": 7},
        {"encoder_dim": 2},
        {"hidden": (3, 3)},
        {"max_epochs": -1},
        {"view_regularizer": "none"},
        {"coupling": hv.LSCCASpec(weight=-1)},
    ),
)
def test_parameters_that_were_changed_after_fit_are_refused(tmp_path, change):
    model = hv.MultiViewEncoder(**SMALL, device="cpu").fit(DATA.views)
    model.set_params(**change)
    with pytest.raises(ValueError, match="set after fit, set them back"):
        save_model(model, tmp_path / "m.hotview")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_devices_agree(tmp_path):
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=0)
    model = hv.MultiViewClassifier(random_state=0, device="cuda")
    model.fit(data.linked, data.target, unaligned=data.unaligned)
    path = save_model(model, tmp_path / "m.hotview")
    again, elsewhere = (load_model(path, device=device) for device in ("cuda", "cpu"))
    P = model.predict_proba(data.test)
    np.testing.assert_array_equal(again.predict_proba(data.test), P)
    np.testing.assert_allclose(elsewhere.predict_proba(data.test), P, atol=1e-5, rtol=0)
