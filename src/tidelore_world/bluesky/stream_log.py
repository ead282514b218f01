"""What happened on the simulated network, in order, as its event stream tells it.

Owns the log: every change gets a sequence number and an instant in microseconds, both only growing, whatever dates
the records claim. Refuses to know connections. Invariant: what lies outside the replay window is gone for good.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidelore_world.bluesky.ids import tid_of
from tidelore_world.bluesky.records import Account, Record
from tidelore_world.bluesky.settings import BlueskySettings
from tidelore_world.clock import SECOND_US, WorldClock, iso_millis

_TIDY_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event. `body` is what both protocols tell of it, beside who and when."""

    seq: int
    time_us: int
    did: str
    kind: str
    collection: str
    body: dict[str, Any]


class StreamLog:
    """The events of one network."""

    def __init__(self, clock: WorldClock, settings: BlueskySettings) -> None:
        self._clock = clock
        self._settings = settings
        self._events: list[StreamEvent] = []
        self._first_seq = 1
        self._last_us = 0
        self._listeners: dict[int, Callable[[], None]] = {}

    @property
    def next_seq(self) -> int:
        """The number the next event will have."""
        return self._first_seq + len(self._events)

    @property
    def floor_seq(self) -> int:
        """The number of the oldest event that can still be replayed."""
        return self.seq_at(self._clock.now_us - round(self._settings.stream_replay_seconds * SECOND_US))

    def seq_at(self, time_us: int) -> int:
        """The number of the first event at or after an instant."""
        return self._first_seq + bisect_left(self._events, time_us, key=lambda event: event.time_us)

    def read(self, seq: int, most: int) -> list[StreamEvent]:
        """Up to `most` events from a number on; what is gone is passed over."""
        start = max(0, seq - self._first_seq)
        return self._events[start : start + most]

    def listen(self, key: int, wake: Callable[[], None] | None) -> None:
        """Call `wake` after every event; None ends that."""
        if wake is None:
            self._listeners.pop(key, None)
        else:
            self._listeners[key] = wake

    def commit(self, operation: str, record: Record, at_us: int | None = None) -> None:
        """A record was created, updated or deleted."""
        body: dict[str, Any] = {"operation": operation, "collection": record.collection, "rkey": record.rkey}
        if operation != "delete":
            body |= {"record": record.value, "cid": record.cid}
        self._append("commit", record.did, record.collection, body, at_us)

    def identity(self, account: Account, at_us: int | None = None) -> None:
        """An account has another handle, or is new."""
        self._append("identity", account.did, "", {"did": account.did, "handle": account.handle}, at_us)

    def account(self, account: Account, at_us: int | None = None) -> None:
        """An account came, went or returned."""
        body: dict[str, Any] = {"active": account.active, "did": account.did}
        self._append("account", account.did, "", body | ({} if account.active else {"status": account.status}), at_us)

    def sync(self, account: Account) -> None:
        """An account's repository was written anew: nobody can follow it by its changes."""
        self._append("sync", account.did, "", {"did": account.did, "rev": tid_of(self._clock.now_us)}, None)

    def rebuild(self, first_seq: int = 1) -> None:
        """Lose the archive and number events anew, as a server does whose storage was replaced."""
        self._events.clear()
        self._first_seq = first_seq

    def _append(self, kind: str, did: str, collection: str, body: dict[str, Any], at_us: int | None) -> None:
        self._last_us = max(self._clock.now_us if at_us is None else at_us, self._last_us + 1)
        seq = self.next_seq
        if kind == "commit":
            body = {"rev": tid_of(self._last_us)} | body
        else:
            body |= {"seq": seq, "time": iso_millis(self._last_us)}
        self._events.append(StreamEvent(seq, self._last_us, did, kind, collection, body))
        if len(self._events) % _TIDY_EVERY == 0:
            self._tidy()
        for wake in tuple(self._listeners.values()):
            wake()

    def _tidy(self) -> None:
        gone = self.floor_seq - self._first_seq
        if gone > 0:
            del self._events[:gone]
            self._first_seq += gone
