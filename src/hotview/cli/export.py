"""``hotview export``: a model for programs that have no hotview."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotview.cli.options import Debug, Force, Json, Model
from hotview.cli.runner import UsageError, check_new_file, print_json

__all__ = ["export"]


def export(
    model: Model,
    onnx: Annotated[
        Path | None, typer.Option(help="Where to write (.onnx).", show_default=False)
    ] = None,
    part: Annotated[
        str,
        typer.Option(help="What it computes: predict_proba, features or common."),
    ] = "predict_proba",
    view: Annotated[
        str | None,
        typer.Option(help="Which view, for features and common.", show_default=False),
    ] = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a model as ONNX: the raw columns of every view in, probabilities or features out."""
    if onnx is None:
        raise UsageError("Say what to export to: --onnx model.onnx is what there is.")
    from hotview.cli.models import open_model
    from hotview.export import to_onnx

    check_new_file(onnx, force=force)
    opened = open_model(model, device="cpu")
    to_onnx(opened.estimator, onnx, part=part, view=view)
    if json:
        print_json({"out": str(onnx), "part": part, "bytes": onnx.stat().st_size})
        return
    typer.echo(f"{part} written to {onnx} ({onnx.stat().st_size / 1e6:.1f} MB)")
