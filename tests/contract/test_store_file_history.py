"""The history of a file, under all its names, and which file is meant; on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.samples import CREATED, add_project, merge_request
from tests.databases.talk import DIFFS, DISCUSSIONS, attach, discussion, file_change, keep, note, placed

from tidelore.core.errors import NotFound, UserError
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.reading.file_history import FileHistory, FileQuestion, read_file_history

HOUR = 3_600_000


@pytest.fixture
def harbour(database: Database) -> ProjectRow:
    return add_project(database)


def add(database: Database, project: ProjectRow, iid: int, *files: Any, **changes: Any) -> None:
    """A merge request that changes these files; a higher number is a later one."""
    known = {"iid": iid, "state": "merged", "merged_at": CREATED + iid * HOUR} | changes
    keep(database, project, MERGE_REQUESTS, [merge_request(iid, CREATED + iid * HOUR, **known)])
    attach(database, project, "merge_requests", iid, DIFFS, *files)


@pytest.fixture
def filled(database: Database, harbour: ProjectRow) -> Database:
    """`login.ts` was made, moved twice, and is being deleted; two more files live beside it."""
    add(database, harbour, 1, file_change("login.ts", "login.ts", new_file=True))
    add(database, harbour, 2, file_change("login.ts", "src/login.ts", renamed_file=True), file_change("b", "b"))
    add(database, harbour, 3, file_change("src/login.ts", "src/login.ts"), state="closed", merged_at=None)
    add(database, harbour, 4, file_change("src/login.ts", "src/auth/login.ts", renamed_file=True))
    add(
        database, harbour, 5, file_change("src/auth/login.ts", "src/auth/login.ts", deleted_file=True),
        state="opened", merged_at=None,
    )  # fmt: skip
    add(
        database, harbour, 6, file_change("test/store.ts", "test/store.ts"), file_change("src/store.ts", "src/store.ts")
    )
    return database


def history(database: Database, path: str, **wanted: Any) -> FileHistory:
    return read_file_history(database, FileQuestion(path=path, **wanted))


def numbers(found: FileHistory) -> list[int]:
    return [entry.iid for entry in found.entries]


@pytest.mark.parametrize(
    "path", ["login.ts", "src/login.ts", "src/auth/login.ts", "./src/login.ts", "src/x/../login.ts"]
)
def test_any_name_of_a_renamed_file_gives_its_whole_history_newest_first(filled: Database, path: str) -> None:
    found = history(filled, path)
    assert found.lineage.names == ("login.ts", "src/login.ts", "src/auth/login.ts")
    assert [rename.iid for rename in found.lineage.renames] == [2, 4]
    assert numbers(found) == [5, 4, 3, 2, 1]
    assert found.total == 5
    assert [[touch.kind for touch in entry.touches] for entry in found.entries] == [
        ["deleted"], ["renamed"], ["modified"], ["renamed"], ["new"],
    ]  # fmt: skip
    renamed = found.entries[1].touches[0]
    assert (renamed.old_path, renamed.new_path) == ("src/login.ts", "src/auth/login.ts")


def test_a_full_path_takes_precedence_over_a_suffix_match(filled: Database) -> None:
    assert history(filled, "login.ts").file.path == "login.ts"


def test_a_suffix_matching_only_names_of_one_file_resolves_to_its_newest_name(
    filled: Database, harbour: ProjectRow
) -> None:
    add(filled, harbour, 1, file_change("old/login.ts", "old/login.ts", new_file=True))
    add(filled, harbour, 2, file_change("old/login.ts", "src/login.ts", renamed_file=True))
    found = history(filled, "login.ts")
    assert found.file.path == "src/auth/login.ts"
    assert found.lineage.names == ("old/login.ts", "src/login.ts", "src/auth/login.ts")


def test_without_following_renames_only_the_given_name_counts(filled: Database) -> None:
    found = history(filled, "src/login.ts", follow=False)
    assert found.lineage.names == ("src/login.ts",)
    assert found.lineage.renames == ()
    # The rename that gave it the name and the one that took it away both change it.
    assert numbers(found) == [4, 3, 2]


def test_history_can_be_limited_to_merged_requests_and_to_a_number(filled: Database) -> None:
    assert numbers(history(filled, "src/login.ts", merged=True)) == [4, 2, 1]
    few = history(filled, "src/login.ts", limit=2)
    assert (numbers(few), few.total) == ([5, 4], 5)


def test_a_merged_request_is_ordered_by_merge_time_and_not_by_last_update(
    filled: Database, harbour: ProjectRow
) -> None:
    keep(filled, harbour, MERGE_REQUESTS, [
        merge_request(1, CREATED + 99 * HOUR, iid=1, state="merged", merged_at=CREATED + HOUR)
    ])  # fmt: skip
    assert numbers(history(filled, "src/login.ts")) == [5, 4, 3, 2, 1]


def test_files_changed_only_by_an_earlier_push_do_not_count(filled: Database, harbour: ProjectRow) -> None:
    add(filled, harbour, 4, file_change("c", "c"), head_sha="b" * 40)
    found = history(filled, "src/login.ts")
    assert found.lineage.names == ("login.ts", "src/login.ts")
    assert numbers(found) == [3, 2, 1]
    assert numbers(history(filled, "c")) == [4]


def test_a_path_that_only_an_earlier_push_had_is_not_found(filled: Database, harbour: ProjectRow) -> None:
    add(filled, harbour, 6, file_change("c", "c"), head_sha="b" * 40)
    for path in ("src/store.ts", "store.ts"):
        with pytest.raises(NotFound):
            history(filled, path)


def test_a_deleted_merge_request_does_not_count(filled: Database, harbour: ProjectRow) -> None:
    keep(filled, harbour, MERGE_REQUESTS, [], gone=[4])
    assert numbers(history(filled, "src/login.ts")) == [3, 2, 1]
    keep(filled, harbour, MERGE_REQUESTS, [], gone=[6])
    with pytest.raises(NotFound):
        history(filled, "store.ts")


def test_a_merge_request_with_two_changes_of_the_file_is_listed_once_with_both(
    filled: Database, harbour: ProjectRow
) -> None:
    add(
        filled, harbour, 7, file_change("src/auth/login.ts", "lib/login.ts", renamed_file=True),
        file_change("src/auth/login.ts", "src/auth/login.ts", new_file=True),
    )  # fmt: skip
    found = history(filled, "lib/login.ts")
    assert numbers(found)[0] == 7
    assert sorted(touch.kind for touch in found.entries[0].touches) == ["new", "renamed"]
    assert found.total == 6


def test_a_suffix_matching_two_files_is_refused_with_the_candidates(filled: Database) -> None:
    with pytest.raises(UserError, match=r"'store\.ts' matches 2 files") as refused:
        history(filled, "store.ts")
    assert refused.value.exit_code == 2
    assert refused.value.details["candidates"] == [
        {"project": "port/harbour", "path": "src/store.ts"},
        {"project": "port/harbour", "path": "test/store.ts"},
    ]
    assert "src/store.ts, test/store.ts" in str(refused.value.fix)


@pytest.mark.parametrize("path", ["STORE.TS", "tore.ts", "src", "st_re.ts", "%", "est/store.ts"])
def test_a_suffix_starts_at_a_slash_and_is_matched_literally(filled: Database, path: str) -> None:
    with pytest.raises(NotFound) as missing:
        history(filled, path)
    assert missing.value.exit_code == 6


@pytest.mark.parametrize("path", ["", " ", ".", "./", "..", "../a.ts", "a/../..", "/"])
def test_an_invalid_file_path_is_refused(filled: Database, path: str) -> None:
    with pytest.raises(UserError, match="invalid file path") as refused:
        history(filled, path)
    assert refused.value.exit_code == 2


def test_a_path_not_found_suggests_files_with_the_same_name(filled: Database) -> None:
    with pytest.raises(NotFound) as missing:
        history(filled, "lib/store.ts")
    assert missing.value.fix == "files of that name: src/store.ts, test/store.ts"
    with pytest.raises(NotFound) as missing:
        history(filled, "nothing.ts")
    assert "lore sync" in str(missing.value.fix)


@pytest.fixture
def twice(filled: Database) -> Database:
    """A second project has a file of the same path, with a history of its own."""
    quay = add_project(filled, 2, "port/quay")
    add(filled, quay, 9, file_change("src/login.ts", "src/login.ts"))
    return filled


def test_a_path_in_two_projects_needs_a_project_or_a_default(twice: Database) -> None:
    with pytest.raises(UserError, match="matches 2 files") as refused:
        history(twice, "src/login.ts")
    assert "src/login.ts in port/harbour, src/login.ts in port/quay" in str(refused.value.fix)
    assert numbers(history(twice, "src/login.ts", project="quay")) == [9]
    assert numbers(history(twice, "src/login.ts", default="port/quay")) == [9]
    assert numbers(history(twice, "src/login.ts", default="quay")) == [9]
    assert numbers(history(twice, "src/login.ts", project="harbour", default="port/quay")) == [5, 4, 3, 2, 1]
    # The default project has no such file: that is no reason not to find it.
    assert numbers(history(twice, "b", default="port/quay")) == [2]


def test_a_path_is_looked_for_in_the_named_project_only(twice: Database) -> None:
    for path in ("b", "auth/login.ts"):
        with pytest.raises(NotFound, match="of port/quay"):
            history(twice, path, project="quay")


# What was said on its lines

WHY = discussion("why", placed(10, "Why?", "login.ts", 4, author_username="zoe"), placed(11, "So.", "login.ts", 4))
NIT = discussion("nit", placed(20, "Nit.", "src/auth/login.ts", 9, resolved=True))
MOVED = discussion(
    "moved", placed(30, "Here?", "src/login.ts", None, position_old_path="login.ts", position_old_line=7)
)
ELSEWHERE = discussion("elsewhere", placed(40, "Other.", "b", 1))
PLAIN = discussion("plain", note(50, "src/login.ts looks good"))


@pytest.fixture
def discussed(filled: Database, harbour: ProjectRow) -> Database:
    attach(filled, harbour, "merge_requests", 1, DISCUSSIONS, WHY)
    attach(filled, harbour, "merge_requests", 2, DISCUSSIONS, MOVED, ELSEWHERE, PLAIN)
    attach(filled, harbour, "merge_requests", 5, DISCUSSIONS, NIT)
    return filled


def test_discussions_on_any_name_of_the_file_are_listed_with_their_first_note(discussed: Database) -> None:
    found = history(discussed, "src/login.ts", discussions=True)
    assert [(each.id, each.iid, each.path, each.line) for each in found.threads] == [
        ("moved", 2, "src/login.ts", 7),
        ("nit", 5, "src/auth/login.ts", 9),
        ("why", 1, "login.ts", 4),
    ]
    assert [(each.author, each.body, each.notes) for each in found.threads] == [
        ("mira", "Here?", 1), ("mira", "Nit.", 1), ("zoe", "Why?", 2),
    ]  # fmt: skip
    assert [each.resolved for each in found.threads] == [0, 1, 0]
    assert found.threads_total == 3


def test_discussions_are_filtered_like_the_merge_requests(discussed: Database) -> None:
    assert history(discussed, "src/login.ts").threads == []
    merged = history(discussed, "src/login.ts", discussions=True, merged=True)
    assert [each.id for each in merged.threads] == ["moved", "why"]
    alone = history(discussed, "src/auth/login.ts", discussions=True, follow=False)
    assert [each.id for each in alone.threads] == ["nit"]
    few = history(discussed, "src/login.ts", discussions=True, limit=1)
    assert ([each.id for each in few.threads], few.threads_total) == (["moved"], 3)


def test_discussions_of_other_projects_or_deleted_merge_requests_are_not_listed(
    discussed: Database, harbour: ProjectRow
) -> None:
    quay = add_project(discussed, 2, "port/quay")
    add(discussed, quay, 9, file_change("login.ts", "login.ts"))
    attach(discussed, quay, "merge_requests", 9, DISCUSSIONS, discussion("far", placed(60, "Far.", "login.ts", 1)))
    keep(discussed, harbour, MERGE_REQUESTS, [], gone=[5])
    found = history(discussed, "src/login.ts", discussions=True)
    assert [each.id for each in found.threads] == ["moved", "why"]


# What it costs


class Listening:
    """A database that keeps what it was asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.asked: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def read(self, sql: str, params: Any = None) -> Any:
        self.asked.append((sql, params))
        return self._database.read(sql, params)


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("path", ["src/login.ts", "auth/login.ts"])
def test_every_file_history_query_uses_an_index(discussed: Database, path: str) -> None:
    listening: Any = Listening(discussed)
    read_file_history(listening, FileQuestion(path=path, discussions=True))
    plans = [
        (sql, [row[3] for row in discussed.read(f"EXPLAIN QUERY PLAN {sql}", params)])
        for sql, params in listening.asked
        if "mr_file_changes" in sql or "notes" in sql
    ]
    assert plans
    for sql, plan in plans:
        steps = " / ".join(plan)
        is_pass = "substr" in sql
        for table in ("SCAN m", "SCAN d", "SCAN n ", "SCAN f"):
            # An ending is looked for in the indexes alone.
            allowed = [step for step in plan if is_pass and "COVERING INDEX" in step]
            assert [step for step in plan if step.startswith(table) and step not in allowed] == [], steps
        if "position_new_path =" in sql:
            assert "idx_notes_new_path_line" in steps
        if "position_old_path =" in sql:
            assert "idx_notes_old_path_line" in steps
        if not is_pass and "mr_file_changes" in sql:
            assert "idx_mr_file_changes_new_path" in steps
            assert "idx_mr_file_changes_old_path" in steps
