"""The rows of the service, and the counts of a status view, on both databases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from tests.databases.samples import add_project
from tests.support.manual_clock import ManualClock

from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.engine.lease import acquire
from tidelore.service.metrics import QUEUE, REGISTRY, collect_all, render
from tidelore.service.status import LEASE, WORKER_PREFIX, read_overview, read_service
from tidelore.store.database.port import Database
from tidelore.store.mirror.documents import mark
from tidelore.store.reading.totals import has_answers_to_send, lacks_vectors, read_totals
from tidelore.store.work.hooks import MISSED, count_received
from tidelore.store.work.leases import LeaseTable
from tidelore.store.work.service_records import (
    BudgetRow,
    JobRow,
    add_to_counter,
    keep_jobs,
    list_budgets,
    list_jobs,
    points_of,
    save_budgets,
    save_jobs,
)

POLL = JobRow("github:hub/o/r", "hub", "poll", "o/r", "idle", 10, 20, 30, 40, 2, 'no "answer"\n', 60.5, 7, 50)
STREAM = JobRow("bluesky:stream", "stream", "stream", "wss://x", "running")


def test_job_rows_are_read_back_as_written_and_overwritten(database: Database) -> None:
    save_jobs(database, [POLL, STREAM])
    assert list_jobs(database) == [STREAM, POLL]
    changed = replace(POLL, state="backing_off", succeeded_at=None, staleness_bound_seconds=None)
    save_jobs(database, [changed])
    assert list_jobs(database) == [STREAM, changed]
    save_jobs(database, [])


def test_rows_of_removed_jobs_are_deleted(database: Database) -> None:
    save_jobs(database, [POLL, STREAM])
    keep_jobs(database, {POLL.name})
    assert list_jobs(database) == [POLL]
    keep_jobs(database, [])
    assert list_jobs(database) == []


def test_a_service_is_running_while_its_holder_lives_and_sends_heartbeats(
    database: Database, clock: ManualClock
) -> None:
    assert read_service(database, clock.now_ms()).holder is None
    us = ProcessIdentity.current()
    lease = acquire(
        LeaseTable(database), LEASE, us, "lore service", clock, stale_after_ms=600_000, is_dead=is_dead
    )  # fmt: skip
    save_jobs(database, [replace(POLL, succeeded_at=clock.now_ms())])
    status = read_service(database, clock.now_ms() + 1000)
    assert status.holder is not None
    assert status.holder.holder == us
    assert status.health.ok
    assert not read_service(database, clock.now_ms() + 61_000).health.ok
    assert read_service(database, clock.now_ms() + 601_000).holder is None, "silent for too long"
    lease.release()
    assert read_service(database, clock.now_ms()).holder is None


def test_all_counts_of_an_empty_database_are_zero(database: Database, clock: ManualClock) -> None:
    totals = read_totals(database, clock.now_ms())
    assert (dict(totals.pulls), dict(totals.accounts)) == ({}, {})
    plain = [name for name in totals.__struct_fields__ if name not in ("pulls", "accounts")]
    assert {getattr(totals, name) for name in plain} == {0}
    assert not lacks_vectors(database)
    assert not has_answers_to_send(database, [1], clock.now_ms())


def test_waiting_work_is_counted(database: Database, clock: ManualClock) -> None:
    add_project(database)
    with database.transaction() as tx:
        mark(tx, "issue", [1, 2, 3], clock.now_ms())
    overview = read_overview(database, clock.now_ms())
    assert overview.totals.documents_waiting == 3
    assert overview.runs == []


def test_all_metrics_are_parsed_by_the_prometheus_client(database: Database, clock: ManualClock) -> None:
    save_budgets(database, [BudgetRow(name, 10, None, clock.now_ms()) for name in ("hub", points_of("hub"))])
    save_jobs(database, [POLL, STREAM, replace(POLL, name='odd "name" \\ \n', requests=5)])
    count_received(database, {("hub", "accepted"): 3})
    with database.transaction() as tx:
        add_to_counter(tx, MISSED, {"source": "hub"}, 1)
    us, name = ProcessIdentity.current(), f"{WORKER_PREFIX}here"
    acquire(LeaseTable(database), name, us, "lore worker", clock, stale_after_ms=600_000, is_dead=is_dead)
    families = {
        family.name: family for family in text_string_to_metric_families(render(collect_all(database, clock.now_ms())))
    }
    for metric in REGISTRY:
        if metric.name == QUEUE:
            # Made by the first worker on PostgreSQL.
            continue
        family = families[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
        assert family.type == metric.kind
        assert {tuple(sorted(sample.labels)) for sample in family.samples} == {tuple(sorted(metric.labels))}
    assert [sample.value for sample in families["lore_hooks_received"].samples] == [3]
    (hub,) = [sample for sample in families["lore_requests"].samples if sample.labels["source"] == "hub"]
    assert hub.value == 12
    assert 'odd "name" \\ \n' in {sample.labels["job"] for sample in families["lore_job_running"].samples}
    assert "feedback_events_ingested" in families


@pytest.mark.parametrize(
    ("remaining", "allowed", "low"), [(500, 5000, False), (499, 5000, True), (1, None, False), (0, None, True)]
)
def test_a_rate_limit_below_a_tenth_is_low(remaining: int, allowed: int | None, low: bool) -> None:
    assert BudgetRow("hub", remaining, None, 0, allowed).is_low is low


def test_a_rate_limit_is_shown_until_it_is_reset(database: Database, clock: ManualClock) -> None:
    now = clock.now_ms()
    save_budgets(database, [BudgetRow("hub", 4000, now + 60_000, now), BudgetRow("lab", 7, None, now)])
    save_budgets(database, [BudgetRow("hub", 3999, now + 60_000, now + 1, 5000)])
    save_budgets(database, [])
    assert list_budgets(database) == [
        BudgetRow("hub", 3999, now + 60_000, now + 1, 5000),
        BudgetRow("lab", 7, None, now),
    ]
    assert {name: left.remaining for name, left in read_service(database, now).budgets.items()} == {
        "hub": 3999,
        "lab": 7,
    }
    assert list(read_service(database, now + 60_000).budgets) == ["lab"]
    families = {found.name: found for found in text_string_to_metric_families(render(collect_all(database, now)))}
    left = {sample.labels["source"]: sample.value for sample in families["lore_source_requests_left"].samples}
    assert left == {"hub": 3999, "lab": 7}
