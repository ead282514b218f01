"""The GitLab API as calls. Owns addresses and the understanding of list items; refuses to decide what to ask.

A list item that cannot be understood becomes a `Rejected` beside its readable neighbours (invariant 7).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from tidelore.content import digest
from tidelore.errors import RemoteNotFound
from tidelore.model import IssueRecord, Item, MergeRequestRecord, ProjectRecord, Rejected, Version
from tidelore.sources.gitlab.payloads import Issue, MergeRequest, Project, User
from tidelore.sources.gitlab.transform import transform_issue, transform_merge_request, transform_project
from tidelore.sources.http import HttpClient, Reply

_LOG = logging.getLogger(__name__)

P = TypeVar("P")
R = TypeVar("R", IssueRecord, MergeRequestRecord)

API = "api/v4"


class Understood(Struct, Generic[R], frozen=True):
    """A page's items, sorted by whether they could be read."""

    items: list[Item[R]]
    rejected: list[Rejected]


class Reader(Generic[P, R]):
    """Turns raw list items into items of one kind. `at` picks the instant the list is ordered by."""

    def __init__(self, payload: type[P], transform: Callable[[P], R]) -> None:
        self._decode = msgspec.json.Decoder(payload).decode
        self._transform: Callable[[P], R] = transform

    def read(self, raws: list[Raw], at: Callable[[R], int]) -> Understood[R]:
        """Understand what can be understood."""
        items: list[Item[R]] = []
        rejected: list[Rejected] = []
        for raw in raws:
            payload = bytes(raw)
            try:
                record = self._transform(self._decode(payload))
                if b"\\u0000" in payload:
                    refuse_nul(record)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                rejected.append(reject(payload, str(error)))
                continue
            version = Version(record.remote_id, record.updated_at, digest(payload))
            items.append(Item(version, at(record), payload, record))
        return Understood(items, rejected)


def refuse_nul(record: Struct) -> None:
    """Refuse a text with a NUL in it: PostgreSQL stores none, and one item must not fail its whole page."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and "\x00" in text for text in texts):
            raise ValueError(f"{name}: contains a NUL character")


ISSUES = Reader(Issue, transform_issue)
MERGE_REQUESTS = Reader(MergeRequest, transform_merge_request)


def reject(payload: bytes, error: str) -> Rejected:
    """Name a payload that cannot be understood as well as it allows."""
    try:
        # The tolerant reader: a broken text elsewhere in the payload must not hide what it is about.
        value = json.loads(payload)
    except (ValueError, RecursionError):
        value = None
    known = value if isinstance(value, dict) else {}
    remote_id, iid = known.get("id"), known.get("iid")
    named = isinstance(remote_id, int | str) and not isinstance(remote_id, bool) and remote_id != ""
    key = str(remote_id) if named else f"content:{digest(payload).hex()}"
    locator = str(iid) if isinstance(iid, int) and not isinstance(iid, bool) else None
    _LOG.warning("item %s could not be understood: %s", key, error)
    return Rejected(key, locator, payload, error)


class GitLabClient:
    """One GitLab host."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def project(self, path_or_id: str | int) -> ProjectRecord:
        """Return a project by its path or its number."""
        address = f"{API}/projects/{quote(str(path_or_id), safe='')}"
        try:
            payload, _ = await self._http.get_json(address, as_type=Project, route="project")
        except RemoteNotFound as error:
            raise RemoteNotFound(
                f"there is no project {path_or_id}, or the token may not see it",
                fix="correct its path under `projects` of this host, or give the token access to it",
                status=error.status,
                url=error.url,
                project=str(path_or_id),
            ) from None
        return transform_project(payload)

    async def user(self) -> tuple[User, Reply]:
        """Ask who we are: the cheapest proof that the token works."""
        return await self._http.get_json(f"{API}/user", as_type=User, route="user")

    async def greet(self) -> Reply:
        """Ask for something anybody may read: proof that a GitLab answers."""
        _, reply = await self._http.get_json(f"{API}/projects", {"per_page": 1}, as_type=list[Raw], route="projects")
        return reply

    @property
    def remaining(self) -> int | None:
        """How many requests the server still allows, where it says so."""
        return self._http.governor.remaining

    async def list_page(
        self, address: str, params: Mapping[str, str | int] | None, *, etag: str | None, route: str
    ) -> tuple[list[Raw] | None, Reply]:
        """Return one page of raw items; None when it is not modified."""
        return await self._http.get_json(address, params, as_type=list[Raw], etag=etag, route=route)

    def address(self, path: str, params: Mapping[str, str | int]) -> str:
        """Return the full address of a request, as its reply will name it."""
        return self._http.address(path, params)

    async def query(self, document: str, variables: Mapping[str, object], *, as_type: type[P], route: str) -> P:
        """Ask a GraphQL query, which is a read: by GET, so that it may be repeated like one."""
        params = {"query": document, "variables": msgspec.json.encode(variables).decode()}
        answer, _ = await self._http.get_json("api/graphql", params, as_type=as_type, route=route)
        return answer

    def clean(self, text: str) -> str:
        """Return the beginning of what the server said, on one line and without secrets."""
        return self._http.clean(text)

    async def exists(self, address: str, *, route: str) -> bool:
        """Return whether an object is there for us."""
        try:
            await self._http.get(address, route=route)
        except RemoteNotFound:
            return False
        return True
