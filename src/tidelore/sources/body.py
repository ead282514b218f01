"""Bodies. Owns turning the chunks of a response into its content, within a size limit.

It refuses to hold more than the limit, counted after decompression: a small answer that unfolds without end
is stopped at the limit, never unpacked to find out. Invariant: content is returned whole or not at all.
"""

from __future__ import annotations

import zlib

_GZIP_WINDOW = zlib.MAX_WBITS | 16
# Nothing else is asked for (see `Accept-Encoding` in http.py), so nothing else may come.
_GZIP = frozenset({"gzip", "x-gzip"})
_PLAIN = frozenset({"", "identity"})


class BodyTooLarge(Exception):
    """The content exceeds the limit."""


class BodyBroken(Exception):
    """The content cannot be unpacked: damaged, cut off, or packed in a way nobody asked for."""


class BodyReader:
    """Collects one body. `received` counts bytes of the wire, `size` bytes of the content."""

    __slots__ = ("_chunks", "_inflater", "_limit", "received", "size")

    def __init__(self, encoding: str, limit: int) -> None:
        encoding = encoding.strip().lower()
        if encoding not in _GZIP and encoding not in _PLAIN:
            raise BodyBroken(f"content encoding {encoding[:40]!r} was not asked for")
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if encoding in _GZIP else None
        self._limit = limit
        self._chunks: list[bytes] = []
        self.received = 0
        self.size = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk, or raise BodyTooLarge or BodyBroken."""
        self.received += len(chunk)
        if self._inflater is None:
            self._keep(chunk)
        else:
            self._inflate(chunk)

    def finish(self) -> bytes:
        """Return the content, or raise BodyBroken when its end is missing."""
        # An empty answer (304, 204) may name an encoding all the same: there was no gzip member to end.
        if self._inflater is not None and self.received and not self._inflater.eof:
            raise BodyBroken("the compressed content ends early")
        return self.so_far()

    def so_far(self) -> bytes:
        """Return what has come: enough to explain an error."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    def _keep(self, content: bytes) -> None:
        self.size += len(content)
        if self.size > self._limit:
            raise BodyTooLarge
        if content:
            self._chunks.append(content)

    def _inflate(self, chunk: bytes) -> None:
        assert self._inflater is not None
        try:
            while chunk:
                if self._inflater.eof:
                    # RFC 1952: a gzip file may be a sequence of members.
                    self._inflater = zlib.decompressobj(_GZIP_WINDOW)
                # One byte more than allowed is enough to know.
                self._keep(self._inflater.decompress(chunk, self._limit - self.size + 1))
                chunk = self._inflater.unconsumed_tail or self._inflater.unused_data
        except zlib.error as error:
            raise BodyBroken(f"the compressed content is damaged: {error}") from None
