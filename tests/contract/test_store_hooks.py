"""Stored webhook deliveries on both databases: each once, read together, forgotten in time."""

from __future__ import annotations

from tests.databases.samples import add_project

from tidelore.store.database.port import Database
from tidelore.store.work.hooks import (
    LATE_MS,
    Delivery,
    Kind,
    count_missed,
    forget_deliveries,
    give_up_waiting,
    live_projects,
    mark_read,
    save_deliveries,
    waiting_projects,
)

REMOTE = 1


def delivery(
    name: str, number: int | None = 5, *, kind: Kind = "issues", silent: bool = False, at: int = 1000
) -> Delivery:
    return Delivery("gitlab", name, REMOTE, None if number is None else kind, number, silent, at)


def known(database: Database) -> dict[int, int]:
    add_project(database, REMOTE)
    ((project_id,),) = database.read("SELECT id FROM projects")
    with database.transaction() as tx:
        tx.execute("UPDATE projects SET source = 'gitlab'")
    return {REMOTE: project_id}


def test_a_delivery_is_stored_once_and_one_of_an_unknown_project_not_at_all(database: Database) -> None:
    projects = known(database)
    assert save_deliveries(database, [delivery("a"), delivery("b"), delivery("a")], projects) == [
        "accepted",
        "accepted",
        "duplicate",
    ]
    assert save_deliveries(database, [delivery("b"), delivery("c")], {}) == ["unknown", "unknown"]
    assert save_deliveries(database, [delivery("b")], projects) == ["duplicate"]
    assert database.read("SELECT COUNT(*) FROM hook_deliveries") == [(2,)]


def test_waiting_deliveries_of_a_project_are_one_read_and_later_ones_wait_on(database: Database) -> None:
    projects = known(database)
    first = [
        delivery("a", 5),
        delivery("b", 5, silent=True),
        delivery("c", 6, kind="merge_requests", silent=True),
        delivery("d", None),
        delivery("e", 5, silent=True),
    ]
    save_deliveries(database, first, projects)
    assert waiting_projects(database, "elsewhere", 9) == []
    (found,) = waiting_projects(database, "gitlab", 9)
    assert found.silent == {"issues": {5}, "merge_requests": {6}}
    save_deliveries(database, [delivery("f", 7)], projects)
    mark_read(database, [found], 2000)
    (left,) = waiting_projects(database, "gitlab", 9)
    assert left.silent == {}
    assert give_up_waiting(database, "gitlab", 1000, 3000) == 0
    assert give_up_waiting(database, "gitlab", 1001, 3000) == 1
    assert waiting_projects(database, "gitlab", 9) == []


def test_forgotten_deliveries_leave_the_project_known_as_one_with_hooks(database: Database) -> None:
    projects = known(database)
    save_deliveries(database, [delivery("a", at=1000), delivery("b", at=5000)], projects)
    assert forget_deliveries(database, 5000) == 1
    assert database.read("SELECT first_at, last_at, checked_until FROM hook_projects") == [(1000, 5000, 1000)]
    assert count_missed(database, "gitlab", 1000 + LATE_MS) == 0, "nothing is compared before its time"
    assert count_missed(database, "gitlab", 9000 + LATE_MS) == 0
    assert database.read("SELECT checked_until FROM hook_projects") == [(9000,)]


def test_webhooks_work_until_they_fall_silent_or_miss_a_change(database: Database) -> None:
    projects = known(database)
    assert live_projects(database, 0) == set()
    save_deliveries(database, [delivery("a", at=5000)], projects)
    assert live_projects(database, 5000) == set(projects.values())
    assert live_projects(database, 5001) == set(), "silent for too long"
    with database.transaction() as tx:
        tx.execute("UPDATE hook_projects SET missed_at = 6000")
    assert live_projects(database, 0) == set()
    save_deliveries(database, [delivery("b", at=7000)], projects)
    assert live_projects(database, 0) == set(projects.values()), "the next delivery shows that they work"
