"""Which tensors a file must hold, and of which shapes, before memory is taken for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from hotview.nn.multiview import Widths
from hotview.persistence.deserialize import widths_of
from hotview.persistence.schema import prefixes

__all__ = ["check_layout"]

#: sizes, or names of sizes that the file itself decides on, equal wherever they occur
Shape = tuple[int | str, ...]
_F32, _F64 = (torch.float32,), (torch.float64,)
_BOOL, _INT = (torch.bool,), (torch.int64,)
_FLOAT = _F32 + _F64


def check_layout(tensors: Mapping[str, Tensor], facts: dict[str, Any], estimator: Any) -> None:
    """Refuse tensors that are missing, too many, or not of the shape that the facts tell.

    Parameters
    ----------
    tensors : dict of str to Tensor
        Of a file.
    facts : dict of str to object
        Of the same file, checked.
    estimator : MultiViewClassifier or MultiViewEncoder
        Made of the facts.
    """
    layout = _Layout(tensors, facts, widths_of(estimator, facts))
    left = layout.check()
    if left:
        raise ValueError(f"nobody needs its {min(left)!r}")
    for name in layout.weighs:
        if not bool(tensors[name].isfinite().all()):
            raise ValueError(f"its {name!r} holds numbers that are not finite")


class _Layout:
    def __init__(
        self, tensors: Mapping[str, Tensor], facts: dict[str, Any], widths: Widths
    ) -> None:
        self.tensors, self.facts, self.widths = tensors, facts, widths
        self.names = [name for name, _, _ in facts["views"]]
        self.sizes: dict[str, int] = {}
        self.seen: set[str] = set()

    @property
    def weighs(self) -> list[str]:
        """What predictions are computed with, but for own encoders, which may well use inf."""
        own = [s for s, name in enumerate(self.names) if name in self.facts["own_encoders"]]
        skipped = tuple(f"network.encoders.{s}." for s in own)
        parts = ("network.", "columns.", "knn.", "basis.", "ridge.")
        bare = {name: re.sub(r"^replica\.\d+\.", "", name) for name in self.tensors}
        return [n for n, b in bare.items() if b.startswith(parts) and not b.startswith(skipped)]

    def check(self) -> set[str]:
        """Check all that must be there, and return what is there beside."""
        for s, D in enumerate(self.widths.columns):
            self._need(f"columns.{s}.mean", (D,), _F64)
            self._need(f"columns.{s}.scale", (D,), _F64)
            self._may(f"columns.{s}.fill", (D,), _F64)
        every = prefixes(self.facts)
        many: Shape = (len(every),) if len(every) > 1 else ()
        with_plan = many if "plan" in self.facts else ()
        shape = (*with_plan, "references", "points", self.widths.n_components)
        self._may("references", shape, _F32)
        self._may("view_labels", (len(self.names),), _INT)  # which format 1 had, and nobody needs
        for before in every:
            self._check_network(f"{before}network.")
            self._check_plans(before)
            self._check_judge(before)
        return set(self.tensors) - self.seen

    def _check_network(self, at: str) -> None:
        d, n_classes = self.widths.n_components, self.widths.n_classes
        columns = zip(self.names, self.widths.columns, self.widths.hidden, strict=True)
        for s, (name, D, hidden) in enumerate(columns):
            own = name in self.facts["own_encoders"]
            n: int | str = f"features of {name}" if own else self.widths.encoder_dim
            if own:  # whose code knows what it needs
                self.seen |= {k for k in self.tensors if k.startswith(f"{at}encoders.{s}.")}
            else:
                self._check_layers(f"{at}encoders.{s}", (D, *hidden, n))
            self._need(f"{at}maps.{s}.weight", (d, n), _F32)
            if self.widths.decoders:
                self._check_layers(f"{at}decoders.{s}", (n, *hidden[::-1], D))
            if n_classes:
                self._check_layer(f"{at}view_heads.{s}", n, n_classes)
        if n_classes:
            n_all = sum(
                self.tensors[f"{at}maps.{s}.weight"].shape[1] for s in range(len(self.names))
            )
            self._check_layer(f"{at}joint_head", n_all, n_classes)

    def _check_layers(self, at: str, widths: Shape) -> None:
        for i, (a, b) in enumerate(pairwise(widths)):
            self._check_layer(f"{at}.{2 * i}", a, b)  # a ReLU stands between two

    def _check_layer(self, at: str, a: int | str, b: int | str) -> None:
        self._need(f"{at}.weight", (b, a), _F32)
        self._need(f"{at}.bias", (b,), _F32)

    def _check_plans(self, before: str) -> None:
        S = len(self.names)
        if "plan" in self.facts:
            self._check_plan(f"{before}plan", S, "columns of W")
        if f"{before}null" in self.facts:
            self._check_plan(f"{before}null.plan", S, S)
            self._need(f"{before}null.W", ("draws", S, S), _FLOAT)
            self._need(f"{before}null.C", ("draws", S, S), _FLOAT)

    def _check_plan(self, at: str, S: int, K: int | str) -> None:
        for part, shape in (("W", (S, K)), ("C", (S, K)), ("f", (S,)), ("g", (K,))):
            self._need(f"{at}.{part}", shape, _FLOAT)
        self._need(f"{at}.marginal_error", (), _FLOAT)
        self._may(f"{at}.mask", (S, K), _BOOL)

    def _check_judge(self, before: str) -> None:
        if f"{before}knn" not in self.facts:
            return
        n_classes = self.widths.n_classes
        for s, D in enumerate(self.widths.columns):
            n, c, at = f"{before}points {s}", f"{before}components {s}", f"{before}basis.{s}"
            self._need(f"{at}.mean", (D,), _F32)
            self._need(f"{at}.directions", (D, c), _F32)
            features = self.tensors[f"{before}network.maps.{s}.weight"].shape[1]
            self._need(f"{before}knn.{s}.points", (n, self.sizes[c] + features), _F32)
            self._need(f"{before}knn.{s}.soft_labels", (n, n_classes), _FLOAT)
            if self.sizes[n] == 0:
                raise ValueError(f"view {self.names[s]!r} has no nearest-neighbor points")
            if self.facts[f"{before}fusion"]["joint"]:
                self._need(f"{before}ridge.{s}", (D, n_classes), _F64)
        if self.facts[f"{before}fusion"]["joint"]:
            self._need(f"{before}ridge.intercept", (n_classes,), _F64)

    def _may(self, name: str, shape: Shape, dtypes: tuple[torch.dtype, ...]) -> None:
        if name in self.tensors:
            self._need(name, shape, dtypes)

    def _need(self, name: str, shape: Shape, dtypes: tuple[torch.dtype, ...]) -> None:
        if name not in self.tensors:
            raise ValueError(f"it lacks {name!r}")
        self.seen.add(name)
        found = self.tensors[name]
        sizes = zip(shape, found.shape, strict=False)
        fits = found.ndim == len(shape) and all(self._is(size, n) for size, n in sizes)
        if not fits or found.dtype not in dtypes:
            wanted = " × ".join(str(self.sizes.get(str(size), size)) for size in shape)
            raise ValueError(
                f"{name!r} should be {wanted or 'a number'}, but is {list(found.shape)} of "
                f"{found.dtype}"
            )

    def _is(self, size: int | str, n: int) -> bool:
        return n == (self.sizes.setdefault(size, n) if isinstance(size, str) else size)
