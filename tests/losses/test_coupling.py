"""What holds for every coupling, whatever it computes; the values are tested beside each."""

import pytest
import torch

from hotview.losses import (
    DGCCA,
    LSCCA,
    HOTPairwise,
    HOTReference,
    NoCoupling,
    SWPairwise,
    SWReference,
    Terms,
)
from hotview.ot import draw_directions

D, N = 3, 12


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def reference(kind, reduction, **options):
    return kind(D, **options, n_points=N, n_projections=7, reduction=reduction, generator=seeded(1))


MAKE = {
    "none": lambda reduction: NoCoupling(),
    "lscca": lambda reduction: LSCCA(0.3, reduction=reduction),
    "dgcca": lambda reduction: DGCCA(reduction=reduction),
    "sw-pairwise": lambda reduction: SWPairwise(0.3, n_projections=7, reduction=reduction),
    "sw-reference": lambda reduction: reference(SWReference, reduction, orthogonality_weight=0.3),
    "hot-pairwise": lambda reduction: HOTPairwise(0.3, n_projections=7, reduction=reduction),
    "hot-reference": lambda reduction: reference(HOTReference, reduction, orthogonality_weight=0.3),
}
ALIGNED = ("lscca", "dgcca")
UNALIGNED = tuple(name for name in MAKE if name not in (*ALIGNED, "none"))


def make(name, reduction="mean"):
    return MAKE[name](reduction).double()


def latents(sizes=(N,) * 5, seed=0):
    generator = seeded(seed)
    return [
        torch.randn(n, D, generator=generator, dtype=torch.float64) * (1 + s / 3) + s / 5
        for s, n in enumerate(sizes)
    ]


def value(coupling, Zs, seed=2):
    return coupling(Zs, generator=seeded(seed)).total


@pytest.mark.parametrize("name", MAKE)
def test_what_each_coupling_needs(name):
    coupling = make(name)
    assert coupling.needs_alignment == (name in ALIGNED)
    assert coupling.reference_based == name.endswith("reference")
    assert coupling.plan is None
    assert coupling.exact == (name == "dgcca")  # whose G is in closed form
    assert coupling.couples == (name != "none")
    parts = coupling(latents()).parts
    assert ("orthogonality" in parts) == (coupling.orthogonality_weight > 0)
    assert (len(parts) == 0) == (name == "none")
    assert (coupling.plan is not None) == name.startswith("hot")
    # Only references are learned; whatever else there is follows from the latents.
    shapes = [tuple(p.shape) for p in coupling.parameters()]
    K = {"sw-reference": 1, "hot-reference": 3}.get(name)
    assert shapes == ([] if K is None else [(K, N, D)])


@pytest.mark.parametrize(
    ("name", "sizes"),
    (
        *((name, (N,) * 5) for name in (*UNALIGNED, *ALIGNED)),
        *((name, (N, 7, 9, 30, 1)) for name in UNALIGNED),
    ),
)
def test_shuffling_the_rows_of_a_view_changes_aligned_couplings_alone(name, sizes):
    (common,), noise = latents((N,)), latents(sizes, seed=1)
    Zs = [common + 0.2 * Z for Z in noise] if name in ALIGNED else noise
    expected = value(make(name), Zs)
    for s in range(5):
        found = value(make(name), [Z.flip(0) if t == s else Z for t, Z in enumerate(Zs)])
        if name in ALIGNED:
            assert found > expected + 0.1
        else:
            torch.testing.assert_close(found, expected)
    if sizes[1] == N:  # all views together
        torch.testing.assert_close(value(make(name), [Z.flip(0) for Z in Zs]), expected)


@pytest.mark.parametrize("name", MAKE)
def test_the_order_of_the_views_does_not_matter(name):
    Zs = latents()
    torch.testing.assert_close(value(make(name), Zs[::-1]), value(make(name), Zs))


@pytest.mark.parametrize("name", MAKE)
def test_rotating_latents_references_and_directions_together_changes_nothing(name, monkeypatch):
    Zs, coupling = latents(), make(name)
    expected = value(coupling, Zs)
    Q = torch.linalg.qr(torch.randn(D, D, generator=seeded(5), dtype=torch.float64)).Q
    rotated = make(name)
    for G in rotated.parameters():
        G.data = G.data @ Q
    monkeypatch.setattr(
        "hotview.losses.sliced.draw_directions",
        lambda n, d, **options: draw_directions(n, d, **options) @ Q,
    )
    torch.testing.assert_close(value(rotated, [Z @ Q for Z in Zs]), expected)


