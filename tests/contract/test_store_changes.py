"""Changes numbered in the order of commits: none missed, none repeated, however readers and writers interleave."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from tests.databases.review import LAB, lay_out_hub, lay_out_lab
from tests.databases.samples import CREATED, add_project, issue, topic
from tests.databases.talk import DISCUSSIONS, attach, discussion, keep, note

from tidelore.core.model import Scope
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database.port import Database
from tidelore.store.mirror.changes import note_changes
from tidelore.store.mirror.comments import remove_comments
from tidelore.store.mirror.documents import mark_parents
from tidelore.store.mirror.kinds import ISSUE
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, bury
from tidelore.store.mirror.topics import TopicTable
from tidelore.store.reading.changes import changes_by_number, changes_by_time, new_notes, newest_change


def since(database: Database, seq: int) -> list[tuple[str, int]]:
    keys, _ = changes_by_number(database, seq, newest_change(database).seq, None, None, 1000)
    return sorted((key.type, key.id) for key in keys)


def test_every_stored_change_moves_its_item_and_nothing_else(database: Database) -> None:
    project = lay_out_lab(database)
    ((first,), (second,)) = database.read("SELECT id FROM merge_requests WHERE iid < 3 ORDER BY iid")
    begin = newest_change(database).seq
    assert since(database, begin) == []
    attach(database, project, "merge_requests", 2, DISCUSSIONS, discussion("foreign", note(60, "Bluer.")))
    assert since(database, begin) == [("merge_request", second)]
    keep(database, project, ISSUES, [issue(3, title="The crane is far too fast", updated_at=CREATED + 5)])
    scope = Scope("gitlab", "gitlab.issues", "1", project.id, LAB)
    with database.transaction() as tx:
        bury(tx, scope, ISSUE, [row_id for (row_id,) in tx.execute("SELECT id FROM issues")], CREATED + 200)
    assert [kind for kind, _ in since(database, begin)] == ["issue", "merge_request"]
    PageWriter(database, Scope("github", "github.topics", "1", project.id, LAB), TopicTable(), lambda: 1).commit(
        Batch([topic(901)], Cursor())
    )
    assert [kind for kind, _ in since(database, begin)] == ["issue", "merge_request", "topic"]
    assert ("merge_request", first) not in since(database, begin)


def test_a_removed_comment_moves_its_item(database: Database) -> None:
    lay_out_hub(database)
    ((note_id, project_id, request),) = database.read(
        "SELECT n.id, n.project_id, d.merge_request_id FROM notes n JOIN discussions d ON d.id = n.discussion_id"
        " WHERE n.remote_id = 400"
    )
    begin = newest_change(database).seq
    with database.transaction() as tx:
        remove_comments(tx, project_id, [note_id], CREATED)
    assert since(database, begin) == [("merge_request", request)]


def test_a_transaction_that_is_rolled_back_leaves_no_change_and_no_gap_that_hides_one(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2)])
    begin = newest_change(database).seq

    def fail() -> None:
        with database.transaction() as tx:
            mark_parents(tx, ISSUE, [1], CREATED)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert newest_change(database).seq == begin
    with database.transaction() as tx:
        tx.execute("UPDATE issues SET title = 'x' WHERE id = 2")
    assert since(database, begin) == []
    with database.transaction() as tx:
        mark_parents(tx, ISSUE, [2], CREATED)
    assert since(database, begin) == [("issue", 2)]


def test_a_reader_beside_two_writers_sees_every_change_exactly_once(connect: Callable[[], Database]) -> None:
    database = connect()
    keep(database, add_project(database), ISSUES, [issue(number) for number in range(1, 41)])
    seen: dict[int, int] = dict.fromkeys(range(1, 41), 0)
    position = newest_change(database).seq
    failures: list[BaseException] = []

    def write(numbers: list[int], seed: int) -> None:
        own = connect()
        try:
            for number in random.Random(seed).sample(numbers, len(numbers)):
                with own.transaction() as tx:
                    note_changes(tx, "issue", [number], CREATED)
                    # Rows that both writers touch, before and after noting the change: no circle of locks arises.
                    tx.execute("UPDATE projects SET name = name WHERE id = 1")
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)
        finally:
            own.close()

    halves = (list(range(1, 21)), list(range(21, 41)))
    writers = [threading.Thread(target=write, args=(half, seed)) for seed, half in enumerate(halves)]
    for writer in writers:
        writer.start()
    while True:
        is_over = not any(writer.is_alive() for writer in writers)
        until = newest_change(database).seq
        for key in changes_by_number(database, position, until, None, None, 1000)[0]:
            seen[key.id] += 1
        position = until
        if is_over:
            break
    assert failures == []
    assert set(seen.values()) == {1}


def test_pages_list_each_item_of_the_window_once_while_items_move_out_of_it(database: Database) -> None:
    keep(database, add_project(database), ISSUES, [issue(number) for number in range(1, 31)])
    until = newest_change(database).seq
    listed: list[int] = []
    before = None
    moved = {4, 9, 17}
    for _ in range(9):
        page, _ = changes_by_number(database, 0, until, None, before, 7)
        if not page:
            break
        listed += [key.id for key in page]
        before = page[-1].place
        with database.transaction() as tx:
            note_changes(tx, "issue", moved, CREATED)
    later = [key.id for key in changes_by_number(database, until, newest_change(database).seq, None, None, 99)[0]]
    assert len(listed) == len(set(listed))
    assert set(listed) | set(later) == set(range(1, 31))
    assert set(later) == moved


def test_changes_by_time_are_those_that_happened_since_then(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1, CREATED), issue(2, CREATED + 50), issue(3, CREATED)])
    with database.transaction() as tx:
        tx.execute("UPDATE issues SET deleted_at = :at WHERE iid = 3", {"at": CREATED + 70})
    until = newest_change(database).seq
    assert [key.id for key in changes_by_time(database, CREATED + 50, until, None)] == [3, 2]
    assert changes_by_time(database, CREATED + 50, until, project.id + 1) == []
    assert changes_by_time(database, CREATED + 50, 0, None) == []


def test_new_notes_are_those_stored_or_written_after_an_instant(database: Database) -> None:
    project = lay_out_lab(database)
    ((row_id,),) = database.read("SELECT id FROM merge_requests WHERE iid = 2")
    with database.transaction() as tx:
        tx.execute("UPDATE raw_payloads SET fetched_at = 1")
    added = [discussion("foreign", note(60, "Too blue."), note(61, "No."), note(62, "Really."))]
    attach(database, project, "merge_requests", 2, DISCUSSIONS, *added)
    stored = new_notes(database, "merge_request", [row_id], stored_after=CREATED)
    assert [said.body for said in stored[row_id]] == ["Really."]
    written = new_notes(database, "merge_request", [row_id], since_ms=CREATED + 61)
    assert [said.body for said in written[row_id]] == ["No.", "Really."]
