import json

import numpy as np
import pytest
from sklearn import metrics

from hotview.evaluation import assess, expected_calibration_error
from hotview.evaluation.metrics import wilson_interval
from hotview.evaluation.thresholds import choose_threshold, split_by_hash


def draw(n, n_classes, seed=0, sharpness=1.0):
    """Probabilities, and classes that are drawn from them (sharpness 1) or not."""
    random = np.random.default_rng(seed)
    P = random.dirichlet(np.ones(n_classes), size=n)
    y = (random.random((n, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
    sharp = P**sharpness
    return sharp / sharp.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize(
    ("names", "is_weighted"), ((np.array([3, 5, 9]), False), (np.array(["a", "b", "c"]), True))
)
def test_numbers_are_scikit_learns(names, is_weighted):
    P, codes = draw(60, 3)
    y, predicted = names[codes], names[P.argmax(axis=1)]
    w = np.random.default_rng(1).integers(0, 4, 60) if is_weighted else None
    how = {"sample_weight": w}
    found = assess(y, P, names, **how)
    error = expected_calibration_error(P, y, names)
    assert is_weighted or found.calibration_error.value == pytest.approx(error)
    bins = np.minimum((P * 15).astype(int), 14)
    expected = {
        "accuracy": metrics.accuracy_score(y, predicted, **how),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, predicted, **how),
        "macro_f1": metrics.f1_score(y, predicted, average="macro", **how),
        "log_loss": metrics.log_loss(y, P, labels=names, **how),
    }
    for name, value in expected.items():
        assert getattr(found, name).value == pytest.approx(value), name
    confusion = metrics.confusion_matrix(y, predicted, labels=names)
    np.testing.assert_array_equal(found.confusion, confusion)
    how |= {"labels": names, "average": None}
    recall = metrics.recall_score(y, predicted, **how)
    precision = metrics.precision_score(y, predicted, **how)
    weights = np.ones(60) if w is None else w
    for k, part in enumerate(found.by_class):
        assert part.name == names[k]
        assert part.recall.value == pytest.approx(recall[k])
        assert part.precision.value == pytest.approx(precision[k])
        assert part.prevalence.value == pytest.approx(np.average(codes == k, weights=weights))
        assert part.mean_probability.value == pytest.approx(np.average(P[:, k], weights=weights))
        assert part.excess.value == pytest.approx(np.average(P[:, k] - (codes == k), weights=w))
        gaps = np.bincount(bins[:, k], weights * ((codes == k) - P[:, k]))
        assert part.calibration_error.value == pytest.approx(np.abs(gaps).sum() / weights.sum())
    assert found.binary is None


@pytest.mark.parametrize(
    ("n", "decimals", "is_weighted"), ((80, 1, True), (5_000, 15, False), (80, 1, False))
)
def test_ranking_is_scikit_learns_with_ties_and_weights_and_of_many_rows(n, decimals, is_weighted):
    P, y = draw(n, 2)
    p = P[:, 1].round(decimals)
    w = np.random.default_rng(1).random(n) if is_weighted else None
    found = assess(y, np.column_stack([1 - p, p]), [0, 1], positive=1, sample_weight=w).binary
    auc = metrics.roc_auc_score(y, p, sample_weight=w)
    precision = metrics.average_precision_score(y, p, sample_weight=w)
    assert found.auc.value == pytest.approx(auc, abs=1e-12)
    assert found.average_precision.value == pytest.approx(precision, abs=1e-12)
    for k, recall in ((1, found.default.sensitivity), (0, found.default.specificity)):
        expected = metrics.recall_score(y, p > 0.5, pos_label=k, sample_weight=w)
        assert recall.value == pytest.approx(expected)
    assert found.auc.low < found.auc.value < found.auc.high


@pytest.mark.filterwarnings("error")
def test_weights_that_are_numbers_of_rows_give_the_metrics_of_these_rows():
    P, y = draw(50, 3)
    w = np.random.default_rng(0).integers(0, 4, 50)
    weighted = assess(y, P, range(3), sample_weight=w)
    repeated = assess(np.repeat(y, w), np.repeat(P, w, axis=0), range(3))
    for name in ("accuracy", "log_loss", "calibration_error"):
        assert getattr(weighted, name).value == pytest.approx(getattr(repeated, name).value)
    # Rows of weight 0 do not count.
    found, few = (assess(y[:n], P[:n], range(3), sample_weight=np.arange(n) < 9) for n in (50, 9))
    assert found.accuracy.low == pytest.approx(few.accuracy.low)
    assert found.accuracy.high == pytest.approx(few.accuracy.high)


TRUE = {
    "accuracy": lambda P, y: np.mean(P.argmax(axis=1) == y),
    "balanced_accuracy": lambda P, y: metrics.balanced_accuracy_score(y, P.argmax(axis=1)),
    "macro_f1": lambda P, y: metrics.f1_score(y, P.argmax(axis=1), average="macro"),
    "log_loss": lambda P, y: metrics.log_loss(y, P),
    "calibration_error": lambda P, y: expected_calibration_error(P, y, [0, 1]),
    "majority": lambda P, y: np.mean(y == 0),
}
TRUE_OF_ONE = {
    "auc": lambda P, y: metrics.roc_auc_score(y, P[:, 1]),
    "average_precision": lambda P, y: metrics.average_precision_score(y, P[:, 1]),
}


def test_intervals_cover_the_truth():
    """Of 200 samples, 95 % intervals cover the values of the population in 90 % to 99 %."""
    P, y = draw(100_000, 2, seed=1, sharpness=2.0)
    kept = (y == 0) | (np.random.default_rng(0).random(len(y)) < 0.4)  # one class is rarer
    P, y = P[kept], y[kept]
    truth = {name: f(P, y) for name, f in (TRUE | TRUE_OF_ONE).items()}
    truth["excess"] = P[:, 1].mean() - np.mean(y == 1)
    random, covered = np.random.default_rng(2), dict.fromkeys(truth, 0)
    for _ in range(200):
        rows = random.integers(0, len(y), 150)
        found = assess(y[rows], P[rows], [0, 1], positive=1, prior=[1, 0])
        values = {name: getattr(found, name) for name in TRUE}
        values |= {name: getattr(found.binary, name) for name in TRUE_OF_ONE}
        values["excess"] = found.by_class[1].excess
        for name, x in values.items():
            covered[name] += x.low <= truth[name] <= x.high
    assert all(n >= 180 for n in covered.values()), covered
    assert all(n <= 199 for name, n in covered.items() if name != "calibration_error"), covered


@pytest.mark.parametrize(("prevalence", "n"), ((0.5, 5), (0.03, 20)))
def test_calibrated_probabilities_are_seldom_said_not_to_be(prevalence, n):
    """Of 100 samples of calibrated probabilities, no metric denies it in more than 10."""
    random = np.random.default_rng(0)
    denied = dict.fromkeys(("calibration_error", "class_calibration_error", "excess"), 0)
    for _ in range(100):
        p = random.beta(2 * prevalence, 2 * (1 - prevalence), n)
        P, y = np.column_stack([1 - p, p]), (random.random(n) < p).astype(int)
        found = assess(y, P, [0, 1])
        denied["calibration_error"] += found.calibration_error.low > 0
        denied["class_calibration_error"] += found.by_class[1].calibration_error.low > 0
        denied["excess"] += found.by_class[1].excess.low > 0 or found.by_class[1].excess.high < 0
    assert max(denied.values()) <= 10, denied
    # Probabilities that are wrong are said to be.
    p, y = random.uniform(0.6, 1.0, 300), (random.random(300) < 0.5).astype(int)
    found = assess(y, np.column_stack([1 - p, p]), [0, 1])
    wrong = found.calibration_error, found.by_class[1].calibration_error, found.by_class[1].excess
    assert min(x.low for x in wrong) > 0.1


def test_rows_of_one_class_leave_the_other_in_doubt():
    P = np.column_stack([np.full(5, 0.9), np.full(5, 0.1)])
    found = assess([0] * 5, P, [0, 1], cost=3)
    assert found.binary.auc is found.binary.average_precision is None
    assert found.binary.default.sensitivity is None
    excess, cost = found.by_class[1].excess, found.binary.chosen.cost
    assert excess.low < 0 < excess.value < excess.high
    assert cost.value == 0
    assert 1 < cost.high < 3
    assert found.log_loss.high > 0.4


def test_groups_are_resampled_as_a_whole():
    P, y = draw(60, 2)
    copies = np.repeat(np.arange(60), 10)
    alone, grouped = assess(y, P, [0, 1]), assess(y[copies], P[copies], [0, 1], groups=copies)
    assert (alone.resampled, grouped.resampled) == ("rows", "groups")
    blind = assess(y[copies], P[copies], [0, 1])
    for name in ("accuracy", "balanced_accuracy", "log_loss", "macro_f1", "recall"):
        parts = (x.by_class[1] if name == "recall" else x for x in (alone, grouped, blind))
        a, b, c = (x.high - x.low for x in (getattr(part, name) for part in parts))
        assert b == pytest.approx(a, rel=0.15)
        assert c < a / 2
    assert assess(y, P, [0, 1], groups=np.arange(60)).resampled == "rows"


def test_a_perfect_score_of_few_rows_is_no_certainty():
    for n_rare, n in ((3, 3), (50, 100)):  # of a mean over classes, the rare ones determine it
        y = np.repeat([0, 1], [100 - n_rare, n_rare])
        low = assess(y, np.eye(2)[y], [0, 1]).macro_f1.low
        assert low == pytest.approx(wilson_interval(1, n)[0])
    found = assess([0, 1] * 5, [[0.9, 0.1], [0.1, 0.9]] * 5, [0, 1])
    for x in (found.balanced_accuracy, found.macro_f1, found.binary.auc):
        assert (x.value, x.high) == (1.0, 1.0)
        assert 0.5 < x.low < 0.85
    one = assess([1], [[0.2, 0.8]], [0, 1])
    assert one.to_json()["log_loss_interval"] == [None, None]
    assert one.binary.auc is None


def test_the_majority_class_is_that_of_training():
    P, y = draw(100, 2)
    found = assess(y, P, [0, 1], prior=[3, 97])
    assert found.majority_class == 1
    assert found.majority.value == np.mean(y == 1)
    assert (found.binary.positive, found.binary.reason) == (0, "the rarer class in training")
    rare = assess([0, 0, 1], P[:3], [0, 1])
    assert (rare.majority_class, rare.binary.positive) == (0, 1)
    assert rare.binary.reason == "the rarer class of these rows"
    assert assess([0, 1], P[:2], [0, 1]).binary.positive == 1


def test_one_of_many_classes_can_be_the_positive_one():
    P, y = draw(100, 3)
    found = assess(y, P, range(3), positive=2, cost=2).binary
    assert found.auc.value == pytest.approx(metrics.roc_auc_score(y == 2, P[:, 2]))
    best = P.argmax(axis=1)
    assert found.default.sensitivity.value == pytest.approx(np.mean(best[y == 2] == 2))
    assert found.chosen is not None
    with pytest.raises(ValueError, match="Expected two classes beside a cost"):
        assess(y, P, range(3), cost=2)


def test_an_unknown_class_counts_as_an_error_and_one_that_does_not_occur_not_at_all():
    found = assess(["a", "z"], [[0.9, 0.1], [0.2, 0.8]], ["a", "b"])
    assert found.accuracy.value == found.balanced_accuracy.value == 0.5
    assert found.classes == ["a", "b", "z"]
    assert found.confusion == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert found.log_loss is None
    found = assess(["a", "a"], [[0.9, 0.1], [0.8, 0.2]], ["a", "b"])
    assert found.balanced_accuracy.value == found.macro_f1.value == 1.0
    assert found.by_class[1].recall is found.by_class[1].precision is None


def test_json_can_hold_it():
    P, y = draw(20, 2)
    facts = assess(y, P, np.array([0, 1]), cost=2).to_json()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["rows"] == 20
    assert facts["accuracy_interval"][0] < facts["accuracy"] < facts["accuracy_interval"][1]
    assert len(facts["by_class"][0]["recall_interval"]) == 2
    assert facts["binary"]["chosen"]["threshold"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"y": [0]}, "each of the 2 rows of probabilities, but y holds 1"),
        ({"classes": [0, 1, 2]}, "3 probabilities for every row"),
        ({"probabilities": [[0.5, 0.5], [np.nan] * 2]}, "probabilities from 0 to 1"),
        ({"sample_weight": [1, -1]}, "a weight of at least 0 for each of the 2 rows"),
        ({"sample_weight": [0, 0]}, "not all of them 0"),
        ({"groups": [1]}, "the group of each of the 2 rows"),
        ({"prior": [1]}, "a number for each of the 2 classes"),
        ({"positive": "x"}, "positive to be a class of the model, but it is 'x'"),
        ({"cost": 0}, "cost to be a positive number"),
        ({"threshold": 1.5}, "threshold to be a probability or 'held-out'"),
    ),
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = {"y": [0, 1], "probabilities": [[0.5, 0.5]] * 2, "classes": [0, 1]}
    with pytest.raises(ValueError, match=message):
        assess(**arguments | change)


