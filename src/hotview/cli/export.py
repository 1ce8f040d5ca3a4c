"""``hotview export``: a model for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotview.cli import options
from hotview.cli.options import option
from hotview.cli.runner import check_new_file, print_result

__all__ = ["export"]


def export(
    model: options.Model,
    onnx: Annotated[Path, option("File to write (.onnx).")],
    part: Annotated[
        str, typer.Option(help="Output: predict_proba, features or common.")
    ] = "predict_proba",
    view: Annotated[str | None, option("View to encode, for features and common.")] = None,
    force: options.Force = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Export a model as ONNX: raw columns of every view in, probabilities or features out."""
    from hotview.cli.models import open_model
    from hotview.model import to_onnx

    check_new_file(onnx, force=force)
    opened = open_model(model, device="cpu")
    to_onnx(opened.estimator, onnx, part=part, view=view)
    size = onnx.stat().st_size
    line = f"{part} written to {onnx} ({size / 1e6:.1f} MB)"
    print_result({"out": str(onnx), "part": part, "bytes": size}, line, as_json=json)
