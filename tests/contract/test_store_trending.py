"""What is shared most: by people, not by posts; reposts count, what was deleted does not."""

from __future__ import annotations

import re

import pytest
from tests.databases.feeds import MIRA, NOOR, OTTO, follow, link, post, share, uri_of
from tests.databases.samples import CREATED

from tidelore.store.database.port import Database
from tidelore.store.reading.posts import Trend, ranking, trending

HOUR = 3_600_000
A, B = "https://a.test/article", "https://b.test/article"


def told(found: list[Trend]) -> dict[str, tuple[int, int, list[str | None]]]:
    return {trend.url: (trend.shares, trend.posts, [sharer.handle for sharer in trend.sharers]) for trend in found}


@pytest.fixture
def shared(database: Database) -> Database:
    """Mira shares one link three times, Noor and Otto the other once each."""
    follow(database, MIRA, NOOR, OTTO)
    share(
        database,
        *(post(MIRA, f"m{n}", CREATED + n, links=(link(A, "Of cranes"),)) for n in range(3)),
        post(NOOR, "n", CREATED + 10, links=(link(B),)),
        post(OTTO, "o", CREATED + 20, links=(link(B, "Of gulls"), link(B.replace("b.", "c.")))),
    )
    return database


def test_a_link_counts_once_for_each_person(shared: Database) -> None:
    found = trending(shared, CREATED)
    assert told(found) == {
        B: (2, 2, ["noor.test", "otto.test"]),
        "https://c.test/article": (1, 1, ["otto.test"]),
        A: (1, 3, ["mira.test"]),
    }
    assert [trend.url for trend in found][0::2] == [B, A], "the most people first, then who shared last"
    assert (found[0].title, found[0].first_shared_at, found[0].last_shared_at) == (
        "Of gulls", CREATED + 10, CREATED + 20,
    )  # fmt: skip


def test_only_links_shared_recently_by_enough_people_are_listed(shared: Database) -> None:
    assert told(trending(shared, CREATED + 15)) == {
        B: (1, 1, ["otto.test"]),
        "https://c.test/article": (1, 1, ["otto.test"]),
    }
    assert list(told(trending(shared, CREATED, min_shares=2))) == [B]
    assert len(trending(shared, CREATED, limit=1)) == 1
    assert trending(shared, CREATED + HOUR) == []


def test_links_are_chosen_by_a_part_of_their_address_in_which_no_character_is_special(shared: Database) -> None:
    assert list(told(trending(shared, CREATED, part="A.test"))) == [A]
    assert len(trending(shared, CREATED, part="article")) == 3
    assert list(told(trending(shared, CREATED, part=B))) == [B]
    assert [trending(shared, CREATED, part=part) for part in ("%", "_.test", "~", "'")] == [[], [], [], []]


@pytest.mark.parametrize("subject_first", [True, False])
def test_a_repost_counts_as_a_share_whether_read_before_or_after_the_post(
    database: Database, subject_first: bool
) -> None:
    follow(database, MIRA, NOOR)
    subject = post(MIRA, "a", CREATED, links=(link(A),))
    again = post(NOOR, "r", CREATED + HOUR, subject_uri=subject.record.uri, text="", links=())
    for item in (subject, again) if subject_first else (again, subject):
        share(database, item)
    assert told(trending(database, CREATED)) == {A: (2, 2, ["mira.test", "noor.test"])}
    assert told(trending(database, CREATED + HOUR)) == {A: (1, 1, ["noor.test"])}
    share(database, gone=[again.record.uri])
    assert told(trending(database, CREATED)) == {A: (1, 1, ["mira.test"])}


def test_a_deleted_post_does_not_count_as_a_share(shared: Database) -> None:
    share(shared, gone=[uri_of(OTTO, "o")], now_ms=CREATED + HOUR)
    assert told(trending(shared, CREATED)) == {B: (1, 1, ["noor.test"]), A: (1, 3, ["mira.test"])}


def test_a_removed_account_is_still_listed_by_name(shared: Database) -> None:
    with shared.transaction() as tx:
        tx.execute("DELETE FROM accounts WHERE handle = 'noor.test'")
    assert told(trending(shared, CREATED))[B] == (2, 2, ["noor.test", "otto.test"])


def test_only_the_shares_of_the_window_are_read_through_an_index(shared: Database) -> None:
    explain = {"sqlite": "EXPLAIN QUERY PLAN", "postgres": "EXPLAIN"}[shared.dialect]
    used = {
        "sqlite": r"COVERING INDEX idx_post_links_shared \(shared_at>\?\)",
        "postgres": r"on idx_post_links_shared .*Index Cond: \(shared_at >=",
    }[shared.dialect]
    with shared.transaction() as tx:
        if shared.dialect == "postgres":
            # So few rows it would rather read whole.
            tx.execute("SET LOCAL enable_seqscan = off")
        plan = tx.execute(f"{explain} {ranking(shared)}", {"since": 1, "least": 1, "limit": 1})
    assert re.search(used, " ".join(str(row[-1]) for row in plan))
