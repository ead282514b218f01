"""Stores the cursor and the gaps of every scope (tables `cursors` and `gaps`, invariant 4).

The second half maps the comment lists of GitHub to scopes in the same table, shows them under their documented names,
and transfers positions between a repository's feed and its threads. A transferred watermark only moves forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from tidelore.core.errors import NotFound
from tidelore.core.model import Position, Scope
from tidelore.core.references import match_one
from tidelore.engine.cursor import (
    Census,
    Cursor,
    Gap,
    LogPosition,
    Validator,
    Window,
    decode,
    encode,
    forward,
    parse_id,
)
from tidelore.store.database.port import Database, Transaction

_MOST_NAMED = 20
_KEPT = ("watermark_at", "watermark_id", "reading", "log_position")
_KEY = "source = :source AND surface = :surface AND scope = :scope"


class CursorRow(Struct, frozen=True):
    """A cursor for display, with the path of its project or the handle of its account."""

    source: str
    surface: str
    scope: str
    project: str | None
    account: str | None
    watermark_at: int | None
    watermark_id: str | None
    bootstrap_complete: int
    reading: str | None
    etag: str | None
    url: str | None
    polled_at: int | None
    verified_at: int | None
    updated_at: int
    set_aside: str | None
    set_aside_at: int | None
    horizon_at: int | None
    gaps: int

    @property
    def place(self) -> str:
        """The display name of the project or account it belongs to."""
        return self.project or self.account or self.scope


def scope_params(scope: Scope) -> dict[str, object]:
    """Return the query parameters for a scope."""
    return {"source": scope.source, "surface": scope.surface, "scope": scope.key}


def load_cursor(database: Database, scope: Scope) -> Cursor:
    """Return the stored cursor of a scope, valid or not."""
    rows = database.read(
        "SELECT watermark_at, watermark_id, reading, log_position, url, etag, bootstrap_complete, census, horizon_at"
        f" FROM cursors WHERE {_KEY}",
        scope_params(scope),
    )
    if not rows:
        return Cursor()
    at, key, reading, log, url, etag, complete, census, horizon = rows[0]
    return Cursor(
        watermark=None if at is None else Position(at, parse_id(key or "0")),
        window=decode(reading, Window),
        log=decode(log, LogPosition),
        validator=Validator(url, etag) if url and etag else None,
        complete=bool(complete),
        census=decode(census, Census) or Census(),
        horizon=horizon or 0,
    )


def without_cursor(database: Database, source: str, surfaces: Iterable[str], scopes: Sequence[str]) -> set[str]:
    """Return which of these scopes have no cursor for any of these lists."""
    rows = database.read(
        f"SELECT scope FROM cursors WHERE source = :source AND surface {database.among('surfaces')}"
        f" AND scope {database.among('scopes')}",
        {"source": source, "surfaces": database.texts(surfaces), "scopes": database.texts(scopes)},
    )
    return set(scopes).difference(scope for (scope,) in rows)


def last_polled(database: Database, sources: Iterable[str]) -> dict[tuple[str, str, str], int]:
    """Return when lists of projects were last polled, by source, configured project name and surface."""
    rows = database.read(
        "SELECT c.source, p.configured, c.surface, MAX(c.polled_at)"
        " FROM cursors c JOIN projects p ON p.id = c.project_id"
        f" WHERE c.source {database.among('sources')} AND c.polled_at IS NOT NULL"
        " GROUP BY c.source, p.configured, c.surface",
        {"sources": database.texts(sources)},
    )
    return {(source, configured, surface): int(at) for source, configured, surface, at in rows}


def save_cursor(tx: Transaction, scope: Scope, cursor: Cursor, now_ms: int) -> None:
    """Write a cursor, in the transaction of the rows it covers."""
    tx.execute(
        "INSERT INTO cursors (source, surface, scope, project_id, watermark_at, watermark_id, reading, log_position,"
        " url, etag, bootstrap_complete, census, horizon_at, verified_at, polled_at, updated_at)"
        " VALUES (:source, :surface, :scope, :project_id, :watermark_at, :watermark_id, :reading, :log, :url,"
        " :etag, :complete, :census, :horizon, :verified_at, :now, :now)"
        " ON CONFLICT (source, surface, scope) DO UPDATE SET project_id = excluded.project_id,"
        " watermark_at = excluded.watermark_at, watermark_id = excluded.watermark_id,"
        " reading = excluded.reading, log_position = excluded.log_position, url = excluded.url, etag = excluded.etag,"
        " bootstrap_complete = excluded.bootstrap_complete, census = excluded.census,"
        " horizon_at = excluded.horizon_at, verified_at = excluded.verified_at,"
        " polled_at = excluded.polled_at, updated_at = excluded.updated_at",
        {
            **scope_params(scope),
            "project_id": scope.project_id,
            "watermark_at": cursor.watermark.at if cursor.watermark else None,
            "watermark_id": str(cursor.watermark.id) if cursor.watermark else None,
            "reading": encode(cursor.window),
            "log": encode(cursor.log),
            "url": cursor.validator.url if cursor.validator else None,
            "etag": cursor.validator.etag if cursor.validator else None,
            "complete": int(cursor.complete),
            "census": encode(cursor.census),
            "horizon": cursor.horizon or None,
            "verified_at": cursor.census.verified_at,
            "now": now_ms,
        },
    )


def note_unverified(tx: Transaction, scope: Scope, census: Census) -> None:
    """Store that the verification of a scope failed; the position of its list stays."""
    tx.execute(f"UPDATE cursors SET census = :census WHERE {_KEY}", {**scope_params(scope), "census": encode(census)})


def set_aside(tx: Transaction, scope: Scope, reason: str, now_ms: int) -> None:
    """Keep the value of an invalid cursor, and why it is invalid."""
    rows = tx.execute(f"SELECT {', '.join(_KEPT)} FROM cursors WHERE {_KEY}", scope_params(scope))
    kept = dict(zip(_KEPT, rows[0], strict=True)) if rows else {}
    tx.execute(
        f"UPDATE cursors SET set_aside = :kept, set_aside_at = :now WHERE {_KEY}",
        {
            **scope_params(scope),
            "kept": msgspec.json.encode({**kept, "reason": reason}).decode(),
            "now": now_ms,
        },
    )


def reset_cursor(tx: Transaction, source: str, surface: str, scope: str) -> bool:
    """Delete a position at an operator's command; stored items are kept. Return False if there was none."""
    key = {"source": source, "surface": surface, "scope": scope}
    tx.execute(f"DELETE FROM gaps WHERE {_KEY}", key)
    return tx.change(f"DELETE FROM cursors WHERE {_KEY}", key) > 0


