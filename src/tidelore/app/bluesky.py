"""Use-cases of Bluesky: poll, scrub and audit accounts, follow and refresh them, stream, diagnose.

Opens the Bluesky network and the store, and runs the stages of the command with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.app.wiring import App

if TYPE_CHECKING:
    from tidelore.core.progress import Progress
    from tidelore.core.references import MemberList
    from tidelore.sources.bluesky.source import BlueskySource
    from tidelore.store.mirror.accounts import AccountRow, Mode
    from tidelore.store.work.session import Workshop
    from tidelore.sync.account_poll import PollRequest
    from tidelore.sync.account_stream import StreamReport, StreamRequest
    from tidelore.sync.accounts import FollowResult
    from tidelore.sync.audit import AuditReport
    from tidelore.sync.diagnosis import Finding
    from tidelore.sync.report import PollReport, RequestCount, RunReport


class OpenNetwork(Struct, frozen=True):
    """The Bluesky network and the store, opened for one command."""

    shop: Workshop
    source: BlueskySource
    count: RequestCount


@asynccontextmanager
async def open_network(app: App, command: str, *, create: bool = True) -> AsyncIterator[OpenNetwork]:
    """Open the store and the network until the block ends."""
    from tidelore.sources.bluesky.source import open_bluesky
    from tidelore.store.work.session import Workshop
    from tidelore.sync.report import RequestCount

    count = RequestCount()
    database = app.open_store(create=create)
    try:
        wiring = app.wiring(count)
        async with open_bluesky(wiring) as source:
            shop = Workshop(database, app.config, app.clock, app.seam, command, app.insists)
            yield OpenNetwork(shop, source, count)
    finally:
        database.close()


async def poll_accounts(
    app: App, request: PollRequest, on_progress: Callable[[Progress], None] = lambda _progress: None
) -> PollReport:
    """Run one poll cycle."""
    from tidelore.documents.generation import make_documents_if_free
    from tidelore.sync.account_poll import poll

    async with open_network(app, "lore poll bluesky") as opened:
        return await poll(
            opened.shop,
            opened.source,
            request,
            opened.count,
            on_progress,
            make_documents=make_documents_if_free,
        )


async def scrub_accounts(app: App, budget: int, *, force: bool = False) -> RunReport | None:
    """Verify followed accounts against their repositories; return None if there are none or nothing to spend."""
    from tidelore.documents.generation import make_documents_if_free
    from tidelore.store.mirror.accounts import count_accounts
    from tidelore.sync.account_poll import scrub

    async with open_network(app, "lore scrub") as opened:
        if budget <= 0 or not count_accounts(opened.shop.database):
            return None
        make = make_documents_if_free
        return await scrub(opened.shop, opened.source, budget, opened.count, force=force, make_documents=make)


async def diagnose_network(app: App) -> list[Finding]:
    """Check that the network is reachable and that the configured accounts exist."""
    from tidelore.sources.bluesky.source import open_bluesky
    from tidelore.sync.diagnosis import examine_bluesky

    wiring = app.wiring(lambda _metric: None)
    return await examine_bluesky(open_bluesky(wiring), app.config.bluesky)


async def follow_accounts(
    app: App, targets: Sequence[str | MemberList], added_by: str, mode: Mode | None
) -> FollowResult:
    """Follow accounts and the members of lists."""
    from tidelore.sync.accounts import follow_targets

    async with open_network(app, "lore accounts add") as opened:
        return await follow_targets(opened.shop, opened.source, targets, added_by, mode)


async def follow_follows(app: App, name: str, mode: Mode | None) -> FollowResult:
    """Follow every account that an account follows."""
    from tidelore.sync.accounts import follow_follows as follow_them

    async with open_network(app, "lore accounts follows") as opened:
        return await follow_them(opened.shop, opened.source, name, mode)


async def refresh_accounts(app: App, names: Sequence[str]) -> tuple[list[AccountRow], list[tuple[str, str]]]:
    """Update the handles of these accounts, or of all; return the accounts and the handles that changed."""
    from tidelore.store.mirror.accounts import find_account, list_accounts
    from tidelore.sync.accounts import refresh

    async with open_network(app, "lore accounts refresh", create=False) as opened:
        database = opened.shop.database
        rows = [find_account(database, name) for name in names] if names else list_accounts(database)
        return rows, await refresh(opened.shop, opened.source, rows)


async def audit_accounts(
    app: App, name: str | None, on_progress: Callable[[Progress], None] = lambda _progress: None
) -> AuditReport:
    """Compare one account, or all, with the network; writes nothing."""
    from tidelore.store.mirror.accounts import find_account, list_accounts
    from tidelore.sync.account_verification import audit_accounts as compare

    started = app.clock.monotonic()
    async with open_network(app, "lore audit bluesky", create=False) as opened:
        database = opened.shop.database
        rows = list_accounts(database) if name is None else [find_account(database, name)]
        chosen = [row for row in rows if name is not None or row.state != "paused"]
        report = await compare(opened.shop, opened.source, chosen, on_progress)
    report.requests, report.seconds = opened.count.total, app.clock.monotonic() - started
    return report


async def stream_accounts(
    app: App,
    request: StreamRequest,
    report: StreamReport,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> None:
    """Consume the event stream; the report is updated while it runs."""
    from tidelore.documents.generation import make_documents_if_free
    from tidelore.sources.bluesky.stream import build_stream
    from tidelore.store.work.session import Workshop
    from tidelore.sync.account_stream import follow_stream

    database = app.open_store(create=True)
    try:
        wiring = app.wiring(lambda _metric: None)
        shop = Workshop(database, app.config, app.clock, app.seam, "lore stream bluesky", app.insists)
        await follow_stream(
            shop,
            lambda dids, cursor: build_stream(wiring, dids, cursor),
            request,
            report,
            on_progress,
            make_documents_if_free,
        )
    finally:
        database.close()
