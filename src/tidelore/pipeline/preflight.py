"""The preflight of a surgical sync: everything is fetched and judged before anything is written.

Owns how the items are asked for (side by side, each within its time) and why one is refused. Refuses to write, and to
stop at the first failure: whoever asked is told all of them at once. A source that rejects our credentials, or limits
our rate, is asked no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from tidelore.core.concurrency import gather
from tidelore.core.errors import (
    CredentialsMissing,
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    TideloreError,
)
from tidelore.core.model import Item, ParentRecord, ProjectRecord
from tidelore.engine.ports import Page
from tidelore.pipeline.selection import RESOURCES, Choice
from tidelore.pipeline.surgical_report import FETCH, EntityOutcome
from tidelore.sources.ports import ProjectSource
from tidelore.store.database.port import Database
from tidelore.store.mirror.page_writer import holds
from tidelore.store.mirror.projects import ProjectRow, find_configured

T = TypeVar("T")

NOT_FOUND, PROJECT_MISMATCH, UNREADABLE = "NOT_FOUND", "PROJECT_MISMATCH", "UNREADABLE"
TIMEOUT, FETCH_ERROR = "TIMEOUT", "FETCH_ERROR"


class Refusal(Struct, frozen=True):
    """Why an item cannot be used: a code for programs, a sentence for people."""

    code: str
    message: str


class Home(Struct, frozen=True):
    """The project of an item: its stored row, or what its forge just told of it."""

    remote_id: int
    row: ProjectRow | None = None
    record: ProjectRecord | None = None


class Fetched(Struct, frozen=True):
    """An item that may be written."""

    choice: Choice
    outcome: EntityOutcome
    home: Home
    item: Item[ParentRecord]


class _Whereabouts(Struct, frozen=True):
    """What a payload says of the project it belongs to; a merge request belongs to the one it is to be merged into."""

    project_id: object = None
    target_project_id: object = None


def code_of(error: TideloreError) -> str:
    """Return the code of a failed question."""
    if isinstance(error, CredentialsRejected | CredentialsMissing):
        return "AUTH_FAILED"
    if isinstance(error, RateLimited):
        return "RATE_LIMITED"
    if isinstance(error, RemoteNotFound):
        return NOT_FOUND
    return TIMEOUT if isinstance(error, RemoteError) and error.reason == "timeout" else FETCH_ERROR


def judge(page: Page[ParentRecord], remote_id: int) -> Item[ParentRecord] | Refusal:
    """Return the item of an answer, or why it cannot be used."""
    if page.rejected:
        return Refusal(UNREADABLE, page.rejected[0].error)
    if not page.items:
        return Refusal(NOT_FOUND, "not found, or the token has no access")
    item = page.items[0]
    said = msgspec.json.decode(item.payload, type=_Whereabouts)
    project_id = said.project_id if said.target_project_id is None else said.target_project_id
    if project_id not in (None, remote_id):
        return Refusal(PROJECT_MISMATCH, f"the server returned project {project_id} instead of {remote_id}")
    return item


class Preflight(Struct):
    """Fetches items; `fetched` is what came, the outcomes are told what did not."""

    database: Database
    sources: Mapping[str, ProjectSource]
    timeout_seconds: float
    concurrency: int
    fetched: list[Fetched] = field(default_factory=list)
    stopped: dict[str, TideloreError] = field(default_factory=dict)

    async def run(self, pairs: Sequence[tuple[Choice, EntityOutcome]]) -> None:
        """Fetch every item, whatever comes of the others; the fetched ones are kept in the order they were asked."""
        gate = asyncio.Semaphore(self.concurrency)
        projects = list(dict.fromkeys((choice.source, choice.configured) for choice, _ in pairs))
        found = await gather(self._ask(gate, source, partial(self._find, source, name)) for source, name in projects)
        homes = dict(zip(projects, found, strict=True))

        async def one(choice: Choice, outcome: EntityOutcome) -> Fetched | None:
            home = homes[choice.source, choice.configured]
            if isinstance(home, Refusal):
                outcome.fail(FETCH, home.code, home.message)
                return None
            got = await self._ask(gate, choice.source, partial(self._fetch, choice, home))
            if isinstance(got, Refusal):
                self._refuse(choice, outcome, home, got)
                return None
            outcome.fetched = True
            return Fetched(choice, outcome, home, got)

        answers = await gather(one(choice, outcome) for choice, outcome in pairs)
        self.fetched = [answer for answer in answers if answer is not None]

    async def _ask(
        self, gate: asyncio.Semaphore, source: str, question: Callable[[], Awaitable[T | Refusal]]
    ) -> T | Refusal:
        """Ask within the time allowed; whatever fails becomes a refusal."""
        async with gate:
            known = self.stopped.get(source) or self.sources[source].closed
            if known is not None:
                return Refusal(code_of(known), known.message)
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    return await question()
            except TimeoutError:
                return Refusal(TIMEOUT, f"no response within {self.timeout_seconds:g} seconds")
            except (CredentialsRejected, RateLimited) as error:
                self.stopped[source] = error
                return Refusal(code_of(error), error.message)
            except RemoteError as error:
                return Refusal(code_of(error), error.message)

    async def _find(self, source: str, configured: str) -> Home | Refusal:
        row = find_configured(self.database, source, configured)
        if row is not None:
            return Home(row.remote_id, row)
        record = await self.sources[source].resolve(configured)
        return Home(record.remote_id, record=record)

    async def _fetch(self, choice: Choice, home: Home) -> Item[ParentRecord] | Refusal:
        lister = self.sources[choice.source].listing(RESOURCES[choice.kind], home.remote_id)
        try:
            page = await lister.fetch_one(str(choice.iid))
        except RemoteNotFound:
            # An item that is gone is an empty answer: this is the project.
            return Refusal(NOT_FOUND, f"project {choice.path} not found, or the token has no access")
        return judge(page, home.remote_id)

    def _refuse(self, choice: Choice, outcome: EntityOutcome, home: Home, why: Refusal) -> None:
        row = home.row
        held = row is not None and why.code == NOT_FOUND and holds(self.database, choice.kind, row.id, choice.iid)
        message = f"{why.message}; the local copy was not changed" if held else why.message
        outcome.fail(FETCH, why.code, message, held=held)