def load_gaps(database: Database, scope: Scope) -> list[Gap]:
    """Return the open gaps of a scope, newest first."""
    rows = database.read(
        f"SELECT top_at, top_id, resume_token, floor_at FROM gaps WHERE {_KEY} ORDER BY place",
        scope_params(scope),
    )
    return [Gap(None if at is None else Position(at, parse_id(key)), token, floor) for at, key, token, floor in rows]


def save_gaps(tx: Transaction, scope: Scope, gaps: Sequence[Gap], now_ms: int) -> None:
    """Replace the open gaps of a scope."""
    tx.execute(f"DELETE FROM gaps WHERE {_KEY}", scope_params(scope))
    for place, gap in enumerate(gaps):
        tx.execute(
            "INSERT INTO gaps (source, surface, scope, place, top_at, top_id, resume_token, floor_at, opened_at)"
            " VALUES (:source, :surface, :scope, :place, :top_at, :top_id, :token, :floor, :now)",
            {
                **scope_params(scope),
                "place": place,
                "top_at": gap.top.at if gap.top else None,
                "top_id": str(gap.top.id) if gap.top else None,
                "token": gap.token,
                "floor": gap.floor,
                "now": now_ms,
            },
        )


def find_cursor(database: Database, surface: str, scope: str) -> CursorRow:
    """Return the one cursor that matches; a scope may be a number, a path, or the end of a path."""
    everything = list_cursors(database)
    cursors = [cursor for cursor in everything if cursor.surface == surface]
    if not cursors:
        known = "; ".join(f"{cursor.surface} {cursor.place}" for cursor in everything[:_MOST_NAMED])
        raise NotFound(
            f"no reading position for {surface}",
            fix=f"known: {known}" if known else "run `lore sync` first",
            surface=surface,
        )
    return match_one(scope, cursors, lambda row: (row.place, row.scope), f"{surface} cursor")


def list_cursors(database: Database) -> list[CursorRow]:
    """Return every cursor with the project or account it belongs to."""
    rows = database.read(
        "SELECT c.source, c.surface, c.scope, p.path, a.handle, c.watermark_at, c.watermark_id, c.bootstrap_complete,"
        " COALESCE(c.reading, c.log_position), c.etag, c.url, c.polled_at, c.verified_at, c.updated_at,"
        " c.set_aside, c.set_aside_at, c.horizon_at, (SELECT COUNT(*) FROM gaps g WHERE g.source = c.source"
        " AND g.surface = c.surface AND g.scope = c.scope)"
        " FROM cursors c LEFT JOIN projects p ON p.id = c.project_id"
        " LEFT JOIN accounts a ON a.did = c.scope AND c.source = 'bluesky' ORDER BY c.source, c.surface, c.scope"
    )
    return [CursorRow(*row) for row in rows]


