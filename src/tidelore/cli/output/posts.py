"""Render Bluesky posts as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tidelore.cli.output.render import ago, instant
from tidelore.core.clock import format_instant
from tidelore.core.text import block, one_line, shorten
from tidelore.store.reading.posts import PostDetails, PostRow

_RULE = "=" * 80
_STEP = "  "
_TEXT_WIDTH = 70


def post_item(row: PostRow) -> dict[str, Any]:
    """Return a post as an item of a list, as data."""
    return {
        "uri": row.uri,
        "kind": row.kind,
        "author": row.author,
        "author_did": row.author_did,
        "text": row.text,
        "langs": row.langs.split("\n") if row.langs else [],
        "alt_text": row.alt_text.split("\n") if row.alt_text else [],
        "labels": row.labels.split("\n") if row.labels else [],
        "tags": row.tags.split("\n") if row.tags else [],
        "reply_to": row.reply_parent,
        "quotes": row.quoted_uri,
        "repeats": row.subject_uri,
        "created_at": instant(row.created_at),
        "listed_at": instant(row.sort_at),
        "edited_at": instant(row.edited_at),
        "deleted_at": instant(row.deleted_at),
        "web_url": row.url,
    }


def post_data(view: PostDetails) -> dict[str, Any]:
    """Return a post with its links and replies, as data."""
    return {
        **post_item(view.post),
        "cid": view.post.cid,
        "reply_root": view.post.reply_root,
        "indexed_at": instant(view.post.indexed_at),
        "embed": view.post.embed_kind,
        "links": [{name: getattr(link, name) for name in link.__struct_fields__} for link in view.links],
        "parent": None if view.parent is None else _brief(view.parent),
        "quoted": None if view.quoted is None else _brief(view.quoted),
        "replies": [_brief(reply) for reply in view.replies],
        "replies_total": view.replies_total,
        "reposters": view.reposters,
    }


def post_lines(view: PostDetails, columns: int) -> list[str]:
    """Return a post with its details, as text."""
    post = view.post
    deleted = click.style(" [DELETED]", fg="red") if post.deleted_at is not None else ""
    lines = [click.style(f"{post.kind.capitalize()} by @{one_line(post.author)}", bold=True) + deleted, _RULE]
    lines += [f"{name + ':':<9}{value}" for name, value in _facts(view) if value]
    lines += ["", *block(post.text or "(no text)", columns, _STEP)]
    if post.alt_text:
        lines += ["", click.style("Images and videos:", bold=True)]
        lines += [line for alt in post.alt_text.split("\n") for line in block(alt, columns, _STEP)]
    if view.links:
        lines += ["", click.style("Links:", bold=True)]
        lines += [_STEP + one_line(f"{link.url}  {link.title or ''}") for link in view.links]
    if view.replies_total:
        lines += ["", click.style(f"Replies ({view.replies_total:,}):", bold=True)]
        for reply in view.replies:
            lines.append(f"{_STEP}@{one_line(reply.author)} ({format_instant(reply.created_at)[:10]}):")
            lines += block(reply.text, columns, _STEP * 2)
        if view.replies_total > len(view.replies):
            lines.append(f"{_STEP}(and {view.replies_total - len(view.replies):,} more)")
    return lines


def _facts(view: PostDetails) -> Iterator[tuple[str, str | None]]:
    post = view.post
    yield "Address", post.uri
    yield "Page", post.url
    yield "Written", f"{instant(post.created_at)} ({ago(post.created_at)})"
    yield "Edited", instant(post.edited_at)
    yield "Deleted", instant(post.deleted_at)
    yield "Answers", _named(view.parent, post.reply_parent)
    yield "Quotes", _named(view.quoted, post.quoted_uri)
    yield "Repeats", post.subject_uri
    yield "Labels", ", ".join(one_line(label) for label in post.labels.split("\n"))
    yield "Tags", " ".join(f"#{one_line(tag)}" for tag in post.tags.split("\n") if tag)
    yield "Reposts", ", ".join(f"@{one_line(name)}" for name in view.reposters)


def _named(row: PostRow | None, uri: str | None) -> str | None:
    if row is None:
        return uri
    return shorten(f"@{one_line(row.author)}: {one_line(row.text)}", _TEXT_WIDTH)


def _brief(row: PostRow) -> dict[str, Any]:
    item = post_item(row)
    return {name: item[name] for name in ("uri", "kind", "author", "text", "created_at", "web_url")}
