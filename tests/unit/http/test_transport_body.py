"""Bodies are unpacked whole, within the limit, however the network cuts them."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.http.transport import BodyBroken, BodyReader, BodyTooLarge


def _read(wire: bytes, encoding: str, limit: int, step: int) -> bytes:
    reader = BodyReader(encoding, limit)
    for start in range(0, len(wire), step):
        reader.feed(wire[start : start + step])
    assert reader.received == len(wire)
    return reader.finish()


@given(st.binary(max_size=300), st.integers(1, 50), st.sampled_from(["", "identity", " GZip ", "x-gzip"]))
def test_any_chunking_of_the_body_gives_the_same_content(content: bytes, step: int, encoding: str) -> None:
    wire = gzip.compress(content) if "gzip" in encoding.lower() else content
    assert _read(wire, encoding, len(content), step) == content


@given(st.binary(min_size=1, max_size=300), st.integers(1, 50), st.sampled_from(["", "gzip"]))
def test_a_body_one_byte_above_the_limit_is_refused(content: bytes, step: int, encoding: str) -> None:
    wire = gzip.compress(content) if encoding else content
    with pytest.raises(BodyTooLarge):
        _read(wire, encoding, len(content) - 1, step)


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(1, 50))
def test_several_gzip_members_are_joined(first: bytes, second: bytes, step: int) -> None:
    assert _read(gzip.compress(first) + gzip.compress(second), "gzip", 400, step) == first + second


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_truncated_gzip_body_is_an_error(content: bytes, data: st.DataObject) -> None:
    wire = gzip.compress(content)
    kept = data.draw(st.integers(1, len(wire) - 1))
    with pytest.raises(BodyBroken):
        _read(wire[:kept], "gzip", 100, 10)


def test_a_gzip_bomb_is_never_decompressed_beyond_the_limit() -> None:
    reader = BodyReader("gzip", 1000)
    with pytest.raises(BodyTooLarge):
        reader.feed(gzip.compress(b"\0" * 20_000_000))
    assert reader.size == 1001


def test_an_empty_body_with_an_encoding_is_accepted() -> None:
    assert BodyReader("gzip", 10).finish() == b""


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "deflate"])
def test_an_encoding_that_was_not_requested_is_an_error(encoding: str) -> None:
    with pytest.raises(BodyBroken):
        BodyReader(encoding, 10)
