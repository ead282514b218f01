"""Decision stories of billing: invoices, usage, credit notes, taxes, and dunning.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

BILLING: tuple[Story, ...] = (
    Story(
        slug="billing-usage-metering",
        component="billing",
        labels=("billing", "data", "correctness"),
        titles=(
            "Usage on the invoice differs from the console",
            "Metering counts retried events twice",
            "{customer} disputes {pct} % of the usage on an invoice",
        ),
        changes=(
            "Meter usage from the ledger",
            "billing: derive usage from ledger positions",
            "Stop counting usage in the request path",
        ),
        problems=(
            (
                "The console counts events in the ledger, the invoice counts requests. For {customer} "
                "the two differ by {pct} %, always in our favour."
            ),
            ("Counters in the request path are incremented before the request succeeds. A retry is billed twice."),
            (
                "After the failover on {inc} the counters of {region} were {small} hours behind, and "
                "nobody could say by how much."
            ),
        ),
        options=(
            Option(
                "repaired counters",
                "small change",
                "a counter has no history that anybody could check",
            ),
            Option(
                "usage derived from the ledger by position",
                "can be recomputed and explained, event by event",
                "available with a delay of minutes",
            ),
            Option(
                "a metering vendor",
                "has dashboards",
                "{gb} GB of events sent abroad in a month",
            ),
        ),
        chosen=1,
        objection=(
            "Real-time limits need a counter. A delay of minutes means that someone can exceed the plan by a lot."
        ),
        answer=(
            "Limits keep their approximate counter, and money never depends on it. The two serve different purposes."
        ),
        question="What about usage that never reaches the ledger, such as reads?",
        reply="Reads are included in all plans since {version}, so there is nothing to bill.",
        measure=(
            "Recomputed {days} days for {customer}: {big} events, three differences, all explained by corrections."
        ),
        decision="derive billable usage from ledger positions and keep counters only for approximate limits",
        reason="an invoice has to be recomputable from the same facts the customer can see",
        spots=(
            Spot("services/billing/billing/usage/derive.py", 30, 118),
            Spot("services/billing/billing/usage/positions.py", 12, 55),
        ),
    ),
    Story(
        slug="billing-invoice-numbers",
        component="billing",
        labels=("billing", "compliance", "database"),
        titles=(
            "Gaps in invoice numbers for {region}",
            "Invoice numbers must be gapless in some countries",
            "Auditor asks for {small} missing invoice numbers",
        ),
        changes=(
            "Assign invoice numbers when an invoice is issued",
            "billing: gapless numbers for each legal entity",
            "Number invoices in the issuing transaction",
        ),
        problems=(
            (
                "An invoice gets its number as a draft. Deleted drafts leave gaps, and the auditor for "
                "{region} has found {small} of them."
            ),
            (
                "Numbers come from one sequence for all entities. Two countries require a series of "
                "their own without gaps."
            ),
            "A failed batch rolled back, and {small} numbers are gone. We wrote a letter for each.",
        ),
        options=(
            Option(
                "a written explanation of each gap",
                "no code",
                "{small} letters in a year, and the law does not know them",
            ),
            Option(
                "a number at issue, from a locked row for each series",
                "gapless by construction",
                "issuing within a series is serial",
            ),
            Option(
                "renumbering at the end of the month",
                "looks gapless",
                "customers hold invoices with other numbers",
            ),
        ),
        chosen=1,
        objection=("A locked row serialises everything. At the end of the month we issue {big} invoices in an hour."),
        answer=(
            "There are {small} series and the lock is held for 3 ms. The month's end takes under ten "
            "minutes on the staging copy."
        ),
        question="Can an issued invoice be deleted?",
        reply="No. It is cancelled by a credit note with a number of its own.",
        measure="{big} invoices issued on staging: no gaps after {small} forced rollbacks, p95 {fast} ms.",
        decision="assign the number inside the issuing transaction from one locked row for each legal series",
        reason="the law asks for no gaps, and only a lock can promise that",
        spots=(
            Spot("services/billing/billing/numbering.py", 14, 62),
            Spot("services/billing/migrations/versions/0041_series.py", 9, 44),
        ),
        code=("```sql\nUPDATE invoice_series SET last = last + 1 WHERE id = :series RETURNING last;\n```"),
    ),
    Story(
        slug="billing-credit-notes",
        component="billing",
        labels=("billing", "product", "correctness"),
        titles=(
            "Partial credit notes do not match the tax of the invoice",
            "Credit for a part of an invoice",
            "{customer} got a credit note with the wrong tax",
        ),
        changes=(
            "Create credit notes from invoice lines",
            "billing: credit notes refer to lines",
            "Compute credit tax from the credited lines",
        ),
        problems=(
            (
                "Support types an amount, and we guess the tax by the average rate. For {customer} it "
                "was wrong by {pct} %, and their tax office noticed."
            ),
            "A credit note does not say which line it credits. {small} lines were credited twice.",
            "Disputes are about single lines and credits about amounts. The two never meet.",
        ),
        options=(
            Option(
                "amounts with a chosen tax rate",
                "flexible",
                "support has to know tax law",
            ),
            Option(
                "credits by line, with the tax of that line",
                "right by construction, no double credit",
                "goodwill amounts need a line of their own",
            ),
            Option(
                "a full credit and a new invoice",
                "simple for accounting",
                "customers with {big} lines hate it",
            ),
        ),
        chosen=1,
        objection="Half of our credits are goodwill without any line. This makes the common case harder.",
        answer=(
            "I counted: {pct} % are goodwill. They get a separate line type with the tax rule that "
            "finance has prescribed."
        ),
        question="How do we treat a line that was already credited in part?",
        reply="What is left of it is shown, and the form refuses more than that.",
        measure=(
            "Rebuilt {big} credit notes from lines: {small} had been credited twice, all of them before {version}."
        ),
        decision=("build credit notes from invoice lines with their own tax, and give goodwill a line type of its own"),
        reason="a credit undoes a line, so it must take the tax of that line along",
        spots=(
            Spot("services/billing/billing/credits/lines.py", 20, 104),
            Spot("apps/console/src/billing/CreditForm.tsx", 44, 130),
        ),
    ),
    Story(
        slug="billing-dunning",
        component="billing",
        labels=("billing", "product"),
        titles=(
            "Reminders are sent for invoices that are paid",
            "Dunning ignores payments in transit",
            "{customer} received {small} reminders for a paid invoice",
        ),
        changes=(
            "Wait for the bank day before a reminder",
            "billing: dunning by value date",
            "Pause reminders while payments are unmatched",
        ),
        problems=(
            (
                "Bank files arrive in the morning and reminders are sent at midnight. {pct} % of the "
                "first reminders go to customers who have paid."
            ),
            ("{customer} pays {small} invoices in one transfer. We do not match it, and send {small} reminders."),
            "Account managers spend Mondays on apologies. The reminder has become a joke.",
        ),
        options=(
            Option(
                "reminders three days later",
                "one number",
                "late for those who really do not pay",
            ),
            Option(
                "no reminder while an unmatched payment of that customer exists",
                "stops the embarrassing ones",
                "somebody has to match by hand within two days",
            ),
            Option(
                "a better matching algorithm",
                "solves the cause",
                "the text of a transfer can be anything",
            ),
        ),
        chosen=1,
        objection="A single unmatched cent would stop the dunning of a customer for ever.",
        answer=(
            "Only if the payment is at least half of the open sum, and only for two banking days. After "
            "that a person is asked."
        ),
        question="Does it apply to the last reminder before a stop of service?",
        reply="That one is never sent without a person since {inc}.",
        measure=(
            "On last year's data: reminders to paying customers from {pct} % to 0.9 %, days outstanding unchanged."
        ),
        decision="hold reminders for two banking days while a customer has a large unmatched payment",
        reason="most of the wrong reminders come from money that has already arrived",
        spots=(
            Spot("services/billing/billing/dunning/hold.py", 17, 83),
            Spot("services/billing/billing/payments/match.py", 60, 121),
        ),
    ),
    Story(
        slug="billing-tax-service",
        component="billing",
        labels=("billing", "integration", "compliance"),
        titles=(
            "Invoicing stops when the tax service is down",
            "Tax lookup blocks {slow} ms for each invoice line",
            "Depend on the tax provider at issue time?",
        ),
        changes=(
            "Cache tax rules by validity and check them daily",
            "billing: local tax rules with a daily check",
            "Remove the tax service from the issuing path",
        ),
        problems=(
            (
                "The tax provider was down for {small} hours on the first of the month. We issued "
                "nothing on the day when we issue everything."
            ),
            ("Each line asks the provider, {slow} ms each. An invoice with {small}00 lines takes minutes."),
            "All but {pct} % of our lookups return what the same lookup returned yesterday.",
        ),
        options=(
            Option(
                "a second provider",
                "redundancy",
                "two answers that differ are worse than none",
            ),
            Option(
                "local rules with a validity period, refreshed and compared daily",
                "fast, and independent on the first of the month",
                "we are responsible for being up to date",
            ),
            Option(
                "retries and patience",
                "no change",
                "the law has a deadline, and the provider has none",
            ),
        ),
        chosen=1,
        objection=(
            "Tax rules change with two days of notice sometimes. A daily cache is a risk that finance "
            "has to accept, not us."
        ),
        answer=("Finance wants it: a rule without a check in the last 36 hours blocks its country, and theirs only."),
        question="Which rule applies to an invoice for last month?",
        reply="The one that was valid on the date of supply; that is why the validity is part of the key.",
        measure="{big} lines recomputed: no difference from the provider, {fast} µs for a line.",
        decision=(
            "keep tax rules locally by validity period, compare them with the provider daily, and block "
            "a country when stale"
        ),
        reason="issuing must not depend on somebody else's uptime on the first of the month",
        spots=(
            Spot("services/billing/billing/tax/rules.py", 26, 112),
            Spot("services/billing/billing/tax/refresh.py", 14, 73),
        ),
    ),
)
