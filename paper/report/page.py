"""Render the page and its figures from result files."""

from __future__ import annotations

from pathlib import Path

from hotview._files import atomic_write, check_output_path
from hotview.report.canvas import save_figure
from paper.report.accuracy import accuracy_part
from paper.report.averaged import averaged_part
from paper.report.claims.listing import claims_part, list_claims
from paper.report.exact_matching import exact_part
from paper.report.load_results import read_results
from paper.report.overview import opening_part
from paper.report.parts import Part
from paper.report.plan_figures import plans_part
from paper.report.remarks import remarks_part
from paper.report.speed import distances_part, speed_part
from paper.report.sweeps import sweeps_part
from paper.report.synthetic import synthetic_part
from paper.report.view_removal import removal_part

__all__ = ["render_page", "write_page"]

_NOTE = "<!-- Made by `python -m paper report` from results/; changes are lost. -->"


def render_page(results: str | Path, *, pictures: str = "reproduction") -> str:
    """Make the text of the page; the same files give the same text.

    Parameters
    ----------
    results : str or Path
        Folder of the result files, ``results/paper``.
    pictures : str, default="reproduction"
        Folder of the pictures, seen from the page.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> import tempfile
    >>> from paper.report import render_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     render_page(folder).splitlines()[2]
    '# The paper, run again'
    """
    return _text(_parts(Path(results)), pictures)


def write_page(results: Path, page: Path) -> None:
    """Write the page, and the pictures into a folder of its name beside it.

    Parameters
    ----------
    results : Path
        Folder of the result files, ``results/paper``.
    page : Path
        Where to write; each file is written whole or not at all, the page last.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from paper.report import write_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Path(folder) / "page.md"
    ...     write_page(Path(folder), page)
    ...     page.exists()
    True
    """
    page = check_output_path(page, (".md",))
    parts = _parts(results)
    drawings = {name: draw for part in parts for name, draw in part.pictures.items()}
    folder = page.parent / page.stem
    if drawings:
        folder.mkdir(exist_ok=True)
    for name, draw in drawings.items():
        save_figure(draw(), folder / name)
    with atomic_write(page) as draft:
        draft.write_text(_text(parts, page.stem), encoding="utf-8")


def _parts(folder: Path) -> list[Part]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; `python -m paper run all` makes it.")
    results = read_results(folder)
    claims = list_claims(results)
    return [
        opening_part(results, claims),
        accuracy_part(results, "table2"),
        averaged_part(results),
        accuracy_part(results, "table3"),
        removal_part(results),
        plans_part(results, "figure2"),
        sweeps_part(results, "figure3"),
        sweeps_part(results, "figure4"),
        plans_part(results, "figure5"),
        synthetic_part(results),
        distances_part(results),
        exact_part(results),
        claims_part(claims),
        remarks_part(results),
        speed_part(results),
    ]


def _text(parts: list[Part], pictures: str) -> str:
    texts = (part.text.replace("{pictures}", pictures) for part in parts if part.text)
    return "\n\n".join([_NOTE, *texts]) + "\n"
