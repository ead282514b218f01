"""Metrics of the service, and the export of all metrics in the Prometheus format.

All values are read from the database, so every process sees the same numbers; requests are counted over the whole life
of a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tidelore.core.clock import Clock
from tidelore.feedback.report import FEEDBACK_METRICS as FEEDBACK
from tidelore.feedback.report import Metric, Sample, collect_feedback
from tidelore.service.status import ServiceStatus, lag_seconds, read_service
from tidelore.store.database.port import Database
from tidelore.store.reading.totals import Totals, read_totals
from tidelore.store.work.hooks import MISSED, RECEIVED
from tidelore.store.work.service_records import JobRow, is_of_points, source_of
from tidelore.store.work.worker_queue import QueueStatus

UP = "lore_service_up"
HEALTHY = "lore_source_healthy"
REQUESTS = "lore_requests_total"
RUNNING = "lore_job_running"
BACKING_OFF = "lore_job_backing_off"
FAILURES = "lore_job_failures"
LAG = "lore_job_lag_seconds"
BOUND = "lore_job_staleness_bound_seconds"
DUE = "lore_job_due_in_seconds"
WAITING = "lore_waiting"
BUDGET = "lore_source_requests_left"
POINTS = "lore_source_points_left"
WORKERS = "lore_workers"
WORKER_SCOPES = "lore_worker_scopes"
QUEUE = "lore_queue_jobs"
LATE = "lore_scope_late_seconds"

_JOB = ("job", "source", "kind")
REGISTRY: tuple[Metric, ...] = (
    Metric(UP, "gauge", "Whether a service runs on this database."),
    Metric(HEALTHY, "gauge", "Whether a source is within its staleness bound.", ("source",)),
    Metric(BUDGET, "gauge", "Requests left of a source's rate limit, as last reported.", ("source",)),
    Metric(POINTS, "gauge", "GraphQL points left of a source's rate limit, as last reported.", ("source",)),
    Metric(REQUESTS, "counter", "HTTP requests sent by the jobs of a source.", ("source",)),
    Metric(RUNNING, "gauge", "Whether a job is running.", _JOB),
    Metric(BACKING_OFF, "gauge", "Whether a job is backing off because it or its source failed.", _JOB),
    Metric(FAILURES, "gauge", "Number of failures of a job in a row.", _JOB),
    Metric(LAG, "gauge", "Seconds since a job last succeeded.", _JOB),
    Metric(BOUND, "gauge", "Staleness bound of a job in seconds.", _JOB),
    Metric(DUE, "gauge", "Seconds until a job is due.", _JOB),
    Metric(WORKERS, "gauge", "Number of live workers on this database."),
    Metric(WORKER_SCOPES, "gauge", "Scopes that a worker works on.", ("worker",)),
    Metric(QUEUE, "gauge", "Jobs in the queue of the workers by state.", ("state",)),
    Metric(LATE, "gauge", "For how long the scope is due that waits longest for a worker."),
    Metric(WAITING, "gauge", "Amount of pending work by kind.", ("what",)),
    Metric(RECEIVED, "counter", "Requests to the webhook receiver by what became of them.", ("source", "result")),
    Metric(MISSED, "counter", "Changes that polling found and no webhook announced.", ("source",)),
)


Family = CounterMetricFamily | GaugeMetricFamily


class MetricsCollector(Collector):
    """Collector of all metrics for prometheus_client; each collection opens its own database connection."""

    def __init__(self, open_store: Callable[[], Database], clock: Clock) -> None:
        self._open_store = open_store
        self._clock = clock

    def collect(self) -> Iterator[Family]:
        """Return every metric with its current values."""
        with closing(self._open_store()) as database:
            found = collect_all(database, self._clock.now_ms())
        return (family_of(metric, samples) for metric, samples in found)

    def describe(self) -> Iterator[Family]:
        """Return every metric without values; called when the collector is registered."""
        return (family_of(metric, ()) for metric in (*FEEDBACK, *REGISTRY))


def render(found: Iterable[tuple[Metric, Sequence[Sample]]]) -> str:
    """Return metrics with their samples in the Prometheus text format."""
    families = [family_of(metric, samples) for metric, samples in found]

    class Given(Collector):
        def collect(self) -> Iterable[Family]:
            return families

    return generate_latest(Given()).decode()


def family_of(metric: Metric, samples: Sequence[Sample]) -> Family:
    """Convert a metric to its prometheus_client type. A counter without samples is 0.

    Undocumented labels (such as a repository) are kept, after the others.
    """
    names = [*metric.labels, *sorted({name for one in samples for name in one.labels} - set(metric.labels))]
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=names)
    if not samples and not metric.labels:
        family.add_metric([], 0)
    for values, value in sorted(([one.labels.get(name, "") for name in names], one.value) for one in samples):
        family.add_metric(values, value)
    return family


def collect_all(database: Database, now_ms: int) -> list[tuple[Metric, list[Sample]]]:
    """Return every exported metric with its current values."""
    samples = [*collect_feedback(database, now_ms), *collect_own(database, now_ms)]
    return [(metric, [one for one in samples if one.name == metric.name]) for metric in (*FEEDBACK, *REGISTRY)]


def collect_own(database: Database, now_ms: int) -> list[Sample]:
    """Return the current metrics of the service."""
    return collect(read_service(database, now_ms), read_totals(database, now_ms), now_ms)


def collect(status: ServiceStatus, totals: Totals, now_ms: int) -> list[Sample]:
    """Return a status as samples."""
    samples = [Sample(UP, {}, float(status.holder is not None)), *_of_workers(status)]
    samples += [Sample(HEALTHY, {"source": one.source}, float(one.ok)) for one in status.health.sources]
    for one in status.budgets.values():
        name = POINTS if is_of_points(one.source) else BUDGET
        samples.append(Sample(name, {"source": source_of(one.source)}, one.remaining))
    requests: Counter[str] = Counter()
    for job in status.jobs:
        requests[job.source] += job.requests
    samples += [Sample(REQUESTS, {"source": source}, count) for source, count in requests.items()]
    for job in status.jobs:
        samples += _of_job(job, status.since, now_ms)
    waiting = {
        "accounts": totals.accounts_due,
        "answers": totals.answers_waiting,
        "commands": totals.commands_waiting,
        "documents": totals.documents_waiting,
        "events": totals.events_waiting,
        "quarantine": totals.quarantined,
    }
    return samples + [Sample(WAITING, {"what": what}, count) for what, count in waiting.items()]


def _of_workers(status: ServiceStatus) -> list[Sample]:
    samples = [Sample(WORKERS, {}, len(status.workers)), Sample(LATE, {}, status.late_seconds or 0.0)]
    samples += [Sample(WORKER_SCOPES, {"worker": f"{one.host} {one.pid}"}, len(one.holds)) for one in status.workers]
    queue = status.queue or QueueStatus()
    counts = {"waiting": queue.waiting, "running": queue.running}
    return samples + [Sample(QUEUE, {"state": state}, count) for state, count in counts.items()]


def _of_job(job: JobRow, since_ms: int, now_ms: int) -> Iterable[Sample]:
    labels = {"job": job.name, "source": job.source, "kind": job.kind}
    yield Sample(RUNNING, labels, float(job.state == "running"))
    yield Sample(BACKING_OFF, labels, float(job.state == "backing_off"))
    yield Sample(FAILURES, labels, job.failures)
    yield Sample(LAG, labels, lag_seconds(job, since_ms, now_ms))
    if job.staleness_bound_seconds is not None:
        yield Sample(BOUND, labels, job.staleness_bound_seconds)
    if job.due_at is not None:
        yield Sample(DUE, labels, max(job.due_at - now_ms, 0) / 1000)
