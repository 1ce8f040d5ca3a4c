import numpy as np
import pytest
import torch
from small_federation import directions

from hotview.federated import Message
from hotview.federated.coupling import (
    ServerCoupling,
    quadratic_surrogate,
    quantile_costs,
    quantile_means,
)
from hotview.federated.settings import Settings
from hotview.losses.coupling import orthogonality, second_moment
from hotview.ot import sinkhorn, sliced_cost

NAMES = ("a", "b", "c", "d")
D, M, N = 3, 6, 8


def settings(**more):
    usual = {"n_components": D, "n_projections": M, "quantiles": N, "n_references": 2}
    usual |= {"local_steps": 1, "coupling_weight": 0.7, "orthogonality_weight": 0.3}
    return Settings(**{**usual, **more})


def cloud(seed, n=N):
    random = np.random.default_rng(seed)
    return torch.from_numpy(random.normal(size=(n, D)) + 2 * random.normal(size=D)).float()


def report(Z, round=1):
    Q = quantile_means(Z @ directions(0, round, 0, M, D).T, N)
    arrays = {"quantiles": Q.numpy(), "moment": second_moment(Z, "mean").numpy()}
    return Message("round", {"round": round}, arrays)


def sent(message, name="quantiles"):
    return torch.from_numpy(message.arrays[name])


def reports(round=1, names=NAMES, shift=0):
    return {name: report(cloud(NAMES.index(name) + shift), round) for name in names}


def test_costs_of_quantiles_are_those_of_the_clouds_and_have_their_gradients():
    Zs, theta = [cloud(seed).double() for seed in range(4)], directions(0, 1, 0, M, D).double()
    Qs = [quantile_means(Z @ theta.T, N).requires_grad_() for Z in Zs]
    found = quantile_costs(Qs)
    torch.testing.assert_close(found, sliced_cost(Zs, directions=theta))
    some = sliced_cost(Zs[:3], Zs[3:], directions=theta)
    torch.testing.assert_close(quantile_costs(Qs[:3], Qs[3:]), some)
    truth = [[float((P - Q).detach().square().mean()) for Q in Qs] for P in Qs]
    np.testing.assert_allclose(found.detach(), truth, rtol=1e-12, atol=1e-15)
    weights = torch.rand(4, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *Qs: (weights * quantile_costs(Qs)).sum(), Qs)
    R = Qs.pop()
    assert torch.autograd.gradcheck(lambda *Qs: quantile_costs(Qs, [R.detach()]), Qs)


def test_the_plan_is_that_of_the_costs():
    coupled = ServerCoupling(settings(coupling="hot-pairwise"), NAMES).update(reports())
    C = quantile_costs([sent(one) for one in reports().values()])
    mask = torch.eye(4, dtype=torch.bool)
    truth = sinkhorn(C, reg=0.1, relative=True, mask=mask, max_iter=1000)
    torch.testing.assert_close(coupled.plan.W, truth.W)
    assert coupled.parts["transport"] == pytest.approx(0.7 * float((truth.W * C).sum()))
    Zs = [cloud(seed) for seed in range(4)]
    assert coupled.parts["orthogonality"] == pytest.approx(
        0.7 * 0.3 * float(orthogonality(Zs, "mean")), rel=1e-5
    )


@pytest.mark.parametrize("names", (NAMES, ("a", "c"), ("b", "c", "d")))
def test_what_an_organization_is_told_is_the_whole_truth_while_others_stay(names):
    coupled = ServerCoupling(settings(coupling="hot-pairwise"), NAMES).update(reports(names=names))
    Qs = [sent(one).double() for one in reports(names=names).values()]
    W = coupled.plan.W.double()
    for s, name in enumerate(names):
        slope = coupled.replies[name]["gradient.quantiles"].double()
        c = coupled.curvatures["quantiles"]
        for seed in (10, 11):  # anywhere, not only nearby
            moved = list(Qs)
            moved[s] = sent(report(cloud(seed))).double()
            change = 0.7 * float((W * (quantile_costs(moved) - quantile_costs(Qs))).sum())
            pull = float(quadratic_surrogate(moved[s], Qs[s], slope, c))
            assert pull == pytest.approx(change, abs=1e-4, rel=1e-4)


