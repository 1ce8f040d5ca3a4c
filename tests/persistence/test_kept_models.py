"""Models that were saved long ago can be loaded for ever, and say what they said."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import hotview as hv
from hotview._archive import read_archive
from hotview.persistence.models import _MODEL

MADE = runpy.run_path(str(Path(__file__).parent / "make_kept_models.py"))
MODELS, VERSIONS = MADE["MODELS"], (1, 2, 3, 4)


def test_every_format_is_kept():
    assert VERSIONS[-1] == _MODEL.version
    found = [read_archive(MODELS / f"classifier-{v}.hotview", _MODEL) for v in VERSIONS]
    assert tuple(archive.metadata["version"] for archive in found) == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_classifier_says_what_it_said(version):
    linked, target, _ = MADE["read_inputs"]()
    said = np.load(MODELS / f"said-{version}.npz", allow_pickle=False)
    model = hv.load(MODELS / f"classifier-{version}.hotview", device="cpu")
    np.testing.assert_allclose(model.predict_proba(linked), said["complete"], atol=1e-6)
    alone = model.predict_proba({"b": linked["b"]})
    np.testing.assert_allclose(alone, said["partial"], atol=1e-6)
    assert set(model.predict(linked)) <= set(model.classes_) == set(target)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_encoder_says_what_it_said(version):
    views = MADE["read_inputs"]()[2]
    said = np.load(MODELS / f"said-{version}.npz", allow_pickle=False)
    encoder = hv.load(MODELS / f"encoder-{version}.hotview", device="cpu")
    for name, Z in encoder.transform(views).items():
        np.testing.assert_allclose(Z, said[name], atol=1e-6)


def test_models_from_before_do_not_tell_what_they_were_trained_on():
    old = hv.load(MODELS / "classifier-3.hotview")
    assert (old.trained_on_, old.fit_warnings_, old.metadata_) == ({}, [], {})
    assert hv.load(MODELS / "classifier-4.hotview").trained_on_["linked"] == 40


def test_a_model_of_an_older_format_is_saved_in_the_newest(tmp_path):
    linked = MADE["read_inputs"]()[0]
    old = hv.load(MODELS / "classifier-1.hotview", device="cpu")
    new = hv.load(old.save(tmp_path / "new.hotview"), device="cpu")
    np.testing.assert_array_equal(new.predict_proba(linked), old.predict_proba(linked))
