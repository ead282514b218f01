"""`lore trending`: lists the most shared links."""

from __future__ import annotations

from typing import Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer, ago, instant, plural
from tidelore.cli.table import line_columns
from tidelore.core.clock import SystemClock
from tidelore.core.text import one_line, shorten
from tidelore.store.reading.posts import Trend, trending

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
def command(ctx: click.Context, /, hours: float, limit: int, min_shares: int, *, as_json: bool) -> Answer:
    """List the most shared links.

    Each account counts once per link. Reposts count, deleted posts do not.
    """
    face = face_of(ctx)
    face.choices.robot |= as_json
    since = max(SystemClock().now_ms() - round(hours * _HOUR_MS), 0)
    database = face.open_store()
    try:
        found = trending(database, since, limit, min_shares)
    finally:
        database.close()
    data = {"since": instant(since), "items": [_item(trend) for trend in found], "total": len(found), "next": None}
    return Answer(data, () if face.choices.robot else _lines(found, hours))


def _item(trend: Trend) -> dict[str, Any]:
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


def _lines(found: list[Trend], hours: float) -> list[str]:
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
