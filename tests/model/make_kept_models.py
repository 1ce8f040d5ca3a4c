"""Make the models in tests/data/models: small ones of the current format, and their outputs.

    python tests/model/make_kept_models.py

Run it only when the format changes: files of this format must be readable until then.
"""

import warnings
from pathlib import Path

import numpy as np

import hotview as hv

MODELS = Path(__file__).parent.parent / "data" / "models"


def read_inputs():
    """Linked rows, their classes, and unaligned rows, of three views."""
    inputs = np.load(MODELS / "inputs.npz", allow_pickle=False)
    linked = {name: inputs[f"linked.{name}"] for name in "abc"}
    return linked, inputs["target"], {name: inputs[f"unaligned.{name}"] for name in "abc"}


def make_inputs():
    random = np.random.default_rng(0)
    target = np.arange(80) % 3
    Z = random.normal(size=(80, 3)) + 2 * np.eye(3)[target]
    arrays = {"target": target[:40]}
    for name in "abc":
        X = Z @ random.normal(size=(3, 5)) + 0.3 * random.normal(size=(80, 5))
        arrays[f"linked.{name}"] = X[:40].astype(np.float32)
        arrays[f"unaligned.{name}"] = X[random.permutation(np.arange(40, 80))].astype(np.float32)
    np.savez(MODELS / "inputs.npz", **arrays)


def make_models():
    linked, target, unaligned = read_inputs()
    small = {"hidden": (6,), "encoder_dim": 4, "n_components": 3, "max_epochs": 3}
    small |= {"random_state": 0, "device": "cpu", "n_estimators": 2}
    classifier = hv.MultiViewClassifier(**small).fit(linked, target, unaligned=unaligned)
    classifier.save(MODELS / "classifier.hotview")
    spec = hv.HOTReferenceSpec(n_references=2, n_projections=6)
    encoder = hv.MultiViewEncoder(spec, **small).fit(unaligned)
    encoder.save(MODELS / "encoder.hotview")
    np.savez(
        MODELS / "outputs.npz",
        complete=classifier.predict_proba(linked),
        partial=classifier.predict_proba({"b": linked["b"]}),
        **encoder.transform(unaligned),
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if not (MODELS / "inputs.npz").exists():
        make_inputs()
    make_models()
