import contextlib
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder, load
from hotview.cli.fitting import fit_study, make_estimator
from hotview.cli.running import UsageError
from hotview.datasets.people.study import Files, read_study
from hotview.training.checkpoint import read_checkpoint


@pytest.fixture
def labeled(files):
    return read_study(Files([str(f) for f in files[:2]], str(files[3]), "state", "id"))


@pytest.fixture
def unlabeled(files):
    return read_study(Files([str(f) for f in files[:2]], id_column="id"))


def test_labels_make_a_classifier(labeled, unlabeled):
    assert type(make_estimator(labeled, {})) is MultiViewClassifier
    assert type(make_estimator(unlabeled, {})) is MultiViewEncoder


def test_flags_that_were_not_given_leave_the_default(labeled):
    flags = {"entropy": 0.5, "max_epochs": None, "hidden": "16,8", "views": ["a"], "force": True}
    given = make_estimator(labeled, flags).get_params()
    expected = {**MultiViewClassifier().get_params(), "entropy": 0.5, "hidden": (16, 8)}
    expected["unlabeled_marker"] = None  # a study has None for no label, and nothing else
    assert {**given, "verbose": "auto"} == expected


def test_no_hidden_layer_is_0(labeled):
    assert make_estimator(labeled, {"hidden": "0"}).hidden == ()


def test_flags_of_classifiers_need_labels(unlabeled):
    with pytest.raises(UsageError, match="--validation-fraction is for classifiers"):
        make_estimator(unlabeled, {"validation_fraction": 0.2})


def test_a_study_is_fitted_as_python_would(labeled):
    how = {"max_epochs": 1, "n_replicas": 2, "hidden": (4,), "random_state": 0}
    ours, theirs = MultiViewClassifier(**how), MultiViewClassifier(**how)
    fit_study(ours, labeled)
    theirs.fit(labeled.linked, labeled.target, unaligned=labeled.unaligned)
    np.testing.assert_array_equal(
        ours.predict_proba(labeled.linked), theirs.predict_proba(labeled.linked)
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
    how = ["--max-epochs", "100", "--n-replicas", "1", "--device", "cpu", "--hidden", "8"]
    fit = ["fit", *map(str, files), *how]
    saves = ["--checkpoint", str(checkpoint), "--checkpoint-every", "1"]
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
    assert out.count("What was understood") == 2  # not in every process
    hotview(*fit, "-o", whole)
    found, expected = load(killed), load(whole)
    then = read_checkpoint(at_least).teams[0].facts["members"][0]["history"]
    assert len(then) > 0
    assert list(found.history_)[: len(then)] == then  # seconds and all: these were not done again
    losses = [[row["loss"] for row in model.history_] for model in (found, expected)]
    np.testing.assert_allclose(*losses, rtol=1e-3)
