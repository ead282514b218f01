"""Lists with every filter, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.samples import CREATED, add_project, issue, merge_request, scope_of

from tidelore.core.model import Item
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.reading.lists import ListFilter, list_parents

CHANGES = [
    merge_request(1, CREATED + 10, state="merged", author_username="arjun", labels=("bug", "ledger")),
    merge_request(2, CREATED + 20, draft=True, assignees=("mira",), labels=("bug",), target_branch="release"),
    merge_request(3, CREATED + 30, reviewers=("yara", "mira"), source_branch="fix/gaps", milestone_title="Q2"),
    merge_request(4, CREATED + 30, state="locked", created_at=CREATED + 5),
]


def keep(database: Database, project: ProjectRow, family: Family, items: list[Item[Any]], **more: Any) -> None:
    writer = PageWriter(database, scope_of(project, f"gitlab.{family.table}"), family, lambda: CREATED + 99)
    writer.commit(Batch(items, Cursor(), **more))


@pytest.fixture
def filled(database: Database) -> Database:
    keep(database, add_project(database), MERGE_REQUESTS, CHANGES)
    keep(database, add_project(database, 2, "port/lighthouse"), MERGE_REQUESTS, [merge_request(2001, CREATED + 5)])
    return database


def numbers(database: Database, **wanted: Any) -> list[int]:
    return [item.iid for item in list_parents(database, MERGE_REQUEST, ListFilter(**wanted)).items]


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [4, 3, 2, 1, 1]),
    ({"state": "merged"}, [1]),
    ({"state": "locked"}, [4]),
    ({"draft": True}, [2]),
    ({"draft": False}, [4, 3, 1, 1]),
    ({"author": "arjun"}, [1]),
    ({"assignee": "mira"}, [2]),
    ({"reviewer": "mira"}, [3]),
    ({"target_branch": "release"}, [2]),
    ({"source_branch": "fix/gaps"}, [3]),
    ({"milestone": "Q2"}, [3]),
    ({"labels": ("bug",)}, [2, 1]),
    ({"labels": ("bug", "ledger")}, [1]),
    ({"labels": ("none",)}, []),
    ({"since": CREATED + 20}, [4, 3, 2]),
    ({"sort": "created", "ascending": True, "limit": 1}, [1]),
    ({"sort": "created", "limit": 1}, [4]),
    ({"ascending": True}, [1, 1, 2, 3, 4]),
    ({"author": "' OR 1=1 --"}, []),
]


def test_issues_with_a_status_are_found_through_the_index_that_has_only_those(database: Database) -> None:
    keep(database, add_project(database), ISSUES, [issue(number, CREATED + number) for number in range(1, 41)])
    explain = {"sqlite": "EXPLAIN QUERY PLAN", "postgres": "EXPLAIN"}[database.dialect]
    with database.transaction() as tx:
        tx.execute("UPDATE issues SET status_name = 'Ready' WHERE iid = 7")
        if database.dialect == "postgres":
            # So few rows it would rather read whole.
            tx.execute("SET LOCAL enable_seqscan = off")
        plan = tx.execute(
            f"{explain} SELECT COUNT(*) FROM issues t WHERE t.deleted_at IS NULL AND t.project_id = :project_id"
            " AND t.status_name = :status",
            {"project_id": 1, "status": "Ready"},
        )
    assert "idx_issues_status_name" in " ".join(str(row[-1]) for row in plan)
    found = list_parents(database, ISSUE, ListFilter(status="Ready", project_id=1))
    assert ([item.iid for item in found.items], found.total) == ([7], 1)


def test_each_list_filter_restricts_the_result(filled: Database) -> None:
    found = [(wanted, numbers(filled, **wanted)) for wanted, _ in FILTERS]
    assert found == FILTERS


def test_a_list_of_one_project_shows_its_own_rows_with_their_labels(filled: Database) -> None:
    page = list_parents(filled, MERGE_REQUEST, ListFilter(project_id=1, state="merged"))
    assert [(item.project, item.iid, item.labels) for item in page.items] == [("port/harbour", 1, ("bug", "ledger"))]


@pytest.mark.parametrize("sort", ["updated", "created"])
@pytest.mark.parametrize("ascending", [False, True])
def test_list_pages_have_no_gap_and_no_repetition(filled: Database, sort: str, *, ascending: bool) -> None:
    whole = list_parents(filled, MERGE_REQUEST, ListFilter(sort=sort, ascending=ascending))
    assert whole.next is None
    seen: list[int] = []
    after = None
    for _ in range(3):
        page = list_parents(filled, MERGE_REQUEST, ListFilter(sort=sort, ascending=ascending, limit=2, after=after))
        assert page.total == 5
        seen += [item.id for item in page.items]
        after = page.next
    assert after is None
    assert seen == [item.id for item in whole.items]


def test_deleted_items_are_listed_only_on_request(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2)])
    keep(database, project, ISSUES, [], gone=[1])
    alive = list_parents(database, ISSUE, ListFilter())
    buried = list_parents(database, ISSUE, ListFilter(deleted=True))
    assert [item.iid for item in alive.items] == [2]
    assert [(item.iid, item.deleted_at) for item in buried.items] == [(1, CREATED + 99)]


def test_the_total_of_a_state_leaves_out_deleted_items(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2), issue(3, state="closed")])
    keep(database, project, ISSUES, [], gone=[1])
    assert list_parents(database, ISSUE, ListFilter(state="opened")).total == 1
    assert list_parents(database, ISSUE, ListFilter(state="opened", deleted=True)).total == 1
    assert list_parents(database, ISSUE, ListFilter(state="opened", author="nobody")).total == 0
    assert list_parents(database, MERGE_REQUEST, ListFilter(state="opened")).total == 0
