"""What is the same before and after a model is saved, and what is not saved at all."""

import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.datasets import load_handwritten, make_views, unalign
from hotview.losses.specifications import Specification
from hotview.model import load_model, save_model
from hotview.model.files import _MODEL

DATA = make_views(60, n_views=4, labeled=0.5, random_state=0)
SMALL = {"hidden": (8,), "encoder_dim": 4, "n_components": 3, "max_epochs": 2, "random_state": 0}
SMALL |= {"n_estimators": 1, "device": "cpu"}


def classifier(**parameters):
    model = hv.MultiViewClassifier(**{**SMALL, **parameters})
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


def reload(model, folder, **own):
    return load_model(save_model(model, folder / "m.hotview"), device="cpu", **own)


def parameters_of(model):
    """Saved parameters, specifications by their text."""
    parameters = {
        k: v for k, v in model.get_params().items() if k not in ("random_state", "device")
    }
    return {k: repr(v) if isinstance(v, Specification) else v for k, v in parameters.items()}


def assert_same_predictions(loaded, model, linked=DATA.linked):
    for views in (linked, {"view_1": linked["view_1"]}):
        np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))


KINDS = {
    "members without a plan": {
        **{"n_estimators": 2, "coupling": "none", "view_regularizer": "none"},
        "fusion": "average",
    },
    "pairwise": {
        **{"coupling": "hot-pairwise", "view_regularizer": "autoencoder", "impute": "mean"},
        **{"hidden": dict.fromkeys(DATA.views, (8,)), "preprocessing": "none"},
    },
    "weights": {
        "class_weight": {0: 1.0, 1: 2.0, 2: 1.0, 3: 1.0},
        "class_prior": {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4},
        "coupling": hv.HOTReferenceSpec(n_references=2, orthogonality_weight=float("inf")),
    },
    "weighted heads": {
        **{"pseudo_labels": False, "n_estimators": 3, "view_regularizer": "diffusion"}
    },
}


def assert_same_classifier(loaded, model, linked=DATA.linked):
    assert_same_predictions(loaded, model, linked)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert parameters_of(loaded) == parameters_of(model)
    for name in ("histories_", "history_", "view_names_", "trained_on_"):
        assert getattr(loaded, name) == getattr(model, name), name
    assert (loaded.plan_ is None) == (model.plan_ is None)
    if model.plan_ is not None:
        for name in ("W", "C", "f", "g", "std", "n_iter", "pairwise"):
            np.testing.assert_array_equal(getattr(loaded.plan_, name), getattr(model.plan_, name))
        assert np.array_equal(loaded.plan_.null.C, model.plan_.null.C)
        assert loaded.plan_.null.p_value == model.plan_.null.p_value
        for name in ("value", "low", "high", "p_value", "n_rows"):
            kept, found = (getattr(m.view_similarity_, name) for m in (model, loaded))
            np.testing.assert_array_equal(found, kept)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_classifier_predicts_the_same_bits(tmp_path, kind):
    model = classifier(**KINDS[kind])
    assert_same_classifier(reload(model, tmp_path), model)


def test_a_model_of_members_predicts_the_same_bits_and_is_saved_in_the_same_bytes(
    fitted, saved, tmp_path
):
    views = make_views(60, n_views=3, labeled=0.5, random_state=0)
    loaded = load_model(saved, device="cpu")
    assert_same_classifier(loaded, fitted, views.linked)
    for model in (fitted, loaded):
        assert save_model(model, tmp_path / "m.hotview").read_bytes() == saved.read_bytes()
    loaded.references_[:] += 1  # arrays can be written to
    stored = read_archive(saved, _MODEL).tensors  # in half the space where numbers stay the same
    for name in (
        "networks.1.encoders.0.0.weight",
        "model.learner.predictors.views.0.neighbors.points",
    ):
        assert stored[name].dtype == torch.float16
    assert (
        stored["model.learner.predictors.views.0.neighbors.coordinates.columns"].dtype
        == torch.float32
    )


