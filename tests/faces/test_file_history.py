"""`lore file-history`: the page people read, the document programs get, and what is refused with which remedy."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest
from tests.architecture.test_offline_read import HEAVY, loaded_by
from tests.databases.samples import CREATED, add_project, merge_request
from tests.databases.talk import DIFFS, DISCUSSIONS, attach, discussion, file_change, keep, placed
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.clock import SystemClock
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.parents import MERGE_REQUESTS
from tidelore_world.gitlab.state import FileDiff

DAY = 86_400_000
PAGE = """\
src/login.ts (port/harbour)
Names: login.ts -> src/login.ts

Merge Requests (showing 3 of 3)
NUMBER  STATE   AUTHOR  UPDATED     CHANGE    TITLE
!3      opened  @mira   2 days ago  modified  Harden the login
!2      merged  @mira   3 days ago  renamed   Move the login
!1      merged  @zoe    4 days ago  new       Add a login

Discussions (showing 2 of 2)
NUMBER  PLACE            AUTHOR  STARTED     STATE     FIRST NOTE
!3      src/login.ts:45  @zoe    2 days ago  open      Should we use a separate key?
!1      login.ts         @mira   4 days ago  resolved  Nit.
"""


@pytest.fixture
def filled(desk: Desk) -> Desk:
    """A file that was made, moved, and is being changed; people talked about it."""
    now = SystemClock().now_ms()
    database = open_database(str(desk.db))
    migrate(database, 1)
    harbour = add_project(database)
    told = [
        (1, 4, "Add a login", file_change("login.ts", "login.ts", new_file=True), {"author_username": "zoe"}),
        (2, 3, "Move the login", file_change("login.ts", "src/login.ts", renamed_file=True), {}),
        (3, 2, "Harden\x1b[31m the login", file_change("src/login.ts", "src/login.ts"), {"state": "opened"}),
    ]
    for iid, days, title, file, changes in told:
        at = now - days * DAY
        merged = {} if "state" in changes else {"state": "merged", "merged_at": at}
        keep(database, harbour, MERGE_REQUESTS, [merge_request(iid, at, title=title, **changes, **merged)])
        attach(database, harbour, "merge_requests", iid, DIFFS, file)
    asked = placed(
        10, "Should we use\n\na separate key?", "src/login.ts", 45, author_username="zoe", created_at=now - 2 * DAY
    )
    nit = placed(20, "Nit.", "login.ts", None, resolved=True, created_at=now - 4 * DAY)
    attach(database, harbour, "merge_requests", 3, DISCUSSIONS, discussion("a", asked))
    attach(database, harbour, "merge_requests", 1, DISCUSSIONS, discussion("b", nit))
    database.close()
    return desk


def test_file_history_prints_names_then_merge_requests_then_discussions(filled: Desk) -> None:
    done = filled.terminal("file-history", "src/login.ts", "--discussions", columns=100)
    assert (done.code, done.out) == (0, PAGE)


def test_the_history_of_a_file_without_renames_has_no_rename_chain(filled: Desk) -> None:
    done = filled.terminal("file-history", "./src/login.ts", "--no-follow-renames", "--merged", "-n", "1")
    assert done.out.splitlines() == [
        "src/login.ts (port/harbour)",
        "",
        "Merge Requests (showing 1 of 1)",
        "NUMBER  STATE   AUTHOR  UPDATED     CHANGE   TITLE",
        "!2      merged  @mira   3 days ago  renamed  Move the login",
    ]


def test_file_history_answers_with_the_documented_fields(filled: Desk) -> None:
    data = filled.robot("file-history", "login.ts", "--discussions").data
    compare("file-history", data)
    assert data["names"] == ["login.ts", "src/login.ts"]
    assert [item["iid"] for item in data["items"]] == [3, 2, 1]
    assert data["items"][1]["changes"] == [
        {"change": "renamed", "old_path": "login.ts", "new_path": "src/login.ts"},
    ]  # fmt: skip
    assert data["renames"][0]["reference"] == data["items"][1]["reference"] == "port/harbour!2"
    assert data["discussions"][0]["body"] == "Should we use\n\na separate key?"
    assert (data["discussions"][0]["line"], data["discussions"][1]["line"]) == (45, None)


def test_pull_requests_have_their_own_sign_and_a_thread_without_a_known_state_is_not_open(filled: Desk) -> None:
    with closing(open_database(str(filled.db))) as database, database.transaction() as tx:
        tx.execute("UPDATE merge_requests SET references_full = 'port/harbour#' || iid")
        tx.execute("UPDATE discussions SET resolvable = 1, resolved = NULL")
    data = filled.robot("file-history", "login.ts", "--discussions").data
    references = [entry["reference"] for entry in (*data["items"], *data["renames"], *data["discussions"])]
    assert all(reference.startswith("port/harbour#") for reference in references), references
    assert data["discussions"][0]["resolved"] is None
    lines = filled.terminal("file-history", "login.ts", "--discussions").out.splitlines()
    assert [line.split()[0] for line in lines if "unknown" in line] == ["#3", "#1"]


def test_the_fields_option_selects_fields_and_json_equals_robot(filled: Desk) -> None:
    data = filled.run("file-history", "login.ts", "--fields", "iid, state", "--json").data
    assert data["items"][0] == {"iid": 3, "state": "opened"}
    assert filled.robot("file-history", "login.ts", "--fields", "iid,colour").error["code"] == "USAGE"
    assert filled.robot("file-history", "login.ts", "--fields", ",").error["code"] == "USAGE"


def test_missing_and_ambiguous_paths_are_refused_with_a_fix(filled: Desk) -> None:
    missing = filled.robot("file-history", "lib/login.ts")
    assert (missing.code, missing.error["code"]) == (6, "NOT_FOUND")
    assert missing.error["fix"] == "files of that name: login.ts, src/login.ts"
    database = filled.store()
    keep(database, add_project(database, 2, "port/quay"), MERGE_REQUESTS, [merge_request(1, CREATED)])
    quay = add_project(database, 2, "port/quay")
    attach(database, quay, "merge_requests", 1, DIFFS, file_change("src/login.ts", "src/login.ts"))
    database.close()
    several = filled.robot("file-history", "src/login.ts")
    assert (several.code, several.error["code"]) == (2, "USAGE")
    assert several.error["details"]["candidates"] == [
        {"project": "port/harbour", "path": "src/login.ts"},
        {"project": "port/quay", "path": "src/login.ts"},
    ]
    assert filled.robot("file-history", "src/login.ts", "-p", "quay").data["total"] == 1
    filled.config.write_text(f'default_project = "port/harbour"\n{filled.config.read_text()}')
    assert filled.robot("file-history", "src/login.ts").data["total"] == 3


def test_file_history_imports_no_http_client(filled: Desk, tmp_path: Path) -> None:
    modules = loaded_by(tmp_path, "file-history", "login.ts", "--discussions", "--db", str(filled.db))
    assert sorted(HEAVY & modules) == []


def test_the_history_of_every_mirrored_file_matches_its_diffs(desk: Desk) -> None:
    forge = desk.world.gitlab
    for path, files in (
        (LEDGER, [FileDiff("a/core.py", "b/core.py", "", renamed_file=True)]),
        (LEDGER, [FileDiff("b/core.py", "c/core.py", "", renamed_file=True), FileDiff("x.py", "x.py", "")]),
        (CONSOLE, [FileDiff("c/core.py", "c/core.py", "", deleted_file=True)]),
    ):
        request = forge.create_merge_request(path)
        request.diffs[:] = files
        desk.world.advance(3600)
    desk.world.advance(86_400)
    desk.ingested("merge_requests")
    expected: dict[tuple[str, str], set[int]] = defaultdict(set)
    for path in (LEDGER, CONSOLE):
        for iid, diffs in forge.truth_all_diffs(path).items():
            for diff in diffs:
                expected[path, diff["old_path"]].add(iid)
                expected[path, diff["new_path"]].add(iid)
    assert len(expected) > 5
    for (project, path), iids in expected.items():
        data = desk.robot("file-history", path, "-p", project, "--no-follow-renames").data
        assert {item["iid"] for item in data["items"]} == iids, (project, path)
    whole = desk.robot("file-history", "a/core.py").data
    assert whole["names"] == ["a/core.py", "b/core.py", "c/core.py"]
    assert {item["iid"] for item in whole["items"]} == expected[LEDGER, "a/core.py"] | expected[LEDGER, "c/core.py"]
