"""What must hold of the stored copy, verified. Owns the named checks behind `lore check`; those that are one query each
stand in `rules.py`.

Only reads, in plain SQL that both databases understand; payloads are streamed in batches by id, so memory
does not grow with the copy. A damaged database is a finding, not the end of the check. Refuses repair: what
is broken is named, never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.errors import DatabaseUnusable
from tidelore.core.extras import find_missing, install_command
from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.engine.cursor import SKEW_MS, decode_window
from tidelore.store.database import Database
from tidelore.store.feedback_rules import FEEDBACK_RULES
from tidelore.store.migrate import migrations
from tidelore.store.payloads import unpacked
from tidelore.store.rules import FULL_TEXT, RULES, SCOPE, Rule
from tidelore.store.runs import RunTable

_BATCH = 64
_SAMPLE = 5


class Finding(Struct, frozen=True):
    """What one check found: `count` offences, the first few of them named in `detail`."""

    check: str
    ok: bool
    detail: str
    count: int


def check_database(database: Database, now_ms: int, dead: Callable[[ProcessIdentity], bool] = is_dead) -> list[Finding]:
    """Verify the copy; one finding for each check, in a fixed order."""
    rules = (*RULES, *FEEDBACK_RULES, FULL_TEXT[database.dialect])
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("database", lambda: _own_integrity(database)),
        ("schema", lambda: _schema(database)),
        ("payloads-intact", lambda: _payloads_intact(database)),
        ("windows", lambda: _windows(database)),
        ("runs", lambda: _runs(database, dead)),
        ("vectors", lambda: _vectors(database)),
        *((rule.check, lambda rule=rule: _apply(database, rule, now_ms)) for rule in rules),
    ]
    return [_survive(check, look) for check, look in checks]


def _survive(check: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except DatabaseUnusable as error:
        return Finding(check, ok=False, detail=f"cannot be read: {error.message}", count=1)


def _apply(database: Database, rule: Rule, now_ms: int) -> Finding:
    params = {"latest": now_ms + SKEW_MS} if ":latest" in rule.offenders else None
    count = int(database.read(f"SELECT COUNT(*) FROM ({rule.offenders}) AS offenders", params)[0][0])
    sample = database.read(f"{rule.offenders} ORDER BY name LIMIT {_SAMPLE}", params) if count else []
    return _finding(rule.check, rule.holds, rule.broken, [str(name) for (name,) in sample], count)


def _finding(check: str, holds: str, broken: str, names: Sequence[str], count: int | None = None) -> Finding:
    count = len(names) if count is None else count
    if not count:
        return Finding(check, ok=True, detail=holds, count=0)
    more = ", ..." if count > _SAMPLE else ""
    return Finding(check, ok=False, detail=f"{broken}: {', '.join(names[:_SAMPLE])}{more}", count=count)


def _counted(check: str, holds: str, broken: str, offenders: Iterator[str]) -> Finding:
    """Return the finding for offenders of whom there may be too many to keep."""
    sample = list(islice(offenders, _SAMPLE))
    return _finding(check, holds, broken, sample, len(sample) + sum(1 for _ in offenders))


def _own_integrity(database: Database) -> Finding:
    return _finding("database", "integrity check passed", "the database reports", database.problems())


def _schema(database: Database) -> Finding:
    """Compare the recorded steps with ours by content: opening the database compares their numbers only."""
    shipped = {(step.version, step.checksum) for step in migrations(database.dialect)}
    recorded = {(version, text) for version, text in database.read("SELECT version, checksum FROM schema_version")}
    bad = [f"step {version}" for version in sorted({version for version, _ in shipped ^ recorded})]
    return _finding("schema", "all migrations match", "steps that differ", bad)


def _payloads_intact(database: Database) -> Finding:
    bad = map(str, _damaged_payloads(database))
    return _counted("payloads-intact", "all payload hashes match", "payloads with a wrong hash", bad)


def _damaged_payloads(database: Database) -> Iterator[int]:
    after = -1
    while rows := database.read(
        "SELECT id, content_hash, encoding, payload FROM raw_payloads WHERE id > :after ORDER BY id LIMIT :batch",
        {"after": after, "batch": _BATCH},
    ):
        for payload_id, address, encoding, payload in rows:
            try:
                intact = digest(unpacked(encoding, payload)) == bytes(address)
            except ValueError:
                intact = False
            if not intact:
                yield payload_id
        after = rows[-1][0]


def _windows(database: Database) -> Finding:
    rows = database.read(f"SELECT {SCOPE}, reading FROM cursors WHERE reading IS NOT NULL ORDER BY 1")
    bad = [str(name) for name, reading in rows if decode_window(reading) is None]
    return _finding("windows", "all stored windows are readable", "unreadable windows", bad)


def _runs(database: Database, dead: Callable[[ProcessIdentity], bool]) -> Finding:
    """Report interrupted runs. They are a normal state after a kill: the next run closes them."""
    interrupted = [f"run {row.id}" for row in RunTable(database).running() if dead(row.holder)]
    detail = (
        f"interrupted: {', '.join(interrupted)}; the next sync closes them" if interrupted else "no interrupted runs"
    )
    return Finding("runs", ok=True, detail=detail, count=0)


def _vectors(database: Database) -> Finding:
    holds, broken = "all vectors match their rows", "missing or mismatched vectors"
    if not database.read("SELECT 1 FROM embeddings UNION ALL SELECT 1 FROM embedding_blocks LIMIT 1"):
        return _finding("vectors", holds, broken, [])
    if find_missing(["numpy"]) is not None:
        detail = f"not checked: reading embeddings needs numpy ({install_command('vectors')})"
        return Finding("vectors", ok=True, detail=detail, count=0)
    # Not before: a copy without vectors is checked without numpy.
    from tidelore.store.vector_check import misplaced_vectors

    return _counted("vectors", holds, broken, misplaced_vectors(database))
