"""Views on several CPU threads: each view on one, because its products are too small for two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

import torch

__all__ = ["several_workers", "share_among_workers"]

_T = TypeVar("_T")
_WORTH_SHARING = 2**23  # products of a weight with an entry of a row, in all views


class _Team(NamedTuple):
    pool: ThreadPoolExecutor
    n: int  # workers, the caller among them


_team: ContextVar[_Team | None] = ContextVar("team", default=None)


@contextmanager
def several_workers(n: int) -> Iterator[None]:
    """Let views be shared among `n` threads, each of which makes its products alone.

    torch's own threads share every product, and wait for each other after each: for products of a
    tenth of a millisecond that is no gain, and where other programs want the same cores, waiting
    for them costs everything. Views have nothing to wait for.

    Parameters
    ----------
    n : int
        Threads, the caller's own among them.

    Examples
    --------
    >>> from hotview.nn.thread_pool import several_workers, share_among_workers
    >>> with several_workers(2):
    ...     share_among_workers([lambda: "a", lambda: "b", lambda: "c"], [2**23, 2**22, 2**22])
    ['a', 'b', 'c']
    """
    if n < 2:
        yield
        return
    # torch counts threads by thread: a new one would take all of them.
    with ThreadPoolExecutor(n - 1, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        token = _team.set(_Team(pool, n))
        try:
            yield
        finally:
            _team.reset(token)


def share_among_workers(works: Sequence[Callable[[], _T]], sizes: Sequence[int]) -> list[_T]:
    """Do all of the work, in several threads where there are some and it is worth it.

    Parameters
    ----------
    works : sequence of callable
        What is to be done; nothing depends on the order.
    sizes : sequence of int
        How large each is, in products of two numbers.

    Returns
    -------
    list
        What each returned.
    """
    team = _team.get()
    if team is None or len(works) < 2 or sum(sizes) < _WORTH_SHARING:
        return [work() for work in works]
    first, *others = _deal(sizes, team.n)
    futures = [team.pool.submit(_do, [works[i] for i in part]) for part in others]
    found = dict(zip(first, _do([works[i] for i in first]), strict=True))
    for part, future in zip(others, futures, strict=True):
        found |= zip(part, future.result(), strict=True)
    return [found[i] for i in range(len(works))]


def _do(works: Sequence[Callable[[], _T]]) -> list[_T]:
    return [work() for work in works]


def _deal(sizes: Sequence[int], n: int) -> list[list[int]]:
    """Which of them each of n does: the largest first, each to who has least."""
    parts: list[list[int]] = [[] for _ in range(n)]
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        min(parts, key=lambda part: sum(sizes[j] for j in part)).append(i)
    return [part for part in parts if part]
