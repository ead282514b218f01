"""The calls of the GitLab API: URLs and parameters.

Must not decide what to request, and never repeats a write: one whose outcome is unknown raises `unclear_write`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from tidelore.core.errors import RemoteNotFound, RemotePermanent
from tidelore.core.model import ProjectRecord
from tidelore.http.client import HttpClient
from tidelore.http.failures import read_written
from tidelore.http.limits import Governor
from tidelore.http.response import Response
from tidelore.sources.gitlab.payloads import Commit, Project, ProjectFeatures, User
from tidelore.sources.gitlab.transform import transform_project
from tidelore.sources.rest_lists import not_visible

P = TypeVar("P")

API = "api/v4"


class _Changes(Struct, frozen=True):
    changes: list[Raw]


class GitLabClient:
    """One GitLab host. `lacks_diffs`: the changed files of a merge request are only available at an older endpoint."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self.lacks_diffs = False

    async def project(self, path_or_id: str | int) -> ProjectRecord:
        """Return a project by its path or its id."""
        name = str(path_or_id)
        address = f"{API}/projects/{quote(name, safe='')}"
        try:
            payload, _ = await self._http.get_json(address, as_type=Project, route="project")
        except RemoteNotFound as error:
            raise not_visible(error, f"project {name}", "path under `projects`", project=name) from None
        return transform_project(payload)

    async def features(self, project_id: int) -> ProjectFeatures:
        """Return which lists a project has, as far as it can be read. They may change at any time."""
        try:
            return await self.one(f"{API}/projects/{project_id}", as_type=ProjectFeatures, route="project")
        except RemotePermanent:
            return ProjectFeatures()

    async def user(self) -> tuple[User, Response]:
        """Request our user: the cheapest check that the token works."""
        return await self._http.get_json(f"{API}/user", as_type=User, route="user")

    async def greet(self) -> Response:
        """Send an unauthenticated request, to check that a GitLab server responds."""
        _, response = await self._http.get_json(f"{API}/projects", {"per_page": 1}, as_type=list[Raw], route="projects")
        return response

    @property
    def governor(self) -> Governor:
        """What the last response said about the rate limit and the server's clock."""
        return self._http.governor

    async def merge_base(self, project_id: int, one: str, other: str) -> str | None:
        """Return the last common commit of two commits; None if one is unknown or they have no common history."""
        refs = f"refs%5B%5D={quote(one, safe='')}&refs%5B%5D={quote(other, safe='')}"
        address = f"{API}/projects/{project_id}/repository/merge_base?{refs}"
        try:
            found, _ = await self._http.get_json(address, as_type=Commit, route="merge_base")
        except RemoteNotFound:
            # The same answer as for a project that is gone.
            await self.project(project_id)
            return None
        except RemotePermanent as error:
            if error.status != 400:
                raise
            return None
        return found.id

    async def write(
        self, address: str, content: object, *, read: Callable[[bytes], P], route: str, method: str = "POST"
    ) -> P:
        """Send a write once and return the stored object; a response that cannot be parsed raises `unclear_write`."""
        return read_written(await self._http.write(address, content, method=method, route=route), read)

    async def one(self, address: str, *, as_type: type[P], route: str) -> P:
        """Return one object."""
        found, _ = await self._http.get_json(address, as_type=as_type, route=route)
        return found

    async def list_page(
        self, address: str, params: Mapping[str, str | int] | None, *, etag: str | None, route: str
    ) -> tuple[list[Raw] | None, Response]:
        """Return one page of raw items; None if it is not modified."""
        return await self._http.get_json(address, params, as_type=list[Raw], etag=etag, route=route)

    async def changes(self, address: str, *, route: str) -> tuple[list[Raw], Response]:
        """Return all changed files of a merge request from a server that does not paginate them."""
        # Raw diffs have no size limits, which would leave files out.
        found, response = await self._http.get_json(
            address, {"access_raw_diffs": "true"}, as_type=_Changes, route=route
        )
        return found.changes, response

    def address(self, path: str, params: Mapping[str, str | int]) -> str:
        """Return the full URL of a request, equal to the `url` of its response."""
        return self._http.address(path, params)

    async def query(self, document: str, variables: Mapping[str, object], *, as_type: type[P], route: str) -> P:
        """Send a read-only GraphQL query by GET, so that it is retried like any other read."""
        params = {"query": document, "variables": msgspec.json.encode(variables).decode()}
        answer, _ = await self._http.get_json("api/graphql", params, as_type=as_type, route=route)
        return answer

    async def query_pages(self, content: Mapping[str, object], *, as_type: type[P], route: str) -> tuple[P, Response]:
        """Send a read-only GraphQL query by POST. An overload is raised at once: the caller asks for less instead."""
        return await self._http.query("api/graphql", content, as_type=as_type, route=route, retry_overload=False)

    def clean(self, text: str) -> str:
        """Return an excerpt of a server's message on one line, without secrets."""
        return self._http.clean(text)

    async def exists(self, address: str, *, route: str) -> bool:
        """Return whether an object exists and is visible to us."""
        try:
            await self._http.get(address, route=route)
        except RemoteNotFound:
            return False
        return True
