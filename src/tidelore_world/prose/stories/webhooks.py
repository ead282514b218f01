"""Decision stories of webhooks: delivery, order, signatures, and endpoints that are down for days.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

WEBHOOKS: tuple[Story, ...] = (
    Story(
        slug="webhooks-ordering",
        component="webhooks",
        labels=("webhooks", "api", "reliability"),
        titles=(
            "Webhooks arrive out of order",
            "Do we promise an order for webhook deliveries?",
            "{customer} sees a container released before it is held",
        ),
        changes=(
            "Deliver webhooks in order for each container",
            "webhooks: ordered delivery by subject key",
            "Serialise deliveries with the same subject",
        ),
        problems=(
            (
                "A failed delivery is retried later, and the next event overtakes it. {customer} stored "
                '"released" and then "held", and a truck was turned away.'
            ),
            ("Our documentation says nothing about order. {small} customers assume it, and two have built on it."),
            (
                "During {inc} a queue of {big} retries was delivered in random order. Some customers "
                "needed days to repair their state."
            ),
        ),
        options=(
            Option(
                "no order, and a sequence number in the payload",
                "fastest for us",
                "each customer has to build a buffer",
            ),
            Option(
                "order for each container",
                "what customers mean when they say order",
                "one bad event blocks its container",
            ),
            Option(
                "total order for an endpoint",
                "simple to explain",
                "one slow container stops all the others",
            ),
        ),
        chosen=1,
        objection=(
            "A poisoned event will block a container for ever. We have had payloads that crash the receiver each time."
        ),
        answer=(
            "After 24 hours the blocked container is parked, the customer is told, and its events wait "
            "for a replay. The others flow."
        ),
        question="Does that limit the throughput of big customers?",
        reply=(
            "They have the most containers, so they have the most parallelism. The largest one keeps {big} keys busy."
        ),
        measure=("Replay of {inc}: no overtaking, throughput at 94 % of the old dispatcher with the same workers."),
        decision=("deliver webhooks in order for each container and park a container whose event fails for 24 hours"),
        reason="events of one container contradict each other when they are swapped, and others do not",
        spots=(
            Spot("services/webhooks/internal/dispatch/lanes.go", 30, 140),
            Spot("services/webhooks/internal/dispatch/park.go", 15, 72),
            Spot("docs/api/webhooks.md", 40, 88),
        ),
    ),
    Story(
        slug="webhooks-signatures",
        component="webhooks",
        labels=("webhooks", "security", "api"),
        titles=(
            "Webhook signature does not cover the timestamp",
            "Replay of a captured webhook is accepted",
            "Rotate webhook secrets without downtime for {customer}",
        ),
        changes=(
            "Sign timestamp and body, and accept two secrets",
            "webhooks: v2 signature with overlap during rotation",
            "Add a timestamped signature header",
        ),
        problems=(
            (
                "We sign the body only. {whose} security team captured a delivery and replayed it {days} "
                "days later; it was valid."
            ),
            (
                "Rotating a secret means that deliveries fail until both sides have changed it. "
                "{customer} needs a maintenance window for that."
            ),
            (
                "{small} customers verify nothing at all, because our example in the documentation is "
                "wrong since {version}."
            ),
        ),
        options=(
            Option(
                "mutual TLS",
                "strong, no header",
                "half of the customers are behind a load balancer that ends it",
            ),
            Option(
                "an HMAC over timestamp and body, with two valid secrets",
                "easy to verify in ten lines",
                "clocks have to agree within five minutes",
            ),
            Option(
                "signed tokens with public keys",
                "no shared secret",
                "libraries differ, and so do their bugs",
            ),
        ),
        chosen=1,
        objection="If we change the signature, everybody who verifies today breaks on the day we switch.",
        answer=(
            "Both headers are sent for two quarters. The old one goes away for an endpoint when its "
            "owner says so, or at the end."
        ),
        question="Is five minutes enough for retries?",
        reply=("A retry is signed anew, so its timestamp is fresh. Only the transport has to be within five minutes."),
        measure=("Signing costs 9 µs for 4 KB; of {big} deliveries none was more than 40 s away from our clock."),
        decision=(
            "sign timestamp and body with HMAC, send it next to the old header, and accept two secrets during rotation"
        ),
        reason="replay and rotation are solved by one header that every language can verify",
        spots=(
            Spot("services/webhooks/internal/sign/v2.go", 12, 74),
            Spot("services/webhooks/internal/sign/secrets.go", 20, 66),
            Spot("docs/api/webhooks.md", 120, 171),
        ),
        code=('```go\nmac := hmac.New(sha256.New, secret)\nfmt.Fprintf(mac, "%d.", at.Unix())\nmac.Write(body)\n```'),
    ),
    Story(
        slug="webhooks-retry-budget",
        component="webhooks",
        labels=("webhooks", "reliability", "performance"),
        titles=(
            "One dead endpoint delays webhooks for everybody",
            "Retry storm after {whose} endpoint comes back",
            "Webhook delay in {region} is {slow} s because of {small} dead endpoints",
        ),
        changes=(
            "Give every endpoint its own retry budget",
            "webhooks: circuit breaker for each endpoint",
            "Isolate slow endpoints",
        ),
        problems=(
            (
                "The endpoint of {customer} was down for a night. {big} retries shared the workers with "
                "everybody else, and the delay in {region} rose to {slow} s."
            ),
            "When it came back, we delivered the whole backlog at once and took it down again.",
            "{pct} % of our delivery attempts go to endpoints that have not answered for a week.",
        ),
        options=(
            Option(
                "more workers",
                "buys time",
                "dead endpoints scale as well as we do",
            ),
            Option(
                "a breaker and a retry budget for each endpoint",
                "a dead one costs one probe a minute",
                "more state to keep",
            ),
            Option(
                "a queue for each endpoint",
                "perfect isolation",
                "{big} queues, most of them empty",
            ),
        ),
        chosen=1,
        objection=(
            "A breaker that opens wrongly delays a healthy customer. Their first deploy of the day would trigger it."
        ),
        answer=(
            "It opens after 20 failures in a row over at least two minutes. A deploy is shorter, and a "
            "single success closes it."
        ),
        question="How fast do we drain a backlog?",
        reply="At twice the endpoint's usual rate, never at ours.",
        measure=(
            "In a replay of that night: p95 for the others {fast} ms and not {slow} s, the backlog "
            "drained within {small} minutes."
        ),
        decision=(
            "give each endpoint a circuit breaker and a retry budget, and drain backlogs at twice its usual rate"
        ),
        reason="a customer's outage must cost that customer time and nobody else",
        spots=(
            Spot("services/webhooks/internal/dispatch/breaker.go", 22, 117),
            Spot("services/webhooks/internal/dispatch/budget.go", 18, 80),
        ),
    ),
    Story(
        slug="webhooks-payload-size",
        component="webhooks",
        labels=("webhooks", "api", "performance"),
        titles=(
            "Webhook payloads grow beyond {small} MB",
            "Full object or reference in a webhook?",
            "{whose} gateway rejects large webhooks",
        ),
        changes=(
            "Send thin events with a link to the resource",
            "webhooks: payloads below 16 KB",
            "Introduce thin webhook events",
        ),
        problems=(
            (
                "A booking with {small}00 containers makes a webhook of several megabytes. {whose} "
                "gateway refuses everything above one."
            ),
            (
                "The payload is rendered when the event is sent. A retry an hour later carries another "
                "state than the first attempt."
            ),
            ("Traffic for webhooks in {region} is {gb} GB a day, and {pct} % of it are fields that nobody reads."),
        ),
        options=(
            Option(
                "compression",
                "the same contract",
                "some receivers cannot read it, and the limit is only moved",
            ),
            Option(
                "a thin event with a link and a version",
                "small, and the receiver always reads a state it can name",
                "one more request for the receiver",
            ),
            Option(
                "a choice of fields for each subscription",
                "elegant",
                "{small} new ways to misconfigure it",
            ),
        ),
        chosen=1,
        objection=(
            "Thin events turn one push into a push and a pull. Customers chose webhooks in order not to poll us."
        ),
        answer=(
            "What changed is in the event, only the rest is behind the link. In the trial two of three "
            "receivers never followed it."
        ),
        question="Do we switch the existing subscriptions?",
        reply="No. A subscription keeps its format until its owner changes it; new ones are thin.",
        measure="Median payload from 38 KB to 1.9 KB; reads of the link add {pct} % of that traffic back.",
        decision=(
            "send thin events with what changed, a link and a version, and leave existing subscriptions as they are"
        ),
        reason="a small event is always deliverable, and a version says which state is meant",
        spots=(
            Spot("services/webhooks/internal/render/thin.go", 14, 81),
            Spot("api/webhooks/v3/event.proto", 10, 52),
        ),
    ),
    Story(
        slug="webhooks-delivery-log",
        component="webhooks",
        labels=("webhooks", "product", "console"),
        titles=(
            "Customers cannot see why a webhook failed",
            "Delivery log for webhooks",
            "{small} support tickets a week ask whether a webhook was sent",
        ),
        changes=(
            "Show a searchable delivery log with replay",
            "webhooks: keep attempts for 30 days",
            "Record each delivery attempt",
        ),
        problems=(
            (
                "{customer} asks whether we sent an event. We look into three log systems and answer "
                "after {small} hours."
            ),
            (
                "A failed delivery leaves a status code in our logs and nothing else. The body that the "
                "receiver answered would explain it."
            ),
            "Replays are done by an engineer with a script. On {inc} that was {big} events.",
        ),
        options=(
            Option(
                "an export of our logs",
                "no new screen",
                "logs are not written for customers",
            ),
            Option(
                "attempts stored for 30 days, with search and replay in the console",
                "customers help themselves",
                "{gb} GB in {region}",
            ),
            Option(
                "a daily mail with failures",
                "simple",
                "a day late, and no replay",
            ),
        ),
        chosen=1,
        objection="The answer body of a receiver may hold their secrets. I do not want to store it.",
        answer=("The first 2 KB are stored, encrypted, visible to that customer only, and they can switch it off."),
        question="May a customer replay everything?",
        reply="Up to 1,000 events in an hour; more through us, so that we can watch their endpoint.",
        measure=(
            "In the trial with {small} customers: tickets about deliveries down by {pct} %, search at {fast} ms p95."
        ),
        decision="keep every delivery attempt for 30 days and give customers search and replay in the console",
        reason="they can see their endpoint and our attempt side by side, and we cannot",
        spots=(
            Spot("services/webhooks/internal/attempts/store.go", 25, 98),
            Spot("apps/console/src/webhooks/DeliveryLog.tsx", 36, 150),
        ),
    ),
)
