"""Models that were saved by an earlier hotview can be loaded, with the same outputs."""

import runpy
from pathlib import Path

import numpy as np

import hotview as hv
from hotview._archive import read_archive
from hotview.persistence.models import _MODEL

MADE = runpy.run_path(str(Path(__file__).parent / "make_kept_models.py"))
MODELS = MADE["MODELS"]
OUTPUTS = np.load(MODELS / "outputs.npz", allow_pickle=False)


def test_kept_models_are_of_the_current_format():
    archive = read_archive(MODELS / "classifier.hotview", _MODEL)
    assert archive.metadata["version"] == _MODEL.version


def test_a_kept_classifier_has_the_same_outputs():
    linked, target, _ = MADE["read_inputs"]()
    model = hv.load(MODELS / "classifier.hotview", device="cpu")
    np.testing.assert_allclose(model.predict_proba(linked), OUTPUTS["complete"], atol=1e-6)
    alone = model.predict_proba({"b": linked["b"]})
    np.testing.assert_allclose(alone, OUTPUTS["partial"], atol=1e-6)
    assert set(model.predict(linked)) <= set(model.classes_) == set(target)
    assert model.trained_on_["linked"] == 40


def test_a_kept_encoder_has_the_same_outputs():
    encoder = hv.load(MODELS / "encoder.hotview", device="cpu")
    for name, Z in encoder.transform(MADE["read_inputs"]()[2]).items():
        np.testing.assert_allclose(Z, OUTPUTS[name], atol=1e-6)
    assert repr(encoder.coupling) == "HOTReferenceSpec(n_projections=6, n_references=2)"
