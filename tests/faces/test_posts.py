"""Posts at the command line: listed, shown, searched, counted, checked, and what of them is shared most."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.feeds import MIRA, NOOR, OTTO, follow, link, post, share, uri_of
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.clock import SystemClock

HOUR = 3_600_000
ARTICLE = "https://harbour.test/articles/lashing"
PAGE = f"https://bsky.app/profile/{MIRA}/post/a"


@pytest.fixture
def talk(desk: Desk) -> Desk:
    """Mira posts a link, Noor answers and quotes, Otto reposts; another post of Mira is deleted."""
    desk.ingested()
    now = SystemClock().now_ms()
    database = desk.store()
    try:
        follow(database, MIRA, NOOR, OTTO, now_ms=now)
        links = (link(ARTICLE, "How to lash"), link("https://b.test"))
        marks: dict[str, Any] = {
            "alt_text": ("A heron on\nthe pier",),
            "labels": ("graphic-media",),
            "tags": ("birds", "harbour"),
        }
        first = post(MIRA, "a", now - 5 * HOUR, links=links, **marks)
        uri = first.record.uri
        answer = post(NOOR, "b", now - 4 * HOUR, kind="reply", reply_parent=uri, reply_root=uri, text="Nor \x1b[31mus.")
        quote = post(NOOR, "q", now - 3 * HOUR, kind="quote", quoted_uri=uri, links=(link(ARTICLE),), text="Read this")
        again = post(OTTO, "r", now - 2 * HOUR, subject_uri=uri, text=first.record.text, links=first.record.links)
        share(database, first, answer, quote, again, post(MIRA, "d", now - 30 * HOUR, text="Gone"), now_ms=now)
        share(database, gone=[uri_of(MIRA, "d")], now_ms=now)
    finally:
        database.close()
    assert desk.run("generate-docs").code == 0
    return desk


def test_posts_are_listed_newest_first_and_can_be_filtered(talk: Desk) -> None:
    lines = talk.terminal("list", "posts").out.splitlines()
    assert lines[0] == "Posts (showing 4 of 4)"
    assert [line.split()[3] for line in lines[2:]] == ["repost", "quote", "reply", "post"]
    rows = [line.split("\t") for line in talk.run("list", "posts").out.splitlines()]
    assert [row[1] for row in rows] == ["repost", "quote", "reply", "post"]
    assert rows[-1][-1] == uri_of(MIRA, "a")
    assert "\x1b" not in talk.run("list", "posts").out

    def keys(*argv: str) -> list[str]:
        return [item["uri"].rpartition("/")[2] for item in talk.robot("list", "posts", *argv).data["items"]]

    assert keys("--author", "noor.test") == ["q", "b"]
    assert keys("--author", MIRA, "--kind", "post") == ["a"]
    assert keys("--since", "150m") == ["r"]
    assert keys("--deleted") == ["d"]
    page = talk.robot("list", "posts", "-n", "3").data
    assert keys("--after", page["next"]) == ["a"]
    assert talk.robot("list", "posts", "--fields", "kind", "-n", "1").data["items"] == [{"kind": "repost"}]
    assert talk.run("list", "posts", "--author", "nobody.test").out == "Posts: no matches\n"


@pytest.mark.parametrize("reference", [uri_of(MIRA, "a"), "at://mira.test/app.bsky.feed.post/a", PAGE, f"{PAGE}?ref=x"])
def test_a_post_is_shown_by_its_uri_or_web_address(talk: Desk, reference: str) -> None:
    shown = talk.robot("show", "post", reference).data
    assert (shown["uri"], shown["reposters"], shown["replies_total"]) == (uri_of(MIRA, "a"), ["otto.test"], 1)
    assert [found["url"] for found in shown["links"]] == ["https://b.test", ARTICLE]


def test_a_shown_post_includes_links_and_replies_without_terminal_escapes(talk: Desk) -> None:
    out = talk.run("show", "post", uri_of(MIRA, "a")).out
    for said in ("Post by @mira.test", "The tide turns at noon.", ARTICLE, "Replies (1):", "Nor us.", "@otto.test"):
        assert said in out
    assert "\x1b" not in out
    assert "[DELETED]" in talk.run("show", "post", uri_of(MIRA, "d")).out


def test_descriptions_of_images_labels_and_tags_are_shown_and_found(talk: Desk) -> None:
    page = talk.run("show", "post", uri_of(MIRA, "a")).out
    assert "A heron on the pier" in page
    assert "#birds #harbour" in page
    assert "graphic-media" in page
    shown = talk.robot("show", "post", uri_of(MIRA, "a")).data
    assert (shown["alt_text"], shown["labels"], shown["tags"]) == (
        ["A heron on the pier"], ["graphic-media"], ["birds", "harbour"],
    )  # fmt: skip
    for words in (["heron"], ["#birds"], ["graphic-media"], ["tide", "--label", "birds"]):
        found = talk.robot("search", *words, "--mode", "lexical").data["items"]
        assert any(item["author"] == "mira.test" for item in found), words


def test_posts_are_searched_with_issues_and_alone(talk: Desk) -> None:
    both = talk.robot("search", "tide", "--mode", "lexical").data["items"]
    assert uri_of(MIRA, "a") in {item["reference"] for item in both}
    only = talk.robot("search", "lash", "--type", "post", "--mode", "lexical").data["items"]
    assert {item["reference"] for item in only} == {uri_of(MIRA, "a"), uri_of(NOOR, "q")}
    assert {(item["type"], item["project"], item["iid"]) for item in only} == {("post", None, None)}
    assert uri_of(NOOR, "b") in talk.run("search", "type:post", "author:noor.test").out
    assert talk.robot("search", "gone", "--type", "post").data["items"] == []


def test_posts_are_counted_by_kind_and_belong_to_no_project(talk: Desk) -> None:
    counted = talk.robot("count", "posts").data["posts"]
    kinds = {"post": 1, "reply": 1, "quote": 1, "repost": 1}
    assert counted == {"total": 4, "by_kind": kinds, "deleted": 1, "links": 2}
    assert talk.run("count", "posts").out.splitlines()[0] == "Posts: 4"
    assert talk.robot("count", "posts", "-p", "ledger").error["fix"] == "remove --project"


def test_trending_counts_and_names_the_people_who_shared(talk: Desk) -> None:
    items = talk.robot("trending").data["items"]
    assert [(item["url"], item["shares"]) for item in items] == [(ARTICLE, 3), ("https://b.test", 2)]
    assert [sharer["handle"] for sharer in items[0]["sharers"]] == ["mira.test", "noor.test", "otto.test"]
    assert [item["url"] for item in talk.robot("trending", "--min-shares", "3").data["items"]] == [ARTICLE]
    recent = talk.robot("trending", "--hours", "2.5", "-n", "1").data["items"]
    assert [(item["shares"], item["posts"]) for item in recent] == [(1, 1)]
    out = talk.run("trending").out
    assert out.splitlines()[0].startswith("3 shares, last 2")
    assert "How to lash" in out
    assert "@mira.test, @noor.test, @otto.test" in out
    talk.query("DELETE FROM post_links")
    assert talk.run("trending", "--hours", "1").out == "No links shared in the last 1 hours.\n"


def test_a_narrow_terminal_shows_addresses_of_links_whole_and_posts_by_their_author(talk: Desk) -> None:
    lines = talk.terminal("trending", columns=40).out.splitlines()
    assert f"  {ARTICLE}" in lines
    assert lines[lines.index("  https://b.test") - 1].endswith("  b.test")
    changed = talk.terminal("changes", "--since", "2020-01-01", columns=60).out
    assert "@mira.test " in changed
    assert "at://" not in changed
    assert uri_of(MIRA, "a") in talk.run("changes", "--since", "2020-01-01").out


def test_check_passes_on_a_database_with_posts(talk: Desk) -> None:
    assert talk.run("check").code == 0
    talk.query(
        "UPDATE posts SET account_id = (SELECT id FROM accounts WHERE handle = 'otto.test') WHERE kind = 'reply'"
    )
    broken = talk.robot("check")
    assert broken.code == 8
    assert [found["check"] for found in broken.document["data"]["checks"] if not found["ok"]] == ["posts"]


def test_a_full_document_build_includes_posts(talk: Desk) -> None:
    talk.query("DELETE FROM documents")
    assert talk.robot("generate-docs", "--full").code == 0
    assert talk.query("SELECT COUNT(*) FROM documents WHERE source_type = 'post'") == [(3,)]


@pytest.mark.parametrize("reference", [uri_of(MIRA, "a"), PAGE])
def test_similar_finds_posts_related_to_a_post(talk: Desk, reference: str) -> None:
    refused = talk.robot("similar", reference)
    assert (refused.code, refused.error["fix"]) == (2, "run `lore embed`")
    assert talk.run("embed").code == 0
    items = talk.robot("similar", reference, "-n", "100").data["items"]
    posts = [item["reference"] for item in items if item["type"] == "post"]
    assert sorted(posts) == sorted([uri_of(NOOR, "b"), uri_of(NOOR, "q")]), "others, and not the post itself"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["show", "post", "#12"], 2, "at://"),
        (["show", "post", uri_of(MIRA, "none")], 6, "lore list posts"),
        (["similar", uri_of(MIRA, "none")], 6, "lore list posts"),
        (["show", "post", uri_of(MIRA, "a"), "--fields", "colour"], 2, "colour"),
        (["list", "posts", "--fields", "colour"], 2, "colour"),
        (["list", "posts", "--after", "x"], 2, "data.next"),
        (["list", "posts", "--since", "yesterday"], 2, "7d"),
        (["trending", "--hours", "0"], 2, "--hours"),
    ],
)
def test_invalid_post_arguments_are_refused_with_a_fix(talk: Desk, argv: list[str], code: int, said: str) -> None:
    done = talk.robot(*argv)
    assert done.code == code
    assert said in f"{done.error['message']} {done.error['fix']}"


def test_post_commands_answer_with_the_documented_fields(talk: Desk) -> None:
    compare("list posts", talk.robot("list", "posts").data)
    compare("trending", talk.robot("trending").data)
    shown = [talk.robot("show", "post", uri_of(did, key)).data for did, key in ((MIRA, "a"), (NOOR, "b"), (NOOR, "q"))]
    compare("show post", *shown)
