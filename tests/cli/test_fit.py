import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from typer.main import get_command

import hotview as hv
from hotview import MultiViewClassifier, MultiViewEncoder, load
from hotview.cli.fit import parse_settings
from hotview.cli.fit_job import fit_dataset, make_estimator
from hotview.cli.main import app
from hotview.cli.runner import UsageError
from hotview.ingest.dataset import DatasetFiles, read_dataset
from hotview.ingest.preprocessing import Preprocessing
from hotview.training.checkpoint import read_checkpoint

from .conftest import QUICK


@pytest.fixture
def labeled(files):
    return read_dataset(DatasetFiles([str(f) for f in files[:2]], str(files[3]), "state", "id"))


@pytest.fixture
def unlabeled(files):
    return read_dataset(DatasetFiles([str(f) for f in files[:2]], id_column="id"))


def test_labels_make_a_classifier(labeled, unlabeled):
    assert type(make_estimator(labeled, {})) is MultiViewClassifier
    assert type(make_estimator(unlabeled, {})) is MultiViewEncoder


def test_parameters_that_are_not_given_keep_their_default(labeled):
    given = make_estimator(labeled, {"batch_size": 16, "hidden": (16, 8)}).get_params()
    expected = {**MultiViewClassifier().get_params(), "batch_size": 16, "hidden": (16, 8)}
    expected["unlabeled_marker"] = None  # a dataset has None for no label, and nothing else
    assert {**given, "verbose": "auto"} == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    (
        ("hidden=64,32", (64, 32)),
        ("hidden=8,", (8,)),
        ("hidden=()", ()),
        ("learning_rate=1e-3", 0.001),
        ("max_features=None", None),
        ("pseudo_labels=False", False),
        ("pseudo_labels=false", False),
        ("fusion=average", "average"),
        ("coupling__reg=0.5", 0.5),
        ("a=b=c", "b=c"),
    ),
)
def test_settings_are_literals_or_text(spec, expected):
    assert list(parse_settings([spec]).values()) == [expected]


@pytest.mark.parametrize("spec", ("hidden", "=3", "hidden="))
def test_incomplete_settings_raise(spec):
    with pytest.raises(UsageError, match="Expected --set as NAME=VALUE"):
        parse_settings([spec])


def test_unknown_parameters_raise_with_a_suggestion(labeled):
    with pytest.raises(
        UsageError, match="unknown parameter 'bach_size'. Did you mean 'batch_size'"
    ):
        make_estimator(labeled, {"bach_size": 16})


def test_parameters_of_classifiers_need_labels(unlabeled):
    with pytest.raises(UsageError, match="validation_fraction is for classifiers"):
        make_estimator(unlabeled, {"validation_fraction": 0.2})


def test_a_dataset_is_fitted_as_in_python(labeled):
    settings = {"max_epochs": 1, "n_estimators": 2, "hidden": (4,), "random_state": 0}
    found, expected = MultiViewClassifier(**settings), MultiViewClassifier(**settings)
    fit_dataset(found, labeled)
    expected.fit(labeled.linked, labeled.target, unaligned=labeled.unaligned)
    np.testing.assert_array_equal(
        found.predict_proba(labeled.linked), expected.predict_proba(labeled.linked)
    )


