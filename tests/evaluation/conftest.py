import numpy as np
import pytest

from hotview import HOTReferenceSpec, MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views

SMALL = {"max_epochs": 3, "verbose": False, "random_state": 0}


@pytest.fixture(scope="session")
def data():
    """Four views; 80 linked rows to train on, 80 others, some of whose labels are wrong."""
    return make_views(160, n_views=4, n_groups=1, labeled=1.0, random_state=0)


@pytest.fixture(scope="session")
def train(data):
    return {name: X[:80] for name, X in data.linked.items()}, data.linked_target[:80]


@pytest.fixture(scope="session")
def test(data):
    y = data.linked_target[80:].copy()
    y[::7] = y[0]
    noise = np.random.default_rng(0).normal(scale=2.0, size=(80, 1))
    return {name: X[80:] + noise for name, X in data.linked.items()}, y


@pytest.fixture(scope="session")
def classifier(train):
    coupling = HOTReferenceSpec(n_references=3)
    return MultiViewClassifier(coupling, n_estimators=2, **SMALL).fit(*train)


@pytest.fixture(scope="session")
def encoder(train):
    return MultiViewEncoder(**SMALL).fit(train[0])
