import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview._processes import ProcessLostError
from hotview._types import LazyRows
from hotview.datasets import make_views
from hotview.estimators import MultiViewClassifier, MultiViewEncoder, checkpointing
from hotview.estimators.checkpointing import (
    check_same_everywhere,
    check_same_inputs,
    explained_loss,
)
from hotview.training.checkpoint import _CHECKPOINT, read_checkpoint
from tests.estimators.small_fits import SMALL, data_of, may_collapse

DATA = make_views(60, n_views=3, labeled=0.5, random_state=0)


def encoder(max_epochs=6, **parameters):
    return MultiViewEncoder(**{**SMALL, "max_epochs": max_epochs, **parameters})


def classifier(max_epochs=6, **parameters):
    return MultiViewClassifier(**{**SMALL, "max_epochs": max_epochs, **parameters})


def fit_classifier(model, **arguments):
    return model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views, **arguments)


def assert_same(a, b, views=DATA.views):
    for x, y in zip(a.networks_, b.networks_, strict=True):
        pairs = zip(x.state_dict().items(), y.state_dict().items(), strict=True)
        assert all(k == name and torch.equal(v, w) for (k, v), (name, w) in pairs)
    assert [[{**row, "seconds": 0} for row in history] for history in a.histories_] == [
        [{**row, "seconds": 0} for row in history] for history in b.histories_
    ]
    assert np.array_equal(a.plan_.W, b.plan_.W)
    assert np.array_equal(a.plan_.null.W, b.plan_.null.W)
    for name, Z in a.transform(views).items():
        np.testing.assert_array_equal(Z, b.transform(views)[name])
    if hasattr(a, "predict_proba"):
        for given in (DATA.linked, {"view_1": DATA.linked["view_1"]}):
            np.testing.assert_array_equal(a.predict_proba(given), b.predict_proba(given))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_fits_that_are_killed_and_resumed_end_with_the_same_bits(tmp_path):
    script = Path(__file__).parent / "killed_fits.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(script), str(tmp_path)]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    for kind, n_drafts in json.loads(found.stdout).items():
        assert n_drafts == 3
        ends = [tmp_path / f"{kind}-{end}.hotview" for end in ("whole", "killed")]
        assert_same(*(hv.load(end, device="cpu") for end in ends))
        assert not list(tmp_path.glob(f".{kind}-*.checkpoint"))  # drafts of those who were killed


def test_an_encoder_is_trained_on_for_more_epochs(tmp_path):
    path = tmp_path / "fit.checkpoint"
    views = {name: X.copy() for name, X in DATA.views.items()}
    views["view_1"][5:9, 2] = np.nan
    few = {"n_estimators": 2, "impute": {"view_1": "median+indicator"}}
    whole = encoder(5, **few).fit(views)
    encoder(2, **few, checkpoint=path).fit(views, resume=True)  # there is no file yet
    assert path.stat().st_mode & 0o777 == 0o600
    more = encoder(5, **few, checkpoint=path, checkpoint_every=1).fit(views, resume=True)
    assert_same(more, whole, views)
    before = read_checkpoint(path).seconds
    again = encoder(5, **few, checkpoint=path).fit(views, resume=True)
    assert_same(again, whole, views)  # only the last pass is made again
    assert again.trained_on_["seconds"] > before > 0
    assert clone(again).checkpoint == path
    assert hv.load(again.save(tmp_path / "m.hotview")).checkpoint is None
    with pytest.raises(ValueError, match="Expected max_epochs to be at least 5"):
        encoder(4, **few, checkpoint=path).fit(views, resume=True)
    # Without resume, the fit begins again, and so does its file.
    fresh = encoder(3, **few, checkpoint=path, random_state=1).fit(views)
    assert_same(fresh, encoder(3, **few, random_state=1).fit(views), views)


@pytest.mark.parametrize(
    "parameters",
    (
        {"n_estimators": 1, "pseudo_labels": False, "patience": 2, "validation_fraction": 0.3},
        {"n_estimators": 2, "view_regularizer": "manifold", "coupling": "hot-pairwise"},
    ),
    ids=("patience", "manifold"),
)
@pytest.mark.filterwarnings("ignore:With 3 views the plan:UserWarning")
@may_collapse
def test_a_classifier_is_trained_on_for_more_epochs(tmp_path, parameters):
    path = str(tmp_path / "fit.checkpoint")
    whole = fit_classifier(classifier(5, **parameters))
    fit_classifier(classifier(2, **parameters, checkpoint=path))
    more = fit_classifier(classifier(5, **parameters, checkpoint=path), resume=True)
    assert_same(more, whole)
    other = DATA.linked_target.copy()
    other[0] = (other[0] + 1) % 2
    with pytest.raises(ValueError, match=r"these differ: .*\by\. Pass the same"):
        more.fit(DATA.linked, other, unaligned=DATA.views, resume=True)
    groups = {"view_0": np.arange(len(DATA.views["view_0"]))}
    with pytest.raises(ValueError, match=r"differ: .*unaligned_groups of view 'view_0'"):
        fit_classifier(more, resume=True, unaligned_groups=groups)
    with pytest.raises(ValueError, match="these differ: validation"):
        fit_classifier(more, resume=True, validation=(DATA.linked, DATA.linked_target))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("n_estimators", (1, 3))
