"""The writing endpoints of the simulated GitHub: comments and answers, their edits and deletions.

Owns the validation of what is posted. Refuses to change rows itself: one set of events serves both.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from tidelore_world.faults import SimulatedTimeout
from tidelore_world.github import remarks
from tidelore_world.github.call import Call
from tidelore_world.github.failure import ApiFailure, not_found
from tidelore_world.github.lateness import LateWrites
from tidelore_world.github.payloads import Payload
from tidelore_world.github.records import Comment, ReviewComment
from tidelore_world.github.serving import LOST_SECONDS, Desk
from tidelore_world.github.talking import Talking
from tidelore_world.wire import Response, json_response

_LONGEST = 65_536


class Writes:
    """Handlers for POST, PATCH and DELETE."""

    def __init__(self, events: Talking, desk: Desk, late: LateWrites, rng: random.Random) -> None:
        self._events = events
        self._desk = desk
        self._late = late
        self._rng = rng

    def post_comment(self, call: Call) -> Response:
        """`POST /issues/{n}/comments`."""
        login, body = self._desk.acting_login(call.request), _body_of(call)
        trailing = self._rng.random() < self._desk.settings.trailing_share
        number = call.numbers[0]

        def write(at_us: int | None = None) -> Comment:
            return self._events.comment(call.repo.full_name, number, body, login, trailing=trailing, at_us=at_us)

        thread = call.repo.find_thread(number)
        if thread is None:
            raise not_found()
        if thread.locked and not self._may_write(call):
            raise ApiFailure(403, "Unable to create comment because issue is locked.")
        self._delay(write)
        row = write()
        return _created(remarks.comment(call.request.origin, call.repo, row))

    def post_reply(self, call: Call) -> Response:
        """`POST /pulls/{n}/comments/{id}/replies`."""
        login, body = self._desk.acting_login(call.request), _body_of(call)
        number, first_id = call.numbers
        first = call.repo.review_comments.get(first_id)
        if first is None or first.number != number:
            raise not_found()

        def write(at_us: int | None = None) -> ReviewComment:
            name = call.repo.full_name
            return self._events.review_comment(name, number, body, login, in_reply_to=first_id, at_us=at_us)

        self._delay(write)
        row = write()
        return _created(remarks.review_comment(call.request.origin, call.repo, row))

    def edit_comment(self, call: Call) -> Response:
        """`PATCH /issues/comments/{id}`."""
        self._require(call, call.repo.comments.get(call.numbers[0]))
        row = self._events.edit_comment(call.numbers[0], _body_of(call), kind="comment")
        return json_response(_shown(call, row))

    def edit_review_comment(self, call: Call) -> Response:
        """`PATCH /pulls/comments/{id}`."""
        self._require(call, call.repo.review_comments.get(call.numbers[0]))
        row = self._events.edit_comment(call.numbers[0], _body_of(call), kind="review_comment")
        return json_response(_shown(call, row))

    def delete_comment(self, call: Call) -> Response:
        """`DELETE /issues/comments/{id}`."""
        self._require(call, call.repo.comments.get(call.numbers[0]))
        self._events.delete_comment(call.numbers[0], kind="comment", actor=call.login)
        return Response(204)

    def delete_review_comment(self, call: Call) -> Response:
        """`DELETE /pulls/comments/{id}`."""
        self._require(call, call.repo.review_comments.get(call.numbers[0]))
        self._events.delete_comment(call.numbers[0], kind="review_comment", actor=call.login)
        return Response(204)

    @staticmethod
    def _may_write(call: Call) -> bool:
        return call.repo.associations.get(call.login) in ("OWNER", "MEMBER", "COLLABORATOR")

    def _delay(self, write: Callable[[int], object]) -> None:
        """Take a write in and leave its sender without an answer, when the settings say so."""
        settings = self._desk.settings
        if settings.late_writes > 0:
            settings.late_writes -= 1
            self._late.hold(settings.late_seconds, write)
            raise SimulatedTimeout(LOST_SECONDS)

    def _require(self, call: Call, row: Comment | ReviewComment | None) -> None:
        self._desk.acting_login(call.request)
        if row is None:
            raise not_found()


def _body_of(call: Call) -> str:
    try:
        posted = json.loads(call.request.body)
    except ValueError as error:
        raise ApiFailure(400, "Problems parsing JSON") from error
    body = posted.get("body") if isinstance(posted, dict) else None
    if not isinstance(body, str) or not body.strip():
        raise ApiFailure(422, "Validation Failed", ({"field": "body", "code": "missing_field"},))
    if len(body) > _LONGEST:
        raise ApiFailure(422, "Validation Failed", ({"field": "body", "code": "custom"},))
    return body


def _created(payload: Payload) -> Response:
    return json_response(payload, 201, {"location": payload["url"]})


def _shown(call: Call, row: Comment | ReviewComment) -> Payload:
    if isinstance(row, Comment):
        return remarks.comment(call.request.origin, call.repo, row)
    return remarks.review_comment(call.request.origin, call.repo, row)
