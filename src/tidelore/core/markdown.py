"""Render Markdown for a terminal, with rich.

The text is made harmless first. HTML is shown as it is written, except comments, which forges hide too. Links show
their address and are not clickable, so that no text leads elsewhere than it says. Imported only where it is used.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.text import Text
from rich.theme import Theme

from tidelore.core.text import harmless

_NARROWEST = 20
_FENCE = re.compile(r"\s*(?:>\s?)*(`{3,}|~{3,})")
_COMMENT = re.compile(r"^[ ]{0,3}<!--.*?-->[ \t]*\n?", re.DOTALL | re.MULTILINE)
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.link": "default",
        "markdown.link_url": "underline",
        "markdown.block_quote": "dim",
    }
)


class _PlainHeading(Heading):
    """A heading at the left margin, without a box."""

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield self.text


class _PlainCode(CodeBlock):
    """Code as it is written, indented; a long line continues on the next."""

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        code = Text(str(self.text).rstrip("\n"), style="markdown.code_block", no_wrap=False)
        yield Padding(code, (0, 0, 0, 2))


class _RemoteMarkdown(Markdown):
    """Markdown of others: HTML is text, links are not clickable."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")
        self.parsed = parser.parse(text)


def markdown_block(text: str, columns: int, indent: str = "") -> list[str]:
    """Return Markdown as lines of at most `columns` with colours, prefixed with `indent`."""
    room = max(columns - len(indent), _NARROWEST)
    clean = "".join(_without_comments(harmless(text).strip("\n")))
    console = Console(
        file=io.StringIO(),
        width=room,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        theme=_THEME,
        highlight=False,
        _environ={},
    )
    with console.capture() as capture:
        console.print(_RemoteMarkdown(clean))
    return [f"{indent}{line}".rstrip() for line in capture.get().strip("\n").split("\n")]


def _without_comments(text: str) -> Iterator[str]:
    """Yield the text without HTML comments that begin a line; those inside a code fence are kept."""
    outside: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if fence:
            yield line
            fence = "" if found and found[1].startswith(fence) else fence
        elif found:
            yield _COMMENT.sub("", "".join(outside))
            yield line
            outside, fence = [], found[1]
        else:
            outside.append(line)
    yield _COMMENT.sub("", "".join(outside))
