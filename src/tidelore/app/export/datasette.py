"""Describe the copy for Datasette: what each table and column means, what to filter by, how to sort.

Datasette reads these settings from a metadata file; it shows the views with readable times first, because tables that
only the program uses are hidden. The descriptions come from the comments of the schema.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from tidelore.app.answers import means
from tidelore.app.wiring import App
from tidelore.core.config_file import is_url
from tidelore.core.errors import StorageFailed, UserError
from tidelore.store.database.descriptions import QUERIES, describe_schema

_VIEWS: dict[str, dict[str, Any]] = {
    "v_issues": {"facets": ["project", "state", "author"], "sort_desc": "updated"},
    "v_merge_requests": {"facets": ["project", "state", "draft", "author"], "sort_desc": "updated"},
    "v_threads": {"facets": ["project", "item", "resolved"], "sort_desc": "last_note"},
    "v_notes": {"facets": ["project", "item", "author"], "sort_desc": "created"},
    "v_topics": {"facets": ["project", "category", "state", "is_answered"], "sort_desc": "updated"},
    "v_posts": {"facets": ["kind", "author"], "sort_desc": "listed"},
}
_SORTABLE = {
    "v_issues": ["iid", "comments", "created", "updated", "closed"],
    "v_merge_requests": ["iid", "comments", "created", "updated", "merged", "closed"],
    "v_threads": ["iid", "began", "last_note"],
    "v_notes": ["iid", "created", "updated"],
    "v_topics": ["iid", "comments", "upvotes", "created", "updated"],
    "v_posts": ["author", "created", "listed"],
}
"""Columns of views by which Datasette may sort: of a view it allows only those that are named."""
_TABLES: dict[str, dict[str, Any]] = {
    "projects": {"facets": ["source", "archived"], "sort": "path", "label_column": "path"},
    "issues": {"facets": ["project_id", "state"], "sort_desc": "updated_at", "label_column": "title"},
    "merge_requests": {"facets": ["project_id", "state"], "sort_desc": "updated_at", "label_column": "title"},
    "discussions": {"facets": ["project_id", "noteable_type", "resolved"], "sort_desc": "last_note_at"},
    "notes": {"facets": ["project_id", "kind", "is_system"], "sort_desc": "created_at"},
    "topics": {"facets": ["project_id", "category"], "sort_desc": "updated_at", "label_column": "title"},
    "topic_comments": {"sort": "id"},
    "labels": {"facets": ["project_id"], "sort": "name", "label_column": "name"},
    "mr_file_changes": {"facets": ["project_id"], "sort": "new_path"},
    "accounts": {"facets": ["state"], "sort": "handle", "label_column": "handle"},
    "posts": {"facets": ["kind"], "sort_desc": "sort_at", "label_column": "text"},
    "links": {"sort_desc": "last_shared_at", "label_column": "url"},
    "documents": {
        "facets": ["source_type", "state"],
        "sort_desc": "updated_at",
        "label_column": "title",
        "fts_table": "documents_fts",
        "fts_pk": "id",
    },
    "sync_runs": {"facets": ["status", "command"], "sort_desc": "started_at"},
    **{name: {} for name in ("issue_labels", "issue_assignees", "mr_labels", "mr_assignees", "mr_reviewers")},
    **{name: {} for name in ("mr_closes_issues", "post_links")},
    **{f"resource_{name}_events": {"sort_desc": "created_at"} for name in ("state", "label", "milestone")},
    "timeline_events": {"sort_desc": "created_at", "facets": ["action"]},
}
"""The tables that are shown; the others are hidden, but can still be queried."""


class DatasetteCommand(Struct, frozen=True):
    """The answer of `lore datasette`."""

    command: Annotated[str, means("the command to run")]
    database: Annotated[str, means("the database file")]
    metadata: Annotated[str, means("the metadata file that was written")]


def prepare_datasette(app: App, database: str | None = None, metadata: str | None = None) -> DatasetteCommand:
    """Write the metadata file for a database, and return the command that shows it."""
    from shlex import join

    from tidelore.store.database.snapshot import is_snapshot

    path = str(Path(database).expanduser().absolute()) if database else app.address
    if is_url(app.address) and not database:
        raise UserError("Datasette reads SQLite files only", fix="name a SQLite file, such as one of `lore snapshot`")
    with App(app.config, app.environ, db=path, clock=app.clock).reading():
        immutable = is_snapshot(path)
    target = Path(metadata).expanduser().absolute() if metadata else _default_place(app)
    _write(target, msgspec.json.format(msgspec.json.encode(describe_for_datasette(Path(path).stem)), indent=2))
    # Of an immutable file Datasette knows the number of rows, and takes no locks.
    words = ["datasette", "--metadata", str(target), *(["--immutable"] if immutable else []), path]
    return DatasetteCommand(join(words), path, str(target))


def describe_for_datasette(database: str) -> dict[str, Any]:
    """Return the metadata of a database with this name."""
    tables: dict[str, Any] = {}
    for name, table in describe_schema().items():
        shown = _VIEWS.get(name, _TABLES.get(name))
        entry: dict[str, Any] = {"description": table.comment, **(shown or {})}
        columns = {column.name: column.comment for column in table.columns if column.comment}
        if columns:
            entry["columns"] = columns
        if name in _SORTABLE:
            entry["sortable_columns"] = _SORTABLE[name]
        if shown is None:
            entry["hidden"] = True
        tables[name] = entry
    return {
        "title": "Tidelore",
        "description": "A local copy of conversations. The views that begin with v_ show readable times.",
        "databases": {database: {"tables": tables, "queries": QUERIES}},
    }


def _default_place(app: App) -> Path:
    base = app.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidelore" / "datasette.json"


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content + b"\n")
    except OSError as error:
        raise StorageFailed(
            f"cannot write {path}: {error.strerror}", fix="choose another file with --metadata", path=str(path)
        ) from None
