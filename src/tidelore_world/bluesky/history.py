"""The past of the simulated network: a few people who post all day, many who hardly do.

Owns the plan of who posts what and when. Refuses to write text (the prose does) or records (the events do).
Invariant: events happen in the order of their instants, so record keys grow with time.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tidelore_world.bluesky.records import Account, Card, Record
from tidelore_world.clock import DAY_US, HOUR_US
from tidelore_world.prose import Person, Prose

if TYPE_CHECKING:
    from tidelore_world.bluesky.events import Events

_ACCOUNTS = 20
_SPAN_US = 60 * DAY_US
# Share of accounts and the posts each of them writes: few are very active, most are quiet.
_ACTIVITY = ((0.1, (120, 180)), (0.3, (20, 45)), (0.75, (2, 8)), (1.0, (0, 2)))
_RECENT = 40


def write_history(events: Events, prose: Prose, rng: random.Random, now_us: int, scale: float) -> None:
    """Create the accounts and everything they posted before `now_us`."""
    start_us = now_us - _SPAN_US
    count = max(3, round(_ACCOUNTS * scale))
    accounts = [_join(events, prose.people, index, start_us - DAY_US) for index in range(count)]
    _follow(events, accounts, rng, start_us - HOUR_US)
    moments: list[tuple[int, str]] = []
    for index, account in enumerate(accounts):
        low, high = next(span for share, span in _ACTIVITY if index < share * count or share >= 1.0)
        moments += [(rng.randrange(start_us, now_us), account.did) for _ in range(rng.randint(low, high))]
    recent: list[Record] = []
    for at_us, did in sorted(moments):
        made = _act(events, prose, rng, did, recent, at_us)
        if made is not None:
            recent = [*recent[-_RECENT:], made]
    _pin(events, accounts)


def _join(events: Events, people: tuple[Person, ...], index: int, at_us: int) -> Account:
    person = people[index % len(people)]
    suffix = "" if index < len(people) else str(index // len(people) + 1)
    handle = f"{person.username.replace('.', '-')}{suffix}.harborline.example"
    return events.create_account(handle, person.name, "Engineering at Harborline.", at_us=at_us)


def _follow(events: Events, accounts: list[Account], rng: random.Random, at_us: int) -> None:
    for account in accounts:
        for other in rng.sample(accounts, min(6, len(accounts))):
            if other is not account:
                events.follow(account.did, other.did, at_us=at_us)


def _act(events: Events, prose: Prose, rng: random.Random, did: str, recent: list[Record], at_us: int) -> Record | None:
    """One thing an account does: repost, reply, quote, or post; a post made is returned."""
    draw = rng.random()
    text, links = prose.post(prose.topic())
    card = next((Card(one.url, one.title, one.description) for one in links if one.url not in text), None)
    if recent and draw < 0.12:
        events.repost(did, rng.choice(recent).uri, at_us=at_us)
        return None
    if recent and draw < 0.3:
        return events.post(did, text, reply_to=rng.choice(recent).uri, external=card, at_us=at_us)
    if recent and draw < 0.36:
        return events.post(did, text, quote=rng.choice(recent).uri, external=card, at_us=at_us)
    if draw < 0.42:
        return events.post(did, text, images=("A diagram of the decision",), at_us=at_us)
    if draw < 0.44:
        return events.post(did, text, external=card, created_at=at_us - 400 * DAY_US, at_us=at_us)
    labels = ("graphic-media",) if draw > 0.99 else ()
    return events.post(did, text, external=card, labels=labels, at_us=at_us)


def _pin(events: Events, accounts: list[Account]) -> None:
    """The two most active accounts pin their first post."""
    for account in accounts[:2]:
        posts = account.shelf("app.bsky.feed.post").rows()
        if posts:
            events.pin(account.did, posts[0].uri)
