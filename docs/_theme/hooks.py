"""What the site's builder is told beside mkdocs.yml: how to read the docstrings' markup."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

__all__ = ["DocstringMarkup", "on_config"]


def _neighbor(name: str) -> ModuleType:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formula = _neighbor("formulas").formula

_DISPLAY = re.compile(r"^( *)\.\. math:: *(.+(?:\n\1 +\S.*)*)", re.MULTILINE)
_DOLLARS = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r":math:`([^`]+)`")
_ROLE = re.compile(r":(?:class|func|meth|mod):`~?([^`]+)`")
_LITERAL = re.compile(r"::(?=\n\n {4})")
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