def as_ranks(*arguments, restarts):
    """``hotview fit`` in two processes of torchrun."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.Popen(
        [sys.executable, *start, "--max-restarts", str(restarts), "-m", "hotview", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def rank_of(process):
    with contextlib.suppress(psutil.Error):
        return process.environ().get("RANK")


@pytest.mark.slow  # processes are started four times
def test_a_killed_process_is_named_and_torchrun_goes_on_from_the_checkpoint(
    files, hotview, tmp_path
):
    whole, killed = tmp_path / "whole.hotview", tmp_path / "killed.hotview"
    checkpoint = tmp_path / "fit.checkpoint"
    options = ["--max-epochs", "100", "--n-estimators", "1", "--device", "cpu"]
    fit = ["fit", *map(str, files), *options, "--set", "hidden=8,"]
    saves = ["--checkpoint", str(checkpoint), "--set", "checkpoint_every=1"]
    with as_ranks(*fit, "-o", str(killed), *saves, restarts=1) as job:
        try:
            wait_for(checkpoint, job)
            (victim,) = [p for p in psutil.Process(job.pid).children() if rank_of(p) == "1"]
            victim.kill()
            at_least = shutil.copy(checkpoint, tmp_path / "then.checkpoint")
            out, err = job.communicate(timeout=240)
        finally:
            job.terminate()  # which stops the processes, too
    assert job.returncode == 0, err
    assert "rank 1 of 2 is gone. The checkpoint" in err
    assert out.count("Input data") == 2  # not in every process
    hotview(*fit, "-o", whole)
    found, expected = load(killed), load(whole)
    then = read_checkpoint(at_least).teams[0].facts["members"][0]["history"]
    assert len(then) > 0
    assert list(found.history_)[: len(then)] == then  # seconds and all: these were not done again
    losses = [[row["loss"] for row in model.history_] for model in (found, expected)]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def test_a_dry_run_prints_the_input_data_and_stops(hotview, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = hotview("fit", *files, "--dry-run")
    assert result.code == 0, result.err
    assert "Linked rows: 40, of which 40 have a label." in result.out
    assert re.search(r"Labels: ill: \d+, odd: \d+, well: \d+\.", result.out)
    assert "Columns left out: blood: id; scan: id." in result.out
    assert "Categorical columns: blood: sex (2: F, M)." in result.out
    assert "a column of 0 and 1 per value" in result.out  # the rule of encoding
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_prints_json(hotview, files):
    result = hotview("fit", *files, "--dry-run", "--json")
    facts = json.loads(result.out)
    blood, scan = facts["views"]
    assert (blood["rows"], blood["unaligned_rows"], facts["linked_rows"]) == (70, 30, 40)
    assert blood["columns"] == scan["columns"] + 2  # a column each for F and M
    assert sum(n for _, n in facts["labels"]) == 40


def test_the_model_is_what_python_would_have_fitted(model, study):
    loaded = hv.load(model)
    preprocessing = Preprocessing.from_json(loaded.metadata_["preprocessing"])
    assert preprocessing.id_column == "id"
    assert loaded.view_names_ == ["blood", "scan"]
    assert loaded.classes_.tolist() == ["ill", "odd", "well"]
    assert loaded.trained_on_["linked"] == 40
    assert loaded.trained_on_["unaligned"] == {"blood": 30, "scan": 30}
    assert loaded.metadata_["command"].startswith("hotview fit ")


def test_the_same_command_gives_the_same_predictions(hotview, files, model, tmp_path):
    again = tmp_path / "again.hotview"
    assert hotview("fit", *files, "-o", again, *QUICK).code == 0
    one, two = hv.load(model), hv.load(again)
    for first, second in zip(one.networks_, two.networks_, strict=True):
        for a, b in zip(first.parameters(), second.parameters(), strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_held_out_rows_are_evaluated_on_instead_of_training(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    result = hotview("fit", *files, "-o", path, *QUICK, "--hold-out", "0.25", "--json")
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert facts["held_out"]["rows"] == facts["rows_held_out"] == 40 - facts["linked_rows"]
    assert hv.load(path).trained_on_["linked"] == facts["linked_rows"]
    evaluated = hotview("evaluate", path, *files[:2], "--labels", files[3], "--json")
    again = json.loads(evaluated.out)
    assert again["accuracy"] == facts["held_out"]["accuracy"]
    assert again["rows"] == facts["rows_held_out"]
    assert not again["seen"]


def test_without_labels_an_encoder_is_trained(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    result = hotview("fit", *files[:2], "--id-column", "id", "-o", path, *QUICK)
    assert result.code == 0, result.err
    assert "No labels: a MultiViewEncoder is trained" in result.out
    encoder = hv.load(path)
    assert isinstance(encoder, hv.MultiViewEncoder)
    refused = hotview("predict", path, files[0], "-o", tmp_path / "p.csv")
    assert refused.code == 1
    assert "trained without labels" in refused.err


def test_views_with_labels_of_their_own_need_no_ids(hotview, study, tmp_path):
    labels = (study / "labels.csv").read_text().splitlines()[1:]
    for name in ("blood", "scan"):
        rows = (study / "views" / f"{name}.csv").read_text().splitlines()[:41]
        known = [f"{row},{y.split(',')[1]}" for row, y in zip(rows[1:], labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f'{rows[0]},"state"', *known]) + "\n")
    views = [tmp_path / "blood.csv", tmp_path / "scan.csv"]
    more = ("--label-column", "state", "--drop", "id", *QUICK)
    done = hotview("fit", *views, "-o", tmp_path / "m.hotview", *more)
    assert done.code == 0, done.err
    assert "Linked rows: 0" in done.out
    assert hv.load(tmp_path / "m.hotview").trained_on_["unaligned_labeled"] == {
        "blood": 40,
        "scan": 40,
    }


def test_couplings_that_compare_individuals_take_linked_rows_only(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    refused = hotview("fit", *files, "-o", path, *QUICK, "--coupling", "dgcca")
    assert refused.code == 2
    assert "--linked-only" in refused.err
    done = hotview("fit", *files, "-o", path, *QUICK, "--coupling", "dgcca", "--linked-only")
    assert done.code == 0, done.err
    assert hv.load(path).trained_on_["unaligned"] == {}


@pytest.mark.parametrize(
    ("more", "code", "message"),
    (
        (("--coupling", "hott"), 2, "Expected coupling to be one of"),
        (("--set", "hidden=a"), 1, "Expected hidden to be a tuple"),
        (("--set", "hiden=3"), 2, "Did you mean 'hidden'"),
        (("--set", "coupling=none"), 2, "Use --coupling instead of --set coupling"),
        (("--set", "unlabeled_marker=-1"), 2, "Use --unlabeled-marker"),
        (("--hold-out", "1.5"), 2, "Expected --hold-out between 0 and 1"),
        (("--resume",), 2, "--resume needs --checkpoint"),
        (("--ids", "scan"), 2, "Expected --ids as VIEW=FILE"),
        (("--drop", "sexx"), 1, "Did you mean 'sex'"),
        (("--delimiter", "ab"), 1, "one character"),
        (("-o", "nowhere/m.hotview"), 1, "the folder nowhere does not exist"),
        (("-o", "m.pkl"), 1, "must end in .hotview"),
    ),
)
def test_errors_are_printed_in_a_line(hotview, files, tmp_path, monkeypatch, more, code, message):
    monkeypatch.chdir(tmp_path)
    result = hotview("fit", *files, "-o", "m.hotview", *QUICK, *more)
    assert result.code == code
    assert message in result.err
    assert result.err.startswith("hotview: ")
    assert len(result.err.strip().splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_to_save_to_is_required(hotview, files):
    result = hotview("fit", *files)
    assert result.code == 2
    assert "-o model.hotview" in result.err


def test_a_model_is_replaced_only_by_force(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    path.write_text("mine")
    result = hotview("fit", *files, "-o", path, *QUICK)
    assert result.code == 1
    assert "--force" in result.err
    assert path.read_text() == "mine"
    assert hotview("fit", *files, "-o", path, *QUICK, "--force").code == 0
    assert hv.load(path).n_views_ == 2


def test_missing_cells_are_refused_with_the_flag_that_fills_them(hotview, files, study, tmp_path):
    holes = tmp_path / "blood.csv"
    rows = (study / "views" / "blood.csv").read_text().splitlines()
    cells = rows[3].split(",")
    holes.write_text("\n".join([*rows[:3], ",".join([cells[0], "", *cells[2:]]), *rows[4:]]) + "\n")
    mine = [holes, *files[1:]]
    result = hotview("fit", *mine, "-o", tmp_path / "m.hotview", *QUICK)
    assert result.code == 1
    assert "--impute mean" in result.err
    assert hotview("fit", *mine, "-o", tmp_path / "m.hotview", *QUICK, "--impute", "mean").code == 0


def test_views_may_be_some_arrays_of_a_file(hotview, study, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"a": rng.normal(size=(30, 3)), "b": rng.normal(size=(30, 2)), "note": np.arange(3)}
    np.savez(tmp_path / "all.npz", **arrays)
    refused = hotview("fit", tmp_path / "all.npz", "--dry-run")
    assert refused.code == 1
    assert "--variable" in refused.err
    chosen = ("--variable", "a", "--variable", "b")
    assert hotview("fit", tmp_path / "all.npz", *chosen, "--dry-run").code == 0


def test_flags_have_the_names_of_parameters():
    parameters = get_command(app).commands["fit"].params
    flags = {option.name for option in parameters}
    known = set(hv.MultiViewClassifier().get_params())
    named = {name for name in flags if name in known}
    assert {"coupling", "view_regularizer", "max_epochs", "random_state", "impute"} <= named
    assert len(flags - {"views"} | {"help"}) <= 30
    own = {"views", "out", "labels", "label_column", "id_column", "ids", "drop", "categorical"}
    own |= {"hold_out", "linked_only", "dry_run", "header", "delimiter", "decimal", "resume"}
    own |= {"variable", "settings", "force", "json", "debug"}
    assert flags - named == own


@pytest.mark.parametrize("is_there", (False, True))
def test_ctrl_c_leaves_a_model_and_replaces_none(files, tmp_path, is_there):
    path = saved = tmp_path / "m.hotview"
    if is_there:
        path.write_text("a complete model")
        saved = tmp_path / "m-interrupted.hotview"
    command = [sys.executable, "-c", "from hotview.cli import main; main()", "fit"]
    command += [*map(str, files), "-o", str(path), *QUICK, "--max-epochs", "100000"]
    command += ["--checkpoint", str(tmp_path / "m.checkpoint"), "--set", "checkpoint_every=1"]
    command += ["--force"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "m.checkpoint").exists() and time.monotonic() < deadline:
        time.sleep(0.05)  # until it trains
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped" in err
    assert err.count("Training was interrupted") == 1  # however many networks there are
    assert f"Model saved to {saved}" in out
    assert hv.load(saved).n_views_ == 2
