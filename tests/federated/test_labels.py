import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from small_federation import session_of
from torch.nn.functional import cross_entropy, log_softmax

from hotview.federated.local_trainer import fit_fusion, fit_head, label_loss
from hotview.federated.settings import Settings

CODES = np.array([1, -1, 0, 2, -1, 2])


def split_linked(n, fraction, seed):
    given = Settings(fusion_fraction=fraction, random_state=seed)
    return session_of(given, (), n).split_linked()


def fit(said, codes, features, teaching, held, n_classes):
    """Fusion weights and joint head, as the label holder fits them."""
    F = torch.cat(list(features.values()), 1).numpy() if features else None
    head = fit_head(F, codes, np.asarray(teaching), n_classes)
    joint = F[held] @ head["weight"].T + head["bias"] if head and said else None
    return fit_fusion(said, joint, codes[held], 2, 0), head


def scores():
    random = torch.Generator().manual_seed(0)
    return {name: torch.randn(6, 3, generator=random, dtype=torch.float64) for name in "ab"}


def test_the_loss_is_the_sum_of_cross_entropies_of_labeled_rows_and_has_its_gradients():
    given = {name: x.requires_grad_() for name, x in scores().items()}
    known = CODES >= 0
    truth = sum(
        0.7 * cross_entropy(x[known], torch.from_numpy(CODES[known])) for x in given.values()
    )
    loss, found = label_loss({name: x.detach() for name, x in given.items()}, CODES, 0.7)
    assert loss == pytest.approx(float(truth.detach()))
    gradients = torch.autograd.grad(truth, list(given.values()))
    for name, gradient in zip(given, gradients, strict=True):
        torch.testing.assert_close(found[name], gradient)
    loss, silent = label_loss(scores(), np.full(6, -1), 1.0)
    assert loss == 0
    for x in (*found.values(), *silent.values()):
        assert not x.requires_grad
    assert all((x == 0).all() for x in silent.values())


@pytest.mark.parametrize("share", (0.0, 0.25, 0.99))
@pytest.mark.parametrize("n", (0, 1, 7, 100))
def test_everybody_teaches_or_is_held_out(n, share):
    teaching, held = split_linked(n, share, 3)
    assert sorted([*teaching, *held]) == list(range(n))
    assert len(held) == round(share * n)


def asked(round, **more):
    """Linked rows that are queried for scores, when held out, and for features."""
    given = Settings(**{"rounds": 5, "label_holder": "a", **more})
    query = session_of(given, (), 40).linked_query(round)
    return [query.get(name, np.empty(0)) for name in ("scores", "held_out", "features")]


TEACHING, HELD = (part.tolist() for part in split_linked(40, 0.25, 0))
ALL = list(range(40))
#: settings, and who is asked about in six rounds: for scores, when held out, and for features
ASKED = (
    ({}, [TEACHING] * 3 + [ALL] * 2 + [[]], [[]] * 2 + [HELD] + [[]] * 3, [[]] * 6),
    (
        {"share_features": True},
        [TEACHING] * 3 + [ALL] * 2 + [[]],
        [[]] * 2 + [HELD] + [[]] * 3,
        [[]] * 2 + [ALL] + [[]] * 2 + [ALL],  # when views are weighed, and in the end
    ),
    ({"share_labels": True}, [[]] * 6, [[]] * 2 + [HELD] + [[]] * 3, [[]] * 6),
    ({"label_holder": None, "share_features": True}, [[]] * 6, [[]] * 6, [[]] * 6),
)


@pytest.mark.parametrize(("more", "scores", "held_out", "features"), ASKED)
def test_some_are_held_out_until_it_is_known_how_much_views_count(more, scores, held_out, features):
    found = [asked(round, **more) for round in range(1, 7)]
    rows = [[list(part) for part in by_round] for by_round in zip(*found, strict=True)]
    assert rows == [scores, held_out, features]


