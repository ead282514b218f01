"""What the AppView makes of records: hydrated posts, feed items and profiles.

Owns the view shapes. Refuses to choose or order what is shown. Reads the network, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelore_world.bluesky.ids import blob_cid_of
from tidelore_world.bluesky.network import Network
from tidelore_world.bluesky.records import FOLLOW, POST, REPOST, Account, Record
from tidelore_world.clock import iso_millis

View = dict[str, Any]

_DEFS = "app.bsky.feed.defs"


class Views:
    """Renders records of one network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def feed_item(self, record: Record, origin: str) -> View | None:
        """A post or repost as a feed shows it; None when its post can no longer be shown."""
        uri = record.value["subject"]["uri"] if record.collection == REPOST else record.uri
        post = self._network.visible_post(uri)
        if post is None:
            return None
        item: View = {"post": self.post(post, origin)}
        reply = post.value.get("reply")
        if reply is not None:
            item["reply"] = {end: self._reply_end(reply[end]["uri"], origin) for end in ("root", "parent")}
        if record.collection == REPOST:
            item["reason"] = {
                "$type": f"{_DEFS}#reasonRepost",
                "by": self.author(self._network.accounts[record.did], origin),
                "uri": record.uri,
                "cid": record.cid,
                "indexedAt": iso_millis(record.sort_us),
            }
        return item

    def pinned_item(self, uri: str, origin: str) -> View | None:
        """The pinned post as the feed shows it on top."""
        post = self._network.visible_post(uri)
        item = None if post is None else self.feed_item(post, origin)
        return None if item is None else item | {"reason": {"$type": f"{_DEFS}#reasonPin"}}

    def post(self, record: Record, origin: str) -> View:
        """A hydrated post."""
        network, uri = self._network, record.uri
        view: View = {
            "uri": uri,
            "cid": record.cid,
            "author": self.author(network.accounts[record.did], origin),
            "record": record.value,
            "replyCount": network.reply_count[uri],
            "repostCount": network.repost_count[uri],
            "likeCount": 0,
            "quoteCount": network.quote_count[uri],
            "indexedAt": iso_millis(record.indexed_us),
            "labels": self._labels(record),
        }
        embed = record.value.get("embed")
        if embed is not None:
            view["embed"] = self._embed(embed, record.did, origin)
        return view

    def author(self, account: Account, origin: str) -> View:
        """An account in few words."""
        return {
            "did": account.did,
            "handle": account.handle if account.handle_is_valid else "handle.invalid",
            "displayName": account.display_name,
            "avatar": f"{origin}/img/avatar/plain/{account.did}/{blob_cid_of(account.did)}@jpeg",
            "labels": [],
            "createdAt": iso_millis(account.created_us),
        }

    def profile(self, account: Account, origin: str) -> View:
        """An account in full."""
        view = self.author(account, origin) | {
            "description": account.description,
            "followersCount": account.followers,
            "followsCount": len(account.shelf(FOLLOW)),
            "postsCount": len(account.shelf(POST)),
            "indexedAt": iso_millis(account.created_us),
        }
        pinned = None if account.pinned_uri is None else self._network.record(account.pinned_uri)
        if pinned is not None:
            view["pinnedPost"] = {"uri": pinned.uri, "cid": pinned.cid}
        return view

    def _reply_end(self, uri: str, origin: str) -> View:
        post = self._network.visible_post(uri)
        if post is None:
            return {"$type": f"{_DEFS}#notFoundPost", "uri": uri, "notFound": True}
        return {"$type": f"{_DEFS}#postView"} | self.post(post, origin)

    @staticmethod
    def _labels(record: Record) -> list[View]:
        declared = record.value.get("labels", {}).get("values", ())
        return [
            {
                "src": record.did,
                "uri": record.uri,
                "cid": record.cid,
                "val": label["val"],
                "cts": record.value["createdAt"],
            }
            for label in declared
        ]

    def _embed(self, embed: Mapping[str, Any], did: str, origin: str) -> View:
        kind = embed["$type"]
        if kind == "app.bsky.embed.external":
            return {"$type": f"{kind}#view", "external": dict(embed["external"])}
        if kind == "app.bsky.embed.images":
            images = [_image(image, did, origin) for image in embed["images"]]
            return {"$type": f"{kind}#view", "images": images}
        if kind == "app.bsky.embed.video":
            return {"$type": f"{kind}#view", "cid": embed["video"]["ref"]["$link"], "alt": embed["alt"]}
        if kind == "app.bsky.embed.record":
            return {"$type": f"{kind}#view", "record": self._quoted(embed["record"]["uri"], origin)}
        quoted = self._quoted(embed["record"]["record"]["uri"], origin)
        media = self._embed(embed["media"], did, origin)
        return {"$type": f"{kind}#view", "record": {"record": quoted}, "media": media}

    def _quoted(self, uri: str, origin: str) -> View:
        post = self._network.visible_post(uri)
        if post is None:
            return {"$type": "app.bsky.embed.record#viewNotFound", "uri": uri, "notFound": True}
        view = self.post(post, origin)
        counts = {name: view[name] for name in ("replyCount", "repostCount", "likeCount", "quoteCount")}
        return {
            "$type": "app.bsky.embed.record#viewRecord",
            "uri": uri,
            "cid": post.cid,
            "author": view["author"],
            "value": post.value,
            "labels": view["labels"],
            "indexedAt": view["indexedAt"],
            # The real service hydrates one level of quotes; a quote inside a quote is left out.
            "embeds": [],
            **counts,
        }


def _image(image: Mapping[str, Any], did: str, origin: str) -> View:
    link = f"{did}/{image['image']['ref']['$link']}@jpeg"
    return {
        "thumb": f"{origin}/img/feed_thumbnail/plain/{link}",
        "fullsize": f"{origin}/img/feed_fullsize/plain/{link}",
        "alt": image["alt"],
    }
