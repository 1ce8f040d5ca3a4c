import numpy as np
import pytest

import hotview as hv


def test_the_exported_model_predicts_the_same(hotview, model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    result = hotview("export", model, "--onnx", tmp_path / "m.onnx")
    if "needs a newer torch" in result.err:
        pytest.skip(result.err)
    assert result.code == 0, result.err
    loaded = hv.load(model)
    rng = np.random.default_rng(0)
    Xs = {n: rng.normal(size=(7, w)) for n, w in loaded.n_features_per_view_.items()}
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    found = session.run(None, {i.name: Xs[i.name] for i in session.get_inputs()})[0]
    np.testing.assert_allclose(found, loaded.predict_proba(Xs), atol=1e-5)


def test_a_file_to_export_to_is_required(hotview, model, tmp_path):
    result = hotview("export", model)
    assert result.code == 2
    assert "--onnx" in result.err
    (tmp_path / "m.onnx").touch()
    assert "--force" in hotview("export", model, "--onnx", tmp_path / "m.onnx").err
