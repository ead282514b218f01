"""A copy whose deleted posts kept their texts loses these, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from tests.databases.feeds import MIRA, NOOR, follow, link, post, share, uri_of
from tests.databases.samples import CREATED

from tidelore.store.check import check_database
from tidelore.store.database import Database
from tidelore.store.migrate import migrate

BEFORE = 18


def test_posts_deleted_before_the_migration_lose_their_texts_and_live_posts_keep_theirs(
    connect: Callable[[], Database],
) -> None:
    database = connect()
    migrate(database, 1, upto=BEFORE)
    follow(database, MIRA, NOOR)
    shared = (link("https://a.test/1"),)
    gone, kept = post(MIRA, "a", text="xyzzy", links=shared), post(MIRA, "b", text="stays", links=shared)
    repeats = [post(NOOR, item.record.uri[-1], subject_uri=item.record.uri, text=item.record.text, links=shared)
               for item in (gone, kept)]  # fmt: skip
    share(database, gone, kept, *repeats)
    with database.transaction() as tx:
        tx.execute(
            "UPDATE posts SET deleted_at = :now WHERE uri = :uri", {"now": CREATED + 5, "uri": uri_of(MIRA, "a")}
        )
    migrate(database, 2)
    assert database.read("SELECT text, deleted_at FROM posts ORDER BY id") == [
        ("", CREATED + 5), ("stays", None), ("", None), ("stays", None),
    ]  # fmt: skip
    assert database.read("SELECT COUNT(*) FROM post_links") == [(2,)]
    payloads = [bytes(payload) for (payload,) in database.read("SELECT payload FROM raw_payloads")]
    assert sum(payload == b"{}" for payload in payloads) == 2
    assert not any(b"xyzzy" in payload for payload in payloads)
    unsound = [finding for finding in check_database(database, CREATED + 99) if not finding.ok]
    assert unsound == []
