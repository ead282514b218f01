"""Changes between two pages: from a row a client has just been shown to the event that edits or deletes it.

Owns reading which object a row is. Refuses what the real service cannot do: nobody deletes a pull request
or a submitted review, and entries of timelines, files and repositories are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from tidelore_world.github.talking import Remark, Talking

_MARK = " (edited)"


def disturb(events: Talking, row: Mapping[str, Any], change: Literal["edit", "delete"]) -> bool:
    """Edit or delete what a list row shows; False when it is gone or cannot be changed so."""
    if "event" in row or ("issue_url" not in row and "repository_url" not in row and "pull_request_url" not in row):
        return False
    try:
        if "submitted_at" in row:
            return _disturb_review(events, row, change)
        if "/comments/" in str(row.get("url")):
            return _disturb_comment(events, row, change)
        return _disturb_thread(events, row, change)
    except LookupError:
        return False


def _disturb_comment(events: Talking, row: Mapping[str, Any], change: str) -> bool:
    kind: Remark = "review_comment" if "/pulls/" in row["url"] else "comment"
    if change == "edit":
        events.edit_comment(row["id"], row["body"] + _MARK, kind=kind)
    else:
        events.delete_comment(row["id"], kind=kind)
    return True


def _disturb_review(events: Talking, row: Mapping[str, Any], change: str) -> bool:
    if change == "delete":
        return False
    full_name, number = _address(row["pull_request_url"])
    events.edit_review(full_name, number, row["id"], row["body"] + _MARK)
    return True


def _disturb_thread(events: Talking, row: Mapping[str, Any], change: str) -> bool:
    full_name, number = _address(row["url"])
    if change == "edit":
        events.edit_thread(full_name, number, body=(row["body"] or "") + _MARK)
        return True
    if events.repository(full_name).thread(number).pull is not None:
        return False
    events.delete_issue(full_name, number)
    return True


def _address(url: str) -> tuple[str, int]:
    """The repository and the number in `.../repos/{owner}/{name}/{kind}/{number}`."""
    _, owner, name, _, number = urlsplit(url).path.removeprefix("/api/v3").strip("/").split("/")
    return f"{owner}/{name}", int(number)
