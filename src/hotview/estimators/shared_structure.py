"""What views share, measured on linked rows: their similarity, and the common space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hotview._types import Array, IntArray
from hotview.estimators.networks import Member
from hotview.estimators.rows import Graphs, Rows
from hotview.preprocessing.pca import principal_components
from hotview.preprocessing.rows import ViewRows
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.similarity.common_space import average_common_spaces
from hotview.similarity.view_similarity import N_COMPONENTS, measure_linked_rows

__all__ = ["measure_common_spaces", "measure_similarity"]


class _ArrayRows:
    """Rows of a view as arrays, the same on all ranks."""

    def __init__(self, view: ViewRows) -> None:
        self.view, self.n_rows = view, view.n_rows

    def take(self, rows: IntArray) -> Array:
        """Rows by number."""
        X: Array = self.view.take_on_all_ranks(rows).cpu().numpy()
        return X


def measure_similarity(rows: Rows, graphs: Graphs) -> ViewSimilarity | None:
    """Similarity of the views by linked rows; None without enough of them.

    Parameters
    ----------
    rows : Rows
        The rows.
    graphs : Graphs
        Their principal components, where these are known.
    """
    data, links = rows.data, rows.data.links
    if len(links) == 0:
        return None
    random = np.random.default_rng(0)  # the answer is about the rows, not about a seed
    if (groups := data.groups_of(links)) is not None and data.targets is not None:
        # Several rows of one person would look like dependence.
        order = random.permutation(len(links))
        links = links[order[np.unique(groups[order], return_index=True)[1]]]
    components = graphs.components
    if not components or max(len(pca.components_) for pca in components) < N_COMPONENTS:
        components = principal_components(rows.views, N_COMPONENTS, random)
    views = list(map(_ArrayRows, rows.views))
    classes = None if data.targets is None else data.targets.of(links)
    return measure_linked_rows(views, components, links, classes, random=random)


def measure_common_spaces(members: Sequence[Member]) -> CommonSpace | None:
    """Mean nearness of held-out linked rows in the common space; None without any."""
    found = [member.probe.measure() for member in members if member.probe is not None]
    return average_common_spaces([one for one in found if one is not None]) if found else None
