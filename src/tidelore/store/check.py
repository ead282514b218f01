"""What must hold of the stored copy, verified. Owns the named checks behind `lore check`.

Only reads, in plain SQL that both databases understand; payloads are streamed in batches by id, so memory
does not grow with the copy. A damaged database is a finding, not the end of the check. Refuses repair: what
is broken is named, never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from tidelore.content import digest
from tidelore.engine.cursor import SKEW_MS, decode_window
from tidelore.errors import DatabaseUnusable
from tidelore.process import ProcessIdentity, is_dead
from tidelore.store.database import Database
from tidelore.store.migrate import migrations
from tidelore.store.payloads import unpacked
from tidelore.store.runs import RunTable

_BATCH = 64
_SAMPLE = 5


class Finding(Struct, frozen=True):
    """What one check found: `count` offences, the first few of them named in `detail`."""

    check: str
    ok: bool
    detail: str
    count: int


class Rule(Struct, frozen=True):
    """A check that is one query: each row it returns is the name of an offender."""

    check: str
    holds: str
    broken: str
    offenders: str


_TIMES = {
    "issues": ("created_at", "updated_at", "last_seen_at", "closed_at", "deleted_at"),
    "merge_requests": ("created_at", "updated_at", "last_seen_at", "merged_at", "closed_at", "deleted_at"),
}
_LINKS = (("issue_labels", "issues", "issue_id"), ("mr_labels", "merge_requests", "merge_request_id"))
_SCOPE = "source || ' ' || surface || ' ' || scope"


def _each(parts: Iterator[str]) -> str:
    return " UNION ALL ".join(parts)


_RULES = (
    Rule(
        "payloads-present",
        "every issue and merge request has its payload",
        "rows without a payload",
        _each(
            f"SELECT '{table} ' || r.id AS name FROM {table} r LEFT JOIN raw_payloads p ON p.id = r.raw_payload_id"
            " WHERE p.id IS NULL"
            for table in _TIMES
        ),
    ),
    Rule(
        "content-hash",
        "every row names the content of its payload",
        "rows whose content hash is not their payload's",
        _each(
            f"SELECT '{table} ' || r.id AS name FROM {table} r JOIN raw_payloads p ON p.id = r.raw_payload_id"
            " WHERE p.content_hash <> r.content_hash"
            for table in _TIMES
        ),
    ),
    Rule(
        "times",
        "every stored instant lies after the epoch",
        "rows with an instant at or before the epoch",
        _each(
            f"SELECT '{table} ' || id AS name FROM {table} WHERE " + " OR ".join(f"{name} <= 0" for name in columns)
            for table, columns in _TIMES.items()
        ),
    ),
    Rule(
        "watermarks",
        "no watermark lies before the epoch or in the future",
        "watermarks that cannot be true",
        f"SELECT {_SCOPE} AS name FROM cursors WHERE watermark_at < 0 OR watermark_at > :latest",
    ),
    Rule(
        "labels",
        "every label link stays inside its project",
        "links to a label of another project",
        _each(
            f"SELECT '{link} ' || r.id || ' ' || l.name AS name FROM {link} k JOIN {table} r ON r.id = k.{column}"
            " JOIN labels l ON l.id = k.label_id WHERE l.project_id <> r.project_id"
            for link, table, column in _LINKS
        ),
    ),
    Rule(
        "quarantine",
        "everything in quarantine has its payload",
        "quarantined entries without a payload",
        f"SELECT {_SCOPE} || ' ' || remote_key AS name FROM quarantine WHERE LENGTH(payload) = 0",
    ),
    Rule(
        "gaps",
        "no gap ends above its top",
        "gaps whose floor lies above their top",
        f"SELECT {_SCOPE} || ' ' || place AS name FROM gaps WHERE floor_at > top_at",
    ),
)


def check_database(database: Database, now_ms: int, dead: Callable[[ProcessIdentity], bool] = is_dead) -> list[Finding]:
    """Verify the copy; one finding for each check, in a fixed order."""
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("database", lambda: _own_integrity(database)),
        ("schema", lambda: _schema(database)),
        ("payloads-intact", lambda: _payloads_intact(database)),
        ("windows", lambda: _windows(database)),
        ("runs", lambda: _runs(database, dead)),
        *((rule.check, lambda rule=rule: _apply(database, rule, now_ms)) for rule in _RULES),
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


def _own_integrity(database: Database) -> Finding:
    return _finding("database", "the database finds itself sound", "the database reports", database.problems())


def _schema(database: Database) -> Finding:
    """Compare the recorded steps with ours by content: opening the database compares their numbers only."""
    shipped = {(step.version, step.checksum) for step in migrations(database.dialect)}
    recorded = {(version, text) for version, text in database.read("SELECT version, checksum FROM schema_version")}
    bad = [f"step {version}" for version in sorted({version for version, _ in shipped ^ recorded})]
    return _finding("schema", "every step of the schema is ours", "steps that differ", bad)


def _payloads_intact(database: Database) -> Finding:
    count = 0
    sample: list[str] = []
    for count, payload_id in enumerate(_damaged_payloads(database), 1):  # noqa: B007 - the last count is the result
        if len(sample) < _SAMPLE:
            sample.append(str(payload_id))
    return _finding("payloads-intact", "every payload hashes to its address", "payloads that do not", sample, count)


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
    rows = database.read(f"SELECT {_SCOPE}, reading FROM cursors WHERE reading IS NOT NULL ORDER BY 1")
    bad = [str(name) for name, reading in rows if decode_window(reading) is None]
    return _finding("windows", "every stored window can be read", "unreadable windows", bad)


def _runs(database: Database, dead: Callable[[ProcessIdentity], bool]) -> Finding:
    bad = [f"run {row.id}" for row in RunTable(database).running() if dead(row.holder)]
    return _finding("runs", "no run is open whose process is gone", "open runs whose process is gone", bad)
