"""The short and the full form of answers, untrusted fields, and token budgets."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from tidelore.app.answers import ChosenFields, Instant, answer_tokens, fitting, means, robot_form
from tidelore.core.text import estimate_tokens, excerpt


class Note(Struct):
    body: Annotated[str, means("its text", untrusted=True)]
    head: Annotated[str | None, means("a commit", sha=True)] = None
    labels: Annotated[tuple[str, ...], means("labels", untrusted=True)] = ()


class Page(Struct):
    items: list[Note]
    next: str | None = None
    named: dict[str, Note] | None = None
    at: Instant | None = None
    missing: int | UnsetType = UNSET
    flag: bool = False


def test_the_short_form_leaves_out_nulls_empty_lists_and_shas_and_keeps_false_and_the_fields_of_a_list() -> None:
    page = Page([Note("hello", "a" * 40), Note("", None)], at=Instant(0))
    assert robot_form(page).value == {
        "items": [{"body": "hello"}, {"body": ""}],
        "next": None,
        "at": "1970-01-01T00:00:00.000Z",
        "flag": False,
    }
    full = robot_form(page, full=True).value
    assert full["items"][0] == {"body": "hello", "head": "a" * 40, "labels": []}
    assert full["named"] is None
    assert "missing" not in full


def test_untrusted_fields_are_named_by_their_path_where_they_hold_something() -> None:
    assert robot_form(Page([Note("", None)])).untrusted == []
    page = Page([Note("x"), Note("y", labels=("bug",))], named={"a": Note("z")})
    assert robot_form(page).untrusted == ["items[].body", "items[].labels[]", "named.*.body"]
    chosen = {"items": [ChosenFields(Note, {"body": "x"})], "total": 1}
    assert robot_form(chosen).untrusted == ["items[].body"]


def test_invisible_characters_are_removed_from_every_text_and_key_value() -> None:
    value = robot_form({"a": ["x\u202ey\U000e0041\x07", Note("\x1b[31mred\u200b")]}).value
    assert value == {"a": ["xy", {"body": "red"}]}


def test_items_are_kept_up_to_the_budget_and_never_fewer_than_one() -> None:
    notes = [Note("word " * 40) for _ in range(10)]
    size = answer_tokens(notes[0]) + 1
    assert fitting(notes, None) == 10
    assert fitting(notes, 110 + 3 * size) == 3
    assert fitting(notes, 110 + 3 * size, besides=1) == 2
    assert fitting(notes, 1) == 1
    assert fitting([], 1) == 0


def test_tokens_are_estimated_by_four_ascii_characters_or_one_other() -> None:
    assert [estimate_tokens(text) for text in ("", "abcd", "abcde", "港湾", "ab港")] == [0, 1, 2, 2, 2]


def test_an_excerpt_of_our_own_reply_does_not_show_its_mark() -> None:
    mark = f"<!-- lore-action:{'0a' * 32} -->"
    assert excerpt(f"Done.\n\n{mark}", 100) == ("Done.", False)
    assert excerpt("<!-- lore-action:other -->", 100) == ("<!-- lore-action:other -->", False)


def test_an_excerpt_is_cut_between_words_and_says_so() -> None:
    assert excerpt("  whole\u200b text ", 20) == ("whole text", False)
    assert excerpt("one two three four", 12) == ("one two…", True)
    assert excerpt("x" * 30, 10) == ("x" * 9 + "…", True)
