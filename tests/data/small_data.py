"""`Data` of rows that nobody reads, by the numbers of their classes."""

from types import SimpleNamespace

import numpy as np

from hotview.data import Data, Targets

__all__ = ["links_of", "make_data"]


def links_of(n, n_views=2):
    """The first rows of all views are of the same individuals, in the same order."""
    return np.repeat(np.arange(n)[:, None], n_views, axis=1)


def make_data(codes, links, groups=None, n_classes=3):
    """Rows of views "a", "b", … with these class numbers, links and groups."""
    codes = tuple(np.asarray(of_view, dtype=np.int64) for of_view in codes)
    views = {chr(97 + s): SimpleNamespace(n_rows=len(c)) for s, c in enumerate(codes)}
    links = np.asarray(links, dtype=np.int64).reshape(-1, len(codes))
    return Data(views, links, Targets(np.arange(n_classes), codes), groups)
