"""Interfaces between sources and the rest of the application.

`ProjectSource` is a forge with projects and lists; `Wiring` passes configuration, clock, environment and metrics to
every source. Must not import a source, because each of them imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct, field

from tidelore.core.clock import Clock
from tidelore.core.config import Config
from tidelore.core.content import blake2b
from tidelore.core.errors import TideloreError
from tidelore.core.model import (
    ChildRecord,
    CommentRecord,
    ListedRecord,
    MemberRecord,
    ProjectRecord,
    PullRecord,
    StatusRecord,
    TopicRecord,
)
from tidelore.engine.ports import Lister, Pages, Parent
from tidelore.http.grants import GrantBook, Grants
from tidelore.http.limits import RequestAllowance
from tidelore.http.response import RequestMetric, Response
from tidelore.http.transport import KeptTransports, Transport

if TYPE_CHECKING:
    from tidelore.http.client import HttpClient

Auth = Callable[[str], tuple[str, str]]
"""Turns a token into the header that carries it."""


class Greeting(Struct, frozen=True):
    """The result of a connection check: a text for people, the difference between the host's clock and ours, and our
    login if the host reports it."""

    text: str
    skew_seconds: int = 0
    login: str | None = None


def skew_of(response: Response, now_ms: int) -> int:
    """Return the difference between a server's clock and ours in seconds; 0 if it sent no time."""
    return 0 if response.server_at is None else abs(response.server_at - now_ms) // 1000


RESOURCES = ("issues", "merge_requests")
TOPICS = "topics"
TOPIC = "topic"
"""The `scope_kind` of an answer to a topic."""


class Resource(Struct, frozen=True):
    """A list of a project's issues or merge requests: its order, the kinds of its children, and what it leaves out.

    `newest_first`: the list has no filter by time and is read from its newest update. `keeps` are columns that the list
    does not contain and must not overwrite. `asides` are read for many items at once, apart from the other children.
    `by_columns` are kinds of children that only change together with certain columns: files with the head, for example.
    `has_sides`: the list of issues also contains the issue side of merge requests. `sign` precedes a number.
    """

    children: tuple[str, ...]
    newest_first: bool = False
    keeps: tuple[str, ...] = ()
    asides: tuple[str, ...] = ()
    by_columns: tuple[str, ...] = ()
    has_sides: bool = False
    sign: str = "#"


class ProjectSource(Protocol):
    """A forge with projects and their lists. `closed` is the reason why it must not be requested, if any.

    `resources` are its lists, in the order in which they are read. `feeds` are the lists of all comments of a project
    with the kind of comments in each, if it has such lists: then a list is read only after those before it, because
    comments need their parents. `owns_names`: a project keeps its name until it is renamed, and the old name leads to
    it; a name that leads to another project was taken over, which is refused.
    """

    name: str
    kind: str
    closed: TideloreError | None
    resources: Mapping[str, Resource]
    feeds: Mapping[str, str]
    owns_names: bool

    async def greet(self) -> Greeting:
        """Check the connection and return the login and other details for people."""
        ...

    async def resolve(self, configured: str | int) -> ProjectRecord:
        """Find a project by its configured name, or by its id; the record has its current name."""
        ...

    async def group(self, path: str) -> Sequence[ProjectRecord]:
        """Return every project of a group and its subgroups."""
        ...

    def listing(
        self, resource: str, remote_id: int, *, by_creation: bool = False, keyset: bool = False, backfill: bool = False
    ) -> Lister[ListedRecord]:
        """Return one list of one project; `backfill`: it will be read to its end."""
        ...

    def children(self, kind: str, resource: str, remote_id: int, parent: Parent) -> Sequence[Pages[ChildRecord]]:
        """Return the child lists of one kind that belong to one item."""
        ...

    def announce(self, kind: str, resource: str, remote_id: int, path: str, parents: Sequence[Parent]) -> None:
        """Say whose children of one kind will be requested next, so that they can be fetched together."""
        ...

    async def login(self) -> str | None:
        """Return the login under which our comments appear; None if the server does not report it."""
        ...

    def parents_per_request(self, kind: str) -> int:
        """Return how many announced parents one request reads this kind of children of, when all goes well."""
        ...

    def shared_requests(self, kind: str) -> str:
        """Return a name for the requests that read a kind of children; kinds of the same name are read together."""
        ...

    async def statuses(self, path: str, iids: Sequence[int], /) -> Mapping[int, StatusRecord | None] | None:
        """Return the status of each issue that is shown, None for one without; None alone without statuses at all."""
        ...


