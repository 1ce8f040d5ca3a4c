"""What the site's builder is told beside mkdocs.yml: how to read docstrings and notebooks."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.structure.files import File

__all__ = ["DocstringMarkup", "on_config", "on_files", "on_page_markdown"]


def _neighbor(name: str) -> ModuleType:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formula = _neighbor("formulas").formula
notebooks = _neighbor("notebooks")

_DISPLAY = re.compile(r"^( *)\.\. math:: *(.+(?:\n\1 +\S.*)*)", re.MULTILINE)
_DOLLARS = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r":math:`([^`]+)`")
_ROLE = re.compile(r":(?:class|func|meth|mod):`~?([^`]+)`")
_LITERAL = re.compile(r"::(?=\n\n {4})")
_NOTEBOOK_LINK = re.compile(r"(\]\([^)\s]*)\.ipynb(?=[)#])")
_TABLE = re.compile(r"^={3,} +={3,}$(?:\n.+)+\n={3,} +={3,}$", re.MULTILINE)


class DocstringMarkup(Extension):
    """Turns what numpydoc's docstrings take from reStructuredText into what Markdown knows."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register the rewriting after whitespace is normalized, before code is set aside."""
        md.preprocessors.register(_Rewrite(md), "docstring_markup", 29)


class _Rewrite(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        text = _DOLLARS.sub(self._display, "\n".join(lines))
        if "```" not in text:  # a page's own code is not a docstring's
            text = self._rewrite(text)
        return text.split("\n")

    def _rewrite(self, text: str) -> str:
        store = self.md.htmlStash.store
        text = _DISPLAY.sub(self._display, text)
        text = _INLINE.sub(lambda m: store(formula(m[1])), text)
        text = _ROLE.sub(r"`\1`", text)
        text = _TABLE.sub(lambda m: f"\n```text\n{m[0]}\n```\n", text)
        return _LITERAL.sub(":", text)

    def _display(self, match: re.Match[str]) -> str:
        latex = match[match.lastindex or 0]
        return f"\n{self.md.htmlStash.store(formula(latex, display=True))}\n"


def on_config(config: Any) -> Any:
    """Let every page and every docstring be read with it."""
    config.markdown_extensions.append(DocstringMarkup())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Make a page of every notebook: its text, code and stored outputs."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = notebooks.to_markdown(notebooks.read_notebook(Path(file.abs_src_path)))
        files.append(
            File.generated(config, file.src_uri.removesuffix(".ipynb") + ".md", content=page)
        )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks, which code hosts show, lead to their pages."""
    return _NOTEBOOK_LINK.sub(r"\1.md", markdown)
