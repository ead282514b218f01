"""The names of a file: found in both directions, whatever circles and branches the renames make."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tidelore.store.reading.file_history import NAMES_LIMIT, Lineage, Rename, describe_lineage, follow_renames


def rename(old: str, new: str, iid: int = 1) -> Rename:
    return Rename(old, new, iid, "merged", iid * 1000)


def follow(start: str, renames: Iterable[Rename], names_limit: int = NAMES_LIMIT) -> Lineage:
    known = list(renames)
    asked: list[str] = []

    def renames_of(name: str) -> list[Rename]:
        asked.append(name)
        return [each for each in known if name in (each.old_path, each.new_path)]

    lineage = follow_renames(start, renames_of, names_limit)
    assert len(asked) == len(set(asked)) <= names_limit
    return lineage


def test_a_file_that_was_never_renamed_has_one_name() -> None:
    assert follow("a", []) == Lineage(("a",))
    assert describe_lineage(follow("a", [])) == "a"


def test_a_rename_chain_is_found_from_any_of_its_names() -> None:
    chain = [rename("c", "d", 3), rename("a", "b", 1), rename("b", "c", 2)]
    for start in "abcd":
        lineage = follow(start, chain)
        assert lineage.names == ("a", "b", "c", "d")
        assert [each.iid for each in lineage.renames] == [1, 2, 3]
        assert not lineage.cut
        assert describe_lineage(lineage) == "a -> b -> c -> d"


def test_circular_renames_end() -> None:
    lineage = follow("a", [rename("a", "b"), rename("b", "a", 2)])
    assert sorted(lineage.names) == ["a", "b"]
    assert [each.iid for each in lineage.renames] == [1, 2]


def test_a_rename_cycle_is_described_with_its_last_step_from_any_of_its_names() -> None:
    there_and_back = [rename("a", "b", 1), rename("b", "a", 2)]
    for start in "ab":
        lineage = follow(start, there_and_back)
        assert lineage.names == ("a", "b")
        assert describe_lineage(lineage) == "a -> b -> a"
    around = [rename("a", "b", 1), rename("b", "c", 2), rename("c", "a", 3), rename("a", "b", 4)]
    for start in "abc":
        lineage = follow(start, around)
        assert lineage.names == ("a", "b", "c")
        assert describe_lineage(lineage) == "a -> b -> c -> a -> b"
    twice = [rename("a", "b", 1), rename("a", "b", 2), rename("b", "a", 3)]
    assert describe_lineage(follow("b", twice)) == "a -> b -> a"


def test_a_name_used_by_two_files_is_shown_without_an_arrow_between_them() -> None:
    lineage = follow("a", [rename("a", "b"), rename("a", "c", 2)])
    assert lineage.names == ("a", "b", "c")
    assert describe_lineage(lineage) == "a -> b, c"


def test_the_same_rename_in_two_merge_requests_is_listed_twice() -> None:
    assert [each.iid for each in follow("b", [rename("a", "b"), rename("a", "b", 2)]).renames] == [1, 2]


def test_a_long_rename_chain_is_truncated_with_a_notice() -> None:
    chain = [rename(str(place), str(place + 1), place + 1) for place in range(1000)]
    lineage = follow("500", chain)
    assert len(lineage.names) == NAMES_LIMIT
    assert lineage.cut
    assert all({each.old_path, each.new_path} <= set(lineage.names) for each in lineage.renames)
    whole = follow("0", chain[: NAMES_LIMIT - 1])
    assert (len(whole.names), whole.cut) == (NAMES_LIMIT, False)


NAMES = st.sampled_from("abcdefgh")


@given(
    st.lists(st.builds(rename, NAMES, NAMES, st.integers(1, 50)).filter(lambda each: each.old_path != each.new_path))
)
def test_the_found_names_are_exactly_those_connected_by_renames(renames: list[Rename]) -> None:
    connected = {"a"}
    for _ in renames:
        for each in renames:
            if connected & {each.old_path, each.new_path}:
                connected |= {each.old_path, each.new_path}
    lineage = follow("a", renames)
    assert set(lineage.names) == connected
    assert len(lineage.names) == len(connected)
    assert set(lineage.renames) == {each for each in renames if each.old_path in connected}
