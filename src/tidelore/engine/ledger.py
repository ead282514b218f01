"""The run ledger: the allowed states of a run row.

    running ──> succeeded | partial | failed | cancelled | crashed

Every run ends exactly once, and phases only go forward. Any other change raises IllegalTransition, because a ledger
that can be rewritten proves nothing. The next run closes the `running` row of a dead process as `crashed` and keeps its
last progress; every other final state clears the progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import asdict

from tidelore.core.clock import Clock
from tidelore.core.errors import IllegalTransition
from tidelore.core.process import ProcessIdentity
from tidelore.core.progress import RunProgress

PHASES = ("preflight", "ingest", "dependents", "scrub", "docs", "embed")
"""The working phases in order; a run ends in done, failed, cancelled or crashed."""
PROGRESS_SECONDS = 2.0
"""Minimum seconds between two progress updates, because each one is a write."""


class Counters(Struct):
    """What a run did, named after the columns of the ledger."""

    issues_fetched: int = 0
    mrs_fetched: int = 0
    issues_ingested: int = 0
    mrs_ingested: int = 0
    skipped_stale: int = 0
    docs_regenerated: int = 0
    docs_embedded: int = 0
    quarantined: int = 0
    requests: int = 0


class Surgery(Struct, frozen=True):
    """What a surgical run was asked to fetch, and the outcome of each item so far."""

    iids_json: str
    outcomes_json: str


class RunRow(Struct, frozen=True):
    """The part of a run row that decides whether its process is still alive."""

    id: int
    holder: ProcessIdentity
    heartbeat_at: int


class RunStore(Protocol):
    """Storage interface for the ledger."""

    def insert(
        self,
        command: str,
        mode: str,
        phase: str,
        identity: ProcessIdentity,
        now_ms: int,
        note: str | None,
        surgery: Surgery | None = None,
    ) -> int:
        """Add a running row."""
        ...

    def update(self, run_id: int, **columns: object) -> bool:
        """Change a row that is still running; return False if it is not."""
        ...

    def running(self) -> Sequence[RunRow]:
        """Return all rows in state running."""
        ...


class Run:
    """A ledger row of a run in progress. `counters`, if set, are stored together with its end."""

    def __init__(self, store: RunStore, clock: Clock, run_id: int, phase: str, heartbeat_interval_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._interval_ms = heartbeat_interval_ms
        self._beat_at = clock.now_ms()
        self._noted = clock.monotonic()
        self.id = run_id
        self.phase = phase
        self.counters: Counters | None = None

    @classmethod
    def start(
        cls,
        store: RunStore,
        clock: Clock,
        command: str,
        identity: ProcessIdentity,
        *,
        mode: str = "standard",
        phase: str = "preflight",
        heartbeat_interval_ms: int = 30_000,
        note: str | None = None,
        surgery: Surgery | None = None,
    ) -> Run:
        """Open a row. `note` records an operator's request, such as a cursor reset by --full."""
        if phase not in PHASES:
            raise _illegal("none", phase)
        run_id = store.insert(command, mode, phase, identity, clock.now_ms(), note, surgery)
        return cls(store, clock, run_id, phase, heartbeat_interval_ms)

    def set_phase(self, phase: str) -> None:
        """Move on to a later phase and clear the progress of the previous one."""
        if phase not in PHASES or PHASES.index(phase) < PHASES.index(self.phase):
            raise _illegal(self.phase, phase)
        self._write(phase=phase, heartbeat_at=self._clock.now_ms(), **asdict(RunProgress()))
        self.phase = phase

    def set_counters(self, counters: Counters) -> None:
        """Record what was done so far."""
        self._write(**asdict(counters))

    def note_progress(self, counters: Counters, headway: RunProgress) -> None:
        """Record counters and progress, at most every PROGRESS_SECONDS. Also counts as a heartbeat."""
        now = self._clock.monotonic()
        if now - self._noted >= PROGRESS_SECONDS:
            self._noted = now
            self._write(heartbeat_at=self._clock.now_ms(), **asdict(counters), **asdict(headway))

    def set_outcomes(self, outcomes_json: str) -> None:
        """Record the outcome of each item so far."""
        self._write(outcomes_json=outcomes_json)

    def set_note(self, note: str) -> None:
        """Record a remark for people who read the ledger."""
        self._write(note=note)

    def set_mirrored(self) -> None:
        """Record that the copy is up to date; the rest of the run only derives data from it."""
        self._write(mirrored_at=self._clock.now_ms())

    def heartbeat_if_due(self) -> None:
        """Record a heartbeat, at most once per interval."""
        now = self._clock.now_ms()
        if now - self._beat_at >= self._interval_ms:
            self._write(heartbeat_at=now)
            self._beat_at = now

    def finish_succeeded(self, warnings_count: int = 0) -> None:
        self._finish("succeeded", "done", warnings_count=warnings_count)

    def finish_partial(self, error: str, warnings_count: int) -> None:
        self._finish("partial", "done", error=error, warnings_count=warnings_count)

    def finish_failed(self, error: str) -> None:
        self._finish("failed", "failed", error=error)

    def finish_cancelled(self) -> None:
        self._finish("cancelled", "cancelled", cancelled_at=self._clock.now_ms())

    def _finish(self, status: str, phase: str, **columns: object) -> None:
        now = self._clock.now_ms()
        columns |= asdict(RunProgress()) | ({} if self.counters is None else asdict(self.counters))
        self._write(status=status, phase=phase, finished_at=now, heartbeat_at=now, **columns)

    def _write(self, **columns: object) -> None:
        if not self._store.update(self.id, **columns):
            raise _illegal("ended", str(columns.get("status", columns.get("phase", "running"))))


def close_crashed(
    store: RunStore, clock: Clock, is_dead: Callable[[ProcessIdentity], bool], stale_after_ms: int
) -> list[int]:
    """Close the rows of processes that are dead or silent for too long; return their ids."""
    now = clock.now_ms()
    gone = [row for row in store.running() if is_dead(row.holder) or now - row.heartbeat_at > stale_after_ms]
    return [
        row.id
        for row in gone
        if store.update(
            row.id,
            status="crashed",
            phase="crashed",
            finished_at=now,
            error="the process ended unexpectedly",
        )
    ]


def _illegal(before: str, after: str) -> IllegalTransition:
    return IllegalTransition(
        f"invalid run state change from {before} to {after}",
        fix="this is a bug: report it with the command you ran",
        before=before,
        after=after,
    )
