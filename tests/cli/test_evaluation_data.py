import numpy as np
import pytest

import hotview as hv
from hotview.cli.evaluation_data import labeled, read_judged, training_study
from hotview.cli.models import open_model


def test_new_rows_were_not_seen(model, study, new_files):
    judged = read_judged(
        open_model(model), [str(f) for f in new_files], str(study / "new-labels.csv"), {}
    )
    assert not judged.seen
    assert judged.ids.tolist() == [f"n{i}" for i in range(20)]
    views, target, _ = labeled(judged)
    assert len(target) == len(views["scan"]) == 20


def test_training_files_are_found_only_unchanged(model):
    opened = open_model(model)
    assert training_study(opened).linked["blood"].shape[0] == 40
    opened.estimator.metadata_["views"][0]["sha256"] = "0" * 64
    assert training_study(opened) is None


def test_training_files_are_read_with_their_own_columns(model):
    assert training_study(open_model(model, id_column="who", label_column="y")) is not None


def test_rows_trained_on_are_known_by_their_ids_wherever_they_are(model, files, tmp_path):
    opened = open_model(model)
    rows = files[1].read_text().splitlines()
    (tmp_path / "scan.csv").write_text("\n".join([rows[0], *rows[-40:]]) + "\n")  # other bytes
    judged = read_judged(opened, [str(tmp_path / "scan.csv")], str(files[3]), {})
    assert judged.seen
    assert "trained on these very rows" in judged.remarks[-1]


def test_rows_trained_on_do_not_count_beside_others(model, files, study, new_files, tmp_path):
    old, new = (path.read_text().splitlines() for path in (files[1], new_files[1]))
    (tmp_path / "scan.csv").write_text("\n".join([*old, *new[1:]]) + "\n")
    labels = [(study / name).read_text().splitlines() for name in ("labels.csv", "new-labels.csv")]
    (tmp_path / "labels.csv").write_text("\n".join([*labels[0], *labels[1][1:]]) + "\n")
    specs, table = [str(tmp_path / "scan.csv")], str(tmp_path / "labels.csv")
    judged = read_judged(open_model(model), specs, table, {})
    assert not judged.seen
    assert set(labeled(judged)[2]) == {f"n{i}" for i in range(20)}
    assert "trained on 40 of these rows" in judged.remarks[-1]


def test_without_labels_rows_can_still_be_looked_at(model, new_files):
    judged = read_judged(open_model(model), [str(f) for f in new_files], None, {})
    assert judged.target is None
    assert len(judged.ids) == 20


def test_labels_of_the_fit_belong_to_its_files(model, files):
    judged = read_judged(open_model(model), [str(f) for f in files[:2]], None, {})
    assert judged.seen
    assert sum(label is not None for label in judged.target) == 40


def test_rows_without_a_label_are_not_judged(model, study, new_files, tmp_path):
    few = tmp_path / "labels.csv"
    few.write_text("id,state\nn3,ill\nn7,\n")
    judged = read_judged(open_model(model), [str(f) for f in new_files], str(few), {})
    views, target, ids = labeled(judged)
    assert (ids.tolist(), target.tolist()) == (["n3"], ["ill"])
    assert len(views["scan"]) == 1


def test_without_a_column_of_labels_there_is_nothing_to_judge_by(tmp_path):
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(30, 3)), "b": rng.normal(size=(30, 2))}
    classifier = hv.MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    classifier.fit(views, rng.integers(0, 2, 30)).save(tmp_path / "m.hotview")
    np.save(tmp_path / "a.npy", views["a"])
    judged = read_judged(open_model(tmp_path / "m.hotview"), [str(tmp_path / "a.npy")], None, {})
    with pytest.raises(ValueError, match="--label-column"):
        labeled(judged)
