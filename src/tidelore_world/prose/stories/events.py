"""Decision stories of the event bus: schemas, consumers, replays, and the warehouse behind it.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

EVENTS: tuple[Story, ...] = (
    Story(
        slug="events-schema-evolution",
        component="events",
        labels=("events", "data", "api"),
        titles=(
            "A new event field crashed {small} consumers",
            "Rules for changing event schemas",
            "{inc}: an enum value that nobody knew",
        ),
        changes=(
            "Check event schemas for compatibility in CI",
            "events: registry with compatibility rules",
            "Refuse breaking event schemas",
        ),
        problems=(
            (
                "We added a container state, and {small} consumers crashed on a value that they did not "
                "know. The replay took {small} hours."
            ),
            (
                "Each producer has its own idea of an optional field. {pct} % of the fields in the "
                "warehouse are null for reasons that nobody remembers."
            ),
            ("A renamed field was deployed before its consumers. {region} lost {big} updates until the afternoon."),
        ),
        options=(
            Option(
                "an agreement in the handbook",
                "no tooling",
                "it is there, and {inc} happened",
            ),
            Option(
                "a schema registry with a check in CI",
                "a breaking change cannot be merged",
                "enums need an unknown value everywhere",
            ),
            Option(
                "a new topic for each change",
                "never breaks anybody",
                "{small}0 topics a year, and nobody knows which is current",
            ),
        ),
        chosen=1,
        objection=(
            'The check will stop harmless changes, too. Widening a number is fine for us and "breaking" for the tool.'
        ),
        answer=(
            "The rules are ours: widening is allowed, and an exception is a file in the repository that "
            "names the consumers who agreed."
        ),
        question="How do consumers treat unknown enum values?",
        reply="As `UNKNOWN` with the raw text kept. The generated code does so, and a test injects one.",
        measure=(
            "Ran it over the history: {small} of the last {small}2 schema incidents would have been refused at merge."
        ),
        decision=(
            "keep event schemas in a registry, refuse breaking changes in CI, and require an unknown "
            "value in every enum"
        ),
        reason="producers cannot know their consumers, so a program has to",
        spots=(
            Spot("libs/schema/check.py", 24, 119),
            Spot("schemas/container/state.avsc", 1, 48),
        ),
    ),
    Story(
        slug="events-poison-messages",
        component="events",
        labels=("events", "reliability"),
        titles=(
            "One bad message stops a partition for {small} hours",
            "What should a consumer do with a message that it cannot process?",
            "Consumer lag in {region} grows because of a single event",
        ),
        changes=(
            "Park bad messages with their key",
            "events: parking lot by key with replay",
            "Keep order while parking poison messages",
        ),
        problems=(
            (
                "A message without a port code crashed the consumer, which restarted and read it again, "
                "for {small} hours. {big} events waited behind it."
            ),
            "Skipping it by hand means moving an offset in production. On {inc} it was moved too far.",
            ("Some teams drop bad messages, some stop, some retry for ever. {customer} saw all three in one week."),
        ),
        options=(
            Option(
                "drop and log",
                "never stops",
                "data is lost without anybody deciding so",
            ),
            Option(
                "a parking lot for the message and all later ones of its key",
                "the rest flows, the order for a key stays",
                "a container is behind until somebody acts",
            ),
            Option(
                "stop and page",
                "nothing is lost",
                "one container stops {big}",
            ),
        ),
        chosen=1,
        objection="Parking a key silently is data loss with extra steps, unless somebody looks each day.",
        answer=(
            "A parked key is a ticket with an owner after ten minutes, and the screens show the container as delayed."
        ),
        question="How is a parked key replayed?",
        reply=("One command, in order, after the fix is deployed. It refuses if the first message fails again."),
        measure="In the replay of {inc}: lag at most {small} s, {small} keys parked, all replayed in 40 s.",
        decision=(
            "park a failing message together with the later ones of its key, open a ticket, and replay them in order"
        ),
        reason="order matters within a container, and a container must not stop the others",
        spots=(
            Spot("libs/go/consumer/park.go", 28, 120),
            Spot("libs/py/harborline_events/park.py", 20, 96),
        ),
    ),
    Story(
        slug="events-outbox",
        component="events",
        labels=("events", "reliability", "database"),
        titles=(
            "Events are published for transactions that roll back",
            "Outbox or change data capture?",
            "{big} bookings without an event in {region}",
        ),
        changes=(
            "Publish events through a transactional outbox",
            "events: outbox table with a relay",
            "Write events in the same transaction",
        ),
        problems=(
            (
                "We publish after the commit. If the process dies between the two, the event is missing; "
                "we found {big} bookings without one in {region}."
            ),
            ("Some services publish before the commit. {customer} was notified about a booking that never existed."),
            ("The nightly repair job resends what it believes to be missing. {pct} % of what it sends are repeats."),
        ),
        options=(
            Option(
                "change data capture from the log",
                "no code in the services",
                "events look like tables, and each migration is a breaking change",
            ),
            Option(
                "an outbox table in the same transaction",
                "exactly what the service means to say, when it commits",
                "a relay, and at-least-once delivery",
            ),
            Option(
                "two-phase commit",
                "correct in the textbook",
                "our broker does not support it",
            ),
        ),
        chosen=1,
        objection="The outbox doubles the writes of the busiest tables. The ledger does not have that room.",
        answer=(
            "The ledger is its own outbox, since it is append-only with positions. For the others it is "
            "one narrow row, deleted after a day."
        ),
        question="How do consumers deal with repeats?",
        reply=(
            "Each event has an id from the outbox row, and the consumer library remembers the last "
            "{small},000 for each key."
        ),
        measure=(
            "Overhead 0.3 ms for a commit; the relay publishes {big} events a minute, p95 {fast} ms after the commit."
        ),
        decision=("write events to an outbox in the same transaction and publish them with a relay, at least once"),
        reason="only the database knows what was committed, so it has to hold the message as well",
        spots=(
            Spot("libs/go/outbox/outbox.go", 15, 88),
            Spot("libs/go/outbox/relay.go", 22, 134),
        ),
        code=(
            "```go\n"
            "err := db.InTx(ctx, func(tx pgx.Tx) error {{\n"
            "    if err := bookings.Insert(ctx, tx, b); err != nil {{ return err }}\n"
            '    return outbox.Add(ctx, tx, "booking.created", b.ID, b)\n'
            "}})\n"
            "```"
        ),
    ),
    Story(
        slug="events-replay-window",
        component="events",
        labels=("events", "cost", "operations"),
        titles=(
            "How long do we keep events on the bus?",
            "Replay needs events that the broker has already deleted",
            "Broker disks in {region} are at {pct} % because of retention",
        ),
        changes=(
            "Keep a week on the broker and replay the rest from storage",
            "events: tiered retention",
            "Replay from the object store",
        ),
        problems=(
            (
                "A consumer bug from {days} days ago needs a replay, and the broker keeps seven. We "
                "rebuilt the state from database dumps."
            ),
            (
                "Somebody raised the retention to be safe, and the broker in {region} has {gb} GB of "
                "which nobody reads a byte."
            ),
            "A new consumer needs a year of history to start. Today that is a script for each topic.",
        ),
        options=(
            Option(
                "a year on the broker",
                "one place",
                "{gb}0 GB of fast disks",
            ),
            Option(
                "seven days on the broker, everything in the object store, one reader for both",
                "cheap, and replays of any age",
                "old events come slower",
            ),
            Option(
                "no replays, only snapshots",
                "small",
                "a snapshot contains the bug, too",
            ),
        ),
        chosen=1,
        objection="Two sources will differ at the seam, and a replay across it will lose or repeat events.",
        answer=(
            "The reader switches by offset, and the archive is written by offset. The test replays "
            "across the seam and compares the hashes."
        ),
        question="How fast is a replay from the store?",
        reply="About {big} events a second with eight readers. A year of {port} takes {small} minutes.",
        measure=(
            "Cost of retention in {region} falls by {pct} %; the seam test ran {small}00 times without a difference."
        ),
        decision=(
            "keep seven days on the broker and everything in the object store, with one reader that switches by offset"
        ),
        reason="replays are rare and old, and fast disks are for what is read today",
        spots=(
            Spot("libs/go/replay/reader.go", 30, 127),
            Spot("services/archiver/cmd/archiver/main.go", 24, 90),
        ),
    ),
    Story(
        slug="events-warehouse-latency",
        component="events",
        labels=("events", "data", "product"),
        titles=(
            "Reports are a day old",
            "Warehouse loads: nightly batch or streaming?",
            "{customer} wants the dwell-time report by the hour",
        ),
        changes=(
            "Load the warehouse in small batches every ten minutes",
            "events: micro-batches into the warehouse",
            "Replace the nightly warehouse load",
        ),
        problems=(
            (
                "The report of {customer} shows yesterday. They decide about trucks at six in the "
                "morning, with numbers from before midnight."
            ),
            (
                "The nightly load takes {small} hours and fails once a week. Then the report shows the "
                "day before yesterday."
            ),
            (
                "Analysts query the production replica, because the warehouse is too old. The replica in "
                "{region} was {slow} s behind because of them."
            ),
        ),
        options=(
            Option(
                "streaming into the warehouse",
                "seconds old",
                "the vendor bills each insert, about four times the price",
            ),
            Option(
                "micro-batches every ten minutes",
                "fresh enough for all reports we know, same price",
                "late events need a merge",
            ),
            Option(
                "an hourly batch of the present kind",
                "little work",
                "the load takes {small} hours",
            ),
        ),
        chosen=1,
        objection="Ten minutes is a number without a customer behind it. Why not one, or sixty?",
        answer=(
            "Asked {small} customers: the most urgent decision is made every half an hour. Ten minutes "
            "leaves room for one failed load."
        ),
        question="How are events treated that arrive after their batch?",
        reply=("By event id and day partition: the merge touches three days, and older ones go into a nightly pass."),
        measure="A load takes {small} s for {big} events; the report is eleven minutes old at worst.",
        decision="load the warehouse in micro-batches every ten minutes and merge late events by id",
        reason="no decision we know of needs fresher data, and none can wait for a day",
        spots=(
            Spot("pipelines/warehouse/load.py", 33, 128),
            Spot("pipelines/warehouse/merge.sql", 1, 46),
        ),
    ),
)
