import pyarrow.csv
import pytest

from hotview import MultiViewClassifier
from hotview.cli.demo import (
    compare,
    load_digits,
    write_sample_files,
)
from hotview.datasets import link_rows


@pytest.fixture(scope="module")
def comparison():
    return compare(load_digits(0), 0)


def test_the_digits_are_split_as_in_the_paper():
    data = load_digits(0)
    assert len(data.target) == 60
    assert {len(X) for X in data.unaligned.values()} == {1140}
    assert len(data.test_target) == 400


def test_baselines_control_and_default_are_scored_on_the_same_rows(comparison):
    assert len(comparison.accuracies) == 5
    assert 'hotview, coupling="none"' in comparison.accuracies
    assert all(0.75 < accuracy <= 1 for accuracy in comparison.accuracies.values())
    data = load_digits(0)
    accuracy = comparison.classifier.score(data.test, data.test_target)
    assert comparison.accuracies["hotview, default"] == accuracy
    assert accuracy > comparison.accuracies["PCA in each view + logistic regression"]


def test_the_classifier_shown_is_the_default(comparison):
    changed = {"random_state", "verbose"}
    default = MultiViewClassifier().get_params()
    shown = comparison.classifier.get_params()
    assert {k: v for k, v in shown.items() if k not in changed} == {
        k: v for k, v in default.items() if k not in changed
    }


def test_linked_rows_say_which_views_are_similar(comparison):
    similarity = comparison.classifier.view_similarity_
    names = comparison.classifier.view_names_
    pix, fac, mor = (names.index(name) for name in ("pix", "fac", "mor"))
    assert similarity.value[pix, fac] > 0.7 > similarity.value[pix, mor]
    assert similarity.p_value[pix, fac] == 0.001


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files") / "digits"
    write_sample_files(folder, 0)
    return folder


def ids(path):
    return pyarrow.csv.read_csv(path)["id"].to_pylist()


def test_sixty_individuals_are_in_all_views_and_have_a_label(folder):
    rows = link_rows({path.stem: ids(path) for path in (folder / "views").iterdir()})
    assert set(rows.ids) == set(ids(folder / "labels.csv"))
    assert len(rows.ids) == 60
    assert {len(others) for others in rows.unaligned.values()} == {798}


def test_views_have_other_rows_in_orders_of_their_own(folder):
    orders = [
        [i for i in ids(path) if i.startswith("person")] for path in (folder / "views").iterdir()
    ]
    assert len({tuple(order) for order in orders}) == 6


def test_new_individuals_are_not_in_training_and_may_lack_views(folder):
    new_ids = set(ids(folder / "new-labels.csv"))
    for path in (folder / "new").iterdir():
        in_view = set(ids(path))
        assert in_view < new_ids
        assert not in_view & set(ids(folder / "views" / path.name))


def test_the_same_seed_writes_the_same_files(folder, tmp_path):
    for path in write_sample_files(tmp_path / "digits", 0):
        assert path.read_bytes() == (folder / path.relative_to(tmp_path / "digits")).read_bytes()


def test_existing_files_are_not_replaced(folder):
    with pytest.raises(FileExistsError, match="--force"):
        write_sample_files(folder, 0)
    write_sample_files(folder, 0, force=True)
