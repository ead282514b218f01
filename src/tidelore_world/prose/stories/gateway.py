"""Decision stories of the API gateway: authentication, limits, versions, and errors.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

GATEWAY: tuple[Story, ...] = (
    Story(
        slug="gateway-rate-limits",
        component="gateway",
        labels=("gateway", "api", "reliability"),
        titles=(
            "Rate limit is counted for each instance and not for each customer",
            "{customer} gets 429 although they are below their limit",
            "Rate limiting across regions",
        ),
        changes=(
            "Limit requests with a shared token bucket in each region",
            "gateway: regional token buckets",
            "Replace per-instance counters",
        ),
        problems=(
            (
                "Each gateway instance counts for itself. With {small} instances {customer} is refused "
                "far below the limit or allowed at a multiple of it, as the balancer likes."
            ),
            (
                "During {inc} one script of {customer} used {pct} % of the capacity of {region}, and the "
                "limiter saw nothing."
            ),
            ("After scaling up in {region} the effective limit of everybody rose, and the database paid for it."),
        ),
        options=(
            Option(
                "a global counter",
                "exact",
                "adds a round trip between regions of {slow} ms",
            ),
            Option(
                "a token bucket in each region with a share of the limit",
                "exact within a region, under 1 ms",
                "a customer who changes regions waits for the shares",
            ),
            Option(
                "sticky balancing",
                "no shared state",
                "one instance carries the biggest customer alone",
            ),
        ),
        chosen=1,
        objection="If the shared store fails, do we refuse everybody or allow everybody? Both are an incident.",
        answer=(
            "Neither: each instance falls back to the last known rate divided by the number of "
            "instances. That was wrong by 8 % in the drill."
        ),
        question="Do we tell clients how much is left?",
        reply=("Yes, with the standard headers, and the reset time is in seconds, so that clocks do not matter."),
        measure=(
            "Under a load of {big} requests a minute: p99 of the check 0.8 ms, refused at 100.6 % of the "
            "limit on average."
        ),
        decision=("limit requests with one token bucket for each customer and region, and fall back to a local share"),
        reason="customers are promised a rate in a region, and that is where it can be counted cheaply",
        spots=(
            Spot("services/gateway/internal/limit/bucket.go", 24, 116),
            Spot("services/gateway/internal/limit/fallback.go", 15, 60),
        ),
    ),
    Story(
        slug="gateway-api-versions",
        component="gateway",
        labels=("gateway", "api", "product"),
        titles=(
            "Breaking changes in v2 need a plan",
            "Version in the path, in a header or by date?",
            "{customer} broke on a field that we renamed in {version}",
        ),
        changes=(
            "Version the API by date and pin accounts",
            "gateway: dated versions with transformations",
            "Pin each account to an API date",
        ),
        problems=(
            (
                "We renamed a field in {version}, and {whose} integration stopped for {small} hours. It "
                "was in the changelog, which nobody reads."
            ),
            ("v1 and v2 are two code bases by now. {pct} % of the traffic is still on v1, and fixes are made twice."),
            ("Each team has its own idea of what is a breaking change. We counted {small} in the last {days} days."),
        ),
        options=(
            Option(
                "a new path for each major version",
                "everybody knows it",
                "a major version every year, and two code bases each time",
            ),
            Option(
                "dated versions, with small transformations between them",
                "one code base, each change is a function",
                "transformations add up over the years",
            ),
            Option(
                "no breaking changes at all",
                "the best promise",
                "we have broken it {small} times already",
            ),
        ),
        chosen=1,
        objection=(
            "After five years a request runs through {small}0 transformations. Nobody will be able to debug that."
        ),
        answer=(
            "They are pure functions with recorded examples, and the oldest date is retired each year. "
            "The limit is twelve at a time."
        ),
        question="What is the date of a new account?",
        reply="The day of its first request. It stays there until the owner moves it in the console.",
        measure="Twelve transformations cost {fast} µs for a response of 20 KB.",
        decision=(
            "version the API by date, pin every account to one, and transform responses backwards with pure functions"
        ),
        reason="customers upgrade when they choose, and we keep a single implementation",
        spots=(
            Spot("services/gateway/internal/version/chain.go", 18, 97),
            Spot("services/gateway/internal/version/2026_01_15.go", 1, 48),
            Spot("docs/api/versions.md", 1, 75),
        ),
    ),
    Story(
        slug="gateway-error-format",
        component="gateway",
        labels=("gateway", "api", "documentation"),
        titles=(
            "Errors look different in each service",
            "One error format for the public API",
            "{customer} parses our error messages with regular expressions",
        ),
        changes=(
            "Answer errors as problem details with stable codes",
            "gateway: one error shape for all services",
            "Map service errors to stable codes",
        ),
        problems=(
            (
                "There are {small} shapes of an error in our API. {customer} parses the text, and a "
                "corrected typo broke their import."
            ),
            (
                "A 400 from tariff has a list, a 400 from customs has a string, and the gateway makes "
                "HTML when it is tired."
            ),
            "Support cannot search for an error, because the text holds the container number.",
        ),
        options=(
            Option(
                "a convention for all teams",
                "no code",
                "we have had one since {version}, and {pct} % follow it",
            ),
            Option(
                "problem details, enforced at the gateway, with codes from one list",
                "one shape, checked in CI",
                "{small} services have to register their codes",
            ),
            Option(
                "a library for each language",
                "convenient",
                "three languages, three interpretations",
            ),
        ),
        chosen=1,
        objection="Rewriting errors in the gateway hides the true cause from those who debug.",
        answer=(
            "The original goes into the trace under the same id that the customer sees. Nothing is hidden from us."
        ),
        question="May a code ever change its meaning?",
        reply="No. Codes are append-only, and CI compares the list with the last release.",
        measure="{big} error responses of one week fall into {small}3 codes; 0.2 % remain `unclassified`.",
        decision=(
            "answer every error as problem details with a code from one append-only list, enforced at the gateway"
        ),
        reason="a code is a contract, and a sentence is not",
        spots=(
            Spot("services/gateway/internal/problem/problem.go", 12, 70),
            Spot("api/errors/codes.yaml", 1, 140),
        ),
    ),
    Story(
        slug="gateway-session-tokens",
        component="gateway",
        labels=("gateway", "security"),
        titles=(
            "Revoked sessions stay valid for {small} minutes",
            "Session tokens: stateless or looked up?",
            "A dismissed employee of {customer} had access for an hour",
        ),
        changes=(
            "Short tokens with a revocation feed",
            "gateway: revocation list pushed to instances",
            "Shorten access tokens and push revocations",
        ),
        problems=(
            (
                "Access tokens are valid for an hour and cannot be revoked. An employee of {customer} "
                "exported {big} records after being dismissed."
            ),
            (
                "Looking up each token in the database would cost {slow} ms at peak, and we have {big} "
                "requests a minute."
            ),
            ("The penetration test lists tokens that cannot be revoked as its only high finding. We have {days} days."),
        ),
        options=(
            Option(
                "a lookup for each request",
                "exact",
                "the session store becomes the most critical system we have",
            ),
            Option(
                "tokens of five minutes and a pushed list of revocations",
                "effective within seconds, no lookup",
                "a feed that must not fall behind",
            ),
            Option(
                "tokens of one minute",
                "no feed",
                "refresh traffic of {big} requests a minute",
            ),
        ),
        chosen=1,
        objection="If an instance misses the feed, it accepts what it should not, and nobody notices.",
        answer=(
            "An instance whose feed is older than 30 s stops accepting tokens that were issued before "
            "the gap. It fails closed for those only."
        ),
        question="How large is the list?",
        reply=(
            "A revocation lives for five minutes, so it holds {small}0 entries on a normal day. After a "
            "forced logout of everybody it is one entry."
        ),
        measure="Revocation to refusal: {fast} ms median, 1.9 s at p99; the check costs 200 ns.",
        decision="issue access tokens for five minutes and push revocations to every gateway instance",
        reason="a dismissed user must be out within seconds, without a database in each request",
        spots=(
            Spot("services/gateway/internal/auth/revoke.go", 21, 108),
            Spot("services/gateway/internal/auth/token.go", 44, 92),
        ),
    ),
    Story(
        slug="gateway-timeouts",
        component="gateway",
        labels=("gateway", "reliability", "performance"),
        titles=(
            "Timeouts add up to more than the client waits",
            "Retries below a timeout make overload worse",
            "{inc}: requests were still running after the client had gone",
        ),
        changes=(
            "Propagate deadlines and stop work that nobody waits for",
            "gateway: deadline header for all services",
            "Replace fixed timeouts by a deadline",
        ),
        problems=(
            (
                "The client waits for 10 s, the gateway for 30 s, tariff for 60 s. On {inc} {pct} % of "
                "the work was for clients that had left."
            ),
            "Each layer retries three times. One slow query became {small}7 queries.",
            ("A search of {customer} that is cancelled in the browser runs on for {slow} ms in the database."),
        ),
        options=(
            Option(
                "tuned timeouts for each hop",
                "only configuration",
                "wrong again after the next service",
            ),
            Option(
                "a deadline that travels with the request",
                "each hop knows how long it is still worth working",
                "all services have to honour it",
            ),
            Option(
                "a limit on concurrency only",
                "protects the database",
                "does not stop useless work",
            ),
        ),
        chosen=1,
        objection="Half of our services are in Python, where a cancelled request does not stop a running query.",
        answer=(
            "The driver sets the statement timeout from the deadline; that stops the query on the server "
            "whatever the language."
        ),
        question="Do background jobs get a deadline?",
        reply=("They have their own of 15 minutes. A job without a deadline is refused by the client library."),
        measure="In the replay of {inc}: useless work from {pct} % to 1.2 %, and recovery in {small} minutes.",
        decision="pass a deadline with every request, derive all timeouts from it, and retry only at the edge",
        reason="work that nobody waits for is what turns a slow minute into an outage",
        spots=(
            Spot("services/gateway/internal/deadline/header.go", 10, 58),
            Spot("libs/py/harborline_http/deadline.py", 14, 77),
            Spot("libs/go/deadline/sql.go", 18, 66),
        ),
    ),
)
