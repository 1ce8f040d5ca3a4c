import pytest

from hotview.cli.models import (
    labeled_rows,
    open_model,
    read_evaluation_rows,
    read_training,
    read_training_dataset,
)
from hotview.persistence import load_model


def test_labels_may_be_a_column_of_a_view(model, new_files, tmp_path):
    own = tmp_path / "scan.csv"
    rows = new_files[1].read_text().splitlines()
    own.write_text("\n".join([f'{rows[0]},"state"', *(f"{row},ill" for row in rows[1:])]) + "\n")
    opened = open_model(model)
    assert opened.read_labels(opened.read_input([str(own)], {}), None) == ["ill"] * 20
    with pytest.raises(ValueError, match="No view has a column 'state'"):
        opened.read_labels(opened.read_input([str(new_files[1])], {}), None)


def test_invalid_metadata_raises(model, tmp_path):
    loaded = load_model(model)
    loaded.metadata_ = {"preprocessing": {"views": 7}}
    loaded.save(tmp_path / "m.hotview")
    with pytest.raises(ValueError, match="is not valid"):
        open_model(tmp_path / "m.hotview")


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


def test_files_of_the_fit_are_found_only_unchanged(model, files):
    opened = open_model(model, id_column="who", label_column="y")  # which are of new files
    assert read_training_dataset(opened).linked["blood"].shape[0] == 40
    training, notes = read_training(opened)
    assert (len(training["y"]), len(training["unaligned"]["scan"]), notes) == (40, 30, [])
    rows = read_evaluation_rows(open_model(model), [str(f) for f in files[:2]], None, {})
    assert rows.seen
    assert sum(label is not None for label in rows.target) == 40  # by the labels of the fit
    opened.estimator.metadata_["views"][0]["sha256"] = "0" * 64
    assert read_training_dataset(opened) is None
    training, (note,) = read_training(opened)
    assert training is None
    assert "Only the majority class is compared: the files of the fit are not here" in note


@pytest.mark.parametrize(
    "changed",
    (
        *({"trained_ids": hashes} for hashes in ("QUJDREVGR0g=", "?:?", 7, "QUJD:QUJD:QUJD")),
        *({"hashed_without": differences} for differences in (7, ["zero"], [3])),
    ),
)
def test_hashes_of_ids_that_are_not_valid_are_refused(model, files, changed):
    opened = open_model(model)
    opened.estimator.metadata_.update(changed)
    with pytest.raises(ValueError, match=r"\.hotview to hold the salted hashes of its ids"):
        read_evaluation_rows(opened, [str(files[1])], str(files[3]), {})
