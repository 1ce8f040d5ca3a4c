"""Train your own encoders with any coupling, and print the plan.

Run ``python examples/own_training_loop.py --coupling HOTPairwise``. Four views in two groups that
share latent individuals. The plan becomes sharp, but often does not show the groups: randomly
initialized encoders can match any view with any other, which is why the estimators are initialized
at principal components.
"""

import argparse

import torch
from torch import Tensor, nn

from hotview import losses
from hotview.datasets import make_views
from hotview.losses import Coupling, reconstruction_error

N_COMPONENTS = 4


def make_coupling(name: str) -> Coupling:
    """Return a coupling by the name of its class, for latents of `N_COMPONENTS`."""
    if name.endswith("Reference"):
        return getattr(losses, name)(N_COMPONENTS, n_references=2)
    return getattr(losses, name)()


def train_step(
    networks: nn.ModuleList, coupling: Coupling, optimizer: torch.optim.Optimizer, Xs: list[Tensor]
) -> losses.Terms:
    """One step: what couples the views, and what lets each be decoded from its latents."""
    Zs = [encode(X) for (encode, _), X in zip(networks, Xs, strict=True)]
    decoded = [decode(Z) for (_, decode), Z in zip(networks, Zs, strict=True)]
    kept = losses.Terms({"reconstruction": reconstruction_error(Xs, decoded)})
    terms = losses.Terms({**{n: 0.1 * x for n, x in coupling(Zs).parts.items()}, **kept.parts})
    optimizer.zero_grad()
    terms.total.backward()
    optimizer.step()
    return terms


def main() -> None:
    """Train, print the terms now and then, and the last plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coupling", default="HOTReference")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    torch.manual_seed(0)
    data = make_views(n_views=4, n_groups=2, random_state=0)
    Xs = [torch.from_numpy(X).float() for X in data.views.values()]
    networks = nn.ModuleList(
        nn.ModuleList([nn.Linear(X.shape[1], N_COMPONENTS), nn.Linear(N_COMPONENTS, X.shape[1])])
        for X in Xs
    )
    coupling = make_coupling(options.coupling)
    optimizer = torch.optim.Adam([*networks.parameters(), *coupling.parameters()], lr=0.01)
    for step in range(options.steps):
        terms = train_step(networks, coupling, optimizer, Xs)
        if step % max(options.steps // 5, 1) == 0:
            print(step, {name: round(part.item(), 4) for name, part in terms.parts.items()})
    if coupling.plan is not None:
        print(f"groups as planted: {data.view_groups}; the plan, rows adding up to 1:")
        print((coupling.plan.W * len(Xs)).numpy().round(2))


if __name__ == "__main__":
    main()
