"""The truth of a simulated GitLab in the shape of our copy: by list and by key, one row for each thing it shows.

Written from what the forge's interface promises, independently of the code that reads it: a mistake in reading
shows as a difference between this and the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tidelore.core.clock import parse_instant
from tidelore_world.demo.comparison import Rows, keyed

if TYPE_CHECKING:
    from tidelore_world.gitlab import GitLabForge

Payload = Mapping[str, Any]
Told = Iterable[tuple[int, int, Payload]]
"""Children as the forge tells them: the parent's iid, the place in the list, the payload."""
KINDS: tuple[Literal["issues"], Literal["merge_requests"]] = ("issues", "merge_requests")


def true_rows(forge: GitLabForge, name: str, path: str) -> Rows:
    """Return everything a project shows in one list now."""
    if name == "issues":
        return {payload["id"]: payload for payload in forge.truth_issues(path)}
    if name == "merge_requests":
        return {payload["id"]: payload for payload in forge.truth_merge_requests(path)}
    if name == "statuses":
        return {iid: status for iid, status in forge.truth_statuses(path).items() if status is not None}
    if name == "discussions":
        return {
            (kind, iid, payload["id"]): payload
            for kind in KINDS
            for iid, payloads in forge.truth_all_discussions(kind, path).items()
            for payload in payloads
        }
    project = _PROJECTIONS[name]
    return keyed(name, (project(place, told) | {"iid": iid} for iid, place, told in _told(forge, name, path)))


def _told(forge: GitLabForge, name: str, path: str) -> Told:
    for payloads in _lists(forge, name, path):
        for iid, children in payloads.items():
            for child in children:
                if name == "notes":
                    yield from ((iid, place, note) for place, note in enumerate(child["notes"]))
                else:
                    yield iid, 0, child


def _lists(forge: GitLabForge, name: str, path: str) -> list[dict[int, list[dict[str, Any]]]]:
    match name:
        case "notes":
            return [forge.truth_all_discussions(kind, path) for kind in KINDS]
        case "state_events":
            return [forge.truth_all_events(kind, path, "state") for kind in KINDS]
        case "label_events":
            return [forge.truth_all_events(kind, path, "label") for kind in KINDS]
        case "milestone_events":
            return [forge.truth_all_events(kind, path, "milestone") for kind in KINDS]
        case "closed_issues":
            return [forge.truth_all_closes(path)]
        case "files":
            return [forge.truth_all_diffs(path)]
    return [forge.truth_all_reviewers(path)]


def _note(place: int, told: Payload) -> dict[str, Any]:
    at = told.get("position") or {}
    span = at.get("line_range") or {}
    return {
        "remote_id": told["id"],
        "note_type": told["type"],
        "is_system": told["system"],
        "author_username": told["author"]["username"],
        "body": told["body"],
        "created_at": parse_instant(told["created_at"]),
        "updated_at": parse_instant(told["updated_at"]),
        "position": place,
        "resolvable": told["resolvable"],
        "resolved": told.get("resolved", False),
        "resolved_by": (told.get("resolved_by") or {}).get("username"),
        "resolved_at": parse_instant(told["resolved_at"]) if told.get("resolved_at") else None,
        "position_old_path": at.get("old_path"),
        "position_new_path": at.get("new_path"),
        "position_old_line": at.get("old_line"),
        "position_new_line": at.get("new_line"),
        "position_type": at.get("position_type"),
        "position_line_range_start": _line(span.get("start")),
        "position_line_range_end": _line(span.get("end")),
        "position_base_sha": at.get("base_sha"),
        "position_start_sha": at.get("start_sha"),
        "position_head_sha": at.get("head_sha"),
        "is_internal": told["internal"],
        "position_range_unknown": False,
    }


def _line(end: Payload | None) -> int | None:
    return None if end is None else end["old_line"] if end["new_line"] is None else end["new_line"]


def _event(told: Payload) -> dict[str, Any]:
    return {
        "remote_id": told["id"],
        "user_username": told["user"]["username"],
        "created_at": parse_instant(told["created_at"]),
    }


def _state_event(_place: int, told: Payload) -> dict[str, Any]:
    return _event(told) | {name: told[name] for name in ("state", "source_commit", "source_merge_request_id")}


def _label_event(_place: int, told: Payload) -> dict[str, Any]:
    label = told["label"]
    return _event(told) | {"action": told["action"], "label_name": label and label["name"]}


def _milestone_event(_place: int, told: Payload) -> dict[str, Any]:
    milestone = told["milestone"] or {"title": None, "id": None}
    named = {"milestone_title": milestone["title"], "milestone_remote_id": milestone["id"]}
    return _event(told) | {"action": told["action"]} | named


def _closed_issue(_place: int, told: Payload) -> dict[str, Any]:
    return {
        "issue_key": str(told["id"]),
        "issue_remote_id": told["id"],
        "issue_iid": told["iid"],
        "issue_project_remote_id": told["project_id"],
        "reference": told["references"]["full"],
        "title": told["title"],
        "web_url": told["web_url"],
    }


def _file(_place: int, told: Payload) -> dict[str, Any]:
    return {name: told[name] for name in ("old_path", "new_path", "new_file", "renamed_file", "deleted_file")}


def _reviewer(_place: int, told: Payload) -> dict[str, Any]:
    return {"username": told["user"]["username"]}


_PROJECTIONS: Mapping[str, Callable[[int, Payload], dict[str, Any]]] = MappingProxyType(
    {
        "notes": _note,
        "state_events": _state_event,
        "label_events": _label_event,
        "milestone_events": _milestone_event,
        "closed_issues": _closed_issue,
        "files": _file,
        "reviewers": _reviewer,
    }
)
