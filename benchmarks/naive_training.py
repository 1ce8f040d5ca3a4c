"""Algorithm 2 of the paper with autoencoders, as an experienced user of PyTorch would write it.

This is the peer that `paper_training.py` measures hotview against. It was written before hotview
was tuned for speed and is not to be changed since: good habits (rows as tensors on the device, one
sort per cloud, a batched Sinkhorn in the log domain, no waiting for a loss to be printed), no
heroics (no graphs, no stacked networks, no autograd functions of its own).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

N_FEATURES, N_COMPONENTS, HIDDEN = 20, 10, 128
N_REFERENCES, N_PROJECTIONS, SINKHORN_ITERATIONS = 3, 3, 20
COUPLING_WEIGHT, VIEW_WEIGHT, ORTHOGONALITY_WEIGHT, ENTROPY = 0.1, 0.01, 0.01, 0.1


def perceptron(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_out))


class Model(nn.Module):
    """Encoders, maps into the common space, decoders, a joint head, and the references."""

    def __init__(self, widths: Sequence[int], n_classes: int, batch_size: int) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(perceptron(width, N_FEATURES) for width in widths)
        self.decoders = nn.ModuleList(perceptron(N_FEATURES, width) for width in widths)
        self.maps = nn.ModuleList(nn.Linear(N_FEATURES, N_COMPONENTS, bias=False) for _ in widths)
        self.head = nn.Linear(N_FEATURES * len(widths), n_classes)
        size = math.sqrt(N_REFERENCES * batch_size)
        self.references = nn.Parameter(torch.randn(N_REFERENCES, batch_size, N_COMPONENTS) / size)


def sinkhorn(C: Tensor) -> Tensor:
    """The plan over views and references, all of equal weight."""
    log_a, log_b = -math.log(C.shape[0]), -math.log(C.shape[1])
    f, g = torch.zeros_like(C[:, :1]), torch.zeros_like(C[:1])
    for _ in range(SINKHORN_ITERATIONS):
        f = ENTROPY * (log_a - torch.logsumexp((g - C) / ENTROPY, dim=1, keepdim=True))
        g = ENTROPY * (log_b - torch.logsumexp((f - C) / ENTROPY, dim=0, keepdim=True))
    return torch.exp((f + g - C) / ENTROPY)


def loss_of(model: Model, rows: list[Tensor], linked: list[Tensor], y: Tensor) -> Tensor:
    """Objective (3) with the coupling (11) and the reconstruction of every view."""
    features = [encoder(X) for encoder, X in zip(model.encoders, rows, strict=True)]
    latents = [f(F) for f, F in zip(model.maps, features, strict=True)]
    theta = functional.normalize(torch.randn(N_COMPONENTS, N_PROJECTIONS, device=y.device), dim=0)
    views = torch.stack([(Z @ theta).sort(dim=0).values for Z in latents])
    references = (model.references @ theta).sort(dim=1).values
    C = (views.unsqueeze(1) - references).square().sum(2).mean(2)
    with torch.no_grad():
        W = sinkhorn(C)
    moment = torch.einsum("kni,knj->ij", model.references, model.references)
    constraint = (moment - torch.eye(N_COMPONENTS, device=y.device)).square().sum()
    reconstruction = torch.stack(
        [
            functional.mse_loss(decoder(F), X)
            for decoder, F, X in zip(model.decoders, features, rows, strict=True)
        ]
    ).sum()
    known = [encoder(X) for encoder, X in zip(model.encoders, linked, strict=True)]
    classification = functional.cross_entropy(model.head(torch.cat(known, dim=1)), y)
    coupling = (W * C).sum() + ORTHOGONALITY_WEIGHT * constraint
    return classification + COUPLING_WEIGHT * coupling + VIEW_WEIGHT * reconstruction


def train(
    linked: Sequence[np.ndarray],
    target: np.ndarray,
    unaligned: Sequence[np.ndarray],
    *,
    device: str,
    epochs: int = 100,
    batch_size: int = 400,
    seed: int = 0,
) -> Model:
    """Standardize every view, and train on all its rows; labels are of the linked ones."""
    torch.manual_seed(seed)
    tables = [np.concatenate(pair) for pair in zip(linked, unaligned, strict=True)]
    tables = [(X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1) for X in tables]
    Xs = [torch.tensor(X, dtype=torch.float32, device=device) for X in tables]
    y = torch.tensor(target, device=device)
    model = Model([X.shape[1] for X in Xs], int(y.max()) + 1, batch_size).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    n = len(Xs[0])
    for _ in range(epochs):
        orders = [torch.randperm(n, device=device) for _ in Xs]
        for start in range(0, n, batch_size):
            rows = [X[o[start : start + batch_size]] for X, o in zip(Xs, orders, strict=True)]
            loss = loss_of(model, rows, [X[: len(y)] for X in Xs], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model
