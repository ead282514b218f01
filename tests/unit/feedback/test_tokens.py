"""Action tokens: one intent, one mark."""

from __future__ import annotations

import hmac
import json

import pytest
from msgspec.structs import replace

from tidelore.core.errors import UserError
from tidelore.feedback.tokens import LONGEST_COMMENT, Intent, action_token, find_markers, marker, with_marker

INTENT = Intent("github", 2_200_000_003, "pr", 12, None, "reply", "Done: renamed, é and 𝄞.")
SECRET = b"the secret of a copy in the tests"
TOKEN = action_token(INTENT, SECRET)


def test_a_token_is_the_signature_of_the_canonical_intent_with_the_database_secret() -> None:
    meant = {name: getattr(INTENT, name) for name in INTENT.__struct_fields__}
    canonical = json.dumps(meant, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert hmac.new(SECRET, canonical, "sha256").hexdigest() == TOKEN
    assert action_token(INTENT, b"the secret of another copy") != TOKEN


def test_signing_without_a_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="secret"):
        action_token(INTENT, b"")


@pytest.mark.parametrize(
    "change",
    [
        {"host": "work"},
        {"repo_id": 2_200_000_004},
        {"scope_kind": "issue"},
        {"scope_number": 13},
        {"reply_to": 501},
        {"source": "comment"},
        {"key": "Done"},
    ],
)
def test_changing_any_part_of_an_intent_changes_the_token(change: dict[str, object]) -> None:
    assert action_token(replace(INTENT, **change), SECRET) != TOKEN


def test_a_marker_is_found_in_a_marked_body_that_keeps_its_beginning() -> None:
    marked = with_marker("Done.\n", TOKEN)
    assert marked == f"Done.\n\n<!-- lore-action:{TOKEN} -->"
    assert find_markers(marked) == (TOKEN,)


def test_several_and_quoted_markers_are_found_once_each_in_order() -> None:
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
def test_malformed_markers_are_not_found(body: str) -> None:
    assert find_markers(body) == ()


def test_a_body_with_a_marker_is_refused() -> None:
    with pytest.raises(UserError, match="already contains an action marker"):
        with_marker(f"Done. {marker('0' * 64)}", TOKEN)


@pytest.mark.parametrize("body", ["", " \n\t "])
def test_an_empty_body_is_refused(body: str) -> None:
    with pytest.raises(UserError, match="comment is empty"):
        with_marker(body, TOKEN)


def test_the_longest_body_fits_with_its_marker_and_one_more_character_is_refused() -> None:
    longest = LONGEST_COMMENT - len("\n\n") - len(marker(TOKEN))
    assert len(with_marker("x" * longest, TOKEN)) == LONGEST_COMMENT
    with pytest.raises(UserError) as refused:
        with_marker("x" * (longest + 1), TOKEN)
    assert refused.value.details["longest"] == longest


def test_searching_a_megabyte_of_marker_openings_is_fast() -> None:
    assert find_markers("<!-- lore-action:" * 60_000) == ()
