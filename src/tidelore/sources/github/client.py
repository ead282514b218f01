"""The calls of the GitHub API: URLs, authentication, and the meaning of a response.

Must not decide what to request, and never repeats a write: one whose outcome is unknown raises `unclear_write`. A
'not found' of a comment or a commit only counts if the repository itself still exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar
from urllib.parse import quote

from msgspec import Raw

from tidelore.core.errors import CredentialsRejected, RemoteNotFound
from tidelore.core.model import ProjectRecord, RepositoryRecord
from tidelore.http.client import HttpClient
from tidelore.http.failures import read_written
from tidelore.http.limits import Governor
from tidelore.http.response import Response
from tidelore.sources.github.payloads import App, Comparison, Repository, User
from tidelore.sources.github.transform import transform_repository
from tidelore.sources.rest_lists import not_visible

T = TypeVar("T")

_ENTERPRISE = "/api/v3/graphql"

Params = Mapping[str, str | int]
RequestHeaders = Mapping[str, str]
Repo = str | int
"""A repository by its name, or by its id, which does not change when it is renamed."""


class AppIdentity(Protocol):
    """Authentication as a GitHub App, whose tokens expire while a client is in use."""

    async def headers(self) -> RequestHeaders:
        """Return the current headers for a request."""
        ...

    async def app_headers(self) -> RequestHeaders:
        """Return the headers for a request about the App itself."""
        ...

    def forget(self) -> None:
        """Discard the token, so that the next request gets a new one."""
        ...


class GitHubClient:
    """One GitHub host. Without an `identity`, requests carry the HTTP client's token, if it has one."""

    def __init__(self, http: HttpClient, identity: AppIdentity | None = None) -> None:
        self._http = http
        self._identity = identity

    async def repository(self, repo: Repo) -> ProjectRecord:
        """Return a repository by its name or id; the record has its current name."""
        return (await self.repository_record(repo)).project

    async def repository_record(self, repo: Repo) -> RepositoryRecord:
        """Return a repository by its name or id, with its features."""
        try:
            payload = await self._one(repo_path(repo), Repository, "repo")
        except RemoteNotFound as error:
            raise not_visible(error, f"repository {repo}", "name under `repos`", project=str(repo)) from None
        return transform_repository(payload)

    async def user(self) -> tuple[User, Response]:
        """Request our user: the cheapest check that the token works."""
        return await self._asked(
            lambda headers: self._http.get_json("user", as_type=User, headers=headers, route="user")
        )

    async def app(self) -> tuple[App, Response]:
        """Request our GitHub App."""
        assert self._identity is not None, "only a GitHub App is one"
        headers = await self._identity.app_headers()
        return await self._http.get_json("app", as_type=App, headers=headers, route="app")

    async def rate_limit(self) -> Response:
        """Request the rate limit, which does not count against it and needs no token."""
        return await self._asked(lambda headers: self._http.get("rate_limit", headers=headers, route="rate_limit"))

    async def reach(self) -> Response:
        """Check that the API answers: by the rate limit, or by its metadata on a server that limits nothing."""
        try:
            return await self.rate_limit()
        except RemoteNotFound:
            # An Enterprise Server without rate limits answers 404 here; a wrong base_url has no metadata either.
            return await self._asked(lambda headers: self._http.get("meta", headers=headers, route="meta"))

    @property
    def governor(self) -> Governor:
        """What the last response said about the rate limit and the server's clock."""
        return self._http.governor

    async def list_page(
        self, address: str, params: Params | None, *, etag: str | None, route: str
    ) -> tuple[list[Raw] | None, Response]:
        """Return one page of raw items; None if it is not modified."""
        return await self._asked(
            lambda headers: self._http.get_json(
                address, params, as_type=list[Raw], etag=etag, headers=headers, route=route
            )
        )

    async def raw(self, address: str, *, etag: str | None, route: str) -> tuple[Raw | None, Response]:
        """Return one raw object; None if it is not modified."""
        return await self._asked(
            lambda headers: self._http.get_json(address, as_type=Raw, etag=etag, headers=headers, route=route)
        )

    async def query(
        self, content: object, *, as_type: type[T], route: str, retry_overload: bool = True, points: int = 1
    ) -> tuple[T, Response]:
        """Send a GraphQL query, which will probably cost `points`, and return its decoded response."""
        return await self._asked(
            lambda headers: self._http.query(
                self.graphql_address,
                content,
                as_type=as_type,
                headers=headers,
                route=route,
                retry_overload=retry_overload,
                points=points,
            )
        )

    @property
    def graphql_address(self) -> str:
        """The URL of the GraphQL interface; an Enterprise Server has REST below /api/v3 and GraphQL beside it."""
        address = self.address("graphql")
        return address.removesuffix(_ENTERPRISE) + "/api/graphql" if address.endswith(_ENTERPRISE) else address

    async def mutate(self, content: object, *, route: str) -> Response:
        """Send a GraphQL mutation once and return its response."""
        return await self._send(self.graphql_address, content, route)

    def clean(self, text: str) -> str:
        """Return an excerpt of a server's message on one line, without secrets."""
        return self._http.clean(text)

    async def compare(self, repo: Repo, base: str, head: str) -> str:
        """Return how a head relates to a base: ahead, behind, diverged, identical.

        A base that no longer exists on the server, or has no common history with the head, counts as diverged.
        """
        address = f"{repo_path(repo)}/compare/{quote(base, safe='')}...{quote(head, safe='')}?per_page=1"
        try:
            found = await self._one(address, Comparison, "compare")
        except RemoteNotFound:
            await self.repository(repo)
            return "diverged"
        return found.status

    async def write(
        self, repo: Repo, path: str, content: object, *, read: Callable[[bytes], T], route: str, method: str = "POST"
    ) -> T:
        """Send a write once and return the stored object; a response that cannot be parsed raises `unclear_write`."""
        return read_written(await self._send(f"{repo_path(repo)}/{path}", content, route, method), read)

    def address(self, path: str, params: Params | None = None) -> str:
        """Return the full URL of a request, the key of its validator."""
        return self._http.address(path, params)

    async def _one(self, address: str, as_type: type[T], route: str) -> T:
        payload, _ = await self._asked(
            lambda headers: self._http.get_json(address, as_type=as_type, headers=headers, route=route)
        )
        return payload

    async def _send(self, address: str, content: object, route: str, method: str = "POST") -> Response:
        return await self._asked(
            lambda headers: self._http.write(address, content, method=method, headers=headers, route=route)
        )

    async def _asked(self, ask: Callable[[RequestHeaders | None], Awaitable[T]]) -> T:
        """Send an authenticated request. An expired token (the machine slept) is renewed once; a 401 had no effect."""
        if self._identity is None:
            return await ask(None)
        headers = await self._identity.headers()
        try:
            return await ask(headers)
        except CredentialsRejected:
            self._identity.forget()
        return await ask(await self._identity.headers())


def repo_path(repo: Repo) -> str:
    """Return the path of a repository: by its id, which cannot be taken over by another one, or by its name."""
    if isinstance(repo, int):
        return f"repositories/{repo}"
    owner, _, name = repo.partition("/")
    return f"repos/{quote(owner, safe='')}/{quote(name, safe='')}"
