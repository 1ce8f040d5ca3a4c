"""Temporary."""

from types import SimpleNamespace

from hotview.data.arrays import _shapes_of, data_of_tables, read_views


def check_tables_of_views(Xs, y, unaligned, *, at_least=2):
    linked, others = read_views(Xs, y, unaligned, at_least=at_least)
    views = data_of_tables(linked, others).views
    n_linked = next(iter(linked.values())).n_rows if linked else 0
    return SimpleNamespace(
        names=list(views),
        linked=linked,
        unaligned=others,
        by_view={k: list(v.tables) for k, v in views.items()},
        columns={k: v.columns for k, v in views.items()},
        shapes=_shapes_of(views),
        n_linked=n_linked,
    )
