"""Resource events as GitLab sends them: what is kept, how an event is known again, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidelore.core.model import Item, LabelEventRecord, MilestoneEventRecord, StateEventRecord
from tidelore.sources.gitlab.transform import read_label_event, read_milestone_event, read_state_event
from tidelore_world.world import World

AT = 1_772_442_000_123
USER = {"id": 1, "username": "mira", "avatar_url": None}
LEAST: dict[str, Any] = {"id": 142, "created_at": "2026-03-02T09:00:00.123Z"}
Read = Callable[[bytes], Item[Any]]
READERS: dict[str, Read] = {"state": read_state_event, "label": read_label_event, "milestone": read_milestone_event}
WORDS = {"state": {"state": "closed"}, "label": {"action": "add"}, "milestone": {"action": "remove"}}


def read(family: str, **fields: Any) -> Item[Any]:
    return READERS[family](json.dumps({**LEAST, **WORDS[family], **fields}).encode())


@pytest.fixture(params=list(READERS))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_state_event_records_user_state_and_cause() -> None:
    found = read("state", user=USER, source_commit="a" * 40, source_merge_request_id=28, resource_type="Issue")
    assert found.record == StateEventRecord(142, "mira", "closed", "a" * 40, 28, AT)


def test_a_label_event_records_user_action_and_label() -> None:
    label = {"id": 73, "name": "brake", "color": "#34495E", "description": None}
    assert read("label", user=USER, label=label).record == LabelEventRecord(142, "mira", "add", "brake", AT)


def test_a_milestone_event_records_user_action_and_milestone() -> None:
    milestone = {"id": 61, "iid": 9, "title": "v1.2", "due_date": None}
    expected = MilestoneEventRecord(142, "mira", "remove", "v1.2", 61, AT)
    assert read("milestone", user=USER, milestone=milestone, state="opened").record == expected


@pytest.mark.parametrize("nothing", [{}, {"user": None, "label": None, "milestone": None, "source_commit": None}])
def test_an_event_with_deleted_user_and_object_is_accepted(family: str, nothing: dict[str, Any]) -> None:
    record = read(family, **nothing).record
    empty = set(record.__struct_fields__) - {"remote_id", "state", "action", "created_at"}
    assert (record.user_username, record.created_at) == (None, AT)
    assert [getattr(record, name) for name in empty] == [None] * len(empty)


def test_the_same_id_in_three_event_lists_gives_three_events() -> None:
    assert [read(family).version.id for family in READERS] == ["state:142", "label:142", "milestone:142"]


def test_fields_outside_the_record_do_not_change_the_events_version(family: str) -> None:
    plain = read(family, user=USER)
    dressed = read(family, user={**USER, "avatar_url": "https://h/new.png"}, resource_id=9)
    assert dressed.version == plain.version
    assert dressed.payload != plain.payload
    assert read(family, user={"username": "mira.renamed"}).version.digest != plain.version.digest


def test_an_event_is_dated_by_its_creation(family: str) -> None:
    found = read(family)
    assert (found.at, found.version.updated_at) == (AT, AT)


@pytest.mark.parametrize("value", ["", "soon", "2026-03-02", "2026-03-02T09:00:00"])
def test_the_error_for_a_bad_time_names_the_field(family: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"^created_at: "):
        read(family, created_at=value)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"id": "142"}, r"\$\.id"),
        ({"id": None}, r"\$\.id"),
        ({"id": 2**63}, r"\$\.id"),
        ({"created_at": 7}, r"\$\.created_at"),
        ({"user": "mira"}, r"\$\.user"),
        ({"state": None, "action": None}, r"\$\.(state|action)"),
        ({"source_merge_request_id": "28", "label": 3, "milestone": []}, r"\$\.(source_merge|label|milestone)"),
    ],
)
def test_the_error_for_a_wrong_type_names_the_field(family: str, fields: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError, match=where):
        read(family, **fields)


def test_events_of_the_simulator_are_parsed() -> None:
    world = World()
    world.gitlab.create_project("g/p")
    issue = world.gitlab.create_issue("g/p", labels=["brake"], milestone="v1.2")
    world.advance(60)
    world.gitlab.close_issue("g/p", issue.iid)
    world.gitlab.edit_issue("g/p", issue.iid, labels=[], milestone=None)
    told = {
        family: [
            reader(json.dumps(row).encode()).record
            for row in world.gitlab.truth_events("issues", "g/p", issue.iid, family)
        ]
        for family, reader in READERS.items()
    }
    assert [event.state for event in told["state"]] == ["closed"]
    assert ("remove", "brake") in [(event.action, event.label_name) for event in told["label"]]
    assert ("remove", "v1.2") in [(event.action, event.milestone_title) for event in told["milestone"]]
