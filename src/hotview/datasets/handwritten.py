"""Handwritten digits described by six feature sets, included in the package."""

from importlib import resources

import numpy as np
from sklearn.utils import Bunch

_DESCR = """\
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
        DESCR=_DESCR,
    )
