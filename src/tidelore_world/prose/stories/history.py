"""Decision stories of the ledger's past: archives, and the clocks that dated its entries.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

HISTORY: tuple[Story, ...] = (
    Story(
        slug="ledger-archive-format",
        component="ledger",
        labels=("ledger", "cost", "data"),
        titles=(
            "Which format for archived ledger months?",
            "Archived ledger in {region} takes {gb} GB as JSON lines",
            "Nobody can query the ledger archive without restoring it",
        ),
        changes=(
            "Write archived ledger months as Parquet",
            "ledger: columnar archive with a manifest",
            "Archive: Parquet files sorted by container",
        ),
        problems=(
            (
                "The archive is gzipped JSON lines. To answer a question about one container from {days} "
                "months ago, we restore a whole month first."
            ),
            (
                "{customer} asked for three years of history for an insurance case. It took us {small} "
                "working days, most of it waiting for restores."
            ),
            "Storage for the archive passed {gb} GB in {region}, and {pct} % of it are field names.",
        ),
        options=(
            Option(
                "JSON lines with a stronger compressor",
                "every tool can read it",
                "still no way to read one container alone",
            ),
            Option(
                "Parquet sorted by container, with a manifest",
                "a reader fetches two row groups and not a month",
                "needs a schema, and a policy for its changes",
            ),
            Option(
                "a second, slower database",
                "one query language for everything",
                "{gb} GB of disks that are read twice a year",
            ),
        ),
        chosen=1,
        objection=(
            "Our payloads are not uniform: {small} carriers add their own fields. A columnar schema will "
            "either lose them or explode."
        ),
        answer=(
            "The twenty fields that everybody has are columns; the rest stays in one JSON column. That "
            "column is {pct} % of the bytes."
        ),
        question="Who checks that an archived month is complete before it is detached?",
        reply=(
            "The writer compares count and hash for each container with the partition and refuses to "
            "detach on any difference."
        ),
        measure=(
            "One month of {port}: {slow} MB as JSON lines, {fast} MB as Parquet; a single container is read in 0.9 s."
        ),
        decision=("archive ledger months as Parquet sorted by container, with a manifest that proves completeness"),
        reason="an archive that cannot be asked is only a backup",
        spots=(
            Spot("services/ledger/archive/writer.py", 40, 132),
            Spot("services/ledger/archive/manifest.py", 11, 58),
        ),
    ),
    Story(
        slug="ledger-clock-skew",
        component="ledger",
        labels=("ledger", "data-quality"),
        titles=(
            "Events from {port} are ordered wrongly in the timeline",
            "Terminal clocks in {port} are off by {small} minutes",
            "Gate-out appears before gate-in when two terminals disagree about the time",
        ),
        changes=(
            "Order timelines by corrected terminal time",
            "ledger: estimate clock skew for each terminal",
            "Store received_at and corrected occurred_at",
        ),
        problems=(
            (
                "The gate system in {port} runs {small} minutes fast. Containers leave before they "
                "arrive, and the dwell time on the invoice is negative."
            ),
            (
                "{pct} % of the timelines that cross two terminals in {region} have at least one pair in "
                "the wrong order."
            ),
            (
                "We sort by the time that the terminal claims. {customer} compared it with the drivers' "
                "phones and found differences of up to an hour."
            ),
        ),
        options=(
            Option(
                "the time of receipt as the order",
                "our own clock, always monotonic",
                "batches that arrive late are all wrong",
            ),
            Option(
                "a skew estimate for each terminal",
                "corrects the cause, and keeps the claimed time next to it",
                "needs a few hundred events before it is reliable",
            ),
            Option(
                "manual offsets in a table",
                "done in an hour",
                "nobody will maintain it after daylight saving time",
            ),
        ),
        chosen=1,
        objection=("Changing a time that a terminal has signed sounds like forging evidence. Legal will not like it."),
        answer=(
            "The claimed time is never changed. The corrected time is a second field, marked as derived, "
            "and the signature covers the first."
        ),
        question="What do we do while the estimate is not reliable yet?",
        reply="Use the claimed time and mark the timeline as uncorrected, which is what we have today.",
        measure=("With the estimate, wrong pairs in {port} fell from {pct} % to 0.4 % over {days} days of replay."),
        decision=(
            "estimate the clock skew of each terminal and sort timelines by the corrected time, with the "
            "claimed time kept beside it"
        ),
        reason="the order is what customers are billed by, and only the skew explains why it is wrong",
        spots=(
            Spot("services/ledger/internal/skew/estimate.go", 20, 104),
            Spot("services/ledger/internal/query/timeline.go", 60, 98),
        ),
    ),
)
