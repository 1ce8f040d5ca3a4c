"""What does not depend on each other, next to each other: the views of a recorded step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from hotview.ot._backend import is_recorded

__all__ = ["apply_each"]


def apply_each(
    functions: Sequence[Callable[[Tensor], Tensor]], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """Apply every function to its input.

    A view's network is too small to fill a GPU. Where a CUDA graph is recorded, each goes to a
    stream of its own, there and in the gradient, so that the graph plays them at the same time.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.streams import apply_each
    >>> apply_each([torch.neg, torch.abs], [torch.tensor(1.0), torch.tensor(-2.0)])
    [tensor(-1.), tensor(2.)]
    """
    pairs = zip(functions, inputs, strict=True)
    if not inputs or not is_recorded(inputs[0]):
        return [function(x) for function, x in pairs]
    main, found = torch.cuda.current_stream(), []
    streams = _streams(len(inputs), inputs[0].device)
    for stream, (function, x) in zip(streams, pairs, strict=True):
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            found.append(function(x))
    for stream, out in zip(streams, found, strict=True):
        main.wait_stream(stream)
        out.record_stream(main)  # whose memory is not to be used again before
    return found


@cache
def _streams(n: int, device: torch.device) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(n)]  # type: ignore[no-untyped-call]
