"""The reading endpoints of the simulated GitHub.

Owns which rows each list shows, in which order, and which query parameters it heeds: an endpoint ignores what
the real one ignores (`since` on reviews and pull requests, `sort` inside a thread). Whoever asks is `call.login`:
pending reviews and their comments are shown to their author only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tidelore_world.clock import WorldClock
from tidelore_world.github import changes, payloads, remarks
from tidelore_world.github.call import Call
from tidelore_world.github.failure import ApiFailure, Transferred, not_found
from tidelore_world.github.files import MOST_FILES, file_payload
from tidelore_world.github.fragments import Fragments, Renderer, Row
from tidelore_world.github.hub import Hub
from tidelore_world.github.paging import (
    Window,
    cursor_links,
    link_header,
    read_floor,
    read_issues_window,
    read_window,
)
from tidelore_world.github.records import Comment, ReviewComment, Thread
from tidelore_world.github.repository import Conversation
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.github.shelf import Key, Order, key_of
from tidelore_world.github.timeline import is_visible, timeline
from tidelore_world.wire import Response, json_response

Said = TypeVar("Said", Comment, ReviewComment)

_JSON = {"content-type": "application/json; charset=utf-8"}
_ISSUES_OFF = "Issues are disabled for this repo"


class Reads:
    """Handlers for GET."""

    def __init__(self, hub: Hub, settings: GitHubSettings, clock: WorldClock) -> None:
        self._hub = hub
        self._settings = settings
        self._clock = clock
        self._fragments = Fragments()

    def repository(self, call: Call) -> Response:
        """`/repos/{o}/{r}`."""
        return json_response(payloads.repository(call.request.origin, call.repo))

    def issues(self, call: Call) -> Response:
        """Issues and pull requests mixed; newest first unless told otherwise. Gone while Issues are switched off."""
        if not call.repo.has_issues:
            raise ApiFailure(410, _ISSUES_OFF)
        window = read_issues_window(call.request, self._settings)
        descending = (call.request.first("direction") != "asc") != window.backwards
        floor_s, keep = self._floor(call, window), _thread_test(call)
        key: Callable[[Thread], Key]
        if call.request.first("sort") == "comments":
            found, total = _by_comments(call, window, floor_s, keep, descending=descending)
            key = _comments_key
        else:
            order = _order(call)
            found, total = call.repo.threads.page(
                order,
                0 if window.after is not None else window.offset,
                window.per_page + 1,
                descending=descending,
                floor_s=floor_s,
                keep=keep,
                after=window.after,
            )

            def key(row: Thread) -> Key:
                return key_of(order, row)

        rows, more = found[: window.per_page], len(found) > window.per_page
        if window.backwards:
            rows, more = rows[::-1], True
        if self._settings.issues_cursor_links:
            link = cursor_links(call.request, window, [key(row) for row in rows], call.numeric_path, more=more)
        else:
            link = link_header(call.request, window, total, self._settings, call.numeric_path)
        body = self._fragments.array(call.request.origin, call.repo, rows, payloads.issue)
        return Response(200, _JSON | ({} if link is None else {"link": link}), body)

    def pulls(self, call: Call) -> Response:
        """Pull requests; the default direction depends on `sort`, and `since` is not heeded."""
        window = self._window(call)
        order = _order(call)
        direction = call.request.first("direction") or ("desc" if order == "created" else "asc")
        rows, total = call.repo.pulls.page(
            order,
            window.offset,
            window.per_page,
            descending=direction == "desc",
            keep=_state_test(call),
        )
        return self._list(call, window, rows, total, changes.pull)

    def issue(self, call: Call) -> Response:
        """One thread as an issue."""
        thread = _thread(call)
        if not call.repo.has_issues and (thread.pull is None or self._settings.pulls_lose_issue_side):
            raise ApiFailure(410, _ISSUES_OFF)
        return self._one(call, thread, payloads.issue_detail)

    def pull(self, call: Call) -> Response:
        """One pull request."""
        return self._one(call, _pull(call), changes.pull_detail)

    def timeline(self, call: Call) -> Response:
        """What happened to one thread, oldest first."""
        window, thread = self._window(call), self._talk(call)
        with_lines = self._settings.line_comments_in_timeline
        rows = timeline(call.request.origin, self._hub, call.repo, thread.number, call.login, line_comments=with_lines)
        return self._payloads(call, window, rows)

    def files(self, call: Call) -> Response:
        """The files a pull request changes, 3,000 at most."""
        window, pull = self._window(call), _pull(call).require_pull()
        base = f"{call.request.origin}/repos/{call.repo.full_name}"
        html = f"{payloads.web(call.request.origin)}/{call.repo.full_name}"
        rows = [file_payload(base, html, pull.head_sha, file) for file in pull.files[:MOST_FILES]]
        return self._payloads(call, window, rows)

    def milestones(self, call: Call) -> Response:
        """The milestones of a repository; open ones unless told otherwise."""
        window, state = self._window(call), call.request.first("state", "open")
        rows = [row for row in call.repo.milestones.values() if state in ("all", row.state)]
        return self._payloads(call, window, [payloads.milestone(call.request.origin, call.repo, row) for row in rows])

    def all_comments(self, call: Call) -> Response:
        """The comments of the whole repository; while Issues are switched off, those of pull requests only."""
        keep: Callable[[Comment], bool] | None = None
        if not call.repo.has_issues:

            def keep(row: Comment) -> bool:
                return call.repo.thread(row.number).pull is not None

        return self._feed(call, call.repo.comments, remarks.comment, keep)

    def all_review_comments(self, call: Call) -> Response:
        """The review comments of the whole repository."""
        return self._feed(call, call.repo.review_comments, remarks.review_comment, _shown_test(call))

    def thread_comments(self, call: Call) -> Response:
        """The comments of one thread: by id, ascending; only `since` is heeded."""
        window = self._window(call)
        shelf = call.repo.comments.of(self._talk(call).number)
        rows, total = shelf.page("id", window.offset, window.per_page, floor_s=self._floor(call, window))
        return self._list(call, window, rows, total, remarks.comment)

    def thread_review_comments(self, call: Call) -> Response:
        """The review comments of one pull request; `sort`, `direction` and `since` are heeded."""
        window = self._window(call)
        order = _order(call) if call.request.first("sort") else "id"
        shelf = call.repo.review_comments.of(_pull(call).number)
        rows, total = shelf.page(
            order,
            window.offset,
            window.per_page,
            descending=order != "id" and call.request.first("direction") == "desc",
            floor_s=self._floor(call, window),
            keep=_shown_test(call),
        )
        return self._list(call, window, rows, total, remarks.review_comment)

    def reviews(self, call: Call) -> Response:
        """The reviews of one pull request, oldest first; neither `since` nor `sort` is heeded."""
        window = self._window(call)
        rows = [row for row in call.repo.reviews[_pull(call).number].values() if is_visible(row, call.login)]
        shown = rows[window.offset : window.offset + window.per_page]
        return self._list(call, window, shown, len(rows), remarks.review)

    def review(self, call: Call) -> Response:
        """One review."""
        row = call.repo.reviews[_pull(call).number].get(call.numbers[1])
        if row is None or not is_visible(row, call.login):
            raise not_found()
        return self._one(call, row, remarks.review)

    def comment(self, call: Call) -> Response:
        """One comment."""
        return self._one(call, _said(call, call.repo.comments), remarks.comment)

    def review_comment(self, call: Call) -> Response:
        """One review comment."""
        return self._one(call, _said(call, call.repo.review_comments), remarks.review_comment)

    def compare(self, call: Call) -> Response:
        """`/compare/{base}...{head}`."""
        base_ref, dots, head_ref = call.tail.partition("...")
        base, head = call.repo.graph.resolve(base_ref), call.repo.graph.resolve(head_ref)
        if not dots or base is None or head is None:
            raise not_found()
        found = call.repo.graph.compare(base, head)
        if found is None:
            raise ApiFailure(404, f"No common ancestor between {base_ref} and {head_ref}.")
        return json_response(changes.comparison(call.request.origin, call.repo, call.tail, found))

    def _feed(
        self,
        call: Call,
        said: Conversation[Said],
        render: Renderer[Said],
        keep: Callable[[Said], bool] | None = None,
    ) -> Response:
        window = self._window(call)
        chosen = call.request.first("sort") is not None
        rows, total = said.page(
            _order(call) if chosen else "id",
            window.offset,
            window.per_page,
            descending=chosen and call.request.first("direction") == "desc",
            floor_s=self._floor(call, window),
            keep=keep,
        )
        return self._list(call, window, rows, total, render)

    def _payloads(self, call: Call, window: Window, rows: Sequence[dict[str, Any]]) -> Response:
        link = link_header(call.request, window, len(rows), self._settings, call.numeric_path)
        shown = list(rows[window.offset : window.offset + window.per_page])
        return json_response(shown, headers=_JSON | ({} if link is None else {"link": link}))

    def _talk(self, call: Call) -> Thread:
        """The thread whose conversation is asked for; that of an issue is gone while Issues are switched off."""
        thread = _thread(call)
        if not call.repo.has_issues and thread.pull is None:
            raise ApiFailure(410, _ISSUES_OFF)
        return thread

    def _list(self, call: Call, window: Window, rows: Sequence[Row], total: int, render: Renderer[Row]) -> Response:
        body = self._fragments.array(call.request.origin, call.repo, rows, render)
        link = link_header(call.request, window, total, self._settings, call.numeric_path)
        return Response(200, _JSON | ({} if link is None else {"link": link}), body)

    def _one(self, call: Call, row: Row, render: Renderer[Row]) -> Response:
        return Response(200, dict(_JSON), self._fragments.one(call.request.origin, call.repo, row, render))

    def _window(self, call: Call) -> Window:
        return read_window(call.request, self._settings)

    def _floor(self, call: Call, window: Window) -> int | None:
        return read_floor(call.request, window, self._settings, self._clock.now_us)


def _order(call: Call) -> Order:
    return "updated" if call.request.first("sort") == "updated" else "created"


def _comments_key(row: Thread) -> Key:
    return row.comments, row.id


def _by_comments(
    call: Call, window: Window, floor_s: int | None, keep: Callable[[Thread], bool] | None, *, descending: bool
) -> tuple[list[Thread], int]:
    """One page of threads by their number of comments and the one behind it, and how many there are in all."""
    rows = [
        row
        for row in call.repo.threads
        if (floor_s is None or row.updated_s >= floor_s) and (keep is None or keep(row))
    ]
    rows.sort(key=_comments_key, reverse=descending)
    begin = window.offset
    if window.after is not None:
        mark = window.after
        begin = sum(1 for row in rows if (_comments_key(row) >= mark if descending else _comments_key(row) <= mark))
    return rows[begin : begin + window.per_page + 1], len(rows)


def _shown_test(call: Call) -> Callable[[ReviewComment], bool] | None:
    """Leave out what waits in somebody else's pending review; a repository without any needs no test."""
    if not any(call.repo.pending_comments.values()):
        return None
    return lambda row: not row.pending or row.author.login.lower() == call.login.lower()


