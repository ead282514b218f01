"""Decision stories of the tariff engine: rates, surcharges, free time, and how a price is explained.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

TARIFF: tuple[Story, ...] = (
    Story(
        slug="tariff-rounding",
        component="tariff",
        labels=("tariff", "correctness", "money"),
        titles=(
            "Invoice total differs from the quote by one cent",
            "Rounding in the tariff engine depends on the order of the lines",
            "{customer}: quote and invoice do not match",
        ),
        changes=(
            "Round once for each line, half to even",
            "tariff: decimal arithmetic with one rounding point",
            "Replace float arithmetic in rate calculation",
        ),
        problems=(
            (
                "A quote is computed in one pass and an invoice line by line. For {customer} {pct} % of "
                "the invoices differ from their quote by a cent or two."
            ),
            ("We multiply floats and round at display. The sum of what is shown is not the total that is shown."),
            (
                "The auditors of {customer} add up our lines with a pocket calculator and find {small} "
                "differences in a month."
            ),
        ),
        options=(
            Option(
                "rounding of the total only",
                "smallest error in sum",
                "the lines do not add up on paper",
            ),
            Option(
                "decimals, rounded once for each line",
                "the lines add up, and anybody can check it",
                "up to half a cent a line is kept or given away",
            ),
            Option(
                "more digits on the invoice",
                "nothing is hidden",
                "tax offices in three countries refuse it",
            ),
        ),
        chosen=1,
        objection="With {big} lines a day, half a cent each is real money. Finance will ask where it went.",
        answer=(
            "Half to even has no drift: over last year's lines the sum differs by 3.12 in total, in the "
            "customer's favour."
        ),
        question="Which rounding does the customs value use?",
        reply=(
            "The one the law prescribes for each country, applied later on the exact decimal; the tariff "
            "line keeps four digits for that."
        ),
        measure=(
            "Recomputed {big} invoices: zero differences between quote and invoice, {slow} ms for a "
            "batch against {fast} ms before."
        ),
        decision="compute in decimals and round half to even once for each line, in quotes and invoices alike",
        reason="the customer can check lines, not our intermediate results",
        spots=(
            Spot("services/tariff/tariff/money.py", 14, 71),
            Spot("services/tariff/tariff/lines.py", 90, 148),
            Spot("services/billing/billing/invoice.py", 33, 58),
        ),
        code=(
            "```python\n"
            "def rounded(amount: Decimal, currency: Currency) -> Decimal:\n"
            "    return amount.quantize(currency.unit, rounding=ROUND_HALF_EVEN)\n"
            "```"
        ),
    ),
    Story(
        slug="tariff-effective-dates",
        component="tariff",
        labels=("tariff", "data-model"),
        titles=(
            "A new rate changes quotes that were already accepted",
            "Which date decides about a rate: booking, gate-in or sailing?",
            "Rate change for {port} was applied retroactively",
        ),
        changes=(
            "Pin the tariff version at booking",
            "tariff: versioned rates with validity periods",
            "Make rates immutable and choose them by booking date",
        ),
        problems=(
            (
                "We edited a rate for {port} and the open bookings of {customer} changed their price "
                "overnight. {small} of them had been accepted in writing."
            ),
            ("Rates are rows that are updated. Nobody can say what a quote was based on {days} days later."),
            ("Three services look up the rate at three moments, and around the first of a month they disagree."),
        ),
        options=(
            Option(
                "a copy of all rates into each booking",
                "nothing can change afterwards",
                "{gb} GB of copies that differ in nothing",
            ),
            Option(
                "immutable versions, pinned when the booking is made",
                "a quote names its version for ever",
                "corrections need a new version and a re-quote",
            ),
            Option(
                "recalculation with a warning",
                "always the newest price",
                "the customer pays for our delay",
            ),
        ),
        chosen=1,
        objection=(
            "Sometimes a rate is simply wrong. If everything is pinned, we will sail with a price of "
            "zero because of a typo."
        ),
        answer=(
            "A correction is a new version with a reason, and the open bookings on the bad one are "
            "listed for a re-quote by a human."
        ),
        question="How many versions will there be?",
        reply="About {small},000 a year over all ports; a version stores only the rates that differ.",
        measure=(
            "Lookup by version and lane takes {fast} µs from memory; building the index after a change takes {slow} ms."
        ),
        decision="make tariff versions immutable and pin one to each booking when it is made",
        reason="a price that was agreed must be explainable from what was known then",
        spots=(
            Spot("services/tariff/tariff/version.py", 22, 110),
            Spot("services/tariff/tariff/lookup.py", 41, 87),
            Spot("services/tariff/migrations/versions/0029_tariff_version.py", 10, 52),
        ),
    ),
    Story(
        slug="tariff-free-time",
        component="tariff",
        labels=("tariff", "calendar", "correctness"),
        titles=(
            "Free time counts public holidays in {port}",
            "Demurrage starts one day early around holidays",
            "Free time calendar differs between terminal and engine",
        ),
        changes=(
            "Count free time with terminal calendars",
            "tariff: holiday calendars for free time",
            "Load terminal calendars as data",
        ),
        problems=(
            (
                "The terminal in {port} was closed for two days, and the free time ran on. {customer} "
                "refuses to pay {big} of demurrage, and they are right."
            ),
            (
                "We count calendar days in UTC. A container that is discharged at 23:30 in {port} loses "
                "a whole day within minutes."
            ),
            ("Free time rules are code: {small} branches for {small} terminals. Each contract change is a release."),
        ),
        options=(
            Option(
                "working days of the country",
                "available as a public data set",
                "terminals close on days the country does not",
            ),
            Option(
                "a calendar for each terminal, as versioned data",
                "exactly what the contract says",
                "{small}0 days to be entered each year",
            ),
            Option(
                "hours in place of days",
                "precise, no calendar",
                "no contract is written like that",
            ),
        ),
        chosen=1,
        objection="Who enters these calendars? If it is us, we carry the liability for each wrong day.",
        answer=(
            "Terminals publish them in November; we import, the terminal's contact confirms, and an "
            "unconfirmed year is flagged on the invoice."
        ),
        question="Is a day a day at the terminal or at the customer?",
        reply=(
            "At the terminal, in its own time zone. The contract of {customer} says so, and so do all "
            "others I have read."
        ),
        measure=(
            "Recomputed last year for {port}: {pct} % of the demurrage invoices change, nine in ten of "
            "them in the customer's favour."
        ),
        decision="count free time in the terminal's own time zone with a confirmed calendar for each terminal",
        reason="the contract refers to the terminal's days, and every other calendar is a guess",
        spots=(
            Spot("services/tariff/tariff/freetime/calendar.py", 18, 96),
            Spot("services/tariff/tariff/freetime/clock.py", 27, 84),
        ),
    ),
    Story(
        slug="tariff-rule-language",
        component="tariff",
        labels=("tariff", "architecture"),
        titles=(
            "Surcharge rules need a release each",
            "How should surcharge rules be written?",
            "Rule for reefer surcharges in {port} took {days} days to ship",
        ),
        changes=(
            "Express surcharges as decision tables",
            "tariff: decision tables with an overlap check",
            "Load surcharge rules from reviewed tables",
        ),
        problems=(
            (
                "Sales agreed on a surcharge with {customer} on a Monday, and it was live {days} days "
                "later. The rule itself is three lines of Python."
            ),
            (
                "There are {small} surcharge functions that look alike, and two of them apply to the "
                "same container without anybody knowing."
            ),
            (
                "Pricing analysts write rules in a spreadsheet, and we translate them by hand. {pct} % "
                "of the translations had to be corrected."
            ),
        ),
        options=(
            Option(
                "an embedded script language",
                "can express anything",
                "can express anything, and nobody can check it",
            ),
            Option(
                "decision tables with typed columns",
                "analysts read and write them, overlaps are found by a program",
                "some rules need two tables",
            ),
            Option(
                "a rules engine from a vendor",
                "has an editor",
                "costs more than the team, and explains nothing",
            ),
        ),
        chosen=1,
        objection=(
            "In each company I have seen, decision tables ended as a bad programming language in spreadsheet cells."
        ),
        answer=(
            "Cells hold a value, a range or a set, and nothing else. If a rule does not fit, it is code "
            "with a review, as today."
        ),
        question="How do we find out that a table has a hole?",
        reply=(
            "The loader enumerates the regions that no row covers and refuses the table unless it has a default row."
        ),
        measure=(
            "{small}1 of the {small}7 present functions fit; evaluating a shipment costs {fast} µs against {slow} µs."
        ),
        decision=("write surcharges as decision tables with typed columns and refuse tables with overlaps or holes"),
        reason="the people who know the rules can read them, and a program can prove them complete",
        spots=(
            Spot("services/tariff/tariff/rules/table.py", 30, 142),
            Spot("services/tariff/tariff/rules/overlap.py", 15, 88),
        ),
    ),
)
