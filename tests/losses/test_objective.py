from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hotview.losses import (
    LSCCA,
    HOTReference,
    NoCoupling,
    SWPairwise,
    reconstruction_error,
    smoothness_penalty,
)
from hotview.losses.objective import Batch, Objective, alignment_error
from hotview.losses.specifications import REGULARIZERS
from hotview.nn.multiview import Widths, make_network

COLUMNS, N_CLASSES = (4, 3, 5), 3
PARTS = ("labeled", "view_labeled", "transfer", "rows", "neighbors")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(decoders=True, n_classes=N_CLASSES):
    widths = Widths(COLUMNS, [(6,)] * 3, 5, 2, n_classes, decoders)
    return make_network(widths, seeded(), [None] * 3, ["a", "b", "c"]).double()


def make_batch(*names, sizes=None):
    """Random rows for the named parts; only views 0 and 1 have rows of their own."""
    default = {
        "labeled": [6, 6, 6],
        "view_labeled": [4, 7, 0],
        "transfer": [5, 5, 5],
        "rows": [9, 8, 10],
        "neighbors": [9, 8, 10],
    }
    sizes = {name: (sizes or default)[name] for name in names}
    generator = seeded(1)
    Xs = [
        torch.randn(sum(n[s] for n in sizes.values()), D, generator=generator, dtype=torch.float64)
        for s, D in enumerate(COLUMNS)
    ]
    target = torch.arange(sizes.get("labeled", [0])[0]) % N_CLASSES
    own = [(torch.arange(n) + 1) % N_CLASSES for n in sizes.get("view_labeled", [])]
    return Batch(Xs, sizes, target, own)


def random_targets(batch, n_columns):
    """A random target of each of the ``rows`` of every view."""
    generator = seeded(3)
    return [
        torch.randn(n, n_columns, generator=generator, dtype=torch.float64)
        for n in batch.sizes["rows"]
    ]


def evaluate(network, batch, coupling=None, regularizer="none", **options):
    options = {"coupling_weight": 0.1, "regularizer_weight": 0.01} | options
    regularizer = REGULARIZERS[regularizer]().build()
    objective = Objective(coupling or NoCoupling(), regularizer, **options).double()
    return objective(network, batch, generator=seeded(2))


def slow_cross_entropy(scores, target, weight=None):
    """Weighted mean over rows of −log of the probability of the true class, or of all by theirs."""
    scores, target = scores.detach().numpy(), target.detach().numpy()
    shares = np.eye(N_CLASSES)[target] if target.ndim == 1 else target
    weight, total = np.ones(N_CLASSES) if weight is None else weight.numpy(), 0.0
    for row, q in zip(scores, shares, strict=True):
        p = np.exp(row) / np.exp(row).sum()
        total -= sum(w * share * np.log(x) for w, share, x in zip(weight, q, p, strict=True))
    return total / (shares @ weight).sum()


def grads_of(value, parameters):
    found = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]


@pytest.mark.parametrize("weight", (None, torch.tensor([0.5, 3.0, 1.5], dtype=torch.float64)))
def test_classes_are_learned_from_all_views_and_from_each(weight):
    network, batch = make(), make_batch("labeled", "view_labeled", "transfer")
    options = {"class_weight": weight, "head_weight": 2.0, "source_views": [0]}
    terms = evaluate(network, batch, **options).terms
    Fs, heads = batch.split(network.encode(batch.Xs)), network.view_heads
    features = torch.cat(Fs["labeled"], dim=1)
    expected = slow_cross_entropy(network.joint_head(features), batch.target, weight)
    assert terms["classification"].item() == pytest.approx(expected)
    soft = heads[0](Fs["transfer"][0]).softmax(1)
    losses = [
        *(slow_cross_entropy(heads[s](Fs["labeled"][s]), batch.target, weight) for s in range(3)),
        *(
            slow_cross_entropy(heads[s](Fs["view_labeled"][s]), batch.view_targets[s], weight)
            for s in (0, 1)
        ),
        *(slow_cross_entropy(heads[s](Fs["transfer"][s]), soft) for s in (1, 2)),
    ]
    assert terms["view_heads"].item() == pytest.approx(2 * float(sum(losses)))


@pytest.mark.parametrize("source_views", ((0,), (0, 2)))
def test_source_views_give_soft_labels_to_target_views_only(source_views):
    network, batch = make(), make_batch("transfer")
    value = evaluate(network, batch, head_weight=1.0, source_views=source_views).terms["view_heads"]
    target_views = [s for s in range(3) if s not in source_views]
    scores = network.score_views(network.encode(batch.Xs))
    soft = torch.stack([scores[s].softmax(1) for s in source_views]).mean(0)
    expected = sum(slow_cross_entropy(scores[s], soft) for s in target_views)
    assert value.item() == pytest.approx(expected)
    for s in range(3):
        parameters = [*network.encoders[s].parameters(), *network.view_heads[s].parameters()]
        learns = [bool(g.abs().sum() > 0) for g in grads_of(value, parameters)]
        assert learns == [s in target_views] * len(parameters)


