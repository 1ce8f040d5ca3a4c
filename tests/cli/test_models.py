import hashlib

import numpy as np
import pytest

import hotview as hv
from hotview.cli.models import (
    file_sha256,
    labeled_rows,
    open_model,
    read_evaluation_rows,
    read_training,
    read_training_dataset,
)
from hotview.persistence import load_model


def test_checksums_are_sha256(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 3_000_000)
    assert file_sha256(path) == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_a_model_stores_how_its_files_are_read(model):
    opened = open_model(model)
    assert (opened.preprocessing.id_column, opened.preprocessing.label_column) == ("id", "state")
    assert [c.name for c in opened.preprocessing.views["blood"].categorical] == ["sex"]
    assert open_model(model, id_column="who", label_column="y").preprocessing.id_column == "who"


def test_labels_are_found_by_id(model, study, new_files):
    opened = open_model(model)
    read = opened.read_input([str(path) for path in new_files], {})
    labels = opened.read_labels(read, str(study / "new-labels.csv"))
    rows = (study / "new-labels.csv").read_text().splitlines()[1:]
    assert labels == [row.split(",")[1].strip('"') for row in rows]


def test_labels_may_be_a_column_of_a_view(model, new_files, tmp_path):
    own = tmp_path / "scan.csv"
    rows = new_files[1].read_text().splitlines()
    own.write_text("\n".join([f'{rows[0]},"state"', *(f"{row},ill" for row in rows[1:])]) + "\n")
    opened = open_model(model)
    assert opened.read_labels(opened.read_input([str(own)], {}), None) == ["ill"] * 20
    with pytest.raises(ValueError, match="No view has a column 'state'"):
        opened.read_labels(opened.read_input([str(new_files[1])], {}), None)


def test_the_text_format_may_differ_from_the_fit(model, new_files, tmp_path):
    rows = new_files[1].read_text()
    (tmp_path / "scan.csv").write_text(rows.replace(",", ";").replace(".", ","))
    opened = open_model(model, text={"delimiter": ";", "decimal": ","})
    found = opened.read_input([str(tmp_path / "scan.csv")], {}).aligned
    expected = open_model(model).read_input([str(new_files[1])], {}).aligned
    np.testing.assert_array_equal(found.views["scan"], expected.views["scan"])


def test_invalid_metadata_raises(model, tmp_path):
    loaded = load_model(model)
    loaded.metadata_ = {"preprocessing": {"views": 7}}
    loaded.save(tmp_path / "m.hotview")
    with pytest.raises(ValueError, match="is not valid"):
        open_model(tmp_path / "m.hotview")


def test_new_rows_are_not_seen(model, study, new_files):
    rows = read_evaluation_rows(
        open_model(model), [str(f) for f in new_files], str(study / "new-labels.csv"), {}
    )
    assert not rows.seen
    assert rows.ids.tolist() == [f"n{i}" for i in range(20)]
    labeled = labeled_rows(rows)
    assert len(labeled.target) == len(labeled.views["scan"]) == 20


def test_training_files_are_found_only_unchanged(model):
    opened = open_model(model)
    assert read_training_dataset(opened).linked["blood"].shape[0] == 40
    training, notes = read_training(opened)
    assert (len(training["y"]), len(training["unaligned"]["scan"]), notes) == (40, 30, [])
    opened.estimator.metadata_["views"][0]["sha256"] = "0" * 64
    assert read_training_dataset(opened) is None
    training, (note,) = read_training(opened)
    assert training is None
    assert "Only the majority class is compared: the files of the fit are not here" in note


def test_training_files_are_read_with_their_own_columns(model):
    assert read_training_dataset(open_model(model, id_column="who", label_column="y")) is not None


def test_training_rows_are_recognized_by_id_in_other_files(model, files, tmp_path):
    opened = open_model(model)
    lines = files[1].read_text().splitlines()
    (tmp_path / "scan.csv").write_text("\n".join([lines[0], *lines[-40:]]) + "\n")  # other bytes
    rows = read_evaluation_rows(opened, [str(tmp_path / "scan.csv")], str(files[3]), {})
    assert rows.seen
    assert "trained on these rows" in rows.notes[-1]


