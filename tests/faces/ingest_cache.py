"""Remembers what `lore ingest` made of a world, so that hundreds of tests which only read a copy do not mirror again.

A remembered copy is used only where nothing that an ingest reads differs: the world, the configuration, the environment
and the database before. `lore ingest` itself is tested by running it, never through this module.
"""

from __future__ import annotations

import io
import os
import pickle
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any

from tidelore_world.bluesky import BlueskyForge
from tidelore_world.github import GitHubForge
from tidelore_world.world import World

_OF_THE_TEST = {"HOME", "PYTEST_CURRENT_TEST"}
"""Variables that differ in each test and that an ingest with a named configuration and database does not read."""


@dataclass(frozen=True)
class _Ingest:
    """What an ingest of a world at `url` left behind: the database, and the requests that the world has counted."""

    url: str
    database: bytes
    requests: Counter[str]
    log: list[tuple[str, str, int]]


_remembered: dict[str, _Ingest] = {}


def ingest_once(world: World, url: str, config: Path, db: Path, resource: str, ingest: Callable[[], None]) -> None:
    """Call `ingest`, or put in place what the same ingest has made before in this process."""
    state = _pickled(world)
    if state is None or not _is_closed(db):
        ingest()
        return
    settings = config.read_text().replace(url, "URL")
    environ = sorted((name, value) for name, value in os.environ.items() if name not in _OF_THE_TEST)
    key = sha256(repr((resource, settings, environ, state, db.read_bytes())).encode()).hexdigest()
    if key in _remembered:
        made = _remembered[key]
        db.write_bytes(made.database)
        if made.url != url:
            _set_address(db, url)
        with world.lock:
            world.requests.update(made.requests)
            world.log.extend(made.log)
        return
    requests, logged, course = Counter(world.requests), len(world.log), _course(world)
    ingest()
    if _is_closed(db) and _course(world) == course:
        _remembered[key] = _Ingest(url, db.read_bytes(), world.requests - requests, world.log[logged:])


def _set_address(db: Path, url: str) -> None:
    """Store this address as that of the copied projects, so that the next sync does not look them up again."""
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE projects SET base_url = ? WHERE base_url IS NOT NULL", (url,))
        connection.execute("DELETE FROM source_access")


def _course(world: World) -> bytes | None:
    """Return what a request may change in a world besides the counts; an ingest that did is not remembered."""
    return _pickled((world.clock, world.rng, world.faults))


def _is_closed(db: Path) -> bool:
    """Return whether all rows are in the one file."""
    return db.is_file() and not db.with_name(f"{db.name}-wal").exists()


def _pickled(subject: Any) -> bytes | None:
    """Return the content of a world or of a part of it; None where a test has put code of its own into it."""
    file = io.BytesIO()
    try:
        _Pickler(file).dump(subject)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return file.getvalue()


class _Pickler(pickle.Pickler):
    """Leaves out what GitLab's answers do not depend on: the other forges, its code, the lock and the counts."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, World):
            return World, (obj.seed, obj.clock, obj.rng, obj.faults, obj.gitlab, obj.before_request)
        if isinstance(obj, GitHubForge | BlueskyForge | type(threading.RLock())):
            return str, ()
        if isinstance(obj, FunctionType) and obj.__closure__ is None and obj.__module__.startswith("tidelore_world."):
            return str, (f"{obj.__module__}:{obj.__code__.co_firstlineno}:{obj.__qualname__}",)
        return NotImplemented
