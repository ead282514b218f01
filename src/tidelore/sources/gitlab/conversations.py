"""Reads the discussions of many issues or merge requests with few GraphQL queries.

Each parent asks for its own discussions (`ConversationList`); a query for one also asks for those that were announced
to come next (`ConversationBatches`). A parent is answered whole or not at all: what GraphQL does not show completely is
read by REST, as is everything on a host without GraphQL. A discussion read by either way is the same version; only the
line ranges of notes on diffs are unknown until REST shows them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tidelore.core.errors import AccessRefused, CredentialsRejected, RateLimited, RemoteError, RemoteNotFound
from tidelore.core.model import ChildRecord, DiscussionRecord, Item, NoteRecord
from tidelore.engine.ports import ListRequest, Page, Pages
from tidelore.sources.gitlab.graphql import GitLabGraphQl
from tidelore.sources.gitlab.payloads import Moment, Number, User
from tidelore.sources.gitlab.transform import discussion_item, make_discussion, username
from tidelore.sources.graphql import Connection, GraphQlData, PageSize, PartialAnswer, decode, present
from tidelore.sources.items import instant, optional_instant, refuse_nul

_LOG = logging.getLogger(__name__)

_NOTE = """id body system internal createdAt updatedAt resolvable resolved resolvedAt
          author { username } resolvedBy { username }"""
_PLACED = """url
          position { positionType oldPath newPath oldLine newLine diffRefs { baseSha startSha headSha } }"""


def _query(parents: str, *note: str) -> str:
    return f"""query($path: ID!, $iids: [String!], $first: Int) {{
  queryComplexity {{ score limit }}
  project(fullPath: $path) {{ id
    parents: {parents}(iids: $iids, first: $first) {{ nodes {{ iid
      discussions(first: 100) {{ pageInfo {{ hasNextPage endCursor }} nodes {{ id replyId
        notes(first: 100) {{ pageInfo {{ hasNextPage endCursor }} nodes {{
          {" ".join(note)}
        }} }} }} }} }} }} }}
}}"""


QUERIES: Mapping[str, str] = MappingProxyType(
    {"issues": _query("issues", _NOTE), "merge_requests": _query("mergeRequests", _NOTE, _PLACED)}
)
"""The query for the discussions of each kind of parents. `iids` keeps its complexity the same for any page size."""

FIRST_SIZE = PageSize(25)
"""Slow servers give up on large nested pages, so the first page is small. It grows after each success."""
LARGEST = PageSize(100)
"""The most objects that GitLab puts on a page."""
FEWEST = 2
"""A parent alone is read by REST: it costs the same, and shows line ranges and milliseconds at once."""
MOST_FAILURES = 3
"""After this many parents in a row that GraphQL could not answer even alone, the host is read by REST."""


class _DiffRefs(Struct, frozen=True, gc=False, rename="camel"):
    base_sha: str | None = None
    start_sha: str | None = None
    head_sha: str | None = None


class _Position(Struct, frozen=True, gc=False, rename="camel"):
    position_type: str | None = None
    old_path: str | None = None
    new_path: str | None = None
    old_line: Number | None = None
    new_line: Number | None = None
    diff_refs: _DiffRefs = _DiffRefs()


class _Note(Struct, frozen=True, gc=False, rename="camel"):
    id: str
    body: str
    created_at: Moment
    updated_at: Moment
    system: bool
    resolvable: bool
    resolved: bool
    internal: bool | None = None
    resolved_at: Moment | None = None
    author: User | None = None
    resolved_by: User | None = None
    url: str | None = None
    position: _Position | None = None


class _Discussion(Struct, frozen=True, gc=False, rename="camel"):
    id: str
    reply_id: str
    notes: Connection | None = None


class _Parent(Struct, frozen=True, gc=False):
    iid: str
    discussions: Connection | None = None


class _Parents(Struct, frozen=True):
    nodes: tuple[Raw, ...]


class _Project(Struct, frozen=True):
    id: str
    parents: _Parents | None = None


class _Data(Struct, frozen=True):
    project: _Project | None = None


class ParentList(Struct, frozen=True):
    """The issues or the merge requests of one project."""

    resource: str
    remote_id: int
    path: str


_Page = Page[ChildRecord]
_Answers = Mapping[int, _Page | None]
"""The discussions of each parent; None for a parent that REST must be asked for."""
_note = msgspec.json.Decoder(_Note)
_discussion = msgspec.json.Decoder(_Discussion)


class ConversationBatches:
    """Reads the discussions of announced parents together, although each of them asks for its own.

    While the parents of one answer are stored, the next query is under way; no more than one is asked ahead.
    """

    def __init__(self, graphql: GitLabGraphQl) -> None:
        self._graphql = graphql
        self._announced: dict[tuple[str, int], tuple[ParentList, dict[int, None]]] = {}
        self._asked: dict[tuple[str, int, int], asyncio.Task[_Answers]] = {}
        self._newest: dict[tuple[str, int], asyncio.Task[_Answers]] = {}
        self._hidden: set[int] = set()
        self._failures = 0

    @property
    def parents_per_request(self) -> int:
        """How many parents one request reads when all goes well; 1 if GraphQL is not used."""
        return LARGEST.outer if self._graphql.unused is None else 1

    def announce(self, home: ParentList, iids: Iterable[int]) -> None:
        """Remember whose discussions will be asked for next, instead of those announced before."""
        place = (home.resource, home.remote_id)
        self._announced[place] = home, dict.fromkeys(iids)
        # Read before, and not asked for: by now it may have changed.
        self._asked = {key: task for key, task in self._asked.items() if key[:2] != place}

    async def page(self, resource: str, remote_id: int, iid: int) -> _Page | None:
        """Return all discussions of one parent; None if REST must be asked for them."""
        key = (resource, remote_id, iid)
        if key not in self._asked and not self._ask(resource, remote_id, iid):
            return None
        asked = self._asked.pop(key)
        # Shielded, because others wait for the same answer.
        answers = asked.result() if asked.done() else await asyncio.shield(asked)
        if self._newest.get((resource, remote_id)) is asked:
            self._ask_ahead(resource, remote_id)
        return answers[iid]

    def _ask(self, resource: str, remote_id: int, iid: int) -> bool:
        """Begin to read a parent and those that come next; return whether GraphQL is used for them."""
        home, coming = self._announced.get((resource, remote_id), (None, {}))
        is_used = self._graphql.unused is None and remote_id not in self._hidden
        if home is None or iid not in coming or not is_used or len(coming) < FEWEST:
            coming.pop(iid, None)
            return False
        size = self._graphql.size(_route(home), FIRST_SIZE).outer
        batch = [iid, *islice((other for other in coming if other != iid), max(size, FEWEST) - 1)]
        task = self._newest[resource, remote_id] = asyncio.ensure_future(self._read(home, batch))
        # An answer that is no longer needed must not fail the run.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        for each in batch:
            del coming[each]
            self._asked[resource, remote_id, each] = task
        return True

    def _ask_ahead(self, resource: str, remote_id: int) -> None:
        """Begin to read the parents that come next, while those of the newest answer are stored."""
        _, coming = self._announced.get((resource, remote_id), (None, {}))
        if len(coming) >= FEWEST:
            self._ask(resource, remote_id, next(iter(coming)))

    async def _read(self, home: ParentList, batch: Sequence[int]) -> _Answers:
        found: dict[int, _Page | None] = {}
        waiting = list(batch)
        while waiting and self._graphql.unused is None and home.remote_id not in self._hidden:
            answers: _Answers = {}
            try:
                # The batch may become smaller while it is asked for, so the answer says which parents it covers.
                answers = await read_discussions(self._graphql, home, waiting)
                self._failures = 0
            except (CredentialsRejected, RateLimited):
                raise
            except AccessRefused as error:
                self._graphql.give_up(error.message)
            except RemoteNotFound:
                self._hidden.add(home.remote_id)
            except RemoteError as error:
                # Alone it could not be read either. If the server fails altogether, REST will say so.
                answers = {waiting[0]: None}
                self._failures += 1
                if self._failures >= MOST_FAILURES:
                    self._graphql.give_up(error.message)
            found |= answers
            waiting = waiting[len(answers) :]
        return found | dict.fromkeys(waiting)


class ConversationList(Struct, frozen=True):
    """The discussions of one parent: with those of others by GraphQL, else by REST."""

    batches: ConversationBatches
    resource: str
    remote_id: int
    iid: int
    by_rest: Pages[ChildRecord]

    async def fetch(self, request: ListRequest) -> _Page:
        if request.token is None:
            page = await self.batches.page(self.resource, self.remote_id, self.iid)
            if page is not None:
                return page
        return await self.by_rest.fetch(request)


async def read_discussions(graphql: GitLabGraphQl, home: ParentList, iids: Sequence[int]) -> _Answers:
    """Return the discussions of as many of these parents as fit into one answer, the first ones.

    Raises RemoteNotFound if GraphQL does not show the project, and AccessRefused if the server has no such query.
    """
    asked: list[int] = []

    def variables(size: PageSize) -> dict[str, Any]:
        asked[:] = iids[: size.outer]
        return {"path": home.path, "iids": [str(iid) for iid in asked], "first": len(asked)}

    def read(answer: GraphQlData) -> _Answers:
        found = _read_parents(answer, home)
        # A parent that is not shown may be deleted, or hidden from GraphQL only: REST tells.
        return {iid: found.get(iid) for iid in asked}

    document = QUERIES[home.resource]
    return await graphql.ask(document, variables, read, route=_route(home), size=FIRST_SIZE, most=LARGEST)


def _route(home: ParentList) -> str:
    return f"{home.resource}/discussions"


def _read_parents(answer: GraphQlData, home: ParentList) -> dict[int, _Page | None]:
    project = decode(answer, _Data).project
    # Another project may have taken over the path.
    if project is None or project.parents is None or project.id != f"gid://gitlab/Project/{home.remote_id}":
        raise RemoteNotFound(f"GraphQL does not show the {home.resource} of {home.path}", reason="graphql")
    found: dict[int, _Page | None] = {}
    for raw in present(project.parents.nodes):
        try:
            parent = msgspec.json.decode(raw, type=_Parent)
            found[int(parent.iid)] = _read_parent(parent, answer.server_at)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            # REST is asked for this parent, and what cannot be parsed there is quarantined.
            _LOG.info("%s: could not parse a conversation: %s", home.path, error)
    return found


def _read_parent(parent: _Parent, server_at: int | None) -> _Page | None:
    """Return all discussions of a parent; None if there are more than fit on a page."""
    if parent.discussions is None:
        raise PartialAnswer("the discussions of an object are null")
    if parent.discussions.page_info.following is not None:
        return None
    items: list[Item[ChildRecord]] = []
    for raw in present(parent.discussions.nodes):
        parsed = _discussion.decode(raw)
        if parsed.notes is None:
            raise PartialAnswer("the notes of a discussion are null")
        if parsed.notes.page_info.following is not None:
            return None
        item = _read_discussion(raw, parsed, present(parsed.notes.nodes))
        if item is not None:
            items.append(item)
    return Page(items=items, server_at=server_at)


def _read_discussion(payload: bytes, parsed: _Discussion, raws: Sequence[bytes]) -> Item[DiscussionRecord] | None:
    """Return a discussion as REST shows it; None for one without notes that REST shows."""
    notes: list[NoteRecord] = []
    for raw in raws:
        note = read_note(raw, len(notes))
        if note is not None:
            notes.append(note)
    if not notes:
        return None
    if b"\\u0000" in payload:
        for note in notes:
            refuse_nul(note)
    # The class of the discussion is only in `replyId`: `id` always says Discussion.
    individual = _split(parsed.reply_id)[0] == "IndividualNoteDiscussion"
    return discussion_item(payload, make_discussion(_split(parsed.id)[1], tuple(notes), individual=individual))


_OF_A_COMMIT = re.compile(r"/commit/[0-9a-f]+#note_[0-9]+$")


def read_note(payload: bytes, place: int) -> NoteRecord | None:
    """Parse one note; None for one that REST does not show among those of a merge request.

    GraphQL also lists notes on the commits of a merge request, and events that have no number.
    """
    note = _note.decode(payload)
    kind, number = _split(note.id)
    # The pattern is slow on addresses without a match, which are nearly all.
    if not number.isdecimal() or (note.url and "/commit/" in note.url and _OF_A_COMMIT.search(note.url)):
        return None
    try:
        created_at = instant("createdAt", note.created_at)
        is_edited = note.updated_at != note.created_at
        updated_at = instant("updatedAt", note.updated_at) if is_edited else created_at
        resolved_at = optional_instant("resolvedAt", note.resolved_at) if note.resolvable else None
    except ValueError as error:
        raise ValueError(f"note {number}: {error}") from None
    record = NoteRecord(
        remote_id=int(number),
        note_type=None if kind == "Note" else kind,
        is_system=note.system,
        author_username=username(note.author),
        body=note.body,
        created_at=created_at,
        updated_at=updated_at,
        position=place,
        resolvable=note.resolvable,
        resolved=note.resolvable and note.resolved,
        resolved_by=username(note.resolved_by) if note.resolvable else None,
        resolved_at=resolved_at,
        payload=payload,
        is_internal=bool(note.internal),
    )
    at = note.position
    if at is None or kind != "DiffNote":
        return record
    return replace(
        record,
        position_old_path=at.old_path,
        position_new_path=at.new_path,
        position_old_line=at.old_line,
        position_new_line=at.new_line,
        position_type=at.position_type,
        position_base_sha=at.diff_refs.base_sha,
        position_start_sha=at.diff_refs.start_sha,
        position_head_sha=at.diff_refs.head_sha,
        position_range_unknown=at.position_type == "text",
    )


_GLOBAL = "gid://gitlab/"


def _split(gid: str) -> tuple[str, str]:
    """Return the class and the id of a global id."""
    head, _, number = gid.rpartition("/")
    kind = head[len(_GLOBAL) :]
    if not kind or not number or not head.startswith(_GLOBAL):
        raise ValueError(f"not a global id: {gid[:60]!r}")
    return kind, number
