"""What can happen on the simulated network: accounts appear, post, repost, follow, edit, delete, pin, leave.

Owns the effect of each event on repositories, feeds, counts and the stream's log. Refuses to know requests.
Invariant: record keys grow with every write, whatever date a record claims for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidelore_world.bluesky import values
from tidelore_world.bluesky.ids import cid_of, did_of, split_uri, tid_of
from tidelore_world.bluesky.network import Network
from tidelore_world.bluesky.records import (
    FOLLOW,
    LIST,
    LIST_ITEM,
    POST,
    PROFILE,
    REPOST,
    STARTER_PACK,
    Account,
    Card,
    Record,
)
from tidelore_world.bluesky.richtext import find_facets
from tidelore_world.bluesky.settings import BlueskySettings
from tidelore_world.bluesky.stream_log import StreamLog
from tidelore_world.clock import WorldClock, iso_millis, parse_iso


class Events:
    """The events of a network. Accounts are named by DID or handle, records by `at://` address.

    `at_us` is the instant of writing and indexing, the world's present by default. `created_at` is the date a
    record claims: an ISO text, microseconds, or the instant of writing by default.
    """

    def __init__(self, clock: WorldClock) -> None:
        self.settings = BlueskySettings()
        self.network = Network()
        self.stream_log = StreamLog(clock, self.settings)
        self._clock = clock
        self._last_tid_us = 0

    def create_account(
        self,
        handle: str,
        display_name: str = "",
        description: str = "",
        *,
        at_us: int | None = None,
    ) -> Account:
        """Register an account with its profile record."""
        if handle.lower() in self.network.handles:
            raise ValueError(f"the handle {handle} is taken")
        now_us = self._instant(at_us)
        account = Account(did_of(handle), handle, display_name, description, now_us)
        self.network.accounts[account.did] = account
        self.network.handles[handle.lower()] = account.did
        self.stream_log.identity(account, now_us)
        self.stream_log.account(account, now_us)
        self._write(account, PROFILE, values.profile(account, self._shown(now_us)), now_us, now_us, "self")
        return account

    def post(
        self,
        actor: str,
        text: str,
        *,
        created_at: str | int | None = None,
        reply_to: str | None = None,
        quote: str | None = None,
        external: Card | None = None,
        images: Sequence[str] = (),
        langs: Sequence[str] = ("en",),
        labels: Sequence[str] = (),
        tags: Sequence[str] = (),
        video: str | None = None,
        at_us: int | None = None,
    ) -> Record:
        """Write a post. `images` and `video` are alternative texts; links, mentions and tags become facets."""
        now_us = self._instant(at_us)
        created_us, created = self._dated(created_at, now_us)
        value = values.post(
            text,
            created,
            facets=find_facets(text, self.network.handles.get),
            reply=None if reply_to is None else self._reply_ref(reply_to),
            embed=values.embed(external, images, None if quote is None else self._required(quote), video),
            langs=langs,
            labels=labels,
            tags=tags,
        )
        record = self._write(self.network.account(actor), POST, value, now_us, created_us)
        self._count(record, 1)
        return record

    def repost(self, actor: str, uri: str, *, created_at: str | int | None = None, at_us: int | None = None) -> Record:
        """Repost a post, one's own too."""
        now_us = self._instant(at_us)
        created_us, created = self._dated(created_at, now_us)
        value = values.subject_record(REPOST, values.strong_ref(self._required(uri)), created)
        record = self._write(self.network.account(actor), REPOST, value, now_us, created_us)
        self._count(record, 1)
        return record

    def follow(self, actor: str, whom: str, *, at_us: int | None = None) -> Record:
        """Follow an account."""
        now_us = self._instant(at_us)
        followed = self.network.account(whom)
        value = values.subject_record(FOLLOW, followed.did, self._shown(now_us))
        followed.followers += 1
        return self._write(self.network.account(actor), FOLLOW, value, now_us, now_us)

    def create_list(self, actor: str, name: str, members: Sequence[str]) -> Record:
        """Make a list of accounts."""
        owner, now_us = self.network.account(actor), self._instant(None)
        made = self._write(owner, LIST, values.account_list(name, self._shown(now_us)), now_us, now_us)
        for member in members:
            value = values.list_item(made.uri, self.network.account(member).did, self._shown(now_us))
            self._write(owner, LIST_ITEM, value, now_us, now_us)
        return made

    def create_starter_pack(self, actor: str, name: str, members: Sequence[str]) -> Record:
        """Make a starter pack, which is a list with another record in front."""
        listed, now_us = self.create_list(actor, name, members), self._instant(None)
        value = values.starter_pack(name, listed.uri, self._shown(now_us))
        return self._write(self.network.account(actor), STARTER_PACK, value, now_us, now_us)

    def edit(self, uri: str, text: str) -> Record:
        """Change a post's text: same address, same place in the feed, another CID."""
        old = self._required(uri)
        owner = self.network.accounts[old.did]
        value = values.with_text(old.value, text, find_facets(text, self.network.handles.get))
        new = replace(old, value=value, cid=cid_of(old.rkey, value))
        owner.shelf(POST).put(new)
        owner.feed.remove(old)
        owner.feed.put(new)
        self.stream_log.commit("update", new)
        return new

    def delete(self, uri: str) -> None:
        """Delete a post, repost or follow; only the stream tells of it."""
        did, collection, rkey = split_uri(uri)
        owner = self.network.accounts[did]
        record = owner.shelf(collection).remove(rkey)
        self.stream_log.commit("delete", record)
        if collection in (POST, REPOST):
            owner.feed.remove(record)
            self._count(record, -1)
        elif collection == FOLLOW:
            self.network.accounts[record.value["subject"]].followers -= 1

    def pin(self, actor: str, uri: str | None) -> None:
        """Pin one of the account's own posts, or none."""
        self.network.account(actor).pinned_uri = uri

    def hide(self, uri: str) -> None:
        """Take a post out of every view of the AppView; it stays in the feed's index and on the PDS.

        A page whose items are all hidden is empty, yet has a cursor.
        """
        self.network.hidden.add(uri)

    def unhide(self, uri: str) -> None:
        """Show a hidden post again."""
        self.network.hidden.discard(uri)

    def change_handle(self, actor: str, handle: str) -> None:
        """Give an account another handle; the old one resolves no more."""
        account = self.network.account(actor)
        if handle.lower() in self.network.handles:
            raise ValueError(f"the handle {handle} is taken")
        del self.network.handles[account.handle.lower()]
        account.handle = handle
        self.network.handles[handle.lower()] = account.did
        self.stream_log.identity(account)

    def break_handle(self, did: str) -> None:
        """Let the handle of an account point elsewhere, as when its domain has expired: nothing resolves it."""
        account = self.network.account(did)
        account.handle_is_valid = False
        del self.network.handles[account.handle.lower()]
        self.stream_log.identity(account)

    def mend_handle(self, did: str) -> None:
        """Let the handle point to its account again."""
        account = self.network.account(did)
        account.handle_is_valid = True
        self.network.handles[account.handle.lower()] = account.did
        self.stream_log.identity(account)

    def deactivate(self, actor: str) -> None:
        """Deactivate an account: its views answer 400, its posts vanish from other people's feeds."""
        self._switch(actor, "deactivated")

    def reactivate(self, actor: str) -> None:
        """Bring an account back."""
        self._switch(actor, None)

    def suspend(self, actor: str, status: str = "suspended") -> None:
        """Suspend an account, or take it down: its server keeps the records."""
        self._switch(actor, status)

    def delete_account(self, actor: str) -> None:
        """Delete an account: its server knows no such repository any more; the DID document stays."""
        self._switch(actor, "deleted")

    def rewrite(self, actor: str) -> None:
        """Write an account's repository anew, as a move to another server does; what it holds stays the same."""
        self.stream_log.sync(self.network.account(actor))

    @property
    def now_us(self) -> int:
        """The world's present."""
        return self._clock.now_us

    def _switch(self, actor: str, status: str | None) -> None:
        account = self.network.account(actor)
        account.status = status
        self.stream_log.account(account)

    def _write(
        self,
        account: Account,
        collection: str,
        value: Mapping[str, Any],
        indexed_us: int,
        created_us: int,
        rkey: str | None = None,
    ) -> Record:
        rkey = rkey or self._next_tid(indexed_us)
        record = Record(account.did, collection, rkey, cid_of(rkey, value), value, indexed_us, created_us)
        account.shelf(collection).put(record)
        if collection in (POST, REPOST):
            account.feed.put(record)
        self.stream_log.commit("create", record, indexed_us)
        return record

    def _next_tid(self, us: int) -> str:
        self._last_tid_us = max(us, self._last_tid_us + 1)
        return tid_of(self._last_tid_us)

    def _count(self, record: Record, step: int) -> None:
        network, value = self.network, record.value
        if record.collection == REPOST:
            network.repost_count[value["subject"]["uri"]] += step
            return
        if "reply" in value:
            network.reply_count[value["reply"]["parent"]["uri"]] += step
        quoted = values.quoted_uri(value)
        if quoted is not None:
            network.quote_count[quoted] += step

    def _reply_ref(self, uri: str) -> dict[str, Any]:
        parent = self._required(uri)
        ref = values.strong_ref(parent)
        upper = parent.value.get("reply")
        return {"root": ref if upper is None else upper["root"], "parent": ref}

    def _required(self, uri: str) -> Record:
        record = self.network.record(uri)
        if record is None:
            raise LookupError(f"no record {uri}")
        return record

    def _instant(self, at_us: int | None) -> int:
        return self._clock.now_us if at_us is None else at_us

    def _dated(self, created_at: str | int | None, now_us: int) -> tuple[int, str]:
        if isinstance(created_at, str):
            return parse_iso(created_at), created_at
        us = now_us if created_at is None else created_at
        return us, self._shown(us)

    @staticmethod
    def _shown(us: int) -> str:
        return iso_millis(us)
