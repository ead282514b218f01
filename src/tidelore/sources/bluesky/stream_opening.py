"""Opening the event stream. Owns how the configuration becomes connections; apart from the lists, which need none."""

from __future__ import annotations

from collections.abc import Sequence

from tidelore.sources.bluesky.socket import SocketOptions
from tidelore.sources.bluesky.stream import COLLECTIONS, Jetstream
from tidelore.sources.bluesky.stream_address import stream_url
from tidelore.sources.bluesky.stream_events import StreamCursor
from tidelore.sources.bluesky.stream_shard import ShardPlan
from tidelore.sources.registry import Wiring


def build_stream(wiring: Wiring, dids: Sequence[str], cursor: StreamCursor | None) -> Jetstream:
    """Return the event stream for these accounts, not yet open."""
    config, settings = wiring.config, wiring.config.bluesky
    plan = ShardPlan(
        stream_url(settings.jetstream_url),
        COLLECTIONS,
        SocketOptions(config.http.timeout_seconds, config.http.ca_file, config.http.proxy),
        backoff_seconds=settings.retry_backoff_ms / 1000,
        patience=settings.max_retries,
    )
    return Jetstream(plan, dids, cursor=cursor, clock=wiring.clock)
