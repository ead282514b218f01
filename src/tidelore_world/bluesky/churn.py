"""Life without a script: a seeded mix of what people do on the network.

Owns the choice of what happens next. Refuses to change anything itself; the events do. Invariant: same network, same
generator, same changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidelore_world.bluesky.records import POST, REPOST, Account, Card
from tidelore_world.clock import DAY_US
from tidelore_world.drawing import draw
from tidelore_world.prose import Prose

if TYPE_CHECKING:
    from tidelore_world.bluesky.events import Events

Advance = Callable[[float], None]
Deed = Callable[["Events", Prose, random.Random, Account], str | None]


def change(
    events: Events,
    prose: Prose,
    count: int,
    rng: random.Random,
    kinds: Sequence[str] | None = None,
    advance: Advance | None = None,
) -> list[dict[str, Any]]:
    """Let `count` things happen to random accounts; with `advance`, some seconds pass before each."""
    accounts = [account for account in events.network.accounts.values() if account.active]
    if not accounts:
        raise ValueError("the network has no active account to change")

    def act(name: str) -> dict[str, Any] | None:
        account = rng.choice(accounts)
        uri = DEEDS[name][1](events, prose, rng, account)
        return None if uri is None else {"did": account.did, "uri": uri}

    return draw({name: weight for name, (weight, _) in DEEDS.items()}, act, count, rng, kinds, advance)


def _post(events: Events, prose: Prose, _rng: random.Random, account: Account) -> str | None:
    text, card = _words(prose)
    return events.post(account.did, text, external=card).uri


def _backdate(events: Events, prose: Prose, rng: random.Random, account: Account) -> str | None:
    text, card = _words(prose)
    written_us = max(0, events.now_us - rng.randint(1, 2000) * DAY_US)
    return events.post(account.did, text, external=card, created_at=written_us).uri


def _reply(events: Events, prose: Prose, rng: random.Random, account: Account) -> str | None:
    parent = _any_post(events, rng)
    return None if parent is None else events.post(account.did, _words(prose)[0], reply_to=parent).uri


def _quote(events: Events, prose: Prose, rng: random.Random, account: Account) -> str | None:
    quoted = _any_post(events, rng)
    text, card = _words(prose)
    return None if quoted is None else events.post(account.did, text, quote=quoted, external=card).uri


def _repost(events: Events, _prose: Prose, rng: random.Random, account: Account) -> str | None:
    subject = _any_post(events, rng)
    return None if subject is None else events.repost(account.did, subject).uri


def _edit(events: Events, prose: Prose, rng: random.Random, account: Account) -> str | None:
    uri = _own(rng, account, POST)
    return None if uri is None else events.edit(uri, _words(prose)[0]).uri


def _delete(events: Events, _prose: Prose, rng: random.Random, account: Account) -> str | None:
    uri = _own(rng, account, rng.choice((POST, REPOST)))
    if uri is not None:
        events.delete(uri)
    return uri


DEEDS: Mapping[str, tuple[int, Deed]] = MappingProxyType(
    {
        "post": (50, _post),
        "reply": (12, _reply),
        "repost": (12, _repost),
        "edit": (8, _edit),
        "delete": (8, _delete),
        "quote": (5, _quote),
        "backdate": (5, _backdate),
    }
)
"""What may happen, with its weight in the everyday mix."""


def _words(prose: Prose) -> tuple[str, Card | None]:
    text, links = prose.post(prose.topic())
    return text, next((Card(one.url, one.title, one.description) for one in links if one.url not in text), None)


def _own(rng: random.Random, account: Account, collection: str) -> str | None:
    rows = account.shelf(collection).rows()
    return rng.choice(rows).uri if rows else None


def _any_post(events: Events, rng: random.Random) -> str | None:
    authors = [account for account in events.network.accounts.values() if account.active and account.shelf(POST)]
    return _own(rng, rng.choice(authors), POST) if authors else None
