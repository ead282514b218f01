"""The gate: which documents are worth scoring, decided from counts alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from tidelore.search.lexical import GATE_ROOM, Counted, choose_gates
from tidelore.store.reading.fulltext import Gate, Term

A, B, C = Term("a"), Term("b"), Term("c")


def never(_terms: Sequence[Term]) -> int:
    raise AssertionError("nothing has to be counted together")


def gates(
    counts: dict[Term, int], count_together: Callable[[Sequence[Term]], int] = never, room: float = GATE_ROOM
) -> list[Gate]:
    return list(choose_gates([Counted(term, count) for term, count in counts.items()], count_together, room))


def test_a_query_matching_few_documents_gets_no_gate() -> None:
    assert gates({A: 10, B: GATE_ROOM - 10}) == []
    assert gates({}) == []


def test_the_rarest_terms_within_the_limit_form_the_gate() -> None:
    assert gates({A: 10, B: GATE_ROOM - 10, C: 90_000}) == [Gate((A, B))]


def test_a_term_above_the_limit_also_excludes_all_more_common_terms() -> None:
    assert gates({A: 10, B: GATE_ROOM, C: GATE_ROOM})[0] == Gate((A,))


def test_common_terms_form_a_second_gate_that_requires_all_of_them() -> None:
    assert gates({A: 10, B: 50_000, C: 60_000}) == [Gate((A,)), Gate((B, C), needs_all=True)]


def test_with_only_common_terms_the_gate_requires_enough_of_them_to_match_few() -> None:
    common = dict.fromkeys((A, B, C), 50_000)
    assert gates(common, lambda _terms: GATE_ROOM) == [Gate((A, B), needs_all=True)]
    assert gates(common, lambda _terms: GATE_ROOM + 1) == [Gate((A, B, C), needs_all=True)]


def test_a_single_common_term_gets_no_gate() -> None:
    assert gates({A: 90_000}) == []


def test_a_larger_limit_admits_more_terms_and_an_infinite_one_disables_the_gate() -> None:
    counts = {A: GATE_ROOM, B: GATE_ROOM, C: 90_000}
    assert gates(counts, room=2 * GATE_ROOM) == [Gate((A, B))]
    assert gates(counts, room=inf) == []
