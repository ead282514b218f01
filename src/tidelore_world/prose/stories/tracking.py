"""Decision stories of container tracking: positions, estimated arrivals, and the map.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

TRACKING: tuple[Story, ...] = (
    Story(
        slug="tracking-eta-smoothing",
        component="tracking",
        labels=("tracking", "eta", "product"),
        titles=(
            "ETA jumps back and forth for vessels waiting at anchor",
            "Estimated arrival for {port} flips between two values every few minutes",
            "Customers lose trust in the ETA: {small} changes within one hour",
        ),
        changes=(
            "Publish an ETA only when it moves by more than its own error",
            "tracking: hysteresis for published ETAs",
            "Suppress ETA updates within the error band",
        ),
        problems=(
            (
                "A vessel at anchor off {port} gets a new ETA with each position report. {customer} "
                "counted {small} changes within one hour, all within twenty minutes of each other."
            ),
            (
                "The model is honest and the display is not: an estimate with an error of forty minutes "
                "is shown to the minute and notified at each change."
            ),
            (
                "Our ETA notifications for {port} have an open rate of {pct} % now. Support says that "
                "customers have muted them."
            ),
        ),
        options=(
            Option(
                "a moving average over six reports",
                "easy to explain",
                "reacts late when a vessel really leaves the anchorage",
            ),
            Option(
                "a dead band as wide as the model's own error",
                "quiet when nothing is known, immediate when something changes",
                "needs the error to be calibrated for each port",
            ),
            Option(
                "a change at most every thirty minutes",
                "a fixed and simple promise",
                "hides a real change for half an hour",
            ),
        ),
        chosen=1,
        objection=(
            "The error band of the model is a number nobody has checked since {version}. If it is too "
            "wide, we go silent when it matters."
        ),
        answer=(
            "I compared it with {big} arrivals: the true arrival lies inside the 80 % band in 78.6 % of "
            "cases, and the worst port is at 71 %."
        ),
        question="Does the API show the raw estimate as well?",
        reply=(
            "Yes, `eta.raw` keeps moving for those who want it; notifications and the console read `eta.published`."
        ),
        measure=(
            "Simulated on last month's traffic: {pct} % fewer notifications, and the first warning of a "
            "delay over two hours came four minutes earlier."
        ),
        decision=(
            "publish a new ETA only when it leaves the model's 80 % error band, and expose the raw estimate in the API"
        ),
        reason="the band is the only threshold that adapts to what we really know about a port",
        spots=(
            Spot("services/tracking/internal/eta/publish.go", 57, 118),
            Spot("services/tracking/internal/eta/band.go", 12, 49),
            Spot("models/eta/calibration.py", 88, 140),
        ),
    ),
    Story(
        slug="tracking-position-storage",
        component="tracking",
        labels=("tracking", "database", "cost"),
        titles=(
            "Position history grows by {gb} GB a month and nobody reads it",
            "Thin out old AIS positions in {region}",
            "Storage of vessel positions is our largest cost in {region}",
        ),
        changes=(
            "Thin position history by track simplification",
            "tracking: simplify tracks older than a week",
            "Store simplified tracks after seven days",
        ),
        problems=(
            (
                "We store every AIS report we receive, about {big} for each vessel a year. On the map "
                "nobody can tell a tenth of them apart."
            ),
            (
                "The map needs {slow} ms to load a voyage of six weeks because it fetches each point and "
                "then draws one pixel for forty of them."
            ),
            (
                "Positions cost more than all other tables together in {region}, and {pct} % of them are "
                "from vessels that do not move at all."
            ),
        ),
        options=(
            Option(
                "one point for every ten minutes",
                "trivial to do in SQL",
                "cuts corners in narrow channels, where the track matters most",
            ),
            Option(
                "Douglas-Peucker with a tolerance of 50 m",
                "keeps each turn, and drops vessels at anchor to two points",
                "has to run on whole voyages, not on single rows",
            ),
            Option(
                "colder storage for everything",
                "loses nothing",
                "the map stays slow",
            ),
        ),
        chosen=1,
        objection=(
            "The claims team uses raw positions as evidence. We cannot throw away a point that a lawyer "
            "asks for two years later."
        ),
        answer=(
            "The raw reports stay in the object store, compressed by voyage, at 3 % of the cost. Only "
            "the database is thinned."
        ),
        question="Is 50 m fine enough for the terminal view in {port}?",
        reply="Inside a port polygon the tolerance is 5 m; that adds less than one percent of points.",
        measure=("For {big} voyages: {gb} GB down to a twentieth, and the voyage map from {slow} ms to {fast} ms."),
        decision=(
            "simplify tracks older than seven days with a tolerance of 50 m (5 m inside ports) and keep "
            "raw reports in the object store"
        ),
        reason="it removes what no reader can see and keeps what a court could ask for",
        spots=(
            Spot("services/tracking/internal/track/simplify.go", 33, 120),
            Spot("services/tracking/cmd/thin/main.go", 22, 71),
            Spot("apps/console/src/map/voyageLayer.ts", 140, 188),
        ),
    ),
    Story(
        slug="tracking-geofence-flapping",
        component="tracking",
        labels=("tracking", "geofence", "bug"),
        titles=(
            "Trucks at the fence of {port} enter and leave {small} times within a minute",
            "Geofence events flap at terminal boundaries",
            "Duplicate arrival notifications at {port}",
        ),
        changes=(
            "Add an inner and an outer boundary to geofences",
            "tracking: hysteresis ring for geofences",
            "Require the outer ring before a leave event",
        ),
        problems=(
            (
                "A truck that queues along the fence of {port} produces {small} arrivals in a minute. "
                "Each one starts a free-time clock and sends a message."
            ),
            (
                "GPS noise near cranes is about 30 m and our fences are exact polygons. {customer} "
                "turned arrival messages off."
            ),
            "{pct} % of the geofence events in {region} are undone within sixty seconds.",
        ),
        options=(
            Option(
                "a timer of two minutes before an event counts",
                "no geometry to change",
                "delays each honest arrival by two minutes",
            ),
            Option(
                "an inner ring for entering and an outer ring for leaving",
                "no delay for a truck that really drives in",
                "two polygons for each site",
            ),
            Option(
                "a vote over five positions",
                "works without new polygons",
                "parked trucks report once in ten minutes, so five take an hour",
            ),
        ),
        chosen=1,
        objection="We have {small},000 hand-drawn fences. Nobody is going to draw each of them a second time.",
        answer=(
            "The outer ring is the polygon buffered by the measured noise of the site, computed once. "
            "Nobody draws anything."
        ),
        question="What about sites that are smaller than the buffer, such as a single ramp?",
        reply=(
            "The buffer is capped at half the width of the polygon; for {small} tiny sites that means 8 "
            "m, and they still improve."
        ),
        measure=(
            "Replay of {days} days: flapping events down from {pct} % to 0.6 %, honest arrivals not one second later."
        ),
        decision=(
            "enter a site at its inner ring and leave it at an outer ring that is buffered by the site's "
            "measured GPS noise"
        ),
        reason="space tells noise from movement without making anybody wait",
        spots=(
            Spot("services/tracking/internal/geofence/ring.go", 22, 86),
            Spot("services/tracking/internal/geofence/events.go", 101, 150),
            Spot("services/tracking/migrations/0033_outer_ring.sql", 1, 18),
        ),
    ),
    Story(
        slug="tracking-carrier-polling",
        component="tracking",
        labels=("tracking", "integration", "performance"),
        titles=(
            "Polling {carrier} for every container exceeds their rate limit",
            "{carrier} answers 429 for {pct} % of our tracking calls",
            "Poll schedule for carrier tracking ignores where a container is",
        ),
        changes=(
            "Poll containers by expected next event",
            "tracking: adaptive poll schedule for carrier APIs",
            "Replace the fixed poll interval by a due queue",
        ),
        problems=(
            (
                "We ask {carrier} for each of {big} containers every 30 minutes, whether it is in the "
                "middle of the ocean or at the gate. They have started to answer 429."
            ),
            (
                "{customer} sees a discharge in {port} up to 30 minutes late, although we call {carrier} "
                "around the clock."
            ),
            ("A container at sea has no news for days. A container in port has news each hour. We poll both alike."),
        ),
        options=(
            Option(
                "a bigger quota from the carrier",
                "no code at all",
                "{carrier} quoted a price that is higher than the margin on the product",
            ),
            Option(
                "a due queue ordered by the expected next event",
                "calls go where news is likely",
                "depends on an ETA that may be wrong",
            ),
            Option(
                "push messages from the carrier",
                "ideal for both sides",
                "{carrier} plans them for next year, others never",
            ),
        ),
        chosen=1,
        objection=(
            "If the ETA is wrong by a day, we would find out a day later than now. That is the kind of "
            "surprise customers remember."
        ),
        answer=(
            "Nothing waits longer than six hours, whatever the ETA says, and a vessel that slows down on "
            "AIS moves its containers forward in the queue."
        ),
        question="How do we divide a small quota among customers fairly?",
        reply=(
            "By the share of containers that are due, with a floor for each customer, so that one with "
            "{big} boxes cannot starve the rest."
        ),
        measure=(
            "Simulated with last month's events: {pct} % fewer calls, and the median delay of a "
            "discharge event from 17 to 6 minutes."
        ),
        decision="poll by a due queue ordered by the expected next event, with six hours as the longest wait",
        reason="the quota is fixed, so the only thing left to choose is where to spend it",
        spots=(
            Spot("services/tracking/internal/poll/queue.go", 35, 128),
            Spot("services/tracking/internal/poll/due.go", 12, 70),
            Spot("services/tracking/internal/carrier/quota.go", 44, 90),
        ),
    ),
)