@runtime_checkable
class FeedSource(Protocol):
    """A forge that lists all comments of a project; a `ProjectSource` whose `feeds` are empty need not know of it."""

    feeds: Mapping[str, str]

    def feed(self, name: str, remote_id: int) -> Lister[CommentRecord]:
        """Return one list of all comments of a project, by update time."""
        ...


@runtime_checkable
class TopicSource(Protocol):
    """A forge whose projects may have topics; a `ProjectSource` without them need not know of it."""

    def topics(self, node_id: str, *, by_creation: bool = False) -> Lister[TopicRecord]:
        """Return the topics of a project, by its global id: the newest update first, or by creation."""
        ...


@runtime_checkable
class FollowableSource(FeedSource, Protocol):
    """A forge of which single threads can be followed without reading a whole project.

    `skew_ms` is how far its clock is ahead of ours, None before the first response.
    """

    @property
    def skew_ms(self) -> int | None: ...

    async def ask_clock(self) -> None:
        """Learn the server's clock."""
        ...

    def snapshot(self, remote_id: int, number: int) -> Lister[ListedRecord]:
        """Return one merge request as a list of one, which is conditional."""
        ...

    def thread(self, remote_id: int, kind: str, number: int) -> Lister[CommentRecord]:
        """Return the comments of one kind in one thread: by id, with a filter by time, conditional."""
        ...


class AnswerPlace(Struct, frozen=True):
    """Where an answer is posted: on an issue, pull request or topic (`scope_kind` issue, pr, topic) of a repository.

    In a thread of it, `reply_to` is the comment it replies to, and `discussion` the id of the thread where the forge
    asks for that. A thread that is resolved is named by `discussion`. Of a topic, `discussion` is its global id, and
    `parent` that of the comment.
    """

    repo: str | int
    scope_kind: str
    number: int
    reply_to: int | None = None
    discussion: str | None = None
    parent: str | None = None


class WriteRequest(Struct, frozen=True):
    """A write as it is sent: the method, the full URL and the JSON body."""

    method: str
    url: str
    content: Mapping[str, object]


class AnswerSource(Protocol):
    """The part of a source that is used for posting answers, for finding them again, and for resolving threads.

    `has_discussions`: every comment can be replied to in its discussion; otherwise only review comments have threads.
    """

    name: str
    has_discussions: bool

    async def login(self) -> str | None:
        """Return the login under which our comments appear; None if the server does not report it."""
        ...

    def answers(self, place: AnswerPlace) -> Pages[CommentRecord]:
        """Return the comments among which an answer would be, with those since a given instant at least."""
        ...

    def commands_in(self, body: str) -> Sequence[str]:
        """Return the lines of a text that the server would run as commands, with the rights of the token."""
        ...

    def answer_request(self, place: AnswerPlace, body: str) -> WriteRequest:
        """Return the request that `post_answer` sends."""
        ...

    async def post_answer(self, place: AnswerPlace, body: str) -> CommentRecord:
        """Post an answer, in a single request; after an error with the reason `unclear_write` it may be posted."""
        ...

    async def is_resolved(self, place: AnswerPlace) -> bool | None:
        """Return whether the server has resolved a thread; None if it cannot be resolved."""
        ...

    def resolve_request(self, place: AnswerPlace, *, resolved: bool) -> WriteRequest:
        """Return the request that `set_resolved` sends."""
        ...

    async def set_resolved(self, place: AnswerPlace, *, resolved: bool) -> bool | None:
        """Resolve or unresolve a thread, in a single request; return its state afterwards, as `is_resolved` does."""
        ...

    async def first_of_thread(self, place: AnswerPlace) -> int | None:
        """Return the first comment of the thread of a review comment; None if it is the first, or unknown."""
        ...


