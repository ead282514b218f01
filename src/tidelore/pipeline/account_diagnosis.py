"""Whether Bluesky is within reach, and what is known of whoever is followed there. Owns what is asked for that.

Stores nothing. A server that says that it knows nobody of a name that nobody has is a server that answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager

from tidelore.core.concurrency import gather
from tidelore.core.config import Bluesky
from tidelore.core.errors import RemoteError, RemoteNotFound, TideloreError, UserError
from tidelore.core.references import clean_name
from tidelore.pipeline.diagnosis import Finding, trouble
from tidelore.sources.bluesky.source import NOBODY, BlueskySource
from tidelore.sources.bluesky.stream_protocol import protocol_of, stream_url
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import NO_HANDLE, count_accounts, list_accounts
from tidelore.store.reading.totals import STATES


async def examine_bluesky(opening: AbstractAsyncContextManager[BlueskySource], settings: Bluesky) -> list[Finding]:
    """Ask the AppView and the PLC directory, and for each account of the configuration."""
    subject = "bluesky"
    try:
        async with opening as source:
            appview = f"bluesky AppView ({settings.base_url})"
            findings = [await _answers(appview, source.resolve(NO_HANDLE))]
            findings.append(await _answers(f"bluesky PLC directory ({settings.plc_url})", source.document(NOBODY)))
            if findings[0].ok and settings.accounts:
                findings += await _configured(source, settings)
    except TideloreError as error:
        return [trouble(subject, error)]
    return findings


def examine_stream(settings: Bluesky) -> Finding:
    """Look at the address of the event stream, which is not asked: `lore stream bluesky` does."""
    subject = f"bluesky stream ({settings.jetstream_url})"
    try:
        return Finding(subject, True, f"well-formed, protocol {protocol_of(stream_url(settings.jetstream_url))}")
    except TideloreError as error:
        return trouble(subject, error)


def examine_accounts(database: Database) -> Finding | None:
    """Return how the followed accounts stand; None when there are none."""
    counts = count_accounts(database)
    if not counts:
        return None
    told = ", ".join(f"{counts[state]:,} {state}" for state in STATES if state in counts)
    nameless = sum(account.handle == NO_HANDLE for account in list_accounts(database))
    unresolved = f"; {nameless:,} without a valid handle" if nameless else ""
    return Finding("bluesky accounts", True, f"{told}{unresolved}")


async def _answers(subject: str, asked: Awaitable[object]) -> Finding:
    try:
        await asked
    except RemoteNotFound:
        return Finding(subject, True, "reachable, no credentials needed")
    except RemoteError as error:
        return trouble(subject, error)
    return Finding(subject, True, "reachable, no credentials needed")


async def _configured(source: BlueskySource, settings: Bluesky) -> list[Finding]:
    """Return a finding for each name that leads nowhere, and one for all that lead to an account."""
    gate = asyncio.Semaphore(settings.max_concurrent)

    async def resolve(name: str) -> Finding | None:
        async with gate:
            try:
                await source.resolve(clean_name(name))
            except (RemoteError, UserError) as error:
                return trouble(f"bluesky {name}", error)
        return None

    lost = [found for found in await gather(map(resolve, settings.accounts)) if found is not None]
    count, total = len(settings.accounts) - len(lost), len(settings.accounts)
    return [Finding("bluesky configured accounts", not lost, f"{count:,} of {total:,} found"), *lost]
