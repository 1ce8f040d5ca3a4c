import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from hotview.semisupervised import label_transfer
from hotview.semisupervised.label_transfer import (
    anchor_profiles,
    profile_agreement,
    source_weights,
    transfer_scores,
)
from hotview.semisupervised.propagation import (
    normalize_by_class_mass,
    normalized_adjacency,
    propagate,
)

N_CLASSES = 4


def graph(X, k=8):
    return normalized_adjacency(
        NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)
    )


def make_pair(n=120, seed=0, classes=None, gap=6.0, columns=(6, 9), n_linked=8):
    """Two views of different individuals, but for the first rows, which are linked.

    The means of the classes are random, so that some classes are nearer to each other than others:
    by this the views know each other's classes. Linked rows are of the given classes only.
    """
    random = np.random.default_rng(seed)
    place = gap * random.normal(size=(N_CLASSES, 3))
    linked_classes = np.arange(N_CLASSES) if classes is None else np.asarray(classes)
    shared = linked_classes[np.arange(n_linked) % len(linked_classes)]
    targets, graphs = [], []
    for D in columns:
        y = np.concatenate([shared, random.integers(N_CLASSES, size=n - n_linked)])
        Q = np.linalg.qr(random.normal(size=(D, D)))[0]
        graphs.append(graph(place[y] @ Q[:3] + random.normal(size=(n, D))))
        targets.append(y)
    linked = np.repeat(np.arange(n_linked)[:, None], 2, axis=1)
    return graphs, targets, linked


def soft(y, sure=0.8):
    return np.eye(N_CLASSES)[y] * sure + (1 - sure) / N_CLASSES


def run(graphs, scores, linked, seed=0):
    return transfer_scores(graphs[0], scores, graphs[1], linked, random=np.random.default_rng(seed))


def accuracy(F, y):
    return np.mean(F.argmax(axis=1) == y)


def test_profiles_are_logarithms_of_the_kernel_standardized():
    (S, _), _, linked = make_pair(n=60)
    K = np.linalg.inv(np.eye(60) - 0.99 * S.toarray())[:, linked[:, 0]]
    P = np.log(np.maximum(K, 0) + 0.01 * 100 / 60)
    P -= P.mean(axis=1, keepdims=True)
    weight = np.where(np.arange(60) < len(linked), 11.0, 1.0) / (60 + 10 * len(linked))
    P -= weight @ P
    P /= np.sqrt(weight @ P**2)
    np.testing.assert_allclose(anchor_profiles(S, linked[:, 0]), P, atol=1e-3)


@pytest.mark.parametrize("n_linked", (0, 1, 3))
def test_rows_add_up_to_1_however_few_are_linked(n_linked):
    graphs, _, linked = make_pair(n_linked=n_linked)
    y = np.repeat(np.arange(N_CLASSES), (60, 30, 20, 10))
    F = run(graphs, soft(y), linked)
    assert F.shape == (120, N_CLASSES)
    assert F.min() >= 0
    np.testing.assert_allclose(F.sum(axis=1), 1)
    if n_linked == 0:  # all get the shares of the teacher's classes
        np.testing.assert_allclose(F, np.broadcast_to(F[0], F.shape), atol=1e-4)
        assert (np.diff(F[0]) < 0).all()
    if n_linked < 2:  # which tell no rows apart
        np.testing.assert_array_equal(anchor_profiles(graphs[0], np.arange(n_linked)), 0)


@pytest.mark.parametrize("seed", range(2))
def test_classes_without_a_linked_row_or_of_other_shares_are_found_all_the_same(seed):
    graphs, (y, truth), linked = make_pair(n=200, seed=seed, classes=(0, 1, 2), n_linked=12)
    F = run(graphs, soft(y), linked)
    missing = truth == 3
    assert accuracy(F, truth) > 0.9
    assert accuracy(F[missing], truth[missing]) > 0.8
    graphs, (y, truth), linked = make_pair(n=300, seed=seed, n_linked=12)
    kept = np.flatnonzero((np.arange(300) < 12) | (truth > 1) | (np.arange(300) % 4 == 0))
    F = run((graphs[0], graphs[1][kept][:, kept]), soft(y), linked)
    assert accuracy(F, truth[kept]) > 0.9