def test_no_more_are_asked_about_than_fit_into_a_batch_and_others_every_round():
    found = [asked(round, linked_batch=8)[0] for round in range(1, 6)]
    assert [len(set(rows.tolist())) for rows in found] == [8] * 5
    assert len({rows.tobytes() for rows in found}) == 5
    assert all(np.isin(rows, TEACHING).all() for rows in found[:3])
    assert all((np.diff(rows) > 0).all() for rows in found)


def linked(n_classes, n=80, n_features=4, seed=0):
    """Individuals, of whom view b knows nothing and view a something."""
    random = np.random.default_rng(seed)
    codes = random.integers(n_classes, size=n)
    codes[::10] = -1
    mean = random.normal(size=(n_classes, n_features))
    known = torch.from_numpy(mean[codes] + random.normal(size=(n, n_features)))
    features = {"a": known, "b": torch.from_numpy(random.normal(size=(n, n_features)))}
    teaching, held = split_linked(n, 0.4, seed)
    says = 2.0 * np.eye(n_classes)[codes] + random.normal(size=(n, n_classes))
    said = {"a": torch.from_numpy(says), "b": torch.from_numpy(random.normal(size=says.shape))}
    return codes, features, {name: x[held] for name, x in said.items()}, teaching, held


@pytest.mark.parametrize("n_classes", (2, 3))
def test_who_is_right_counts_more(n_classes):
    codes, _, said, teaching, held = linked(n_classes)
    pool, head = fit(said, codes, {}, teaching, held, n_classes)
    assert head == {}
    a, b = (w * u for (w,), u in zip(pool.predictors, pool.partial[:2], strict=True))
    assert a > 2 * b
    turned = {name: said[name] for name in ("b", "a")}
    other, _ = fit(turned, codes, {}, teaching, held, n_classes)
    b, a = (w * u for (w,), u in zip(other.predictors, other.partial[:2], strict=True))
    assert a > 2 * b


def test_only_labels_that_were_held_out_count():
    codes, _, said, teaching, held = linked(3)
    changed = codes.copy()
    changed[teaching] = -1
    one, _ = fit(said, codes, {}, teaching, held, 3)
    other, _ = fit(said, changed, {}, teaching, held, 3)
    assert one == other
    wrong = codes.copy()
    wrong[held] = (codes[held] + 1) % 3
    assert fit(said, wrong, {}, teaching, held, 3)[0] != one


@pytest.mark.parametrize("n_classes", (2, 3))
def test_nobody_held_out_counts_all_views_alike(n_classes):
    codes, features, _, *_ = linked(n_classes)
    everybody = np.arange(len(codes))
    equal = fit_fusion({}, None, codes[:0], 2, 0)
    for given in ({}, features):
        pool, head = fit({}, codes, given, everybody, [], n_classes)
        assert pool == equal
        assert (head == {}) == (given == {})
    unlabeled = np.full(len(codes), -1)
    _, _, said, teaching, held = linked(n_classes)
    assert fit(said, unlabeled, {}, teaching, held, n_classes)[0] == equal


@pytest.mark.parametrize("n_classes", (2, 3))
def test_the_joint_head_is_a_logistic_regression_of_those_who_teach(n_classes):
    codes, features, said, teaching, held = linked(n_classes)
    pool, head = fit(said, codes, features, teaching, held, n_classes)
    F = torch.cat([features["a"], features["b"]], 1).numpy()
    rows = teaching[codes[teaching] >= 0]
    truth = LogisticRegression(max_iter=1000).fit(F[rows], codes[rows]).predict_log_proba(F)
    assert head["weight"].shape == (n_classes, 8)
    found = log_softmax(torch.from_numpy(F @ head["weight"].T + head["bias"]), 1)
    np.testing.assert_allclose(found, truth, atol=1e-10)
    without, _ = fit(said, codes, {}, teaching, held, n_classes)
    assert pool.predictors == without.predictors  # which are about rows that lack a view
    assert pool.complete != without.complete


def test_a_head_that_never_saw_a_class_stays_silent():
    codes, features, said, teaching, held = linked(3)
    codes[teaching] = np.where(codes[teaching] == 2, -1, codes[teaching])
    assert fit(said, codes, features, teaching, held, 3)[1] == {}
