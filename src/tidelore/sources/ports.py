"""What a source offers to the rooms above, and what it is given to work with.

`ProjectSource` is a forge with projects and lists; `Wiring` carries configuration, clock, environment and metrics to
every source. No source is imported here: each of them imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from tidelore.core.clock import Clock
from tidelore.core.config import Config
from tidelore.core.errors import TideloreError
from tidelore.core.model import ChildRecord, ParentRecord, ProjectRecord, StatusRecord
from tidelore.engine.ports import Lister, Pages
from tidelore.http.response import RequestMetric, Response
from tidelore.http.transport import Transport


class Greeting(Struct, frozen=True):
    """How a host introduces itself: a text for people, and how far its clock is from ours if it sent its time."""

    text: str
    skew_seconds: int = 0


def skew_of(response: Response, now_ms: int) -> int:
    """Return how many seconds the clock of a server is from ours; 0 where it does not tell its time."""
    return 0 if response.server_at is None else abs(response.server_at - now_ms) // 1000


RESOURCES = ("issues", "merge_requests")


class ProjectSource(Protocol):
    """A forge that holds projects with lists in them. `closed` says why nothing may be asked of it, if so."""

    name: str
    kind: str
    closed: TideloreError | None

    async def greet(self) -> Greeting:
        """Return who we are there, and what else a person wants to know of a host."""
        ...

    async def resolve(self, configured: str) -> ProjectRecord:
        """Find a project by the name the user gave it."""
        ...

    async def group(self, path: str) -> Sequence[ProjectRecord]:
        """Return every project of a group, of the groups inside it too."""
        ...

    def listing(
        self, resource: str, remote_id: int, *, by_creation: bool = False, keyset: bool = False
    ) -> Lister[ParentRecord]:
        """Return one list of one project."""
        ...

    def children(self, kind: str, resource: str, remote_id: int, iid: int) -> Sequence[Pages[ChildRecord]]:
        """Return the lists of one kind that hang on one item."""
        ...

    async def statuses(self, path: str, iids: Sequence[int]) -> Mapping[int, StatusRecord | None] | None:
        """Return the status of each of these issues, None where it shows none; None at all: this forge has none."""
        ...


class PauseBook(Protocol):
    """Stores the pauses that sources asked for, so that other processes keep them too."""

    def until(self, source: str) -> int | None:
        """Return until when a source is to be left alone (epoch milliseconds), or None."""
        ...

    def keep(self, source: str, until_ms: int) -> None:
        """Remember a pause."""
        ...


class Wiring(Struct, frozen=True):
    """What every source is given."""

    config: Config
    clock: Clock
    environ: Mapping[str, str]
    on_request: Callable[[RequestMetric], None]
    transport: Transport | None = None
    patience_seconds: float = 300.0
    pauses: PauseBook | None = None

    def paused_until(self, source: str) -> int | None:
        """Return until when a source asked an earlier process for a pause, if it did."""
        return None if self.pauses is None else self.pauses.until(source)

    def keep_pause(self, source: str, until_ms: int) -> None:
        """Let other processes know of a pause."""
        if self.pauses is not None:
            self.pauses.keep(source, until_ms)
