"""Principal components of a view, with signs that do not depend on chance."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA

from hotview._types import Array
from hotview.training.rows import ViewRows

__all__ = ["principal_components"]

_N_SAMPLE = 10_000  # rows that they are found from


def principal_components(rows: ViewRows, n: int, random: np.random.Generator) -> PCA:
    """Principal components of the standardized columns, each with a positive third moment.

    The sign of a component is arbitrary, and its distribution is not symmetric: without a rule,
    views of equal distribution would look different.

    Parameters
    ----------
    rows : ViewRows
        The view.
    n : int
        Most components to find.
    random : numpy Generator
        Which rows they are found from, where not all.

    Returns
    -------
    PCA
        Fitted, from 10,000 rows at most.
    """
    X = _sample(rows, random)
    # Whatever scikit-learn is configured to return, here it is arrays.
    pca = PCA(min(n, *X.shape), random_state=0).set_output(transform="default").fit(X)
    third = (pca.transform(X).astype(np.float64) ** 3).sum(axis=0)
    pca.components_ *= np.where(third < 0, -1, 1)[:, None].astype(X.dtype)
    return pca


def _sample(rows: ViewRows, random: np.random.Generator) -> Array:
    n = len(rows)
    sample = np.arange(n)
    if n > _N_SAMPLE:
        sample = np.sort(random.choice(n, _N_SAMPLE, replace=False))
    X: Array = rows.take(sample).cpu().numpy()
    return X
