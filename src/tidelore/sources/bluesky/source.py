"""Bluesky as a source: opens AppView, PLC directory and account servers, and provides lists and calls.

No credentials. All HTTP clients share one limit of concurrent requests. The callers decide which account is due and how
to handle an unavailable one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tidelore.core.errors import RemoteNotFound, RemotePermanent
from tidelore.core.model import PostRecord
from tidelore.core.references import STARTER_PACK
from tidelore.engine.ports import Lister, ListRequest
from tidelore.engine.whole import read_all
from tidelore.http.client import HttpClient
from tidelore.http.tls import is_loopback
from tidelore.http.transport import Reach
from tidelore.sources.bluesky.client import MOST_PROFILES, Origins, XrpcClient
from tidelore.sources.bluesky.identity import AccountIdentity, read_document, resolve_handle, why_hidden
from tidelore.sources.bluesky.payloads import POST, RecordAddress
from tidelore.sources.bluesky.surfaces import AuthorFeed, Profile, ProfileList, RecordList, read_profiles
from tidelore.sources.ports import Wiring

NOBODY = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
"""A DID that no account has."""


class BlueskySource:
    """The public Bluesky network."""

    name = "bluesky"
    kind = "bluesky"

    def __init__(self, appview: HttpClient, plc: HttpClient, origins: Origins) -> None:
        self._http = appview
        self._appview = XrpcClient(appview)
        self._plc = plc
        self._origins = origins

    def author_feed(self, did: str, per_page: int, *, pins: bool = False) -> Lister[PostRecord]:
        """Return an account's posts, newest first."""
        return AuthorFeed(self._appview, self._repository, did, per_page=per_page, pins=pins)

    def records(self, pds_url: str, did: str, collection: str = POST, per_page: int = 100) -> Lister[PostRecord]:
        """Return a collection of an account's repository, in the order of writing; the token is a record key."""
        return RecordList(lambda: self._server(pds_url), did, collection, per_page=per_page)

    async def profiles(self, dids: Sequence[str]) -> list[Profile]:
        """Return the accounts that can be shown."""
        found: list[Profile] = []
        for start in range(0, len(dids), MOST_PROFILES):
            answer = await self._appview.profiles(dids[start : start + MOST_PROFILES])
            found += [item.record for item in read_profiles(answer.profiles).items]
        return found

    async def follows(self, actor: str) -> list[Profile]:
        """Return the accounts that an account follows."""
        return await _read_whole(ProfileList(partial(self._appview.follows, actor)))

    async def members(self, owner: str, collection: str, rkey: str) -> list[Profile]:
        """Return the accounts in a list or starter pack."""
        uri = str(RecordAddress(await self.resolve(owner), collection, rkey))
        if collection == STARTER_PACK:
            pack = (await self._appview.starter_pack(uri)).pack
            if pack.list is None:
                raise RemoteNotFound(f"the starter pack {uri} has no list of accounts", uri=uri)
            uri = pack.list.uri
        return await _read_whole(ProfileList(partial(self._appview.list_members, uri)))

    async def resolve(self, handle: str) -> str:
        """Return the DID of a handle; a DID is returned unchanged."""
        return await resolve_handle(self._appview, handle)

    async def document(self, did: str) -> AccountIdentity:
        """Return the server of an account's records, and the handle it claims."""
        return await read_document(self._plc, self._origins, did)

    async def home(self, did: str) -> str:
        """Return the server of an account's records; raise RemoteNotFound if its document names none."""
        pds_url = (await self.document(did)).pds_url
        if pds_url is None:
            raise RemoteNotFound(f"the DID document of {did} does not name a data server", did=did)
        return pds_url

    async def is_deleted(self, did: str) -> bool:
        """Return whether an account is deleted: neither the AppView nor the account's server has it.

        One of them alone may be wrong, or not have the account yet.
        """
        if await self.profiles([did]):
            return False
        try:
            async with self._repository(did) as client:
                return (await client.repo_status(did)).status == "deleted"
        except RemotePermanent as error:
            # 410: the DID itself was deactivated in the directory.
            return why_hidden(error) == "not found" or error.status == 410

    async def answers_strangers(self, pds_url: str | None = None) -> bool:
        """Return whether the AppView, or an account server, responds to a request for an account that does not exist.

        A server that refuses even that refuses all requests, so its refusals give no information about an account.
        """
        lister = self.author_feed(NOBODY, 1) if pds_url is None else self.records(pds_url, NOBODY, per_page=1)
        try:
            await lister.fetch(ListRequest())
        except RemotePermanent as error:
            return error.status not in (401, 403)
        return True

    @asynccontextmanager
    async def _server(self, pds_url: str) -> AsyncIterator[XrpcClient]:
        async with self._origins.using(pds_url) as http:
            yield XrpcClient(http)

    @asynccontextmanager
    async def _repository(self, did: str) -> AsyncIterator[XrpcClient]:
        async with self._server(await self.home(did)) as client:
            yield client


async def _read_whole(accounts: ProfileList) -> list[Profile]:
    return [item.record for item in (await read_all(accounts)).items]


@asynccontextmanager
async def open_bluesky(wiring: Wiring) -> AsyncIterator[BlueskySource]:
    """Open the network; its connections close with the block."""
    config, settings = wiring.config, wiring.config.bluesky
    slots = asyncio.Semaphore(settings.max_concurrent)

    def connect(base_url: str, reach: Reach = "any") -> HttpClient:
        # Only the AppView has the name of the source; servers of accounts are unnamed.
        name = "bluesky" if base_url == settings.base_url else ""
        return HttpClient(
            base_url,
            timeout_seconds=config.http.timeout_seconds,
            max_retries=settings.max_retries,
            retry_backoff_seconds=settings.retry_backoff_ms / 1000,
            ca_file=config.http.ca_file,
            proxy=config.http.proxy,
            reach=reach,
            max_concurrency=settings.max_concurrent,
            slots=slots,
            rate_limit_rps=config.sync.rate_limit_rps,
            clock=wiring.clock,
            on_request=wiring.on_request,
            transport=wiring.transport,
            name=name,
            allowance=wiring.allowance,
            grants=wiring.grants_of(name, None) if name else None,
            paused_until=wiring.paused_until(name) if name else None,
            on_pause=partial(wiring.keep_pause, name) if name else None,
        )

    # Another server may show other posts; other intervals apply from now on, not after the old ones.
    paces = (str(settings.interval_minutes), str(settings.max_staleness_minutes))
    wiring.note_access(BlueskySource.name, settings.base_url, *paces)
    local = is_loopback(settings.base_url) or is_loopback(settings.plc_url)
    origins = Origins(partial(connect, reach="public_or_local" if local else "public"), local=local)
    try:
        async with connect(settings.base_url) as appview, connect(settings.plc_url) as plc:
            yield BlueskySource(appview, plc, origins)
    finally:
        await origins.close()
