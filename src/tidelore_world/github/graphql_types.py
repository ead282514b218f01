"""What a GraphQL field is on the simulated GitHub: its type, its arguments and how its value is found.

Owns the declarations, the pages of connections and the errors of single fields. Refuses to read documents (`graphql`)
or to know which types there are (`graphql_schema`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelore_world.github.hub import Hub
from tidelore_world.github.paging import read_cursor, write_cursor
from tidelore_world.github.repository import Repository
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.github.shelf import Key

MOST_PER_PAGE = 100
PAGE_ARGUMENTS = ("first", "last", "after", "before")

Arguments = Mapping[str, Any]


class FieldFailure(Exception):
    """A field that has no value; `kind` is the `type` of the error that tells why."""

    def __init__(self, kind: str, message: str, **extensions: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.extensions = extensions


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, and what there is: the same for all fields of one query."""

    hub: Hub
    settings: GitHubSettings
    origin: str
    viewer: str
    rate_limit: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    """An object of a type, with the row and the repository its fields are read from."""

    type_name: str
    row: Any
    repo: Repository | None = None

    @property
    def home(self) -> Repository:
        """The repository of an object that cannot be without one."""
        assert self.repo is not None
        return self.repo


Resolve = Callable[[Context, Node, Arguments], Any]


@dataclass(frozen=True, slots=True)
class FieldType:
    """One field of a type. `inner` is None for a scalar, else the type it leads to."""

    name: str
    inner: str | None
    resolve: Resolve
    nullable: bool
    arguments: frozenset[str]
    required: tuple[str, ...]

    @property
    def is_connection(self) -> bool:
        """Whether it is read by pages."""
        return self.inner is not None and self.inner.endswith("Connection")


SCALARS = frozenset({"String", "Int", "Boolean", "ID", "DateTime", "URI", "HTML", "BigInt", "GitObjectID", "Float"})


def fields(**declared: tuple[str, Resolve] | tuple[str, Resolve, str]) -> dict[str, FieldType]:
    """Declare fields as `name=("Type!", resolve)`, with a third text that names arguments, required ones with `!`."""
    made: dict[str, FieldType] = {}
    for name, (spelled, resolve, *rest) in declared.items():
        bare = spelled.strip("[]!")
        words = (rest[0] if rest else "").split()
        if bare.endswith("Connection"):
            words += PAGE_ARGUMENTS
        made[name] = FieldType(
            name=name,
            inner=None if bare in SCALARS or bare.isupper() else bare,
            resolve=resolve,
            nullable=not spelled.endswith("!"),
            arguments=frozenset(word.rstrip("!") for word in words),
            required=tuple(word.rstrip("!") for word in words if word.endswith("!")),
        )
    return made


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a connection: its nodes with their keys, and what lies around them."""

    nodes: Sequence[Node]
    keys: Sequence[Key]
    total: int
    has_next: bool
    has_previous: bool

    def cursor(self, place: int) -> str | None:
        """The cursor of a node; None where there is none."""
        return write_cursor(self.keys[place]) if self.keys else None


@dataclass(frozen=True, slots=True)
class Cut:
    """What a connection was asked for."""

    size: int
    backwards: bool
    after: Key | None
    before: Key | None
    counted_only: bool = field(default=False)


def read_cut(name: str, given: Arguments) -> Cut:
    """Read the page arguments; what is missing or too large fails the field, as on the real service."""
    first, last = given.get("first"), given.get("last")
    if first is None and last is None:
        if given.get("_counted_only"):
            return Cut(0, backwards=False, after=None, before=None, counted_only=True)
        raise FieldFailure(
            "MISSING_PAGINATION_BOUNDARIES",
            f"You must provide a `first` or `last` value to properly paginate the `{name}` connection.",
        )
    word, size = ("last", last) if first is None else ("first", first)
    if not isinstance(size, int) or size < 0:
        raise FieldFailure("INVALID_PAGINATION", f"`{word}` on the `{name}` connection cannot be less than zero.")
    if size > MOST_PER_PAGE:
        raise FieldFailure(
            "EXCESSIVE_PAGINATION",
            f"Requesting {size} records on the `{name}` connection exceeds the `{word}` limit of 100 records.",
        )
    return Cut(size, first is None, _key(given.get("after")), _key(given.get("before")))


def _key(cursor: Any) -> Key | None:
    if not cursor:
        return None
    key = read_cursor(str(cursor))
    if key is None:
        raise FieldFailure("INVALID_CURSOR_ARGUMENTS", f"`{cursor}` does not appear to be a valid cursor.")
    return key


def paged(
    type_name: str,
    name: str,
    given: Arguments,
    rows: Sequence[Node],
    key: Callable[[Node], Key],
    *,
    descending: bool = False,
    repo: Repository | None = None,
) -> Node:
    """A page of rows that are in the order of their keys."""
    cut, total = read_cut(name, given), len(rows)
    left = [
        row
        for row in rows
        if (cut.after is None or (key(row) < cut.after if descending else key(row) > cut.after))
        and (cut.before is None or (key(row) > cut.before if descending else key(row) < cut.before))
    ]
    shown = left[-cut.size :] if cut.backwards and cut.size else left[: cut.size]
    cut_off = len(left) > len(shown)
    page = Page(
        nodes=shown,
        keys=[key(row) for row in shown],
        total=total,
        has_next=cut.before is not None if cut.backwards else cut_off,
        has_previous=cut_off if cut.backwards else cut.after is not None,
    )
    return Node(type_name, page, repo)


def numbered(type_name: str, name: str, given: Arguments, rows: Sequence[Node], repo: Repository | None = None) -> Node:
    """A page of a short list that has no order but its own."""
    places = {id(row): index for index, row in enumerate(rows, 1)}
    return paged(type_name, name, given, rows, lambda row: (0, places[id(row)]), repo=repo)


def connection_fields() -> dict[str, FieldType]:
    """What every connection has, its nodes aside."""
    return fields(
        totalCount=("Int!", lambda _c, node, _a: node.row.total),
        pageInfo=("PageInfo!", lambda _c, node, _a: Node("PageInfo", node.row)),
    )


PAGE_INFO = fields(
    hasNextPage=("Boolean!", lambda _c, node, _a: node.row.has_next),
    hasPreviousPage=("Boolean!", lambda _c, node, _a: node.row.has_previous),
    startCursor=("String", lambda _c, node, _a: node.row.cursor(0)),
    endCursor=("String", lambda _c, node, _a: node.row.cursor(-1)),
)


def edges(node: Node, type_name: str) -> list[Node]:
    """The nodes of a page, each with its cursor."""
    return [Node(type_name, (row, node.row.cursor(place)), node.repo) for place, row in enumerate(node.row.nodes)]
