"""Posts: one row for each address, an edit by its cid, a tombstone, and everything of a page in one transaction."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import psycopg
import pytest
from msgspec.structs import replace
from tests.databases.feeds import HANDLES, MIRA, NOOR, OTTO, feed_scope, follow, item_of, link, post, share, uri_of
from tests.databases.letters import document
from tests.databases.samples import CREATED, dump, stored_payload
from tests.support.manual_clock import ManualClock

from tidelore.core.content import digest
from tidelore.core.errors import LeaseLost, NotFound, UserError
from tidelore.core.model import Item, Position, PostRecord, Rejected
from tidelore.core.process import ProcessIdentity
from tidelore.core.references import parse_post_reference
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.intake import Intake, sort_out
from tidelore.engine.lease import Lease, acquire
from tidelore.engine.newest_first import NewestFirstPlan, NewestFirstWalk
from tidelore.engine.ports import Batch, ListRequest, Page
from tidelore.search.find import SearchRequest, find
from tidelore.search.query import parse_query
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import check_database
from tidelore.store.mirror.documents import due_sources
from tidelore.store.mirror.payloads import packer
from tidelore.store.mirror.posts import SETTLING_MS, PostWriter, bury_author, write_posts
from tidelore.store.reading.fulltext import DocumentFilter
from tidelore.store.reading.posts import (
    PostFilter,
    count_deleted_posts,
    count_posts,
    list_posts,
    read_post,
    resolve_post,
    trending,
)
from tidelore.store.work.leases import LeaseTable

HOUR = 3_600_000


def rows(database: Database, columns: str) -> list[tuple[object, ...]]:
    return database.read(f"SELECT {columns} FROM posts ORDER BY id")


def documents(database: Database) -> list[tuple[str, str]]:
    document(database)
    return database.read("SELECT title, content FROM documents WHERE source_type = 'post' ORDER BY source_id")


def test_a_post_is_one_row_whether_read_from_feed_records_or_stream(database: Database) -> None:
    (account,) = follow(database, MIRA)
    feed = post(MIRA, "a", CREATED, links=(link("https://a.test/1"),))
    bare = item_of(replace(feed.record, author_handle=None, indexed_at=None, sort_at=CREATED + 5, url=None))
    share(database, bare)
    share(database, feed, now_ms=CREATED + 1)
    share(database, bare, now_ms=CREATED + 2)
    found = rows(database, "uri, account_id, author_handle, indexed_at, sort_at, url, edited_at, first_seen_at")
    assert found == [(feed.record.uri, account.id, HANDLES[MIRA], CREATED, CREATED, feed.record.url, None, CREATED)]
    assert stored_payload(database, database.read("SELECT raw_payload_id FROM posts")[0][0]) == feed.payload


def test_a_post_seen_again_is_a_replay_and_a_new_cid_is_an_edit(database: Database) -> None:
    follow(database, MIRA)
    first = post(MIRA, "a", links=(link("https://a.test/old"),))
    writer = share(database, first)
    assert sort_out([first], writer.stored([first.record.uri])).replayed == 1
    edited = post(MIRA, "a", cid="c2", text="The tide turns at one.", links=(link("https://a.test/new"),))
    assert sort_out([edited], writer.stored([first.record.uri])).changed == [edited]
    share(database, edited, now_ms=CREATED + HOUR)
    assert rows(database, "cid, text, edited_at") == [("c2", "The tide turns at one.", CREATED + HOUR)]
    links = database.read("SELECT url FROM post_links JOIN links ON links.id = link_id")
    assert links == [("https://a.test/new",)]
    assert database.read("SELECT COUNT(*) FROM raw_payloads") == [(2,)], "what was said before is kept"


def test_of_two_versions_in_one_batch_the_later_is_stored(database: Database) -> None:
    share(database, post(MIRA, "a"), post(MIRA, "a", cid="c2", text="later"))
    assert rows(database, "cid, text, account_id") == [("c2", "later", None)]


def test_a_deleted_post_is_kept_as_tombstone_and_not_shown_anywhere(database: Database) -> None:
    follow(database, MIRA)
    share(database, post(MIRA, "a", links=(link("https://a.test/1"),)), post(MIRA, "b"))
    assert len(documents(database)) == 2
    gone = uri_of(MIRA, "a")
    share(database, gone=[gone, uri_of(MIRA, "never")], now_ms=CREATED + 1)
    assert rows(database, "deleted_at") == [(CREATED + 1,), (None,)]
    assert len(documents(database)) == 1
    assert [row.uri for row in list_posts(database, PostFilter()).items] == [uri_of(MIRA, "b")]
    assert [row.uri for row in list_posts(database, PostFilter(deleted=True)).items] == [gone]
    assert (count_posts(database), count_deleted_posts(database)) == ({"post": 1}, 1)
    assert database.read("SELECT COUNT(*) FROM post_links") == [(0,)]


def test_posts_of_a_deleted_account_disappear_from_lists_search_and_trends(database: Database) -> None:
    follow(database, MIRA, NOOR)
    shared = (link("https://a.test/1"),)
    mine, other = post(MIRA, "a", text="The lighthouse", links=shared), post(NOOR, "b", text="The quay")
    repeated = post(NOOR, "r", subject_uri=uri_of(MIRA, "unread"), text="The lighthouse again", links=shared)
    share(database, mine, other, repeated, post(NOOR, "s", subject_uri=mine.record.uri, text="The lighthouse"))
    assert len(documents(database)) == 3
    with database.transaction() as tx:
        assert bury_author(tx, MIRA, CREATED + 1) == 1
        assert bury_author(tx, MIRA, CREATED + 2) == 0
    found = database.read("SELECT content FROM documents WHERE source_type = 'post'")
    assert [content for (content,) in found if "lighthouse" in content] == [], "at once, before documents are made"
    assert len(documents(database)) == 1
    assert trending(database, 0) == []
    assert [row.text for row in list_posts(database, PostFilter()).items if row.text] == ["The quay"]
    assert rows(database, "uri, text, deleted_at")[0] == (mine.record.uri, "", CREATED + 1)
    payloads = database.read("SELECT remote_id FROM raw_payloads WHERE content_hash <> :none", {"none": digest(b"{}")})
    assert payloads == [(other.record.uri,)]
    share(database, mine, now_ms=CREATED + 2 * SETTLING_MS)
    assert rows(database, "text, deleted_at")[0] == ("The lighthouse", None), "an account that returns has its posts"
    assert stored_payload(database, database.read("SELECT raw_payload_id FROM posts ORDER BY id")[0][0]) == mine.payload


def test_a_deleted_post_is_not_restored_by_a_list_read_within_the_settling_time(database: Database) -> None:
    item = post(MIRA, "a", links=(link("https://a.test/1"),))
    share(database, item)
    share(database, gone=[item.record.uri], now_ms=CREATED)
    soon = PostWriter(database, feed_scope(MIRA), lambda: CREATED + SETTLING_MS - 1)
    assert sort_out([item], soon.stored([item.record.uri])).replayed == 1
    later = PostWriter(database, feed_scope(MIRA), lambda: CREATED + SETTLING_MS)
    assert sort_out([item], later.stored([item.record.uri])).created == [item]
    share(database, item, now_ms=CREATED + SETTLING_MS)
    assert rows(database, "deleted_at") == [(None,)]
    assert database.read("SELECT COUNT(*) FROM post_links") == [(1,)]


def test_a_page_is_committed_with_its_cursor_gaps_and_quarantine_or_not_at_all(database: Database) -> None:
    cursor = Cursor(watermark=Position(CREATED, uri_of(MIRA, "a")), complete=True)
    gaps = [Gap(Position(CREATED, uri_of(MIRA, "a")), "token", CREATED - HOUR)]
    rejected = [Rejected(uri_of(MIRA, "bad"), uri_of(MIRA, "bad"), b"{}", "createdAt missing")]
    before = dump(database)

    def die(seam: Seam) -> None:
        if seam is Seam.INSIDE_COMMIT:
            raise RuntimeError("killed")

    broken = PostWriter(database, feed_scope(MIRA), lambda: CREATED, seam=die)
    with pytest.raises(RuntimeError):
        broken.commit(Batch([post(MIRA, "a", links=(link("https://a.test"),))], cursor, rejected, gaps))
    assert dump(database) == before
    writer = share(database, post(MIRA, "a"), cursor=cursor, gaps=gaps, rejected=rejected)
    assert (writer.load(), writer.gaps()) == (cursor, gaps)
    later = PostWriter(database, feed_scope(MIRA), lambda: CREATED + HOUR)
    assert [entry.locator for entry in later.due_quarantined(10)] == [uri_of(MIRA, "bad")]
    assert [("post", entry.id) for entry in due_sources(database, 10)] == [
        ("post", *row) for row in rows(database, "id")
    ]
    share(database, post(MIRA, "bad"), now_ms=CREATED + HOUR)
    assert later.due_quarantined(10) == [], "what was understood at last is released"


def test_no_post_is_written_after_the_lease_was_lost(database: Database, clock: ManualClock) -> None:
    def hold(pid: int) -> Lease:
        return acquire(
            LeaseTable(database), "sync", ProcessIdentity("here", pid, "1"), "lore", clock,
            stale_after_ms=600_000, is_dead=lambda _: False, force=True,
        )  # fmt: skip

    lost = hold(1)
    hold(2)
    writer = PostWriter(database, feed_scope(MIRA), clock.now_ms, lease=lost)
    with pytest.raises(LeaseLost):
        writer.commit(Batch([post(MIRA, "a")], Cursor()))
    with pytest.raises(LeaseLost):
        writer.set_aside("in the future")
    assert rows(database, "uri") == []


class Feed:
    """A newest-first list of real items, read in pages whose token is a place in it."""

    def __init__(self, items: list[Item[PostRecord]], size: int) -> None:
        self._items = sorted(items, key=lambda item: -item.at)
        self._size = size

    async def fetch(self, request: ListRequest) -> Page[PostRecord]:
        start = int(request.token or 0)
        page = self._items[start : start + self._size]
        end = start + len(page)
        return Page(items=page, next_token=str(end) if end < len(self._items) else None)

    async def fetch_one(self, locator: str) -> Page[PostRecord]:
        return Page(items=[item for item in self._items if item.record.uri == locator])


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_descending_walk_stores_every_post_once(database: Database, size: int) -> None:
    follow(database, MIRA)
    items = [post(MIRA, f"k{number}", CREATED + number * 1000) for number in range(12)]
    for known in (4, 12):
        for _ in range(20):
            writer = PostWriter(database, feed_scope(MIRA), lambda: CREATED + HOUR)
            intake = Intake(writer, lambda: CREATED + HOUR)
            plan = NewestFirstPlan(max_pages=3)
            asyncio.run(NewestFirstWalk(Feed(items[:known], size), intake, plan).run())
            if not writer.gaps():
                break
        assert count_posts(database) == {"post": known}
        assert writer.load().watermark == items[known - 1].position
    assert writer.held(CREATED, None).keys() == {item.record.uri for item in items}
    assert writer.held(CREATED, CREATED + 1000) == {items[0].record.uri: items[0].record.uri}


def test_a_post_is_found_by_its_words_its_author_and_its_links(database: Database) -> None:
    follow(database, MIRA, NOOR)
    card = link("https://harbour.test/articles/lashing", "How to lash a container")
    share(database, post(MIRA, "a", links=(card,)), post(NOOR, "b", CREATED + HOUR, text="Nothing of the sort"))
    document(database)

    def references(query: str, wanted: DocumentFilter | None = None) -> list[str]:
        request = SearchRequest(query=parse_query(query), wanted=wanted or DocumentFilter(), mode="lexical")
        return [thread.reference for thread in find(database, request).threads]

    assert references("tide") == [uri_of(MIRA, "a")]
    assert references("lash container", DocumentFilter(type="post")) == [uri_of(MIRA, "a")]
    assert references("tide", DocumentFilter(type="issue")) == []
    assert references("", DocumentFilter(type="post")) == [uri_of(NOOR, "b"), uri_of(MIRA, "a")]
    assert references("", DocumentFilter(path="harbour.test/articles")) == [uri_of(MIRA, "a")]
    assert references("", DocumentFilter(author="noor.test")) == [uri_of(NOOR, "b")]
    (found,) = find(database, SearchRequest(query=parse_query("tide"), mode="lexical")).threads
    assert (found.type, found.found_in, found.state, found.title) == ("post", "post", "post", "@mira.test")
    assert (found.project, found.iid, found.web_url) == (None, None, post(MIRA, "a").record.url)


def test_a_post_with_many_reposts_is_found_once(database: Database) -> None:
    subject = post(OTTO, "z", text="Gulls are early this year.")
    again = {"subject_uri": subject.record.uri, "text": subject.record.text}
    share(database, post(MIRA, "r", CREATED + 1, **again), post(NOOR, "r", CREATED + 2, **again))
    assert documents(database) == [("@mira.test", subject.record.text)]
    share(database, gone=[uri_of(MIRA, "r", "app.bsky.feed.repost")], now_ms=CREATED + 9)
    assert documents(database) == [("@noor.test", subject.record.text)]
    share(database, subject, now_ms=CREATED + 10)
    assert documents(database) == [("@otto.test", subject.record.text)]
    share(database, gone=[subject.record.uri], now_ms=CREATED + 11)
    assert documents(database) == [], "what its author deleted does not stay in the words of whoever reposted it"
    assert all(finding.ok for finding in check_database(database, CREATED + HOUR))


def test_a_post_is_shown_with_its_parent_and_its_replies(database: Database) -> None:
    follow(database, MIRA, NOOR)
    first = post(MIRA, "a")
    answer = post(NOOR, "b", CREATED + 1, kind="reply", reply_parent=first.record.uri, reply_root=first.record.uri)
    share(database, first, answer, post(OTTO, "r", CREATED + 2, subject_uri=first.record.uri, text=""))
    for written in (
        uri_of(MIRA, "a"),
        "at://mira.test/app.bsky.feed.post/a",
        "https://bsky.app/profile/Mira.test/post/a",
    ):
        view = read_post(database, resolve_post(database, parse_post_reference(written)))
        assert view.post.uri == first.record.uri
    assert [reply.uri for reply in view.replies] == [answer.record.uri]
    assert view.reposters == ("otto.test",)
    below = read_post(database, resolve_post(database, parse_post_reference(answer.record.uri)))
    assert below.parent is not None
    assert below.parent.uri == first.record.uri
    with pytest.raises(NotFound):
        resolve_post(database, parse_post_reference("at://mira.test/app.bsky.feed.post/none"))


def test_a_post_known_only_through_a_repost_is_shown_as_that_repost(database: Database) -> None:
    share(database, post(MIRA, "r", subject_uri=uri_of(OTTO, "z"), text="Gulls"))
    view = read_post(database, resolve_post(database, parse_post_reference(uri_of(OTTO, "z"))))
    assert (view.post.kind, view.post.text, view.post.author) == ("repost", "Gulls", "mira.test")


@pytest.mark.parametrize(
    "text", ["", "12", "at://mira.test", "at://x/app.bsky.feed.post/1", "https://bsky.app/profile/mira.test"]
)
def test_an_invalid_post_reference_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="as a post"):
        parse_post_reference(text)


def test_post_lists_are_filtered_and_paged_newest_first(database: Database) -> None:
    follow(database, MIRA, NOOR)
    share(database, *(post(did, f"k{n}", CREATED + n * HOUR) for n in range(4) for did in (MIRA, NOOR)))
    page = list_posts(database, PostFilter(author="@Mira.test", limit=3))
    assert (page.total, [row.uri[-2:] for row in page.items]) == (4, ["k3", "k2", "k1"])
    rest = list_posts(database, PostFilter(author=MIRA, limit=3, after=page.next))
    assert ([row.uri[-2:] for row in rest.items], rest.next) == (["k0"], None)
    assert list_posts(database, PostFilter(since=CREATED + 3 * HOUR)).total == 2
    assert list_posts(database, PostFilter(kind="repost")).total == 0
    assert list_posts(database, PostFilter(author="nobody.test")).total == 0


@pytest.mark.parametrize("common", ["posts", "links"])
def test_two_processes_that_store_the_same_rows_in_opposite_orders_do_not_deadlock(
    migrated_postgres_address: str, common: str
) -> None:
    def items(did: str) -> list[Item[PostRecord]]:
        owner = NOOR if common == "posts" else did
        return [post(owner, f"{number:03}", links=(link(f"https://example.org/{number}"),)) for number in range(60)]

    with ExitStack() as stack:
        first, *both = [stack.enter_context(closing(open_database(migrated_postgres_address))) for _ in range(3)]
        follow(first, MIRA, NOOR, OTTO)
        threads = stack.enter_context(ThreadPoolExecutor(2))
        with first.transaction() as tx:
            # Both wait for this row, each with half of the others locked.
            write_posts(tx, items(NOOR)[30:31], pack=packer(compress=True), now_ms=CREATED)
            tasks = [
                threads.submit(share, both[0], *items(MIRA)),
                threads.submit(share, both[1], *reversed(items(OTTO))),
            ]
            with psycopg.connect(migrated_postgres_address, autocommit=True) as watch:
                while watch.execute("SELECT COUNT(*) FROM pg_locks WHERE NOT granted").fetchone() != (2,):
                    assert not any(task.done() for task in tasks)
        for task in tasks:
            task.result(timeout=60)
        assert first.read("SELECT COUNT(*) FROM links") == [(60,)]
