"""The JSON of the toy tracker, as far as it is used."""

from __future__ import annotations

from msgspec import Raw, Struct


class Me(Struct, frozen=True):
    login: str


class Board(Struct, frozen=True):
    id: int
    path: str
    url: str
    retired: bool = False


class Ticket(Struct, frozen=True):
    id: int
    number: int
    title: str
    text: str
    open: bool
    opened: int
    changed: int
    remarks: int
    url: str
    by: str | None = None
    tags: tuple[str, ...] = ()


class Remark(Struct, frozen=True):
    id: int
    ticket: int
    text: str
    at: int
    changed: int
    by: str | None = None


class TicketPage(Struct, frozen=True):
    """A page: its items, and the key of the next one."""

    tickets: list[Raw]
    next: str | None = None


class RemarkPage(Struct, frozen=True):
    """The same for remarks."""

    remarks: list[Raw]
    next: str | None = None
