"""The short and the full form of answers, untrusted fields, and token budgets."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Annotated, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

import tidelore.app
from tidelore.app.answers import (
    ChosenFields,
    Instant,
    answer_tokens,
    copy_fields,
    fitting,
    flag,
    instant,
    means,
    robot_form,
)
from tidelore.app.answers import _conversions as conversions
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


class Stored(Struct):
    seen_at: Annotated[Instant, means("when")]
    is_open: Annotated[bool, means("an open one, or not")]
    is_draft: bool | None = None


class Row(Struct):
    seen_at: int = 5
    is_open: int = 1
    is_draft: int | None = None


def test_copied_instants_and_flags_are_converted() -> None:
    assert copy_fields(Stored, Row()) == Stored(Instant(5), True)
    assert copy_fields(Stored, Row(is_draft=0)).is_draft is False


def test_the_written_annotations_of_all_answers_say_what_the_evaluated_ones_do() -> None:
    shapes = set()
    for module in pkgutil.walk_packages(tidelore.app.__path__, "tidelore.app."):
        found = vars(importlib.import_module(module.name)).values()
        shapes |= {one for one in found if isinstance(one, type) and issubclass(one, Struct) and one is not Struct}
    assert len(shapes) > 100
    for shape in shapes:
        try:
            fields = msgspec.structs.fields(shape)
        except NameError:
            # It names types that only type checkers import; answers do not.
            continue
        expected: dict[str, object] = {}
        for field in fields:
            plain = get_args(field.type)[0] if hasattr(field.type, "__metadata__") else field.type
            if field.name.endswith("_at"):
                expected[field.name] = instant
            elif plain in (bool, bool | None):
                expected[field.name] = bool if plain is bool else flag
        assert dict(conversions(shape)) == expected, shape
