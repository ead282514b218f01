"""The calls of the toy tracker: URLs and parameters. Must not decide what to request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote

from tests.toy.payloads import Board, Me

from tidelore.core.errors import RemoteNotFound
from tidelore.http.client import HttpClient
from tidelore.http.response import Response

P = TypeVar("P")


class ToyClient:
    """One toy tracker."""

    def __init__(self, http: HttpClient, web_url: str) -> None:
        self._http = http
        self.web_url = web_url.rstrip("/")

    async def me(self) -> tuple[Me, Response]:
        """Request our user: the cheapest check that the token works."""
        return await self._http.get_json("toy/me", as_type=Me, route="me")

    async def board(self, path_or_id: str | int) -> Board:
        """Return a board by its path or its id."""
        try:
            found, _ = await self._http.get_json(board_path(path_or_id), as_type=Board, route="board")
        except RemoteNotFound as error:
            raise RemoteNotFound(
                f"board {path_or_id} does not exist or is not visible to the token",
                fix="correct its path under `projects` of this host",
                status=error.status,
                url=error.url,
                project=path_or_id,
            ) from None
        return found

    async def boards(self, team: str) -> list[Board]:
        """Return the boards of a team."""
        found, _ = await self._http.get_json(f"toy/teams/{quote(team, safe='')}", as_type=list[Board], route="team")
        return found

    async def get(self, path: str, params: Mapping[str, str | int], as_type: type[P], route: str) -> tuple[P, Response]:
        """Return one page or one object."""
        return await self._http.get_json(path, params, as_type=as_type, route=route)


def board_path(path_or_id: str | int) -> str:
    """Return the path of a board below the base URL."""
    return f"toy/boards/{quote(str(path_or_id), safe='')}"
