"""Cursors and gaps come back as they were saved, and an operator's reset forgets only the position."""

from __future__ import annotations

import msgspec
import pytest
from tests.databases.samples import add_project, scope_of

from tidelore.core.model import Position, Scope
from tidelore.engine.cursor import Census, Cursor, Gap, Validator, Window
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import (
    last_polled,
    list_cursors,
    load_cursor,
    load_gaps,
    reset_cursor,
    save_cursor,
    save_gaps,
    set_aside,
)
from tidelore.store.mirror.projects import list_projects

NOW = 1_772_000_000_000
URI = "at://did:plc:abc/app.bsky.feed.post/3k"
FULL = Cursor(
    watermark=Position(NOW - 5, 41),
    window=Window(instant=NOW, since=NOW - 9, token="page=3", pages=2, passes=1, seen="ab", before="cd",
                  top=Position(NOW, 44)),
    validator=Validator("https://forge.test/api?page=1", 'W/"x:y%"'),
    complete=True,
    census=Census(after=17, started_at=NOW - 100, verified_at=NOW - 50),
)  # fmt: skip


@pytest.fixture
def scope(database: Database) -> Scope:
    return scope_of(add_project(database))


def save(database: Database, scope: Scope, cursor: Cursor, now_ms: int = NOW) -> None:
    with database.transaction() as tx:
        save_cursor(tx, scope, cursor, now_ms)


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(),
        Cursor(watermark=Position(0, 0)),
        Cursor(watermark=Position(NOW, URI), complete=True),
        Cursor(window=Window(instant=NOW, since=None, top=Position(NOW, URI))),
        Cursor(census=Census(after=5)),
        FULL,
    ],
    ids=["empty", "epoch", "text-id", "window-without-watermark", "census-only", "everything"],
)
def test_a_cursor_is_read_back_as_saved(database: Database, scope: Scope, cursor: Cursor) -> None:
    save(database, scope, cursor)
    assert load_cursor(database, scope) == cursor


def test_a_scope_that_was_never_saved_has_an_empty_cursor(database: Database, scope: Scope) -> None:
    assert load_cursor(database, scope) == Cursor()


def test_saving_a_cursor_again_replaces_every_part(database: Database, scope: Scope) -> None:
    save(database, scope, FULL)
    save(database, scope, Cursor(watermark=Position(NOW, 50)))
    assert load_cursor(database, scope) == Cursor(watermark=Position(NOW, 50))
    assert len(list_cursors(database)) == 1


def test_scopes_do_not_share_a_cursor(database: Database, scope: Scope) -> None:
    other = msgspec.structs.replace(scope, surface="gitlab.merge_requests")
    save(database, scope, FULL)
    assert load_cursor(database, other) == Cursor()


def test_an_unreadable_window_is_dropped_and_the_watermark_kept(database: Database, scope: Scope) -> None:
    save(database, scope, FULL)
    with database.transaction() as tx:
        tx.execute("UPDATE cursors SET reading = '{not json'")
    assert load_cursor(database, scope) == msgspec.structs.replace(FULL, window=None)


def test_the_content_of_an_invalid_cursor_is_kept_through_the_next_save(database: Database, scope: Scope) -> None:
    save(database, scope, FULL)
    with database.transaction() as tx:
        set_aside(tx, scope, "lies in the future", NOW + 1)
    save(database, scope, Cursor(watermark=Position(7, 7)), NOW + 2)
    (row,) = list_cursors(database)
    kept = msgspec.json.decode(row.set_aside or "")
    assert (kept["watermark_at"], kept["watermark_id"], kept["reason"]) == (NOW - 5, "41", "lies in the future")
    assert msgspec.json.decode(kept["reading"], type=Window) == FULL.window
    assert (row.set_aside_at, row.watermark_at) == (NOW + 1, 7)


def test_the_cursor_list_shows_project_and_number_of_open_gaps(database: Database, scope: Scope) -> None:
    with database.transaction() as tx:
        save_cursor(tx, scope, FULL, NOW)
        save_gaps(tx, scope, [Gap(None, "t", 1), Gap(None, None, None)], NOW)
    (row,) = list_cursors(database)
    assert (row.project, row.gaps, row.bootstrap_complete, row.polled_at) == ("port/harbour", 2, 1, NOW)
    assert (row.etag, row.url, row.verified_at) == ('W/"x:y%"', "https://forge.test/api?page=1", NOW - 50)


def test_gaps_are_read_back_in_order_and_replaced_as_a_whole(database: Database, scope: Scope) -> None:
    first = [Gap(Position(9, URI), "token", 3), Gap(Position(2, 8), None, None), Gap(None, "t", 0)]
    with database.transaction() as tx:
        save_gaps(tx, scope, first, NOW)
    assert load_gaps(database, scope) == first
    with database.transaction() as tx:
        save_gaps(tx, scope, first[1:2], NOW)
    assert load_gaps(database, scope) == first[1:2]
    with database.transaction() as tx:
        save_gaps(tx, scope, [], NOW)
    assert load_gaps(database, scope) == []


def test_a_cursor_reset_clears_position_and_gaps_of_that_scope_only(database: Database, scope: Scope) -> None:
    other = msgspec.structs.replace(scope, key="2")
    for one in (scope, other):
        with database.transaction() as tx:
            save_cursor(tx, one, FULL, NOW)
            save_gaps(tx, one, [Gap(None, "t", 1)], NOW)
    with database.transaction() as tx:
        assert reset_cursor(tx, scope.source, scope.surface, scope.key)
        assert not reset_cursor(tx, scope.source, scope.surface, scope.key)
    assert (load_cursor(database, scope), load_gaps(database, scope)) == (Cursor(), [])
    assert (load_cursor(database, other), load_gaps(database, other)) == (FULL, [Gap(None, "t", 1)])


def test_the_documented_view_shows_the_cursors_of_forge_lists(database: Database, scope: Scope) -> None:
    save(database, scope, FULL)
    save(database, msgspec.structs.replace(scope, surface="gitlab.merge_requests"), Cursor())
    rows = database.read(
        "SELECT project_id, resource_type, updated_at_cursor, tie_breaker_id FROM sync_cursors ORDER BY resource_type"
    )
    assert rows == [(scope.project_id, "issues", NOW - 5, 41), (scope.project_id, "merge_requests", None, None)]


def test_the_last_poll_time_of_a_list_is_found_by_project_name(database: Database, scope: Scope) -> None:
    project = list_projects(database)[0]
    assert last_polled(database, [scope.source]) == {}
    save(database, scope, FULL, NOW - 7)
    save(database, Scope(scope.source, "gitlab.elsewhere", "9", None, "x"), FULL)
    # A project that was made anew goes by the same name, and has a position of its own.
    save(database, Scope(scope.source, scope.surface, "99", scope.project_id, scope.title), FULL, NOW)
    assert last_polled(database, [scope.source]) == {(scope.source, project.configured, scope.surface): NOW}
    assert last_polled(database, ["another"]) == {}
    assert last_polled(database, []) == {}
