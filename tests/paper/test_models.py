import inspect

import numpy as np
import pytest
import torch

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from hotview.losses.coupling_specs import COUPLINGS
from hotview.losses.objective import VIEW_REGULARIZERS
from paper.estimators import constructor_parameters
from paper.models import (
    CONTROLS,
    MODELS,
    PLAIN,
    SETTINGS,
    TRAINED,
    UNCOUPLED,
    Model,
)

DATA = make_views(30, n_views=4, n_columns=6, n_classes=2, labeled=1.0, random_state=0)
SMALL = {"hidden": (8,), "max_epochs": 2, "device": "cpu", "random_state": 0}

# Three random directions and twenty iterations are few, as the paper has it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The plan W has not converged", "ignore:The latents of .* have collapsed:UserWarning"
)


def test_the_settings_are_those_that_the_paper_states():
    assert SETTINGS["encoder_dim"] == 20
    assert SETTINGS["n_components"] == 10
    assert (SETTINGS["max_epochs"], SETTINGS["batch_size"]) == (100, 400)
    assert SETTINGS["learning_rate"] == 0.001
    weights = ("coupling__weight", "view_regularizer__weight", "coupling__orthogonality_weight")
    assert [SETTINGS[name] for name in weights] == [0.1, 0.01, 0.01]
    assert (SETTINGS["coupling__reg"], SETTINGS["coupling__sinkhorn_max_iter"]) == (0.1, 20)
    assert (SETTINGS["coupling__n_projections"], SETTINGS["coupling__projections"]) == (3, "iid")
    assert SETTINGS["coupling__n_references"] == 3
    assert (SETTINGS["coupling__reduction"], SETTINGS["coupling__cost_decay"]) == ("sum", 0.0)
    assert SETTINGS["initialization"] == "random"


def test_the_settings_cannot_be_changed():
    with pytest.raises(TypeError):
        SETTINGS["encoder_dim"] = 3


@pytest.mark.parametrize("kind", (MultiViewEncoder, MultiViewClassifier))
def test_the_settings_are_parameters_of_both_estimators(kind):
    names = {"coupling": "hot-reference", "view_regularizer": "autoencoder"}
    model = kind(**constructor_parameters({**names, **SETTINGS}))
    assert {name: model.get_params()[name] for name in SETTINGS} == dict(SETTINGS)


def test_what_makes_a_plain_network_is_what_the_paper_trains_as_long():
    assert set(PLAIN) <= set(inspect.signature(MultiViewClassifier).parameters)
    shared = set(PLAIN) & set(SETTINGS)
    assert shared == {"max_epochs", "batch_size", "learning_rate"}
    assert all(PLAIN[name] == SETTINGS[name] for name in shared)
    with pytest.raises(TypeError):
        PLAIN["n_estimators"] = 3


def test_the_models_are_the_eleven_rows_of_the_tables():
    assert len(MODELS) == len({model.name for model in MODELS}) == 11
    assert len({(m.coupling, m.view_regularizer) for m in MODELS}) == 11
    assert all(isinstance(model, Model) for model in MODELS)
    assert {m.coupling for m in MODELS} == set(COUPLINGS) - {"none"}
    assert {m.view_regularizer for m in MODELS} == {"none", "autoencoder"} < set(VIEW_REGULARIZERS)
    assert [m.name for m in MODELS if m.coupling in ("lscca", "dgcca")] == [
        "LSCCA",
        "DGCCA",
        "AECCA",
    ]
    for model in MODELS:
        assert model.name.endswith("AE") == (
            model.view_regularizer == "autoencoder" and model.name != "AECCA"
        )


