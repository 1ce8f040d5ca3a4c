"""Dependence between views, measured on linked rows."""

from hotview.similarity.common_space import CommonSpace, measure_common_space
from hotview.similarity.view_similarity import (
    PairSimilarity,
    ViewSimilarity,
    measure_similarity,
)

__all__ = [
    "CommonSpace",
    "PairSimilarity",
    "ViewSimilarity",
    "measure_common_space",
    "measure_similarity",
]
