import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import psutil
import pytest

import hotview as hv
from hotview._files import output_lock
from hotview.cli.fit import parse_settings
from hotview.cli.runner import UsageError
from hotview.training.checkpoint import read_checkpoint

from .conftest import QUICK


def test_settings_are_literals_or_text():
    typed = {
        "hidden=64,32": (64, 32),
        "hidden=8,": (8,),
        "pseudo_labels=false": False,
        "fusion=average": "average",
        "a=b=c": "b=c",
    }
    assert {spec: next(iter(parse_settings([spec]).values())) for spec in typed} == typed
    for incomplete in ("hidden", "=3", "hidden="):
        with pytest.raises(UsageError, match="Expected --set as NAME=VALUE"):
            parse_settings([incomplete])


def test_a_dry_run_prints_the_input_data_and_stops(hotview, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = hotview("fit", *files, "--dry-run")
    assert "Linked rows: 40, of which 40 have a label." in result.out
    assert re.search(r"Labels: ill: \d+, odd: \d+, well: \d+\.", result.out)
    assert "Columns left out: blood: id; scan: id." in result.out
    assert "Categorical columns: blood: sex (2: F, M)." in result.out
    assert "a column of 0 and 1 per value" in result.out  # the rule of encoding
    facts = json.loads(hotview("fit", *files, "--dry-run", "--json").out)
    blood, scan = facts["views"]
    assert (blood["rows"], blood["unaligned_rows"], facts["linked_rows"]) == (70, 30, 40)
    assert blood["columns"] == scan["columns"] + 2  # a column each for F and M
    assert sum(n for _, n in facts["labels"]) == 40
    assert list(tmp_path.iterdir()) == []


def test_without_labels_an_encoder_is_trained(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    result = hotview("fit", *files[:2], "--id-column", "id", "-o", path, *QUICK)
    assert "No labels: a MultiViewEncoder is trained" in result.out
    encoder = hv.load(path)
    assert isinstance(encoder, hv.MultiViewEncoder)
    assert encoder.n_features_per_view_ == {"blood": 21, "scan": 20}
    assert len(encoder.transform({"blood": pd.read_csv(files[0])})["blood"]) == 70
    refused = hotview("predict", path, files[0], "-o", tmp_path / "p.csv", code=1)
    assert "trained without labels" in refused.err
    more = ("--id-column", "id", "--set", "validation_fraction=0.2", "--dry-run")
    refused = hotview("fit", *files[:2], *more, code=2)
    assert "validation_fraction is for classifiers" in refused.err


def test_settings_of_the_coupling_are_set_and_a_model_replaced(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    path.write_text("mine")
    more = ("--set", "coupling__reg=0.5", "--set", "class_weight=balanced", "--force")
    hotview("fit", *files, "-o", path, *QUICK, *more)
    model = hv.load(path)
    assert isinstance(model.coupling, hv.HOTReferenceSpec)
    assert (model.coupling.reg, model.class_weight) == (0.5, "balanced")
    dgcca = ("fit", *files, "-o", path, *QUICK, "--force", "--coupling", "dgcca")
    assert "--linked-only" in hotview(*dgcca, code=2).err
    assert "-o model.hotview" in hotview("fit", *files, code=2).err
    hotview(*dgcca, "--linked-only")
    assert hv.load(path).trained_on_["unaligned"] == {}


@pytest.mark.parametrize(
    ("more", "code", "message"),
    (
        (("--set", "hiden=3"), 2, "Did you mean 'hidden'"),
        (("--set", "hidden__size=3"), 2, "hidden has no settings of its own"),
        (("--set", "coupling=none"), 2, "Use --coupling instead of --set coupling"),
        (("--hold-out", "1.5"), 2, "Expected --hold-out between 0 and 1"),
        (("--resume",), 2, "--resume needs --checkpoint"),
        (("--ids", "scan"), 2, "Expected --ids as VIEW=FILE"),
        (("--group-column", "sx"), 1, "of groups. Did you mean 'sex'? Correct --group-column."),
        (("--delimiter", "blod=;"), 1, "Did you mean 'blood'? Correct --delimiter."),
        (("--sheet", "blood=1"), 1, "blood.csv: --sheet is for ."),
        (("-o", "m.pkl"), 1, "must end in .hotview"),
    ),
)
def test_errors_are_printed_in_a_line(hotview, files, tmp_path, monkeypatch, more, code, message):
    monkeypatch.chdir(tmp_path)
    result = hotview("fit", *files, "-o", "m.hotview", *QUICK, *more, code=code)
    assert message in result.err
    assert result.err.startswith("hotview: ")
    assert len(result.err.strip().splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def with_holes(files, study, tmp_path):
    """The files, a cell of two rows of the first view missing."""
    rows = (study / "views" / "blood.csv").read_text().splitlines()
    for i in (3, 5):
        cells = rows[i].split(",")
        rows[i] = ",".join([cells[0], "", *cells[2:]])
    (tmp_path / "blood.csv").write_text("\n".join(rows) + "\n")
    return [tmp_path / "blood.csv", *files[1:]]


def test_methods_of_imputation_by_view(hotview, with_holes, new_files, tmp_path):
    path = tmp_path / "m.hotview"
    more = ("--impute", "mean", "--impute", "blood=median+indicator")
    done = hotview("fit", *with_holes, "-o", path, *QUICK, *more)
    told = "missing cells replaced by the median and marked in 1 more columns"
    assert f"View 'blood': standardized; {told}." in done.out
    assert hv.load(path).impute == {"blood": "median+indicator", "scan": "mean"}
    facts = json.loads(hotview("inspect", path, "--json").out)
    assert facts["trained_on"]["impute"] == {"blood": "median+indicator", "scan": "mean"}
    assert facts["preprocessing"]["blood"] == f"standardized; {told}"
    hotview("predict", path, with_holes[0], new_files[1], "-o", tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("given", "more", "code", "message"),
    (
        ("with_holes", (), 1, "--impute blood=median"),
        ("files", ("--unlabeled-marker", "odd"), 1, "all are of one class, 'ill'"),
        ("files", ("--set", "validation_fraction=0.001"), 1, "0.001 of 40"),
        ("files", ("--impute", "medain"), 2, "Did you mean 'median'"),
    ),
)
def test_a_dry_run_ends_with_the_error_of_the_fit(
    hotview, request, study, tmp_path, given, more, code, message
):
    views = request.getfixturevalue(given)
    if "all are" in message:  # of "well", no label is left
        labels = tmp_path / "labels.csv"
        text = (study / "labels.csv").read_text()
        labels.write_text(text.replace("well", "odd"))
        views = [labels if str(x).endswith("labels.csv") else x for x in views]
    out = tmp_path / "m.hotview"
    fitted = hotview("fit", *views, "-o", out, *QUICK, *more, code=code)
    dry = hotview("fit", *views, "--dry-run", *QUICK, *more, code=code)
    as_json = hotview("fit", *views, "--dry-run", "--json", *QUICK, *more, code=code)
    last = [result.err.splitlines()[-1] for result in (fitted, dry, as_json)]
    assert message in last[0]
    assert last[0] == last[1] == last[2]
    assert not out.exists()
    if code == 1:  # wrong usage is known before the files are read
        assert "Linked rows: " in dry.out
        assert json.loads(as_json.out)["views"][0]["name"] == "blood"


@pytest.mark.parametrize(
    ("more", "message"),
    (
        (("-o", "there.hotview"), "there.hotview exists. Replace it with --force"),
        (("-o", "no/m.hotview"), "the folder no does not exist"),
        (("--checkpoint", "a.bin"), "must end in .checkpoint"),
        (("--checkpoint", "a.checkpoint", "--resume", "--drop", "sex"), "but these differ"),
    ),
)
def test_a_dry_run_tells_that_nothing_could_be_saved(
    hotview, files, tmp_path, monkeypatch, more, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.hotview").write_text("mine")
    if "--resume" in more:
        hotview("fit", *files, *QUICK, "-o", "a.hotview", "--checkpoint", "a.checkpoint")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    fitted = hotview("fit", *files, *QUICK, "-o", "m.hotview", *more, code=1)
    dry = hotview("fit", *files, *QUICK, "--dry-run", *more, code=1)
    assert message in dry.err
    assert fitted.err.splitlines()[-1] == dry.err.splitlines()[-1]
    assert "Linked rows: 40" in dry.out
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_views_may_be_some_arrays_of_a_file(hotview, tmp_path):
    np.savez(tmp_path / "all.npz", a=np.eye(4), b=np.eye(4), note=np.arange(3))
    command = ("fit", tmp_path / "all.npz", "--dry-run")
    assert "--variable" in hotview(*command, code=1).err
    hotview(*command, "--variable", "a", "--variable", "b")


def test_held_out_rows_are_evaluated_on_instead_of_training(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    result = hotview("fit", *files, "-o", path, *QUICK, "--hold-out", "0.25", "--json")
    facts = json.loads(result.out)
    assert facts["held_out"]["rows"] == facts["rows_held_out"] == 40 - facts["linked_rows"]
    assert hv.load(path).trained_on_["linked"] == facts["linked_rows"]
    evaluated = hotview("evaluate", path, *files[:2], "--labels", files[3], "--json")
    again = json.loads(evaluated.out)
    assert again["accuracy"] == facts["held_out"]["accuracy"]
    assert again["rows"] == facts["rows_held_out"]
    assert not again["seen"]


posix = pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")


@posix
def test_a_second_fit_to_the_same_file_stops(hotview, files, tmp_path):
    path, saved = tmp_path / "m.hotview", tmp_path / "m.checkpoint"
    command = ("fit", *files, "-o", path, "--checkpoint", saved, *QUICK)
    for locked in (path, saved):
        with output_lock(locked):
            second = hotview(*command, code=1)
        assert f"{locked} to be written by one process at a time, but another" in second.err
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.parametrize("is_there", (False, True))
def test_ctrl_c_leaves_a_model_and_replaces_none(hotview, files, tmp_path, is_there):
    path = saved = tmp_path / "m.hotview"
    if is_there:
        path.write_text("a complete model")
        saved = tmp_path / "m-interrupted.hotview"
    checkpoint, ended, locked = tmp_path / "m.checkpoint", threading.Event(), []

    def interrupt():
        while not checkpoint.exists():  # until it trains
            if ended.wait(0.01):
                return
        for file in (path, checkpoint):
            try:
                with output_lock(file):
                    pass
            except BlockingIOError:
                locked.append(file)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        more = ("--checkpoint", checkpoint, "--set", "checkpoint_every=1", "--force")
        result = hotview(
            "fit", *files, "-o", path, *QUICK, "--max-epochs", "100000", *more, code=130
        )
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGINT, handler)
    assert locked == [path, checkpoint]
    assert "stopped" in result.err
    assert result.err.count("Training was interrupted") == 1  # however many networks there are
    assert f"Model saved to {saved}" in " ".join(result.out.split())
    assert hv.load(saved).n_views_ == 2
    assert not is_there or path.read_text() == "a complete model"
    assert not list(tmp_path.glob(".*.lock"))


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
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node", "2", "--max-restarts", "1", "-m", "hotview"]
    with subprocess.Popen(
        [*torchrun, *fit, "-o", str(killed), *saves],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            while not checkpoint.exists():
                assert job.poll() is None, job.communicate()[1]
                time.sleep(0.01)
            (victim,) = [p for p in psutil.Process(job.pid).children() if rank_of(p) == "1"]
            victim.kill()
            at_least = shutil.copy(checkpoint, tmp_path / "then.checkpoint")
            out, err = job.communicate()
        finally:
            job.terminate()  # which stops the processes, too
    assert job.returncode == 0, err
    assert "rank 1 of 2 is gone. The checkpoint" in err
    assert out.count("Input data") == 2  # not in every process
    hotview(*fit, "-o", whole)
    found, expected = hv.load(killed), hv.load(whole)
    then = list(read_checkpoint(at_least).trainers[0].trainings[0].history)
    assert len(then) > 0
    assert list(found.history_)[: len(then)] == then  # seconds and all: these were not done again
    losses = [[row["loss"] for row in model.history_] for model in (found, expected)]
    np.testing.assert_allclose(*losses, rtol=1e-3)
