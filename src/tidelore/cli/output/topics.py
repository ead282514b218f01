"""Render a topic with its comments as text."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tidelore.app.showing import ShownTopic, ShownTopicComment
from tidelore.cli.output.conversations import Prose
from tidelore.cli.output.render import ago, instant
from tidelore.core.clock import format_instant
from tidelore.core.text import block, one_line

_RULE = "=" * 80
_STEP = "  "


def topic_lines(topic: ShownTopic, columns: int, prose: Prose = block) -> list[str]:
    """Return a topic with its comments, as text; `prose` turns Markdown into lines."""
    deleted = click.style(" [DELETED]", fg="red") if topic.deleted_at is not None else ""
    title = f": {one_line(topic.title)}" if topic.title else ""
    lines = [click.style(f"Topic #{topic.iid}{title}", bold=True) + deleted, _RULE[:columns]]
    lines += [f"{name + ':':<10}{value}" for name, value in _facts(topic) if value]
    if topic.deleted_at is not None:
        return [*lines, "", "Its text was removed when it was found deleted."]
    lines += ["", *prose(topic.body or "(no text)", columns, _STEP)]
    lines += ["", click.style(f"Comments ({topic.comments:,}):", bold=True)]
    for comment in topic.thread:
        lines += _comment_lines(comment, columns, prose)
    return lines


def _facts(topic: ShownTopic) -> Iterator[tuple[str, str | None]]:
    answered = {True: "answered", False: "not answered"}.get(topic.answered) if topic.answered is not None else None
    yield "Project", topic.project
    yield "State", ", ".join(part for part in (topic.state, topic.state_reason, answered) if part)
    yield "Category", one_line(topic.category) if topic.category else None
    yield "Author", f"@{one_line(topic.author)}" if topic.author else None
    yield "Upvotes", f"{topic.upvotes:,}" if topic.upvotes else None
    yield "Created", f"{instant(topic.created_at)} ({ago(topic.created_at)})"
    yield "Updated", f"{instant(topic.updated_at)} ({ago(topic.updated_at)})"
    yield "Deleted", instant(topic.deleted_at)
    yield "Page", topic.web_url


def _comment_lines(comment: ShownTopicComment, columns: int, prose: Prose) -> list[str]:
    indent = _STEP if comment.in_reply_to is None else _STEP * 2
    mark = click.style(" [ANSWER]", fg="green") if comment.answer else ""
    who = f"@{one_line(comment.author)}" if comment.author else "unknown"
    head = f"{indent}{who} ({format_instant(comment.created_at)[:10]}):{mark}"
    said = "(deleted)" if comment.deleted_at is not None else comment.body
    return ["", head, *prose(said, columns, indent + _STEP)]
