"""Reports and metrics of feedback: what one poll did, and the counters and gauges exported to Prometheus.

Counters are incremented in the transaction they count (`metric_counters`), so they survive
the process; gauges are computed when read. Only names in `FEEDBACK_METRICS` are exported; `service.metrics` exports
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field

from tidelore.core.errors import PartialSuccess, TideloreError
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import CursorRow, list_cursors
from tidelore.store.mirror.projects import list_projects
from tidelore.store.work.action_tokens import token_counts, unobserved
from tidelore.store.work.service_records import read_counters
from tidelore.store.work.tracked_pull_requests import TERMINAL, list_tracked


class SurfaceTally(Struct):
    """Counts of what was read from one surface, over all its scopes."""

    requests: int = 0
    pages: int = 0
    fetched: int = 0
    new: int = 0
    replayed: int = 0


class RepoReport(Struct):
    """One repository. `effects` counts stored effects by kind; `moved` lists status changes of pull requests.

    `ignored` counts comments that were ignored because of their author, by reason and author.
    """

    source: str
    repo: str
    mode: str = ""
    surfaces: dict[str, SurfaceTally] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    ignored: dict[str, Counter[str]] = field(default_factory=dict)
    moved: list[str] = field(default_factory=list)
    tracked: list[int] = field(default_factory=list)
    unfinished: int = 0
    requests: int = 0
    failures: dict[str, TideloreError] = field(default_factory=dict)
    error: TideloreError | None = None

    def ignore(self, reason: str, author: str | None) -> None:
        """Count an ignored comment."""
        self.ignored.setdefault(reason, Counter())[(author or "").casefold()] += 1

    def surface(self, name: str) -> SurfaceTally:
        """Return the tally of a surface."""
        return self.surfaces.setdefault(name, SurfaceTally())


class FeedbackPollReport(Struct):
    """A poll of all chosen repositories."""

    run_id: int
    repos: list[RepoReport] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0


def poll_error(report: FeedbackPollReport) -> TideloreError | None:
    """Return the error of a poll: the first error if all repositories failed, partial success if some did."""
    failed = [repo for repo in report.repos if repo.error is not None]
    troubled = [repo for repo in report.repos if repo.failures]
    if failed and len(failed) == len(report.repos):
        return failed[0].error
    if not failed and not troubled:
        return None
    return PartialSuccess(
        f"{len(failed) + len(troubled)} of {len(report.repos)} repositories could not be fully read",
        fix="see the errors above; fetched data is stored and the next poll continues",
    )


FETCH_REQUESTS = "github_comment_fetch_requests_total"
FETCH_PAGES = "github_comment_fetch_pages_total"
FETCHED = "github_comment_fetched_total"
NEW = "github_comment_new_total"
REPLAYED = "github_comment_replay_total"
CURSOR_LAG = "github_comment_cursor_lag_seconds"
EVENTS_INGESTED = "feedback_events_ingested_total"
EVENTS_DEDUPED = "feedback_events_deduped_total"
TOKENS = "action_tokens_total"
TOKEN_AGE = "action_token_unobserved_age_seconds"  # noqa: S105 - a name of a metric
COMMANDS_SEEN = "operator_commands_seen_total"
COMMANDS_APPLIED = "operator_commands_applied_total"
SHADOW_SCANS = "feedback_shadow_scans_total"
SHADOW_DIFFERENCES = "feedback_shadow_differences_total"

_PREFIX = "github."
_FEEDS: Mapping[str, str] = {
    "pr_issue_comments": "issue_comments",
    "issue_pre_pr_followups": "issue_comments",
    "issue_post_pr_redirects": "issue_comments",
    "issue_operator_commands": "issue_comments",
    "pr_review_comments": "review_comments",
    "pr_review_operator_commands": "review_comments",
    "pr_review_summaries": "pulls",
}
"""For each list of a thread, the repository-wide list that covers it."""


class Metric(Struct, frozen=True):
    """The definition of an exported metric."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


