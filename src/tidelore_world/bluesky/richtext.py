"""Rich text: the facets of a post, which point at bytes of its UTF-8 text, not at characters.

Owns finding links, mentions and tags in a text. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_LINK = re.compile(r"https?://[^\s<>\"]+")
_MENTION = re.compile(r"(?<![\w.@])@((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,})", re.IGNORECASE)
_TAG = re.compile(r"(?<!\S)#(\w*[^\W\d]\w*)")
_CLOSING = ".,;:!?"


def find_facets(text: str, did_of_handle: Callable[[str], str | None]) -> list[dict[str, Any]]:
    """The facets of a text, in order; a mention of nobody is no facet."""
    found: list[tuple[int, int, dict[str, Any]]] = []
    for match in _LINK.finditer(text):
        uri = _trimmed(match[0])
        feature = {"$type": "app.bsky.richtext.facet#link", "uri": uri}
        found.append((match.start(), match.start() + len(uri), feature))
    for match in _MENTION.finditer(text):
        did = did_of_handle(match[1].lower())
        if did is not None:
            found.append((match.start(), match.end(), {"$type": "app.bsky.richtext.facet#mention", "did": did}))
    found += [
        (match.start(), match.end(), {"$type": "app.bsky.richtext.facet#tag", "tag": match[1]})
        for match in _TAG.finditer(text)
    ]
    return [_facet(text, start, end, feature) for start, end, feature in sorted(found, key=lambda one: one[0])]


def _facet(text: str, start: int, end: int, feature: dict[str, Any]) -> dict[str, Any]:
    byte_start = len(text[:start].encode())
    byte_end = byte_start + len(text[start:end].encode())
    return {"index": {"byteStart": byte_start, "byteEnd": byte_end}, "features": [feature]}


def _trimmed(uri: str) -> str:
    """Without the punctuation of the sentence around it; a bracket opened inside the address stays."""
    while uri and (uri[-1] in _CLOSING or (uri[-1] == ")" and "(" not in uri)):
        uri = uri[:-1]
    return uri
