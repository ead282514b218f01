"""Opening Bluesky. Owns how the configuration becomes HTTP clients: one for the AppView, one for the PLC directory,
one for each server that holds the records of an account, all with the same limits; that of requests under way is one
for all of them together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from tidelore.sources.bluesky.origins import Origins
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.sources.credentials import is_loopback
from tidelore.sources.http import HttpClient
from tidelore.sources.registry import Wiring
from tidelore.sources.transport import Reach


@asynccontextmanager
async def open_bluesky(wiring: Wiring) -> AsyncIterator[BlueskySource]:
    """Open the network; its connections close with the block."""
    config, settings = wiring.config, wiring.config.bluesky
    slots = asyncio.Semaphore(settings.max_concurrent)

    def connect(base_url: str, reach: Reach = "any") -> HttpClient:
        # Only the AppView is a source by name; the servers of accounts come and go.
        name = "bluesky" if base_url == settings.base_url else ""
        return HttpClient(
            base_url,
            timeout_seconds=config.http.timeout_seconds,
            max_retries=settings.max_retries,
            retry_backoff_seconds=settings.retry_backoff_ms / 1000,
            ca_file=config.http.ca_file,
            proxy=config.http.proxy,
            reach=reach,
            max_concurrency=settings.max_concurrent,
            slots=slots,
            rate_limit_rps=config.sync.rate_limit_rps,
            clock=wiring.clock,
            on_request=wiring.on_request,
            transport=wiring.transport,
            name=name,
            paused_until=wiring.paused_until(name) if name else None,
            on_pause=partial(wiring.keep_pause, name) if name else None,
        )

    local = is_loopback(settings.base_url) or is_loopback(settings.plc_url)
    origins = Origins(partial(connect, reach="public_or_local" if local else "public"), local=local)
    try:
        async with connect(settings.base_url) as appview, connect(settings.plc_url) as plc:
            yield BlueskySource(appview, plc, origins)
    finally:
        await origins.close()
