"""`lore list`: what people see, what programs get, and what is refused."""

from __future__ import annotations

import pytest
from tests.databases.talk import DISCUSSIONS, attach, discussion, note, placed
from tests.faces.desk import CONSOLE, LEDGER, Desk

from tidelore.cli.main import main
from tidelore.core.errors import UserError
from tidelore.core.references import parse_since
from tidelore.core.text import width
from tidelore.store.mirror.projects import match_project

NOW = 1_772_442_000_000


@pytest.fixture
def filled(desk: Desk) -> Desk:
    desk.ingested()
    desk.ingested("merge_requests")
    return desk


def test_a_list_shows_the_total_and_the_projects(filled: Desk) -> None:
    lines = filled.terminal("list", "mrs", "-n", "2").out.splitlines()
    total = filled.robot("count", "mrs").data["mrs"]["total"]
    assert lines[0] == f"Merge Requests (showing 2 of {total})"
    assert lines[1].split()[-1] == "UPDATED"
    assert len(lines) == 4
    everything = filled.run("list", "issues").out
    assert LEDGER in everything
    assert CONSOLE in everything
    assert LEDGER not in filled.terminal("list", "issues", "-p", "ledger").out


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_rows_of_a_list_fit_the_terminal_and_titles_are_cut_first(filled: Desk, columns: int) -> None:
    filled.query("UPDATE issues SET title = '港湾の船 👩‍🚀 cafe\u0301 ' || title || ' \x1b[31m' || title")
    out = filled.terminal("list", "issues", columns=columns).out
    rows = out.splitlines()[2:]
    assert len(rows) == 7
    assert max(width(row) for row in rows) <= columns
    assert "\x1b" not in out
    if columns >= 80:
        assert all("…" in row and row.endswith(" ago") for row in rows)


def test_a_list_in_a_pipe_has_complete_cells_separated_by_tabs_and_no_headings(filled: Desk) -> None:
    title = "港湾 " * 60 + "end"
    filled.query(f"UPDATE issues SET title = '{title}'")
    items = filled.robot("list", "issues").data["items"]
    rows = [line.split("\t") for line in filled.run("list", "issues").out.splitlines()]
    assert [row[:3] for row in rows] == [[item["project"], f"#{item['iid']}", title] for item in items]
    assert [row[-1] for row in rows] == [item["updated_at"] for item in items]


def test_a_draft_is_marked_once(filled: Desk) -> None:
    with filled.world.lock:
        filled.world.gitlab.edit_merge_request(LEDGER, 1, title="Draft: detach old partitions")
    filled.ingested("merge_requests")
    out = filled.run("list", "mrs", "--draft").out
    assert "[DRAFT] detach old partitions" in out
    assert "Draft:" not in out
    assert "detach old partitions" not in filled.run("list", "mrs", "--no-draft").out


def test_the_next_page_of_a_list_continues_after_the_last_one(filled: Desk) -> None:
    whole = [(item["project"], item["iid"]) for item in filled.robot("list", "issues").data["items"]]
    seen, token = [], None
    while True:
        after: list[str] = ["--after", token] if token else []
        page = filled.robot("list", "issues", "-n", "3", *after).data
        seen += [(item["project"], item["iid"]) for item in page["items"]]
        token = page["next"]
        if token is None:
            break
    assert seen == whole
    assert page["total"] == len(whole)


def test_list_prints_only_the_requested_fields(filled: Desk) -> None:
    page = filled.robot("list", "mrs", "--fields", "iid, title").data
    assert all(set(item) == {"iid", "title"} for item in page["items"])
    assert filled.run("list", "mrs", "--json", "-n", "1").data["total"] > 1


def test_issues_can_be_filtered_by_status(filled: Desk) -> None:
    filled.query("UPDATE issues SET status_name = 'Lashed down' WHERE iid = 2")
    page = filled.robot("list", "issues", "--status", "Lashed down").data
    assert [(item["iid"], item["status"]) for item in page["items"]] == [(2, "Lashed down"), (2, "Lashed down")]
    assert filled.run("list", "issues", "--status", "Adrift").out == "Issues: no matches\n"


def test_robot_lists_include_discussion_counts(filled: Desk) -> None:
    database = filled.store()
    try:
        ledger = match_project(database, LEDGER)
        asked = discussion("a" * 40, placed(9_001, "Why?", "a.py", 3), note(9_002, "Because."))
        written = discussion("b" * 40, note(9_003, "approved this", is_system=True))
        attach(database, ledger, "merge_requests", 1, DISCUSSIONS, asked, written)
    finally:
        database.close()
    for argv in ([], ["--fields", "discussions,unresolved"]):
        item = filled.robot("list", "mrs", "-p", LEDGER, *argv).data["items"][0]
        assert (item["discussions"], item["unresolved"]) == (1, 1)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["mrs", "--fields", "colour"], 2, "colour"),
        (["mrs", "--after", "nonsense"], 2, "data.next"),
        (["issues", "--since", "yesterday"], 2, "7d"),
        (["issues", "--state", "merged"], 2, "merged"),
        (["issues", "-p", "nowhere"], 6, "nowhere"),
        (["issues", "--author", "nobody", "--open"], 6, "wider filter"),
    ],
)
def test_invalid_list_arguments_are_refused_with_a_fix(filled: Desk, argv: list[str], code: int, said: str) -> None:
    done = filled.robot("list", *argv)
    assert done.code == code
    assert said in f"{done.error['message']} {done.error['fix']}"


def test_a_list_without_matches_succeeds(filled: Desk) -> None:
    done = filled.run("list", "issues", "--author", "nobody")
    assert (done.code, done.out) == (0, "Issues: no matches\n")


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("30m", NOW - 30 * 60_000),
        ("12h", NOW - 12 * 3_600_000),
        ("7d", NOW - 7 * 86_400_000),
        ("2w", NOW - 14 * 86_400_000),
        ("2026-03-01", 1_772_323_200_000),
        ("2026-03-01T01:00:00+01:00", 1_772_323_200_000),
        ("999999w", 0),
    ],
)
def test_since_takes_durations_dates_and_timestamps(text: str, instant: int) -> None:
    assert parse_since(text, NOW) == instant


@pytest.mark.parametrize("text", ["", "7", "7 d", "2026-13-01", "-3d", "tomorrow", "2026-03-01T00:00:00"])
def test_an_invalid_since_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(UserError, match="invalid value for --since"):
        parse_since(text, NOW)


def test_an_option_without_its_value_points_to_the_help_of_its_command(desk: Desk) -> None:
    assert main(["list", "mrs", "--label"]) == 2
    assert desk.read()[1].endswith("see `lore list mrs --help`\n")
