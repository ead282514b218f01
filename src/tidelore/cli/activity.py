"""Show who changed a file and which links are shared: `lore file-history`, `lore trending`.

Reads the local database only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.command import LoreCommand, invocation_of
from tidelore.cli.output.render import Output, ago, instant, plural, when
from tidelore.cli.output.table import Column, line_columns, table
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.text import one_line, shorten

if TYPE_CHECKING:
    from tidelore.store.reading.file_history import FileHistory, FileQuestion, FileThread, HistoryEntry
    from tidelore.store.reading.posts import Trend


_CHANGES = (
    Column("NUMBER", colour="cyan"),
    Column("STATE", state=True),
    Column("AUTHOR"),
    Column("UPDATED"),
    Column("CHANGE"),
    Column("TITLE", shrinks=True),
)
_THREADS = (
    Column("NUMBER", colour="cyan"),
    Column("PLACE", path=True),
    Column("AUTHOR"),
    Column("STARTED"),
    Column("STATE", state=True),
    Column("FIRST NOTE", shrinks=True),
)


@click.command("file-history", cls=LoreCommand, example="lore file-history src/auth/login.ts --discussions")
@click.argument("path", metavar="PATH")
@click.option("--discussions", is_flag=True, help="Include review discussions on its lines.")
@click.option("--merged", is_flag=True, help="Only merged merge requests.")
@click.option("--no-follow-renames", "alone", is_flag=True, help="Do not follow renames.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="Number of items to show.")
@click.option("-p", "--project", metavar="PATH", help="Project (path or unambiguous ending).")
@click.option("--fields", metavar="A,B", help="Only these fields of the items in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.pass_context
def file_history_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """List the merge requests that changed a file, newest first.

    PATH is relative to the root of the repository, or an unambiguous ending such as 'auth/login.ts'. Renames are
    followed in both directions.
    """
    from tidelore.store.reading.file_history import FileQuestion, read_file_history

    invocation = invocation_of(ctx)
    invocation.choices.robot |= wanted.pop("as_json")
    fields = wanted.pop("fields")
    chosen = _fields(fields)
    default = invocation.app().config.default_project
    question = FileQuestion(follow=not wanted.pop("alone"), default=default, **wanted)
    database = invocation.open_store()
    try:
        history = read_file_history(database, question)
    finally:
        database.close()
    return Output(_history_data(history, chosen), () if invocation.choices.robot else _history_lines(history, question))


def _history_data(history: FileHistory, chosen: set[str]) -> dict[str, Any]:
    project = history.file.project
    items = [_change_item(entry, project) for entry in history.entries]
    return {
        "path": history.file.path,
        "project": project,
        "names": history.lineage.names,
        "names_cut": history.lineage.cut,
        "renames": [
            {
                "old_path": rename.old_path,
                "new_path": rename.new_path,
                "reference": f"{project}!{rename.iid}",
                "state": rename.state,
                "at": instant(rename.at),
            }
            for rename in history.lineage.renames
        ],
        "items": [{name: value for name, value in item.items() if name in chosen} for item in items],
        "total": history.total,
        "next": None,
        "discussions": [_thread(thread, project) for thread in history.threads],
        "discussions_total": history.threads_total,
    }


def _change_item(entry: HistoryEntry, project: str) -> dict[str, Any]:
    return {
        "reference": entry.reference or f"{project}!{entry.iid}",
        "iid": entry.iid,
        "title": entry.title,
        "state": entry.state,
        "author": entry.author,
        "updated_at": instant(entry.updated_at),
        "merged_at": instant(entry.merged_at),
        "web_url": entry.web_url,
        "changes": [
            {"change": touch.kind, "old_path": touch.old_path, "new_path": touch.new_path} for touch in entry.touches
        ],
    }


def _thread(thread: FileThread, project: str) -> dict[str, Any]:
    return {
        "reference": f"{project}!{thread.iid}",
        "id": thread.id,
        "author": thread.author,
        "body": thread.body,
        "created_at": instant(thread.created_at),
        "path": thread.path,
        "line": thread.line,
        "resolvable": bool(thread.resolvable),
        "resolved": bool(thread.resolved),
        "notes": thread.notes,
    }


def _fields(text: str | None) -> set[str]:
    from tidelore.store.reading.file_history import HistoryEntry

    known = set(_change_item(HistoryEntry(0, 0, None, "", "", None, 0, None, None), ""))
    if text is None:
        return known
    chosen = {name.strip() for name in text.split(",") if name.strip()}
    if not chosen or chosen - known:
        raise UserError(
            f"invalid value for --fields: {', '.join(sorted(chosen - known)) or 'no field given'}",
            fix="use any of: " + ", ".join(sorted(known)),
            fields=text,
        )
    return chosen


def _history_lines(history: FileHistory, question: FileQuestion) -> list[str]:
    from tidelore.store.reading.file_history import describe_lineage

    lines = [one_line(f"{history.file.path} ({history.file.project})")]
    if len(history.lineage.names) > 1:
        more = ", and more" if history.lineage.cut else ""
        lines.append(f"Names: {one_line(describe_lineage(history.lineage))}{more}")
    lines += ["", f"Merge Requests (showing {len(history.entries):,} of {history.total:,})"]
    if history.entries:
        lines += table(_CHANGES, [_row(entry) for entry in history.entries], always_headings=True)
    if question.discussions:
        lines += ["", f"Discussions (showing {len(history.threads):,} of {history.threads_total:,})"]
        rows = [_thread_row(thread) for thread in history.threads]
        lines += table(_THREADS, rows, always_headings=True) if rows else []
    return lines


def _row(entry: HistoryEntry) -> list[str]:
    return [
        f"!{entry.iid}",
        entry.state,
        _name(entry.author),
        when(entry.at),
        ", ".join(dict.fromkeys(touch.kind for touch in entry.touches)),
        entry.title,
    ]


def _thread_row(thread: FileThread) -> list[str]:
    place = thread.path + ("" if thread.line is None else f":{thread.line}")
    mark = "resolved" if thread.resolved else "open" if thread.resolvable else "-"
    return [f"!{thread.iid}", place, _name(thread.author), when(thread.created_at), mark, thread.body]


def _name(author: str | None) -> str:
    return f"@{author}" if author else "-"


_HOUR_MS = 3_600_000
_STEP = "  "
_SHOWN_SHARERS = 5


@click.command("trending", cls=LoreCommand, example="lore trending --hours 48")
@click.option("--hours", type=click.FloatRange(0.1, 24 * 3660), default=24, help="Time span in hours.")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=50, help="Number of links to show.")
@click.option(
    "--min-shares", type=click.IntRange(1), default=1, help="Minimum number of accounts that shared the link."
)
@click.option("--json", "as_json", is_flag=True, help="Same as --robot.")
@click.pass_context
def trending_command(ctx: click.Context, /, hours: float, limit: int, min_shares: int, *, as_json: bool) -> Output:
    """List the most shared links.

    Each account counts once per link. Reposts count, deleted posts do not.
    """
    from tidelore.store.reading.posts import trending

    invocation = invocation_of(ctx)
    invocation.choices.robot |= as_json
    since = max(SystemClock().now_ms() - round(hours * _HOUR_MS), 0)
    database = invocation.open_store()
    try:
        found = trending(database, since, limit, min_shares)
    finally:
        database.close()
    data = {"since": instant(since), "items": [_link_item(trend) for trend in found], "total": len(found), "next": None}
    return Output(data, () if invocation.choices.robot else _link_lines(found, hours))


def _link_item(trend: Trend) -> dict[str, Any]:
    return {
        "url": trend.url,
        "title": trend.title,
        "description": trend.description,
        "thumb": trend.thumb,
        "shares": trend.shares,
        "posts": trend.posts,
        "first_shared_at": instant(trend.first_shared_at),
        "last_shared_at": instant(trend.last_shared_at),
        "sharers": [
            {"handle": sharer.handle, "did": sharer.did, "shared_at": instant(sharer.shared_at)}
            for sharer in trend.sharers
        ],
    }


def _link_lines(found: list[Trend], hours: float) -> list[str]:
    if not found:
        return [f"No links shared in the last {hours:g} hours."]
    columns = line_columns()
    lines: list[str] = []
    for trend in found:
        head = f"{plural(trend.shares, 'share')}, last {ago(trend.last_shared_at)}"
        title = one_line(trend.title or trend.url)
        lines.append(
            f"{head}{_STEP}{click.style(shorten(title, max(columns - len(head) - len(_STEP), 20)), bold=True)}"
        )
        if trend.title:
            lines.append(_STEP + one_line(trend.url))
        lines.append(shorten(_STEP + _names(trend), columns))
    return lines


def _names(trend: Trend) -> str:
    names = [f"@{one_line(sharer.handle or sharer.did)}" for sharer in trend.sharers[:_SHOWN_SHARERS]]
    left = len(trend.sharers) - len(names)
    return ", ".join(names) + (f" and {left:,} more" if left else "")
