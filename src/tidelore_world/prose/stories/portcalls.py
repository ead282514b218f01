"""Decision stories of port calls: berths, schedules, and the messages of terminals and agents.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

PORTCALLS: tuple[Story, ...] = (
    Story(
        slug="portcalls-schedule-merge",
        component="portcalls",
        labels=("port-calls", "data-quality", "integration"),
        titles=(
            "Carrier, agent and terminal disagree about a berth time",
            "Whose schedule wins for a port call in {port}?",
            "Berth times flip whenever another source reports",
        ),
        changes=(
            "Merge port call schedules by source and phase",
            "portcalls: precedence of sources by phase",
            "Resolve schedule conflicts field by field",
        ),
        problems=(
            (
                "For one call in {port} we had three berth times within an hour, from {carrier}, the "
                "agent and the terminal. Each import overwrote the one before."
            ),
            (
                "The last writer wins, and the last writer is the one with the slowest batch. {pct} % of "
                "our berth times in {port} were older than one we already had."
            ),
            ("{customer} booked {small} trucks on a time that the terminal had corrected two hours earlier."),
        ),
        options=(
            Option(
                "the newest message wins",
                "simple, and it is what we have",
                "a late batch wins over fresh knowledge",
            ),
            Option(
                "precedence by source, which depends on the phase of the call",
                "the terminal knows the berth, the carrier knows the sea",
                "a table that has to be kept",
            ),
            Option(
                "an average of all sources",
                "no source is ignored",
                "a time that nobody has ever said",
            ),
        ),
        chosen=1,
        objection="In {port} the agent is better than the terminal. A global table will be wrong for somebody.",
        answer=(
            "The table has a default and an override for each port; the measured error decides, and it "
            "is recomputed monthly."
        ),
        question="Can users see which source a time comes from?",
        reply="Yes, each field carries its source and the rejected values are one click away.",
        measure="Against {big} real berthings: the mean error fell from 3.4 to 1.9 hours.",
        decision=("merge schedules field by field, with a precedence of sources that depends on the phase of the call"),
        reason="no source is best at everything, but at each phase one of them clearly is",
        spots=(
            Spot("services/portcalls/internal/merge/precedence.go", 24, 112),
            Spot("services/portcalls/internal/merge/fields.go", 18, 75),
            Spot("services/portcalls/config/precedence.yaml", 1, 60),
        ),
    ),
    Story(
        slug="portcalls-identity",
        component="portcalls",
        labels=("port-calls", "data-model"),
        titles=(
            "One port call appears twice after a voyage number changes",
            "Identity of a port call when everything about it can change",
            "Duplicate calls in {port} after {carrier} renumbered voyages",
        ),
        changes=(
            "Give port calls an identity of their own",
            "portcalls: link messages to calls by evidence",
            "Stop using voyage numbers as keys",
        ),
        problems=(
            (
                "{carrier} renumbered its voyages, and {small} calls in {port} exist twice. Half of the "
                "containers hang on the old ones."
            ),
            "We key a call by vessel, voyage and port. Two of the three are edited by people.",
            ("A skipped and reinstated call gets a new key, and the history of {whose} containers is cut in two."),
        ),
        options=(
            Option(
                "vessel, port and date as the key",
                "two of them are physical",
                "a delay over midnight makes a new call",
            ),
            Option(
                "our own id, with messages linked by evidence",
                "survives each change of a name",
                "links have to be explained and sometimes undone",
            ),
            Option(
                "the carrier's id",
                "nothing to invent",
                "{small} of our carriers have none",
            ),
        ),
        chosen=1,
        objection="Linking by evidence means that we guess. A wrong link is harder to find than a duplicate.",
        answer=(
            "A link needs the vessel and an overlap in time; anything weaker is put before a person. "
            "Unlinking is one command, and it is recorded."
        ),
        question="Do external ids in our API stay stable?",
        reply="Yes, old keys remain as aliases that redirect to the call.",
        measure=("On last year's data: {big} duplicates found, {small} links proposed to a person, two of them wrong."),
        decision="give each port call its own id and link messages to it by vessel and overlapping time",
        reason="an identity must not be made of things that people correct",
        spots=(
            Spot("services/portcalls/internal/identity/link.go", 31, 120),
            Spot("services/portcalls/internal/identity/alias.go", 12, 55),
        ),
    ),
    Story(
        slug="portcalls-edifact-parser",
        component="portcalls",
        labels=("port-calls", "integration", "edi"),
        titles=(
            "EDIFACT parser rejects whole files for one bad segment",
            "One malformed segment from {port} loses {small} port calls",
            "Strict or lenient parsing of berth messages?",
        ),
        changes=(
            "Quarantine bad segments and keep the rest of the file",
            "portcalls: segment-level error handling",
            "Parse EDIFACT messages independently",
        ),
        problems=(
            (
                "{port} sends one file with all calls of the day. A single unescaped apostrophe in a "
                "vessel's name and all {small} calls of the day are missing."
            ),
            (
                "The parser throws at the first error. The file is retried for {days} days, with the "
                "same result each time."
            ),
            ("The partner in {port} cannot fix their software before next year, and {customer} cannot wait that long."),
        ),
        options=(
            Option(
                "fully lenient parsing",
                "takes whatever comes",
                "a shifted field turns a draught into a time without anybody noticing",
            ),
            Option(
                "strict for a message, tolerant for a file",
                "the good calls arrive, the bad one is visible",
                "partial files have to be reported",
            ),
            Option(
                "a repair script for this partner",
                "works tomorrow",
                "the next partner needs another one",
            ),
        ),
        chosen=1,
        objection="A half-imported file is worse than none if the missing half is a cancellation.",
        answer=(
            "Messages in a file are independent by the standard; a cancellation that cannot be read "
            "raises an alert with its raw text."
        ),
        question="How does the partner learn about it?",
        reply=("We answer with a proper CONTRL message that names the segment. Nobody has ever sent them one."),
        measure="Of {big} files last quarter {pct} % had an error; 99.3 % of their messages are valid.",
        decision=("parse each message on its own, quarantine the bad ones with their raw text, and answer with CONTRL"),
        reason="the unit of the standard is the message, and a file is only an envelope",
        spots=(
            Spot("services/portcalls/internal/edifact/reader.go", 44, 139),
            Spot("services/portcalls/internal/edifact/control.go", 20, 68),
        ),
    ),
    Story(
        slug="portcalls-time-zones",
        component="portcalls",
        labels=("port-calls", "correctness"),
        titles=(
            "Berth times shift by an hour after daylight saving time",
            "Store port call times as local time or UTC?",
            "Calls planned across the clock change in {port} move by an hour",
        ),
        changes=(
            "Store planned times with the port's zone",
            "portcalls: local time and zone for plans, UTC for facts",
            "Keep the zone of planned berth times",
        ),
        problems=(
            (
                "A call in {port} that was planned for 06:00 is shown at 07:00 since the clocks changed. "
                "The terminal still means 06:00."
            ),
            (
                "We convert plans to UTC when they arrive, with the offset of that day, and show them "
                "with the offset of another."
            ),
            (
                "{small} calls of {carrier} were moved by an hour last autumn, and {whose} trucks stood "
                "at a closed gate."
            ),
        ),
        options=(
            Option(
                "UTC for everything",
                "one rule",
                "wrong for each plan that crosses a clock change",
            ),
            Option(
                "local time with a zone for plans, UTC for facts",
                "means what people mean",
                "two kinds of time in the code",
            ),
            Option(
                "a fixed offset for each port",
                "simple arithmetic",
                "wrong for half of the year",
            ),
        ),
        chosen=1,
        objection="Two kinds of time will be mixed up within a month. I have seen this in three companies.",
        answer=("They are two types without a conversion that compiles by accident; comparing them needs the port."),
        question="What do we do with an hour that exists twice?",
        reply=(
            "The first one, with a warning on the plan. It happens once a year at night, and a person "
            "can say otherwise."
        ),
        measure=("For {port}: {big} plans re-read, {small} of them were an hour off, all in the week of the change."),
        decision=("store plans as local time with the port's zone and facts as UTC, as two types that do not mix"),
        reason="a plan is a promise about a wall clock, a fact is an instant",
        spots=(
            Spot("services/portcalls/internal/timeplan/plan.go", 15, 82),
            Spot("services/portcalls/migrations/0018_local_plan.sql", 1, 31),
        ),
    ),
    Story(
        slug="portcalls-berth-conflicts",
        component="portcalls",
        labels=("port-calls", "product", "console"),
        titles=(
            "Two vessels are planned for one berth in {port}",
            "Show berth conflicts before they happen",
            "Berth conflict check is too slow for {port}",
        ),
        changes=(
            "Check berth conflicts with interval trees",
            "portcalls: warn about berth overlaps while planning",
            "Incremental overlap check for berth plans",
        ),
        problems=(
            ("Two calls overlap at one berth in {port} for {small} hours. Both agents had a green screen."),
            ("The overlap check runs at night over all pairs and takes {slow} s. By the morning the plan has changed."),
            (
                "Planners in {port} keep a spreadsheet next to our screen, because ours does not tell "
                "them about conflicts."
            ),
        ),
        options=(
            Option(
                "a database constraint that excludes overlaps",
                "impossible to violate",
                "planners need overlaps while they shuffle",
            ),
            Option(
                "a warning from an interval tree, updated with each edit",
                "immediate, and does not block anybody",
                "lives in memory, so it has to be rebuilt",
            ),
            Option(
                "the nightly job, hourly",
                "no new code",
                "still up to an hour too late",
            ),
        ),
        chosen=1,
        objection="A warning that does not block will be ignored like all the others.",
        answer=(
            "It blocks publishing, not editing. A plan with an unresolved conflict cannot be sent to the terminal."
        ),
        question="Does the length of the vessel matter?",
        reply="Yes, the interval is in time and in metres of quay; two short vessels may share a berth.",
        measure="{big} calls in the tree take {fast} MB; an edit is checked in under 2 ms.",
        decision=(
            "check berth overlaps on each edit with an interval tree and block publishing until they are resolved"
        ),
        reason="planners have to pass through conflicts, but terminals must never receive them",
        spots=(
            Spot("services/portcalls/internal/berth/tree.go", 19, 118),
            Spot("apps/console/src/portcalls/BerthPlan.tsx", 88, 160),
        ),
    ),
)
