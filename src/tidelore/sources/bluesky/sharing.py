"""What a post says beside its text: links, languages, labels, tags and descriptions of images. Pure.

Owns where links are looked for: the facets, the card, and the plain text.

A facet points at BYTES of the UTF-8 text, and what it covers is the link's caption, often a cut address: the plain
text is searched only beside facets. Invariant: one link for each normalised address, in the order of reading; what
the card says of it stands on it wherever else it was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import Raw

from tidelore.core.links import find_urls, normalise
from tidelore.core.model import LinkRecord
from tidelore.sources.bluesky.payloads import Card, Described, Embed, Facet, SelfLabels

T = TypeVar("T")

_PARTS = msgspec.json.Decoder(list[Raw])
_FACET = msgspec.json.Decoder(Facet | None)
_EMBED = msgspec.json.Decoder(Embed | None)
_LANGS = msgspec.json.Decoder(tuple[str, ...])
_LABELS = msgspec.json.Decoder(SelfLabels | None)
_IMAGE = msgspec.json.Decoder(Described)
_LINK = "app.bsky.richtext.facet#link"
_TEXT = msgspec.json.Decoder(str | None)
_SHORT = 64
"""What is longer than this is odd, and not worth remembering."""
_NO_EMBED = Embed()


def read_facets(raw: Raw) -> list[Facet]:
    """Return the facets that can be read."""
    if len(raw) <= 2:
        return []
    found = []
    for part in _lenient(_PARTS, raw, []):
        facet = _lenient(_FACET, part, None)
        if facet is not None:
            found.append(facet)
    return found


def read_embed(raw: Raw) -> Embed:
    """Return what is embedded, as far as it can be read."""
    if len(raw) <= 4:
        return _NO_EMBED
    return _lenient(_EMBED, raw, None) or _NO_EMBED


def read_langs(raw: Raw) -> tuple[str, ...]:
    """Return the languages a post says it is in."""
    # Nearly all posts say the same few things.
    return _langs(bytes(raw)) if len(raw) <= _SHORT else _lenient(_LANGS, raw, ())


def read_tags(raw: Raw) -> tuple[str, ...]:
    """Return the tags that a post has beside those in its text."""
    return () if len(raw) <= 2 else tuple(dict.fromkeys(tag for tag in _lenient(_LANGS, raw, ()) if tag))


def read_labels(raw: Raw) -> tuple[str, ...]:
    """Return the labels that the author gave a post."""
    if len(raw) <= 4:
        return ()
    labels = _lenient(_LABELS, raw, None) or SelfLabels()
    return tuple(dict.fromkeys(label.val for label in labels.values if label.val))


def alt_texts(embed: Embed) -> tuple[str, ...]:
    """Return what the author says that images and videos show, also beside a quoted post."""
    found: list[str] = []
    for holder in (embed, embed.media):
        if holder is None:
            continue
        if len(holder.images) > 2:
            found += [_lenient(_IMAGE, image, Described()).alt for image in _lenient(_PARTS, holder.images, [])]
        if len(holder.alt) > 4:
            found.append(_lenient(_TEXT, holder.alt, None) or "")
    return tuple(text for text in found if text.strip())


def card_of(embed: Embed) -> Card | None:
    """Return the page an embed shows, also beside a quoted post."""
    return embed.external or (embed.media.external if embed.media is not None else None)


def links_of(text: str, facets: Sequence[Facet], card: Card | None) -> tuple[LinkRecord, ...]:
    """Return every link of a post, each once."""
    if card is None and not facets and not _might_link(text):
        return ()
    found: dict[str, LinkRecord] = {}
    for raw in _addresses(text, facets):
        url = normalise(raw)
        if url is not None and url not in found:
            found[url] = LinkRecord(url, raw, None, None, None)
    if card is not None and card.uri is not None:
        url = normalise(card.uri)
        if url is not None:
            raw = found[url].raw if url in found else card.uri
            thumb = _lenient(_TEXT, card.thumb, None)
            found[url] = LinkRecord(url, raw, card.title or None, card.description or None, thumb)
    return tuple(found.values())


def _addresses(text: str, facets: Sequence[Facet]) -> list[str]:
    found, covered = [], []
    for facet in facets:
        for feature in facet.features:
            if feature.type == _LINK and feature.uri is not None:
                covered.append(facet.index)
                found.append(feature.uri)
    if covered and _might_link(text):
        rest = bytearray(text.encode())
        for span in covered:
            if 0 <= span.start < span.end <= len(rest):
                rest[span.start : span.end] = b" " * (span.end - span.start)
        text = rest.decode("utf-8", "replace")
    if _might_link(text):
        found += find_urls(text)
    return found


def _might_link(text: str) -> bool:
    """Return whether it is worth while to search a text for addresses, which is dear."""
    return "://" in text or "www." in text or "WWW." in text or "Www." in text


@lru_cache(maxsize=256)
def _langs(raw: bytes) -> tuple[str, ...]:
    return _lenient(_LANGS, raw, ())


def _lenient(decoder: msgspec.json.Decoder[T], raw: Raw | bytes, otherwise: T) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return otherwise
