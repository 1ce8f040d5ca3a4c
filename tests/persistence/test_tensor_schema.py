import pytest
import torch

from hotview._archive import read_archive
from hotview.persistence.deserialize import make_estimator
from hotview.persistence.models import _MODEL
from hotview.persistence.tensor_schema import check_layout


def test_every_tensor_is_needed_and_of_one_shape(saved):
    archive = read_archive(saved, _MODEL)
    tensors, estimator = archive.tensors, make_estimator(archive.facts, "cpu")
    assert len(tensors) > 60
    for name in tensors:
        if not name.endswith("mask") and name != "references":
            less = {k: x for k, x in tensors.items() if k != name}
            with pytest.raises(ValueError, match="it lacks"):
                check_layout(less, archive.facts, estimator)
        other = {**tensors, name: torch.zeros(1, 1, 1, 2)}
        with pytest.raises(ValueError, match=r"'.*should be"):
            check_layout(other, archive.facts, estimator)


def test_kinds_of_numbers_are_checked(load_changed):
    def change(tensors, facts):
        tensors["network.maps.0.weight"] = tensors["network.maps.0.weight"].to(torch.int64)

    with pytest.raises(ValueError, match=r"maps\.0\.weight' should be 3 × 4, but is \[3, 4\] of"):
        load_changed(change)


def test_what_nobody_needs_is_refused(load_changed):
    with pytest.raises(ValueError, match="nobody needs its 'network_more'"):
        load_changed(lambda tensors, facts: tensors.update({"network_more": torch.zeros(1)}))


@pytest.mark.parametrize("name", ("network.maps.0.weight", "replica.1.knn.0.points"))
def test_numbers_that_are_not_finite_are_refused(load_changed, name):
    with pytest.raises(ValueError, match=f"'{name}' holds numbers that are not finite"):
        load_changed(lambda tensors, facts: tensors[name].fill_(torch.nan))


def test_every_view_has_points(load_changed):
    def change(tensors, facts):
        for part in ("points", "soft_labels"):
            tensors[f"knn.1.{part}"] = tensors[f"knn.1.{part}"][:0]

    with pytest.raises(ValueError, match="view 'view_1' has no nearest-neighbor points"):
        load_changed(change)
