"""Render a Bluesky post with its links and replies as text."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tidelore.app.showing import BriefPost, ShownPost
from tidelore.cli.output.render import ago, instant
from tidelore.core.clock import format_instant
from tidelore.core.text import block, one_line, shorten

_RULE = "=" * 80
_STEP = "  "
_TEXT_WIDTH = 70


def post_lines(post: ShownPost, columns: int) -> list[str]:
    """Return a post with its details, as text."""
    deleted = click.style(" [DELETED]", fg="red") if post.deleted_at is not None else ""
    lines = [click.style(f"{post.kind.capitalize()} by @{one_line(post.author)}", bold=True) + deleted, _RULE[:columns]]
    lines += [f"{name + ':':<9}{value}" for name, value in _facts(post) if value]
    lines += ["", *block(post.text or "(no text)", columns, _STEP)]
    if post.alt_text:
        lines += ["", click.style("Images and videos:", bold=True)]
        lines += [line for alt in post.alt_text for line in block(alt, columns, _STEP)]
    if post.links:
        lines += ["", click.style("Links:", bold=True)]
        lines += [_STEP + one_line(f"{link.url}  {link.title or ''}") for link in post.links]
    if post.replies_total:
        lines += ["", click.style(f"Replies ({post.replies_total:,}):", bold=True)]
        for reply in post.replies:
            lines.append(f"{_STEP}@{one_line(reply.author)} ({format_instant(reply.created_at)[:10]}):")
            lines += block(reply.text, columns, _STEP * 2)
        if post.replies_total > len(post.replies):
            lines.append(f"{_STEP}(and {post.replies_total - len(post.replies):,} more)")
    return lines


def _facts(post: ShownPost) -> Iterator[tuple[str, str | None]]:
    yield "Address", post.uri
    yield "Page", post.web_url
    yield "Written", f"{instant(post.created_at)} ({ago(post.created_at)})"
    yield "Edited", instant(post.edited_at)
    yield "Deleted", instant(post.deleted_at)
    yield "Answers", _named(post.parent, post.reply_to)
    yield "Quotes", _named(post.quoted, post.quotes)
    yield "Repeats", post.repeats
    yield "Labels", ", ".join(one_line(label) for label in post.labels)
    yield "Tags", " ".join(f"#{one_line(tag)}" for tag in post.tags)
    yield "Reposts", ", ".join(f"@{one_line(name)}" for name in post.reposters)


def _named(row: BriefPost | None, uri: str | None) -> str | None:
    if row is None:
        return uri
    return shorten(f"@{one_line(row.author)}: {one_line(row.text)}", _TEXT_WIDTH)