@pytest.mark.parametrize("make", (encoder, classifier))
def test_on_a_gpu_captured_steps_are_resumed(tmp_path, make, n_estimators):
    few = {"n_estimators": n_estimators, "device": "cuda", "batch_size": 30}
    kept = {**few, "checkpoint": tmp_path / "a.checkpoint"}
    given = (DATA.views,) if make is encoder else (DATA.linked, DATA.linked_target)
    whole = make(9, **few).fit(*given)
    make(4, **kept).fit(*given)
    more = make(9, **kept).fit(*given, resume=True)
    for x, y in zip(whole.networks_, more.networks_, strict=True):
        for v, w in zip(x.state_dict().values(), y.state_dict().values(), strict=True):
            torch.testing.assert_close(v, w, rtol=1e-3, atol=1e-4)  # kernels add in any order
    assert len(more.history_) == 9


def test_without_a_random_state_the_seed_of_then_is_used(tmp_path):
    path = tmp_path / "a.checkpoint"
    encoder(2, checkpoint=path, random_state=None).fit(DATA.views)
    model = encoder(3, checkpoint=path, random_state=None)
    first, second = (clone(model).fit(DATA.views, resume=True) for _ in range(2))
    assert_same(first, second)
    anew = clone(model).fit(DATA.views)
    assert not np.array_equal(anew.plan_.C, first.plan_.C)
    kept = encoder(3, checkpoint=path, random_state=np.random.default_rng(3)).fit(DATA.views)
    assert_same(kept, encoder(3, random_state=np.random.default_rng(3)).fit(DATA.views))


def test_other_data_and_parameters_are_refused_by_name(tmp_path):
    path = tmp_path / "a.checkpoint"
    encoder(2, checkpoint=path).fit(DATA.views)
    before, own = path.read_bytes(), {"view_0": torch.nn.Linear(20, 4)}
    value = {name: X.copy() for name, X in DATA.views.items()}
    value["view_1"][17, 3] = np.nextafter(value["view_1"][17, 3], np.float32(9))
    for parameters, views, message in (
        ({"learning_rate": 0.5}, DATA.views, r"parameter learning_rate \(0\.001 then, 0\.5 now\)"),
        ({"impute": {"view_1": "mean"}}, DATA.views, r"parameter impute \(None then, .*'mean'"),
        ({}, value, "differ: unaligned rows of view 'view_1'"),
        ({}, dict(reversed(DATA.views.items())), "names of the views"),
        ({"encoders": own}, DATA.views, "parameter encoders"),
    ):
        with pytest.raises(ValueError, match=message):
            encoder(2, checkpoint=path, **parameters).fit(views, resume=True)
    assert path.read_bytes() == before


@may_collapse
def test_ctrl_c_leaves_a_checkpoint_from_which_the_same_follows(tmp_path, press_ctrl_c):
    own = {"view_0": torch.nn.Sequential(torch.nn.Linear(20, 4), torch.nn.Dropout(0.3))}
    few = {"encoders": own, "n_estimators": 2}  # which draw
    path = tmp_path / "a.checkpoint"

    def interrupt(epoch):
        if (epoch.member, epoch.number) == (0, 2):  # a second time would end the process
            press_ctrl_c()

    with pytest.warns(UserWarning, match="Training was interrupted"):
        encoder(4, **few, checkpoint=path, callbacks=[interrupt]).fit(DATA.views)
    resumed = encoder(4, **few, checkpoint=path).fit(DATA.views, resume=True)
    assert_same(resumed, encoder(4, **few).fit(DATA.views))


