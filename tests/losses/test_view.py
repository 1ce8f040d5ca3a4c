import numpy as np
import pytest
import torch

from hotview.losses import reconstruction_error, roughness


def tables(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


SHAPES = ((6, 3), (4, 5), (9, 1))


def test_reconstruction_is_the_mean_over_entries_added_over_views():
    Xs, decoded = tables(SHAPES), tables(SHAPES, seed=1)
    expected = 0.0
    for X, Y in zip(Xs, decoded, strict=True):
        entries = [(x - y) ** 2 for x, y in zip(X.numpy().ravel(), Y.numpy().ravel(), strict=True)]
        expected += sum(entries) / len(entries)
    assert reconstruction_error(Xs, decoded).item() == pytest.approx(expected)
    assert reconstruction_error(Xs, Xs).item() == 0


def slow_roughness(Ys, neighbors, relative):
    total = 0.0
    for Y, N in zip(Ys, neighbors, strict=True):
        Y, N = Y.numpy(), N.numpy()
        distance = np.mean([np.sum((y - n) ** 2) for y, n in zip(Y, N, strict=True)])
        if relative:  # to two rows at random, drawn with replacement
            distance /= np.mean([np.sum((y - other) ** 2) for y in Y for other in Y])
        total += distance
    return total


@pytest.mark.parametrize("relative", (False, True))
def test_roughness_is_the_mean_over_rows_added_over_views(relative):
    Ys, neighbors = tables(SHAPES), tables(SHAPES, seed=1)
    found = roughness(Ys, neighbors, relative=relative).item()
    assert found == pytest.approx(slow_roughness(Ys, neighbors, relative))


def test_shrinking_is_smooth_but_not_relatively_so():
    Ys, neighbors = tables(SHAPES), tables(SHAPES, seed=1)
    small = [[Y / 10 for Y in some] for some in (Ys, neighbors)]
    assert roughness(*small).item() == pytest.approx(roughness(Ys, neighbors).item() / 100)
    relative = roughness(Ys, neighbors, relative=True).item()
    assert roughness(*small, relative=True).item() == pytest.approx(relative)


@pytest.mark.parametrize("relative", (False, True))
def test_rows_equal_to_their_neighbors_are_smooth(relative):
    Ys = tables(SHAPES)
    assert roughness(Ys, Ys, relative=relative).item() == 0


def test_a_view_without_variance_gives_no_nan():
    Y = torch.ones(4, 3, requires_grad=True)
    found = roughness([Y], [Y.detach().clone()], relative=True)
    found.backward()
    assert found.item() == 0
    assert torch.isfinite(Y.grad).all()


@pytest.mark.parametrize("relative", (False, True))
def test_gradients(relative):
    Ys = [Y.requires_grad_() for Y in tables(((4, 2), (3, 3)))]
    neighbors = [Y.requires_grad_() for Y in tables(((4, 2), (3, 3)), seed=1)]

    def rough(*tensors):
        return roughness(tensors[:2], tensors[2:], relative=relative)

    assert torch.autograd.gradcheck(rough, (*Ys, *neighbors))
    assert torch.autograd.gradcheck(
        lambda *tensors: reconstruction_error(tensors[:2], tensors[2:]), (*Ys, *neighbors)
    )


@pytest.mark.parametrize("function", (reconstruction_error, roughness))
def test_every_view_needs_its_counterpart(function):
    Xs = tables(SHAPES)
    with pytest.raises(ValueError, match="zip"):
        function(Xs, Xs[:2])
