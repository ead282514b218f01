"""`lore count`: the lines people read, the numbers programs get, and what is refused."""

from __future__ import annotations

import pytest
from tests.databases.feeds import MIRA, post, share
from tests.databases.samples import CREATED, add_project, issue, merge_request, scope_of, topic
from tests.databases.talk import (
    DIFFS,
    DISCUSSIONS,
    RESOURCE_EVENTS,
    attach,
    discussion,
    file_change,
    keep,
    note,
    placed,
    state_event,
)
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare
from tests.support.deep import gate_cases

from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.topics import TopicTable

REQUESTS = 1_234


@pytest.fixture
def filled(desk: Desk) -> Desk:
    """Some merge requests, one of which was deleted with all that was said; one conversation of each kind."""
    database = open_database(str(desk.db))
    migrate(database, 1)
    harbour, quay = add_project(database), add_project(database, 2, "port/quay")
    states = ["opened"] * 89 + ["closed"] * 100 + ["merged"] * (REQUESTS - 189)
    keep(database, harbour, MERGE_REQUESTS, [merge_request(i, iid=i, state=state) for i, state in enumerate(states, 1)])
    keep(database, quay, MERGE_REQUESTS, [merge_request(1)])
    keep(database, harbour, ISSUES, [issue(1), issue(2, state="closed")])
    asked = discussion("a", placed(1, "Why?", "a.py", 3), note(2, "Because."))
    written = discussion("b", note(3, "closed", is_system=True))
    attach(database, harbour, "merge_requests", 1, DISCUSSIONS, asked, written)
    attach(database, quay, "merge_requests", 1, DISCUSSIONS, discussion("c", placed(4, "Gone.", "a.py", 3)))
    attach(database, harbour, "issues", 1, DISCUSSIONS, discussion("d", note(5, "Seen.")))
    attach(database, harbour, "merge_requests", 1, RESOURCE_EVENTS, state_event(1))
    attach(database, harbour, "merge_requests", 1, DIFFS, file_change("a.py", "a.py"), file_change("b.py", "b.py"))
    keep(database, quay, MERGE_REQUESTS, [], gone=[1])
    database.close()
    return desk


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["mrs", "-p", "harbour"],
            "Merge Requests: 1,234\n  opened: 89\n  merged: 1,045\n  closed: 100\n",
        ),
        (["issues"], "Issues: 2\n  opened: 1\n  closed: 1\n"),
        (["mrs", "-p", "quay"], "Merge Requests: 0\n  (and 1 deleted)\n"),
        (["discussions", "--type", "mr"], "MR Discussions: 2\n"),
        (["discussions", "--type=issue"], "Issue Discussions: 1\n"),
        (["discussions"], "Discussions: 3\n  Issue Discussions: 1\n  MR Discussions:    2\n"),
        (
            ["notes", "--type", "mr"],
            "MR Notes: 2 (excluding 1 system notes)\nDiffNotes: 1 (with file position metadata)\n",
        ),
        (["notes", "--type", "issue"], "Issue Notes: 1 (excluding 0 system notes)\n"),
        (
            ["notes"],
            (
                "Notes: 3 (excluding 1 system notes)\n  Issue Notes: 1 (excluding 0 system notes)\n"
                "  MR Notes: 2 (excluding 1 system notes)\nDiffNotes: 1 (with file position metadata)\n"
            ),
        ),
        (["events", "--type", "mr"], "MR Events: 1\n  state:     1\n  label:     0\n  milestone: 0\n  timeline:  0\n"),
        (["files"], "Changed Files: 2\n"),
    ],
)
@gate_cases(5)
def test_a_count_is_printed_line_by_line(filled: Desk, argv: list[str], said: str) -> None:
    assert filled.run("count", *argv).out == said


def test_robot_mode_gives_the_total_and_its_parts(filled: Desk) -> None:
    assert filled.robot("count", "notes").data == {
        "project": None,
        "notes": {
            "total": 3,
            "system": 1,
            "diff_notes": 1,
            "by_type": {
                "issue": {"total": 1, "system": 0, "diff_notes": 0},
                "mr": {"total": 2, "system": 1, "diff_notes": 1},
            },
        },
    }
    assert filled.robot("count", "discussions", "--type", "mr", "-p", "harbour").data == {
        "project": "port/harbour",
        "discussions": {"total": 2, "by_type": {"mr": 2}},
    }


def test_every_count_answers_with_the_documented_fields(filled: Desk) -> None:
    kinds = [[], ["topics"], ["discussions"], ["notes"], ["events"], ["files"], ["posts"]]
    database = filled.store()
    try:
        share(database, post(MIRA, "a"))
        scope = scope_of(add_project(database), "github.topics")
        PageWriter(database, scope, TopicTable(), lambda: CREATED).commit(Batch([topic(1)], Cursor()))
    finally:
        database.close()
    compare("count", *(filled.robot("count", *kind).data for kind in kinds))


@pytest.mark.parametrize("argv", [["--type", "mr"], ["mrs", "--type", "mr"], ["files", "--type", "issue"]])
def test_count_refuses_a_type_filter_where_it_does_not_apply(filled: Desk, argv: list[str]) -> None:
    done = filled.robot("count", *argv)
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert "discussions, notes, events" in done.error["fix"]
