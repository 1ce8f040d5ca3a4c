"""What the next steps will want, fetched while the present one is computed."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["Ahead"]

Order = TypeVar("Order")
Goods = TypeVar("Goods")


class Ahead(Generic[Order, Goods]):
    """Fetches what will be asked for, in a thread of its own.

    The thread only fetches: what is asked for is decided by whoever asks, in the same order with
    and without it. It ends with this object, and whatever goes wrong in it is raised by `next`.

    Parameters
    ----------
    decide : callable
        Tells what will be asked for next; called here, not in the thread.
    fetch : callable
        Fetches it; called in the thread.
    depth : int
        How much is fetched before it is asked for.

    Examples
    --------
    >>> from hotview.training.prefetch import Ahead
    >>> squares = Ahead(iter(range(100)).__next__, lambda x: x * x, depth=3)
    >>> squares.next(), squares.next()
    (0, 1)
    >>> squares.expected
    2
    """

    def __init__(
        self, decide: Callable[[], Order], fetch: Callable[[Order], Goods], depth: int
    ) -> None:
        self._decide, self._fetch = decide, fetch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hotview-ahead")
        weakref.finalize(self, self._thread.shutdown, wait=False, cancel_futures=True)
        self._coming: deque[tuple[Order, Future[Goods]]] = deque()
        for _ in range(depth):
            self._send()

    @property
    def expected(self) -> Order:
        """What `next` will return."""
        return self._coming[0][0]

    def next(self) -> Goods:
        """Return what comes next, when it is there, and send for more."""
        _, goods = self._coming.popleft()
        self._send()
        return goods.result()

    def drop(self) -> None:
        """Fetch no more than what is being fetched."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _send(self) -> None:
        order = self._decide()
        self._coming.append((order, self._thread.submit(self._fetch, order)))
