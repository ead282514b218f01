"""Sends GraphQL queries and accepts only complete answers. The client of each forge is derived from `PagedQueries`.

Responsible for the size of pages. A server may answer a query only in part: it names a limit, leaves null where an
object should be, or gives up because the page takes too long. Such an answer is never returned: the same query is sent
again with a smaller page and the same cursor, and the smaller size is kept for the next queries of this client. A
client that begins with small pages asks for more after each success.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.http.client import is_overload
from tidelore.http.response import Response

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Path = tuple[str | int, ...]

NULL = Raw(b"null")
"""What stands for a missing value where bytes are kept as they came."""

UNKNOWN = frozenset({"undefinedType", "undefinedField", "argumentNotAccepted", "cannotSpreadFragment"})
"""Error codes of a server whose schema does not have what was asked for."""

_LEAST_INNER = 5
"""The smallest page inside a page of one."""
MOST_PATIENCE = 8
"""After how many successes a page that was too large before is tried again, at most."""


class PageSize(Struct, frozen=True):
    """How much one query asks for: `outer` objects, each with a page of `inner` objects (0: it has no such size)."""

    outer: int
    inner: int = 0

    def smaller(self) -> PageSize | None:
        """Return the next smaller size, or None below the minimum."""
        if self.outer > 1:
            return PageSize(self.outer // 2, self.inner)
        return PageSize(1, self.inner // 2) if self.inner // 2 >= _LEAST_INNER else None

    def larger(self, most: PageSize) -> PageSize:
        """Return twice the size, at most the given one."""
        return PageSize(min(2 * self.outer, most.outer), self.inner)


class PageInfo(Struct, frozen=True, gc=False, rename="camel"):
    has_next_page: bool
    end_cursor: str | None = None

    @property
    def following(self) -> str | None:
        """The cursor of the next page; None at the end."""
        if self.has_next_page and self.end_cursor is None:
            raise PartialAnswer("a page has a next one and no cursor")
        return self.end_cursor if self.has_next_page else None


class Connection(Struct, frozen=True, gc=False, rename="camel"):
    """One page of a list, with its objects as they came."""

    page_info: PageInfo
    nodes: tuple[Raw, ...]


class GraphQlData(Struct, frozen=True):
    """A complete answer. `hidden` are the paths at which null means that the object is not there for this token."""

    data: Raw
    hidden: frozenset[Path] = frozenset()
    server_at: int | None = None


class Extensions(Struct, frozen=True):
    code: str | None = None


class Problem(Struct, frozen=True):
    """One entry of `errors`. GitHub names its type, GitLab a code."""

    message: str = ""
    kind: str | None = msgspec.field(default=None, name="type")
    path: tuple[str | int, ...] | None = None
    extensions: Extensions | None = None


class GraphQlAnswer(Struct, frozen=True):
    """The body of a response."""

    data: Raw = NULL
    errors: tuple[Problem, ...] | None = None


class PartialAnswer(Exception):
    """An answer that lacks something; only raised between a reader and `PagedQueries.ask`."""


class PagedQueries(ABC):
    """The GraphQL interface of one host, as far as it is the same for all forges."""

    def __init__(self) -> None:
        self._sizes: dict[str, PageSize] = {}
        self._patience: dict[str, int] = {}
        self._successes: dict[str, int] = {}
        self._grown: dict[str, PageSize] = {}

    @abstractmethod
    async def send(
        self, content: dict[str, Any], route: str, *, retry_overload: bool
    ) -> tuple[GraphQlAnswer, Response]:
        """Send one query; raise AccessRefused if the server does not offer it."""

    @abstractmethod
    def judge(self, problems: tuple[Problem, ...], response: Response, *, skips_hidden: bool) -> frozenset[Path]:
        """Return the paths of hidden objects, or raise the error that the problems amount to."""

    @abstractmethod
    def count(self, data: Raw) -> bool:
        """Keep what the query cost; return whether a larger one would come near a limit."""

    @abstractmethod
    def refuse(self) -> None:
        """Raise the error because of which no query may be sent, if there is one."""

    def size(self, route: str, wanted: PageSize) -> PageSize:
        """Return the size to use for a kind of query: the wanted one, unless another one proved right."""
        return self._sizes.get(route, wanted)

    async def ask(
        self,
        document: str,
        variables: Callable[[PageSize], dict[str, Any]],
        read: Callable[[GraphQlData], T],
        *,
        route: str,
        size: PageSize,
        most: PageSize | None = None,
        skips_hidden: bool = False,
    ) -> T:
        """Send a query and return what `read` makes of its complete answer.

        `variables` are built for a size; `read` raises `PartialAnswer` if something is missing. Then, or if the server
        cannot answer a query of this size, the query is sent again with a smaller one. After a success the size grows
        up to `most`. With `skips_hidden` an entry of an inner list may be hidden from the token, such as an issue of a
        private repository.
        """
        while True:
            self.refuse()
            size = self.size(route, size)
            smaller = size.smaller()
            content = {"query": document, "variables": variables(size)}
            try:
                answer, response = await self.send(content, route, retry_overload=smaller is None)
                hidden = self.judge(answer.errors or (), response, skips_hidden=skips_hidden)
                if answer.data == NULL:
                    raise PartialAnswer("no data")
                near = self.count(answer.data)
                found = read(GraphQlData(answer.data, hidden, response.server_at))
            except PartialAnswer as partial:
                reason = str(partial)
            except RemoteTransient as error:
                if not is_overload(error) or smaller is None:
                    raise
                reason = f"status {error.status}" if error.status is not None else error.reason or "no answer"
            else:
                self._adapt(route, size, smaller if near else None, most)
                return found
            if smaller is None:
                raise RemoteTransient(
                    f"the server does not answer {route} completely, even in the smallest pages: {reason}",
                    reason="graphql_partial",
                    fix="run the command again later; it continues where it stopped",
                )
            _LOG.info("%s: %s with %d x %d objects; retrying with fewer", route, reason, size.outer, size.inner)
            self._shrink(route, size, smaller)

    def _shrink(self, route: str, size: PageSize, smaller: PageSize) -> None:
        if self.size(route, size) == size:
            # Otherwise a query sent beside this one has reduced the size already.
            self._sizes[route] = smaller
            if self._successes.get(route, 1):
                # Each new failure makes the next attempt with larger pages wait longer.
                self._patience[route] = min(2 * self._patience.get(route, 1), MOST_PATIENCE)
            self._successes[route] = 0

    def _adapt(self, route: str, size: PageSize, smaller: PageSize | None, most: PageSize | None) -> None:
        """Choose the size of the next query after a success: smaller near a limit, else larger if it may grow."""
        if smaller is not None:
            self._shrink(route, size, smaller)
        elif most is not None and self.size(route, size) == size:
            patience, successes = self._patience.get(route, 1), self._successes.get(route, 0) + 1
            if size == self._grown.pop(route, None):
                # The larger page was right: what failed before was something on it, and not its size.
                patience = self._patience[route] = max(1, patience // 2)
            self._successes[route] = successes
            if successes >= patience and size != size.larger(most):
                self._sizes[route] = self._grown[route] = size.larger(most)


def decode(data: GraphQlData, as_type: type[T]) -> T:
    """Return the decoded data of an answer; another shape than asked for is a permanent failure."""
    try:
        return msgspec.json.decode(data.data, type=as_type)
    except msgspec.ValidationError as error:
        raise RemotePermanent(f"unexpected answer to a query: {error}", reason="bad_shape") from None


def present(nodes: tuple[Raw, ...], hidden: frozenset[Path] = frozenset(), path: Path = ()) -> list[bytes]:
    """Return the objects of a page without the hidden ones; any other null makes the answer partial."""
    found = []
    for place, raw in enumerate(nodes):
        payload = bytes(raw)
        if payload != b"null":
            found.append(payload)
        elif (*path, place) not in hidden:
            raise PartialAnswer("an object of a list is null")
    return found
