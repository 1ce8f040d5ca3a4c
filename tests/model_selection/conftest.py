"""Small problems that cross-validation and every search are tried on."""

from contextlib import contextmanager

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster
from joblib import parallel_config
from joblib.externals.loky import get_reusable_executor

from hotview import MultiViewClassifier
from hotview.model_selection.rows import read_rows

CLASSES = np.array(["ant", "bee"])


@pytest.fixture(scope="session")
def make_views():
    def make_views(n=60, seed=0, noise=1.0):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(n) % 2)
        views = {
            name: 2.0 * y[:, None] + noise * rng.normal(size=(n, width))
            for name, width in (("a", 3), ("b", 4))
        }
        return views, CLASSES[y]

    return make_views


@pytest.fixture(scope="session")
def small():
    def small(**parameters):
        settings = {"hidden": (8,), "encoder_dim": 4, "n_components": 4}
        settings |= {"max_epochs": 20, "learning_rate": 0.03, "random_state": 0, "device": "cpu"}
        settings |= {"n_estimators": 1}
        return MultiViewClassifier(**settings | parameters)

    return small


@pytest.fixture
def log_likelihood():
    def log_likelihood(estimator, Xs, y):
        assert set(Xs) == {"a", "b"}
        right = np.arange(len(y)), (y == "bee").astype(int)
        return np.log(estimator.predict_proba(Xs)[right]).mean()

    return log_likelihood


@pytest.fixture
def make_rows():
    """Views whose entries are the numbers of their rows, 1000 and 2000 apart."""

    def make_rows(y, unaligned=None, unaligned_y=None):
        rows = np.arange(len(y), dtype=float)[:, None]
        linked = {"a": rows + np.zeros(2), "b": rows + 1000}
        return read_rows(MultiViewClassifier(), linked, y, unaligned, unaligned_y)

    return make_rows


@pytest.fixture
def make_unaligned():
    def make_unaligned():
        return {"b": np.arange(5.0)[:, None] + 3000, "a": np.arange(4.0)[:, None] + [4000, 0]}

    return make_unaligned


@contextmanager
def processes():
    """Two processes of joblib's own, which get every array of any size in a file."""
    with parallel_config("loky", n_jobs=2, max_nbytes=100):
        yield
    get_reusable_executor().shutdown(wait=True)


@contextmanager
def machines():
    """Two processes that are reached through a network, if only this machine's own."""
    workers = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
    cluster = LocalCluster(**workers, dashboard_address=None)
    with cluster, Client(cluster), parallel_config("dask"):
        yield


@contextmanager
def threads():
    with parallel_config("threading", n_jobs=2):
        yield


@pytest.fixture(
    params=(
        threads,
        *(pytest.param(make, marks=pytest.mark.slow) for make in (processes, machines)),
    ),
    ids=lambda make: make.__name__,
)
def elsewhere(request):
    """Where joblib may run fits."""
    return request.param
