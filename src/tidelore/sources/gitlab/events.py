"""Resource events: what GitLab sends about state, label and milestone changes, and our records of it. Pure.

The content of an event is its record: a user's new avatar in the payload is no change of the event.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.model import Item, LabelEventRecord, MilestoneEventRecord, StateEventRecord, Version
from tidelore.sources.gitlab.payloads import Number, User
from tidelore.sources.gitlab.transform import username
from tidelore.sources.reading import instant

E = TypeVar("E", StateEventRecord, LabelEventRecord, MilestoneEventRecord)


class Label(Struct, frozen=True):
    name: str | None = None


class EventMilestone(Struct, frozen=True):
    id: Number | None = None
    title: str | None = None


class StateEvent(Struct, frozen=True):
    id: Number
    created_at: str
    state: str
    user: User | None = None
    source_commit: str | None = None
    source_merge_request_id: Number | None = None


class LabelEvent(Struct, frozen=True):
    id: Number
    created_at: str
    action: str
    user: User | None = None
    label: Label | None = None


class MilestoneEvent(Struct, frozen=True):
    id: Number
    created_at: str
    action: str
    user: User | None = None
    milestone: EventMilestone | None = None


def transform_state_event(payload: StateEvent) -> StateEventRecord:
    """Normalise a state event, or raise ValueError naming the field."""
    return StateEventRecord(
        remote_id=payload.id,
        user_username=username(payload.user),
        state=payload.state,
        source_commit=payload.source_commit,
        source_merge_request_id=payload.source_merge_request_id,
        created_at=instant("created_at", payload.created_at),
    )


def transform_label_event(payload: LabelEvent) -> LabelEventRecord:
    """Normalise a label event, or raise ValueError naming the field."""
    return LabelEventRecord(
        remote_id=payload.id,
        user_username=username(payload.user),
        action=payload.action,
        label_name=payload.label.name if payload.label else None,
        created_at=instant("created_at", payload.created_at),
    )


def transform_milestone_event(payload: MilestoneEvent) -> MilestoneEventRecord:
    """Normalise a milestone event, or raise ValueError naming the field."""
    milestone = payload.milestone or EventMilestone()
    return MilestoneEventRecord(
        remote_id=payload.id,
        user_username=username(payload.user),
        action=payload.action,
        milestone_title=milestone.title,
        milestone_remote_id=milestone.id,
        created_at=instant("created_at", payload.created_at),
    )


_state = msgspec.json.Decoder(StateEvent)
_label = msgspec.json.Decoder(LabelEvent)
_milestone = msgspec.json.Decoder(MilestoneEvent)


def read_state_event(payload: bytes) -> Item[StateEventRecord]:
    """Understand one state event."""
    return _item("state", payload, transform_state_event(_state.decode(payload)))


def read_label_event(payload: bytes) -> Item[LabelEventRecord]:
    """Understand one label event."""
    return _item("label", payload, transform_label_event(_label.decode(payload)))


def read_milestone_event(payload: bytes) -> Item[MilestoneEventRecord]:
    """Understand one milestone event."""
    return _item("milestone", payload, transform_milestone_event(_milestone.decode(payload)))


def _item(family: str, payload: bytes, record: E) -> Item[E]:
    # The three lists count their ids apart; our copy of a parent's events is one set.
    version = Version(f"{family}:{record.remote_id}", record.created_at, digest(msgspec.json.encode(record)))
    return Item(version, record.created_at, payload, record)
