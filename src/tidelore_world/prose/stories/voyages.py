"""Decision stories of voyages: live positions, and which vessel is which.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

VOYAGES: tuple[Story, ...] = (
    Story(
        slug="tracking-live-updates",
        component="tracking",
        labels=("tracking", "console", "frontend"),
        titles=(
            "Map polls every five seconds and the API feels it",
            "Live positions: polling, SSE or WebSocket?",
            "{pct} % of our API traffic in {region} is the map asking for nothing new",
        ),
        changes=(
            "Stream live positions over server-sent events",
            "tracking: SSE endpoint for position updates",
            "Replace map polling by an event stream",
        ),
        problems=(
            (
                "Each open map asks every five seconds. At nine in the morning that is {big} requests a "
                "minute, and {pct} % of the answers are empty."
            ),
            (
                "{customer} leaves the map open on {small} wall screens. Each of them costs as much as "
                "forty ordinary users."
            ),
            (
                "After a deploy all maps reconnect within the same five seconds and the gateway in "
                "{region} goes to {slow} ms."
            ),
        ),
        options=(
            Option(
                "server-sent events",
                "plain HTTP, resumes with Last-Event-ID, passes each proxy we know",
                "one direction only",
            ),
            Option(
                "WebSockets",
                "both directions",
                "two customers have proxies that cut them after 60 s",
            ),
            Option(
                "polling with an ETag",
                "smallest change",
                "the requests remain, only their bodies shrink",
            ),
        ),
        chosen=0,
        objection=(
            "Browsers allow six connections to a host under HTTP/1.1. Somebody with seven tabs will call it an outage."
        ),
        answer=(
            "The gateway speaks HTTP/2 to all but {pct} % of clients, and tabs share one stream through "
            "a broadcast channel."
        ),
        question="How does a client catch up after a night with the lid closed?",
        reply=("If its last event id is older than an hour it gets a snapshot first; otherwise the missed events."),
        measure=(
            "In a load test with {big} open maps: CPU of the API down to a third, time to screen {fast} ms at p95."
        ),
        decision=(
            "stream positions over server-sent events with resume by Last-Event-ID, and keep polling "
            "only as the fallback"
        ),
        reason="it needs no new protocol at the customer's proxy and resumes for free",
        spots=(
            Spot("services/tracking/internal/stream/sse.go", 25, 110),
            Spot("apps/console/src/map/positionStream.ts", 18, 96),
            Spot("services/gateway/internal/proxy/flush.go", 40, 71),
        ),
        code=(
            "```ts\n"
            "const source = new EventSource(`/v2/positions/stream?area=${{area}}`);\n"
            "source.onmessage = (e) => store.apply(JSON.parse(e.data));\n"
            "```"
        ),
    ),
    Story(
        slug="tracking-vessel-matching",
        component="tracking",
        labels=("tracking", "data-quality", "integration"),
        titles=(
            "Two vessels named alike are merged into one",
            "Vessel matching by name breaks for {carrier}",
            "Wrong vessel on the map for bookings via {port}",
        ),
        changes=(
            "Match vessels by IMO number with a reviewed alias list",
            "tracking: refuse name-only vessel matches",
            "Introduce vessel identities keyed by IMO number",
        ),
        problems=(
            (
                "{carrier} sends the vessel's name only. We match by name, and there are two vessels of "
                "that name; containers of {customer} sailed to {port} on the map and to the other side "
                "of the world in fact."
            ),
            ("Names change with the charter. {pct} % of the vessels in our data had another name {days} months ago."),
            ("Support corrected {small} matches by hand this month, and the next import undid each of them."),
        ),
        options=(
            Option(
                "fuzzy matching with a score",
                "needs no new data",
                "a wrong match looks exactly like a right one",
            ),
            Option(
                "the IMO number, and an alias list for senders without it",
                "exact, and a correction stays corrected",
                "somebody has to review new aliases",
            ),
            Option(
                "the AIS identity",
                "comes with each position",
                "changes with the flag, and is spoofed in some regions",
            ),
        ),
        chosen=1,
        objection=(
            "An alias list is a second job for somebody. Last time the list was {days} weeks behind within a quarter."
        ),
        answer=(
            "It grows by about {small} names a week, the schedule and the port narrow each to one "
            "candidate, and the review is a click in the console."
        ),
        question="What is shown while an alias waits for its review?",
        reply="The port calls without a position. No dot is better than a wrong dot.",
        measure="Of {big} bookings, 97.2 % carry an IMO number or a reviewed alias after the first week.",
        decision=(
            "identify vessels by IMO number, accept names only through reviewed aliases, and show no "
            "position without a match"
        ),
        reason="a wrong position costs more trust than a missing one",
        spots=(
            Spot("services/tracking/internal/vessel/identity.go", 18, 95),
            Spot("services/tracking/internal/vessel/alias.go", 30, 77),
        ),
    ),
)
