"""The paper's protocol: handwritten digits, random splits, unaligned and unlabeled rows."""

from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from hotview._types import Array, IntArray, RandomState, Views
from hotview._validation import check_count, check_share, check_target, check_views

#: Floating-point error of shares that add up to 1 (0.7 + 0.2 + 0.1).
_ROUNDING = 1e-9

_DESCR = """\
{n} aligned rows of {n_views} views, split by the protocol of Luo, Xu and Carin (2020):
{labeled} training rows stay aligned and labeled (linked, target), the other {unlabeled} are
shuffled independently in every view and lose their labels (unaligned); {validation} rows are
for validation and {test} for the test, aligned and labeled.
unaligned_target and rows hold the true labels and rows of the shuffled data, for evaluation
only; paired holds the same rows still aligned, for methods that need alignment.
"""

_DIGITS = """\
Handwritten: the "Multiple Features" digits, six views of 2000 handwritten numerals
===================================================================================

Numerals cut from Dutch utility maps, 200 of each digit 0-9, row i is the same numeral in
every view. The views and their columns:

    pix  240   pixel averages in 2 x 3 windows
    fou   76   Fourier coefficients of the character shapes
    fac  216   profile correlations
    zer   47   Zernike moments
    kar   64   Karhunen-Loeve coefficients
    mor    6   morphological features

Values are unscaled, and the standard deviations of the columns run from 0.04 (fou) to
thousands (mor): standardize each view, on training rows only. There are no missing values.
Six pairs of rows are exact duplicates in all views, of the same class: 605/774, 1148/1172,
1237/1271, 1265/1272, 1448/1521 and 1892/1999; a random split can put one in training and
its twin in test.

Source and license: Duin, R. (1998). Multiple Features [Dataset]. UCI Machine Learning
Repository. https://doi.org/10.24432/C5HC70. Donated by Robert P.W. Duin, Delft University
of Technology. Licensed under the Creative Commons Attribution 4.0 International license
(CC BY 4.0), https://creativecommons.org/licenses/by/4.0/. Changes: the values are rounded
to five significant digits and stored as float32 in one compressed file.
"""


def load_handwritten() -> Bunch:
    """Load the 2000 handwritten digits, each described by six views of 6 to 240 columns.

    Row i is the same numeral in every view, 200 of each digit. Values are unscaled, and their
    spread differs between columns by five orders of magnitude, so standardize on training rows.
    Six pairs of rows are exact duplicates (``DESCR`` lists them).

    The data are the UCI "Multiple Features" set by Robert P.W. Duin, Delft University of
    Technology (https://doi.org/10.24432/C5HC70), licensed under CC BY 4.0; here rounded to five
    significant digits and stored as float32.

    Returns
    -------
    Bunch
        With the fields

        views : dict of str to ndarray of float32
            ``pix`` (2000, 240), ``fou`` (2000, 76), ``fac`` (2000, 216), ``zer`` (2000, 47),
            ``kar`` (2000, 64), ``mor`` (2000, 6).
        target : ndarray of int64, shape (2000,)
            The digit.
        target_names : list of str
            The name of each class: "0" to "9".
        view_names : list of str
            The names of the views, in order.
        DESCR : str
            Description, source and license.

    Examples
    --------
    >>> from hotview.datasets import load_handwritten
    >>> digits = load_handwritten()
    >>> {name: X.shape[1] for name, X in digits.views.items()}
    {'pix': 240, 'fou': 76, 'fac': 216, 'zer': 47, 'kar': 64, 'mor': 6}
    >>> digits.target.shape
    (2000,)
    """
    packaged = resources.files("hotview.datasets") / "data" / "handwritten.npz"
    with packaged.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        names = [str(name) for name in stored["view_names"]]
        views = {name: stored[f"view_{s}"] for s, name in enumerate(names)}
        target = stored["y"]
    return Bunch(
        views=views,
        target=target,
        target_names=[str(digit) for digit in range(10)],
        view_names=names,
        DESCR=_DIGITS,
    )


@dataclass(frozen=True)
class Split:
    """A partition of the rows 0, …, n − 1, every part in random order.

    Parameters
    ----------
    labeled : ndarray of int64
        Training rows that keep their label and their alignment.
    unlabeled : ndarray of int64
        The other training rows.
    validation : ndarray of int64
        Rows for choosing settings.
    test : ndarray of int64
        Rows for the reported score.

    Examples
    --------
    >>> from hotview.datasets import split_rows
    >>> split = split_rows(100, random_state=0)
    >>> len(split.labeled), len(split.unlabeled), len(split.validation), len(split.test)
    (3, 57, 20, 20)
    """

    labeled: IntArray
    unlabeled: IntArray
    validation: IntArray
    test: IntArray

    @property
    def train(self) -> IntArray:
        """All training rows: the labeled ones, then the unlabeled ones."""
        return np.concatenate([self.labeled, self.unlabeled])


