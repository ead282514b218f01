"""The benchmark's second set and its verdict: what becomes a question, and when fusing does not pay."""

from __future__ import annotations

import ast

import pytest
from benchmarks.docstrings import describe, split_summary
from benchmarks.languages import ASKED, LEAST_WORDS, TOLD, read_reference
from benchmarks.search_quality import RECORDED, Quality, loss, quality, shortfall

SOURCE = '''
"""Reads ledgers of a port and writes them again.

Every entry keeps the order in which it was made.
"""
class LedgerReader:
    def read_all(self, path, *, strict=False):
        """Read all entries of a ledger, e.g. of last year, from the given file.

        Those that cannot be parsed are left out, or raise ValueError when strict is set.
        """
    def close(self):
        """Close the reader."""
'''


def test_a_quality_query_is_the_first_sentence_and_the_rest_is_the_document() -> None:
    found = {entry.name: entry for entry in describe(ast.parse(SOURCE), "port.ledgers")}
    assert set(found) == {"port.ledgers", "port.ledgers.LedgerReader.read_all"}
    reading = found["port.ledgers.LedgerReader.read_all"]
    assert reading.question == "entries of a ledger, e.g. of last year, from the given file."
    assert reading.details.startswith("Those that cannot be parsed")
    assert reading.signature == "def port.ledgers.LedgerReader.read_all(self, path, *, strict=False)"
    assert found["port.ledgers"].question == "Reads of a port and writes them again."


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("One. Two.", "One."),
        ("One\n  line\n\nTwo.", "One line"),
        ("See a.b. for it. Then", "See a.b. for it."),
        ("", ""),
    ],
)
def test_a_first_sentence_ends_at_its_full_stop_or_at_a_blank_line(text: str, summary: str) -> None:
    assert split_summary(text)[0] == summary


def test_ranks_beyond_the_tenth_count_as_not_found() -> None:
    found = quality([1, 2, 11, float("inf")])
    assert found.recall == 0.5
    assert found.mrr == pytest.approx(1.5 / 4)


def test_hybrid_quality_below_a_single_mode_fails_the_quality_check() -> None:
    words, meaning = Quality(0.9, 0.5), Quality(0.8, 0.6)
    fused = [finding.broken for finding in shortfall("x", {"lexical": words, "semantic": meaning, "hybrid": words})]
    assert fused == [False, True]
    assert not any(
        finding.broken
        for finding in shortfall("x", {"lexical": words, "semantic": meaning, "hybrid": Quality(0.9, 0.6)})
    )


def test_hybrid_quality_more_than_a_point_below_the_recorded_fails_the_quality_check() -> None:
    recorded = RECORDED["stories"]
    assert not any(finding.broken for finding in loss("stories", recorded))
    lost = Quality(recorded.recall - 0.02, recorded.mrr - 0.005)
    assert [finding.broken for finding in loss("stories", lost)] == [True, False]


def test_every_question_of_the_third_set_has_its_conversation() -> None:
    assert {number for _, number in ASKED} == set(range(len(TOLD)))
    assert len(read_reference()) > 200
    assert all(len(rest.split()) >= LEAST_WORDS for _, rest in read_reference())
