"""`lore search`: what people see, what programs get within their budget, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.text import estimate_tokens, width
from tidelore.search.results import ThreadResult


@pytest.fixture
def filled(desk: Desk) -> Desk:
    """A copy whose documents are made, with a decision buried in a thread."""
    forge = desk.world.gitlab
    with desk.world.lock:
        forge.edit_issue(LEDGER, 2, title="Quokka exports lag", description="The zanzibar feed is slow. " * 3)
        forge.edit_issue(LEDGER, 3, title="Nightly numbat", description="Nothing about feeds.", labels=["needs review"])
        forge.add_note(forge.issue(LEDGER, 3), body="We decided to drop zanzibar in `feeds/drop_old.py`.")
        forge.add_note(forge.issue(LEDGER, 3), body="Zanzibar again.")
    desk.ingested()
    desk.ingested("merge_requests")
    assert desk.run("generate-docs").code == 0
    return desk


def found(desk: Desk, *argv: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = desk.robot("search", *argv).data["items"]
    return items


def test_a_word_in_a_thread_is_found_with_its_hits_marked(filled: Desk) -> None:
    item = found(filled, "decided to drop", "zanzibar")[0]
    assert item["reference"] == f"{LEDGER}#3"
    assert (item["type"], item["found_in"], item["title"]) == ("issue", "discussion", "Nightly numbat")
    assert [item["snippet"][start:end] for start, end in item["highlights"]] == [
        "decided", "drop", "zanzibar", "drop",
    ]  # fmt: skip
    assert "#note_" in item["web_url"]
    assert item["further"] >= 1


def test_search_prints_thread_snippet_and_position(filled: Desk) -> None:
    done = filled.run("search", "decided", "drop", "-n", "1", "--mode", "lexical")
    lines = done.out.splitlines()
    assert done.err == ""
    assert lines[0] == f"{LEDGER}#3  Nightly numbat"
    assert "We decided to drop zanzibar" in lines[1]
    assert lines[2].startswith("  opened, ")


def test_no_search_result_line_but_a_url_is_wider_than_the_terminal(filled: Desk) -> None:
    for columns in (30, 60, 100):
        out = filled.terminal("search", "zanzibar", "feed", "--explain", columns=columns).out
        assert "zanzibar" in out
        lines = [line for line in out.splitlines() if not line.startswith("  http")]
        assert max(width(line) for line in lines) <= columns


def test_the_address_of_a_result_is_printed_whole_however_narrow_the_terminal(filled: Desk) -> None:
    addresses = [item["web_url"] for item in found(filled, "zanzibar")]
    assert addresses
    for columns in (20, 40, 80, 120):
        lines = filled.terminal("search", "zanzibar", columns=columns).out.splitlines()
        assert [line.split()[-1] for line in lines if "http" in line] == addresses


def test_results_in_a_pipe_are_complete_whatever_width_the_shell_exports(
    filled: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    title = "A very long title about zanzibar " * 5 + "end"
    filled.query(f"UPDATE issues SET title = '{title}'; UPDATE documents SET title = '{title}'")
    monkeypatch.setenv("COLUMNS", "40")
    out = filled.run("search", "zanzibar", "--mode", "lexical").out
    assert title in out
    assert "…" not in out.splitlines()[0]
    assert all(item["web_url"] in out for item in found(filled, "zanzibar"))
    assert title in filled.run("list", "issues").out


def test_hits_are_bold_on_a_terminal_and_remote_escapes_are_removed(
    filled: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.query(
        "UPDATE documents SET title = 'Red \x1b[31malert\x07', content = 'A \x1b]0;owned\x07 zanzibar \x1b[2Jhere'"
        " WHERE content LIKE '%drop zanzibar%'"
    )
    monkeypatch.setattr("tidelore.cli.output.render._color", lambda _choices: True)
    out = filled.run("search", "zanzibar", "alert").out
    assert "\x1b[1mzanzibar\x1b[0m" in out
    for sequence in ("\x1b[31m", "\x07", "\x1b]0;", "\x1b[2J"):
        assert sequence not in out


def test_query_fields_work_like_the_options(filled: Desk) -> None:
    for option, field in (
        (["--type", "mr"], "type:mr"),
        (["-p", "ledger"], "project:ledger"),
        (["--state", "closed"], "state:closed"),
        (["--path", "drop_old"], "path:drop_old"),
        (["--since", "2026-01-01"], "since:2026-01-01"),
    ):
        by_option = [item["reference"] for item in found(filled, *option)]
        assert by_option == [item["reference"] for item in found(filled, field)]
        assert by_option
    assert {item["type"] for item in found(filled, "type:mr")} == {"mr"}
    assert [item["reference"] for item in found(filled, "--path", "drop_old")] == [f"{LEDGER}#3"]


def test_the_author_filter_finds_threads_by_their_author(filled: Desk) -> None:
    rows = filled.query("SELECT author_username FROM issues WHERE title = 'Quokka exports lag'")
    author = rows[0][0]
    assert f"{LEDGER}#2" in [item["reference"] for item in found(filled, "quokka", "--author", author)]
    assert found(filled, "quokka", f"author:{author}x") == []


def test_several_label_filters_must_all_match(filled: Desk) -> None:
    for argv in (["--label", "needs review"], ['label:"needs review"'], ["zanzibar", "--label", "needs review"]):
        assert [(item["reference"], item["labels"]) for item in found(filled, *argv)] == [
            (f"{LEDGER}#3", ["needs review"])
        ]
    assert found(filled, "--label", "needs review", "--label", "review") == []


def test_an_identifier_is_found_by_a_part_of_it(filled: Desk) -> None:
    assert found(filled, "feeds/drop_o")[0]["reference"] == f"{LEDGER}#3"


def test_the_next_page_of_a_search_continues_after_the_last_one(filled: Desk) -> None:
    whole = [item["reference"] for item in found(filled, "state:opened", "-n", "100")]
    seen: list[str] = []
    token = None
    while True:
        page = filled.robot("search", "state:opened", "-n", "2", *(["--after", token] if token else [])).data
        seen += [item["reference"] for item in page["items"]]
        token = page["next"]
        assert page["total"] == len(whole)
        if token is None:
            break
    assert seen == whole
    assert len(seen) == len(set(seen)) > 4


def test_a_search_result_respects_its_token_budget_and_reports_omissions(filled: Desk) -> None:
    whole = filled.robot("search", "the", "-n", "100")
    assert whole.data["truncated"] is False
    references = [item["reference"] for item in whole.data["items"]]
    for budget in (300, 600, 1_200):
        done = filled.run("search", "the", "-n", "100", "--max-tokens", str(budget), "--robot")
        assert estimate_tokens(done.out) <= budget
        page = done.data
        assert page["truncated"] is True
        shown = [item["reference"] for item in page["items"]]
        assert shown == references[: len(shown)]
        rest = filled.robot("search", "the", "-n", "100", "--after", page["next"]).data
        assert [item["reference"] for item in rest["items"]] == references[len(shown) :]
    everything = filled.robot("search", "the", "-n", "100", "--max-tokens", "100000").data
    assert everything["truncated"] is False
    assert everything["next"] is None


def test_the_smallest_token_budget_returns_one_result_and_a_next_page(filled: Desk) -> None:
    page = filled.robot("search", "zanzibar", "--max-tokens", "256").data
    assert len(page["items"]) == 1
    assert page["next"]


def test_search_prints_only_the_requested_fields(filled: Desk) -> None:
    page = filled.run("search", "zanzibar", "--json", "--fields", "reference, score").data
    assert all(set(item) == {"reference", "score"} for item in page["items"])
    assert set(found(filled, "zanzibar")[0]) == (set(ThreadResult.__struct_fields__) - {"document_id"}) | {"new"}


def test_the_explain_option_shows_how_results_were_ranked(filled: Desk) -> None:
    data = filled.robot("search", "zanzibar", "zeppelin", "--explain").data
    assert {entry["text"]: entry["documents"] > 0 for entry in data["explain"]["terms"]} == {
        "zanzibar": True,
        "zeppelin": False,
    }
    assert data["items"][0]["ranks"] == {"lexical": 1}
    assert "zanzibar: " in filled.run("search", "zanzibar", "--explain").out


def test_without_vectors_a_search_is_lexical_with_one_notice(filled: Desk) -> None:
    done = filled.run("search", "zanzibar")
    assert done.err.count("note:") == 1
    assert "lore embed" in done.err
    data = filled.robot("search", "zanzibar").data
    assert data["mode"] == "lexical"
    assert "lore embed" in data["notice"]
    assert filled.run("search", "zanzibar", "--quiet").err == ""
    assert filled.robot("search", "zanzibar", "--mode", "lexical").data["notice"] is None


def test_documents_not_yet_searchable_are_reported(filled: Desk) -> None:
    filled.world.advance(60)
    with filled.world.lock:
        filled.world.gitlab.edit_issue(CONSOLE, 1, title="Wombat")
    filled.ingested()
    done = filled.robot("search", "wombat", "--mode", "lexical")
    assert done.data["items"] == []
    assert "generate-docs" in done.data["notice"]
    assert filled.run("generate-docs").code == 0
    assert [item["title"] for item in found(filled, "wombat")] == ["Wombat"]


def test_search_reports_the_age_of_the_copy(filled: Desk) -> None:
    assert filled.robot("search", "zanzibar").document["meta"]["synced_at"]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 2, "query is empty"),
        (["..."], 2, "query is empty"),
        (["x", "--mode", "semantic"], 2, "lore embed"),
        (["x", "--fields", "colour"], 2, "colour"),
        (["x", "--after", "nonsense"], 2, "data.next"),
        (["x", "--after", "3-00000000"], 2, "different query"),
        (["x", "type:banana"], 2, "banana"),
        (["x", "since:yesterday"], 2, "7d"),
        (["x", "since:yesterday"], 2, "invalid value for since: 'yesterday'"),
        (["x", "--since", "yesterday"], 2, "invalid value for --since: 'yesterday'"),
        (["x", "author:a", "--author", "b"], 2, "given twice"),
        (["x", "-p", "nowhere"], 6, "nowhere"),
        (["zeppelin", "--open"], 6, "no item to open"),
    ],
)
def test_invalid_search_arguments_are_refused_with_a_fix(filled: Desk, argv: list[str], code: int, said: str) -> None:
    done = filled.robot("search", *argv)
    assert done.code == code
    assert said in f"{done.error['message']} {done.error['fix']}"


def test_a_search_without_matches_succeeds(filled: Desk) -> None:
    done = filled.run("search", "zeppelin", "--mode", "lexical")
    assert (done.code, done.out) == (0, "No matches.\n")


def test_a_query_with_invalid_utf_8_bytes_does_not_crash(filled: Desk) -> None:
    done = filled.spawn("search", "zanzibar \udcff \x01 \" OR ( -'", "--robot", "--mode", "lexical")
    assert done.code == 0
    assert json.loads(done.out)["data"]["items"]


def test_search_answers_with_the_documented_fields(filled: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelore.search.lexical.GATE_ROOM", 1)
    answers = [filled.robot("search", "needs", "review", "zanzibar", *more).data for more in ([], ["--explain"])]
    compare("search", *answers)


def test_an_unknown_field_is_named_with_the_known_ones(filled: Desk) -> None:
    data = filled.robot("search", "zanzibar foo:bar", "--mode", "lexical").data
    assert data["items"], "its words are searched all the same"
    assert "unknown filter foo:" in data["notice"]
    assert all(f"{name}:" in data["notice"] for name in ("author", "label", "since"))
    assert "unknown filter foo:" in filled.run("search", "zanzibar foo:bar").err
    assert filled.robot("search", "zanzibar label:bug std::x", "--mode", "lexical").data["notice"] is None


def test_a_mistyped_word_is_corrected_and_the_answer_says_so(filled: Desk) -> None:
    answer = filled.robot("search", "zanzibra", "--mode", "lexical").data
    assert answer["corrections"] == [{"written": "zanzibra", "used": "zanzibar"}]
    assert answer["items"]
    done = filled.run("search", "zanzibra", "--mode", "lexical")
    assert done.err.startswith("note: no document contains 'zanzibra'; searched for 'zanzibar' instead")
    exact = filled.robot("search", '"zanzibra"', "--mode", "lexical").data
    assert (exact["corrections"], exact["items"], exact["total"]) == ([], [], 0)
