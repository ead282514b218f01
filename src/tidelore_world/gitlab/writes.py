"""The writing endpoints: notes on issues and merge requests, replies in threads, and resolving a thread.

Owns the validation of what is posted. Refuses to change rows itself: `remarks` does. Invariant: a write whose answer is
lost did happen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidelore_world.damage import SimulatedDisconnect
from tidelore_world.gitlab import threads
from tidelore_world.gitlab.answers import error
from tidelore_world.gitlab.hooks import save_hook
from tidelore_world.gitlab.records import NotHere
from tidelore_world.gitlab.state import Item, Kind, MergeRequest, Project
from tidelore_world.gitlab.view import View
from tidelore_world.wire import Request, Response, json_response

LONGEST_NOTE = 1_000_000

Write = Callable[[View, Request, Project], Response]
_CLOSE = re.compile(
    r"```\n.*?\n```$|^/(?P<action>close)(?: [^\n]*)?(?:\s*\n|$)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
"""A code block, in which nothing is run, or the one quick action that is simulated."""
_KINDS: Mapping[str, Kind] = {"issues": "issues", "merge_requests": "merge_requests"}


def find_write(rest: tuple[str, ...], method: str) -> tuple[str, Write] | None:
    """Name the route of a write and give its handler; None when the path takes no write of this method."""
    if rest[0:1] == ("projects",) and rest[2:3] == ("hooks",):
        if method == "POST" and len(rest) == 3:
            return "/projects/:id/hooks", partial(save_hook, None)
        if method == "PUT" and len(rest) == 4 and rest[3].isdecimal():
            return "/projects/:id/hooks/:hook_id", partial(save_hook, int(rest[3]))
    if len(rest) < 5 or rest[0] != "projects" or rest[2] not in _KINDS or not rest[3].isdecimal():
        return None
    kind, iid = _KINDS[rest[2]], int(rest[3])
    above = f"/projects/:id/{kind}/:iid"
    match method, rest[4:]:
        case "POST", ("notes",):
            return f"{above}/notes", partial(_post_note, kind, iid, None)
        case "POST", ("discussions", discussion, "notes"):
            return f"{above}/discussions/:id/notes", partial(_post_note, kind, iid, discussion)
        case "PUT", ("discussions", discussion) if kind == "merge_requests":
            return f"{above}/discussions/:id", partial(_resolve, iid, discussion)
    return None


def _post_note(
    kind: Kind, iid: int, discussion: str | None, forge: View, request: Request, project: Project
) -> Response:
    posted = _posted(request)
    body = posted.get("body")
    if not isinstance(body, str):
        return error(400, "body is missing", "error")
    if not body.strip():
        return error(400, '400 Bad request - Note {:note=>["can\'t be blank"]}')
    if len(body) > LONGEST_NOTE:
        return error(400, '400 Bad request - Note {:note=>["is too long (maximum is 1000000 characters)"]}')
    try:
        item = forge.item(kind, project, iid)
        if discussion is not None and all(note.system for note in forge.discussion(item, discussion).notes):
            return error(400, "400 Bad request - Discussion can not be replied to")
    except NotHere:
        return error(404, "404 Not found" if discussion is None else "404 Discussion Not Found")
    internal = bool(posted.get("internal"))
    body = _run_actions(forge, project, kind, iid, body)
    note = forge.add_note(item, body, discussion=discussion, author=forge.caller, internal=internal)
    return _written(forge, threads.note_payload(note, item), 201)


def _run_actions(forge: View, project: Project, kind: Kind, iid: int, body: str) -> str:
    """Run the quick actions of a note with the rights of the caller, and return the note without them."""
    body = body.replace("\r", "")
    if any(found["action"] for found in _CLOSE.finditer(body)):
        close = forge.close_issue if kind == "issues" else forge.close_merge_request
        close(project, iid, by=forge.caller)
    return _CLOSE.sub(lambda found: "" if found["action"] else found[0], body)


def _resolve(iid: int, discussion: str, forge: View, request: Request, project: Project) -> Response:
    resolved = _posted(request).get("resolved", request.first("resolved"))
    if resolved not in (True, False, "true", "false"):
        return error(400, "resolved is missing", "error")
    try:
        item: Item = forge.merge_request(project, iid)
        home = forge.discussion(item, discussion)
    except NotHere:
        return error(404, "404 Discussion Not Found")
    if not any(note.resolvable for note in home.notes):
        # As lib/api/helpers/notes_helpers.rb of GitLab does, and for a caller who may not resolve it.
        return error(403, "403 Forbidden")
    assert isinstance(item, MergeRequest)
    forge.resolve(item, home, resolved=resolved in (True, "true"), by=forge.caller)
    return _written(forge, threads.discussion_payload(home, item), 200)


def _written(forge: View, payload: Mapping[str, Any], status: int) -> Response:
    """Answer a write that happened, unless the answer is lost."""
    if forge.lost_answers > 0:
        forge.lost_answers -= 1
        raise SimulatedDisconnect("the connection is lost after the write")
    return json_response(payload, status)


def _posted(request: Request) -> Mapping[str, Any]:
    try:
        found = json.loads(request.body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
