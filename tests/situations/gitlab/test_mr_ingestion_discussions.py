"""The integration tests the seed names for the discussions of merge requests: watermarks, replacement, positions."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench, request_of, spoil_note, start_thread, true_bodies

from tidelore_world.gitlab.review import image_position, text_position
from tidelore_world.gitlab.state import MergeRequest, Position
from tidelore_world.wire import Request

DISCUSSIONS = r"/merge_requests/\d+/discussions$"
ROUTE = "GET /projects/:id/merge_requests/:iid/discussions"

PROGRESS = "child_sync WHERE parent_kind = 'merge_requests' AND kind = 'discussions'"


@pytest.fixture
def request_with_thread(bench: Bench) -> MergeRequest:
    """A merge request with three notes in one thread, mirrored and settled."""
    found = bench.world.gitlab.create_merge_request(PROJECT)
    start_thread(bench.world, found, "first", "second", "third", each_seconds=120)
    bench.world.advance(DAY)
    bench.mirror()
    assert bench.bodies() == ["first", "second", "third"]
    return found


def test_full_sync_resets_discussion_watermarks(both: Bench) -> None:
    both.world.gitlab.bulk(PROJECT, merge_requests=3, discussions=1, notes=2)
    both.world.advance(DAY)
    both.mirror()
    before = both.column(f"SELECT synced_for FROM {PROGRESS} ORDER BY parent_id")
    assert None not in before
    between: list[list[Any]] = []

    def look(request: Request) -> None:
        if request.path.endswith("/discussions") and not between:
            between.append(both.column(f"SELECT synced_for FROM {PROGRESS}"))

    both.world.before_request.append(look)
    spent = both.counted(lambda: both.mirror("merge_requests", "--full"))
    assert between == [[None] * 3], "all are reset before the first is read again"
    assert spent["discussions"] == 3
    assert both.column(f"SELECT synced_for FROM {PROGRESS} ORDER BY parent_id") == before
    assert "cursors were reset" in both.one("SELECT note FROM sync_runs ORDER BY id DESC LIMIT 1")


def test_skips_discussion_refetch_for_unchanged_mrs(bench: Bench) -> None:
    bench.world.gitlab.bulk(PROJECT, merge_requests=4, discussions=1, notes=1)
    bench.world.advance(DAY)
    assert bench.counted(bench.mirror)["discussions"] == 4
    assert bench.counted(bench.mirror) == {"merge_requests": 1}
    bench.world.gitlab.edit_merge_request(PROJECT, 2)
    bench.world.advance(DAY)
    spent = bench.counted(bench.mirror)
    assert spent["discussions"] == 1
    told = bench.run("ingest", "--type", "merge_requests").out
    assert "Skipped discussion sync for 4 unchanged MRs." in told


def test_captures_diffnote_position_metadata(bench: Bench) -> None:
    forge = bench.world.gitlab
    found = forge.create_merge_request(PROJECT)
    place = Position("b" * 40, "5" * 40, "4" * 40, "src/old.py", "src/new.py", old_line=7, new_line=9)
    forge.add_note(found, "renamed here", position=place)
    bench.mirror()
    held = bench.query(
        "SELECT note_type, position_old_path, position_new_path, position_old_line, position_new_line,"
        " position_base_sha, position_start_sha, position_head_sha FROM notes"
    )
    assert held == [("DiffNote", "src/old.py", "src/new.py", 7, 9, "b" * 40, "5" * 40, "4" * 40)]


def test_removes_stale_discussions_after_successful_pagination(bench: Bench) -> None:
    bench.set_up(per_page=2)
    found = bench.world.gitlab.create_merge_request(PROJECT)
    threads = [start_thread(bench.world, found, f"thread {number}") for number in range(5)]
    bench.world.advance(DAY)
    bench.mirror()
    gone = bench.one(f"SELECT remote_id FROM discussions WHERE remote_id = '{threads[1].id}'")
    bench.world.gitlab.delete_note(found, threads[1].notes[0])
    bench.world.gitlab.edit_merge_request(PROJECT, 1)
    bench.world.advance(DAY)
    bench.mirror()
    assert gone not in bench.column("SELECT remote_id FROM discussions")
    assert bench.bodies() == true_bodies(found)


def test_does_not_advance_discussion_watermark_on_partial_failure(both: Bench) -> None:
    bench = both
    bench.set_up(per_page=2)
    found = bench.world.gitlab.create_merge_request(PROJECT)
    for number in range(3):
        start_thread(bench.world, found, f"thread {number}")
    bench.world.advance(DAY)
    bench.mirror()
    before, said = bench.watermark(), bench.bodies()
    start_thread(bench.world, found, "thread 3")
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", ROUTE, times=1, after=1, status=500)
    outcome = bench.try_mirror()
    assert fault.fired == 1
    assert outcome.code == 7
    assert "details of 1 items" in outcome.error["message"]
    assert bench.watermark() == before
    assert bench.bodies() == said, "the first page was fine, yet nothing of it replaces what we have"
    assert bench.one(f"SELECT last_error FROM {PROGRESS}")
    assert bench.one(f"SELECT attempts FROM {PROGRESS}") == 1
    assert bench.counted(bench.mirror)["discussions"] >= 2, "the next run asks again"
    assert bench.watermark() == bench.one("SELECT updated_at FROM merge_requests")
    assert bench.bodies() == true_bodies(found)
    assert bench.query(f"SELECT attempts, last_error FROM {PROGRESS}") == [(0, None)]


def test_does_not_advance_discussion_watermark_on_note_parse_failure(
    bench: Bench, request_with_thread: MergeRequest
) -> None:
    before = bench.watermark()
    rewrite = bench.world.rewrite(DISCUSSIONS, spoil_note("fourth"))
    bench.world.gitlab.add_note(request_with_thread, "fourth", thread=True)
    bench.world.advance(DAY)
    bench.try_mirror()
    assert rewrite.fired == 1
    assert bench.watermark() == before
    assert bench.bodies() == ["first", "second", "third"]
    bench.world.rewrites.clear()
    bench.mirror()
    assert bench.watermark() != before
    assert bench.bodies() == ["first", "second", "third", "fourth"]


def test_atomic_note_replacement_preserves_data_on_parse_failure(
    bench: Bench, request_with_thread: MergeRequest
) -> None:
    """All three are edited; the second cannot be read: the copy keeps all three as they were."""
    for note in request_with_thread.discussions[0].notes:
        bench.world.gitlab.edit_note(request_with_thread, note, f"{note.body}, edited")
    bench.world.advance(DAY)
    rewrite = bench.world.rewrite(DISCUSSIONS, spoil_note("second, edited"))
    bench.try_mirror()
    assert rewrite.fired == 1
    assert bench.bodies() == ["first", "second", "third"]
    bench.world.rewrites.clear()
    bench.mirror()
    assert bench.bodies() == ["first, edited", "second, edited", "third, edited"]


def test_does_not_store_raw_payload_for_system_notes_without_position(bench: Bench) -> None:
    forge = bench.world.gitlab
    found = forge.create_merge_request(PROJECT)
    forge.edit_merge_request(PROJECT, 1, title="another title")
    note = forge.add_note(found, "by a person")
    bench.mirror()
    assert bench.column("SELECT is_system FROM notes ORDER BY remote_id") == [1, 0]
    assert list(bench.payloads("note")) == [str(note.id)]
    assert bench.column("SELECT raw_payload_id IS NULL FROM notes ORDER BY remote_id") == [True, False]


def test_stores_raw_payload_for_diffnotes_even_if_system(bench: Bench) -> None:
    forge = bench.world.gitlab
    found = forge.create_merge_request(PROJECT)
    place = Position("b" * 40, "5" * 40, "4" * 40, "a.py", "a.py", new_line=3)
    note = forge.add_note(found, "changed this line in version 2 of the diff", position=place, system=True)
    bench.mirror()
    assert bench.query("SELECT is_system, note_type FROM notes") == [(1, "DiffNote")]
    stored = bench.payloads("note")
    assert list(stored) == [str(note.id)]
    assert stored[str(note.id)]["position"]["new_line"] == 3


def test_captures_position_type_and_line_range_for_diffnotes(bench: Bench) -> None:
    forge, rng = bench.world.gitlab, random.Random(3)
    found = forge.create_merge_request(PROJECT)
    span = text_position(rng, found, found.diffs[0], 48)
    span.old_line, span.new_line, span.first_old_line, span.first_new_line = None, 48, None, 45
    forge.add_note(found, "these lines", position=span)
    forge.add_note(found, "this picture", position=image_position(rng, found))
    bench.mirror()
    held = bench.query(
        "SELECT position_type, position_line_range_start, position_line_range_end FROM notes ORDER BY remote_id"
    )
    assert held == [("text", 45, 48), ("image", None, None)]
    assert request_of(bench.world) is found
