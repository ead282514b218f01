"""Positions in a repository: keys tell instants, and only those of the believable past move anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelore.engine.cursor import Cursor, LogPosition, decode, encode
from tidelore.engine.log import LogPlan, advance_key, start_key
from tidelore.sources.bluesky.payloads import COLLECTIONS, key_before, tid_instant
from tidelore.sources.bluesky.surfaces import RECORD_KEYS
from tidelore.sync.account_reading import OVERLAP_MS

PLAN = LogPlan(RECORD_KEYS, OVERLAP_MS)
NOW = 1_772_442_000_000
POSTS, REPOSTS = COLLECTIONS
INSTANTS = st.integers(1, 2**43)


def key_at(instant_ms: int) -> str:
    key = key_before(instant_ms + 1)
    assert key is not None
    return key


@given(INSTANTS, INSTANTS)
def test_record_keys_sort_by_time_and_decode_to_it(one: int, other: int) -> None:
    assert (key_at(one) < key_at(other)) == (one < other)
    assert tid_instant(key_at(one)) == one
    assert (key_before(one) or "") < key_at(one)


def test_no_record_key_exists_before_the_epoch() -> None:
    assert key_before(0) is None
    assert key_before(-5) is None
    assert start_key(LogPosition(0), POSTS, PLAN) is None


@given(
    floor=st.integers(0, NOW),
    keys=st.dictionaries(st.sampled_from(COLLECTIONS), st.from_regex(r"[A-Za-z0-9._:~-]{1,20}", fullmatch=True)),
    behind=st.booleans(),
)
def test_a_reach_round_trips_through_the_stored_cursor(floor: int, keys: dict[str, str], behind: bool) -> None:
    cursor = Cursor(log=LogPosition(floor, keys, behind))
    stored = Cursor(log=decode(encode(cursor.log), LogPosition))
    assert stored.log == LogPosition(floor, keys, behind)


def test_an_empty_cursor_has_no_reach() -> None:
    assert Cursor().log is None


def test_a_finished_walk_restarts_with_overlap_and_an_unfinished_one_without() -> None:
    last = key_at(NOW)
    found = start_key(LogPosition(0, {POSTS: last}), POSTS, PLAN)
    assert found is not None
    assert tid_instant(found) == NOW - OVERLAP_MS - 1
    assert start_key(LogPosition(0, {POSTS: last}, behind=True), POSTS, PLAN) == last
    assert start_key(LogPosition(NOW, {POSTS: last}), REPOSTS, PLAN) == key_before(NOW)


def test_a_walk_continues_exactly_at_a_key_that_encodes_no_time() -> None:
    assert start_key(LogPosition(0, {POSTS: "my-own-key"}), POSTS, PLAN) == "my-own-key"


def test_keys_from_the_future_or_of_another_form_do_not_move_the_position() -> None:
    reach = LogPosition(0, {POSTS: key_at(NOW - 1000)})
    assert advance_key(reach, POSTS, [key_at(NOW + 86_400_000), "zzz", "self"], NOW, RECORD_KEYS) == reach
    assert advance_key(reach, POSTS, [key_at(NOW), "zzz"], NOW, RECORD_KEYS).keys == {POSTS: key_at(NOW)}


def test_a_position_never_moves_back() -> None:
    reach = LogPosition(0, {POSTS: key_at(NOW)})
    assert advance_key(reach, POSTS, [key_at(NOW - 5000)], NOW, RECORD_KEYS) == reach
