"""The simulated network as a whole: accounts by DID and handle, records by address, counts between posts.

Owns lookups across accounts and the moderation that hides posts from the AppView but not from the PDS.
Refuses to know requests.
"""

from __future__ import annotations

from collections import Counter

from tidelore_world.bluesky.ids import split_uri
from tidelore_world.bluesky.records import Account, Record


class Network:
    """All accounts and what connects them."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.handles: dict[str, str] = {}
        self.hidden: set[str] = set()
        self.reply_count: Counter[str] = Counter()
        self.repost_count: Counter[str] = Counter()
        self.quote_count: Counter[str] = Counter()

    def find(self, actor: str) -> Account | None:
        """The account with this DID or handle, also when it is deactivated."""
        did = actor if actor.startswith("did:") else self.handles.get(actor.lower())
        return None if did is None else self.accounts.get(did)

    def account(self, actor: str) -> Account:
        """The account with this DID or handle; LookupError when there is none."""
        found = self.find(actor)
        if found is None:
            raise LookupError(f"no account {actor}")
        return found

    def record(self, uri: str) -> Record | None:
        """The record at an address, if it is still there."""
        did, collection, rkey = split_uri(uri)
        owner = self.accounts.get(did)
        return None if owner is None else owner.shelf(collection).get(rkey)

    def visible_post(self, uri: str) -> Record | None:
        """A post the AppView would show: there, not hidden, and its author active."""
        record = self.record(uri)
        if record is None or uri in self.hidden or not self.accounts[record.did].active:
            return None
        return record
