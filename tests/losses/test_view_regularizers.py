import numpy as np
import pytest
import torch
from scipy.linalg import eigh

from hotview.losses import reconstruction_error, smoothness_penalty


def tables(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


SHAPES = ((6, 3), (4, 5), (9, 1))


def test_reconstruction_is_the_mean_over_entries_added_over_views():
    Xs, decoded = tables(SHAPES), tables(SHAPES, seed=1)
    pairs = zip(Xs, decoded, strict=True)
    expected = sum(np.square(X.numpy() - Y.numpy()).mean() for X, Y in pairs)
    assert reconstruction_error(Xs, decoded).item() == pytest.approx(expected)
    assert reconstruction_error(Xs, Xs).item() == 0


def test_the_smoothness_penalty_is_the_mean_over_rows_summed_over_views():
    Ys, neighbors = tables(SHAPES), tables(SHAPES, seed=1)
    pairs = zip(Ys, neighbors, strict=True)
    expected = sum(np.square(Y.numpy() - N.numpy()).sum(axis=1).mean() for Y, N in pairs)
    assert smoothness_penalty(Ys, neighbors).item() == pytest.approx(expected)
    for relative in (False, True):
        assert smoothness_penalty(Ys, Ys, relative=relative).item() == 0


def neighboring(d, n=60, seed=0):
    """Rows and their neighbors, which differ by more in some directions than in others."""
    Y, noise = tables(((n, d), (n, d)), seed)
    return Y, Y + noise * torch.linspace(0.1, 0.5, d, dtype=torch.float64)


def slow_relative_penalty(Y, N):
    """Share of the squared distance of any two of these, in each of the principal directions.

    These are the directions in which the two quadratic forms are diagonal together.
    """
    Y, N = Y.numpy(), N.numpy()
    between = np.mean([np.outer(y - n, y - n) for y, n in zip(Y, N, strict=True)], axis=0)
    rows = [*Y, *N]
    at_random = np.mean([np.outer(y - other, y - other) for y in rows for other in rows], axis=0)
    return eigh(between, at_random, eigvals_only=True).mean()


def test_the_relative_penalty_is_the_mean_over_directions_summed_over_views():
    pairs = [neighboring(3), neighboring(5, seed=1), neighboring(1, seed=2)]
    expected = sum(slow_relative_penalty(*pair) for pair in pairs)
    found = smoothness_penalty(*zip(*pairs, strict=True), relative=True).item()
    assert found == pytest.approx(expected, rel=0.01)  # a little is added to every variance


def test_shrinking_or_giving_up_directions_is_smooth_but_not_relatively_so():
    Y, N = neighboring(3)
    relative = smoothness_penalty([Y], [N], relative=True).item()
    A = torch.tensor([[1.0, 0.5, 0.0], [0.0, 0.3, 0.2], [0.1, 0.0, 0.8]], dtype=torch.float64)
    for map in (A, 0.1 * torch.eye(3, dtype=torch.float64)):
        assert smoothness_penalty([Y @ map], [N @ map]) < smoothness_penalty([Y], [N])
        found = smoothness_penalty([Y @ map], [N @ map], relative=True).item()
        assert found == pytest.approx(relative, rel=0.02)


def test_gradients():
    tensors = [Y.requires_grad_() for Y in tables(((4, 2), (3, 3)))]
    others = [Y.requires_grad_() for Y in tables(((4, 2), (3, 3)), seed=1)]
    for function in (smoothness_penalty, reconstruction_error):
        assert torch.autograd.gradcheck(
            lambda *all, f=function: f(all[:2], all[2:]), (*tensors, *others)
        )
    pair = [Y.requires_grad_() for Y in neighboring(2, n=8)]
    # What is added to every variance is held fixed, so the gradient is exact only without it.
    assert torch.autograd.gradcheck(
        lambda Y, N: smoothness_penalty([Y], [N], relative=True), pair, atol=1e-3, rtol=0.02
    )


def test_the_floor_of_the_relative_penalty_lowers_it_by_a_thousandth():
    """In one dimension it is Σ (y − n)² over the squared deviations of all, times 1.001."""
    (Y,), (N,) = tables(((8, 1),)), tables(((8, 1),), seed=1)
    both = torch.cat([Y, N])
    expected = (Y - N).square().sum() / (1.001 * (both - both.mean()).square().sum())
    found = smoothness_penalty([Y], [N], relative=True)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


def test_a_direction_without_variance_adds_nothing_to_the_relative_penalty_and_no_nan():
    Y, N = (torch.cat([X, torch.ones(8, 1, dtype=X.dtype)], 1) for X in tables(((8, 1), (8, 1))))
    one = smoothness_penalty([Y[:, :1]], [N[:, :1]], relative=True)
    found = smoothness_penalty([Y], [N], relative=True)  # the mean over two directions
    torch.testing.assert_close(found, one / 2, rtol=2e-3, atol=0)
    flat = Y[:, 1:].requires_grad_()
    none = smoothness_penalty([flat], [N[:, 1:]], relative=True)
    none.backward()
    assert none == 0
    assert torch.isfinite(flat.grad).all()


def test_the_reconstruction_error_of_members_is_that_of_each():
    Xs, decoded = (tables(((3, 5, 4), (3, 5, 2)), seed) for seed in (0, 1))
    pairs = (([X[r] for X in Xs], [Y[r] for Y in decoded]) for r in range(3))
    expected = torch.stack([reconstruction_error(*pair) for pair in pairs])
    torch.testing.assert_close(reconstruction_error(Xs, decoded), expected)
