"""How far probabilities can be believed."""

import numpy as np
import numpy.typing as npt

from hotview._types import Array
from hotview._validation import check_count, check_target

__all__ = ["expected_calibration_error"]


def expected_calibration_error(
    probabilities: npt.ArrayLike, y: npt.ArrayLike, classes: npt.ArrayLike, n_bins: int = 15
) -> float:
    r"""How far confidence is from accuracy, on average.

    .. math:: \sum_b \frac{n_b}{n} \, |\mathrm{accuracy}_b - \mathrm{confidence}_b|

    over bins b of equal width of the confidence, which is the largest probability of a row.

    Parameters
    ----------
    probabilities : array-like of shape (n_rows, n_classes)
        From `predict_proba`.
    y : 1-D array-like
        The true classes; those that are not among `classes` count as missed.
    classes : 1-D array-like
        The class of every column, as in `classes_`.
    n_bins : int, default=15
        Number of bins.

    Returns
    -------
    float
        From 0, as confident as right, to 1.

    Examples
    --------
    >>> from hotview.evaluation import expected_calibration_error
    >>> expected_calibration_error([[0.75, 0.25]] * 4, [0, 0, 0, 1], [0, 1])
    0.0
    >>> expected_calibration_error([[1.0, 0.0]] * 4, [0, 0, 0, 1], [0, 1])
    0.25
    """
    P: Array = np.asarray(probabilities, dtype=np.float64)
    names = np.asarray(classes)
    if P.ndim != 2 or P.shape[1] != len(names) or len(P) == 0:
        raise ValueError(
            f"Expected a row of {len(names)} probabilities for every row, one per class, but the "
            f"shape is {P.shape}. Pass what predict_proba returns, and classes_."
        )
    truth = check_target(y, len(P))
    confidence, right = P.max(axis=1), names[P.argmax(axis=1)] == truth
    bins = np.minimum((confidence * check_count("n_bins", n_bins)).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(P))
