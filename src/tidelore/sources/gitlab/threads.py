"""Discussions and notes: what GitLab sends, and our record of it. Pure.

All notes of a discussion are understood before anything is written; one that cannot be is an error of the
whole discussion, so nothing half-read ever replaces what we have (invariant 7).
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct, field

from tidelore.core.content import digest
from tidelore.core.model import DiscussionRecord, Item, NoteRecord, Version
from tidelore.sources.gitlab.payloads import Number, User
from tidelore.sources.gitlab.transform import username
from tidelore.sources.reading import instant, optional_instant


class Line(Struct, frozen=True):
    line_code: str | None = None
    side: str | None = field(default=None, name="type")
    old_line: Number | None = None
    new_line: Number | None = None


class LineRange(Struct, frozen=True):
    start: Line | None = None
    end: Line | None = None


class Position(Struct, frozen=True):
    base_sha: str | None = None
    start_sha: str | None = None
    head_sha: str | None = None
    old_path: str | None = None
    new_path: str | None = None
    position_type: str | None = None
    old_line: Number | None = None
    new_line: Number | None = None
    line_range: LineRange | None = None


class Note(Struct, frozen=True):
    id: Number
    created_at: str
    updated_at: str
    body: str | None = None
    note_type: str | None = field(default=None, name="type")
    author: User | None = None
    system: bool | None = None
    internal: bool | None = None
    confidential: bool | None = None
    resolvable: bool | None = None
    resolved: bool | None = None
    resolved_by: User | None = None
    resolved_at: str | None = None
    position: Position | None = None


class Discussion(Struct, frozen=True):
    id: str
    notes: tuple[Raw, ...]
    individual_note: bool | None = None


_LINE_CODE = re.compile(r"[0-9a-f]+_([0-9]{1,18})_([0-9]{1,18})")
_NOWHERE = Position()
_NO_RANGE = LineRange()
_discussion = msgspec.json.Decoder(Discussion)
_note = msgspec.json.Decoder(Note)


def read_discussion(payload: bytes) -> Item[DiscussionRecord]:
    """Understand one discussion with all its notes, or raise naming the note and the field."""
    record = transform_discussion(payload)
    moment = max((note.updated_at for note in record.notes), default=0)
    return Item(Version(record.remote_id, moment, digest(payload)), record.first_note_at or 0, payload, record)


def transform_discussion(payload: bytes) -> DiscussionRecord:
    """Normalise a discussion; it is resolved when every note of it that can be is."""
    parsed = _discussion.decode(payload)
    notes = tuple(_named_note(bytes(raw), place) for place, raw in enumerate(parsed.notes))
    resolvable = any(note.resolvable for note in notes)
    return DiscussionRecord(
        remote_id=parsed.id,
        individual_note=bool(parsed.individual_note),
        first_note_at=min((note.created_at for note in notes), default=None),
        last_note_at=max((note.created_at for note in notes), default=None),
        resolvable=resolvable,
        resolved=resolvable and all(note.resolved for note in notes if note.resolvable),
        notes=notes,
    )


def transform_note(payload: bytes, place: int) -> NoteRecord:
    """Normalise one note; `place` is where it stands in its discussion."""
    note = _note.decode(payload)
    at = note.position or _NOWHERE
    span = at.line_range or _NO_RANGE
    where = f"note {note.id}: "
    return NoteRecord(
        remote_id=note.id,
        note_type=note.note_type,
        is_system=bool(note.system),
        author_username=username(note.author),
        body=note.body or "",
        created_at=instant(f"{where}created_at", note.created_at),
        updated_at=instant(f"{where}updated_at", note.updated_at),
        position=place,
        resolvable=bool(note.resolvable),
        resolved=bool(note.resolved),
        resolved_by=username(note.resolved_by),
        resolved_at=optional_instant(f"{where}resolved_at", note.resolved_at),
        position_old_path=at.old_path,
        position_new_path=at.new_path,
        position_old_line=at.old_line,
        position_new_line=at.new_line,
        position_type=at.position_type,
        position_line_range_start=_line(span.start),
        position_line_range_end=_line(span.end),
        position_base_sha=at.base_sha,
        position_start_sha=at.start_sha,
        position_head_sha=at.head_sha,
        payload=payload,
        # Servers before 15.3 say `confidential` only.
        is_internal=bool(note.internal or note.confidential),
    )


def _named_note(payload: bytes, place: int) -> NoteRecord:
    try:
        return transform_note(payload, place)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"notes[{place}]: {error}") from None


def _line(end: Line | None) -> int | None:
    """Return the line of one end of a range: the new side where it has one, else the old.

    Where only the line code is sent, it ends in the old and the new line, and `type` says which is meant.
    """
    if end is None:
        return None
    line = end.old_line if end.new_line is None else end.new_line
    code = _LINE_CODE.fullmatch(end.line_code or "")
    if line is not None or code is None:
        return line
    return int(code[1] if end.side == "old" else code[2])
