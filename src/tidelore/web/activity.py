"""The pages about the whole copy: Home, Accounts, Trending and Status, with the live updates of Status.

What waits for the reader and how complete the copy is are separate pages, because they count through the whole copy;
Home and Status load them afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tidelore.app.accounts import STATES, list_accounts
from tidelore.app.listing import trending_links
from tidelore.app.pages.home import read_home, read_waiting
from tidelore.app.pages.items import stored_projects
from tidelore.app.positions import dashboard
from tidelore.app.reading.coverage import read_coverage
from tidelore.app.reports import CHILD_NAMES
from tidelore.app.wiring import App
from tidelore.core.errors import TideloreError, UserError
from tidelore.web.addresses import with_query
from tidelore.web.lists import Choice, shared_paths
from tidelore.web.rendering import Page, Site, render

LIVE_SECONDS = 2.0
LOOK_SECONDS = 0.25
"""How often an open stream looks whether the server is stopping."""
MOST_ACCOUNTS = 200
VISIT_MS = 1_800_000
_WINDOWS = (("24", "24 hours"), ("72", "3 days"), ("168", "7 days"), ("720", "30 days"))


def home_page(site: Site, app: App, request: Request) -> Page:
    """Show what changed recently and since the last visit, which reviews wait, and how old each source is."""
    name = f"{site.access.cookie}_seen"
    seen_at, now = _last_visit(request.cookies.get(name, ""), site.now_ms())
    data = read_home(app)
    return Page(
        template="home.html",
        title="Home",
        data=data,
        cookie=(name, f"{seen_at}-{now}"),
        context={
            "shared": shared_paths(stored_projects(app)),
            "seen_at": seen_at,
            "new": sum(one.updated_at > seen_at for one in data.recent) if seen_at else 0,
        },
    )


def _last_visit(text: str, now_ms: int) -> tuple[int, int]:
    """Return when the visit before this one ended, or 0, and the present; half an hour without a request ends one."""
    before, _, last = text.partition("-")
    if not (before.isascii() and before.isdecimal() and last.isascii() and last.isdecimal() and len(text) < 32):
        return 0, now_ms
    return (int(last) if now_ms - int(last) > VISIT_MS else int(before)), now_ms


def status_page(_site: Site, app: App, _request: Request) -> Page:
    """Show sources, jobs, runs and pending work."""
    return Page(template="status.html", title="Status", data=dashboard(app), part="_status.html")


def waiting_page(_site: Site, app: App, _request: Request) -> Page:
    """List the threads and merge requests that wait for the reader."""
    return Page(template="waiting.html", title="Waiting for you", data=read_waiting(app), part="_waiting.html")


def coverage_page(_site: Site, app: App, _request: Request) -> Page:
    """Show how complete the copy is."""
    names = {"child_names": CHILD_NAMES}
    return Page(
        template="coverage.html", title="Coverage", data=read_coverage(app), context=names, part="_coverage.html"
    )


def accounts_page(_site: Site, app: App, request: Request) -> Page:
    """List the followed accounts by state."""
    state = request.query_params.get("state", "")
    if state and state not in STATES:
        raise UserError(f"invalid value for state: {state!r}", fix="use any of: " + ", ".join(STATES), state=state)
    found = list_accounts(app, state or None)
    part = request.query_params.get("q", "").strip().lower()
    items = [one for one in found.items if part in one.handle.lower() or part in (one.display_name or "").lower()]
    chips = [
        Choice(
            f"{name} {found.states.get(value, 0) if value else sum(found.states.values())}",
            with_query("/accounts", [("q", part), ("state", value)]),
            state == value,
        )
        for value, name in (("", "all"), *((name, name) for name in STATES))
    ]
    context = {"chips": chips, "items": items[:MOST_ACCOUNTS], "left_out": max(len(items) - MOST_ACCOUNTS, 0)}
    return Page(template="accounts.html", title="Accounts", data=found, context={**context, "part_of": part})


def trending_page(_site: Site, app: App, request: Request) -> Page:
    """List the links that most accounts shared."""
    hours = request.query_params.get("hours", "24")
    if not (hours.isascii() and hours.isdecimal() and 1 <= int(hours[:6]) <= 100_000):
        raise UserError(f"invalid value for hours: {hours!r}", fix="use a number from 1 to 100000", hours=hours)
    part = request.query_params.get("link", "").strip()
    chips = [
        Choice(label, with_query("/trending", [("link", part), ("hours", value)]), hours == value)
        for value, label in _WINDOWS
    ]
    data = trending_links(app, float(hours), part=part)
    context = {"chips": chips, "part_of": part, "hours": hours}
    return Page(template="trending.html", title="Trending links", data=data, context=context)


def live_status(site: Site, app: App, request: Request, stopping: Callable[[], bool]) -> StreamingResponse:
    """Stream the changing part of Status as server-sent events, one whenever it changed."""

    def read() -> str:
        try:
            return render(site, request, "_status.html", data=dashboard(app))
        except TideloreError as error:
            return render(site, request, "_error.html", error=error, status=500)

    async def events() -> AsyncIterator[str]:
        last = ""
        try:
            while not stopping():
                html = await run_in_threadpool(read)
                if html != last:
                    last = html
                    yield "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"
                else:
                    yield ": unchanged\n\n"
                until = app.clock.monotonic() + LIVE_SECONDS
                while app.clock.monotonic() < until and not stopping():
                    await app.clock.sleep(LOOK_SECONDS)
        except asyncio.CancelledError:
            return

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
