"""The lists of the toy tracker, as the engine reads them: the tickets of a board, the remarks of a ticket.

The token inside a window is the server's key of the next page.
"""

from __future__ import annotations

from functools import partial

from msgspec import Raw
from tests.toy.client import ToyClient, board_path
from tests.toy.payloads import Remark, RemarkPage, Ticket, TicketPage
from tests.toy.transform import transform_remark, transform_ticket

from tidelore.core.errors import RemoteNotFound
from tidelore.core.model import CommentRecord, IssueRecord
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.items import ItemReader

REMARKS = ItemReader(Remark, transform_remark, locator=None)


class TicketList:
    """The tickets of a board, by update time for the walk and by creation for verification."""

    def __init__(self, client: ToyClient, board_id: int, per_page: int, *, by_creation: bool) -> None:
        self._client = client
        self._board_id = board_id
        self._per_page = per_page
        self._by_creation = by_creation
        self._reader = ItemReader(Ticket, partial(transform_ticket, web_url=client.web_url), locator="number")

    async def fetch(self, request: ListRequest) -> Page[IssueRecord]:
        params: dict[str, str | int] = {"order": "opened" if self._by_creation else "changed", "limit": self._per_page}
        if request.token is not None:
            params["key"] = request.token
        elif request.since:
            params["from"] = request.since
        found, response = await self._client.get(f"{board_path(self._board_id)}/tickets", params, TicketPage, "tickets")
        read = self._reader.read(found.tickets, self._at)
        return Page(items=read.items, rejected=read.rejected, next_token=found.next, server_at=response.server_at)

    async def fetch_one(self, locator: str) -> Page[IssueRecord]:
        """Request one ticket. It is gone if it is not found and the board is."""
        address = f"{board_path(self._board_id)}/tickets/{locator}"
        try:
            raw, response = await self._client.get(address, {}, Raw, "tickets/one")
        except RemoteNotFound:
            await self._client.board(str(self._board_id))
            return Page()
        read = self._reader.read([raw], self._at)
        return Page(items=read.items, rejected=read.rejected, server_at=response.server_at)

    def _at(self, record: IssueRecord) -> int:
        return record.created_at if self._by_creation else record.updated_at


class RemarkList:
    """The remarks of one ticket."""

    def __init__(self, client: ToyClient, board_id: int, number: int, per_page: int) -> None:
        self._client = client
        self._address = f"{board_path(board_id)}/tickets/{number}/remarks"
        self._per_page = per_page

    async def fetch(self, request: ListRequest) -> Page[CommentRecord]:
        params: dict[str, str | int] = {"limit": self._per_page}
        if request.token is not None:
            params["key"] = request.token
        found, response = await self._client.get(self._address, params, RemarkPage, "remarks")
        read = REMARKS.read(found.remarks, lambda record: record.updated_at)
        return Page(items=read.items, rejected=read.rejected, next_token=found.next, server_at=response.server_at)
