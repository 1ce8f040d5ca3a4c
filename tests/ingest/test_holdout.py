import numpy as np
import pytest

from hotview.ingest.dataset import Files, read_study
from hotview.ingest.holdout import hold_out, keep_linked

BOTH = ("blood.csv", "scan.csv")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def study(folder):
    rows = "\n".join(f"p{i},{i},{'ab'[i % 3 == 0]}" for i in range(60))
    (folder / "blood.csv").write_text(f"id,iron,y\n{rows}\n")
    (folder / "scan.csv").write_text(f"id,size,y\n{rows}\n")
    return read_study(Files(BOTH, label_column="y", id_column="id"))


def test_a_share_of_every_class_is_left_out_of_training(study):
    held = hold_out(study, 0.25)
    assert sorted(held.target.tolist()) == ["a"] * 10 + ["b"] * 5
    assert set(held.ids) | set(held.study.ids) == set(study.ids)
    assert not set(held.ids) & set(held.study.ids)
    np.testing.assert_array_equal(held.views["scan"][:, 0], [int(i[1:]) for i in held.ids])
    np.testing.assert_array_equal(
        held.study.linked["blood"][:, 0], [int(i[1:]) for i in held.study.ids]
    )


def test_it_depends_on_nothing_but_the_ids(study, folder):
    rows = (folder / "blood.csv").read_text().splitlines()
    (folder / "blood.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    again = read_study(Files(BOTH, label_column="y", id_column="id"))
    assert set(hold_out(again, 0.25).ids) == set(hold_out(study, 0.25).ids)


def test_nothing_to_hold_out_is_refused(study):
    with pytest.raises(ValueError, match="Hold out a larger share"):
        hold_out(study, 0.001)


def test_every_class_keeps_a_row_to_learn_from(study):
    held = hold_out(study, 0.99)
    assert sorted(held.study.target.tolist()) == ["a", "b"]


def test_linked_rows_can_be_kept_alone(study, folder):
    rows = (folder / "scan.csv").read_text()
    (folder / "scan.csv").write_text(f"{rows}zoe,1,a\n")
    kept = keep_linked(read_study(Files(BOTH, label_column="y", id_column="id")))
    assert (kept.unaligned, kept.unaligned_target, kept.unaligned_ids) == ({}, {}, {})
    assert len(kept.rows["scan"]) == len(kept.ids) == 60
    with pytest.raises(ValueError, match="--linked-only leaves nothing"):
        keep_linked(read_study(Files(BOTH, drop=["id", "y"])))
