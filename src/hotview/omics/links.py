"""Links that are too many to be true: cells of different experiments with the same barcodes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

__all__ = ["chance_links"]

_MIN_LINKS = 30
_LEVEL = 0.01


def chance_links(model: Any) -> list[str]:
    """Return a warning for every pair of views whose linked rows agree no more than by chance.

    The agreement is `view_similarity_`, whose p-value compares it with permuted links.

    Parameters
    ----------
    model : MultiViewClassifier or MultiViewEncoder
        The fitted model.

    Returns
    -------
    list of str
        The warnings; none for pairs with fewer than 30 links.
    """
    found = model.view_similarity_
    if found is None:
        return []
    texts = []
    for a, b in combinations(range(len(model.view_names_)), 2):
        n, p = int(found.n_rows[a, b]), float(found.p_value[a, b])
        if n >= _MIN_LINKS and p > _LEVEL:
            pair = " and ".join(repr(model.view_names_[s]) for s in (a, b))
            texts.append(
                f"Expected linked cells of {pair} to agree, but {n} of them agree no more than "
                f"cells that are linked at random (similarity {found.value[a, b]:.2f}, "
                f"p = {p:.2g}). If barcodes of different experiments collide, make the names of "
                "cells unique, as by adding the name of the library."
            )
    return texts
