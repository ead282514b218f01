"""Decision stories of the event ledger, the append-only record of what happened to every shipment.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

LEDGER: tuple[Story, ...] = (
    Story(
        slug="ledger-idempotency-keys",
        component="ledger",
        labels=("ledger", "backend", "reliability"),
        titles=(
            "Duplicate ledger entries when {carrier} retries a batch",
            "Retried batches are booked twice in the event ledger",
            "Ledger: idempotency window is shorter than the carrier's retry window",
        ),
        changes=(
            "Deduplicate ledger appends by a unique request key",
            "ledger: enforce idempotency keys in the database",
            "Reject repeated ledger appends at the index",
        ),
        problems=(
            (
                "{carrier} retries a whole batch when our acknowledgement takes longer than 30 s, and "
                "the second delivery is booked again. {customer} found {small} containers with two "
                "gate-out events each."
            ),
            (
                "We keep idempotency keys in Redis for 15 minutes. The retry queue of {carrier} runs for "
                "{days} days. Everything retried after the first quarter of an hour is a duplicate in "
                "the ledger."
            ),
            (
                "The nightly reconciliation for {port} reported {big} entries with equal payload and "
                "different ids. All of them are retries that arrived after the key had expired."
            ),
        ),
        options=(
            Option(
                "a longer TTL in Redis",
                "one line of configuration",
                "needs {gb} GB of memory and still loses keys on a failover",
            ),
            Option(
                "a unique index on (account_id, request_key)",
                "exact for as long as the row exists, and no second system to trust",
                "adds about 0.4 ms to each insert",
            ),
            Option(
                "a content hash compared at read time",
                "nothing changes on the write path",
                "every reader has to know about it, and two honest equal events collapse into one",
            ),
        ),
        chosen=1,
        objection=(
            "I am worried about the index on the hot partition: it is the table with the most inserts we "
            "have, and the last index we added there cost us a weekend."
        ),
        answer=(
            "The last one was on a random UUID. This key starts with the account, so the inserts land on "
            "a few warm pages; the replay of a full day shows no extra page splits."
        ),
        question="What happens to clients that do not send a request key at all?",
        reply=(
            "They get a derived key from the carrier, the message number and the container, which is "
            "what the parser already logs today."
        ),
        measure=(
            "Replayed one day of {region} traffic ({big} appends): p95 of an append went from 3.1 ms to "
            "3.5 ms, duplicates from {small} per thousand to zero."
        ),
        decision=("enforce the request key with a unique index on (account_id, request_key) and drop the Redis window"),
        reason=(
            "a guarantee that expires is not a guarantee, and the index costs less than the reconciliation it replaces"
        ),
        spots=(
            Spot("services/ledger/internal/append/dedupe.go", 84, 131),
            Spot("services/ledger/migrations/0047_request_key.sql", 1, 22),
            Spot("services/ledger/internal/append/handler.go", 40, 77),
        ),
        code=(
            "```go\n"
            "if _, err := tx.Exec(ctx, insertEntry, acc, key, payload); isUnique(err) {{\n"
            "    return s.existing(ctx, tx, acc, key) // same answer as the first time\n"
            "}}\n"
            "```"
        ),
    ),
    Story(
        slug="ledger-monthly-partitions",
        component="ledger",
        labels=("ledger", "database", "performance"),
        titles=(
            "Ledger queries for old shipments scan the whole table",
            "Retention job on the ledger blocks inserts for minutes",
            "Partition the ledger before it reaches {gb} GB in {region}",
        ),
        changes=(
            "Partition ledger entries by month",
            "ledger: monthly partitions and detach-based retention",
            "Move ledger_entries to declarative partitioning",
        ),
        problems=(
            (
                "The ledger in {region} is {gb} GB in one table. Deleting expired rows takes {small} "
                "hours, and vacuum never catches up with it."
            ),
            (
                "A query for one container over its lifetime takes {slow} ms at p95, because the planner "
                "has no way to skip the years that cannot match."
            ),
            (
                "Retention deleted {big} rows last night and the replicas in {region} lagged by {small} "
                "minutes. {customer} saw stale timelines for all of that time."
            ),
        ),
        options=(
            Option(
                "hash partitions by account",
                "even sizes, and every query names the account",
                "retention still has to delete row by row",
            ),
            Option(
                "range partitions by month",
                "retention becomes a detach, and old months can move to cheap disks",
                "a query without a time range has to touch every partition",
            ),
            Option(
                "no partitions, smaller delete batches",
                "no migration at all",
                "the table keeps its bloat and the job never ends",
            ),
        ),
        chosen=1,
        objection=(
            "The timeline screen asks without a time range. With {small}0 partitions the planning time "
            "alone will be higher than what we pay today."
        ),
        answer=(
            "The container row knows its first event, so the timeline can always pass a lower bound. "
            "With that bound the plan touches three partitions on average."
        ),
        question="Do we backfill in place or write to both tables for a while?",
        reply=(
            "Attach the present table as the oldest partition with a check constraint that was validated "
            "before; there is no copy at all."
        ),
        measure=(
            "On a restored copy: timeline p95 from {slow} ms to {fast} ms, retention from {small} hours "
            "to 80 ms for a detach."
        ),
        decision=(
            "partition the ledger by month, pass the first-event bound in every timeline query, and "
            "retire months by detaching them"
        ),
        reason="retention is the cost we pay every night, and only a range by time makes it free",
        spots=(
            Spot("services/ledger/migrations/0051_partitions.sql", 1, 64),
            Spot("services/ledger/internal/query/timeline.go", 112, 168),
            Spot("services/ledger/cmd/retention/main.go", 30, 95),
        ),
    ),
    Story(
        slug="ledger-corrections",
        component="ledger",
        labels=("ledger", "data-model", "api"),
        titles=(
            "How do we correct a wrong ledger entry?",
            "Wrong gate-in times from {port} cannot be corrected without an update",
            "Ledger corrections: update in place or append?",
        ),
        changes=(
            "Append correction entries instead of updating",
            "ledger: corrections reference the entry they replace",
            "Add supersedes_id to ledger entries",
        ),
        problems=(
            (
                "The terminal in {port} sent {big} events with local times marked as UTC. We have no "
                "agreed way to correct an entry, and support is asking for SQL access."
            ),
            (
                "Customers see an entry, we fix it with an update, and their export from yesterday no "
                "longer matches. {customer} has opened {small} tickets about exactly that."
            ),
            (
                "An auditor asked who changed the discharge time of a container and when. Today the "
                "answer is nowhere, because an update leaves no trace."
            ),
        ),
        options=(
            Option(
                "update in place with an audit table",
                "the read path does not change",
                "two sources of truth, and exports change in silence",
            ),
            Option(
                "a correction entry that names the entry it supersedes",
                "history stays true, and exports can be reproduced for any instant",
                "readers have to fold corrections",
            ),
            Option(
                "a tombstone and a new entry",
                "simple to write",
                "the pair is not atomic for a consumer that reads only one of them",
            ),
        ),
        chosen=1,
        objection=(
            "Every consumer of the stream has to learn about superseded entries. We counted {small} "
            "consumers, and two of them belong to customers."
        ),
        answer=(
            "The fold happens in the view that consumers already read; only the raw stream shows both "
            "entries, and its two readers asked for precisely that."
        ),
        question="Can a correction be corrected?",
        reply=(
            "Yes, the chain is followed to its end, and a cycle is refused at insert by comparing sequence numbers."
        ),
        measure=(
            "Folding costs {fast} µs for a timeline of 200 entries; {pct} % of all containers have at "
            "least one correction."
        ),
        decision="append a correction that names the entry it supersedes, and never update a ledger row",
        reason="an append-only ledger that is updated sometimes cannot be trusted at any time",
        spots=(
            Spot("services/ledger/internal/entry/correction.go", 18, 92),
            Spot("services/ledger/internal/query/fold.go", 25, 80),
            Spot("api/ledger/v2/entry.proto", 61, 88),
        ),
    ),
    Story(
        slug="ledger-sequence-gaps",
        component="ledger",
        labels=("ledger", "reliability", "api"),
        titles=(
            "Consumers cannot tell a gap in ledger sequence numbers from a lost entry",
            "Sequence gaps in {region} page the integrations team every week",
            "Gapless ledger sequence for export consumers",
        ),
        changes=(
            "Assign ledger positions in a single sequencer step",
            "ledger: gapless positions behind the commit",
            "Publish a gapless position next to the entry id",
        ),
        problems=(
            (
                "Entry ids come from a database sequence, and a rolled-back transaction leaves a hole. "
                "{customer} treats each hole as data loss and opens a ticket; there were {small} last "
                "week."
            ),
            (
                "An export consumer saw id 118 before id 117, stored 118 as its watermark, and never "
                "read 117. We have {small} confirmed cases in {region}."
            ),
            (
                "The order of ids is the order of allocation, not the order of commit. Everyone who "
                "pages by id misses entries that commit late."
            ),
        ),
        options=(
            Option(
                "a delay of five seconds on the export",
                "nothing changes in the schema",
                "a slow transaction of six seconds still loses an entry",
            ),
            Option(
                "a sequencer that numbers committed entries",
                "positions are gapless and in commit order",
                "one more process that has to be alive",
            ),
            Option(
                "a lock on the stream for each append",
                "correct by construction",
                "{slow} ms p95 for batches when {carrier} is busy",
            ),
        ),
        chosen=1,
        objection=(
            "A single sequencer is a single point of failure. When it stops, exports stop, and that is "
            "worse than a ticket about a hole."
        ),
        answer=(
            "When it stops, exports pause and nothing is lost; a standby takes over within {small} "
            "seconds through the advisory lock. A hole that is read past is lost for good."
        ),
        question="Do internal readers have to move to positions as well?",
        reply=(
            "Only those that keep a watermark. Screens that read by container do not care about order "
            "across containers."
        ),
        measure=("One sequencer numbers {big} entries a minute on a small machine; we append {pct} % of that at peak."),
        decision="number committed entries with a sequencer and let every consumer page by that position",
        reason="a watermark is only safe on a number that is assigned after the commit",
        spots=(
            Spot("services/ledger/internal/sequencer/sequencer.go", 29, 117),
            Spot("services/ledger/internal/export/cursor.go", 14, 60),
            Spot("api/ledger/v2/export.proto", 22, 48),
        ),
    ),
)
