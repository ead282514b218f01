"""Bugs about documents: marks that are not made, marks that are wiped too early, what is written for nothing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DOCUMENTS = "tests/contract/test_store_documents.py"
_MARKS = f"{DOCUMENTS}::test_every_change_marks_what_it_touches_in_its_own_transaction[sqlite]"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="changed-parent-not-marked",
        invariant="documents follow",
        file="store/family.py",
        before="    mark_parents(tx, family.kind, ids.values(), now_ms)\n",
        after="",
        test=_MARKS,
        why="A changed item would be found by its old words for ever.",
    ),
    Mutant(
        name="changed-thread-not-marked",
        invariant="documents follow",
        file="store/discussions.py",
        before='    mark(tx, "discussion", [ids[item.record.remote_id] for item in changed], renewal.now_ms)\n',
        after="",
        test=_MARKS,
        why="A new reply would never be found.",
    ),
    Mutant(
        name="gone-thread-not-marked",
        invariant="documents follow",
        file="store/discussions.py",
        before='        mark(tx, "discussion", gone.values(), renewal.now_ms)\n',
        after="",
        test=f"{DOCUMENTS}::test_what_is_gone_takes_its_documents_along[sqlite]",
        why="What was deleted would still be found.",
    ),
    Mutant(
        name="mark-made-anew-is-wiped",
        invariant="documents follow",
        file="store/dirty.py",
        before=' AND source_id = :id AND queued_at = :queued_at",\n',
        after=' AND source_id = :id AND queued_at >= :queued_at",\n',
        test=f"{DOCUMENTS}::test_a_mark_made_anew_while_its_document_was_made_stays[sqlite]",
        why="A change that came while its document was made would be forgotten.",
    ),
    Mutant(
        name="same-document-written-again",
        invariant="documents follow",
        file="store/documents.py",
        before='(0, b""))[1] != hashes[source]]\n',
        after='(0, b""))[1] is not None]\n',
        test=f"{DOCUMENTS}::test_a_document_whose_content_is_the_same_is_not_written_again[sqlite]",
        why="Everything behind a document would be made again: its index, its vectors.",
    ),
)
