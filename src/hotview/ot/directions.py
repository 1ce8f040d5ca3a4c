"""Random directions on the unit sphere, on which clouds are projected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from hotview._validation import Check, check_choice, check_count, check_values
from hotview.ot._backend import EXACT_DTYPE

__all__ = ["draw_directions"]

_check_kind = partial(check_choice, choices=("orthogonal", "iid", "qmc"))
_CHECKS: Mapping[str, Check] = {"n": check_count, "d": check_count, "kind": _check_kind}
_HALF_CELL = 2.0**-31  # Sobol points are multiples of 2⁻³⁰: half a cell avoids 0 and 1


def draw_directions(
    n: int,
    d: int,
    *,
    kind: str = "orthogonal",
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw ``n`` unit vectors of dimension ``d``, each uniform on the sphere.

    Parameters
    ----------
    n : int
        Number of directions.
    d : int
        Dimension of the space.
    kind : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        ``"orthogonal"`` draws the rows of Haar-distributed orthogonal matrices, in independent
        blocks of ``d``: at equal cost its sliced distances have the smallest error when ``n`` is a
        multiple of ``d``. ``"iid"`` draws independent directions. ``"qmc"`` maps
        scrambled Sobol points to the sphere.
    generator : torch.Generator, sequence of these, or None, default=None
        Source of randomness; None uses torch's global generator. The same state gives the same
        directions, whatever the `dtype`. Several generators must be on one device; each draws its
        own directions.
    dtype : torch.dtype or None, default=None
        Type of the result; None uses torch's default.
    device : torch.device, str or None, default=None
        Device of the result; None uses the generator's device, else the CPU.

    Returns
    -------
    Tensor of shape (n, d) or (generators, n, d)
        One direction per row.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot import draw_directions
    >>> theta = draw_directions(3, 3, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(theta @ theta.T, torch.eye(3), atol=1e-6)
    True
    """
    check_values({"n": n, "d": d, "kind": kind}, _CHECKS)
    dtype = dtype or torch.get_default_dtype()
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be floating-point, got {dtype}.")
    generators: Sequence[torch.Generator | None]
    if is_single := generator is None or isinstance(generator, torch.Generator):
        generators = [generator]
    else:
        generators = generator
    if kind == "qmc":
        draws = torch.stack([_sobol(n, d, source) for source in generators])
    else:
        blocks = (math.ceil(n / d), d, min(n, d)) if kind == "orthogonal" else (n, d)
        draws = torch.stack([_gaussian(blocks, source) for source in generators])
    if kind == "orthogonal":
        theta = _orthogonalize(draws)[:, :n]
    else:
        theta = torch.nn.functional.normalize(draws, dim=-1)
    return (theta[0] if is_single else theta).to(dtype=dtype, device=device or theta.device)


def _gaussian(shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
    device = torch.device("cpu") if generator is None else generator.device
    # The most exact type, so that every result type rounds the same draw.
    return torch.randn(*shape, generator=generator, dtype=EXACT_DTYPE[device.type], device=device)


def _orthogonalize(blocks: Tensor) -> Tensor:
    """Haar-distributed orthonormal rows from Gaussian blocks (…, blocks, d, rows)."""
    Q, R = torch.linalg.qr(blocks)
    # QR is unique, and Q Haar-distributed, only if the diagonal of R is positive.
    Q *= R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    rows: Tensor = Q.mT.flatten(-3, -2)
    return rows


def _sobol(n: int, d: int, generator: torch.Generator | None) -> Tensor:
    """Gaussian vectors from scrambled Sobol points."""
    if d > torch.quasirandom.SobolEngine.MAXDIM:
        raise ValueError(
            f"kind='qmc' reaches dimension {torch.quasirandom.SobolEngine.MAXDIM}, got d={d}; "
            "use kind='orthogonal'."
        )
    device = torch.device("cpu") if generator is None else generator.device
    seed = int(torch.randint(2**31 - 1, (), generator=generator, device=device))
    engine = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    uniform = engine.draw(n, dtype=torch.float64) + _HALF_CELL
    gaussian: Tensor = torch.special.ndtri(uniform).to(device)
    return gaussian