def draw_rare(n):
    """Calibrated probabilities of a class that is rare."""
    random = np.random.default_rng(0)
    p = random.beta(0.5, 2.0, n)
    return np.column_stack([1 - p, p]), (random.random(n) < p).astype(int)


def test_the_threshold_by_cost_is_the_cheapest_where_probabilities_are_calibrated():
    def cost_of(threshold):
        flagged = P[:, 1] >= threshold
        return np.mean(np.where(y == 1, 5 * ~flagged, flagged))

    P, y = draw_rare(20_000)
    found = assess(y, P, [0, 1], cost=5).binary
    assert found.cost_ratio == 5
    assert found.chosen.threshold == pytest.approx(1 / 6)
    assert "lowest expected cost" in found.chosen.source
    assert found.chosen.cost.value == pytest.approx(cost_of(1 / 6))
    assert found.chosen.cost.value < min(found.default.cost.value, cost_of(0.08), cost_of(0.3))
    assert found.chosen.cost.low < found.chosen.cost.value < found.chosen.cost.high
    assert found.chosen.sensitivity.value > found.default.sensitivity.value
    assert found.chosen.specificity.value < found.default.specificity.value


def test_a_given_threshold_flags_probabilities_from_it_on():
    P = np.array([[0.7, 0.3], [0.8, 0.2], [0.6, 0.4], [0.9, 0.1]])
    found = assess([1, 1, 0, 0], P, [0, 1], threshold=0.3).binary.chosen
    assert (found.threshold, found.source, found.n) == (0.3, "given", 4)
    assert found.sensitivity.value == found.specificity.value == found.precision.value == 0.5
    assert found.cost is None
    nobody = assess([1, 1, 0, 0], P, [0, 1], threshold=1.0, cost=3).binary.chosen
    assert nobody.precision is None
    assert nobody.cost.value == 1.5


