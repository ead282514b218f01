"""A simulated tracker: boards with tickets and remarks, served under `/toy/`.

How it differs from the other forges: a list is an object with its items and the key of the next page; a key stays valid
whatever happens meanwhile; times are epoch milliseconds; ids of tickets and remarks are two sequences of the server.
A remark does not change the time of its ticket, only its number of remarks, unless a ticket is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tidelore_world.wire import Request, Response, json_response
from tidelore_world.world import World

Handler = Callable[[], Response]
MOST = 50
"""The largest page."""


@dataclass
class Remark:
    """A comment."""

    id: int
    by: str
    text: str
    at: int
    changed: int


@dataclass
class Ticket:
    """An issue."""

    id: int
    number: int
    by: str
    title: str
    text: str
    opened: int
    changed: int
    tags: list[str]
    is_open: bool = True
    remarks: list[Remark] = field(default_factory=list)


@dataclass
class Board:
    """A project."""

    id: int
    path: str
    retired: bool = False
    tickets: dict[int, Ticket] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=lambda: count(1))


class ToyForge:
    """The boards of one host, what people do on them, and what the server answers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._boards: dict[int, Board] = {}
        self._ids = {"board": count(70), "ticket": count(5000), "remark": count(900)}

    @property
    def _now(self) -> int:
        return self._world.clock.now_us // 1000

    def create_board(self, path: str) -> Board:
        """Create a board; the first part of its path is its team."""
        board = Board(next(self._ids["board"]), path)
        self._boards[board.id] = board
        return board

    def board(self, path: str) -> Board:
        return next(board for board in self._boards.values() if board.path == path)

    def open_ticket(
        self, path: str, title: str, text: str = "", by: str = "mara", tags: tuple[str, ...] = ()
    ) -> Ticket:
        board, now = self.board(path), self._now
        ticket = Ticket(next(self._ids["ticket"]), next(board.numbers), by, title, text, now, now, list(tags))
        board.tickets[ticket.number] = ticket
        return ticket

    def edit_ticket(self, ticket: Ticket, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(ticket, name, value)
        ticket.changed = self._now

    def delete_ticket(self, path: str, ticket: Ticket) -> None:
        """Delete a ticket without a trace."""
        del self.board(path).tickets[ticket.number]

    def say(self, ticket: Ticket, text: str, by: str = "jonas") -> Remark:
        """Add a remark, which touches its ticket."""
        remark = Remark(next(self._ids["remark"]), by, text, self._now, self._now)
        ticket.remarks.append(remark)
        ticket.changed = self._now
        return remark

    def unsay(self, ticket: Ticket, remark: Remark) -> None:
        """Delete a remark, which does not touch its ticket."""
        ticket.remarks.remove(remark)

    def route(self, request: Request) -> tuple[str, Handler] | None:
        """Return the name of a route and its handler; None for a path of another forge."""
        toy, *rest = request.segments
        if toy != "toy" or request.method != "GET":
            return None
        match rest:
            case ["me"]:
                return "GET /toy/me", lambda: json_response({"login": "reader"})
            case ["teams", team]:
                return "GET /toy/teams/:team", lambda: self._team(team)
            case ["boards", name]:
                return "GET /toy/boards/:name", lambda: self._on_board(name, _shown_board)
            case ["boards", name, "tickets"]:
                return "GET /toy/tickets", lambda: self._on_board(name, lambda board: _ticket_page(board, request))
            case ["boards", name, "tickets", number]:
                return "GET /toy/tickets/:number", lambda: self._on_ticket(name, number, _shown)
            case ["boards", name, "tickets", number, "remarks"]:
                show = lambda _board, ticket: _remark_page(ticket, request)  # noqa: E731 - one case, one line
                return "GET /toy/tickets/:number/remarks", lambda: self._on_ticket(name, number, show)
        return None

    def _team(self, team: str) -> Response:
        boards = [board for board in self._boards.values() if board.path.startswith(f"{team}/")]
        return json_response([_shown_board(board) for board in boards]) if boards else _nothing()

    def _on_board(self, name: str, show: Callable[[Board], Any]) -> Response:
        board = next((board for board in self._boards.values() if name in (str(board.id), board.path)), None)
        return _nothing() if board is None else json_response(show(board))

    def _on_ticket(self, name: str, number: str, show: Callable[[Board, Ticket], Any]) -> Response:
        board = next((board for board in self._boards.values() if name == str(board.id)), None)
        ticket = None if board is None else board.tickets.get(int(number))
        return _nothing() if board is None or ticket is None else json_response(show(board, ticket))


def _nothing() -> Response:
    return json_response({"error": "nothing here"}, 404)


def _shown_board(board: Board) -> dict[str, Any]:
    return {"id": board.id, "path": board.path, "url": f"/{board.path}", "retired": board.retired}


def _shown(board: Board, ticket: Ticket) -> dict[str, Any]:
    return {
        "id": ticket.id,
        "number": ticket.number,
        "by": ticket.by,
        "title": ticket.title,
        "text": ticket.text,
        "open": ticket.is_open,
        "tags": ticket.tags,
        "opened": ticket.opened,
        "changed": ticket.changed,
        "remarks": len(ticket.remarks),
        "url": f"/{board.path}/issues/{ticket.number}",
    }


def _ticket_page(board: Board, request: Request) -> dict[str, Any]:
    """Return tickets by `order` (changed or opened) and id: from an instant on, or after a key."""
    order = request.first("order") or "changed"
    places = sorted((getattr(ticket, order), ticket.id, ticket.number) for ticket in board.tickets.values())
    key = request.first("key")
    if key is not None:
        at, _, last = key.partition(".")
        places = [place for place in places if place[:2] > (int(at), int(last))]
    else:
        places = [place for place in places if place[0] >= int(request.first("from") or 0)]
    limit = min(int(request.first("limit") or MOST), MOST)
    page = places[:limit]
    following = f"{page[-1][0]}.{page[-1][1]}" if len(places) > limit else None
    return {"tickets": [_shown(board, board.tickets[number]) for _, _, number in page], "next": following}


def _remark_page(ticket: Ticket, request: Request) -> dict[str, Any]:
    """Return remarks by id, after a key."""
    limit = min(int(request.first("limit") or MOST), MOST)
    left = [remark for remark in ticket.remarks if remark.id > int(request.first("key") or 0)]
    page = left[:limit]
    shown = [
        {
            "id": remark.id,
            "ticket": ticket.number,
            "by": remark.by,
            "text": remark.text,
            "at": remark.at,
            "changed": remark.changed,
        }
        for remark in page
    ]
    return {"remarks": shown, "next": str(page[-1].id) if len(left) > limit else None}