@runtime_checkable
class FeedbackSource(ProjectSource, AnswerSource, Protocol):
    """A forge whose merge or pull requests can be followed for feedback."""

    @property
    def skew_ms(self) -> int | None:
        """How far the server's clock is ahead of ours; None before the first response."""
        ...

    async def ask_clock(self) -> None:
        """Learn the server's clock."""
        ...

    async def pull(self, remote_id: int, number: int, /) -> PullRecord:
        """Return the current state of a pull request."""
        ...

    async def compare(self, remote_id: int, base: str, head: str, /) -> str:
        """Return how a head relates to a base: "ahead", "identical", or something else."""
        ...

    async def members(self, remote_id: int, /) -> Sequence[MemberRecord] | None:
        """Return the members of a project; None if the forge sends each author's association with the comment."""
        ...


class PauseBook(Protocol):
    """Stores the pauses that sources asked for, so that other processes respect them too."""

    def until(self, source: str) -> int | None:
        """Return until when a source must not be requested (epoch milliseconds), or None."""
        ...

    def keep(self, source: str, until_ms: int) -> None:
        """Store a pause."""
        ...


class Wiring(Struct, frozen=True):
    """The dependencies of every source.

    `accesses` receives, for each host that is opened, a hash of its address, its credentials, and the other settings
    that decide whether a list is refused or an account is due.
    """

    config: Config
    clock: Clock
    environ: Mapping[str, str]
    on_request: Callable[[RequestMetric], None]
    transport: Transport | None = None
    patience_seconds: float = 300.0
    pauses: PauseBook | None = None
    allowance: RequestAllowance | None = None
    grants: GrantBook | None = None
    transports: KeptTransports | None = None
    accesses: dict[str, str] = field(default_factory=dict)

    def grants_of(self, source: str, token: str | None) -> Grants | None:
        """Return the part of a shared rate limit that this process may use, or None if it is not shared."""
        rate = self.config.sync.rate_limit_rps
        return None if self.grants is None else self.grants.of(source, token, rate)

    def paused_until(self, source: str) -> int | None:
        """Return until when a source asked an earlier process to pause, or None."""
        return None if self.pauses is None else self.pauses.until(source)

    def keep_pause(self, source: str, until_ms: int) -> None:
        """Store a pause for other processes."""
        if self.pauses is not None:
            self.pauses.keep(source, until_ms)

    def note_access(self, source: str, *parts: str) -> None:
        """Keep a hash of the address and credentials of a host, and of other settings by which reads fail or wait."""
        self.accesses[source] = blake2b("\0".join(parts).encode(), digest_size=8, person=b"tidelore access").hexdigest()

    def http_client(
        self,
        name: str,
        base_url: str,
        token: str | None,
        auth: Auth,
        headers: Mapping[str, str] | None = None,
        identity: str = "",
    ) -> HttpClient:
        """Return the HTTP client of a configured forge, with the common settings and the pauses that are stored.

        `identity` says who signs in where that is not by a token.
        """
        # Commands that only read import this module, and never get here.
        from tidelore.http.client import HttpClient

        http, sync = self.config.http, self.config.sync
        self.note_access(name, base_url, token or "", identity, str(sync.max_children_bytes))
        transport = self.transport
        if transport is None and self.transports is not None:
            transport = self.transports.of(base_url, ca_file=http.ca_file, proxy=http.proxy)
        return HttpClient(
            base_url,
            token=token,
            auth=auth,
            headers=headers,
            timeout_seconds=http.timeout_seconds,
            max_retries=http.max_retries,
            retry_backoff_seconds=http.retry_backoff_seconds,
            ca_file=http.ca_file,
            proxy=http.proxy,
            max_concurrency=sync.dependent_concurrency,
            rate_limit_rps=sync.rate_limit_rps,
            max_wait_seconds=self.patience_seconds,
            paused_until=self.paused_until(name),
            on_pause=partial(self.keep_pause, name),
            allowance=self.allowance,
            grants=self.grants_of(name, token),
            name=name,
            clock=self.clock,
            on_request=self.on_request,
            transport=transport,
        )