def test_what_is_told_of_moments_bounds_what_comes_when_all_move_at_once():
    coupled = ServerCoupling(settings(coupling="hot-pairwise"), NAMES).update(reports())
    before = {name: sent(one, "moment").double() for name, one in reports().items()}
    after = {name: second_moment(cloud(9 + s).double(), "mean") for s, name in enumerate(NAMES)}
    one = torch.eye(D, dtype=torch.float64)

    def penalty(moments):
        return 0.7 * 0.3 * float((sum(moments.values()) - one).square().sum())

    def pulled(moments):
        c = coupled.curvatures["moment"]
        slopes = {n: told["gradient.moment"].double() for n, told in coupled.replies.items()}
        return sum(
            float(quadratic_surrogate(x, before[n], slopes[n], c)) for n, x in moments.items()
        )

    assert pulled(after) >= penalty(after) - penalty(before) - 1e-4
    # No less would do: of all going the same way it is the truth.
    way = {name: moment + one for name, moment in before.items()}
    assert pulled(way) == pytest.approx(penalty(way) - penalty(before), rel=1e-4)
    # One that moves by itself has the same slope.
    step = torch.full((D, D), 1e-5, dtype=torch.float64)
    slope = float((coupled.replies["a"]["gradient.moment"].double() * step).sum())
    near = {**before, "a": before["a"] + step}
    assert penalty(near) - penalty(before) == pytest.approx(slope, rel=1e-3)


def test_rows_of_the_plan_are_told_with_the_references_to_which_they_belong():
    center = ServerCoupling(settings(), NAMES)
    before = center.references
    for seed in (0, 1):
        other = ServerCoupling(settings(random_state=seed), NAMES).references
        assert torch.equal(before, other) == (seed == 0)
    coupled = center.update(reports())
    assert not torch.equal(center.references, before)
    theta = directions(0, 1, 0, M, D)
    Zs = [cloud(seed) for seed in range(4)]
    C = sliced_cost(Zs, list(before.unbind(0)), directions=theta)
    truth = sinkhorn(C, reg=0.1, relative=True, max_iter=1000)
    torch.testing.assert_close(coupled.plan.W, truth.W, atol=1e-5, rtol=1e-4)
    for s, name in enumerate(NAMES):
        assert coupled.replies[name].keys() == {"weights"}
        assert torch.equal(coupled.replies[name]["weights"], coupled.plan.W[s])
    some = center.update(reports(2, ("d", "b")))  # the plan is over those who are there
    assert some.names == ["b", "d"]
    assert some.replies["a"]["weights"].tolist() == [1 / 4] * 2  # of those absent all alike
    torch.testing.assert_close(some.plan.W.sum(1), torch.full((2,), 1 / 2), atol=1e-4, rtol=0)
    torch.testing.assert_close(some.plan.W.sum(0), torch.full((2,), 1 / 2), atol=1e-4, rtol=0)


def nearest(center):
    """How far the views are from the references, each from the nearest."""
    theta = directions(0, 99, 0, 20, D)
    Zs = [cloud(seed) for seed in range(4)]
    return float(
        sliced_cost(Zs, list(center.references.unbind(0)), directions=theta).min(1).values.mean()
    )


def test_references_move_toward_the_views():
    given = settings(local_steps=5, learning_rate=0.02, orthogonality_weight=0.0)
    center = ServerCoupling(given, NAMES)
    distances = [nearest(center)]
    for round in range(1, 6):
        center.update(reports(round))
        distances.append(nearest(center))
    assert max(distances[1:]) < 0.5 * distances[0]  # they begin among the views


@pytest.mark.parametrize("coupling", ("hot-reference", "hot-pairwise"))
def test_costs_are_averaged_over_rounds_and_kept_of_those_absent(coupling):
    center = ServerCoupling(settings(coupling=coupling, cost_decay=0.75), NAMES)
    first = center.update(reports(1, ("a", "b", "c"))).plan.C
    assert center.mean_cost[3].isnan().all()
    kept = center.mean_cost.clone()
    before = center.references
    coupled = center.update(reports(2, ("a", "b", "d"), shift=20))
    np.testing.assert_array_equal(center.mean_cost[2], kept[2])
    if coupling == "hot-pairwise":
        later = reports(2, ("a", "b", "d"), shift=20)
        C = quantile_costs([sent(one) for one in later.values()])
        torch.testing.assert_close(coupled.plan.C[0, 1], 0.75 * first[0, 1] + 0.25 * C[0, 1])
        torch.testing.assert_close(coupled.plan.C[0, 2], C[0, 2])  # who have not met before
        assert center.mean_cost[2, 3].isnan()
        assert center.mean_cost[3, 2].isnan()
    else:
        theta = directions(0, 2, 0, M, D)
        Gs = list(before.unbind(0))
        C = sliced_cost([cloud(20), cloud(23)], Gs, directions=theta)
        torch.testing.assert_close(
            coupled.plan.C[0], 0.75 * first[0] + 0.25 * C[0], atol=1e-4, rtol=1e-4
        )
        torch.testing.assert_close(coupled.plan.C[2], C[1], atol=1e-4, rtol=1e-4)