class Sample(Struct, frozen=True):
    """One value of a metric."""

    name: str
    labels: Mapping[str, str]
    value: float


FEEDBACK_METRICS: tuple[Metric, ...] = (
    Metric(FETCH_REQUESTS, "counter", "Requests for comments, including 'not modified' responses.", ("surface",)),
    Metric(FETCH_PAGES, "counter", "Pages of comments that were read.", ("surface",)),
    Metric(FETCHED, "counter", "Comments on those pages.", ("surface",)),
    Metric(NEW, "counter", "Comment versions that were not stored before.", ("surface",)),
    Metric(REPLAYED, "counter", "Comment versions read again that were already stored.", ("surface",)),
    Metric(CURSOR_LAG, "gauge", "Seconds since the least recent confirmation of a position.", ("surface",)),
    Metric(EVENTS_INGESTED, "counter", "Events stored."),
    Metric(EVENTS_DEDUPED, "counter", "Events that were stored already."),
    Metric(TOKENS, "gauge", "Comments to post or posted by us, by status and source.", ("status", "source")),
    Metric(TOKEN_AGE, "gauge", "Seconds since the oldest comment not yet observed on the server was planned."),
    Metric(COMMANDS_SEEN, "counter", "Operator commands stored, whatever their outcome."),
    Metric(COMMANDS_APPLIED, "counter", "Operator commands applied."),
    Metric(SHADOW_SCANS, "counter", "Threads that were read in full to compare them with the copy."),
    Metric(SHADOW_DIFFERENCES, "counter", "Comments in those threads that the copy should have had and had not."),
)


def collect_feedback(database: Database, now_ms: int) -> list[Sample]:
    """Return the current value of every feedback metric."""
    samples = [Sample(counter.name, counter.labels, counter.value) for counter in read_counters(database)]
    projects = {project.id: project for project in list_projects(database)}
    ended = {
        (projects[pull.project_id].source, f"{projects[pull.project_id].remote_id}#{pull.pr_number}")
        for pull in list_tracked(database, statuses=TERMINAL)
    }
    lags = cursor_lags(list_cursors(database), ended, now_ms)
    samples += [Sample(CURSOR_LAG, {"surface": surface}, seconds) for surface, seconds in lags.items()]
    samples += [
        Sample(TOKENS, {"status": count.status, "source": count.source}, count.count)
        for count in token_counts(database)
    ]
    oldest = next((token.created_at for token in unobserved(database)), None)
    samples.append(Sample(TOKEN_AGE, {}, 0.0 if oldest is None else _seconds(now_ms, oldest)))
    return samples


def cursor_lags(cursors: Iterable[CursorRow], ended: set[tuple[str, str]], now_ms: int) -> dict[str, float]:
    """Return for each surface how long ago its least recently confirmed position was confirmed.

    A repository-wide list also confirms the threads it covers; merged and closed pull requests, `ended` by source and
    scope, are left out. A position that was never confirmed has no age.
    """
    ours = [cursor for cursor in cursors if cursor.surface.startswith(_PREFIX) and cursor.polled_at is not None]
    feeds = {(row.source, row.surface, row.scope): row.polled_at or 0 for row in ours if "#" not in row.scope}
    lags: dict[str, float] = {}
    for cursor in ours:
        surface = cursor.surface.removeprefix(_PREFIX)
        confirmed_at = cursor.polled_at or 0
        if "#" in cursor.scope:
            if (cursor.source, cursor.scope) in ended:
                continue
            feed = (cursor.source, f"{_PREFIX}{_FEEDS.get(surface, '')}", cursor.scope.partition("#")[0])
            # A thread whose first read is not complete is not covered by the repository-wide list.
            confirmed_at = max(confirmed_at, feeds.get(feed, 0)) if cursor.bootstrap_complete else confirmed_at
        lags[surface] = max(lags.get(surface, 0.0), _seconds(now_ms, confirmed_at))
    return lags


def _seconds(now_ms: int, since_ms: int) -> float:
    return max(now_ms - since_ms, 0) / 1000
