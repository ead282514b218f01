"""Children of issues and merge requests, as the forge shows them and as a copy holds them.

Owns the comparison of every kind of children: discussions with their notes, events, closed issues, the changed
files of the newest head, reviewers. Each side is brought to one form by itself; nothing of the program's own
reading is used for the truth. What the forge no longer shows must have left no payload behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tidelore.core.clock import parse_instant
from tidelore.store.database.port import Database
from tidelore.store.mirror.payloads import PayloadReader
from tidelore_world.gitlab.forge import GitLabForge
from tidelore_world.gitlab.state import Kind

COLUMNS = {"issues": "issue_id", "merge_requests": "merge_request_id"}
FAMILIES = ("state", "label", "milestone")
Rows = dict[tuple[int, str], list[Any]]
"""Everything one list of a project has: by the number of the parent and the kind of children."""


def compare_children(
    database: Database, forge: GitLabForge, projects: Iterable[str], resources: Sequence[Kind], *, exact: bool = True
) -> None:
    """Every child of every live parent is there once, as the forge shows it; with `exact`, nothing else is.

    Parents that only the copy still knows are left to the comparison of parents.
    """
    for path in projects:
        for resource in resources:
            wanted, held = shown(forge, path, resource), stored(database, path, resource)
            known = [key for key in held if key in wanted]
            assert set(known) == set(wanted), f"{path}: {sorted(set(wanted) - set(known))}"
            if exact:
                wrong = {key: (held[key], wanted[key]) for key in wanted if held[key] != wanted[key]}
            else:
                wrong = {key: (held[key], entry) for key, entry in wanted.items() if _lacks(held[key], entry)}
            assert not wrong, f"{path} {resource} differ: {wrong}"
            if exact:
                _check_payloads(database, forge, path, resource)


def _lacks(held: list[Any], wanted: list[Any]) -> bool:
    return any(entry not in held for entry in wanted)


def shown(forge: GitLabForge, path: str, resource: Kind) -> Rows:
    """What the forge shows under each item."""
    rows: Rows = {}
    for iid, discussions in forge.truth_all_discussions(resource, path).items():
        rows[iid, "discussions"] = sorted(map(_text, discussions))
        rows[iid, "notes"] = sorted(
            _shown_note(found["id"], place, note) for found in discussions for place, note in enumerate(found["notes"])
        )
    for family in FAMILIES:
        for iid, events in forge.truth_all_events(resource, path, family).items():  # type: ignore[arg-type]
            rows[iid, family] = sorted(_shown_event(family, event) for event in events)
    if resource == "merge_requests":
        for iid, issues in forge.truth_all_closes(path).items():
            rows[iid, "closes"] = sorted((issue["id"], issue["iid"], issue["title"]) for issue in issues)
        for iid, files in forge.truth_all_diffs(path).items():
            flags = ("new_file", "renamed_file", "deleted_file")
            rows[iid, "files"] = sorted(
                (file["old_path"], file["new_path"], *(int(file[flag]) for flag in flags)) for file in files
            )
        for iid, reviewers in forge.truth_all_reviewers(path).items():
            rows[iid, "reviewers"] = sorted((entry["user"]["username"],) for entry in reviewers)
    return rows


def stored(database: Database, path: str, resource: Kind) -> Rows:
    """What the copy holds under each item that is not a tombstone."""
    column = COLUMNS[resource]
    live = f"{resource} p JOIN projects o ON o.id = p.project_id AND o.path = :path AND p.deleted_at IS NULL"
    rows: Rows = {}
    reader = PayloadReader(database.read)

    def add(name: str, columns: str, rest: str) -> None:
        # A parent without children has one row of nothing here, and so an empty list of them.
        for iid, key, *values in database.read(f"SELECT p.iid, {columns} FROM {live} LEFT JOIN {rest}", {"path": path}):
            entries = rows.setdefault((iid, name), [])
            if key is not None:
                entries.append((key, *values))

    add(
        "discussions",
        "d.id, w.encoding, w.payload, w.dictionary_id",
        f"discussions d ON d.{column} = p.id LEFT JOIN raw_payloads w ON w.id = d.raw_payload_id",
    )
    add(
        "notes",
        "n.remote_id, d.remote_id, n.position, n.body, n.author_username, n.is_system, n.created_at, n.updated_at,"
        " n.resolvable, n.resolved, n.resolved_by, n.resolved_at, n.position_new_path, n.position_new_line,"
        " n.position_old_line, n.position_head_sha, w.encoding, w.payload,"
        " w.dictionary_id",
        f"discussions d ON d.{column} = p.id LEFT JOIN notes n ON n.discussion_id = d.id"
        " LEFT JOIN raw_payloads w ON w.id = n.raw_payload_id",
    )
    for family, own in (
        ("state", "state"),
        ("label", "action, e.label_name"),
        ("milestone", "action, e.milestone_title"),
    ):
        table = f"resource_{family}_events e ON e.{column} = p.id"
        add(family, f"e.remote_id, e.user_username, e.created_at, e.{own}", table)
    if resource == "merge_requests":
        add("closes", "c.issue_remote_id, c.issue_iid, c.title", f"mr_closes_issues c ON c.{column} = p.id")
        add(
            "files",
            "f.old_path, f.new_path, f.new_file, f.renamed_file, f.deleted_file",
            f"mr_file_changes f ON f.{column} = p.id AND f.head_sha = p.head_sha",
        )
        add("reviewers", "r.username", f"mr_reviewers r ON r.{column} = p.id")
    return {key: sorted(_form(reader, key[1], entry) for entry in entries) for key, entries in rows.items()}


def _shown_note(thread: str, place: int, note: dict[str, Any]) -> tuple[Any, ...]:
    where = note.get("position") or {}
    return (
        note["id"],
        thread,
        place,
        note["body"],
        note["author"]["username"],
        int(note["system"]),
        parse_instant(note["created_at"]),
        parse_instant(note["updated_at"]),
        int(note["resolvable"]),
        int(note.get("resolved") or False),
        (note.get("resolved_by") or {}).get("username"),
        parse_instant(note["resolved_at"]) if note.get("resolved_at") else None,
        where.get("new_path"),
        where.get("new_line"),
        where.get("old_line"),
        where.get("head_sha"),
        # What the system wrote is kept once, inside its discussion.
        None if note["system"] and not where else _text(note),
    )


def _shown_event(family: str, event: dict[str, Any]) -> tuple[Any, ...]:
    head = (event["id"], event["user"]["username"], parse_instant(event["created_at"]))
    if family == "state":
        return (*head, event["state"])
    about = event[family]
    return (*head, event["action"], about and about["name" if family == "label" else "title"])


def _form(reader: PayloadReader, name: str, row: tuple[Any, ...]) -> Any:
    if name not in {"discussions", "notes"}:
        return row
    *values, encoding, payload, dictionary = row
    text = None if payload is None else _text(json.loads(reader.unpack(encoding, payload, dictionary)))
    return text if name == "discussions" else (*values, text)


def _check_payloads(database: Database, forge: GitLabForge, path: str, resource: Kind) -> None:
    """No payload holds a note that is gone, nor one of an item that is gone."""
    alive = {
        note["id"]
        for discussions in forge.truth_all_discussions(resource, path).values()
        for found in discussions
        for note in found["notes"]
    }
    rows = database.read(
        "SELECT w.resource_type, w.encoding, w.payload, w.dictionary_id FROM raw_payloads w"
        " JOIN projects o ON o.id = w.project_id AND o.path = :path WHERE w.resource_type IN ('note', 'discussion')",
        {"path": path},
    )
    kind = "Issue" if resource == "issues" else "MergeRequest"
    reader = PayloadReader(database.read)
    for sort, *packed in rows:
        payload = json.loads(reader.unpack(*packed))
        notes = [payload] if sort == "note" else payload["notes"]
        left = {note["id"] for note in notes if note["noteable_type"] == kind} - alive
        assert not left, f"{path}: a payload still tells of deleted notes {sorted(left)}"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
