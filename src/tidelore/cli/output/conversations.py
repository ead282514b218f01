"""Render one item as text: an issue or merge request with its discussions, a topic, a post."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import click

from tidelore.app.showing import (
    BriefPost,
    ChangedFile,
    ShownDiscussion,
    ShownIssue,
    ShownItem,
    ShownMergeRequest,
    ShownNote,
    ShownPost,
    ShownTopic,
    ShownTopicComment,
)
from tidelore.cli.output.render import ago, instant
from tidelore.cli.output.table import fit_lines
from tidelore.core.clock import format_instant
from tidelore.core.references import Kind, sign_of
from tidelore.core.text import block, one_line, shorten

_RULE = "=" * 80
_STEP = "  "
_TEXT_WIDTH = 70
_REMOVED = ("", "Its text was removed when it was found deleted.")
Prose = Callable[[str, int, str], list[str]]
"""Turns Markdown into lines: text, width, indent."""


def item_lines(
    item: ShownIssue | ShownMergeRequest, columns: int, *, with_files: bool = False, prose: Prose = block
) -> list[str]:
    """Return the whole page; `prose` turns Markdown into lines."""
    kind: Kind = "mr" if isinstance(item, ShownMergeRequest) else "issue"
    sign = sign_of(kind, item.reference)
    noun = "Issue" if kind == "issue" else "Merge Request" if sign == "!" else "Pull Request"
    name = f"{noun} {sign}{item.iid}"
    lines = _head(name, item.title, item.deleted_at, columns)
    lines += _aligned(list(_fields(item)), columns)
    if item.deleted_at is not None:
        return [*lines, *_REMOVED]
    lines += ["", _heading("Description:")]
    lines += prose(item.description or "(none)", columns, _STEP)
    if with_files and isinstance(item, ShownMergeRequest):
        lines += ["", _heading(f"Files ({len(item.files):,}):")]
        lines += [f"{_STEP}{one_line(describe_file(file))}" for file in item.files]
    return [*lines, *_discussion_lines(item, columns, prose)]


def _head(name: str, title: str, deleted_at: int | None, columns: int) -> list[str]:
    """Return the name and the title of an item, and a rule."""
    deleted = click.style(" [DELETED]", fg="red") if deleted_at is not None else ""
    said = f": {one_line(title)}" if title else ""
    return [*fit_lines([click.style(f"{name}{said}", bold=True) + deleted]), _RULE[:columns]]


def describe_file(file: ChangedFile) -> str:
    """Return a changed file on one line, with a letter for the kind of change."""
    if file.new_file:
        return f"A {file.new_path}"
    if file.deleted_file:
        return f"D {file.old_path}"
    if file.renamed_file or file.old_path != file.new_path:
        return f"R {file.old_path} -> {file.new_path}"
    return f"M {file.new_path}"


def describe_duration(seconds: int) -> str:
    """Return a duration in hours and minutes, as GitLab writes it."""
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    parts = [f"{hours:,}h" if hours else "", f"{minutes}m" if minutes or not hours else ""]
    return " ".join(part for part in parts if part)


def _fields(item: ShownIssue | ShownMergeRequest) -> Iterator[tuple[str, str | None]]:
    """Yield names and values; None and empty values are not shown."""
    yield "Project", item.project
    yield "State", item.state
    if isinstance(item, ShownIssue):
        yield "Status", item.status
        yield "Type", item.type if item.type not in (None, "issue") else None
        yield "Confidential", "Yes" if item.confidential else "No"
    else:
        yield "Draft", "Yes" if item.draft else "No"
    yield "Author", _person(item.author)
    yield "Assignees", _people(item.assignees)
    yield from _branches(item) if isinstance(item, ShownMergeRequest) else _planning(item)
    yield "Created", _day(item.created_at)
    yield "Updated", _day(item.updated_at)
    yield "Closed", None if item.closed_at is None else _day(item.closed_at)
    yield "Labels", ", ".join(item.labels)
    yield "URL", item.web_url
    yield from _links(item)
    yield "Deleted", None if item.deleted_at is None else f"found deleted on {_day(item.deleted_at)}"


def _branches(item: ShownMergeRequest) -> Iterator[tuple[str, str | None]]:
    merged_at = item.merged_at
    yield "Reviewers", _people(item.reviewers)
    yield "Source", item.source_branch
    yield "Target", item.target_branch
    yield "Merge Status", f"{item.merge_status} (detailed_merge_status)" if item.merge_status else None
    yield "Merged By", _person(item.merged_by) if item.merged_by else None
    yield "Merged At", None if merged_at is None else format_instant(merged_at)[:19].replace("T", " ")


def _planning(item: ShownIssue) -> Iterator[tuple[str, str | None]]:
    yield "Milestone", item.milestone
    yield "Due Date", item.due_date
    yield "Estimate", describe_duration(item.time_estimate_seconds) if item.time_estimate_seconds else None
    yield "Time Spent", describe_duration(item.time_spent_seconds) if item.time_spent_seconds else None


def _links(item: ShownIssue | ShownMergeRequest) -> Iterator[tuple[str, str | None]]:
    if isinstance(item, ShownIssue):
        found = [f"{_closed(by.reference, item.project)} ({by.state})" for by in item.closed_by]
        yield "Closed By", ", ".join(found)
        yield "Discussion", "locked" if item.discussion_locked else None
    else:
        yield "Milestone", item.milestone
        yield "Closes", ", ".join(_closed(issue.reference or issue.key, item.project) for issue in item.closes_issues)
        yield "Files", f"{len(item.files):,} changed" if item.files else None
    counts = {name: getattr(item.events, name) for name in item.events.__struct_fields__}
    yield "Events", ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _closed(reference: str, project: str) -> str:
    """Return a reference in its short form inside the project."""
    here = reference.startswith((f"{project}#", f"{project}!"))
    return reference.removeprefix(project) if here else reference


def _aligned(fields: Sequence[tuple[str, str | None]], columns: int) -> list[str]:
    shown = [(name, one_line(value)) for name, value in fields if value]
    margin = max(len(name) for name, _ in shown) + 2
    lines = []
    for name, value in shown:
        first, *rest = block(value, columns - margin)
        lines.append(f"{f'{name}:':<{margin}}{first}")
        lines += [f"{'':<{margin}}{line}" for line in rest]
    return lines


def _discussion_lines(item: ShownItem, columns: int, prose: Prose) -> list[str]:
    skipped = item.discussions_total - len(item.discussions)
    lines = ["", _heading(f"Discussions ({item.discussions_total:,}):"), *_caveats(item)]
    if skipped:
        left_out = "1 earlier discussion" if skipped == 1 else f"{skipped:,} earlier discussions"
        lines.append(f"{_STEP}({left_out} not shown)")
    for discussion in item.discussions:
        lines += ["", *_discussion(discussion, columns, prose)]
    return lines


def _caveats(item: ShownItem) -> list[str]:
    """Return notes about discussions that are missing or outdated."""
    if not item.discussions_read:
        said = "not fetched yet; run `lore sync`"
    elif not item.discussions_fresh:
        said = "may be incomplete; run `lore sync` to update"
    else:
        return []
    return [f"{_STEP}({said})"]


def _discussion(discussion: ShownDiscussion, columns: int, prose: Prose) -> list[str]:
    first, *replies = discussion.notes
    lines = fit_lines([_note_head(first, "", _STEP, resolved=bool(discussion.resolved))])
    lines += prose(first.body, columns, _STEP * 2)
    for reply in replies:
        # A reply has the same position as its thread; show it only if it differs.
        lines += ["", *fit_lines([_note_head(reply, first.place or "", _STEP * 2)])]
        lines += prose(reply.body, columns, _STEP * 3)
    return lines


def _note_head(note: ShownNote, known_place: str, indent: str, *, resolved: bool = False) -> str:
    where = note.place
    marks = [
        f"[{one_line(where)}]" if where and where != known_place else "",
        "[SYSTEM]" if note.system else "",
        "[INTERNAL]" if note.internal else "",
        f"[{one_line(note.review_state)}]" if note.review_state not in (None, "COMMENTED") else "",
        click.style("[RESOLVED]", fg="green") if resolved else "",
    ]
    head = " ".join([click.style(_person(note.author), fg="cyan"), f"({_day(note.created_at)})"])
    head = " ".join([head, *(mark for mark in marks if mark)])
    return f"{indent}{head}:"


def _heading(text: str) -> str:
    return click.style(text, bold=True)


def _person(username: str | None) -> str:
    return f"@{one_line(username)}" if username else "unknown"


def _people(names: Sequence[str]) -> str:
    return ", ".join(f"@{name}" for name in names)


def _day(instant_ms: int) -> str:
    return format_instant(instant_ms)[:10]


def topic_lines(topic: ShownTopic, columns: int, prose: Prose = block) -> list[str]:
    """Return a topic with its comments, as text; `prose` turns Markdown into lines."""
    lines = _head(f"Topic #{topic.iid}", topic.title, topic.deleted_at, columns)
    lines += [f"{name + ':':<10}{value}" for name, value in _topic_facts(topic) if value]
    if topic.deleted_at is not None:
        return [*lines, *_REMOVED]
    lines += ["", *prose(topic.body or "(no text)", columns, _STEP)]
    lines += ["", click.style(f"Comments ({topic.comments:,}):", bold=True)]
    for comment in topic.thread:
        lines += _comment_lines(comment, columns, prose)
    return lines


def _topic_facts(topic: ShownTopic) -> Iterator[tuple[str, str | None]]:
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


def post_lines(post: ShownPost, columns: int) -> list[str]:
    """Return a post with its details, as text."""
    lines = _head(f"{post.kind.capitalize()} by @{one_line(post.author)}", "", post.deleted_at, columns)
    lines += [f"{name + ':':<9}{value}" for name, value in _post_facts(post) if value]
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


def _post_facts(post: ShownPost) -> Iterator[tuple[str, str | None]]:
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