def test_soft_labels_train_the_head_of_every_view():
    network, batch = make(), make_batch("rows")
    soft_labels = [logits.softmax(1) for logits in random_targets(batch, N_CLASSES)]
    weight = torch.tensor([0.5, 3.0, 1.5], dtype=torch.float64)  # of labels only
    batch = replace(batch, soft_labels=soft_labels)
    terms = evaluate(network, batch, head_weight=0.5, class_weight=weight).terms
    scores = network.score_views(network.encode(batch.Xs))
    losses = map(slow_cross_entropy, scores, soft_labels)
    assert list(terms.parts) == ["view_heads"]
    assert terms["view_heads"].item() == pytest.approx(0.5 * sum(losses))
    grads = grads_of(terms.total, [p for f in network.encoders for p in f.parameters()])
    assert all(g.abs().sum() > 0 for g in grads)


def test_diffusion_is_weighted_by_tau_and_draws_features_to_coordinates():
    network, batch = make(), make_batch("labeled", "rows")
    coordinates = random_targets(batch, 5)
    batch = replace(batch, coordinates=coordinates)
    terms = evaluate(network, batch, regularizer="diffusion", regularizer_weight=0.3).terms
    Fs = batch.split(network.encode(batch.Xs))["rows"]
    errors = [((F - Y) ** 2).mean() for F, Y in zip(Fs, coordinates, strict=True)]
    torch.testing.assert_close(terms["diffusion"], 0.3 * sum(errors))
    there = replace(batch, coordinates=[F.detach() for F in Fs])
    none = evaluate(network, there, regularizer="diffusion").terms["diffusion"]
    assert none.item() == 0


def test_by_default_heads_are_trained_and_nothing_else_feels_them():
    network, batch = make(), make_batch("labeled", "view_labeled", "transfer", "rows")
    options = {"regularizer": "autoencoder", "source_views": [0, 1]}
    terms = evaluate(network, batch, SWPairwise(), **options).terms
    others = [p for name, p in network.named_parameters() if not name.startswith("view_heads")]
    without = sum(part for name, part in terms.parts.items() if name != "view_heads")
    for found, expected in zip(
        grads_of(terms.total, others), grads_of(without, others), strict=True
    ):
        assert torch.equal(found, expected)
    # The heads themselves learn as if their weight were 1.
    heads = list(network.view_heads.parameters())
    full = evaluate(network, batch, SWPairwise(), head_weight=1, **options).terms["view_heads"]
    for found, expected in zip(grads_of(terms.total, heads), grads_of(full, heads), strict=True):
        torch.testing.assert_close(found, expected)
        assert found.abs().sum() > 0


@pytest.mark.parametrize(
    "coupling", (NoCoupling(), SWPairwise(0.3), HOTReference(2, 2, 0.3, n_points=7), LSCCA())
)
def test_rows_are_coupled_and_decoded_and_weighted_by_gamma_and_tau(coupling):
    coupling = coupling.double().eval()
    sizes = {"labeled": [6, 6, 6], "rows": [9, 9, 9]}
    network, batch = make(), make_batch("labeled", "rows", sizes=sizes)
    options = {"coupling_weight": 0.7, "regularizer": "autoencoder", "regularizer_weight": 0.3}
    evaluation = evaluate(network, batch, coupling, **options)
    Fs, rows = (batch.split(x)["rows"] for x in (network.encode(batch.Xs), batch.Xs))
    for Z, latent in zip(network.embed(Fs), evaluation.latents, strict=True):
        torch.testing.assert_close(latent, Z)
    expected = coupling(network.embed(Fs), generator=seeded(2))
    for name, part in expected.parts.items():
        torch.testing.assert_close(evaluation.terms[name], 0.7 * part)
    decoded = [g(F) for g, F in zip(network.decoders, Fs, strict=True)]
    error = 0.3 * reconstruction_error(rows, decoded)
    torch.testing.assert_close(evaluation.terms["reconstruction"], error)


