"""Dependence between views, measured on linked rows."""

from hotview.similarity.view_similarity import (
    PairSimilarity,
    ViewSimilarity,
    measure_similarity,
)

__all__ = ["PairSimilarity", "ViewSimilarity", "measure_similarity"]
