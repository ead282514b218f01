"""Decision stories of infrastructure: deploys, migrations, tests, alerts, and cost.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

INFRA: tuple[Story, ...] = (
    Story(
        slug="infra-migration-locks",
        component="infra",
        labels=("infra", "database", "reliability"),
        titles=(
            "A migration locked the bookings table for {small} minutes",
            "Rules for safe migrations",
            "{inc}: ALTER TABLE behind a long query stopped {region}",
        ),
        changes=(
            "Check migrations for dangerous locks in CI",
            "infra: lock timeout and linter for migrations",
            "Fail fast on migration locks",
        ),
        problems=(
            (
                "A harmless ALTER TABLE waited behind a report, and everything else waited behind the "
                "ALTER TABLE. {region} stood still for {small} minutes."
            ),
            ("Reviewers are expected to know which statement takes which lock. On {inc} three of us had approved it."),
            "We have {small} services with migrations and as many opinions about when they may run.",
        ),
        options=(
            Option(
                "migrations at night only",
                "no tooling",
                "night in {region} is noon elsewhere",
            ),
            Option(
                "a linter and a lock timeout of two seconds with retries",
                "refuses what is dangerous, gives up before anybody notices",
                "some migrations need several steps",
            ),
            Option(
                "a tool that copies tables",
                "no locks to think about",
                "needs {gb} GB of free space and a day",
            ),
        ),
        chosen=1,
        objection=(
            "A timeout with retries can fail all day on a busy table. Then somebody will switch it off under pressure."
        ),
        answer=(
            "It then tells which query holds the lock. In the trial {small} of {small}0 runs needed more "
            "than one try, none more than four."
        ),
        question="Can the linter be overruled?",
        reply="With a comment that names the reason and a second approval from the database group.",
        measure=("Ran it over {small}00 old migrations: it flags eleven, and nine of them had caused an incident."),
        decision=("lint migrations for dangerous locks in CI and run them with a two-second lock timeout and retries"),
        reason="a migration that waits blocks everybody, and one that gives up blocks nobody",
        spots=(
            Spot("tools/migrate-lint/rules.py", 22, 130),
            Spot("libs/go/migrate/run.go", 40, 98),
        ),
        code=("```sql\nSET lock_timeout = '2s';\nALTER TABLE bookings ADD COLUMN hold_reason text;\n```"),
    ),
    Story(
        slug="infra-canary-deploys",
        component="infra",
        labels=("infra", "release", "reliability"),
        titles=(
            "A bad release reached all regions within {small} minutes",
            "Canary deploys: by region, by customer or by share?",
            "{inc}: roll back took longer than the deploy",
        ),
        changes=(
            "Deploy to a share of traffic and compare",
            "infra: automatic canary with comparison",
            "Promote releases by error rate and latency",
        ),
        problems=(
            (
                "{version} was in all regions {small} minutes after the merge. The bug was visible in "
                "the first one within two."
            ),
            "We watch dashboards by eye after a deploy. At {small} deploys a day nobody does.",
            "Rolling back {version} took {small} minutes, because the old images had been removed.",
        ),
        options=(
            Option(
                "one region first",
                "simple to understand",
                "our quietest region sees {pct} % of the features",
            ),
            Option(
                "five percent of the traffic everywhere, compared with a control group",
                "finds it early, statistics for free",
                "two versions run side by side",
            ),
            Option(
                "chosen friendly customers",
                "they know it",
                "friendly customers do not stay friendly",
            ),
        ),
        chosen=1,
        objection=(
            "Two versions side by side need compatible schemas each time. We do not even manage that between services."
        ),
        answer=("Rolling deploys already run two versions for ten minutes. This only makes it visible, and tests it."),
        question="When is a canary promoted?",
        reply=(
            "After 20 minutes and at least 5,000 requests, if neither the error rate nor p95 is significantly worse."
        ),
        measure=(
            "Replayed the last {small} incidents: it would have stopped seven of nine deploys, with one "
            "false alarm in {days} days."
        ),
        decision=(
            "deploy to five percent of traffic, compare with a control group for 20 minutes, and promote "
            "or roll back by itself"
        ),
        reason="a comparison under the same load sees what a person with a dashboard does not",
        spots=(
            Spot("deploy/canary/analysis.py", 28, 115),
            Spot("deploy/pipelines/promote.yaml", 10, 72),
        ),
    ),
    Story(
        slug="infra-flaky-tests",
        component="infra",
        labels=("infra", "testing", "developer-experience"),
        titles=(
            "{pct} % of the pipelines fail for no reason",
            "What do we do with flaky tests?",
            "Merging takes {small} tries on a bad day",
        ),
        changes=(
            "Quarantine flaky tests with an owner and a deadline",
            "infra: detect flaky tests by repetition",
            "Track flaky tests and stop retrying",
        ),
        problems=(
            (
                "One pipeline in {small} fails, and passes on the second try. People press retry before "
                "they read the output."
            ),
            ("A real race in the ledger was hidden by the automatic retry for {days} days, until it hit {customer}."),
            "The queue for merging is {slow} s on average. Half of that are pipelines that run again.",
        ),
        options=(
            Option(
                "automatic retries",
                "the pipeline is green",
                "hides real races, and we have proof",
            ),
            Option(
                "quarantine with an owner and fourteen days",
                "the pipeline is honest, and the test is fixed or deleted",
                "less coverage for a while",
            ),
            Option(
                "a week to fix all of them",
                "satisfying",
                "they return within a quarter",
            ),
        ),
        chosen=1,
        objection="A quarantine is a graveyard. I have never seen a test come back out of it.",
        answer=(
            "After fourteen days the test is deleted by a bot, and its owner explains why nothing is "
            "lost. That concentrates the mind."
        ),
        question="How do we know that a test is flaky?",
        reply="It failed and passed on the same commit. We run the suspects 50 times each night.",
        measure="{small}4 tests cause {pct} % of the failures; after six weeks of the trial three were left.",
        decision=(
            "quarantine a flaky test for at most fourteen days with an owner, then fix or delete it, and "
            "never retry by itself"
        ),
        reason="a retry teaches us to ignore the only signal that we have",
        spots=(
            Spot("tools/ci/flaky.py", 18, 97),
            Spot(".gitlab/ci/test.yml", 30, 84),
        ),
    ),
    Story(
        slug="infra-alert-noise",
        component="infra",
        labels=("infra", "on-call", "observability"),
        titles=(
            "On-call gets {small}0 alerts a week, and three of them matter",
            "Alert on symptoms or on causes?",
            "The page for {inc} was lost among {small} others",
        ),
        changes=(
            "Page on burn rates of customer-facing objectives",
            "infra: burn-rate alerts",
            "Turn cause alerts into tickets",
        ),
        problems=(
            (
                "Each service alerts on CPU, memory, queue and disk. The on-call had {small}0 pages last "
                "week and acted on three."
            ),
            ("The page about lost webhooks came between {small} pages about disks. It was seen an hour later."),
            "Two people have asked to leave the rotation this quarter. Both named the nights.",
        ),
        options=(
            Option(
                "higher thresholds",
                "quiet",
                "also quiet when it matters",
            ),
            Option(
                "pages on error budgets only, the rest as tickets",
                "wakes people when customers suffer",
                "a full disk is noticed by day",
            ),
            Option(
                "a second level for filtering",
                "people decide",
                "{small} more people with bad nights",
            ),
        ),
        chosen=1,
        objection=(
            "A disk that fills at night is a symptom at three in the morning. I would rather be woken at "
            "ten in the evening."
        ),
        answer=(
            "A forecast that the disk is full within 12 hours still pages, in the evening. Only the "
            "level itself does not."
        ),
        question="Who defines the objectives?",
        reply="The product owner of each service, with three at most. {component} has two already.",
        measure=(
            "Replayed {days} days: pages from {small}0 to 6 a week, and all customer-visible incidents "
            "paged, on average 4 minutes earlier."
        ),
        decision=("page only on burn rates of customer-facing objectives and turn every other alert into a ticket"),
        reason="a page is a claim on someone's night, and only a suffering customer justifies it",
        spots=(
            Spot("deploy/alerts/burn_rate.libsonnet", 12, 88),
            Spot("deploy/alerts/tickets.libsonnet", 5, 60),
        ),
    ),
    Story(
        slug="infra-secret-rotation",
        component="infra",
        labels=("infra", "security"),
        titles=(
            "Database passwords are older than {days} months",
            "Rotate credentials without a restart",
            "Audit: {small} shared secrets in {region}",
        ),
        changes=(
            "Issue short-lived database credentials",
            "infra: credentials by workload identity",
            "Replace static database passwords",
        ),
        problems=(
            (
                "The password of the tariff database has not changed since {version}. {small} people who "
                "have left know it."
            ),
            (
                "A rotation means restarting {small} services in the right order. We did it once, on "
                "{inc}, and not on purpose."
            ),
            ('The auditor of {customer} asks who read the table at 03:00. The answer is "the service", {small} times.'),
        ),
        options=(
            Option(
                "a rotation each quarter by script",
                "small step",
                "shared passwords for three months each",
            ),
            Option(
                "credentials for an hour, issued by identity",
                "nothing to leak for long, a name in each log line",
                "the issuer has to be up",
            ),
            Option(
                "a proxy in front of the database",
                "nothing changes in the services",
                "one more hop, {fast} ms at p99",
            ),
        ),
        chosen=1,
        objection="If the issuer is down for an hour, everything is down. We replace a risk by an outage.",
        answer=(
            "Credentials are renewed after 30 of 60 minutes, and pools keep open connections. The drill "
            "with the issuer off for 50 minutes was not noticed."
        ),
        question="What about scripts of analysts?",
        reply="They get a personal credential for eight hours by the same way, with read rights only.",
        measure="Renewal costs {fast} ms in the background; {big} connections in the drill, no failed query.",
        decision=("issue database credentials by workload identity for one hour and renew them after thirty minutes"),
        reason="a secret that lives for an hour needs no rotation and names its user",
        spots=(
            Spot("libs/go/dbauth/issuer.go", 20, 104),
            Spot("libs/py/harborline_db/auth.py", 15, 72),
            Spot("deploy/terraform/db/roles.tf", 8, 61),
        ),
    ),
)
