"""Renders accounts as text and as data. Text from the network is cleaned before it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelore.cli.render import Answer, instant, plural, when
from tidelore.cli.table import Column, fields, on_terminal, table
from tidelore.core.clock import SystemClock, describe_age
from tidelore.core.errors import NotFound, PartialSuccess, TideloreError
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from tidelore.core.config import Config
    from tidelore.engine.cursor import Cursor, Gap
    from tidelore.store.mirror.accounts import AccountRow
    from tidelore.sync.accounts import FollowResult

    Standing = tuple[str, Cursor, Sequence[Gap]]


def account_data(row: AccountRow, config: Config, positions: Sequence[Standing] | None = None) -> dict[str, Any]:
    """Return an account as data, with its reading positions if given."""
    data: dict[str, Any] = {
        "did": row.did,
        "handle": row.handle,
        "display_name": row.display_name,
        "state": row.state,
        "reason": row.reason,
        "mode": row.mode or config.bluesky.mode,
        "pds_url": row.pds_url,
        "added_by": row.added_by,
        "next_poll_at": None if row.state == "paused" else instant(row.next_poll_at),
        "interval_seconds": row.interval_seconds,
        "last_post_at": instant(row.last_post_at),
        "last_polled_at": instant(row.last_polled_at),
        "posts_fetched_count": row.posts_fetched_count,
        "failures": row.failures,
        "last_error": row.last_error,
        "created_at": instant(row.created_at),
    }
    if positions is not None:
        data["positions"] = [_position(*standing) for standing in positions]
    return data


def account_table(rows: Sequence[AccountRow], config: Config) -> list[str]:
    """Return a table of accounts."""
    now = SystemClock().now_ms()
    cells = [
        [
            row.handle,
            row.state,
            row.mode or config.bluesky.mode,
            f"{row.posts_fetched_count:,}",
            when(row.last_post_at),
            _due(row, now),
            row.reason or row.last_error or "",
        ]
        for row in rows
    ]
    columns = [
        Column("ACCOUNT", colour="cyan"),
        Column("STATE", state=True),
        Column("MODE"),
        Column("POSTS", right=True),
        Column("LAST POST"),
        Column("NEXT POLL"),
        Column("REASON", shrinks=True),
    ]
    return table(columns, cells)


def account_lines(data: dict[str, Any]) -> list[str]:
    """Return one account as text."""
    plain = {name: value for name, value in data.items() if name != "positions"}
    lines = fields(plain)
    for place in data["positions"]:
        if place["watermark_at"] is None and not place["complete"] and not place["gaps"]:
            continue
        told = f"read up to {place['watermark_at'] or '-'}, {'complete' if place['complete'] else 'not yet complete'}"
        lines.append(f"{place['surface']}: {told}, verified {place['verified_at'] or 'never'}")
        lines += [f"  open from {gap['top_at'] or 'the top'} down to {gap['floor_at'] or '-'}" for gap in place["gaps"]]
    return lines


def following_answer(found: FollowResult) -> Answer:
    """Return the result of following accounts; names that could not be resolved are an error."""
    lines = [f"Following {one_line(account.handle)} ({account.did})" for account in found.created]
    lines += [f"{one_line(account.handle)}: already followed" for account in found.known]
    lines += [f"{_where(found, name)}: {error.message}" for name, error in _by_line(found)]
    lines.append(f"{plural(len(found.created), 'account')} added, {len(found.known):,} already followed")
    data = {
        "added": [{"did": one.did, "handle": one.handle} for one in found.created],
        "known": [{"did": one.did, "handle": one.handle} for one in found.known],
        "unresolved": [
            {"account": name, "line": found.lines.get(name), "code": error.code, "error": error.message}
            for name, error in _by_line(found)
        ],
    }
    return Answer(data, lines, _judge(found))


def _judge(found: FollowResult) -> PartialSuccess | NotFound | None:
    if not found.unresolved:
        return None
    names = ", ".join(_where(found, name) for name, _ in _by_line(found))
    fix = "check the spelling; if a handle was changed, use the DID"
    if not found.created and not found.known:
        return NotFound(f"could not add {names}", fix=fix, accounts=list(found.unresolved))
    return PartialSuccess(f"could not add {names}; the others are followed", fix=fix, accounts=list(found.unresolved))


def _by_line(found: FollowResult) -> list[tuple[str, TideloreError]]:
    """Return what could not be resolved, in the order of the file it stood in."""
    return sorted(found.unresolved.items(), key=lambda entry: found.lines.get(entry[0], 0))


def _where(found: FollowResult, name: str) -> str:
    """Return a name that could not be resolved, with its line where it stood in a file."""
    line = found.lines.get(name)
    return one_line(name) if line is None else f"line {line}: {one_line(name)}"


def _due(row: AccountRow, now: int) -> str:
    if row.state == "paused":
        return "-"
    if not on_terminal():
        return instant(row.next_poll_at) or "-"
    return "now" if row.next_poll_at <= now else f"in {describe_age((row.next_poll_at - now) / 1000)}"


def _position(surface: str, cursor: Cursor, gaps: Sequence[Gap]) -> dict[str, Any]:
    return {
        "surface": surface,
        "watermark_at": instant(cursor.watermark.at if cursor.watermark else None),
        "complete": cursor.complete,
        "held_since": instant(cursor.window.since if cursor.window else None),
        "verified_at": instant(cursor.census.verified_at),
        "gaps": [{"top_at": instant(gap.top.at if gap.top else None), "floor_at": instant(gap.floor)} for gap in gaps],
    }
