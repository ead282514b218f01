"""Runs the checks of `lore check` on the stored rows.

Most checks are rules: one query each, in SQL that both databases understand, which returns the offending rows. The
others stream payloads in batches by id, so memory use does not grow with the copy. A damaged database is reported as a
finding and does not stop the check. Only reads; repairs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.errors import DatabaseUnusable
from tidelore.core.extras import find_missing, install_command
from tidelore.core.process import is_dead
from tidelore.engine.cursor import SKEW_MS, Window, decode
from tidelore.store.database.migrate import migrations
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import EVENT_TABLES, PARENT_KINDS
from tidelore.store.mirror.payloads import LEFT_OUT_PAYLOAD, PayloadReader
from tidelore.store.reading.documents import DOCUMENTED
from tidelore.store.work.events import FOLLOWUPS
from tidelore.store.work.runs import RunTable


class Rule(Struct, frozen=True):
    """A check that is one query: each row it returns names an offending row."""

    check: str
    holds: str
    broken: str
    offenders: str


TIMES = {
    "issues": ("created_at", "updated_at", "last_seen_at", "closed_at", "deleted_at"),
    "merge_requests": ("created_at", "updated_at", "last_seen_at", "merged_at", "closed_at", "deleted_at"),
    "discussions": ("first_note_at", "last_note_at", "last_seen_at"),
    "notes": ("created_at", "updated_at", "last_seen_at", "resolved_at"),
    "topics": ("created_at", "updated_at", "last_seen_at", "closed_at", "answer_chosen_at", "deleted_at"),
    "topic_comments": ("created_at", "updated_at", "deleted_at"),
    # Authors choose the dates of their posts, so only the times that we set ourselves are checked.
    "posts": ("first_seen_at", "last_seen_at", "edited_at", "deleted_at"),
    "accounts": ("created_at", "updated_at", "last_polled_at"),
    **dict.fromkeys(EVENT_TABLES.values(), ("created_at",)),
}
"""The time columns to check, by table."""
LINKS = (("issue_labels", "issues", "issue_id"), ("mr_labels", "merge_requests", "merge_request_id"))
HOMES = (
    *(
        (table, kind.table, kind.column)
        for table in ("discussions", *EVENT_TABLES.values())
        for kind in PARENT_KINDS.values()
    ),
    ("mr_file_changes", "merge_requests", "merge_request_id"),
    ("notes", "discussions", "discussion_id"),
)
"""Each table of children with a table of its parents and the column that refers to it."""
SCOPE = "source || ' ' || surface || ' ' || scope"

_WITH_PAYLOAD = ("issues", "merge_requests", "discussions", "topics")
_PLACED = "(n.position_new_path IS NOT NULL OR n.position_old_path IS NOT NULL)"


def _each(parts: Iterable[str]) -> str:
    return " UNION ALL ".join(parts)


_OF_PAYLOADS = (
    Rule(
        "payloads-present",
        "every issue, merge request, discussion, topic and post has its payload",
        "rows without a payload",
        _each(
            f"SELECT '{table} ' || r.id AS name FROM {table} r LEFT JOIN raw_payloads p ON p.id = r.raw_payload_id"
            f" WHERE p.id IS NULL{'' if table != 'discussions' else ' AND r.content_hash IS NOT NULL'}"
            for table in (*_WITH_PAYLOAD, "posts")
        ),
    ),
    Rule(
        "content-hash",
        "every row names the content of its payload",
        "rows whose content hash differs from their payload",
        _each(
            # A forge with global ids sends payloads that change by themselves, and discussions come in two shapes, so
            # their versions are those of our records. A tombstone refers to the empty payload.
            f"SELECT '{table} ' || r.id AS name FROM {table} r JOIN raw_payloads p ON p.id = r.raw_payload_id"
            f" WHERE ({own} AND p.content_hash <> r.content_hash)"
            " OR (p.remote_id <> CAST(r.remote_id AS TEXT) AND p.resource_type <> 'tombstone')"
            for table in _WITH_PAYLOAD
            for own in ("1 = 0" if table == "discussions" else "r.node_id IS NULL",)
        ),
    ),
    Rule(
        "note-payloads",
        "user notes and diff notes have a payload, system notes have none",
        "notes with a missing or superfluous payload",
        "SELECT 'notes ' || n.id AS name FROM notes n LEFT JOIN raw_payloads p ON p.id = n.raw_payload_id"
        f" WHERE ((n.is_system = 0 OR {_PLACED}) AND p.id IS NULL)"
        f" OR (n.is_system = 1 AND NOT {_PLACED} AND n.raw_payload_id IS NOT NULL)",
    ),
)
_OF_TIME = (
    Rule(
        "times",
        "every stored time is after 1970",
        "rows with a time in or before 1970",
        _each(
            f"SELECT '{table} ' || id AS name FROM {table} WHERE " + " OR ".join(f"{name} <= 0" for name in columns)
            for table, columns in TIMES.items()
        ),
    ),
    Rule(
        "watermarks",
        "every watermark is between 1970 and now",
        "watermarks outside this range",
        f"SELECT {SCOPE} AS name FROM cursors WHERE watermark_at < 0 OR watermark_at > :latest",
    ),
    Rule(
        "children-watermarks",
        "no child items are newer than their parent's version",
        "children read for a later version than the stored one",
        "SELECT parent_kind || ' ' || parent_id || ' ' || kind AS name FROM child_sync"
        " WHERE synced_for > parent_updated_at OR fetched_for > parent_updated_at",
    ),
    Rule(
        "children-progress",
        "every issue and merge request has its rows in child_sync, with its version",
        "rows that are missing, superfluous or of another version",
        _each(
            # Each source has other kinds of children, the same for all parents of a project.
            f"SELECT '{kind.table} ' || p.id AS name FROM {kind.table} p LEFT JOIN (SELECT project_id,"
            f" COUNT(DISTINCT kind) AS kinds FROM child_sync WHERE parent_kind = '{kind.table}' GROUP BY project_id) k"
            " ON k.project_id = p.project_id WHERE p.deleted_at IS NULL"
            f" AND (SELECT COUNT(*) FROM child_sync c WHERE c.project_id = p.project_id"
            f" AND c.parent_kind = '{kind.table}' AND c.parent_id = p.id AND c.parent_updated_at = p.updated_at"
            f" AND c.kind IN ({', '.join(repr(name) for name in kind.kinds)})) <> COALESCE(k.kinds, -1)"
            f" UNION ALL SELECT 'child_sync {kind.table} ' || c.parent_id AS name FROM child_sync c"
            f" LEFT JOIN {kind.table} p ON p.id = c.parent_id WHERE c.parent_kind = '{kind.table}'"
            " AND (p.id IS NULL OR p.deleted_at IS NOT NULL)"
            for kind in PARENT_KINDS.values()
        ),
    ),
)
_OF_CONVERSATIONS = (
    Rule(
        "discussions",
        "every discussion has a note",
        "discussions without a note",
        "SELECT 'discussions ' || d.id AS name FROM discussions d"
        " WHERE NOT EXISTS (SELECT 1 FROM notes n WHERE n.discussion_id = d.id)",
    ),
    Rule(
        "note-order",
        "no discussion ends before it begins",
        "discussions whose last note is older than their first",
        "SELECT 'discussions ' || id AS name FROM discussions WHERE first_note_at > last_note_at",
    ),
    Rule(
        "children",
        "every child item belongs to the project of its parent",
        "children in another project than their parent",
        _each(
            f"SELECT '{table} ' || c.id AS name FROM {table} c JOIN {above} r ON r.id = c.{column}"
            " WHERE c.project_id <> r.project_id"
            for table, above, column in HOMES
        ),
    ),
)
_OF_TOPICS = (
    Rule(
        "topic-replies",
        "every reply in a topic belongs to a comment of the same topic",
        "replies without their comment",
        "SELECT 'topic_comments ' || r.id AS name FROM topic_comments r WHERE r.in_reply_to IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM topic_comments c WHERE c.topic_id = r.topic_id AND c.remote_id = r.in_reply_to"
        " AND c.in_reply_to IS NULL)",
    ),
    Rule(
        "topic-tombstones",
        "no deleted topic has a comment",
        "comments of deleted topics",
        "SELECT 'topic_comments ' || c.id AS name FROM topic_comments c JOIN topics t ON t.id = c.topic_id"
        " WHERE t.deleted_at IS NOT NULL",
    ),
)
_OF_THE_REST = (
    Rule(
        "labels",
        "every label link stays inside its project",
        "links to a label of another project",
        _each(
            f"SELECT '{link} ' || r.id || ' ' || l.name AS name FROM {link} k JOIN {table} r ON r.id = k.{column}"
            " JOIN labels l ON l.id = k.label_id WHERE l.project_id <> r.project_id"
            for link, table, column in LINKS
        ),
    ),
    Rule(
        "quarantine",
        "everything in quarantine has its payload",
        "quarantined entries without a payload",
        f"SELECT {SCOPE} || ' ' || remote_key AS name FROM quarantine WHERE LENGTH(payload) = 0",
    ),
    Rule(
        "gaps",
        "every gap has its floor below its top",
        "gaps whose floor is above their top",
        f"SELECT {SCOPE} || ' ' || place AS name FROM gaps WHERE floor_at > top_at",
    ),
)
_THREADS = (
    "SELECT t.id FROM discussions t LEFT JOIN issues i ON i.id = t.issue_id"
    " LEFT JOIN merge_requests r ON r.id = t.merge_request_id WHERE i.deleted_at IS NULL AND r.deleted_at IS NULL"
    " AND EXISTS (SELECT 1 FROM notes n WHERE n.discussion_id = t.id AND n.is_system = 0 AND n.body <> '')"
)
_SOURCES = (
    ("issue", "SELECT id FROM issues WHERE deleted_at IS NULL"),
    ("merge_request", "SELECT id FROM merge_requests WHERE deleted_at IS NULL"),
    ("discussion", _THREADS),
    ("topic", "SELECT id FROM topics WHERE deleted_at IS NULL"),
    ("post", f"SELECT p.id FROM posts p WHERE {DOCUMENTED}"),
)
"""The sources that must have a document: all that are not deleted.

