import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as few
from hypothesis import strategies as st
from small_federation import CLASSES, HOLDER, N_ROWS, client_data, directions, session_of, settings
from torch.nn.functional import cross_entropy

from hotview.federated.coupling import quadratic_surrogate
from hotview.federated.local_trainer import LocalTrainer
from hotview.federated.messages import Message
from hotview.federated.privacy import GaussianMechanism
from hotview.ot import sliced_cost
from hotview.training.checkpoint import optimizer_state

CPU = torch.device("cpu")


def asked(*scores):
    return {"scores": scores[0]} if scores else {}


def trainer(name="clinical", classes=(), mechanism=None, shared=None, **more):
    session = session_of(settings(**more), classes)
    return LocalTrainer(session, client_data()[name], CPU, mechanism, shared)


def reply(update_round=0, curvatures=(), **arrays):
    arrays = {k.replace("_", "."): x.numpy() for k, x in arrays.items()}
    return Message("round", {"update_round": update_round, "curvatures": dict(curvatures)}, arrays)


def standardized(name):
    X = np.asarray(client_data()[name].table.data, dtype=np.float64)
    return torch.from_numpy((X - X.mean(0)) / X.std(0)).float()


def outputs(one, X):
    """Features, latents and scores by the network's modules, one after the other."""
    network = one.network
    F = network.encoders[0](X)
    scores = network.view_heads[0](F) if len(network.view_heads) else None
    return F, network.maps[0](F), scores


def pull(at, target, curvature):
    """The surrogate of a cross-entropy."""
    x = at.clone().requires_grad_()
    (slope,) = torch.autograd.grad(cross_entropy(x, target), x)
    return lambda x: quadratic_surrogate(x, at, slope, curvature)


@few(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.floats(0.1, 30), st.integers(0, 1000))
def test_a_pull_bounds_a_cross_entropy_from_above(n_classes, n, far, seed):
    random = torch.Generator().manual_seed(seed)
    at, to = far * torch.randn(2, n, n_classes, generator=random, dtype=torch.float64)
    target = torch.randint(n_classes, (n,), generator=random)
    bound = cross_entropy(at, target) + pull(at, target, 1 / (4 * n))(to)
    assert float(bound) >= float(cross_entropy(to, target)) - 1e-9


def test_a_quarter_is_as_little_as_will_do():
    # Between two classes of even odds a cross-entropy bends as much as it ever does.
    to, target = torch.tensor([[1e-2, -1e-2]], dtype=torch.float64), torch.tensor([0])
    at = torch.zeros_like(to)
    truth = float(cross_entropy(to, target) - cross_entropy(at, target))
    assert float(pull(at, target, 0.25)(to)) == pytest.approx(truth, abs=1e-9)
    assert float(pull(at, target, 0.24)(to)) < truth


@pytest.mark.parametrize("coupling", ("hot-reference", "hot-pairwise", "none"))
def test_a_report_tells_what_can_be_computed_by_hand(coupling):
    more = {"batch_size": N_ROWS, "quantiles": N_ROWS, "coupling": coupling}
    one = trainer(classes=CLASSES, **more)
    linked = np.array([3, 0, 7])
    report = one.make_update(2, asked(linked))
    with torch.no_grad():
        _, Z, scores = outputs(one, standardized("clinical"))
    wanted = {"scores"}
    truth = scores[client_data()["clinical"].linked[linked]]
    torch.testing.assert_close(report.sent["scores"], truth, atol=1e-5, rtol=1e-5)
    if coupling != "none":
        wanted |= {"quantiles"}
        truth = (Z @ directions(0, 2, 0, 4, 3).T).sort(dim=0).values.T
        torch.testing.assert_close(report.sent["quantiles"], truth, atol=1e-5, rtol=1e-5)
    if coupling == "hot-pairwise":
        wanted |= {"moment"}
        torch.testing.assert_close(report.sent["moment"], Z.T @ Z / N_ROWS, atol=1e-5, rtol=1e-5)
    assert set(report.sent) == wanted
    assert report.round == 2
    assert sorted(report.rows) == list(range(N_ROWS))
    assert not any(x.requires_grad for x in report.sent.values())


def test_private_reports_have_noise_and_rows_of_their_own():
    more = {"batch_size": 16, "quantiles": 16}
    plain = trainer(**more).make_update(1, asked())
    kept = GaussianMechanism(1e3, 0.0, 16, 5)
    private = trainer(mechanism=kept, **more)
    report = private.make_update(1, asked())
    kept.reseed(1)
    assert report.rows.tolist() == kept.draw_rows(N_ROWS).tolist()
    assert report.rows.tolist() != plain.rows.tolist()
    Z = private.embed(report.rows).detach()
    truth = (Z @ directions(0, 1, 0, 4, 3).T).sort(dim=0).values.T
    torch.testing.assert_close(report.sent["quantiles"], truth, atol=1e-5, rtol=1e-5)
    noisy = trainer(mechanism=GaussianMechanism(2.0, 1.0, 16, 5), **more).make_update(1, asked())
    assert noisy.rows.tolist() == report.rows.tolist()
    assert (noisy.sent["quantiles"] - truth).abs().max() > 0.1
    assert (noisy.sent["quantiles"].diff(dim=1) >= 0).all()