def test_controls_without_coupling_stand_beside_the_rows():
    assert [(m.coupling, m.view_regularizer) for m in UNCOUPLED] == [
        ("none", "none"),
        ("none", "autoencoder"),
    ]
    assert list(TRAINED.values()) == [*MODELS, *UNCOUPLED]
    assert all(TRAINED[name].name == name for name in TRAINED)
    assert not set(CONTROLS) & set(TRAINED)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_model_trains_with_the_papers_settings(model):
    losses = {"coupling": model.coupling, "view_regularizer": model.view_regularizer}
    how = constructor_parameters({**losses, **SETTINGS, **SMALL})
    aligned = model.coupling in ("lscca", "dgcca")
    encoder = MultiViewEncoder(**how)
    encoder.fit(DATA.linked if aligned else DATA.views, paired=aligned)
    classifier = MultiViewClassifier(**{**PLAIN, **how}, head_weight=0.0)
    classifier.fit(DATA.linked, DATA.linked_target, unaligned=None if aligned else DATA.views)
    for fitted in (encoder, classifier):
        assert np.isfinite(fitted.history_["loss"]).all()
    assert classifier.predict(DATA.linked).shape == (30,)


def sliced_costs(Zs, theta):
    """(7): squared distances of sorted projections, added over rows, averaged over directions."""
    sorted_ = [np.sort(Z @ theta.T, axis=0) for Z in Zs]
    return np.array([[((a - b) ** 2).sum(0).mean() for b in sorted_] for a in sorted_])


def sinkhorn_by_hand(C, beta, n_iter):
    """Alternate scalings of exp(−C / β), its diagonal 0, in logarithms."""
    S = len(C)
    K = np.where(np.eye(S, dtype=bool), -np.inf, -C / beta)
    f, g = np.zeros(S), np.zeros(S)
    for _ in range(n_iter):
        f = -np.log(S) - np.logaddexp.reduce(K + g, axis=1)
        g = -np.log(S) - np.logaddexp.reduce(K + f[:, None], axis=0)
    return np.exp(f[:, None] + K + g)


@pytest.mark.filterwarnings("ignore:Rows of different views may not be comparable:UserWarning")
def test_the_objective_is_that_of_the_paper():
    # Many directions, or the paper's three would decide; and a step that moves nothing.
    how = {**PLAIN, **SETTINGS, **SMALL, "max_epochs": 1, "alignment_weight": 0.0}
    how |= {"coupling__n_projections": 4000, "learning_rate": 1e-12}
    how |= {"coupling": "hot-pairwise", "view_regularizer": "autoencoder", "head_weight": 0.0}
    model = MultiViewClassifier(**constructor_parameters(how))
    model.fit(DATA.linked, DATA.linked_target)
    row, (gamma, tau, alpha, beta) = model.history_[0], (0.1, 0.01, 0.01, 0.1)
    Zs = [Z.astype(float) for Z in model.transform(DATA.linked, space="common").values()]

    gram = sum(Z.T @ Z for Z in Zs)
    expected = gamma * alpha * np.sum((gram - np.eye(10)) ** 2)
    assert row["orthogonality"] == pytest.approx(expected, rel=1e-4)

    theta = np.random.default_rng(0).normal(size=(4000, 10))
    C = sliced_costs(Zs, theta / np.linalg.norm(theta, axis=1, keepdims=True))
    W = sinkhorn_by_hand(C, beta, 1000)
    assert row["transport"] == pytest.approx(gamma * np.sum(W * C), rel=0.1)
    found = model.plan_.C.astype(float)
    np.testing.assert_allclose(found[C > 0], C[C > 0], rtol=0.1)
    np.testing.assert_allclose(model.plan_.W, sinkhorn_by_hand(found, beta, 1000), atol=1e-3)

    network, X = model.network_, [torch.from_numpy(X) for X in standardized(DATA.linked)]
    with torch.no_grad():
        Fs = network.encode(X)
        errors = [((x - y) ** 2).mean() for x, y in zip(X, network.reconstruct(Fs), strict=True)]
        scores = network.score(Fs)
    assert row["reconstruction"] == pytest.approx(tau * float(sum(errors)), rel=1e-4)
    y = torch.from_numpy(DATA.linked_target)
    cross_entropy = torch.nn.functional.cross_entropy(scores, y)
    assert row["classification"] == pytest.approx(len(y) * float(cross_entropy), rel=1e-4)
    np.testing.assert_allclose(
        model.predict_proba(DATA.linked), scores.softmax(1), rtol=1e-4
    )  # g alone judges rows that have all views


def standardized(views):
    for X in views.values():
        exact = X.astype(float)
        yield ((exact - exact.mean(0)) / exact.std(0)).astype(np.float32)