def test_a_model_without_a_joint_predictor_predicts_the_same_bits(tmp_path):
    known = DATA.linked_target > 0  # a class is known to one view alone
    model = hv.MultiViewClassifier(**SMALL)
    with pytest.warns(UserWarning, match="have no linked row with a label"):
        model.fit(
            {name: X[known] for name, X in DATA.linked.items()},
            DATA.linked_target[known],
            unaligned=DATA.views,
            unaligned_y={"view_1": DATA.target["view_1"]},
        )
    assert_same_predictions(reload(model, tmp_path), model)


@pytest.mark.parametrize("labels", (np.array(["a", "ç"], dtype="U20"), np.uint8([3, 4])))
def test_classes_keep_their_kind_and_columns_their_names(tmp_path, labels):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 3))).add_prefix("c")
    y = labels[np.arange(12) % 2]
    model = hv.MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    model.fit([X, X], y)
    loaded = reload(model, tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict([X, X]).tolist() == model.predict([X, X]).tolist()
    with pytest.raises(ValueError, match="it has no column 'c0'"):
        loaded.predict([X.rename(columns={"c0": "x"}), X])


@pytest.mark.filterwarnings("ignore:Rows of different views may not:UserWarning")
def test_an_encoder_its_settings_and_its_container_survive(tmp_path):
    coupling = hv.HOTReferenceSpec(np.float64(0.5), n_projections=np.int64(6))
    model = hv.MultiViewEncoder(coupling, hv.ManifoldSpec(0.2), **SMALL).fit(DATA.views)
    path = model.set_output(transform="pandas").save(tmp_path / "m.hotview")
    loaded = hv.load(path, device="cpu")
    for name, Z in model.transform(DATA.views, space="common").items():
        pd.testing.assert_frame_equal(loaded.transform(DATA.views, space="common")[name], Z)
    np.testing.assert_array_equal(loaded.references_, model.references_)
    assert repr(loaded.coupling) == "HOTReferenceSpec(n_projections=6, weight=0.5)"
    assert repr(loaded.view_regularizer) == "ManifoldSpec(weight=0.2)"
    assert loaded.view_similarity_ is model.view_similarity_ is None


def test_imputation_by_view_is_saved_to_the_last_bit(tmp_path):
    views = {name: X.astype(np.float64) for name, X in DATA.linked.items()}
    random = np.random.default_rng(0)
    views["view_1"] = views["view_1"] @ random.normal(size=(20, 300))  # reduced to components
    for name in ("view_0", "view_1", "view_2"):
        views[name][random.random(views[name].shape) < 0.02] = np.nan
    methods = {"view_0": "median+indicator", "view_1": "median+indicator", "view_2": "mean"}
    model = hv.MultiViewClassifier(**{**SMALL, "impute": methods})
    model.fit(views, DATA.linked_target)
    loaded = reload(model, tmp_path)
    assert loaded.impute == methods
    assert (loaded.preprocessing_, loaded.trained_on_) == (model.preprocessing_, model.trained_on_)
    np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))
    again = save_model(loaded, tmp_path / "again.hotview")
    assert again.read_bytes() == (tmp_path / "m.hotview").read_bytes()
    model.impute = "mean"
    with pytest.raises(ValueError, match=r"'impute' cannot be 'mean'.*set them back"):
        model.save(tmp_path / "m.hotview")


class OwnSpec(hv.HOTReferenceSpec):
    """A coupling that hotview does not have."""


class OwnDecodingSpec(hv.RegularizerSpec):
    needs_decoders = True

    def build(self):
        return hv.AutoencoderSpec().build()


