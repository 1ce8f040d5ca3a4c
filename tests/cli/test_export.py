import json

import numpy as np
import pytest

import hotview as hv


@pytest.mark.slow  # seconds of tracing
def test_the_exported_model_predicts_the_same(hotview, model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    result = hotview("export", model, "--onnx", tmp_path / "m.onnx", code=None)
    if "needs a newer torch" in result.err:
        pytest.skip(result.err)
    loaded = hv.load(model)
    columns = loaded.columns_["blood"].to_json()["columns"]
    assert columns[-1] == ["sex", ["F", "M"]]
    rng = np.random.default_rng(0)
    Xs = {n: rng.normal(size=(7, c.n_columns)) for n, c in loaded.columns_.items()}
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["columns"])["blood"] == columns
    found = session.run(None, {i.name: Xs[i.name] for i in session.get_inputs()})[0]
    np.testing.assert_allclose(found, loaded.predict_proba(Xs), atol=1e-5)


def test_a_file_to_export_to_is_required(hotview, model, tmp_path):
    result = hotview("export", model, code=2)
    assert "--onnx" in result.err
    (tmp_path / "m.onnx").touch()
    assert "--force" in hotview("export", model, "--onnx", tmp_path / "m.onnx", code=1).err