def split_rows(
    n: int,
    *,
    labeled: float = 0.05,
    random_state: RandomState = None,
    train: float = 0.6,
    validation: float = 0.2,
) -> Split:
    """Split n rows at random into labeled and unlabeled training, validation and test rows.

    The rows are ``numpy.random.default_rng(random_state).permutation(n)``, read from left to
    right: the first ``round(train * n)`` are for training, the first ``round(labeled * n_train)``
    of those are labeled; the next ``round(validation * n)`` are for validation; the rest is for
    the test. Shares that leave nothing for the test give validation all that training leaves.
    Classes are not balanced: a class can be missing among the labeled rows.

    Every published number of this library comes from this function.

    Parameters
    ----------
    n : int
        Number of rows.
    labeled : float, default=0.05
        Share of the training rows that is labeled.
    random_state : int, numpy Generator or None, default=None
        Seed of the split. A Generator is moved on by one permutation.
    train : float, default=0.6
        Share of all rows that is for training.
    validation : float, default=0.2
        Share of all rows that is for validation.

    Returns
    -------
    Split
        Index arrays ``labeled``, ``unlabeled``, ``validation`` and ``test`` (and ``train``).

    Examples
    --------
    >>> from hotview.datasets import split_rows
    >>> split = split_rows(2000, random_state=0)
    >>> len(split.train), len(split.labeled), len(split.validation), len(split.test)
    (1200, 60, 400, 400)
    """
    n = check_count("n", n)
    labeled, train = check_share("labeled", labeled), check_share("train", train)
    validation = check_share("validation", validation)
    test = 1.0 - train - validation
    if train == 0 or test < -_ROUNDING:
        raise ValueError(
            "Expected train above 0 and train + validation of at most 1, but train is "
            f"{train} and validation {validation}. The paper uses 0.6 and 0.2."
        )
    n_train = round(train * n)
    n_labeled = round(labeled * n_train)
    # Without a test share, rounding must not leave a row for the test.
    n_validation = round(validation * n) if test > _ROUNDING else n - n_train
    for part, share, size in (
        ("train", train, n_train),
        ("labeled", labeled, n_labeled),
        ("unlabeled (1 − labeled)", 1.0 - labeled, n_train - n_labeled),
        ("validation", validation, n_validation),
        ("test (1 − train − validation)", test, n - n_train - n_validation),
    ):
        if share > _ROUNDING and size < 1:
            raise ValueError(
                f"Expected at least one row in every part with a positive share, but of {n} rows "
                f"the part {part}, a share of {share:.6g}, gets none. "
                "Pass more rows, or a larger share, or leave the part out."
            )
    rows = np.random.default_rng(random_state).permutation(n).astype(np.int64, copy=False)
    ends = [n_labeled, n_train, n_train + n_validation]
    return Split(*np.split(rows, ends))


def unalign(
    views: Views,
    y: npt.ArrayLike,
    *,
    labeled: float = 0.05,
    random_state: RandomState = None,
    train: float = 0.6,
    validation: float = 0.2,
) -> Bunch:
    """Remove the alignment of most rows of aligned, labeled views, as in the paper.

    The rows are split by `split_rows`. The unlabeled training rows are then shuffled in every
    view independently, so that their correspondence is lost. One generator,
    ``numpy.random.default_rng(random_state)``, draws first the split and then, in the order of
    the views, ``rows[name] = split.unlabeled[generator.permutation(n_unlabeled)]``; the split is
    thus the one of `split_rows` with the same seed.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        Aligned views: row i is the same individual in all of them.
    y : 1-D array-like
        One label per row: numbers or text.
    labeled : float, default=0.05
        Share of the training rows that stays aligned and labeled.
    random_state : int, numpy Generator or None, default=None
        Seed of the split and the shuffles.
    train : float, default=0.6
        Share of all rows that is for training.
    validation : float, default=0.2
        Share of all rows that is for validation. With ``train=1.0`` and ``validation=0.0``
        every row is for training.

    Returns
    -------
    Bunch
        With the fields

        linked, target : dict of str to ndarray, and ndarray
            The labeled training rows, still aligned, and their labels.
        unaligned : dict of str to ndarray
            The other training rows, shuffled independently in every view.
        unaligned_target, rows : dict of str to ndarray
            The true labels of the unaligned rows, and the rows of ``views`` they are. For
            evaluation only.
        paired : dict of str to ndarray
            The same rows still aligned, in the order of ``split.unlabeled``, for methods that
            need alignment.
        validation, validation_target, test, test_target : dict of str to ndarray, and ndarray
            Aligned rows and their labels.
        split : Split
            The split of the rows.
        DESCR : str
            Description of the split.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.datasets import load_handwritten, unalign
    >>> digits = load_handwritten()
    >>> data = unalign(digits.views, digits.target, random_state=0)
    >>> data.linked["pix"].shape, data.unaligned["pix"].shape, data.test["pix"].shape
    ((60, 240), (1140, 240), (400, 240))
    >>> bool(np.array_equal(data.unaligned["mor"], digits.views["mor"][data.rows["mor"]]))
    True
    """
    arrays = check_views(views, aligned=True)
    n = len(next(iter(arrays.values())))
    labels = check_target(y, n)
    generator = np.random.default_rng(random_state)
    split = split_rows(
        n, labeled=labeled, random_state=generator, train=train, validation=validation
    )
    m = len(split.unlabeled)
    rows = {name: split.unlabeled[generator.permutation(m)] for name in arrays}
    return Bunch(
        linked=_take(arrays, split.labeled),
        target=labels[split.labeled],
        unaligned={name: X[rows[name]] for name, X in arrays.items()},
        unaligned_target={name: labels[rows[name]] for name in arrays},
        rows=rows,
        paired=_take(arrays, split.unlabeled),
        validation=_take(arrays, split.validation),
        validation_target=labels[split.validation],
        test=_take(arrays, split.test),
        test_target=labels[split.test],
        split=split,
        DESCR=_DESCR.format(
            n=n,
            n_views=len(arrays),
            labeled=len(split.labeled),
            unlabeled=m,
            validation=len(split.validation),
            test=len(split.test),
        ),
    )


def _take(arrays: dict[str, Array], rows: IntArray) -> dict[str, Array]:
    return {name: X[rows] for name, X in arrays.items()}
