"""Decision stories of prices: how they are explained, and in which currency.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

PRICES: tuple[Story, ...] = (
    Story(
        slug="tariff-explain-price",
        component="tariff",
        labels=("tariff", "api", "product"),
        titles=(
            "Customers ask why a price is what it is, and we cannot say",
            "Explain endpoint for quotes",
            "Support spends {small} hours a week on explaining invoices",
        ),
        changes=(
            "Return the derivation with each quote",
            "tariff: record which rule made each line",
            "Add an explanation to the quote response",
        ),
        problems=(
            (
                "{customer} asked why the same lane costs {pct} % more in one week. It took two "
                "engineers an afternoon to reconstruct it."
            ),
            ("A quote is a list of amounts. The rules that made them are gone when the response is sent."),
            "Support has {small} open tickets that say: please explain this invoice.",
        ),
        options=(
            Option(
                "recalculation with logging when somebody asks",
                "nothing to store",
                "rules and rates have changed meanwhile",
            ),
            Option(
                "the derivation stored next to each line",
                "true for ever, and cheap to show",
                "about 300 bytes a line",
            ),
            Option(
                "a help page about the rules in general",
                "no code",
                "does not answer the question of anybody",
            ),
        ),
        chosen=1,
        objection="If we show each rule, competitors will read our pricing from our own API.",
        answer=(
            "The customer sees the name of the rule and the inputs of their own shipment; thresholds of "
            "other customers never appear."
        ),
        question="Do we backfill the quotes that exist?",
        reply="No. A derivation that was not recorded at the time would be an opinion.",
        measure=("Storage grows by {gb} GB a year; the response grows from 2 KB to 5 KB and stays below {fast} ms."),
        decision="store the derivation of every price line at the time it is computed and return it on request",
        reason="an explanation that is computed later explains another price",
        spots=(
            Spot("services/tariff/tariff/derivation.py", 12, 80),
            Spot("services/tariff/tariff/api/quotes.py", 66, 120),
            Spot("apps/console/src/quotes/Explanation.tsx", 20, 94),
        ),
    ),
    Story(
        slug="tariff-currency-rates",
        component="tariff",
        labels=("tariff", "money", "integration"),
        titles=(
            "Exchange rates change between quote and invoice",
            "Which exchange rate applies to a quote in another currency?",
            "{customer} disputes the exchange rate of {small} invoices",
        ),
        changes=(
            "Fix the exchange rate when a quote is accepted",
            "tariff: rate fixing with a source and a date",
            "Store the fixed exchange rate with the booking",
        ),
        problems=(
            (
                "A quote in one currency and an invoice in another differ by {pct} % after a volatile "
                "week. {customer} wants the rate of the quote."
            ),
            (
                "Each service asks the rate provider by itself. Two of them rounded differently, and one "
                "cached for {days} days."
            ),
            "The provider was down for an hour, and we issued {small} invoices with a rate of 1.0.",
        ),
        options=(
            Option(
                "the rate of the invoice date",
                "follows the market",
                "no customer can plan with it",
            ),
            Option(
                "the central bank's daily rate, fixed at acceptance",
                "public, and everybody can look it up",
                "we carry the risk between the two dates",
            ),
            Option(
                "a rate with a margin of two percent",
                "covers the risk",
                "{customer} would call it a hidden fee",
            ),
        ),
        chosen=1,
        objection=(
            "Carrying currency risk is not a decision for engineers. In a bad month that is more than our margin."
        ),
        answer=("Finance has signed it off up to {days} days; a quote is valid for that long and not a day longer."),
        question="What if the central bank has not published yet?",
        reply="The rate of the day before, with its date on the document. A rate without a date is refused.",
        measure="Backtest over two years: the difference averages 0.06 %, the worst month 0.8 %.",
        decision="fix the central bank's daily rate when a quote is accepted and store it with its date",
        reason="it is the only rate that both sides can verify without trusting the other",
        spots=(
            Spot("services/tariff/tariff/fx/fixing.py", 21, 93),
            Spot("services/tariff/tariff/fx/source.py", 35, 70),
        ),
    ),
)