THREADS = (
    "pr_snapshot",
    "pr_review_comments",
    "pr_issue_comments",
    "issue_pre_pr_followups",
    "issue_post_pr_redirects",
    "issue_operator_commands",
)
"""The lists of one thread that are read by themselves."""
_PREFIX = "github."


class PollCursor(Struct, frozen=True):
    """A position as in the documented view, with times in milliseconds. Number 0 is the whole repository."""

    surface: str
    scope_number: int
    last_updated_at: int | None
    last_comment_id: int | None
    bootstrap_complete: bool
    polled_at: int | None
    updated_at: int


def thread_scope(source: str, project_id: int, remote_id: int, surface: str, number: int) -> Scope:
    """Return the scope of a list of one thread. It contains the id of the repository, which outlives its name."""
    if surface not in THREADS:
        raise ValueError(f"{surface!r} is not a list of a thread")
    return Scope(source, f"{_PREFIX}{surface}", f"{remote_id}#{number}", project_id, f"#{number} {surface}")


def list_poll_cursors(database: Database, project_id: int) -> list[PollCursor]:
    """Return every position of a repository, those of the whole repository first."""
    rows = database.read(
        "SELECT surface, scope, watermark_at, watermark_id, bootstrap_complete, polled_at, updated_at FROM cursors"
        f" WHERE project_id = :project_id AND surface LIKE '{_PREFIX}%'",
        {"project_id": project_id},
    )
    found = [
        PollCursor(surface.removeprefix(_PREFIX), int(scope.partition("#")[2] or 0),
                   at, int(key) if key and key.isdecimal() else None, bool(complete), polled_at, updated_at)
        for surface, scope, at, key, complete, polled_at, updated_at in rows
    ]  # fmt: skip
    return sorted(found, key=lambda cursor: (cursor.scope_number, cursor.surface))


def transfer_position(tx: Transaction, scope: Scope, at: int | None, *, complete: bool, now_ms: int) -> Position | None:
    """Move a watermark to at least this instant, and return it.

    If it moves, or the scope stops being complete, reading in progress starts over from there.
    """
    known, was_complete = _standing(tx, scope)
    moved = forward(known, None if at is None else Position(at, 0))
    if (moved, complete) == (known, was_complete):
        return moved
    tx.execute(
        "INSERT INTO cursors (source, surface, scope, project_id, watermark_at, watermark_id, bootstrap_complete,"
        " updated_at) VALUES (:source, :surface, :scope, :project_id, :at, :id, :complete, :now)"
        " ON CONFLICT (source, surface, scope) DO UPDATE SET watermark_at = excluded.watermark_at,"
        " watermark_id = excluded.watermark_id, bootstrap_complete = excluded.bootstrap_complete, reading = NULL,"
        " url = NULL, etag = NULL, updated_at = excluded.updated_at",
        {
            **scope_params(scope),
            "project_id": scope.project_id,
            "at": moved.at if moved else None,
            "id": str(moved.id) if moved else None,
            "complete": int(complete),
            "now": now_ms,
        },
    )
    return moved


def reread_thread(tx: Transaction, project_id: int, remote_id: int, number: int) -> None:
    """Have one thread read by itself from its positions, because the feeds may not have covered it."""
    tx.execute(
        "UPDATE cursors SET bootstrap_complete = 0, url = NULL, etag = NULL WHERE project_id = :project_id"
        " AND scope = :scope",
        {"project_id": project_id, "scope": f"{remote_id}#{number}"},
    )


def forget_thread(tx: Transaction, project_id: int, remote_id: int, number: int) -> int:
    """Delete every position of one thread; return how many there were."""
    return tx.change(
        "DELETE FROM cursors WHERE project_id = :project_id AND scope = :scope",
        {"project_id": project_id, "scope": f"{remote_id}#{number}"},
    )


def _standing(tx: Transaction, scope: Scope) -> tuple[Position | None, bool | None]:
    """Return a scope's watermark and whether it is complete; None and None if nothing was ever read."""
    rows = tx.execute(
        "SELECT watermark_at, watermark_id, bootstrap_complete FROM cursors"
        " WHERE source = :source AND surface = :surface AND scope = :scope",
        scope_params(scope),
    )
    if not rows:
        return None, None
    at, key, complete = rows[0]
    return (None if at is None else Position(at, parse_id(key or "0"))), bool(complete)
