"""A copy of schema 11, whose tombstones kept everything, loses what the forge deleted and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from tests.databases.letters import embedded
from tests.databases.samples import CREATED, dump, stored_payload

from tidelore.content import digest
from tidelore.store.check import check_database
from tidelore.store.database import Database, Transaction
from tidelore.store.migrate import migrate

BEFORE = 11
SECRET = "xyzzy"
FIRST = 101
"""So far from the first rows that a sequence of PostgreSQL, which these rows pass by, does not meet them."""


def payload(tx: Transaction, row_id: int, kind: str, remote_id: str, text: str) -> dict[str, object]:
    """Store a payload; return the columns that refer to it."""
    content = text.encode()
    values = {"id": row_id, "hash": digest(content), "kind": kind, "remote_id": remote_id, "payload": content}
    tx.execute(
        "INSERT INTO raw_payloads (id, content_hash, project_id, resource_type, remote_id, encoding, payload,"
        " fetched_at) VALUES (:id, :hash, 1, :kind, :remote_id, 'identity', :payload, 1)",
        values,
    )
    return {"hash": values["hash"], "payload_id": row_id}


def parent(tx: Transaction, table: str, row_id: int, word: str, deleted_at: int | None) -> None:
    kind, column, labels = ("issue", "issue_id", "issue_labels")
    if table == "merge_requests":
        kind, column, labels = ("merge_request", "merge_request_id", "mr_labels")
    payload(tx, row_id * 10, kind, str(row_id), f"{word} of an earlier version of {table}")
    own = payload(tx, row_id * 10 + 1, kind, str(row_id), f"{word} {table}")
    tx.execute(
        f"INSERT INTO {table} (id, remote_id, project_id, iid, title, description, state, author_username, created_at,"
        " updated_at, last_seen_at, deleted_at, web_url, content_hash, raw_payload_id,"
        " discussions_sync_last_attempt_at) VALUES (:id, :id, 1, :id, :word, :word, 'opened', :word, :at, :at, :at,"
        " :deleted_at, 'https://forge.test/1', :hash, :payload_id, :at)",
        {"id": row_id, "word": word, "at": CREATED, "deleted_at": deleted_at, **own},
    )
    thread = payload(tx, row_id * 10 + 2, "discussion", f"d{row_id}", f"{word} thread")
    tx.execute(
        f"INSERT INTO discussions (id, remote_id, project_id, {column}, noteable_type, individual_note, first_note_at,"
        " last_note_at, last_seen_at, resolvable, resolved, content_hash, raw_payload_id)"
        " VALUES (:id, :remote_id, 1, :id, :type, 1, :at, :at, :at, 0, 0, :hash, :payload_id)",
        {
            "id": row_id,
            "remote_id": f"d{row_id}",
            "type": "Issue" if kind == "issue" else "MergeRequest",
            "at": CREATED,
            **thread,
        },
    )
    said = payload(tx, row_id * 10 + 3, "note", str(row_id * 7), f"{word} note")
    tx.execute(
        "INSERT INTO notes (id, remote_id, project_id, discussion_id, is_system, author_username, body, created_at,"
        " updated_at, last_seen_at, position, resolvable, resolved, raw_payload_id)"
        " VALUES (:id, :remote_id, 1, :id, 0, :word, :word, :at, :at, :at, 0, 0, 0, :payload_id)",
        {"id": row_id, "remote_id": row_id * 7, "word": word, "at": CREATED, "payload_id": said["payload_id"]},
    )
    tx.execute(f"INSERT INTO {labels} ({column}, label_id) VALUES (:id, 1)", {"id": row_id})
    for number, source in enumerate((kind, "discussion")):
        tx.execute(
            "INSERT INTO documents (id, source_type, source_id, project_id, thread_type, thread_id, title, state,"
            " participants, labels, paths, identifiers, content, created_at, updated_at, generated_at, content_hash)"
            " VALUES (:id, :source, :source_id, 1, :kind, :source_id, :word, 'opened', '', '', '', '', :word, :at, :at,"
            " :at, :hash)",
            {
                "id": row_id * 10 + number,
                "source": source,
                "source_id": row_id,
                "kind": kind,
                "word": word,
                "at": CREATED,
                "hash": bytes([row_id, number]) * 10,
            },
        )


def fill(database: Database) -> None:
    """Rows as the program of that schema wrote them: one live and one deleted item of each kind."""
    with database.transaction() as tx:
        tx.execute(
            "INSERT INTO projects (id, source, remote_id, path, name, configured, created_at, updated_at)"
            " VALUES (1, 'gitlab', 1, 'port/harbour', 'harbour', 'port/harbour', 1, 1)"
        )
        tx.execute("INSERT INTO labels (id, project_id, name) VALUES (1, 1, 'bug')")
        for place, table in enumerate(("issues", "merge_requests")):
            parent(tx, table, FIRST + 2 * place, SECRET, CREATED + 5)
            parent(tx, table, FIRST + 2 * place + 1, "stays", None)
        tx.execute(
            "INSERT INTO mr_closes_issues (merge_request_id, issue_key, issue_remote_id, title, content_hash)"
            " VALUES (:id, '101', 101, :word, :hash)",
            {"id": FIRST + 3, "word": SECRET, "hash": b"1"},
        )
    embedded(database)


def readable(database: Database) -> set[str]:
    """Return the tables in which a word of the deleted items can be read."""
    tables = dump(database)
    numbers = database.read("SELECT id FROM raw_payloads")
    tables["raw_payloads"] = [(row_id, stored_payload(database, row_id)) for (row_id,) in numbers]
    return {name for name, rows in tables.items() if SECRET in repr(rows)}


def live(database: Database) -> dict[str, object]:
    return {
        "issues": database.read("SELECT * FROM issues WHERE deleted_at IS NULL"),
        "requests": database.read("SELECT * FROM merge_requests WHERE deleted_at IS NULL"),
        "notes": database.read("SELECT * FROM notes WHERE body = 'stays'"),
        "threads": database.read("SELECT * FROM discussions WHERE id IN (102, 104) ORDER BY id"),
        "documents": database.read("SELECT id, title, content FROM documents WHERE title = 'stays' ORDER BY id"),
        "labels": database.read("SELECT * FROM issue_labels WHERE issue_id = 102"),
    }


def test_the_upgrade_removes_the_text_of_tombstones_and_keeps_live_items(
    connect: Callable[[], Database],
) -> None:
    database = connect()
    migrate(database, 1, upto=BEFORE)
    fill(database)
    assert {"issues", "merge_requests", "notes", "documents", "raw_payloads", "mr_closes_issues"} <= readable(database)
    before = live(database)
    migrate(database, 2, upto=BEFORE + 1)
    assert readable(database) == set()
    assert live(database) == before
    identity = "SELECT id, remote_id, iid, created_at, updated_at, deleted_at, web_url FROM {0} WHERE id IN (101, 103)"
    for table, row_id in (("issues", 101), ("merge_requests", 103)):
        expected = [(row_id, row_id, row_id, CREATED, CREATED, CREATED + 5, "https://forge.test/1")]
        assert database.read(identity.format(table)) == expected
    assert database.read("SELECT COUNT(*) FROM discussions") == [(2,)]
    assert database.read("SELECT COUNT(*) FROM embeddings WHERE document_id NOT IN (SELECT id FROM documents)") == [
        (0,)
    ]
    migrate(database, 3)
    unsound = [finding for finding in check_database(database, CREATED + 99) if not finding.ok]
    assert unsound == []


def test_the_upgrade_does_not_change_a_database_without_tombstones(connect: Callable[[], Database]) -> None:
    database = connect()
    migrate(database, 1, upto=BEFORE)
    fill(database)
    with database.transaction() as tx:
        for table in ("issues", "merge_requests"):
            tx.execute(f"UPDATE {table} SET deleted_at = NULL")
    before = dump(database)
    migrate(database, 2, upto=BEFORE + 1)
    assert dump(database) == before