def test_the_first_step_is_on_what_was_reported_and_others_on_the_new_references():
    one, w = trainer(local_steps=1), torch.tensor([0.1, 0.2])
    G = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(0))
    told = {"weights": w, "references": G + 100}
    report = one.make_update(1, asked())
    with torch.no_grad():
        C = sliced_cost([one.embed(report.rows)], list(G), directions=directions(0, 1, 0, 4, 3))
    row = one.train(report, reply(1, **told), G.numpy(), 2)
    assert row["transport"] == pytest.approx(0.1 * float((w * C[0]).sum()), rel=1e-5)
    # Of a report that got lost nothing is left but the references of now.
    absent = trainer(local_steps=1)
    row = absent.train(absent.make_update(1, asked()), reply(0, **told), G.numpy(), 2)
    assert row["transport"] > 100


def test_gradients_of_another_report_pull_nothing():
    gradient = {"gradient_scores": torch.ones(5, 3)}
    for about in (0, 1, 2):
        one = trainer(classes=CLASSES, coupling="none")
        start = copy.deepcopy(one.network.state_dict())
        told = reply(about, {"scores": 0.1}, **gradient)
        one.train(one.make_update(1, asked(np.arange(5))), told, None, 2)
        same = all(torch.equal(start[k], x) for k, x in one.network.state_dict().items())
        assert same == (about != 1)


def learns(one, part):
    """Whether a part of the loss falls."""
    losses = [
        one.train(one.make_update(round, asked()), reply(), None, round + 1)[part]
        for round in (1, 2)
    ]
    return losses[1] < losses[0]


def test_own_labels_of_people_who_are_not_linked_are_learned():
    one = trainer(HOLDER, CLASSES, coupling="none", local_steps=150, learning_rate=0.01)
    own = np.setdiff1d(np.arange(N_ROWS), client_data()[HOLDER].linked)
    assert one.labeled_rows.tolist() == own.tolist()
    assert learns(one, "own_labels")
    with torch.no_grad():
        scores = outputs(one, standardized(HOLDER)[own])[2]
    truth = client_data()[HOLDER].codes(CLASSES)[own]
    assert (scores.argmax(1).numpy() == truth).mean() > 0.9


def shared_codes():
    codes = client_data()[HOLDER].codes(CLASSES)[client_data()[HOLDER].linked]
    _, held = session_of().split_linked()
    told = codes.copy()
    told[held] = -1
    return codes, held, told


def test_shared_labels_are_learned_by_who_has_none():
    codes, held, told = shared_codes()
    one = trainer("clinical", CLASSES, shared=told, coupling="none", local_steps=100)
    assert one.soft_labels.shape == (N_ROWS, 3)
    linked = client_data()["clinical"].linked
    taught = np.setdiff1d(np.arange(len(codes)), held)
    assert (one.soft_labels[linked[taught]].argmax(1).numpy() == codes[taught]).all()
    assert learns(one, "soft_labels")


def test_labels_that_are_held_out_do_not_teach_even_the_holder():
    codes, held, told = shared_codes()
    one = trainer(HOLDER, CLASSES, shared=told)
    own = client_data()[HOLDER]
    other = own.labels.copy()
    other[own.linked[held]] = [CLASSES[(k + 1) % 3] for k in codes[held]]
    own.labels[:] = other
    changed = LocalTrainer(session_of(classes=CLASSES), own, CPU, None, told)
    assert torch.equal(one.soft_labels, changed.soft_labels)
    assert not np.array_equal(one.linked_codes, changed.linked_codes)  # which tell of views


@pytest.mark.parametrize(
    ("coupling", "gradient", "learning_rate"),
    (
        ("hot-pairwise", 1e38, 0.003),  # an infinite loss
        ("hot-reference", 1e25, 0.003),  # an infinite moment of Adam
        ("hot-reference", 1.0, 1e30),  # infinite latents in the second step
        ("hot-pairwise", 1.0, 1e300),  # infinite weights after the first
    ),
)
def test_steps_that_diverge_leave_weights_and_optimizer_as_they_were(
    coupling, gradient, learning_rate
):
    one = trainer(coupling=coupling)
    update, G = one.make_update(1, asked()), torch.ones(2, 8, 3)

    def train(gradient, round, learning_rate=0.003):
        one.optimizer.param_groups[0]["lr"] = learning_rate
        sent = {"gradient_quantiles": torch.full((4, 8), gradient)}
        if coupling == "hot-reference":
            sent |= {"weights": torch.ones(2), "references": G}
        return one.train(update, reply(1, {"quantiles": 0.1}, **sent), G.numpy(), round)

    assert len(one.optimizer.param_groups) == 1
    assert train(1.0, 2) is not None
    before = copy.deepcopy((one.network.state_dict(), optimizer_state(one.optimizer)))
    order = one.streams[0].state
    assert train(gradient, 3, learning_rate) is None
    after = (one.network.state_dict(), optimizer_state(one.optimizer))
    for then, now in zip(before, after, strict=True):
        assert then.keys() == now.keys()
        assert all(torch.equal(now[name], x) for name, x in then.items())
    assert not one.network.training
    assert not np.array_equal(one.streams[0].state["remaining"], order["remaining"])
    assert train(1.0, 4) is not None


def test_updates_of_a_network_that_overflows_are_finite():
    one = trainer(classes=CLASSES, mechanism=GaussianMechanism(2.0, 0.5, 16, 1))
    with torch.no_grad():
        for p in one.network.parameters():
            p.mul_(1e30)
    sent = one.make_update(1, asked(np.arange(4))).sent
    assert sent.keys() == {"quantiles", "scores"}
    assert all(x.isfinite().all() for x in sent.values())
    assert sent["quantiles"].abs().max() < 100