@pytest.mark.parametrize("n_classes", (0, N_CLASSES))
def test_the_manifold_is_weighted_by_tau_and_smooths_scores_where_there_are_heads(n_classes):
    network, batch = make(n_classes=n_classes), make_batch("rows", "neighbors")
    terms = evaluate(network, batch, regularizer="manifold", regularizer_weight=0.3).terms
    Fs = batch.split(network.encode(batch.Xs))
    here, there = (network.embed(Fs[name]) for name in ("rows", "neighbors"))
    torch.testing.assert_close(
        terms["smoothness"], 0.3 * smoothness_penalty(here, there, relative=True)
    )
    assert ("score_smoothness" in terms.parts) == (n_classes > 0)
    if n_classes > 0:
        here, there = (
            [g(F).softmax(1) for g, F in zip(network.view_heads, Fs[name], strict=True)]
            for name in ("rows", "neighbors")
        )
        torch.testing.assert_close(terms["score_smoothness"], 0.3 * smoothness_penalty(here, there))


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_all_terms_add_up_to_the_total(regularizer):
    network, batch = make(), make_batch(*PARTS)
    batch = replace(batch, coordinates=random_targets(batch, 5))
    terms = evaluate(
        network, batch, SWPairwise(), regularizer, head_weight=0.5, source_views=[0]
    ).terms
    kept = {
        "none": [],
        "autoencoder": ["reconstruction"],
        "manifold": ["smoothness", "score_smoothness"],
        "diffusion": ["diffusion"],
    }
    names = ["classification", "view_heads", "transport", "orthogonality", *kept[regularizer]]
    assert list(terms.parts) == names
    assert terms.total.item() == pytest.approx(sum(part.item() for part in terms.parts.values()))
    assert all(part.item() != 0 for part in terms.parts.values())
    without_rows = evaluate(network, make_batch("labeled"), SWPairwise(), "autoencoder")
    assert without_rows.latents == []
    assert set(without_rows.terms.parts) == {"classification", "view_heads"}
    without_labels = evaluate(make(n_classes=0), make_batch("rows"), SWPairwise()).terms
    assert len(make_batch("rows").linked_present) == 0  # nobody is linked
    assert set(without_labels.parts) == {"transport", "orthogonality"}


SIZES = {"rows": [9, 8, 10], "linked": [6, 6, 6]}
PRESENT = torch.tensor([[1, 1, 1], [1, 1, 0], [0, 1, 1]] * 2).bool()


def linked_batch(targets=True):
    batch = replace(make_batch(*SIZES, sizes=SIZES), linked_present=PRESENT)
    return replace(batch, link_targets=random_targets(batch, 2)) if targets else batch


def test_linked_rows_are_aligned_and_all_rows_drawn_to_their_targets():
    network, batch = make(), linked_batch()
    coupling = SWPairwise(0.1, n_projections=4)
    terms = evaluate(network, batch, coupling, alignment_weight=3.0).terms
    Zs = {
        name: [U(F) for U, F in zip(network.maps, Fs, strict=True)]
        for name, Fs in batch.split(network.encode(batch.Xs)).items()
    }
    aligned = alignment_error(Zs["linked"], PRESENT)
    torch.testing.assert_close(terms["alignment"], 0.1 * 3 * aligned)
    errors = [((Z - T) ** 2).mean() for Z, T in zip(Zs["rows"], batch.link_targets, strict=True)]
    torch.testing.assert_close(terms["extension"], 0.1 * 3 * 0.1 * sum(errors) / 3)
    assert list(terms.parts) == ["transport", "alignment", "extension"]
    torch.testing.assert_close(terms.total, sum(terms.parts.values()))
    weight = torch.tensor([0.0, 1.0, 2.0])  # of members, which may have their own
    each = evaluate(network, batch, coupling, alignment_weight=weight).terms
    for name in ("alignment", "extension"):
        torch.testing.assert_close(3 * each[name], weight * terms[name], check_dtype=False)


def test_targets_take_the_place_of_the_constraint_and_of_nothing_else():
    network, coupling = make(), SWPairwise(0.1, n_projections=4)
    options = {"alignment_weight": 1.0, "regularizer": "autoencoder"}
    with_targets = evaluate(network, linked_batch(), coupling, **options).terms
    without = evaluate(network, linked_batch(targets=False), coupling, **options).terms
    plain = evaluate(network, make_batch("rows"), coupling, regularizer="autoencoder").terms
    assert set(without.parts) - set(with_targets.parts) == {"orthogonality"}
    assert set(with_targets.parts) - set(without.parts) == {"extension"}
    assert set(plain.parts) == {"transport", "orthogonality", "reconstruction"}
    for name in ("transport", "reconstruction", "alignment"):
        torch.testing.assert_close(with_targets[name], without[name])


def test_a_summed_loss_of_weighted_classes_is_the_weighted_sum():
    network, batch = make(), make_batch("labeled")
    weight = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    options = {"class_weight": weight, "head_weight": 0.0, "reduction": "sum"}
    found = evaluate(network, batch, **options).terms["classification"]
    logits = network.score(network.encode(batch.Xs))
    each = nn.functional.cross_entropy(logits, batch.target, reduction="none")
    torch.testing.assert_close(found, (weight[batch.target] * each).sum())
    plain = evaluate(network, batch, **{**options, "class_weight": None}).terms["classification"]
    torch.testing.assert_close(plain, each.sum())