def test_specifications_of_the_users_own_must_be_passed_again(tmp_path, saved):
    own = {"coupling": OwnSpec(0.2), "view_regularizer": OwnDecodingSpec(0.1)}
    model = hv.MultiViewEncoder(*own.values(), **SMALL).fit(DATA.views)
    path = model.save(tmp_path / "m.hotview")
    for file, given, problem in (
        (path, {}, r"coupling to be a OwnSpec.*coupling=OwnSpec\(\.\.\.\)"),
        (path, {"coupling": OwnSpec()}, "view_regularizer to be a OwnDecodingSpec, as at"),
        (saved, {"coupling": OwnSpec()}, "coupling to be None, as at fit, but it is OwnSp"),
    ):
        with pytest.raises(ValueError, match=f"Expected {problem}"):
            hv.load(file, **given)
    loaded = hv.load(path, device="cpu", **own)
    assert {name: getattr(loaded, name) for name in own} == own
    for name, Z in model.transform(DATA.views).items():
        np.testing.assert_array_equal(loaded.transform(DATA.views)[name], Z)
    np.testing.assert_array_equal(loaded.references_, model.references_)
    assert np.array_equal(loaded.plan_.W, model.plan_.W)


#: numbers of float32 that float16 has, and such that it has not
NARROW = (0.5, -3.0, 65504.0, 2.0**-24, -0.0)
WIDE = (0.1, 65520.0, 2.0**-25, 1 + 2.0**-11)


class OfDtype(torch.nn.Module):
    """An encoder whose weights have any precision, and whose features have that of float32."""

    def __init__(self, dtype, *, trained):
        super().__init__()
        weight = torch.randn(20, 5, dtype=torch.float64).to(dtype)
        self.weight = torch.nn.Parameter(weight, requires_grad=trained)
        for i, number in enumerate((*NARROW, *WIDE)):
            self.register_buffer(f"extra_{i}", torch.tensor([1.0, number]))
        self.register_buffer("none", torch.empty(0))

    def forward(self, X):
        return X @ self.weight.float()


def encoders_of_all_precisions():
    dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    return {
        f"view_{s}": OfDtype(dtype, trained=dtype.itemsize > 2) for s, dtype in enumerate(dtypes)
    }


def test_encoders_of_the_users_own_keep_their_weights(tmp_path):
    model = classifier(encoders=encoders_of_all_precisions())
    loaded = reload(model, tmp_path, encoders=encoders_of_all_precisions())
    before, after = (m.network_.encoders.state_dict() for m in (model, loaded))
    assert before.keys() == after.keys()
    for name, x in before.items():  # the same bits
        assert after[name].dtype == x.dtype
        assert torch.equal(*(y.contiguous().view(torch.uint8) for y in (after[name], x)))
    for name in ("0.weight", "1.weight"):  # and are not rounded
        assert not torch.equal(before[name].half().to(before[name].dtype), before[name])
    assert_same_predictions(loaded, model)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(20, 20), torch.nn.Linear(20, 20)
        self.last.weight = self.first.weight

    def forward(self, X):
        return self.last(self.first(X))


def test_encoders_of_the_users_own_must_be_passed_again(tmp_path):
    def own():
        return {"view_0": Tied(), "view_2": torch.nn.Linear(20, 5)}

    model = classifier(encoders=own(), hidden=(np.int64(8),))
    path = save_model(model, tmp_path / "m.hotview")
    assert_same_predictions(load_model(path, device="cpu", encoders=own()), model)
    with pytest.raises(ValueError, match=r"views \['view_0', 'view_2'\].*given for \[\]"):
        load_model(path)
    with pytest.raises(ValueError, match=r"parts do not fit.*pass the same modules"):
        load_model(path, encoders=own() | {"view_0": torch.nn.Linear(20, 3)})
    archive = read_archive(path, _MODEL)
    archive.tensors["networks.0.encoders.2.weight"][0, 0] = torch.nan
    write_archive(path, _MODEL, archive.tensors, archive.metadata)
    broken = load_model(path, device="cpu", encoders=own())
    for predict in (broken.predict_proba, broken.transform):
        with pytest.raises(ValueError, match=r"weights of the model are so large, or not finite"):
            predict(DATA.linked)