def test_neither_the_order_of_rows_nor_names_of_classes_matter_and_nothing_is_changed():
    graphs, (y, _), linked = make_pair()
    scores, p = soft(y), np.array([2, 0, 3, 1])
    inputs = [graphs[0].data, graphs[1].data, scores, linked]
    before = [x.copy() for x in inputs]
    F = run(graphs, scores, linked)
    for x, old in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(x, old)
    random = np.random.default_rng(1)
    a, b = random.permutation(120), random.permutation(120)
    moved = np.stack([np.argsort(a)[linked[:, 0]], np.argsort(b)[linked[:, 1]]], axis=1)
    moved = random.permutation(moved)
    shuffled = [S[p][:, p] for S, p in zip(graphs, (a, b), strict=True)]
    np.testing.assert_allclose(run(shuffled, scores[a][:, p], moved), F[b][:, p], atol=1e-3)


def test_a_sample_of_many_rows_is_enough(monkeypatch):
    graphs, (y, truth), linked = make_pair(n=300, n_linked=12)
    whole = accuracy(run(graphs, soft(y), linked), truth)
    monkeypatch.setattr(label_transfer, "_N_SAMPLE", 80)
    F = run(graphs, soft(y), linked)
    assert accuracy(F, truth) > whole - 0.05
    np.testing.assert_array_equal(run(graphs, soft(y), linked), F)
    assert not np.array_equal(run(graphs, soft(y), linked, seed=1), F)