@pytest.mark.parametrize("name", (*UNALIGNED, "lscca"))
def test_what_is_compared_scales_with_the_square_of_the_latents(name):
    Zs, coupling = latents(), make(name)
    before = coupling(Zs, generator=seeded()).parts
    larger = make(name)
    for G in larger.parameters():
        G.data = 3 * G.data
    after = larger([3 * Z for Z in Zs], generator=seeded()).parts
    compared = "agreement" if name in ALIGNED else "transport"
    torch.testing.assert_close(after[compared], 9 * before[compared])


@pytest.mark.parametrize("name", MAKE)
def test_a_mean_is_the_sum_for_latents_divided_by_the_root_of_n(name):
    # Constraint included: the two scales are one problem in different units.
    Zs, mean, total = latents(), make(name), make(name, "sum")
    for G, same in zip(total.parameters(), mean.parameters(), strict=True):
        torch.testing.assert_close(G.data, same.data / N**0.5)
    torch.testing.assert_close(value(total, [Z / N**0.5 for Z in Zs]), value(mean, Zs))


@pytest.mark.parametrize("name", UNALIGNED)
def test_the_generator_decides_on_the_directions(name):
    Zs = latents()
    assert value(make(name), Zs, seed=3) == value(make(name), Zs, seed=3)
    assert value(make(name), Zs, seed=3) != value(make(name), Zs, seed=4)
    coupling, generator = make(name).eval(), seeded()
    costs = [coupling(Zs, generator=generator)["transport"] for _ in range(2)]
    assert not torch.equal(*costs)  # drawn anew in every step
    torch.manual_seed(6)
    first, second = (make(name)(Zs).total for _ in range(2))
    assert first != second
    torch.manual_seed(6)
    assert make(name)(Zs).total == first


@pytest.mark.parametrize("name", MAKE)
def test_latents_are_left_alone_and_get_gradients_of_their_own(name):
    Zs = [Z.float().requires_grad_() for Z in latents()]
    copies = [Z.detach().clone() for Z in Zs]
    terms = MAKE[name]("mean").float()(Zs)
    assert {part.dtype for part in (*terms.parts.values(), terms.total)} == {torch.float32}
    assert all(torch.equal(Z, copy) for Z, copy in zip(Zs, copies, strict=True))
    if name != "none":
        terms.total.backward()
        assert all(Z.grad.abs().sum() > 0 for Z in Zs)


@pytest.mark.parametrize("name", (*UNALIGNED, *ALIGNED))
def test_one_view_has_nothing_to_be_compared_with_but_a_reference(name):
    with pytest.raises(ValueError, match=r"reduction to be one of 'mean', 'sum'.*mean 'sum'\?"):
        make(name, "Sum")(latents())
    if name.endswith("reference") or name == "dgcca":
        assert torch.isfinite(value(make(name), latents()[:1]))
        return
    with pytest.raises(ValueError, match=r"at least 2 views.*but 1 came.*with references"):
        make(name)(latents()[:1])


def test_the_total_is_the_sum_of_the_parts():
    x = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
    terms = Terms({"transport": 2 * x[0], "orthogonality": x[1] * x[2]})
    assert (terms.total.item(), terms["orthogonality"].item()) == (2 + 8, 8)
    terms.total.backward()
    assert x.grad.tolist() == [2, 4, 2]
    with pytest.raises(KeyError, match="agreement"):
        terms["agreement"]
    nothing = Terms({}).total
    assert (nothing.item(), nothing.shape, nothing.requires_grad) == (0, (), False)


@pytest.mark.parametrize("name", (*UNALIGNED, "lscca"))
def test_a_sum_over_n_rows_is_n_means(name):
    Zs, mean, total = latents(), make(name), make(name, "sum")
    for G, same in zip(total.parameters(), mean.parameters(), strict=True):
        G.data = same.data
    compared = "agreement" if name in ALIGNED else "transport"
    expected = N * mean(Zs, generator=seeded())[compared]
    torch.testing.assert_close(total(Zs, generator=seeded())[compared], expected)
