"""Jupyter notebooks without Jupyter: run them, store what they print, and turn them into Markdown.

``python docs/_theme/notebooks.py docs/tutorials/*.ipynb`` runs notebooks and stores their outputs.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

__all__ = ["read_notebook", "run_notebook", "store_outputs", "to_markdown"]

Notebook = dict[str, Any]


def read_notebook(path: Path) -> Notebook:
    """Return the notebook of a file, as in its JSON."""
    notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def run_notebook(notebook: Notebook) -> list[list[dict[str, Any]]]:
    """Run the code cells in one namespace, in the current folder; return the outputs of each.

    An output is what a cell prints, the value of its last expression, or a figure of matplotlib.
    Warnings of hotview are not shown: the notebooks show `fit_warnings_` where they matter.
    """
    import matplotlib

    matplotlib.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        return [_run_cell("".join(cell["source"]), namespace) for cell in cells]


def _run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    import matplotlib.pyplot as plt

    *statements, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        statements, last = [*statements, last], None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(statements, []), "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None and not source.rstrip().endswith(";"):
        outputs.append(_display({"text/plain": repr(value).splitlines(keepends=True)}))
    for number in plt.get_fignums():
        picture = io.BytesIO()
        no_version = {"Software": None}
        plt.figure(number).savefig(picture, dpi=90, bbox_inches="tight", metadata=no_version)
        outputs.append(_display({"image/png": base64.b64encode(picture.getvalue()).decode()}))
    plt.close("all")
    return outputs


def _display(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def store_outputs(path: Path) -> None:
    """Run a notebook in an empty folder, and write it with its outputs."""
    notebook, here = read_notebook(path), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            outputs = iter(run_notebook(notebook))
        finally:
            os.chdir(here)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = next(outputs), None
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def to_markdown(notebook: Notebook) -> str:
    """Return text, code and stored outputs as a page."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output_markdown(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _output_markdown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f"![Figure that the code above draws](data:image/png;base64,{picture})"
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```{{.text .output}}\n{text.rstrip()}\n```"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        store_outputs(Path(name))
