"""Principal components of views with aligned signs, and the effective rank of a point cloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array
from hotview.training.rows import ViewRows

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

__all__ = ["align_signs", "effective_rank", "effective_ranks", "principal_components", "total_std"]

_N_SAMPLE = 10_000  # maximum number of rows for the components
_QUANTILES = (np.arange(100) + 0.5) / 100


def principal_components(
    views: Sequence[ViewRows], n: int, random: np.random.Generator
) -> list[PCA]:
    """Fit principal components of the standardized columns of every view.

    Parameters
    ----------
    views : sequence of ViewRows
        The views.
    n : int
        Maximum number of components of each.
    random : numpy Generator
        Source of the sample of rows, where a view has more than 10,000.

    Returns
    -------
    list of PCA
        Fitted, with signs from `align_signs`.
    """
    from sklearn.decomposition import PCA

    fitted, scores = [], []
    for view in views:
        rows = np.arange(view.n_rows)
        if view.n_rows > _N_SAMPLE:
            rows = np.sort(random.choice(view.n_rows, _N_SAMPLE, replace=False))
        X: Array = view.take_on_all_ranks(rows).cpu().numpy()
        with np.errstate(invalid="ignore"):  # ratios of the variance, where there is none
            pca = PCA(min(n, *X.shape), random_state=0).fit(X)
        fitted.append(pca)
        scores.append(pca.transform(X))
    for pca, signs in zip(fitted, align_signs(scores), strict=True):
        pca.components_ *= signs[:, None].astype(pca.components_.dtype)
    return fitted


def align_signs(scores: Sequence[Array]) -> list[Array]:
    """Return signs for the columns of clouds that make equally numbered columns most similar.

    The sign of a principal component is arbitrary and its distribution is not symmetric: without
    a rule, views of one distribution look different. Column by column, a similarity of all pairs
    of clouds is positive where their signs should be equal, and its leading eigenvector has the
    signs (synchronization over two signs). The remaining global sign makes the third moments
    positive.

    Parameters
    ----------
    scores : sequence of ndarray of shape (rows, columns)
        The clouds; sizes may differ.

    Returns
    -------
    list of ndarray of shape (columns,)
        1 or −1.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.training.pca import align_signs
    >>> Y = np.random.default_rng(0).exponential(size=(200, 1))
    >>> [signs.tolist() for signs in align_signs([Y - 1, 1 - Y, Y - 1])]
    [[1.0], [-1.0], [1.0]]
    """
    signs = [np.ones(Y.shape[1]) for Y in scores]
    quantiles = [_quantiles(Y) for Y in scores]
    for j in range(max(Y.shape[1] for Y in scores)):
        views = [s for s, Y in enumerate(scores) if Y.shape[1] > j]
        column_signs = _synchronize_signs(np.stack([quantiles[s][:, j] for s in views]))
        for s, sign in zip(views, column_signs, strict=True):
            signs[s][j] = sign
    return signs


def _quantiles(Y: Array) -> Array:
    """Return interpolated quantiles of every column, as ``np.quantile`` in a tenth of its time."""
    ordered = np.sort(Y.T.astype(np.float64)).T  # along memory
    at = _QUANTILES * (len(Y) - 1)
    low = at.astype(np.int64)
    high = np.minimum(low + 1, len(Y) - 1)
    values: Array = ordered[low] + (at - low)[:, None] * (ordered[high] - ordered[low])
    return values


def _synchronize_signs(q: Array) -> Array:
    """Return signs of clouds that make their quantiles, the rows of `q`, most similar."""
    reflected = -q[:, ::-1]
    equal = ((q[:, None] - q) ** 2).mean(axis=2)
    opposite = ((q[:, None] - reflected) ** 2).mean(axis=2)
    total = equal + opposite
    similarity = np.divide(opposite - equal, total, out=np.zeros_like(total), where=total > 0)
    _, vectors = np.linalg.eigh(similarity * np.abs(similarity))
    signs = np.where(vectors[:, -1] < 0, -1.0, 1.0)
    return signs if signs @ (q**3).mean(axis=1) >= 0 else -signs


def effective_rank(Z: Tensor) -> float:
    r"""Return the exponential of the entropy of the normalized eigenvalues of the covariance.

    It is d for an isotropic cloud, 1 for a line, and 0 for a point (Roy and Vetterli, 2007).

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        A point cloud.

    Returns
    -------
    float
        The effective rank, from 0 to d.

    Examples
    --------
    >>> import torch
    >>> from hotview.training.pca import effective_rank
    >>> corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> round(effective_rank(corners), 3), effective_rank(torch.ones(5, 2))
    (2.0, 0.0)
    """
    return effective_ranks([Z.unsqueeze(0)])[0][0]


def effective_ranks(Zs: Sequence[Tensor]) -> list[list[float]]:
    """Return the `effective_rank` of every cloud of every (clouds, n, d), where n may differ."""
    alike = len({Z.shape for Z in Zs}) == 1  # then a few operations do for all
    parts = [_moments(torch.stack(list(Zs)))] if alike else [_moments(Z)[:, None] for Z in Zs]
    moments = torch.cat(parts, dim=1).transpose(0, 1).cpu()  # one wait for all
    eigenvalues = torch.linalg.eigvalsh(moments[:, 0]).clamp_min(0)
    total, size = eigenvalues.sum(-1), moments[:, 1].diagonal(dim1=-2, dim2=-1).sum(-1)
    # Less than rounding leaves of a cloud that is one point.
    is_point = (total <= 1e-10 * size) | (total == 0)
    p = eigenvalues / total.masked_fill(is_point, 1.0).unsqueeze(-1)
    ranks: list[list[float]] = torch.exp(-torch.xlogy(p, p).sum(-1)).where(~is_point, 0).tolist()
    return ranks


def _moments(Z: Tensor) -> Tensor:
    """Return second moments around the mean and around zero, (2, …, d, d) of (…, n, d)."""
    Z = Z.detach().double()
    centered = Z - Z.mean(-2, keepdim=True)
    return torch.stack([centered.mT @ centered, Z.mT @ Z])


def total_std(Z: Tensor) -> float:
    """Return the square root of the total variance of a point cloud."""
    return float(Z.detach().var(0, correction=0).sum().sqrt())
