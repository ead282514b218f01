"""Action tokens: one intent, one mark."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from msgspec.structs import replace

from tidelore.errors import UserError
from tidelore.feedback.tokens import LONGEST_COMMENT, Intent, action_token, find_markers, marker, with_marker

INTENT = Intent("github", "harbor/cranes", "pr", 12, None, "reply", "Done: renamed, é and 𝄞.")
TOKEN = action_token(INTENT)


def test_a_token_is_the_hash_of_the_canonical_intent() -> None:
    meant = {name: getattr(INTENT, name) for name in INTENT.__struct_fields__}
    canonical = json.dumps(meant, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert sha256(canonical).hexdigest() == TOKEN


@pytest.mark.parametrize(
    "change",
    [
        {"host": "work"},
        {"repo": "harbor/tides"},
        {"scope_kind": "issue"},
        {"scope_number": 13},
        {"reply_to": 501},
        {"source": "comment"},
        {"key": "Done"},
    ],
)
def test_every_part_of_an_intent_makes_another_token(change: dict[str, object]) -> None:
    assert action_token(replace(INTENT, **change)) != TOKEN


def test_the_case_of_a_repository_makes_no_other_token() -> None:
    assert action_token(replace(INTENT, repo="Harbor/Cranes")) == TOKEN


def test_a_marked_body_is_found_again_and_begins_as_it_was_written() -> None:
    marked = with_marker("Done.\n", TOKEN)
    assert marked == f"Done.\n\n<!-- lore-action:{TOKEN} -->"
    assert find_markers(marked) == (TOKEN,)


def test_a_quoted_marker_and_several_are_found_once_each_in_their_order() -> None:
    other = "0" * 64
    assert find_markers(f"> {marker(other)}\r\n{marker(TOKEN)}{marker(other)}") == (other, TOKEN)


@pytest.mark.parametrize(
    "body",
    [
        f"<!-- lore-action:{TOKEN[:-1]} -->",
        f"<!-- lore-action:{TOKEN}0 -->",
        f"<!-- lore-action:{TOKEN.upper()} -->",
        f"<!--lore-action:{TOKEN}-->",
        f"lore-action:{TOKEN}",
        "",
    ],
)
def test_what_only_looks_like_a_marker_is_none(body: str) -> None:
    assert find_markers(body) == ()


def test_a_body_with_a_marker_is_refused() -> None:
    with pytest.raises(UserError, match="already contains an action marker"):
        with_marker(f"Done. {marker('0' * 64)}", TOKEN)


@pytest.mark.parametrize("body", ["", " \n\t "])
def test_an_empty_body_is_refused(body: str) -> None:
    with pytest.raises(UserError, match="comment is empty"):
        with_marker(body, TOKEN)


def test_the_longest_body_fits_with_its_marker_and_one_letter_more_is_refused_with_the_limit() -> None:
    longest = LONGEST_COMMENT - len("\n\n") - len(marker(TOKEN))
    assert len(with_marker("x" * longest, TOKEN)) == LONGEST_COMMENT
    with pytest.raises(UserError) as refused:
        with_marker("x" * (longest + 1), TOKEN)
    assert refused.value.details["longest"] == longest


def test_a_megabyte_of_openings_is_searched_in_no_time() -> None:
    assert find_markers("<!-- lore-action:" * 60_000) == ()