def test_notes_survive_and_what_json_cannot_hold_is_refused(saved, tmp_path):
    model = load_model(saved)
    model.metadata_ = {"columns": {"view_0": ["a", None, 1.5]}, "ok": True}
    model.fit_warnings_ = ["careful"]
    loaded = reload(model, tmp_path)
    assert loaded.metadata_ == model.metadata_
    assert loaded.fit_warnings_ == ["careful"]
    before = (tmp_path / "m.hotview").read_bytes()
    values = ((1, 2), np.array(1), np.float64("inf"), {1: 2}, {1, 2}, b"x", {"a": [object()]})
    for value in values:
        model.metadata_["mine"] = value
        with pytest.raises(TypeError, match=r"Expected metadata_\['mine'\].*JSON can hold"):
            save_model(model, tmp_path / "m.hotview")
    model = load_model(saved).set_params(unlabeled_marker=pd.NA)
    with pytest.raises(TypeError, match="Expected the parameter unlabeled_marker to be what JSON"):
        save_model(model, tmp_path / "m.hotview")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_parameters_that_were_changed_after_fit_are_refused(saved, tmp_path):
    changes = {"encoder_dim": 7, "hidden": (3, 3), "max_epochs": -1}
    changes |= {"view_regularizer": "autoencoder", "coupling": hv.LSCCASpec(weight=-1)}
    for name, value in changes.items():
        model = load_model(saved).set_params(**{name: value})
        with pytest.raises(ValueError, match="set after fit, set them back"):
            save_model(model, tmp_path / "m.hotview")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_loaded_again_is_not_saved(fitted, tmp_path):
    class Own(hv.MultiViewEncoder):
        pass

    with pytest.raises(NotFittedError):
        save_model(hv.MultiViewEncoder(), tmp_path / "m.hotview")
    with pytest.raises(ValueError, match=r"must end in \.hotview"):
        save_model(fitted, tmp_path / "model.pkl")
    with pytest.raises(TypeError, match=r"but got Own\. Save the estimator inside"):
        save_model(Own(), tmp_path / "m.hotview")
    with pytest.raises(ValueError, match="one that files can hold"):
        hv.MultiViewEncoder(**SMALL).fit({f"../{k}": X for k, X in DATA.views.items()})
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_or_truncated_file_is_refused(saved, tmp_path):
    path = tmp_path / "m.hotview"
    for content in (b"", b"\x80\x04\x95garbage", bytes(100), saved.read_bytes()[:-100]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="a model that hotview saved, but it cannot be read"):
            load_model(path)


def test_other_formats_are_refused(tmp_path):
    path = tmp_path / "m.hotview"
    current = "and this hotview reads format 12"
    for format, problem in (
        ({"format": "other"}, "but it has another format"),
        ({"format": "hotview model", "version": 99}, rf"is 99, {current}\. Update hotview"),
        ({"format": "hotview model", "version": 11}, rf"is 11, {current}\. Fit the model again"),
    ):
        save_file({"a": torch.zeros(1)}, path, {"hotview": json.dumps(format)})
        with pytest.raises(ValueError, match=problem):
            load_model(path)


MADE = runpy.run_path(str(Path(__file__).parent / "make_kept_models.py"))
OUTPUTS = np.load(MADE["MODELS"] / "outputs.npz", allow_pickle=False)


def test_models_of_an_earlier_version_have_the_same_outputs():
    path = MADE["MODELS"] / "classifier.hotview"
    assert read_archive(path, _MODEL).metadata["version"] == _MODEL.version
    linked, target, unaligned = MADE["read_inputs"]()
    model = hv.load(path, device="cpu")
    np.testing.assert_allclose(model.predict_proba(linked), OUTPUTS["complete"], atol=1e-6)
    alone = model.predict_proba({"b": linked["b"]})
    np.testing.assert_allclose(alone, OUTPUTS["partial"], atol=1e-6)
    assert set(model.predict(linked)) <= set(model.classes_) == set(target)
    assert model.trained_on_["linked"] == 40
    encoder = hv.load(MADE["MODELS"] / "encoder.hotview", device="cpu")
    for name, Z in encoder.transform(unaligned).items():
        np.testing.assert_allclose(Z, OUTPUTS[name], atol=1e-6)
    assert repr(encoder.coupling) == "HOTReferenceSpec(n_projections=6, n_references=2)"


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
