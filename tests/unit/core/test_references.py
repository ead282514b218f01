"""References as people write and paste them."""

from __future__ import annotations

import pytest

from tidelore.core.errors import UserError
from tidelore.core.references import Kind, Reference, other_kind, parse_reference, parse_topic_reference

HOST = "https://forge.test"


@pytest.mark.parametrize(
    ("text", "kind", "meant"),
    [
        ("12", "mr", Reference(12)),
        (" 12 ", "issue", Reference(12)),
        ("!12", "mr", Reference(12)),
        ("#12", "issue", Reference(12, is_hashed=True)),
        ("#12", "mr", Reference(12, is_hashed=True)),
        ("ledger!12", "mr", Reference(12, "ledger")),
        ("group/sub.group/pro-ject#12", "issue", Reference(12, "group/sub.group/pro-ject", is_hashed=True)),
        ("group/project!12", "mr", Reference(12, "group/project")),
    ],
)
def test_a_number_a_hash_and_a_project_reference_are_parsed(text: str, kind: Kind, meant: Reference) -> None:
    assert parse_reference(text, kind) == meant


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("/-/issues/12", "issue"),
        ("/-/issues/12/", "issue"),
        ("/-/issues/incident/12", "issue"),
        ("/-/work_items/12", "issue"),
        ("/issues/12#issuecomment-7", "issue"),
        ("/-/merge_requests/12", "mr"),
        ("/-/merge_requests/12#note_5", "mr"),
        ("/-/merge_requests/12/diffs?view=inline&w=1#note_5", "mr"),
        ("/merge_requests/12", "mr"),
        ("/pull/12", "mr"),
        ("/pull/12/files", "mr"),
        ("/pull/12?diff=split", "mr"),
    ],
)
def test_a_web_address_is_parsed_to_project_and_number(page: str, kind: Kind) -> None:
    place = f"{HOST}:8443/group/sub/project"
    assert parse_reference(place + page, kind) == Reference(12, "group/sub/project", place)


@pytest.mark.parametrize("path", ["group/issues", "pull/merge_requests", "group/issues/7"])
def test_a_project_named_like_a_gitlab_page_is_parsed(path: str) -> None:
    assert parse_reference(f"{HOST}/{path}/-/issues/12", "issue").project == path


@pytest.mark.parametrize(
    ("text", "kind", "remedy"),
    [
        ("!12", "issue", "`lore show mr 12`"),
        (f"{HOST}/g/p/-/issues/12", "mr", f"`lore show issue '{HOST}/g/p/-/issues/12'`"),
        (f"{HOST}/g/p/-/work_items/12", "mr", f"`lore show issue '{HOST}/g/p/-/work_items/12'`"),
        (f"{HOST}/g/p/pull/12", "issue", f"`lore show mr '{HOST}/g/p/pull/12'`"),
    ],
)
def test_a_reference_to_the_other_kind_is_refused_with_the_right_command(text: str, kind: Kind, remedy: str) -> None:
    with pytest.raises(UserError, match="is not a") as refused:
        parse_reference(text, kind)
    assert refused.value.fix == f"use {remedy}"
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    ["", "!", "twelve", "-12", "12.0", "١٢", "&12", "g/p", "g/p@12", "g//p!1", "12 13", "9" * 19,
     HOST, f"{HOST}/g/p", f"{HOST}/g/p/-/issues", f"{HOST}/g/p/-/issues/x", f"{HOST}/-/issues/12",
     f"{HOST}/issues/12", f"{HOST}/g/p/-/commit/12", "ftp://forge.test/g/p/-/issues/12", "'; rm -rf'!1"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["issue", "mr"])
def test_an_invalid_reference_is_refused_with_the_valid_forms(text: str, kind: Kind) -> None:
    with pytest.raises(UserError, match="could not parse") as refused:
        parse_reference(text, kind)
    assert "group/project" in str(refused.value.fix)
    assert refused.value.details == {"reference": text}


def test_issues_and_merge_requests_are_the_only_reference_kinds() -> None:
    assert (other_kind("issue"), other_kind("mr")) == ("mr", "issue")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12", Reference(12)),
        ("#12", Reference(12, is_hashed=True)),
        ("octo/tide#12", Reference(12, "octo/tide", is_hashed=True)),
        (f"{HOST}/octo/tide/discussions/12", Reference(12, "octo/tide", f"{HOST}/octo/tide")),
        (f" {HOST}/octo/tide/discussions/12#discussioncomment-7", Reference(12, "octo/tide", f"{HOST}/octo/tide")),
        (f"{HOST}/octo/tide/discussions/12?sort=new", Reference(12, "octo/tide", f"{HOST}/octo/tide")),
    ],
)
def test_a_topic_is_named_by_number_project_or_address(text: str, meant: Reference) -> None:
    assert parse_topic_reference(text) == meant


@pytest.mark.parametrize("text", ["", "!12", "octo/tide!12", f"{HOST}/octo/tide/issues/12", f"{HOST}/discussions/x"])
def test_what_is_not_a_topic_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_topic_reference(text)
    assert "owner/repo#12" in (refused.value.fix or "")