def _state_test(call: Call) -> Callable[[Thread], bool] | None:
    state = call.request.first("state", "open")
    return None if state == "all" else lambda thread: thread.state == state


def _thread_test(call: Call) -> Callable[[Thread], bool] | None:
    """The filters of the issue list: `state`, `labels` (all of them) and `creator`."""
    state_test = _state_test(call)
    labels = {name for name in (call.request.first("labels") or "").split(",") if name}
    creator = (call.request.first("creator") or "").lower()
    if not labels and not creator:
        return state_test
    return lambda thread: (
        (state_test is None or state_test(thread))
        and labels <= set(thread.labels)
        and (not creator or thread.author.login.lower() == creator)
    )


def _thread(call: Call) -> Thread:
    number = call.numbers[0]
    if number in call.repo.transferred:
        raise Transferred(*call.repo.transferred[number])
    if number in call.repo.deleted_numbers:
        raise ApiFailure(410, "This issue was deleted")
    try:
        return call.repo.thread(number)
    except LookupError as error:
        raise not_found() from error


def _pull(call: Call) -> Thread:
    thread = _thread(call)
    if thread.pull is None:
        raise not_found()
    return thread


def _said(call: Call, said: Conversation[Said]) -> Said:
    row = said.get(call.numbers[0])
    if row is None:
        raise not_found()
    return row
