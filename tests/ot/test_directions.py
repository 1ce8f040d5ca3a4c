import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview.ot import draw_directions

KINDS = ("iid", "orthogonal", "qmc")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), d=st.integers(1, 12), kind=st.sampled_from(KINDS))
def test_directions_are_unit_vectors(n, d, kind):
    theta = draw_directions(n, d, kind=kind, generator=seeded(n), dtype=torch.float64)
    assert theta.shape == (n, d)
    torch.testing.assert_close(theta.norm(dim=1), torch.ones(n, dtype=torch.float64))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 30), d=st.integers(1, 9))
def test_orthogonal_blocks_are_orthonormal(n, d):
    theta = draw_directions(n, d, generator=seeded(d), dtype=torch.float64)
    for block in theta.split(d):
        torch.testing.assert_close(block @ block.T, torch.eye(len(block), dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_same_generator_state_same_directions(kind):
    generator = seeded(3)
    state = generator.get_state()
    first = draw_directions(7, 5, kind=kind, generator=generator)
    second = draw_directions(7, 5, kind=kind, generator=generator)
    assert not torch.equal(first, second)
    generator.set_state(state)
    before = torch.random.get_rng_state()
    exact = draw_directions(7, 5, kind=kind, generator=generator, dtype=torch.float64)
    assert torch.equal(exact.float(), first)
    assert torch.equal(before, torch.random.get_rng_state())  # the global generator


@pytest.mark.parametrize("kind", KINDS)
def test_uniform_on_the_sphere(kind):
    d = 4
    theta = draw_directions(8000, d, kind=kind, generator=seeded(), dtype=torch.float64)
    # Uniform directions have mean 0, E θθᵀ = I / d and E θ₁⁴ = 3 / (d (d + 2)).
    eye = torch.eye(d, dtype=torch.float64)
    torch.testing.assert_close(theta.mean(0), torch.zeros_like(theta[0]), atol=0.03, rtol=0)
    torch.testing.assert_close(theta.T @ theta / len(theta), eye / d, atol=0.02, rtol=0)
    assert theta[:, 0].pow(4).mean().item() == pytest.approx(3 / (d * (d + 2)), rel=0.1)


def test_the_corners_of_the_cube_have_a_direction_too(monkeypatch):
    # Sobol points are on a lattice that holds 0; no draw that a test could wait for shows one.
    corner = torch.tensor([[0.0, 1 - 2.0**-30], [0.0, 0.0]], dtype=torch.float64)
    monkeypatch.setattr(torch.quasirandom.SobolEngine, "draw", lambda *_, **__: corner)
    theta = draw_directions(2, 2, kind="qmc", dtype=torch.float64)
    torch.testing.assert_close(theta.abs(), torch.full_like(theta, 0.5**0.5))


def test_orthogonal_signs_are_haar():
    # Without the sign correction the first entry of QR's first column has one sign only.
    first = torch.stack([draw_directions(3, 3, generator=seeded(s))[0] for s in range(400)])
    assert 0.4 < (first[:, 0] > 0).double().mean() < 0.6


def test_orthogonal_directions_integrate_quadratics_exactly():
    # Σ (θ·x)² over a basis is ‖x‖², the reason why these directions have the least error.
    x = torch.randn(6, generator=seeded(1), dtype=torch.float64)
    theta = draw_directions(12, 6, generator=seeded(2), dtype=torch.float64)
    torch.testing.assert_close((theta @ x).square().mean(), x.square().mean())


@pytest.mark.parametrize(
    ("n", "d", "kind", "message"),
    (
        (0, 3, "iid", "n "),
        (3, 0, "iid", "d "),
        (2.5, 3, "iid", "whole number"),
        (3, 3, "sobol", "'orthogonal'"),
        (1, 30_000, "qmc", "kind='orthogonal'"),
    ),
)
def test_bad_arguments_say_what_to_do(n, d, kind, message):
    with pytest.raises(ValueError, match=message):
        draw_directions(n, d, kind=kind)


@pytest.mark.parametrize("kind", ("iid", "orthogonal", "qmc"))
def test_several_generators_draw_what_each_draws_alone(kind):
    def generators():
        return [torch.Generator().manual_seed(seed) for seed in (3, 1, 4)]

    together = draw_directions(7, 5, kind=kind, generator=generators())
    alone = [draw_directions(7, 5, kind=kind, generator=g) for g in generators()]
    assert torch.equal(together, torch.stack(alone))
