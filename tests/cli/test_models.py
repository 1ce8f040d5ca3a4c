import hashlib

import numpy as np
import pytest

from hotview.cli.models import fingerprint, open_model
from hotview.persistence import load_model


def test_a_fingerprint_is_that_of_the_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 3_000_000)
    assert fingerprint(path) == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_a_model_knows_how_its_files_are_read(model):
    opened = open_model(model)
    assert (opened.recipe.id_column, opened.recipe.label_column) == ("id", "state")
    assert [c.name for c in opened.recipe.views["blood"].categorical] == ["sex"]
    assert open_model(model, id_column="who", label_column="y").recipe.id_column == "who"


def test_labels_are_found_by_id(model, study, new_files):
    opened = open_model(model)
    read = opened.read_people([str(path) for path in new_files], {})
    labels = opened.read_labels(read, str(study / "new-labels.csv"))
    rows = (study / "new-labels.csv").read_text().splitlines()[1:]
    assert labels == [row.split(",")[1].strip('"') for row in rows]


def test_labels_may_stand_in_a_view(model, new_files, tmp_path):
    own = tmp_path / "scan.csv"
    rows = new_files[1].read_text().splitlines()
    own.write_text("\n".join([f'{rows[0]},"state"', *(f"{row},ill" for row in rows[1:])]) + "\n")
    opened = open_model(model)
    assert opened.read_labels(opened.read_people([str(own)], {}), None) == ["ill"] * 20
    with pytest.raises(ValueError, match="No view has a column 'state'"):
        opened.read_labels(opened.read_people([str(new_files[1])], {}), None)


def test_files_may_be_written_otherwise_than_those_of_the_fit(model, new_files, tmp_path):
    rows = new_files[1].read_text()
    (tmp_path / "scan.csv").write_text(rows.replace(",", ";").replace(".", ","))
    written = {"delimiter": ";", "decimal": ","}
    opened = open_model(model, text=written)
    found = opened.read_people([str(tmp_path / "scan.csv")], {}).people
    expected = open_model(model).read_people([str(new_files[1])], {}).people
    np.testing.assert_array_equal(found.views["scan"], expected.views["scan"])


def test_notes_that_make_no_sense_are_refused(model, tmp_path):
    loaded = load_model(model)
    loaded.metadata_ = {"recipe": {"views": 7}}
    loaded.save(tmp_path / "m.hotview")
    with pytest.raises(ValueError, match="cannot be understood"):
        open_model(tmp_path / "m.hotview")
