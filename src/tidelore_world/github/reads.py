"""The reading endpoints of the simulated GitHub.

Owns which rows each list shows, in which order, and which query parameters it heeds: an endpoint ignores what
the real one ignores (`since` on reviews and pull requests, `sort` inside a thread).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelore_world.clock import WorldClock
from tidelore_world.github import changes, payloads, remarks
from tidelore_world.github.call import Call
from tidelore_world.github.failure import ApiFailure, not_found
from tidelore_world.github.fragments import Fragments, Renderer, Row
from tidelore_world.github.paging import Window, link_header, read_floor, read_window
from tidelore_world.github.records import Thread
from tidelore_world.github.repository import Conversation, Said
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.github.shelf import Order
from tidelore_world.wire import Response, json_response

_JSON = {"content-type": "application/json; charset=utf-8"}


class Reads:
    """Handlers for GET."""

    def __init__(self, settings: GitHubSettings, clock: WorldClock) -> None:
        self._settings = settings
        self._clock = clock
        self._fragments = Fragments()

    def repository(self, call: Call) -> Response:
        """`/repos/{o}/{r}`."""
        return json_response(payloads.repository(call.request.origin, call.repo))

    def issues(self, call: Call) -> Response:
        """Issues and pull requests mixed; newest first unless told otherwise."""
        window = self._window(call)
        rows, total = call.repo.threads.page(
            _order(call),
            window.offset,
            window.per_page,
            descending=call.request.first("direction") != "asc",
            floor_s=self._floor(call, window),
            keep=_thread_test(call),
        )
        return self._list(call, window, rows, total, payloads.issue)

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
        return self._one(call, _thread(call), payloads.issue)

    def pull(self, call: Call) -> Response:
        """One pull request."""
        return self._one(call, _pull(call), changes.pull_detail)

    def all_comments(self, call: Call) -> Response:
        """The comments of the whole repository."""
        return self._feed(call, call.repo.comments, remarks.comment)

    def all_review_comments(self, call: Call) -> Response:
        """The review comments of the whole repository."""
        return self._feed(call, call.repo.review_comments, remarks.review_comment)

    def thread_comments(self, call: Call) -> Response:
        """The comments of one thread: by id, ascending; only `since` is heeded."""
        window = self._window(call)
        shelf = call.repo.comments.of(_thread(call).number)
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
        )
        return self._list(call, window, rows, total, remarks.review_comment)

    def reviews(self, call: Call) -> Response:
        """The reviews of one pull request, oldest first; neither `since` nor `sort` is heeded."""
        window = self._window(call)
        rows = list(call.repo.reviews[_pull(call).number].values())
        shown = rows[window.offset : window.offset + window.per_page]
        return self._list(call, window, shown, len(rows), remarks.review)

    def review(self, call: Call) -> Response:
        """One review."""
        row = call.repo.reviews[_pull(call).number].get(call.numbers[1])
        if row is None:
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

    def _feed(self, call: Call, said: Conversation[Said], render: Renderer[Said]) -> Response:
        window = self._window(call)
        chosen = call.request.first("sort") is not None
        rows, total = said.page(
            _order(call) if chosen else "id",
            window.offset,
            window.per_page,
            descending=chosen and call.request.first("direction") == "desc",
            floor_s=self._floor(call, window),
        )
        return self._list(call, window, rows, total, render)

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