def test_a_threshold_is_chosen_on_one_half_and_scored_on_the_other():
    P, y = draw_rare(2_000)
    ids = [f"p{i}" for i in range(2_000)]
    how = {"threshold": "held-out", "cost": 5, "groups": ids}
    found = assess(y, P, [0, 1], **how).binary.chosen
    half = split_by_hash(ids)
    assert found.threshold == choose_threshold(y[half] == 1, P[half, 1], np.ones(half.sum()), 5)
    assert found.n == (~half).sum()
    flagged = P[~half, 1] >= found.threshold
    assert found.sensitivity.value == pytest.approx(flagged[y[~half] == 1].mean())
    assert f"on the other {half.sum():,} rows" in found.source
    assert found.threshold == pytest.approx(1 / 6, abs=0.08)
    order = np.random.default_rng(0).permutation(2_000)
    how["groups"] = np.array(ids)[order]
    again = assess(y[order], P[order], [0, 1], **how).binary.chosen
    assert again.threshold == found.threshold


@pytest.mark.parametrize("cost", (0.5, 1.0, 4.0, None))
def test_no_threshold_is_cheaper(cost):
    P, y = draw_rare(200)
    weights = np.random.default_rng(0).random(200)
    ratio = cost or weights[y == 0].sum() / weights[y == 1].sum()

    def total(threshold):
        flagged = P[:, 1] >= threshold
        return weights @ np.where(y == 1, ratio * ~flagged, flagged)

    best = min(total(t) for t in [*P[:, 1], 1.1])
    assert total(choose_threshold(y == 1, P[:, 1], weights, cost)) == pytest.approx(best)


def test_halves_have_the_same_size_and_keep_groups():
    half = split_by_hash(np.arange(400) // 2)
    assert half.mean() == 0.5
    assert half[:200].mean() == pytest.approx(0.5, abs=0.15)
    np.testing.assert_array_equal(half[::2], half[1::2])
    with pytest.raises(ValueError, match="both classes among those that the threshold is chosen"):
        assess([0] * 20, draw_rare(20)[0], [0, 1], threshold="held-out", positive=1)
