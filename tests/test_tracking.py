import copy
import os
import pickle
import subprocess
import sys

import pytest
from sklearn.base import clone
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hotview import MultiViewEncoder
from hotview.datasets import make_views
from hotview.tracking import MLflowLogger, TensorBoardLogger

DATA = make_views(60, n_views=2, n_groups=1, labeled=0.5, random_state=0)
SMALL = {"hidden": (4,), "encoder_dim": 4, "n_components": 4, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


def fit(logger, *, max_epochs=1, views=DATA.views, **parameters):
    model = MultiViewEncoder(**SMALL, **parameters, max_epochs=max_epochs, callbacks=[logger])
    return model.fit(views)


def events(folder):
    """Tag → {step: value}, from an event file."""
    found = EventAccumulator(str(folder)).Reload()
    tags = found.Tags()["scalars"]
    return {tag: {event.step: event.value for event in found.Scalars(tag)} for tag in tags}


def recorded(history):
    """The same, from a history."""
    names = [name for name in history[0] if name != "epoch"]
    return {name: {int(row["epoch"]): row[name] for row in history} for name in names}


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-5)  # TensorBoard keeps float32


def test_tensorboard_has_every_term_of_every_replica(tmp_path):
    with TensorBoardLogger(tmp_path / "made" / "here") as logger:
        model = fit(logger, n_estimators=2, max_epochs=3)
    assert "effective_rank_view_0" in recorded(model.history_)
    for member, history in enumerate(model.histories_):
        found = events(tmp_path / "made" / "here" / "run_1" / f"member_{member}")
        assert_same(found, recorded(history))


def test_every_fit_is_a_run_of_its_own(tmp_path):
    logger = TensorBoardLogger(str(tmp_path))
    first = fit(logger)  # and epochs can be read before files are closed
    assert_same(events(tmp_path / "run_1" / "member_0"), recorded(first.history_))
    with logger:
        second = fit(logger, max_epochs=2)
    third = fit(logger)  # after it was closed
    other = fit(TensorBoardLogger(tmp_path))  # as after a new start
    again = copy.deepcopy(other).fit(DATA.views)
    last = pickle.loads(pickle.dumps(other)).fit(DATA.views)
    assert clone(other).callbacks[0] is other.callbacks[0]
    for number, model in enumerate((first, second, third, other, again, last), 1):
        found = events(tmp_path / f"run_{number}" / "member_0")
        assert_same(found, recorded(model.history_))
    assert len(list(tmp_path.iterdir())) == 6


@pytest.fixture
def mlflow_store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return (tmp_path / "store").as_uri()


def runs_of(store, experiment="hotview"):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    number = client.get_experiment_by_name(experiment).experiment_id
    return client, client.search_runs([number], order_by=["attributes.start_time"])


def test_mlflow_has_every_term_of_every_replica(mlflow_store):
    with MLflowLogger(tracking_uri=mlflow_store, run_name="trial", tags={"by": "me"}) as logger:
        model = fit(logger, n_estimators=2, max_epochs=2)
        _, runs = runs_of(mlflow_store)
        assert {run.info.status for run in runs} == {"RUNNING"}
    client, runs = runs_of(mlflow_store)
    about = {(run.info.status, run.info.run_name, run.data.tags["by"]) for run in runs}
    assert about == {("FINISHED", "trial", "me")}
    assert len({run.data.tags["hotview.fit"] for run in runs}) == 1
    by_replica = {int(run.data.tags["hotview.member"]): run for run in runs}
    for member, history in enumerate(model.histories_):
        run = by_replica[member]
        found = {
            name: {m.step: m.value for m in client.get_metric_history(run.info.run_id, name)}
            for name in run.data.metrics
        }
        assert_same(found, recorded(history))


def test_mlflow_takes_further_fits_and_odd_names(mlflow_store):
    logger = MLflowLogger("digits", tracking_uri=mlflow_store)
    for _ in range(2):
        fit(logger, views={"größe (cm)": DATA.views["view_0"], "b": DATA.views["view_1"]})
    logger.close()
    _, runs = runs_of(mlflow_store, "digits")
    assert len({run.data.tags["hotview.fit"] for run in runs}) == len(runs) == 2
    assert "effective_rank_gr_f6__df_e _28_cm_29_" in runs[0].data.metrics


@pytest.mark.slow
def test_runs_are_finished_when_python_ends(mlflow_store):
    code = f"""
from hotview import MultiViewEncoder
from hotview.datasets import make_views
from hotview.tracking import MLflowLogger
logger = MLflowLogger(tracking_uri={mlflow_store!r})
views = make_views(60, n_views=2, random_state=0).views
MultiViewEncoder(hidden=(4,), encoder_dim=4, max_epochs=1, callbacks=[logger]).fit(views)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Traceback" not in ended.stderr
    _, (run,) = runs_of(mlflow_store)
    assert run.info.status == "FINISHED"


def test_telemetry_is_off_unless_the_user_wants_it(mlflow_store, monkeypatch):
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY")
    for expected in ("true", "false"):
        fit(MLflowLogger(tracking_uri=mlflow_store))
        assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == expected
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")


@pytest.mark.parametrize(
    ("logger", "module"),
    ((TensorBoardLogger("runs"), "torch.utils.tensorboard"), (MLflowLogger(), "mlflow")),
)
def test_without_the_package_the_extra_is_named(logger, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "hotview\[tracking\]"'):
        fit(logger)
