"""What the service measures. Owns its metric names, and the one text of `/metrics`: these and those of the feedback.

Everything is read from rows, so that whoever reads the same database sees the same numbers; requests are counted over
the whole life of a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tidelore.feedback.metrics import REGISTRY as FEEDBACK
from tidelore.feedback.metrics import Metric, Sample, escape, export_metrics
from tidelore.feedback.metrics import collect as collect_feedback
from tidelore.service.health import lag_seconds
from tidelore.service.status import ServiceStatus, read_service
from tidelore.store.database import Database
from tidelore.store.service_jobs import JobRow
from tidelore.store.totals import Totals, read_totals

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

_JOB = ("job", "source", "kind")
REGISTRY: tuple[Metric, ...] = (
    Metric(UP, "gauge", "Whether a service runs on this database."),
    Metric(HEALTHY, "gauge", "Whether a source is within its staleness bound.", ("source",)),
    Metric(BUDGET, "gauge", "Requests that a source still allows, as it last said.", ("source",)),
    Metric(REQUESTS, "counter", "Requests that went over the wire for the jobs of a source.", ("source",)),
    Metric(RUNNING, "gauge", "Whether a job runs.", _JOB),
    Metric(BACKING_OFF, "gauge", "Whether a job waits because it, or its source, failed.", _JOB),
    Metric(FAILURES, "gauge", "How often a job failed in a row.", _JOB),
    Metric(LAG, "gauge", "Seconds since a job last succeeded.", _JOB),
    Metric(BOUND, "gauge", "How many seconds that may be.", _JOB),
    Metric(DUE, "gauge", "Seconds until a job is due.", _JOB),
    Metric(WAITING, "gauge", "What waits to be done.", ("what",)),
)


def export_all(database: Database, now_ms: int) -> str:
    """Return everything that is measured, in the Prometheus text format."""
    return export_metrics(database, now_ms) + render(collect_own(database, now_ms))


def collect_all(database: Database, now_ms: int) -> list[tuple[Metric, list[Sample]]]:
    """Return every name that is exported, with its values as they stand."""
    samples = [*collect_feedback(database, now_ms), *collect_own(database, now_ms)]
    return [(metric, [one for one in samples if one.name == metric.name]) for metric in (*FEEDBACK, *REGISTRY)]


def collect_own(database: Database, now_ms: int) -> list[Sample]:
    """Return every value of the service, as it stands."""
    return collect(read_service(database, now_ms), read_totals(database, now_ms), now_ms)


def collect(status: ServiceStatus, totals: Totals, now_ms: int) -> list[Sample]:
    """Return what a status comes to in numbers."""
    samples = [Sample(UP, {}, float(status.holder is not None))]
    samples += [Sample(HEALTHY, {"source": one.source}, float(one.ok)) for one in status.health.sources]
    samples += [Sample(BUDGET, {"source": one.source}, one.remaining) for one in status.budgets.values()]
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


def render(samples: Sequence[Sample]) -> str:
    """Return samples in the Prometheus text format, in the registry's order."""
    return "".join(_family(metric, [one for one in samples if one.name == metric.name]) for metric in REGISTRY)


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


def _family(metric: Metric, samples: Sequence[Sample]) -> str:
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    for sample in samples:
        pairs = ",".join(f'{name}="{escape(sample.labels[name])}"' for name in metric.labels)
        value = int(sample.value) if sample.value == int(sample.value) else sample.value
        lines.append(f"{metric.name}{{{pairs}}} {value}" if pairs else f"{metric.name} {value}")
    return "\n".join(lines) + "\n"