@pytest.mark.parametrize("hold", (0.5, 1.0))
def test_factors_draw_column_sums_toward_shares(monkeypatch, hold):
    """The optimum of the relaxed problem: log factors are h / (1 − h) times the log shortfall."""
    monkeypatch.setattr(label_transfer, "_RELAXATION", hold)
    monkeypatch.setattr(label_transfer, "_SCALINGS", 500)
    kernel = np.random.default_rng(0).random((50, 3)) * [1.0, 5.0, 1.0]
    shares = np.array([0.5, 0.2, 0.3])
    factors = label_transfer._relax(kernel, shares)
    plan = kernel * factors
    column = (plan / plan.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(factors ** (1 - hold), (shares / column) ** hold, rtol=1e-6)


def test_teachers_that_all_disagree_weigh_the_same_and_one_without_links_nothing():
    Q, pairs = np.random.default_rng(0).normal(size=(30, 5)), np.tile(np.arange(5)[:, None], 2)
    for first, links, expected in ((-Q, pairs, [0.5, 0.5]), (Q, pairs[:0], [1, 0])):
        random = np.random.default_rng(0)
        w = source_weights([first, -Q], [Q, Q], [pairs, links], random=random)
        np.testing.assert_allclose(w, expected)


def correlation(P, Q, linked):
    """Of the profiles of linked rows, but those of a row to itself."""
    n = len(linked)
    x, y = (X[linked[:, side]] for side, X in enumerate((P, Q)))
    others = [(i, j) for i in range(n) for j in range(n) if i != j]
    return np.corrcoef([x[i, j] for i, j in others], [y[i, j] for i, j in others])[0, 1]


@pytest.mark.parametrize("noise", (0.0, 2.0))
def test_agreement_is_the_squared_correlation_of_linked_rows(noise):
    random = np.random.default_rng(0)
    P = random.normal(size=(30, 8)) + 5 * np.eye(30, 8)  # rows are near to themselves
    linked = np.stack([np.arange(8), np.arange(8)[::-1]], axis=1)
    Q = random.normal(size=(30, 8))
    Q[linked[:, 1]] = P[linked[:, 0]] + noise * random.normal(size=(8, 8))
    r = correlation(P, Q, linked)
    assert profile_agreement(P, Q, linked) == pytest.approx(r**2)
    assert 0.1 < r**2 <= 1 + 1e-12
    assert profile_agreement(P, -Q, linked) == 0  # a negative correlation is no agreement
    assert profile_agreement(3 * P + 1, Q / 7 - 2, linked) == pytest.approx(r**2)
    assert profile_agreement(P[:, :2], Q[:, 6:], linked[:2] % 6) == 1  # two rows always agree


def test_weights_of_sources_are_the_formula():
    """n / (n + 20) r² exp(−C / mean C), where C is c² for a cloud moved by c in every coordinate.

    The directions are whole orthogonal bases, because the numbers of columns divide 64.
    """
    random = np.random.default_rng(0)
    sources, targets, linked, raw = [], [], [], []
    moves = np.array([0.5, 1.0, 0.8, 0.1])
    for n, move, n_wrong in zip((4, 8, 16, 16), moves, (0, 4, 6, 8), strict=True):
        Q = random.normal(size=(40, n))
        Q[:n] += 4 * np.add.outer(np.arange(n) % 2, np.arange(n) % 2)  # so that rows are alike
        pairs = np.repeat(np.arange(n)[:, None], 2, axis=1)
        pairs[:n_wrong, 0] = np.roll(pairs[:n_wrong, 0], 1)
        sources.append(Q + move)
        targets.append(Q)
        linked.append(pairs)
        r = max(0.0, correlation(Q + move, Q, pairs))
        raw.append(n / (n + 20) * r**2 * np.exp(-(move**2) / np.mean(moves**2)))
    w = source_weights(sources, targets, linked, random=random)
    assert min(raw) > 0.001
    np.testing.assert_allclose(w, np.array(raw) / np.sum(raw), rtol=1e-10)


@pytest.mark.parametrize("n_linked", (4, 20))
def test_the_prior_of_refinement_weighs_transport_by_agreement_and_both_by_links(
    monkeypatch, n_linked
):
    """(F + 1/K)^r² (local + 1/K)^(1 − r²), to the power of n / (n + 20)."""
    graphs, (y, _), linked = make_pair(n_linked=n_linked)
    linked = linked.copy()
    linked[:4, 1] = linked[[1, 2, 3, 0], 1]  # wrong links, so that profiles disagree
    taken = {}
    refine = label_transfer._refine

    def take(S, scores, prior, frequencies, rows, linked_scores):
        taken.update(moved=scores, prior=prior, frequencies=frequencies)
        return refine(S, scores, prior, frequencies, rows, linked_scores)

    monkeypatch.setattr(label_transfer, "_refine", take)
    scores = soft(y)
    run(graphs, scores, linked)
    sharp = scores**3 / (scores**3).sum(axis=1, keepdims=True)
    seeds = np.zeros_like(scores)
    seeds[linked[:, 1]] = sharp[linked[:, 0]]
    local = normalize_by_class_mass(propagate(graphs[1], seeds), np.maximum(seeds.sum(axis=0), 0.3))
    P, Q = (anchor_profiles(S, linked[:, side]) for side, S in enumerate(graphs))
    trust = max(0.0, correlation(P, Q, linked)) ** 2
    assert trust < 0.9
    pooled = (taken["moved"] + 0.25) ** trust * (local + 0.25) ** (1 - trust)
    expected = pooled ** (n_linked / (n_linked + 20))
    np.testing.assert_allclose(taken["prior"], expected, rtol=1e-6)
    # Half of the frequencies are those of the source, each class with one row more.
    counts = np.bincount(y, minlength=N_CLASSES) + 1
    frequencies = (counts / counts.sum() + taken["moved"].mean(axis=0)) / 2
    np.testing.assert_allclose(taken["frequencies"], frequencies)


def test_linked_rows_keep_their_scores_but_for_the_common_balance_of_classes():
    graphs, (y, _), linked = make_pair()
    scores = soft(np.random.default_rng(0).permutation(y), sure=0.5)
    F = run(graphs, scores, linked)
    sharp = scores**3 / (scores**3).sum(axis=1, keepdims=True)
    change = np.log(F[linked[:, 1]]) - np.log(sharp[linked[:, 0]] + 1e-6)
    change -= change[:, :1]
    np.testing.assert_allclose(change, np.broadcast_to(change[0], change.shape), atol=1e-9)
