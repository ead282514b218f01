"""The text of a document: which words stand in it, in which order, and what it is found by."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from tidelore.documents.composition import (
    PART,
    compose_parent,
    compose_thread,
    identifiers,
    place_of,
    without_endless_words,
)
from tidelore.store.reading.documents import NoteSource, ParentSource, ThreadSource

AT = 1_700_000_000_000
PARENT = ParentSource(
    7, 1, "Retire months by detaching them", "Deleting takes **10 hours**.", "merged", "mira", "https://f/x/-/1", AT,
    AT + 9, ("database",), ("mira", "otto"), ("db/months.sql",),
)  # fmt: skip


def note(remote_id: int, body: str, **changes: Any) -> NoteSource:
    plain = NoteSource(remote_id, "otto", body, AT + remote_id, AT + remote_id, None, None, None, None, None, None)
    return replace(plain, **changes)


def test_a_parents_document_holds_its_description_and_its_people() -> None:
    made = compose_parent("merge_request", PARENT)
    assert (made.source_type, made.source_id, made.thread_type, made.thread_id) == (
        "merge_request", 7, "merge_request", 7,
    )  # fmt: skip
    assert made.content == "Deleting takes **10 hours**."
    assert made.participants == ("mira", "otto")
    assert (made.labels, made.paths, made.state) == (("database",), ("db/months.sql",), "merged")
    assert (made.created_at, made.updated_at, made.url) == (AT, AT + 9, "https://f/x/-/1")


def test_a_parent_without_description_or_author_still_gets_a_document() -> None:
    made = compose_parent("issue", replace(PARENT, description=None, author_username=None, people=()))
    assert (made.content, made.participants) == ("", ())


def test_the_mark_of_our_own_reply_is_not_part_of_its_document() -> None:
    reply = note(1, f"Done.\n\n<!-- lore-action:{'0a' * 32} -->")
    assert compose_thread(ThreadSource(3, "merge_request", PARENT, (reply,))).content == "@otto (2023-11-14): Done."


def test_a_thread_document_lists_notes_in_order_with_author_and_file_line() -> None:
    notes = (
        note(1, "Why a detach?", new_path="db/months.sql", old_path="db/months.sql", new_line=45),
        note(2, "It is free.", author_username=None),
    )
    made = compose_thread(ThreadSource(3, "merge_request", PARENT, notes))
    first, second = made.content.split(PART)
    assert first == "@otto (2023-11-14) [db/months.sql:45]: Why a detach?"
    assert second == "@unknown (2023-11-14): It is free."
    assert (made.source_type, made.source_id) == ("discussion", 3)
    assert (made.thread_type, made.thread_id, made.title) == ("merge_request", 7, PARENT.title)
    assert (made.author_username, made.participants, made.paths) == ("otto", ("otto",), ("db/months.sql",))
    assert made.url == "https://f/x/-/1#note_1"
    assert (made.created_at, made.updated_at) == (AT + 1, AT + 2)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ({}, None),
        ({"new_path": "a.py", "new_line": 4}, "a.py:4"),
        ({"old_path": "a.py", "old_line": 9}, "a.py:9"),
        ({"new_path": "b.py", "old_path": "a.py", "new_line": 48, "range_start": 45, "range_end": 48}, "b.py:45-48"),
        ({"new_path": "a.png"}, "a.png"),
        ({"new_path": "a.py", "new_line": 4, "range_start": 4, "range_end": 4}, "a.py:4"),
    ],
)
def test_the_position_of_a_diff_note_is_written_as_path_and_line(place: dict[str, Any], told: str | None) -> None:
    assert place_of(note(1, "x", **place)) == told


def test_paths_and_names_of_code_are_identifiers_and_plain_words_are_not() -> None:
    text = "See `src/auth/login.ts`, parse_instant(), HttpClient, fetchOne, std::move and INC-1254. Nothing else."
    assert identifiers((text,)) == (
        "src/auth/login.ts", "parse_instant", "HttpClient", "fetchOne", "std::move", "INC-1254",
    )  # fmt: skip
    assert identifiers(("same_name same_name",)) == ("same_name",)


@contextmanager
def processor_seconds(limit: float) -> Iterator[None]:
    """Fail when the block needs more processor time than this, whatever else the machine does."""

    def expired(_number: int, _frame: object) -> None:
        raise AssertionError(f"more than {limit:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, expired)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    "word",
    ["a" * 200_000, "3fA9" * 50_000, "aB" * 100_000, "a-" * 100_000, "a." * 100_000, "ab1_" * 50_000, "Aa1" * 70_000],
    ids=lambda word: word[:4],
)
def test_a_very_long_word_is_processed_in_linear_time(word: str) -> None:
    with processor_seconds(10):
        found = identifiers((f"{word} parse_instant",))
    assert found[-1] == "parse_instant"
    assert max(len(name) for name in found) <= 256


def test_a_text_of_many_long_words_is_processed_in_linear_time() -> None:
    with processor_seconds(10):
        identifiers((" ".join(["3fa9b" * 51] * 400),))


@pytest.mark.parametrize("word", ["0f" * 5_000, "Ab_" * 4_000, "~/" * 5_000, "a.b/c:d@e%20?f=g&h+i#j-" * 500])
def test_a_very_long_word_is_cut_and_the_text_around_it_is_kept(word: str) -> None:
    assert without_endless_words(f"before {word} after") == f"before {word[:512]}… after"


def test_words_of_usual_length_are_not_cut() -> None:
    text = "see https://example.org/" + "path/" * 90 + " and " + "長い文章。" * 300
    assert without_endless_words(text) == text


def test_long_words_are_cut_in_linear_time() -> None:
    with processor_seconds(10):
        without_endless_words(" ".join(["a_" * 255] * 4_000) + "b_" * 500_000)
