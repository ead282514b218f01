"""`lore file-history`: lists the merge requests that changed a file, across renames."""

from __future__ import annotations

from typing import Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer, instant, when
from tidelore.cli.table import Column, table
from tidelore.core.errors import UserError
from tidelore.core.text import one_line
from tidelore.store.reading.file_history import (
    FileHistory,
    FileQuestion,
    FileThread,
    HistoryEntry,
    describe_lineage,
    read_file_history,
)

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
def command(ctx: click.Context, /, **wanted: Any) -> Answer:
    """List the merge requests that changed a file, newest first.

    PATH is relative to the root of the repository, or an unambiguous ending such as 'auth/login.ts'. Renames are
    followed in both directions.
    """
    face = face_of(ctx)
    face.choices.robot |= wanted.pop("as_json")
    fields = wanted.pop("fields")
    chosen = _fields(fields)
    default = face.app().config.default_project
    question = FileQuestion(follow=not wanted.pop("alone"), default=default, **wanted)
    database = face.open_store()
    try:
        history = read_file_history(database, question)
    finally:
        database.close()
    return Answer(_data(history, chosen), () if face.choices.robot else _lines(history, question))


def _data(history: FileHistory, chosen: set[str]) -> dict[str, Any]:
    project = history.file.project
    items = [_item(entry, project) for entry in history.entries]
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


def _item(entry: HistoryEntry, project: str) -> dict[str, Any]:
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
    known = set(_item(HistoryEntry(0, 0, None, "", "", None, 0, None, None), ""))
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


def _lines(history: FileHistory, question: FileQuestion) -> list[str]:
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
