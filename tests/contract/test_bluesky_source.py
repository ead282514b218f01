"""Bluesky as a source, over HTTP: feeds, repositories, identities, as the engine and the commands use them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.bluesky_bench import MIRA, TOBIAS, network, read, shown_uri, walk
from tests.support.deep import gate_cases

from tidelore.core.clock import parse_instant
from tidelore.core.errors import CredentialsRejected, RemoteError, RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.core.links import normalise
from tidelore.core.model import PostRecord
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.bluesky.payloads import split_uri
from tidelore.sources.bluesky.source import BlueskySource
from tidelore_world.bluesky.records import Card
from tidelore_world.world import World

REPOSTS = "app.bsky.feed.repost"
FORMS = pytest.mark.parametrize("form", ["millis__cid", "iso"])


@pytest.fixture(scope="module")
def populated() -> World:
    """Some months of posts, reposts, replies, quotes, cards and backdated posts."""
    world = World(seed=5)
    world.bluesky.populate(0.5)
    world.bluesky.settings.rate_limit = None
    return world


def did(world: World, actor: str = MIRA) -> str:
    return world.bluesky.network.account(actor).did


def write(world: World, count: int, actor: str = MIRA) -> list[str]:
    made = []
    for index in range(count):
        world.advance(60)
        made.append(world.bluesky.post(actor, f"post {index}").uri)
    return made


@FORMS
@pytest.mark.parametrize("per_page", [1, 7, 100])
@gate_cases(2)
def test_a_walk_down_the_feed_returns_every_post_in_feed_order(populated: World, form: Any, per_page: int) -> None:
    populated.bluesky.settings.cursor_format = form
    accounts = populated.bluesky.truth_accounts()[: 4 if per_page > 1 else 2]

    async def do(source: BlueskySource) -> dict[str, list[Any]]:
        return {one: (await walk(source.author_feed(one, per_page)))[0] for one in accounts}

    for one, items in read(populated, do).items():
        truth = populated.bluesky.truth_feed(one)
        assert [item.version.id for item in items] == [shown_uri(item) for item in truth]
        places = [item.at for item in items]
        assert places == sorted(places, reverse=True)
        for item, shown in zip(items, truth, strict=True):
            expected = shown["reason"]["indexedAt"] if "reason" in shown else shown["post"]["indexedAt"]
            assert item.at <= parse_instant(expected)
            assert item.record.text == shown["post"]["record"]["text"]


def test_every_link_of_the_network_is_found_once(populated: World) -> None:
    accounts = populated.bluesky.truth_accounts()

    async def do(source: BlueskySource) -> list[Any]:
        return [item for one in accounts for item in (await walk(source.author_feed(one, 100)))[0]]

    expected = 0
    links = {item.version.id: [link.url for link in item.record.links] for item in read(populated, do)}
    for one in accounts:
        for shown in populated.bluesky.truth_feed(one):
            record = shown["post"]["record"]
            uris = [f["uri"] for facet in record.get("facets", ()) for f in facet["features"] if "uri" in f]
            embed = record.get("embed", {})
            card = embed.get("external") or embed.get("media", {}).get("external")
            wanted = dict.fromkeys(normalise(uri) for uri in [*uris, *([card["uri"]] if card else [])])
            assert links[shown_uri(shown)] == list(wanted)
            expected += len(wanted)
    assert expected > 100


def test_a_repository_and_its_feed_agree_on_every_version(populated: World) -> None:
    accounts = populated.bluesky.truth_accounts()[:5]

    async def do(source: BlueskySource) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
        found = []
        for one in accounts:
            identity = await source.document(one)
            assert identity.pds_url is not None
            posts, _ = await walk(source.records(identity.pds_url, one, per_page=9))
            reposts, _ = await walk(source.records(identity.pds_url, one, REPOSTS, per_page=9))
            feed, _ = await walk(source.author_feed(one, 50))
            listed = {item.version.id: item.version for item in (*posts, *reposts)}
            found.append((listed, {item.version.id: item.version for item in feed}))
        return found

    for listed, feed in read(populated, do):
        assert feed.items() <= listed.items()
        assert len(feed) > 3


def test_records_continue_after_the_last_key_and_include_backdated_posts() -> None:
    world = network()
    known = write(world, 5)

    async def do(source: BlueskySource) -> tuple[list[str], list[str]]:
        pds = (await source.document(did(world))).pds_url or ""
        first, _ = await walk(source.records(pds, did(world), per_page=2))
        with world.lock:
            backdated = world.bluesky.post(MIRA, "old", created_at="2020-01-01T00:00:00.000Z").uri
            world.bluesky.edit(known[0], "an edit is not seen here")
            later = write(world, 2)
        last = split_uri(first[-1].record.uri).rkey
        second, _ = await walk(source.records(pds, did(world), per_page=2), last)
        assert [item.record.uri for item in second] == [backdated, *later]
        places = [item.at for item in (*first, *second)]
        assert places == sorted(places), "the order of writing, whatever date a post claims"
        return [item.record.uri for item in first], [item.record.uri for item in second]

    first, second = read(world, do)
    assert first == known
    assert len(second) == 3


def test_an_edited_post_is_a_new_version_with_the_same_uri() -> None:
    world = network()
    (uri,) = write(world, 1)

    async def do(source: BlueskySource) -> list[Any]:
        found: list[Any] = []
        for _ in range(2):
            found += (await source.author_feed(did(world), 10).fetch(ListRequest())).items
            with world.lock:
                world.bluesky.edit(uri, "changed")
        return found

    before, after = read(world, do)
    assert before.version.id == after.version.id == uri
    assert before.version.digest != after.version.digest
    assert (before.at, after.record.text) == (after.at, "changed")


def test_pinned_posts_are_excluded_from_the_feed_by_default() -> None:
    world = network()
    made = write(world, 5)
    world.bluesky.pin(MIRA, made[0])

    async def do(source: BlueskySource) -> list[Page[PostRecord]]:
        return [await source.author_feed(did(world), 2, pins=pins).fetch(ListRequest()) for pins in (False, True)]

    plain, pinned = read(world, do)
    assert [item.record.uri for item in plain.items] == [made[4], made[3]]
    assert plain.pinned == frozenset()
    assert [item.record.uri for item in pinned.items] == [made[0], made[4], made[3]]
    assert pinned.pinned == {made[0]}


def test_an_empty_page_in_the_middle_does_not_end_the_walk() -> None:
    world = network()
    made = write(world, 8)
    for uri in made[2:6]:
        world.bluesky.hide(uri)

    async def do(source: BlueskySource) -> list[str]:
        return [item.record.uri for item in (await walk(source.author_feed(did(world), 2)))[0]]

    assert read(world, do) == [made[7], made[6], made[1], made[0]]


def test_a_post_counts_as_deleted_only_when_its_repository_does_not_have_it() -> None:
    world = network()
    shown, hidden, gone = write(world, 3)
    repost = world.bluesky.repost(TOBIAS, shown).uri
    undone = world.bluesky.repost(TOBIAS, hidden).uri
    world.bluesky.hide(hidden)
    world.bluesky.delete(gone)
    world.bluesky.delete(undone)

    async def do(source: BlueskySource) -> dict[str, list[Any]]:
        feed = source.author_feed(did(world), 10)
        return {uri: list((await feed.fetch_one(uri)).items) for uri in (shown, hidden, gone, repost, undone)}

    found = read(world, do)
    assert [len(found[uri]) for uri in (shown, hidden, gone, repost, undone)] == [1, 1, 0, 1, 0]
    assert found[repost][0].record.subject_uri == shown


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, RemotePermanent), (401, CredentialsRejected), (403, RemotePermanent), (404, RemoteNotFound)],
)
def test_an_unavailable_account_raises_its_own_permanent_error(status: int, kind: type[RemoteError]) -> None:
    world = network()
    if status == 400:
        world.bluesky.deactivate(MIRA)
    else:
        world.bluesky.settings.refused[did(world)] = status

    async def do(source: BlueskySource) -> tuple[RemoteError, int]:
        with pytest.raises(kind) as caught:
            await source.author_feed(did(world), 10).fetch(ListRequest())
        return caught.value, len((await source.author_feed(did(world, TOBIAS), 10).fetch(ListRequest())).items)

    error, _ = read(world, do)
    assert (error.status, error.retryable) == (status, False)
    assert world.requests["GET /xrpc/app.bsky.feed.getAuthorFeed"] == 2, "and it is not asked again"


def test_an_invalid_page_token_is_reported_with_status_500() -> None:
    world = network()
    write(world, 3)

    async def do(source: BlueskySource) -> RemoteError:
        with pytest.raises(RemoteTransient) as caught:
            await source.author_feed(did(world), 1).fetch(ListRequest(token="nonsense"))
        return caught.value

    assert read(world, do, max_retries=0).status == 500


def test_transient_failures_are_retried_as_often_as_configured() -> None:
    world = network()
    write(world, 1)
    fault = world.faults.add("status", "/xrpc/app.bsky.feed.getAuthorFeed", times=3, status=502)

    async def do(source: BlueskySource) -> int:
        return len((await source.author_feed(did(world), 1).fetch(ListRequest())).items)

    assert read(world, do, max_retries=3) == 1
    assert fault.fired == 3


def test_an_item_that_cannot_be_parsed_is_rejected_with_its_uri() -> None:
    world = network()
    made = write(world, 3)
    fault = world.faults.add("invalid_timestamp", "/xrpc/app.bsky.feed.getAuthorFeed")

    async def do(source: BlueskySource) -> Page[PostRecord]:
        return await source.author_feed(did(world), 10).fetch(ListRequest())

    page = read(world, do)
    assert fault.fired == 1
    assert (len(page.items), len(page.rejected)) == (2, 1)
    assert page.rejected[0].locator in made


def test_handles_documents_profiles_and_follows_are_read() -> None:
    names = [f"friend{index:02}.example" for index in range(60)]
    world = network(MIRA, *names)
    for name in names:
        world.advance(1)
        world.bluesky.follow(MIRA, name)
    world.bluesky.deactivate(names[7])

    async def do(source: BlueskySource) -> tuple[Any, ...]:
        found = await source.resolve(f"@{MIRA.upper()}")
        identity = await source.document(found)
        followed = [one.handle for one in await source.follows(MIRA)]
        dids = [did(world, name) for name in names]
        profiles = await source.profiles(dids)
        with pytest.raises(RemoteNotFound):
            await source.resolve("nobody.example")
        with pytest.raises(RemoteNotFound):
            await source.document("did:plc:zzzzzzzzzzzzzzzzzzzzzzzz")
        return found, identity, followed, profiles

    found, identity, followed, profiles = read(world, do)
    active = [name for name in names if name != names[7]]
    assert found == identity.did == did(world)
    assert identity.handle == MIRA
    assert followed == active[::-1]
    assert [one.handle for one in profiles] == active
    assert world.requests["GET /xrpc/app.bsky.actor.getProfiles"] == 3


def test_a_changed_handle_keeps_the_did() -> None:
    world = network()
    known = did(world)

    async def do(source: BlueskySource) -> tuple[str, str, str | None]:
        before = await source.resolve(MIRA)
        with world.lock:
            world.bluesky.change_handle(MIRA, "mira.example")
        return before, await source.resolve("mira.example"), (await source.document(before)).handle

    assert read(world, do) == (known, known, "mira.example")


def test_a_post_with_all_optional_parts_is_read_completely() -> None:
    world = network()
    (root,) = write(world, 1, TOBIAS)
    card = Card("https://Example.com/log?utm_source=x", "The log", "What we decided.")
    world.bluesky.post(
        MIRA, "Größe 🚢 https://example.com/größe.", reply_to=root, quote=root, external=card, langs=("en", "de")
    )

    async def do(source: BlueskySource) -> PostRecord:
        return (await source.author_feed(did(world), 1).fetch(ListRequest())).items[0].record

    record = read(world, do)
    assert (record.kind, record.reply_parent, record.reply_root, record.quoted_uri) == ("reply", root, root, root)
    assert (record.langs, record.embed_kind) == (("en", "de"), "recordWithMedia")
    assert [(link.url, link.raw, link.title) for link in record.links] == [
        ("https://example.com/gr%C3%B6%C3%9Fe", "https://example.com/größe", None),
        ("https://example.com/log", "https://Example.com/log?utm_source=x", "The log"),
    ]
