"""What must hold of the stored rows, as data. Owns the checks of `lore check` that are one query each.

Plain SQL that both databases understand. Refuses to run them: `check.py` does. A rule names its offenders; it never
says how to mend them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tidelore.store.kinds import PARENT_KINDS
from tidelore.store.post_sources import DOCUMENTED


class Rule(Struct, frozen=True):
    """A check that is one query: each row it returns is the name of an offender."""

    check: str
    holds: str
    broken: str
    offenders: str


EVENTS = ("resource_state_events", "resource_label_events", "resource_milestone_events")
TIMES = {
    "issues": ("created_at", "updated_at", "last_seen_at", "closed_at", "deleted_at"),
    "merge_requests": ("created_at", "updated_at", "last_seen_at", "merged_at", "closed_at", "deleted_at"),
    "discussions": ("first_note_at", "last_note_at", "last_seen_at"),
    "notes": ("created_at", "updated_at", "last_seen_at", "resolved_at"),
    # Whoever writes a post dates it too: only what we say of it is an instant.
    "posts": ("first_seen_at", "last_seen_at", "edited_at", "deleted_at"),
    "accounts": ("created_at", "updated_at", "last_polled_at"),
    **dict.fromkeys(EVENTS, ("created_at",)),
}
"""Every instant that is stored of what a source holds."""
LINKS = (("issue_labels", "issues", "issue_id"), ("mr_labels", "merge_requests", "merge_request_id"))
HOMES = (
    *((table, kind.table, kind.column) for table in ("discussions", *EVENTS) for kind in PARENT_KINDS.values()),
    ("mr_file_changes", "merge_requests", "merge_request_id"),
    ("notes", "discussions", "discussion_id"),
)
"""Each table of children with a table of its parents and the column that leads there."""
SCOPE = "source || ' ' || surface || ' ' || scope"

_WITH_PAYLOAD = ("issues", "merge_requests", "discussions")
_PLACED = "(n.position_new_path IS NOT NULL OR n.position_old_path IS NOT NULL)"


def _each(parts: Iterable[str]) -> str:
    return " UNION ALL ".join(parts)


_OF_PAYLOADS = (
    Rule(
        "payloads-present",
        "every issue, merge request, discussion and post has its payload",
        "rows without a payload",
        _each(
            f"SELECT '{table} ' || r.id AS name FROM {table} r LEFT JOIN raw_payloads p ON p.id = r.raw_payload_id"
            " WHERE p.id IS NULL"
            for table in (*_WITH_PAYLOAD, "posts")
        ),
    ),
    Rule(
        "content-hash",
        "every row names the content of its payload",
        "rows whose content hash differs from their payload",
        _each(
            f"SELECT '{table} ' || r.id AS name FROM {table} r JOIN raw_payloads p ON p.id = r.raw_payload_id"
            " WHERE p.content_hash <> r.content_hash"
            for table in _WITH_PAYLOAD
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
            f"SELECT '{kind.table} ' || p.id AS name FROM {kind.table} p WHERE p.deleted_at IS NULL"
            f" AND (SELECT COUNT(*) FROM child_sync c WHERE c.project_id = p.project_id"
            f" AND c.parent_kind = '{kind.table}' AND c.parent_id = p.id AND c.parent_updated_at = p.updated_at"
            f" AND c.kind IN ({', '.join(repr(name) for name in kind.kinds)})) <> {len(kind.kinds)}"
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
    " AND EXISTS (SELECT 1 FROM notes n WHERE n.discussion_id = t.id AND n.is_system = 0)"
)
_SOURCES = (
    ("issue", "SELECT id FROM issues WHERE deleted_at IS NULL"),
    ("merge_request", "SELECT id FROM merge_requests WHERE deleted_at IS NULL"),
    ("discussion", _THREADS),
    ("post", f"SELECT p.id FROM posts p WHERE {DOCUMENTED}"),
)
"""What has a document: whatever lives; of threads those in which somebody said a word, of reposts those that alone tell
what they repeat."""
_UNMARKED = "NOT EXISTS (SELECT 1 FROM dirty_sources m WHERE m.source_type = '{0}' AND m.source_id = {1})"
_OF_DOCUMENTS = (
    Rule(
        "documents",
        "every issue, merge request, discussion and post has a document or is marked for an update",
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
"""Full text is each database's own affair, and so is what must hold of it."""
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
RULES = (*_OF_PAYLOADS, *_OF_TIME, *_OF_CONVERSATIONS, *_OF_POSTS, *_OF_DOCUMENTS, *_OF_VECTORS, *_OF_THE_REST)