Except discussions without a user note, and reposts other than the first one of a post that is not stored itself.
"""
_UNMARKED = "NOT EXISTS (SELECT 1 FROM dirty_sources m WHERE m.source_type = '{0}' AND m.source_id = {1})"
_OF_DOCUMENTS = (
    Rule(
        "documents",
        "every issue, merge request, discussion, topic and post has a document or is marked for an update",
        "items without a document and without a mark",
        _each(
            f"SELECT '{kind} ' || s.id AS name FROM ({live}) s"
            f" WHERE NOT EXISTS (SELECT 1 FROM documents d WHERE d.source_type = '{kind}' AND d.source_id = s.id)"
            f" AND {_UNMARKED.format(kind, 's.id')}"
            for kind, live in _SOURCES
        ),
    ),
    Rule(
        "documents-of-nothing",
        "every document has its item or is marked for removal",
        "documents without their item",
        _each(
            f"SELECT 'documents ' || d.id AS name FROM documents d WHERE d.source_type = '{kind}'"
            f" AND d.source_id NOT IN ({live}) AND {_UNMARKED.format(kind, 'd.source_id')}"
            for kind, live in _SOURCES
        ),
    ),
)
_INDEXES = ("documents_fts", "documents_trigram")
FULL_TEXT = {
    "sqlite": Rule(
        "full-text",
        "the full-text indexes contain exactly the documents",
        "documents missing in an index, or index entries without a document",
        _each(
            f"SELECT 'documents ' || id || ' {index}' AS name FROM documents"
            f" WHERE id NOT IN (SELECT id FROM {index}_docsize)"
            f" UNION ALL SELECT '{index} ' || id AS name FROM {index}_docsize"
            " WHERE id NOT IN (SELECT id FROM documents)"
            for index in _INDEXES
        ),
    ),
    "postgres": Rule(
        "full-text",
        "every document is in the full-text index",
        "documents missing in the index",
        "SELECT 'documents ' || id AS name FROM documents WHERE search_vector IS NULL",
    ),
}
"""Full-text search differs between the databases, and so do its rules."""
_OF_POSTS = (
    Rule(
        "posts",
        "every post belongs to the account of its author",
        "posts of another author",
        "SELECT 'posts ' || p.id AS name FROM posts p LEFT JOIN accounts a ON a.id = p.account_id"
        " WHERE (p.account_id IS NOT NULL AND (a.id IS NULL OR a.did <> p.author_did))"
        " OR p.uri NOT LIKE 'at://' || p.author_did || '/%'",
    ),
    Rule(
        "shares",
        "every share belongs to the author of an existing post",
        "shares of another author or of a deleted post",
        "SELECT 'post_links ' || s.post_id || ' ' || s.link_id AS name FROM post_links s"
        " LEFT JOIN posts p ON p.id = s.post_id LEFT JOIN links l ON l.id = s.link_id"
        " WHERE p.id IS NULL OR l.id IS NULL OR p.deleted_at IS NOT NULL OR p.author_did <> s.sharer"
        " OR s.shared_at < l.first_shared_at OR s.shared_at > l.last_shared_at",
    ),
)
_PLACE = "model_id || ' ' || block || ' ' || slot"
_OF_VECTORS = (
    Rule(
        "vector-owners",
        "every embedding has its document and its model",
        "embeddings without a document or model",
        "SELECT 'embeddings ' || document_id || ' ' || position AS name FROM embeddings"
        " WHERE document_id NOT IN (SELECT id FROM documents) OR model_id NOT IN (SELECT id FROM embedding_models)"
        " UNION ALL SELECT 'embedding_blocks ' || block AS name FROM embedding_blocks"
        " WHERE model_id NOT IN (SELECT id FROM embedding_models)"
        " UNION ALL SELECT 'embedding_holes ' || block || ' ' || slot AS name FROM embedding_holes"
        " WHERE model_id NOT IN (SELECT id FROM embedding_models)",
    ),
    Rule(
        "vector-pieces",
        "every embedded document has all its embeddings, from one version",
        "partly embedded documents",
        "SELECT 'documents ' || document_id AS name FROM embeddings GROUP BY model_id, document_id"
        " HAVING MIN(position) <> 0 OR MAX(position) <> COUNT(*) - 1 OR COUNT(DISTINCT content_hash) > 1",
    ),
    Rule(
        "vector-places",
        "every vector slot is either free or used once",
        "slots used twice, lost, or without an owner",
        f"SELECT 'embedding_blocks ' || {_PLACE} AS name FROM (SELECT model_id, block, slot FROM embeddings"
        " WHERE block IS NOT NULL UNION ALL SELECT model_id, block, slot FROM embedding_holes) AS places"
        " GROUP BY model_id, block, slot HAVING COUNT(*) > 1"
        f" UNION ALL SELECT 'embeddings ' || {_PLACE} AS name FROM embeddings e WHERE block IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM embedding_blocks b WHERE b.model_id = e.model_id AND b.block = e.block)"
        " UNION ALL SELECT 'embedding_models ' || m.id AS name FROM embedding_models m WHERE m.slots <>"
        " (SELECT COUNT(*) FROM embeddings e WHERE e.model_id = m.id AND e.block IS NOT NULL)"
        " + (SELECT COUNT(*) FROM embedding_holes h WHERE h.model_id = m.id)",
    ),
)
RULES = (
    *_OF_PAYLOADS,
    *_OF_TIME,
    *_OF_CONVERSATIONS,
    *_OF_TOPICS,
    *_OF_POSTS,
    *_OF_DOCUMENTS,
    *_OF_VECTORS,
    *_OF_THE_REST,
)


FEEDBACK_RULES = (
    Rule(
        "tracked-history",
        "the status of every tracked pull request is the last of its history",
        "pull requests whose status is not the last of their history",
        "SELECT t.repo_full_name || '#' || t.pr_number AS name FROM tracked_prs t WHERE t.status <> COALESCE("
        "(SELECT h.to_status FROM tracked_pr_history h WHERE h.tracked_pr_id = t.id ORDER BY h.id DESC LIMIT 1), '')",
    ),
    Rule(
        "event-versions",
        "the comment of every event is marked as judged in that version or a later one",
        "events of comments that are not marked as judged",
        # A deleted comment leaves its events. One that came back is judged only while its pull request is followed.
        "SELECT 'feedback_events ' || e.id AS name FROM feedback_events e JOIN notes n ON n.project_id = e.project_id"
        " AND n.kind = e.kind AND n.remote_id = e.comment_id LEFT JOIN tracked_prs t ON t.project_id = e.project_id"
        " AND t.pr_number = e.pr_number AND t.status = 'awaiting_feedback' AND t.judge_from IS NULL"
        " WHERE n.judged_at < e.updated_at OR (n.judged_at IS NULL AND t.id IS NOT NULL)"
        " UNION ALL SELECT 'notes ' || id AS name FROM notes WHERE (judged_at IS NULL AND judged_hash IS NOT NULL)"
        " OR (judged_at IS NOT NULL AND judged_hash IS NULL) OR (judged_at IS NULL AND ignored IS NOT NULL)",
    ),
    Rule(
        "events-in-flight",
        "no thread has two events in progress",
        "threads with two events in progress",
        "SELECT repo_full_name || '#' || thread_number AS name FROM feedback_events WHERE processed_at IS NULL"
        " AND leased_until > :latest GROUP BY project_id, repo_full_name, thread_number HAVING COUNT(*) > 1",
    ),
    Rule(
        "followups",
        "batched comments of source issues are consumed and belong to their issue",
        "batches that are not consumed, or contain comments of another issue",
        "SELECT 'feedback_events ' || e.id AS name FROM feedback_events e JOIN issue_comment_cursors c"
        " ON c.project_id = e.project_id AND c.issue_number = e.issue_number"
        f" WHERE e.kind = '{FOLLOWUPS}' AND e.lease_id IS NOT NULL AND c.pre_pr_last_consumed_comment_id < e.comment_id"
        " UNION ALL SELECT 'issue_followups ' || f.issue_number || ' ' || f.comment_id AS name FROM issue_followups f"
        " JOIN feedback_events e ON e.id = f.event_id WHERE e.project_id <> f.project_id"
        f" OR e.issue_number <> f.issue_number OR e.kind <> '{FOLLOWUPS}'",
    ),
    Rule(
        "outbox",
        "every reply has the status of its token",
        "replies without a token or with another status",
        "SELECT 'outbox ' || o.id AS name FROM outbox o LEFT JOIN action_tokens t"
        " ON t.repo_full_name = o.repo_full_name AND t.token = o.token WHERE t.token IS NULL OR t.status <> o.status"
        " OR t.project_id <> o.project_id OR t.scope_number <> o.scope_number OR t.attempt_count <> o.attempts",
    ),
)


_BATCH = 64
_SAMPLE = 5


class CheckFinding(Struct, frozen=True):
    """The result of one check: `count` offending rows, the first few of them named in `detail`."""

    check: str
    ok: bool
    detail: str
    count: int


def check_database(database: Database, now_ms: int) -> list[CheckFinding]:
    """Check the copy; return one finding for each check, in a fixed order."""
    rules = (*RULES, *FEEDBACK_RULES, FULL_TEXT[database.dialect])
    checks: list[tuple[str, Callable[[], CheckFinding]]] = [
        ("database", lambda: _own_integrity(database)),
        ("schema", lambda: _schema(database)),
        ("payloads-intact", lambda: _payloads_intact(database)),
        ("windows", lambda: _windows(database)),
        ("runs", lambda: _runs(database)),
        ("vectors", lambda: _vectors(database)),
        *((rule.check, lambda rule=rule: _apply(database, rule, now_ms)) for rule in rules),
    ]
    return [_survive(check, look) for check, look in checks]


def _survive(check: str, look: Callable[[], CheckFinding]) -> CheckFinding:
    try:
        return look()
    except DatabaseUnusable as error:
        return CheckFinding(check, ok=False, detail=f"cannot be read: {error.message}", count=1)


def _apply(database: Database, rule: Rule, now_ms: int) -> CheckFinding:
    params = {"latest": now_ms + SKEW_MS} if ":latest" in rule.offenders else None
    count = int(database.read(f"SELECT COUNT(*) FROM ({rule.offenders}) AS offenders", params)[0][0])
    sample = database.read(f"{rule.offenders} ORDER BY name LIMIT {_SAMPLE}", params) if count else []
    return _finding(rule.check, rule.holds, rule.broken, [str(name) for (name,) in sample], count)


def _finding(check: str, holds: str, broken: str, names: Sequence[str], count: int | None = None) -> CheckFinding:
    count = len(names) if count is None else count
    if not count:
        return CheckFinding(check, ok=True, detail=holds, count=0)
    more = ", ..." if count > _SAMPLE else ""
    return CheckFinding(check, ok=False, detail=f"{broken}: {', '.join(names[:_SAMPLE])}{more}", count=count)


def _counted(check: str, holds: str, broken: str, offenders: Iterator[str]) -> CheckFinding:
    """Return the finding for offenders that may be too many to keep in memory."""
    sample = list(islice(offenders, _SAMPLE))
    return _finding(check, holds, broken, sample, len(sample) + sum(1 for _ in offenders))


def _own_integrity(database: Database) -> CheckFinding:
    return _finding("database", "integrity check passed", "the database reports", database.problems())


def _schema(database: Database) -> CheckFinding:
    """Compare the content of recorded migrations with ours: opening the database compares only their numbers."""
    shipped = {(step.version, step.checksum) for step in migrations(database.dialect)}
    recorded = {(version, text) for version, text in database.read("SELECT version, checksum FROM schema_version")}
    bad = [f"step {version}" for version in sorted({version for version, _ in shipped ^ recorded})]
    return _finding("schema", "all migrations match", "steps that differ", bad)


def _payloads_intact(database: Database) -> CheckFinding:
    bad = map(str, _damaged_payloads(database))
    return _counted("payloads-intact", "all payload hashes match", "payloads with a wrong hash", bad)


def _damaged_payloads(database: Database) -> Iterator[int]:
    after, reader = -1, PayloadReader(database.read)
    while rows := database.read(
        "SELECT id, content_hash, encoding, payload, dictionary_id FROM raw_payloads WHERE id > :after"
        " AND resource_type <> :left_out ORDER BY id LIMIT :batch",
        {"after": after, "batch": _BATCH, "left_out": LEFT_OUT_PAYLOAD},
    ):
        for payload_id, address, *packed in rows:
            try:
                intact = digest(reader.unpack(*packed)) == bytes(address)
            except ValueError:
                intact = False
            if not intact:
                yield payload_id
        after = rows[-1][0]


def _windows(database: Database) -> CheckFinding:
    rows = database.read(f"SELECT {SCOPE}, reading FROM cursors WHERE reading IS NOT NULL ORDER BY 1")
    bad = [str(name) for name, reading in rows if decode(reading, Window) is None]
    return _finding("windows", "all stored windows are readable", "unreadable windows", bad)


def _runs(database: Database) -> CheckFinding:
    """Report interrupted runs. They are normal after a kill: the next run closes them."""
    interrupted = [f"run {row.id}" for row in RunTable(database).running() if is_dead(row.holder)]
    detail = (
        f"interrupted: {', '.join(interrupted)}; the next sync closes them" if interrupted else "no interrupted runs"
    )
    return CheckFinding("runs", ok=True, detail=detail, count=0)


def _vectors(database: Database) -> CheckFinding:
    holds, broken = "all vectors match their rows", "missing or mismatched vectors"
    if not database.read("SELECT 1 FROM embeddings UNION ALL SELECT 1 FROM embedding_blocks LIMIT 1"):
        return _finding("vectors", holds, broken, [])
    if find_missing(["numpy"]) is not None:
        detail = f"not checked: reading embeddings needs numpy ({install_command('vectors')})"
        return CheckFinding("vectors", ok=True, detail=detail, count=0)
    # Imported here, so that a copy without vectors can be checked without numpy.
    from tidelore.store.reading.vectors import misplaced_vectors

    return _counted("vectors", holds, broken, misplaced_vectors(database))
