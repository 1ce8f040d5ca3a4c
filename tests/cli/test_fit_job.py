import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

import hotview as hv
from hotview import MultiViewClassifier, MultiViewEncoder, load
from hotview.cli.fit_job import fit_dataset, make_estimator
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


def test_unknown_parameters_raise_with_a_suggestion(labeled):
    with pytest.raises(
        UsageError, match=r"unknown parameter 'bach_size'\. Did you mean 'batch_size'"
    ):
        make_estimator(labeled, {"bach_size": 16})


def test_only_specifications_have_settings(labeled):
    with pytest.raises(UsageError, match="hidden has no settings"):
        make_estimator(labeled, {"hidden__width": 3})


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
    then = read_checkpoint(at_least).trainers[0].facts["trainings"][0]["rows"]
    assert len(then) > 0
    assert list(found.history_)[: len(then)] == then  # seconds and all: these were not done again
    losses = [[row["loss"] for row in model.history_] for model in (found, expected)]
    np.testing.assert_allclose(*losses, rtol=1e-3)


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


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_a_second_fit_to_the_same_file_stops(hotview, files, tmp_path):
    path, other, saved = (tmp_path / n for n in ("m.hotview", "n.hotview", "m.checkpoint"))
    command = [sys.executable, "-m", "hotview", "fit", *map(str, files), "-o", str(path), *QUICK]
    command += ["--max-epochs", "100000", "--checkpoint", str(saved), "--set", "checkpoint_every=1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(saved, process)
            second = hotview("fit", *files, "-o", path, "--force", *QUICK)
            assert second.code == 1
            assert f"{path} to be written by one process at a time, but another" in second.err
            third = hotview("fit", *files, "-o", other, "--checkpoint", saved, "--resume", *QUICK)
            assert third.code == 1
            assert f"{saved} to be written by one process at a time, but another" in third.err
        finally:
            process.kill()
    assert not path.exists()
    assert hotview("fit", *files, "-o", path, "--checkpoint", saved, *QUICK).code == 0
    assert sorted(file.suffix for file in tmp_path.glob("[!.]*")) == [".checkpoint", ".hotview"]
    assert not list(tmp_path.glob(".*.lock"))


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
