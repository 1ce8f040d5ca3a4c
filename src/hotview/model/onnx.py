"""Fitted estimators as ONNX files, which other programs and languages can run."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from inspect import Parameter, signature
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import hotview
from hotview._codec import encode as encode_parts
from hotview._files import atomic_write, check_output_path
from hotview._validation import check_choice
from hotview.model.model import Model, ModelView, encode
from hotview.nn.batched import NetworkOutputs
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing.column_scaler import ColumnScaler
from hotview.preprocessing.table_scan import EXTREME
from hotview.semisupervised import SemiSupervised
from hotview.semisupervised.knn import KNNPredictor
from hotview.semisupervised.predictors import Predictor, Predictors

__all__ = ["to_onnx"]

_PARTS = ("predict_proba", "features", "common")
_MOST = 2**31 - 2**24  # bytes of a protobuf file, less what is not weights
_OPSET = 18


def to_onnx(
    estimator: Any,
    path: str | Path,
    *,
    part: str = "predict_proba",
    view: str | None = None,
) -> Path:
    """Write the computation of a fitted estimator on new rows as an ONNX file, atomically.

    Inputs are called like the views: float64 tables of raw columns, as they went into `fit`, with
    any number of rows. A text column is a column of 0 and 1 per category: all NaN where its cell is
    missing, and all 0 where its value is none of them; the metadata tell the order. A row that is
    NaN throughout a view is absent from it. Where the estimator would raise an error about a row
    (no view at all, infinity, or single NaN without `impute`), the file returns NaN. Results agree
    with the estimator's to rounding; where two neighbors are equally near to rounding, the other
    one may be chosen.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator, fitted.
    path : str or Path
        Path of the file; ends in ``.onnx``.
    part : {"predict_proba", "features", "common"}, default="predict_proba"
        What to write: probabilities of the classes, float64, from all members (row i is the same
        individual in all views); or what `transform` gives, float32, in either space, an output
        ``features`` or ``common`` per view.
    view : str or None, default=None
        The only view to take in; None takes all.

    Returns
    -------
    Path
        The same path. Its metadata hold, as JSON, the ``views``, the ``classes`` and the
        ``columns`` of every view, in the order of its input: a list of ``[name, categories]``, with
        null for the categories of a number, or null for a view whose columns have no names. A
        column of text that holds numbers or dates has a third entry: the ``unit`` of numbers, or
        the ``origin`` from which days are counted.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.model import to_onnx
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=1, random_state=0).fit(views)
    >>> to_onnx(encoder, "encoder.onnx")
    Traceback (most recent call last):
    ValueError: Expected a MultiViewClassifier for part='predict_proba', but it is a
    MultiViewEncoder. Choose part='features' or part='common'.
    """
    path = check_output_path(path, (".onnx",))
    check_is_fitted(estimator)
    model: Model = estimator.model_
    check_choice("part", part, _PARTS)
    if part == "predict_proba" and model.classes is None:
        raise ValueError(
            "Expected a MultiViewClassifier for part='predict_proba', but it is a "
            f"{type(estimator).__name__}. Choose part='features' or part='common'."
        )
    names = model.names if view is None else [check_choice("view", view, model.names)]
    _require_onnx()
    numbers = [model.names.index(name) for name in names]
    module = _make_module(model, part, numbers)
    n_bytes = sum(tensor.nbytes for tensor in module.tensors())
    if n_bytes > _MOST:
        raise ValueError(
            f"Expected a model of at most {_MOST} bytes, because ONNX files cannot be larger, but "
            f"it has {n_bytes}. Lower n_estimators, or write part='features' view by view."
        )
    views = [model.views[s] for s in numbers]
    program = _trace(module, views, part)
    _rename_values(program.model.graph, names)
    columns = {view.name: view.columns.columns for view in views}
    named = {k: own and [column.to_json() for column in own] for k, own in columns.items()}
    metadata = {"hotview": hotview.__version__, "part": part, "views": json.dumps(list(names))}
    metadata["columns"] = json.dumps(named)
    if part == "predict_proba":
        assert model.classes is not None
        metadata["classes"] = json.dumps(model.classes.tolist())
    program.model.metadata_props.update(metadata)
    with atomic_write(path) as draft:
        program.save(draft, external_data=False)
        _check_file(draft, names)
    return path


def _check_file(path: Path, names: Sequence[str]) -> None:
    """Raise an error for a file that no runtime would read, as where two things share a name."""
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        raise ValueError(
            f"Expected views whose names mean nothing else in ONNX, but among {list(names)} one "
            f"does ({str(error).splitlines()[0]}). Fit with other names."
        ) from error


def _require_onnx() -> ModuleType:
    try:
        import onnx  # noqa: F401
        import onnxscript
    except ImportError as error:
        raise ImportError(
            'Writing ONNX files needs onnx and onnxscript. Run pip install "hotview[onnx]".'
        ) from error
    if signature(torch.onnx.export).parameters["args"].default is Parameter.empty:
        raise ImportError(
            f"Writing ONNX files needs a newer torch than {torch.__version__}, whose "
            "torch.onnx.export takes no exported program. Run pip install --upgrade torch."
        )
    found: ModuleType = onnxscript
    return found


def _make_module(model: Model, part: str, numbers: list[int]) -> _Encoding | _Prediction:
    readers = [_Reader(model.views[s].scaler) for s in numbers]
    networks = [copy.deepcopy(network).cpu().eval() for network in model.networks]
    if part != "predict_proba":
        return _Encoding(networks, readers, numbers, space=part)
    assert model.learner is not None
    return _Prediction(_portable(model.learner), networks, readers, numbers)


def _trace(module: nn.Module, views: Sequence[ModelView], part: str) -> Any:
    names = [view.name for view in views]
    rows = torch.export.Dim("rows")
    together = part == "predict_proba"  # elsewhere rows need not be aligned
    dims = [rows if together else torch.export.Dim(f"rows_{s}") for s in range(len(names))]
    widths = [view.columns.n_columns for view in views]
    examples = tuple(torch.zeros(3 + s * (not together), n).double() for s, n in enumerate(widths))
    one = len(names) == 1
    outputs = [part] if together or one else [f"{part}_{name}" for name in names]
    shapes = {"Xs": tuple({0: dim} for dim in dims)}
    try:
        with _quiet():
            graph = torch.export.export(module, examples, dynamic_shapes=shapes, strict=False)
            return torch.onnx.export(
                graph,
                dynamo=True,
                verbose=False,
                opset_version=_OPSET,
                input_names=list(names),
                output_names=outputs,
            )
    except Exception as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ValueError(
            "Expected a network that torch.onnx.export can write, but it cannot "
            f"({type(error).__name__}: {reason}). Encoders of your own must do with operations of "
            "ONNX, and not decide by the values of rows; or save the model with estimator.save."
        ) from error


def _rename_values(graph: Any, names: Sequence[str]) -> None:
    """Give another name to constants and results that are called like a view, as ``view_1``."""
    results = [value for node in graph for value in node.outputs]
    taken = {*names, *graph.initializers, *(value.name for value in results)}
    for value in [*graph.initializers.values(), *results]:
        if value.name not in names or value in graph.outputs:
            continue
        is_constant = graph.initializers.get(value.name) is value
        if is_constant:
            del graph.initializers[value.name]
        value.name = next(new for i in count() if (new := f"{value.name}.{i}") not in taken)
        taken.add(value.name)
        if is_constant:
            graph.initializers[value.name] = value


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the messages and warnings of the exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class _Reader(nn.Module):
    """Raw rows to preprocessed ones, NaN where absent, and which rows are invalid."""

    mean: Tensor
    scale: Tensor
    fill: Tensor | None
    indicators: Tensor | None
    components: Tensor | None

    def __init__(self, columns: ColumnScaler) -> None:
        super().__init__()
        self.is_counts = columns.is_counts
        for name in ("mean", "scale", "fill", "indicators", "components"):
            values = getattr(columns, name)
            self.register_buffer(name, None if values is None else torch.from_numpy(values.copy()))

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        missing = X.isnan()
        absent = missing.all(1, keepdim=True)
        if self.is_counts:  # as in `root_shares`; of negative numbers, the root is NaN
            total = X.nan_to_num(0.0).sum(1, keepdim=True)
            X = (X / total.where(total > 0, torch.ones_like(total))).sqrt().float().double()
        if self.fill is not None:
            X = torch.where(missing & ~absent, self.fill, X)
        if self.indicators is not None:
            marks = missing[:, self.indicators].to(X.dtype).masked_fill(absent, torch.nan)
            X = torch.cat([X, marks], dim=1)
        size = ((X - self.mean) / self.scale).abs()
        wrong = ~(size <= EXTREME).all(1, keepdim=True) & ~absent
        standard = ((X.masked_fill(wrong, 0.0) - self.mean) / self.scale).float()
        return standard if self.components is None else standard @ self.components, wrong


class _Encoding(nn.Module):
    """`transform` of some views."""

    def __init__(
        self,
        networks: Sequence[MultiViewNetwork],
        readers: Sequence[_Reader],
        numbers: Sequence[int],
        *,
        space: str,
    ) -> None:
        super().__init__()
        self.networks, self.readers = nn.ModuleList(networks), nn.ModuleList(readers)
        self.numbers, self.space = list(numbers), space

    def tensors(self) -> Iterator[Tensor]:
        yield from self.state_dict().values()

    def forward(self, *Xs: Tensor) -> tuple[Tensor, ...]:
        each = zip(self.numbers, self.readers, Xs, strict=True)
        return tuple(self._encode(s, *reader(X)) for s, reader, X in each)

    def _encode(self, s: int, X: Tensor, wrong: Tensor) -> Tensor:
        parts = []
        for network in self.networks:
            assert isinstance(network, MultiViewNetwork)
            out, absent = encode(network, s, X, self.space)
            parts.append(out.masked_fill(absent.unsqueeze(1) | wrong, torch.nan))
        return torch.cat(parts, dim=1)


class _Prediction(nn.Module):
    """`predict_proba` of some views."""

    def __init__(
        self,
        learner: SemiSupervised,
        networks: Sequence[MultiViewNetwork],
        readers: Sequence[_Reader],
        numbers: Sequence[int],
    ) -> None:
        super().__init__()
        self.readers, self.numbers, self.learner = nn.ModuleList(readers), list(numbers), learner
        self.networks = nn.ModuleList(networks)

    def tensors(self) -> Iterator[Tensor]:
        yield from self.state_dict().values()
        found: dict[str, Tensor] = {}
        encode_parts(Predictors, self.learner.predictors, found)
        yield from found.values()

    def forward(self, *Xs: Tensor) -> Tensor:
        read = [reader(X) for reader, X in zip(self.readers, Xs, strict=True)]
        views = {s: X for s, (X, _) in zip(self.numbers, read, strict=True)}
        outputs = NetworkOutputs(list(self.networks))  # type: ignore[arg-type]
        p = self.learner.log_proba(views, outputs).exp().mean(0)
        wrong = torch.stack([wrong for _, wrong in read]).any(0)
        return p.masked_fill(wrong, torch.nan)


class _TraceableKNN(KNNPredictor):
    """A nearest-neighbor predictor that computes all distances at once, in operations of ONNX."""

    def nearest(self, Y: Tensor, own: Tensor | None = None) -> Tensor:
        # Not torch.cdist, which branches on the number of rows.
        y, p = Y.double(), self.points.double()
        squares = y.square().sum(1, keepdim=True) + p.square().sum(1) - 2 * y @ p.T
        k = min(self.n_nearest, len(p))
        return squares.topk(k, dim=1, largest=False).indices


def _portable(learner: SemiSupervised) -> SemiSupervised:
    """A learner on the CPU, for tracing."""
    predictors = learner.predictors.to("cpu")
    views = [{name: _traceable(p) for name, p in own.items()} for own in predictors.views]
    return replace(learner, predictors=replace(predictors, views=views))


def _traceable(predictor: Predictor) -> Any:
    """The same predictor, in operations of ONNX."""
    if not isinstance(predictor, KNNPredictor):
        return predictor
    return _TraceableKNN(**{x.name: getattr(predictor, x.name) for x in fields(predictor)})
