"""One configured toy tracker: its table in the configuration, its entry in the registry, and its lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta
from tests.toy.client import ToyClient
from tests.toy.surfaces import RemarkList, TicketList
from tests.toy.transform import transform_board

from tidelore.core.clock import Clock
from tidelore.core.config import VARIABLE, Name, ProjectHost
from tidelore.core.errors import CredentialsMissing, TideloreError
from tidelore.core.model import ChildRecord, ListedRecord, ProjectRecord, StatusRecord
from tidelore.engine.ports import Lister, Pages, Parent
from tidelore.http.client import bearer
from tidelore.sources.credentials import find_token
from tidelore.sources.items import ThreadComments
from tidelore.sources.ports import Greeting, Resource, Wiring, skew_of
from tidelore.sources.registry import Forge


class ToyHost(ProjectHost, frozen=True, kw_only=True):
    """A `[[toy]]` table."""

    kind = "toy"
    title = "Toy tracker"

    name: Name = "toy"
    token_env: Annotated[str, Meta(pattern=VARIABLE)] = "TOY_TOKEN"


TOY = Forge(ToyHost, "tests.toy.source:open_toy")
"""The line of the registry."""


class ToySource:
    """One toy tracker, with a client or with the reason why there is none."""

    kind = "toy"
    resources: Mapping[str, Resource] = MappingProxyType({"issues": Resource(("comments",))})
    feeds: Mapping[str, str] = MappingProxyType({})
    owns_names = False

    def __init__(self, name: str, door: ToyClient | TideloreError, clock: Clock, per_page: int) -> None:
        self.name = name
        self.closed = door if isinstance(door, TideloreError) else None
        self._door = door
        self._clock = clock
        self._per_page = per_page

    @property
    def _client(self) -> ToyClient:
        if isinstance(self._door, TideloreError):
            raise self._door
        return self._door

    async def greet(self) -> Greeting:
        me, response = await self._client.me()
        return Greeting(f"signed in as {me.login}", skew_of(response, self._clock.now_ms()))

    async def resolve(self, configured: str | int) -> ProjectRecord:
        return transform_board(await self._client.board(configured), self._client.web_url)

    async def group(self, path: str) -> Sequence[ProjectRecord]:
        return [transform_board(board, self._client.web_url) for board in await self._client.boards(path)]

    def listing(
        self,
        resource: str,
        remote_id: int,
        *,
        by_creation: bool = False,
        keyset: bool = False,
        backfill: bool = False,
    ) -> Lister[ListedRecord]:
        return TicketList(self._client, remote_id, self._per_page, by_creation=by_creation)

    def children(
        self,
        kind: str,
        resource: str,
        remote_id: int,
        parent: Parent,
    ) -> Sequence[Pages[ChildRecord]]:
        return [ThreadComments(RemarkList(self._client, remote_id, parent.iid, self._per_page))]

    def announce(self, kind: str, resource: str, remote_id: int, path: str, parents: Sequence[Parent]) -> None:
        """Do nothing: each list of remarks is a request by itself."""

    def parents_per_request(self, _kind: str) -> int:
        return 1

    def shared_requests(self, kind: str) -> str:
        return kind

    async def login(self) -> str | None:
        me, _ = await self._client.me()
        return me.login

    async def statuses(self, _path: str, _iids: Sequence[int]) -> Mapping[int, StatusRecord | None] | None:
        return None


@asynccontextmanager
async def open_toy(host: ToyHost, wiring: Wiring) -> AsyncIterator[ToySource]:
    """Open a toy tracker; its connections close with the block. Without a token it is closed."""
    clock, per_page = wiring.clock, wiring.config.http.per_page
    try:
        token = find_token(host.base_url, host.token_env, ("toy-cli", "token"), wiring.environ, host.name)
    except CredentialsMissing as error:
        yield ToySource(host.name, error, clock, per_page)
        return
    secret = token.value if token else None
    async with wiring.http_client(host.name, host.base_url, secret, bearer) as http:
        yield ToySource(host.name, ToyClient(http, host.web_url), clock, per_page)