@pytest.mark.parametrize("hashes", ("QUJDREVGR0g=", "?:?", 7, "QUJD:QUJD:QUJD"))
def test_hashes_of_ids_that_are_not_salted_are_refused(model, files, hashes):
    opened = open_model(model)
    opened.estimator.metadata_["trained_ids"] = hashes
    with pytest.raises(ValueError, match=r"\.hotview to hold the salted hashes of its ids"):
        read_evaluation_rows(opened, [str(files[1])], str(files[3]), {})


def test_training_rows_are_left_out_if_there_are_others(model, files, study, new_files, tmp_path):
    old, new = (path.read_text().splitlines() for path in (files[1], new_files[1]))
    (tmp_path / "scan.csv").write_text("\n".join([*old, *new[1:]]) + "\n")
    labels = [(study / name).read_text().splitlines() for name in ("labels.csv", "new-labels.csv")]
    (tmp_path / "labels.csv").write_text("\n".join([*labels[0], *labels[1][1:]]) + "\n")
    specs, table = [str(tmp_path / "scan.csv")], str(tmp_path / "labels.csv")
    rows = read_evaluation_rows(open_model(model), specs, table, {})
    assert not rows.seen
    assert set(labeled_rows(rows).ids) == {f"n{i}" for i in range(20)}
    assert "trained on 40 of these rows" in rows.notes[-1]


def test_rows_can_be_read_without_labels(model, new_files):
    rows = read_evaluation_rows(open_model(model), [str(f) for f in new_files], None, {})
    assert rows.target is None
    assert len(rows.ids) == 20


def test_labels_of_the_fit_belong_to_its_files(model, files):
    rows = read_evaluation_rows(open_model(model), [str(f) for f in files[:2]], None, {})
    assert rows.seen
    assert sum(label is not None for label in rows.target) == 40


def test_rows_without_a_label_are_left_out(model, study, new_files, tmp_path):
    few = tmp_path / "labels.csv"
    few.write_text("id,state\nn3,ill\nn7,\n")
    rows = read_evaluation_rows(open_model(model), [str(f) for f in new_files], str(few), {})
    labeled = labeled_rows(rows)
    assert (labeled.ids.tolist(), labeled.target.tolist()) == (["n3"], ["ill"])
    assert len(labeled.views["scan"]) == 1


def test_without_a_label_column_there_is_nothing_to_evaluate_on(tmp_path):
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(30, 3)), "b": rng.normal(size=(30, 2))}
    classifier = hv.MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    classifier.fit(views, rng.integers(0, 2, 30)).save(tmp_path / "m.hotview")
    np.save(tmp_path / "a.npy", views["a"])
    rows = read_evaluation_rows(
        open_model(tmp_path / "m.hotview"), [str(tmp_path / "a.npy")], None, {}
    )
    with pytest.raises(ValueError, match="--label-column"):
        labeled_rows(rows)


def test_formats_of_new_files_are_added_to_those_of_the_fit(model, tmp_path):
    loaded = load_model(model)
    stored = loaded.metadata_["preprocessing"]
    text = {"delimiter": {"blood": ";", "scan": "|"}, "decimal": ",", "header": True}
    loaded.metadata_ = {"preprocessing": {**stored, "text": text}}
    loaded.save(tmp_path / "m.hotview")
    new = {"delimiter": {"scan": ","}, "decimal": {"scan": "."}, "missing": ["?"]}
    found = open_model(tmp_path / "m.hotview", text=new).preprocessing.text
    assert found == {
        "delimiter": {"blood": ";", "scan": ","},
        "decimal": {"": ",", "scan": "."},
        "header": True,
        "missing": ["?"],
    }
    assert open_model(tmp_path / "m.hotview", text={"delimiter": "!"}).preprocessing.text == {
        **text,
        "delimiter": "!",
    }


@pytest.mark.parametrize("differences", (7, ["zero"], [3]))
def test_differences_that_hashes_cannot_ignore_are_refused(model, files, differences):
    opened = open_model(model)
    opened.estimator.metadata_["hashed_without"] = differences
    with pytest.raises(ValueError, match=r"\.hotview to hold the salted hashes of its ids"):
        read_evaluation_rows(opened, [str(files[1])], str(files[3]), {})
