"""Discussions and notes as GitLab sends them: positions, resolution, and what is refused and how it is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidelore.core.model import DiscussionRecord, NoteRecord
from tidelore.sources.gitlab.transform import read_discussion, transform_discussion
from tidelore_world.gitlab.review import image_position
from tidelore_world.gitlab.state import MergeRequest, Position
from tidelore_world.world import World

AT = 1_772_442_000_123
PLACE: dict[str, Any] = {
    "base_sha": "b" * 40,
    "start_sha": "c" * 40,
    "head_sha": "d" * 40,
    "old_path": "src/crane.py",
    "new_path": "src/crane.py",
    "position_type": "text",
    "old_line": None,
    "new_line": 45,
    "line_range": None,
}


def note(remote_id: int = 12, **fields: Any) -> dict[str, Any]:
    return {
        "id": remote_id,
        "type": "DiscussionNote",
        "body": "The brake is late.",
        "author": {"id": 1, "username": "mira"},
        "created_at": "2026-03-02T09:00:00.123Z",
        "updated_at": "2026-03-02T10:00:00.456+01:00",
        "system": False,
        **fields,
    }


def encoded(*notes: Any, **fields: Any) -> bytes:
    return json.dumps({"id": "6a9c", "individual_note": False, "notes": notes, **fields}).encode()


def discussion(*notes: Any, **fields: Any) -> DiscussionRecord:
    return transform_discussion(encoded(*notes, **fields))


def only(**fields: Any) -> NoteRecord:
    (found,) = discussion(note(**fields)).notes
    return found


def placed(**fields: Any) -> NoteRecord:
    return only(type="DiffNote", position={**PLACE, **fields})


def span(start: Any, end: Any) -> tuple[int | None, int | None]:
    found = placed(line_range={"start": start, "end": end})
    return found.position_line_range_start, found.position_line_range_end


def reviewed(place: Callable[[World, MergeRequest], Position]) -> NoteRecord:
    """Return our record of a remark on a diff, as the simulated server sends it."""
    world = World()
    world.gitlab.create_project("g/p")
    request = world.gitlab.create_merge_request("g/p")
    world.gitlab.add_note(request, position=place(world, request))
    payload = world.gitlab.truth_discussions("merge_requests", "g/p", request.iid)[-1]
    return transform_discussion(json.dumps(payload).encode()).notes[0]


def test_extracts_diffnote_position_metadata() -> None:
    start = {"line_code": "ab_0_45", "type": "new", "old_line": None, "new_line": 45}
    end = {"line_code": "ab_0_48", "type": "new", "old_line": None, "new_line": 48}
    found = placed(new_line=48, line_range={"start": start, "end": end})
    assert (found.note_type, found.position_type, found.is_placed) == ("DiffNote", "text", True)
    assert (found.position_base_sha, found.position_start_sha, found.position_head_sha) == (
        "b" * 40,
        "c" * 40,
        "d" * 40,
    )
    assert (found.position_old_line, found.position_new_line) == (None, 48)
    assert (found.position_line_range_start, found.position_line_range_end) == (45, 48)


@pytest.mark.parametrize("fields", [{}, {"position": None}, {"position": {}}])
def test_handles_notes_without_position(fields: dict[str, Any]) -> None:
    found = only(**fields)
    assert not found.is_placed
    values = [getattr(found, name) for name in found.__struct_fields__ if name.startswith("position_")]
    assert values == [*[None] * 10, False]


def test_extracts_old_path_and_new_path() -> None:
    found = placed(old_path="docs/quay.md", new_path="docs/quay.md")
    assert (found.position_old_path, found.position_new_path) == ("docs/quay.md", "docs/quay.md")


@pytest.mark.parametrize(("old", "new"), [(None, 45), (27, None), (27, 29), (None, None)])
def test_extracts_line_numbers(old: int | None, new: int | None) -> None:
    found = placed(old_line=old, new_line=new)
    assert (found.position_old_line, found.position_new_line) == (old, new)


def test_handles_renamed_files_in_diffnote() -> None:
    found = placed(old_path="src/winch.py", new_path="src/crane.py", old_line=3, new_line=4)
    assert (found.position_old_path, found.position_new_path) == ("src/winch.py", "src/crane.py")
    assert (found.position_old_line, found.position_new_line) == (3, 4)


@pytest.mark.parametrize(("old", "new"), [(None, "src/new.py"), ("src/gone.py", None)])
def test_a_position_with_only_one_path_is_accepted(old: str | None, new: str | None) -> None:
    found = placed(old_path=old, new_path=new)
    assert (found.is_placed, found.position_old_path, found.position_new_path) == (True, old, new)


@pytest.mark.parametrize(
    ("notes", "resolvable", "resolved"),
    [
        ([{}], False, False),
        ([{"resolvable": False, "resolved": True}], False, False),
        ([{"resolvable": True, "resolved": False}], True, False),
        ([{"resolvable": True, "resolved": True}], True, True),
        ([{"resolvable": True, "resolved": True}, {"resolvable": True, "resolved": False}], True, False),
        ([{"resolvable": True, "resolved": True}, {"resolvable": True}], True, False),
        ([{"resolvable": True, "resolved": True}, {"resolvable": False}, {"system": True}], True, True),
        ([{"resolvable": None, "resolved": None}], False, False),
    ],
)
def test_computes_resolved_state_for_mr_discussions(
    notes: list[dict[str, Any]], resolvable: bool, resolved: bool
) -> None:
    found = discussion(*(note(number, **fields) for number, fields in enumerate(notes)))
    assert (found.resolvable, found.resolved) == (resolvable, resolved)


def test_resolver_and_resolution_time_of_a_note_are_kept() -> None:
    found = only(
        resolvable=True, resolved=True, resolved_by={"username": "jonas"}, resolved_at="2026-03-02T09:00:00.123Z"
    )
    assert (found.resolved_by, found.resolved_at) == ("jonas", AT)
    assert (only(resolved_by=None, resolved_at=None).resolved_by, only().resolved_at) == (None, None)


@pytest.mark.parametrize(("sent", "kept"), [(True, True), (False, False), (None, False)])
def test_handles_individual_note_mr_discussions(sent: bool | None, kept: bool) -> None:
    found = discussion(note(type=None), individual_note=sent)
    assert found.individual_note is kept
    assert [(one.note_type, one.position) for one in found.notes] == [(None, 0)]


def test_notes_keep_their_order_their_texts_and_their_own_payloads() -> None:
    first, second = note(12, body="Über 100 % 🚢"), note(7, body=None, author=None, system=True)
    payload = encoded(first, second)
    found = transform_discussion(payload)
    assert [(one.position, one.remote_id, one.body) for one in found.notes] == [(0, 12, "Über 100 % 🚢"), (1, 7, "")]
    assert [one.author_username for one in found.notes] == ["mira", None]
    assert [one.is_system for one in found.notes] == [False, True]
    assert [json.loads(one.payload) for one in found.notes] == [first, second]
    assert all(one.payload in payload for one in found.notes)


def test_a_discussion_spans_its_first_and_last_note_whatever_their_order() -> None:
    late = note(12, created_at="2026-03-02T09:00:05Z", updated_at="2026-03-02T09:00:06Z")
    early = note(13, created_at="2026-03-02T09:00:01Z", updated_at="2026-03-02T09:00:09Z")
    payload = encoded(late, early)
    item = read_discussion(payload)
    assert (item.record.first_note_at, item.record.last_note_at) == (1_772_442_001_000, 1_772_442_005_000)
    assert (item.version.id, item.version.updated_at) == ("6a9c", 1_772_442_009_000)
    assert (item.payload, item.at) == (payload, 1_772_442_001_000)


def test_the_version_of_a_discussion_has_neither_milliseconds_nor_line_ranges_nor_unused_fields() -> None:
    whole = {"created_at": "2026-03-02T09:00:05Z", "updated_at": "2026-03-02T09:00:06Z"}
    fine = {"created_at": "2026-03-02T09:00:05.120Z", "updated_at": "2026-03-02T09:00:06.999Z"}
    place = {"position_type": "text", "new_path": "a.py", "new_line": 9}
    ranged = place | {"line_range": {"start": {"new_line": 4}, "end": {"new_line": 9}}}

    def version(**fields: Any) -> bytes:
        return read_discussion(encoded(note(12, **fields))).version.digest

    assert version(**whole, position=place) == version(**fine, position=ranged, imported_from="none")
    changes = ({"updated_at": "2026-03-02T09:00:07Z"}, {"body": "other"}, {"resolvable": True}, {"system": True})
    assert len({version(**(whole | change)) for change in ({}, *changes)}) == 5


def test_a_discussion_without_notes_is_accepted() -> None:
    item = read_discussion(encoded())
    assert (item.record.notes, item.record.first_note_at, item.record.last_note_at) == ((), None, None)
    assert (item.record.resolvable, item.record.resolved, item.at) == (False, False, 0)


@pytest.mark.parametrize(
    ("start", "end", "lines"),
    [
        ({"old_line": None, "new_line": 45}, {"old_line": None, "new_line": 48}, (45, 48)),
        ({"old_line": 9, "new_line": None}, {"old_line": 11, "new_line": None}, (9, 11)),
        ({"old_line": 9, "new_line": 10}, {"old_line": 11, "new_line": 12}, (10, 12)),
        ({"old_line": None, "new_line": None}, {}, (None, None)),
        (None, {"new_line": 4}, (None, 4)),
        ({"new_line": 4}, None, (4, None)),
        ({"new_line": 0}, {"old_line": 0}, (0, 0)),
    ],
)
def test_either_end_of_a_line_range_and_either_side_may_be_null(
    start: Any, end: Any, lines: tuple[int | None, int | None]
) -> None:
    assert span(start, end) == lines


@pytest.mark.parametrize(
    ("code", "side", "line"),
    [
        ("3b9e41c0_10_12", "new", 12),
        ("3b9e41c0_10_12", "old", 10),
        ("3b9e41c0_10_12", None, 12),
        ("3b9e41c0_10_12", "expanded", 12),
        ("3b9e41c0_10", "new", None),
        ("3b9e41c0_10_12_14", "new", None),
        ("3b9e41c0_ten_twelve", "new", None),
        ("3b9e41c0_1_9999999999999999999", "new", None),
        ("3b9e41c0_9999999999999999999_1", "old", None),
        ("", "new", None),
        (None, "new", None),
    ],
)
def test_a_line_range_that_sends_line_codes_only_is_read_from_them(
    code: str | None, side: str | None, line: int | None
) -> None:
    assert span({"line_code": code, "type": side}, {"line_code": code, "type": side}) == (line, line)


def test_the_lines_of_a_range_take_precedence_over_its_line_codes() -> None:
    assert span({"line_code": "ab_1_2", "new_line": 7}, {"line_code": "ab_1_2", "type": "old", "old_line": 8}) == (7, 8)


def test_an_image_position_has_a_path_and_no_lines() -> None:
    found = reviewed(lambda world, request: image_position(world.rng, request))
    assert (found.note_type, found.position_type, found.is_placed) == ("DiffNote", "image", True)
    assert found.position_new_path is not None
    assert (found.position_old_line, found.position_new_line, found.position_line_range_end) == (None, None, None)


def test_an_image_position_with_fractional_coordinates_is_accepted() -> None:
    found = placed(position_type="image", new_line=None, x=12.5, y=0.25, width=1280, height=720)
    assert (found.position_type, found.position_new_line) == ("image", None)


def test_a_file_position_has_a_path_and_no_lines() -> None:
    found = placed(position_type="file", new_line=None)
    assert (found.position_type, found.position_new_path, found.is_placed) == ("file", "src/crane.py", True)
    assert (found.position_old_line, found.position_new_line) == (None, None)


def test_a_line_range_of_the_simulator_is_parsed() -> None:
    shas = ("b" * 40, "c" * 40, "d" * 40)
    found = reviewed(lambda *_: Position(*shas, "a.py", "b.py", old_line=9, first_old_line=4))
    assert (found.position_line_range_start, found.position_line_range_end) == (4, 9)
    assert (found.position_old_path, found.position_new_path) == ("a.py", "b.py")


@pytest.mark.parametrize("value", ["", "soon", "2026-03-02", "2026-03-02T09:00:00", "0000-00-00T00:00:00Z"])
@pytest.mark.parametrize("field", ["created_at", "updated_at", "resolved_at"])
def test_the_error_for_a_bad_time_names_the_note_and_the_field(field: str, value: str) -> None:
    with pytest.raises(ValueError, match=rf"^notes\[1\]: .*`\$\.{field}`$"):
        discussion(note(11), note(12, **{field: value}))


@pytest.mark.parametrize("field", ["created_at", "updated_at", "resolved_at"])
def test_the_error_for_a_time_before_1970_names_the_note_and_the_field(field: str) -> None:
    with pytest.raises(ValueError, match=f"^note 12: {field}: timestamp before 1970: "):
        discussion(note(11), note(12, **{field: "1969-12-31T23:59:59Z"}))


@pytest.mark.parametrize("field", ["created_at", "updated_at"])
def test_a_note_without_timestamps_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=rf"^notes\[1\]: .*{field}"):
        discussion(note(11), {name: value for name, value in note().items() if name != field})


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        (note(body=7), r"\$\.body"),
        (note(id="12"), r"\$\.id"),
        (note(id=2**63), r"\$\.id"),
        (note(created_at=None), r"\$\.created_at"),
        (note(system="no"), r"\$\.system"),
        (note(author={"id": 1}), r"username.*\$\.author"),
        (note(position={**PLACE, "new_line": "45"}), r"\$\.position\.new_line"),
        (note(position={**PLACE, "line_range": {"start": 3}}), r"\$\.position\.line_range\.start"),
        (None, "Expected `object`"),
        ("text", "Expected `object`"),
    ],
)
def test_the_error_for_a_wrong_type_names_the_notes_index_and_the_field(bad: Any, where: str) -> None:
    with pytest.raises(ValueError, match=rf"^notes\[1\]: .*{where}"):
        discussion(note(11), bad)


def test_the_error_for_a_note_body_that_is_not_text_names_its_index() -> None:
    payload = encoded(note(11), note(12, body="broken here")).replace(b"broken", b"\xff")
    with pytest.raises(ValueError, match=r"^notes\[1\]: .*utf-8"):
        transform_discussion(payload)


@pytest.mark.parametrize(
    "payload", [b"{}", b"null", b'{"id": 7, "notes": []}', b'{"id": "6a9c"}', b'{"id": "6a9c", "notes": null}']
)
def test_a_payload_that_is_not_a_discussion_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        transform_discussion(payload)


def test_unknown_fields_change_only_the_payloads() -> None:
    plain = discussion(note())
    more = discussion(
        note(imported=True, imported_from="none", suggestions=[{"id": 1}], commands_changes={}, new={"deep": [1]}),
        confidential=None,
    )
    kept = [msgspec.structs.replace(one, payload=b"") for one in more.notes]
    assert kept == [msgspec.structs.replace(one, payload=b"") for one in plain.notes]
    assert msgspec.structs.replace(more, notes=()) == msgspec.structs.replace(plain, notes=())
