import re
from functools import partial

import pyarrow.csv
import pytest
from typer.testing import CliRunner

import hotview as hv
from hotview.cli import app
from hotview.cli.demo import load_digits, write_sample_files
from hotview.datasets import link_rows


def run_demo(folder):
    options = ["--figure", folder / "plan.png", "--model", folder / "digits.hotview"]
    done = CliRunner().invoke(app, ["demo", *map(str, options)])
    assert done.exit_code == 0, (done.output, done.exception)
    shown = dict(re.findall(r"│ (\S.*?) +│ +([\d.]+)% ", done.output))
    return done.output, {name: float(accuracy) for name, accuracy in shown.items()}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What the demo prints, and the folder of what it writes, with fewer epochs than usual."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        small = {"max_epochs": 1, "n_estimators": 2, "hidden": (8,)}
        quick = partial(hv.MultiViewClassifier, **small)
        patch.setattr("hotview.cli.demo.MultiViewClassifier", quick)
        return folder, *run_demo(folder)


def test_the_demo_prints_and_draws(demo):
    folder, printed, shown = demo
    for part in ("pix", "mor", "1,140", "Accuracy on 400 test rows", "Similarity of views"):
        assert part in printed
    for part in ("The paper's plan W", "digits.hotview", "plan.png"):
        assert part in printed
    assert (folder / "plan.png").stat().st_size > 10_000
    assert sorted(path.name for path in folder.iterdir()) == ["digits.hotview", "plan.png"]
    data = load_digits(0)
    assert len(data.target) == 60  # as in the paper
    assert {len(X) for X in data.unaligned.values()} == {1140}
    model = hv.load(folder / "digits.hotview")
    accuracy, value = model.score(data.test, data.test_target), model.view_similarity_.value
    assert shown["hotview, default"] == pytest.approx(100 * accuracy, abs=0.051)
    pix, fac, mor = (model.view_names_.index(name) for name in ("pix", "fac", "mor"))
    assert value[pix, fac] > 0.7 > value[pix, mor]
    assert len(shown) == 5
    assert {'hotview, coupling="none"', "label propagation in each view"} <= set(shown)
    assert all(75 < shown[name] <= 100 for name in shown if not name.startswith("hotview"))


@pytest.mark.slow  # two trainings to the end
def test_the_model_of_the_demo_is_the_default_and_better_than_baselines(tmp_path):
    _, shown = run_demo(tmp_path)
    assert min(shown.values()) > 75
    assert shown["hotview, default"] > shown["PCA in each view + logistic regression"]
    found = hv.load(tmp_path / "digits.hotview").get_params()
    default = hv.MultiViewClassifier().get_params()
    assert {key for key in default if found[key] != default[key]} <= {"random_state", "verbose"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files") / "digits"
    write_sample_files(folder, 0)
    return folder


def ids(path):
    return pyarrow.csv.read_csv(path)["id"].to_pylist()


def test_sixty_individuals_are_in_all_views_and_new_ones_are_others(folder):
    known = {path.stem: ids(path) for path in (folder / "views").iterdir()}
    rows = link_rows(known)
    assert set(rows.ids) == set(ids(folder / "labels.csv"))
    assert len(rows.ids) == 60
    assert {len(others) for others in rows.unaligned.values()} == {798}
    orders = {tuple(i for i in own if i.startswith("person")) for own in known.values()}
    assert len(orders) == 6  # every view has one of its own
    new_ids = set(ids(folder / "new-labels.csv"))
    for path in (folder / "new").iterdir():
        in_view = set(ids(path))
        assert in_view < new_ids
        assert not in_view & set(known[path.stem])


def test_the_same_seed_writes_the_same_files_which_only_force_replaces(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*.csv")}
    with pytest.raises(FileExistsError, match="--force"):
        write_sample_files(folder, 0)
    assert set(write_sample_files(folder, 0, force=True)) == set(before)
    assert {path: path.read_bytes() for path in before} == before
