"""What documents a search is narrowed to. Owns the filter and its SQL, whichever index found the documents.

`type` narrows to the thread (an issue, or a merge request, with its discussions) or to discussions; `author` to what
somebody wrote, which in a discussion is any of its notes.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tidelore.store.database import Database

_PLACES = {"sqlite": "instr", "postgres": "strpos"}
_LIKE = {"sqlite": "LIKE", "postgres": "ILIKE"}
_LINE = "{place}(:line_end || {column} || :line_end, :line_end || :{name} || :line_end) > 0"


class DocumentFilter(Struct, frozen=True, kw_only=True):
    """What is asked of a document; None does not ask."""

    type: str | None = None
    project_id: int | None = None
    author: str | None = None
    labels: tuple[str, ...] = ()
    state: str | None = None
    since: int | None = None
    path: str | None = None

    @property
    def narrows(self) -> bool:
        return self != DocumentFilter()


def conditions(database: Database, wanted: DocumentFilter) -> tuple[list[str], dict[str, Any]]:
    """Return conditions on `documents d`, and their parameters."""
    found: list[str] = []
    params: dict[str, Any] = {}
    if wanted.type == "discussion":
        found.append("d.source_type = 'discussion'")
    elif wanted.type is not None:
        found.append("d.thread_type = :thread_type")
        params["thread_type"] = wanted.type
    for name in ("project_id", "state"):
        if getattr(wanted, name) is not None:
            found.append(f"d.{name} = :{name}")
            params[name] = getattr(wanted, name)
    if wanted.since is not None:
        found.append("d.updated_at >= :since")
        params["since"] = wanted.since
    if wanted.author is not None:
        spoke = _line(database, "d.participants", "author")
        found.append(f"(d.author_username = :author OR (d.source_type = 'discussion' AND {spoke}))")
        params["author"] = wanted.author
    for number, label in enumerate(wanted.labels):
        found.append(_line(database, "d.labels", f"label_{number}"))
        params[f"label_{number}"] = label
    if wanted.path is not None:
        found.append(holds(database, "d.identifiers", "path"))
        params["path"] = pattern(wanted.path)
    if wanted.author is not None or wanted.labels:
        params["line_end"] = "\n"
    return found, params


def pattern(text: str) -> str:
    """Return the pattern that finds a text anywhere, its own wildcards taken as they are written."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def holds(database: Database, column: str, name: str) -> str:
    """Return the condition that a column holds a `pattern`, in whatever case."""
    return f"{column} {_LIKE[database.dialect]} :{name} ESCAPE '\\'"


def _line(database: Database, column: str, name: str) -> str:
    return _LINE.format(place=_PLACES[database.dialect], column=column, name=name)
