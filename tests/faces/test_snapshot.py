"""`lore snapshot` and `lore datasette`: one file for others to read, and how Datasette shows it."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk, Outcome

from tidelore.cli.main import main
from tidelore.store.database.opening import open_database
from tidelore.store.database.snapshot import KEPT, LEFT_OUT

SECRET = "a-secret-that-must-not-leave"


@pytest.fixture
def filled(desk: Desk) -> Desk:
    """A desk with both projects, documents, and state that only this machine needs."""
    desk.ingested()
    assert desk.run("generate-docs").code == 0
    desk.query(
        f"INSERT INTO local_secrets (name, secret, created_at) VALUES ('action_tokens', CAST('{SECRET}' AS BLOB), 1)"
    )
    desk.query(f"INSERT INTO own_logins (source, login, updated_at) VALUES ('gitlab', '{SECRET}', 1)")
    desk.query(f"UPDATE cursors SET url = 'https://host/?{SECRET}', etag = '{SECRET}'")
    desk.query(f"UPDATE projects SET base_url = 'http://{SECRET}', tracking_rule = '{SECRET}'")
    return desk


def read_with(desk: Desk, path: Path, *argv: str) -> Outcome:
    """Run a command on another database."""
    desk.read()
    code = main([*argv, "--config", str(desk.config), "--db", str(path)])
    return Outcome(code, *desk.read())


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Read a file as another program does."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def test_a_snapshot_holds_every_kept_row_and_no_state_of_this_machine(filled: Desk, tmp_path: Path) -> None:
    target = tmp_path / "team.db"
    done = filled.robot("snapshot", str(target))
    assert done.data["size_bytes"] == target.stat().st_size
    assert done.data["counts"]["issues"] == 7
    assert [entry.name for entry in tmp_path.glob("*team.db*")] == ["team.db"]
    for table in KEPT:
        expected = filled.query(f"SELECT COUNT(*) FROM {table}")
        assert rows(target, f"SELECT COUNT(*) FROM {table}") == expected, table
    for table in LEFT_OUT:
        assert rows(target, f"SELECT COUNT(*) FROM {table}") == [(0,)], table
    content = target.read_bytes()
    assert SECRET.encode() not in content
    assert content[18:20] == b"\x01\x01", "the header must not say WAL"
    assert SECRET.encode() in filled.db.read_bytes(), "the search must be able to find it"


def test_every_table_is_either_copied_or_left_out_on_purpose(filled: Desk) -> None:
    found = {
        str(name)
        for (name,) in filled.query(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
    }
    assert found == set(KEPT) | LEFT_OUT
    assert not set(KEPT) & LEFT_OUT


def test_a_snapshot_in_a_folder_without_write_permission_is_searched_and_left_unchanged(
    filled: Desk, tmp_path: Path
) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    target = folder / "team.db"
    assert filled.run("snapshot", str(target), "--no-payloads").code == 0
    before = target.read_bytes()
    target.chmod(0o444)
    folder.chmod(0o555)
    try:
        (title,) = filled.query("SELECT title FROM issues ORDER BY id LIMIT 1")[0]
        found = read_with(filled, target, "search", str(title), "--robot")
        assert found.data["items"], found
        for command in (["list", "issues"], ["count"], ["check"], ["sync-status"], ["threads"], ["digest"]):
            done = read_with(filled, target, *command)
            assert done.code == 0, done
        assert [entry.name for entry in folder.iterdir()] == ["team.db"]
    finally:
        folder.chmod(0o755)
    assert target.read_bytes() == before


def test_reading_a_snapshot_in_a_writable_folder_does_not_change_it_and_syncing_into_it_is_refused(
    filled: Desk, tmp_path: Path
) -> None:
    target = tmp_path / "team.db"
    assert filled.run("snapshot", str(target)).code == 0
    before = target.read_bytes()
    assert read_with(filled, target, "list", "issues").code == 0
    refused = read_with(filled, target, "sync", "--robot")
    assert refused.code == 1
    assert "is a snapshot, which is read-only" in refused.error["message"]
    assert target.read_bytes() == before
    assert not Path(f"{target}-wal").exists()


def test_a_snapshot_of_one_project_holds_no_word_of_another(filled: Desk, tmp_path: Path) -> None:
    filled.query(
        "UPDATE documents SET content = content || ' zanzibarian' WHERE project_id ="
        f" (SELECT id FROM projects WHERE path = '{CONSOLE}')"
    )
    filled.query("INSERT INTO document_words (word) VALUES ('zanzibarian')")
    target = tmp_path / "ledger.db"
    done = filled.robot("snapshot", str(target), "-p", "ledger")
    assert done.data["project"] == LEDGER
    assert rows(target, "SELECT path FROM projects") == [(LEDGER,)]
    assert rows(target, "SELECT COUNT(*) FROM issues") == [(5,)]
    assert b"zanzibarian" not in target.read_bytes()
    assert read_with(filled, target, "check").code == 0
    with closing(open_database(str(target), create=False)) as database:
        indexed = database.read("SELECT COUNT(*) FROM documents_fts WHERE documents_fts MATCH 'the OR a OR of OR in'")
    assert indexed[0][0] > 0


def test_an_existing_file_is_overwritten_only_with_force_and_the_database_itself_never(
    filled: Desk, tmp_path: Path
) -> None:
    target = tmp_path / "team.db"
    target.write_bytes(b"precious")
    refused = filled.robot("snapshot", str(target))
    assert refused.code == 2
    assert "--force" in refused.error["fix"]
    assert target.read_bytes() == b"precious"
    assert filled.run("snapshot", str(target), "--force").code == 0
    assert rows(target, "SELECT COUNT(*) FROM issues") == [(7,)]
    assert filled.robot("snapshot", str(filled.db), "--force").code == 2
    (tmp_path / "team.db-wal").write_bytes(b"x")
    assert "in use" in filled.robot("snapshot", str(target), "--force").error["message"]


def test_a_snapshot_that_fails_leaves_the_old_file_and_nothing_beside_it(
    filled: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "team.db"
    target.write_bytes(b"precious")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert filled.run("snapshot", str(target), "--force").code != 0
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.glob(".team.db*")) == []


def test_datasette_gets_a_metadata_file_whose_tables_and_columns_exist(filled: Desk, tmp_path: Path) -> None:
    target = tmp_path / "team.db"
    assert filled.run("snapshot", str(target)).code == 0
    words = shlex.split(filled.run("datasette", str(target)).out)
    assert words[0] == "datasette"
    assert words[-2:] == ["--immutable", str(target)]
    metadata = json.loads(Path(words[words.index("--metadata") + 1]).read_text(encoding="utf-8"))
    described = metadata["databases"]["team"]
    for name, table in described["tables"].items():
        columns = {column for (column,) in rows(target, f"SELECT name FROM pragma_table_info('{name}')")}
        named = {*table.get("facets", ()), *table.get("columns", ()), *table.get("sortable_columns", ())}
        named |= {table[key] for key in ("sort", "sort_desc", "label_column") if key in table}
        assert named <= columns, name
        assert table["description"], name
    shown = {name for name, table in described["tables"].items() if not table.get("hidden")}
    assert {"v_issues", "v_notes", "issues", "documents"} <= shown
    assert not shown & LEFT_OUT
    for query in described["queries"].values():
        with closing(sqlite3.connect(f"file:{target}?mode=ro", uri=True)) as connection:
            connection.execute(query["sql"], {"words": "the"}).fetchall()
