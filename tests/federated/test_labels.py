import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy, log_softmax

from hotview.federated.labels import fit_fusion, label_loss, linked_query, split_linked
from hotview.federated.settings import Settings
from hotview.semisupervised.fusion import fit_pool

CODES = np.array([1, -1, 0, 2, -1, 2])


def scores(n=6, n_classes=3, seed=0, names=("a", "b")):
    random = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(n, n_classes, generator=random, dtype=torch.float64) for name in names
    }


def test_the_loss_is_the_sum_of_cross_entropies_of_labeled_rows():
    given = scores()
    known = CODES >= 0
    truth = sum(
        2.0 * float(cross_entropy(x[known], torch.from_numpy(CODES[known]))) for x in given.values()
    )
    assert label_loss(given, CODES, 2.0).loss == pytest.approx(truth)


def test_gradients_are_those_of_the_loss():
    given, step = scores(), 1e-6
    found = label_loss(given, CODES, 0.7).gradients
    for name, x in given.items():
        for i, j in np.ndindex(*x.shape):
            near = {key: value.clone() for key, value in given.items()}
            near[name][i, j] += step
            far = {key: value.clone() for key, value in given.items()}
            far[name][i, j] -= step
            slope = (label_loss(near, CODES, 0.7).loss - label_loss(far, CODES, 0.7).loss) / (
                2 * step
            )
            assert float(found[name][i, j]) == pytest.approx(slope, abs=1e-8)


def test_rows_without_a_label_are_pulled_nowhere():
    given = scores()
    for gradient in label_loss(given, CODES, 1.0).gradients.values():
        assert (gradient[CODES < 0] == 0).all()
        assert (gradient[CODES >= 0] != 0).all()
    silent = label_loss(given, np.full(6, -1), 1.0)
    assert silent.loss == 0
    assert all((gradient == 0).all() for gradient in silent.gradients.values())
    assert not any(x.requires_grad for x in (*given.values(), *silent.gradients.values()))


@pytest.mark.parametrize("share", (0.0, 0.25, 0.5, 0.99))
@pytest.mark.parametrize("n", (0, 1, 7, 100))
def test_everybody_teaches_or_is_held_out(n, share):
    teaching, held = split_linked(n, share, 3)
    assert sorted([*teaching, *held]) == list(range(n))
    assert len(held) == round(share * n)
    again = split_linked(n, share, 3)
    assert [part.tolist() for part in again] == [teaching.tolist(), held.tolist()]


def asked(round, n_linked=40, **more):
    return linked_query(round, Settings(rounds=5, label_holder="a", **more), n_linked)


def test_some_are_held_out_until_it_is_known_how_much_views_count():
    teaching, held = (part.tolist() for part in split_linked(40, 0.25, 0))
    everybody = list(range(40))
    scores = [asked(round).scores.tolist() for round in range(1, 7)]
    assert scores == [teaching, teaching, teaching, everybody, everybody, []]
    assert [asked(round).held_out.tolist() for round in range(1, 7)] == [[], [], held, [], [], []]
    assert not any(len(asked(round).features) for round in range(1, 7))


def test_features_are_asked_for_when_views_are_weighed_and_in_the_end():
    found = [asked(round, share_features=True).features.tolist() for round in range(1, 7)]
    assert found == [[], [], list(range(40)), [], [], list(range(40))]


def test_shared_labels_make_scores_unnecessary_but_of_those_held_out():
    found = [asked(round, share_labels=True) for round in range(1, 7)]
    assert not any(len(one.scores) for one in found)
    assert [len(one.held_out) for one in found] == [0, 0, 10, 0, 0, 0]


def test_no_more_are_asked_about_than_fit_into_a_batch_and_others_every_round():
    found = [asked(round, linked_batch=8).scores for round in range(1, 6)]
    assert [len(set(rows.tolist())) for rows in found] == [8] * 5
    assert len({rows.tobytes() for rows in found}) == 5
    teaching, _ = split_linked(40, 0.25, 0)
    assert all(np.isin(rows, teaching).all() for rows in found[:3])
    assert all((np.diff(rows) > 0).all() for rows in found)


def test_without_a_label_holder_nobody_is_asked_about():
    for round in range(1, 7):
        one = linked_query(round, Settings(rounds=5, share_features=True), 40)
        assert len(one.scores) == len(one.held_out) == len(one.features) == 0


def test_gradients_of_scores_do_tell_labels_to_whoever_sees_them():
    # Which is why what crosses must not be seen by others, and what the documentation must say.
    known = CODES >= 0
    for gradient in label_loss(scores(), CODES, 1.0).gradients.values():
        assert (gradient.argmin(1).numpy()[known] == CODES[known]).all()


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
    pool, head = fit_fusion(["a", "b"], said, codes, {}, teaching, held, n_classes, 0)
    assert head is None
    assert pool.partial[0] > 3 * pool.partial[1]
    turned = {name: said[name] for name in ("b", "a")}
    other, _ = fit_fusion(["b", "a"], turned, codes, {}, teaching, held, n_classes, 0)
    assert other.partial[1] > 3 * other.partial[0]


def test_only_labels_that_were_held_out_count():
    codes, _, said, teaching, held = linked(3)
    changed = codes.copy()
    changed[teaching] = -1
    one, _ = fit_fusion(["a", "b"], said, codes, {}, teaching, held, 3, 0)
    other, _ = fit_fusion(["a", "b"], said, changed, {}, teaching, held, 3, 0)
    assert one == other
    wrong = codes.copy()
    wrong[held] = (codes[held] + 1) % 3
    assert fit_fusion(["a", "b"], said, wrong, {}, teaching, held, 3, 0)[0] != one


@pytest.mark.parametrize("n_classes", (2, 3))
def test_nobody_held_out_counts_all_views_alike(n_classes):
    codes, features, _, *_ = linked(n_classes)
    everybody = np.arange(len(codes))
    equal = fit_pool([], 2, np.random.default_rng(0))
    for given in ({}, features):
        pool, head = fit_fusion(["a", "b"], {}, codes, given, everybody, [], n_classes, 0)
        assert pool == equal
        assert (head is None) == (given == {})
    unlabeled = np.full(len(codes), -1)
    _, _, said, teaching, held = linked(n_classes)
    assert fit_fusion(["a", "b"], said, unlabeled, {}, teaching, held, n_classes, 0)[0] == equal


@pytest.mark.parametrize("n_classes", (2, 3))
def test_the_joint_head_is_a_logistic_regression_of_those_who_teach(n_classes):
    codes, features, said, teaching, held = linked(n_classes)
    pool, head = fit_fusion(["a", "b"], said, codes, features, teaching, held, n_classes, 0)
    F = torch.cat([features["a"], features["b"]], 1).numpy()
    rows = teaching[codes[teaching] >= 0]
    truth = LogisticRegression(max_iter=1000).fit(F[rows], codes[rows]).predict_log_proba(F)
    assert head.weight.shape == (n_classes, 8)
    found = log_softmax(torch.from_numpy(F @ head.weight.T + head.bias), 1)
    np.testing.assert_allclose(found, truth, atol=1e-10)
    without, _ = fit_fusion(["a", "b"], said, codes, {}, teaching, held, n_classes, 0)
    assert pool.partial == without.partial  # which are about rows that lack a view
    assert pool.complete != without.complete


def test_a_head_that_never_saw_a_class_stays_silent():
    codes, features, said, teaching, held = linked(3)
    codes[teaching] = np.where(codes[teaching] == 2, -1, codes[teaching])
    assert fit_fusion(["a", "b"], said, codes, features, teaching, held, 3, 0)[1] is None
