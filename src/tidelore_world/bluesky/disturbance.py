"""Changes between two pages: from a row a client has just been shown to the event that edits or deletes it.

Owns reading which record a row is. Refuses what cannot be: a repost has no text to edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tidelore_world.bluesky.events import Events
from tidelore_world.bluesky.ids import split_uri
from tidelore_world.bluesky.records import POST

_MARK = " (edited)"


def disturb(events: Events, row: Mapping[str, Any], change: Literal["edit", "delete"]) -> bool:
    """Edit or delete what a row shows; False when it is gone, no record, or cannot be changed so."""
    uri = _uri_of(row)
    record = None if uri is None else events.network.record(uri)
    if record is None:
        return False
    if change == "delete":
        events.delete(record.uri)
        return True
    if split_uri(record.uri)[1] != POST:
        return False
    events.edit(record.uri, record.value["text"] + _MARK)
    return True


def _uri_of(row: Mapping[str, Any]) -> str | None:
    """The repost's own address for a repost, else that of the post or record."""
    for holder in (row.get("reason"), row.get("post"), row):
        if isinstance(holder, Mapping) and "uri" in holder:
            return str(holder["uri"])
    return None
