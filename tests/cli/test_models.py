import hashlib

import pytest

from hotview.cli.models import fingerprint, open_model


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
    specs = [str(path) for path in new_files]
    people = opened.read_people(specs, {}).people
    labels = opened.read_labels(people, specs, str(study / "new-labels.csv"))
    rows = (study / "new-labels.csv").read_text().splitlines()[1:]
    assert labels == [row.split(",")[1].strip('"') for row in rows]


def test_labels_may_stand_in_a_view(model, new_files, tmp_path):
    own = tmp_path / "scan.csv"
    rows = new_files[1].read_text().splitlines()
    own.write_text("\n".join([f'{rows[0]},"state"', *(f"{row},ill" for row in rows[1:])]) + "\n")
    opened = open_model(model)
    people = opened.read_people([str(own)], {}).people
    assert opened.read_labels(people, [str(own)], None) == ["ill"] * 20
    with pytest.raises(ValueError, match="No view has a column 'state'"):
        opened.read_labels(people, [str(new_files[1])], None)