def test_a_changed_checkpoint_is_refused_by_name(tmp_path):
    path = tmp_path / "a.checkpoint"
    encoder(1, checkpoint=path).fit(DATA.views)
    archive = read_archive(path, _CHECKPOINT)
    for name in [name for name in archive.tensors if name.startswith("trainers.0.network.")]:
        archive.tensors[name].fill_(9e8)
    write_archive(path, _CHECKPOINT, archive.tensors, archive.metadata)
    with pytest.raises(ValueError, match=r"a\.checkpoint, but it failed: .* to begin anew"):
        encoder(3, checkpoint=path).fit(DATA.views, resume=True)
    del archive.metadata["fingerprint"]
    write_archive(path, _CHECKPOINT, archive.tensors, archive.metadata)
    with pytest.raises(ValueError, match=r"a\.checkpoint to be .* it lacks 'fingerprint'"):
        encoder(3, checkpoint=path).fit(DATA.views, resume=True)


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_a_checkpoint_belongs_to_one_fit_at_a_time(tmp_path):
    model = encoder(1, checkpoint=tmp_path / "a.checkpoint")

    def fit_again(epoch):
        clone(model).set_params(callbacks=()).fit(DATA.views)

    with pytest.raises(BlockingIOError, match=r"a\.checkpoint to be written by one process at a"):
        clone(model).set_params(callbacks=[fit_again]).fit(DATA.views)
    model.fit(DATA.views)
    assert os.listdir(tmp_path) == ["a.checkpoint"]


@pytest.mark.parametrize(
    ("parameters", "resume", "error", "match"),
    (
        ({}, True, ValueError, "Expected a checkpoint to resume from"),
        ({"checkpoint": "a.pt"}, False, ValueError, r"must end in \.checkpoint"),
        ({"checkpoint": "nowhere/a.checkpoint"}, False, FileNotFoundError, "does not exist"),
        ({"checkpoint": 3}, False, TypeError, "Expected checkpoint to be the path"),
        ({"checkpoint_every": 0}, False, ValueError, "checkpoint_every"),
        ({}, "yes", TypeError, "Expected resume to be True or False"),
    ),
)
def test_wrong_parameters_are_refused(parameters, resume, error, match):
    with pytest.raises(error, match=match):
        encoder(**parameters).fit(DATA.views, resume=resume)


def test_the_error_of_a_lost_process_names_the_checkpoint(tmp_path):
    path = tmp_path / "fit.checkpoint"

    def lose(path):
        with pytest.raises(ProcessLostError) as caught, explained_loss(path):
            raise ProcessLostError("Rank 1 is gone.", is_reporter=False)
        assert not caught.value.is_reporter
        return str(caught.value)

    assert lose(None).startswith("Rank 1 is gone. Nothing is left")
    assert "no checkpoint yet" in lose(path)
    encoder(3, checkpoint=path).fit(DATA.views)
    assert f"{path} holds epoch 3: fit with resume=True" in lose(path)


PEOPLE = make_views(80, n_views=2, labeled=0.5, random_state=0)


@pytest.fixture
def compare_with(monkeypatch):
    """Compares the data of the second of two processes with those of the first."""

    def compare(ours, first):
        sent, gathered = [], []
        monkeypatch.setattr(checkpointing, "on_rank_zero", lambda f: sent.append(f()) or sent[0])
        monkeypatch.setattr(
            checkpointing, "all_gather_arrays", lambda x: gathered.append(x) or gathered
        )
        check_same_everywhere(*first)
        check_same_everywhere(*ours)

    return compare


def people(views=PEOPLE.linked, y=PEOPLE.linked_target, **settings):
    return data_of(MultiViewClassifier(random_state=0, **settings), views, y)


def test_labels_are_compared_by_what_they_are_and_parameters_of_rank_zero_are_not(compare_with):
    check_same_inputs(*people(), None)  # one process agrees with itself
    y = np.where(PEOPLE.linked_target == 0, "a", "b").astype(object)
    again = np.array(["".join(list(label)) for label in y], dtype=object)
    ours = people(y=again, verbose=True, callbacks=[print], checkpoint="mine.checkpoint")
    compare_with(ours, people(y=y, callbacks=[lambda epoch: None]))


CHANGED = {name: X.copy() for name, X in PEOPLE.linked.items()}
CHANGED["view_1"][-1] += 1


@pytest.mark.parametrize(
    ("ours", "what"),
    (
        ({"views": CHANGED}, "linked rows of view 'view_1'"),
        ({"y": PEOPLE.linked_target[::-1]}, "y"),
        ({"max_epochs": 7}, "parameter max_epochs"),
    ),
)
def test_what_differs_is_refused_by_name(ours, what, compare_with):
    with pytest.raises(ValueError, match=f"rank 1 has other {what} than rank 0. Seed whatever"):
        compare_with(people(**ours), people())


class Packed(LazyRows):
    """Rows that must not be unpacked before they are trained on."""

    def fill(self, stretch):
        raise AssertionError(f"stretch {stretch} was unpacked")


def test_of_rows_that_must_be_unpacked_the_number_is_compared(compare_with):
    def packed(n):
        views = [Packed(np.zeros((n, 3)), np.array([0, 5, n])) for _ in range(2)]
        return data_of(MultiViewEncoder(random_state=0), views)

    compare_with(packed(9), packed(9))
    with pytest.raises(ValueError, match="other unaligned rows of view 'view_0'; unaligned"):
        compare_with(packed(9), packed(8))
