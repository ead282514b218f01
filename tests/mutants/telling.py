"""Bugs about documents and vectors: what is not marked, what is forgotten too early, what is made for nothing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DOCUMENTS = "tests/contract/test_store_documents.py"
CHANGES = "tests/contract/test_store_changes.py"
_VECTORS = "tests/contract/test_store_vectors.py"
KILLED = "tests/crash/test_kill_documents.py::test_a_sync_killed_while_building_documents_or_vectors_continues"
_MARKS = f"{DOCUMENTS}::test_every_change_marks_the_affected_documents_in_the_same_transaction[sqlite]"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="changed-parent-not-marked",
        invariant="documents follow",
        file="store/mirror/parents.py",
        before="    mark_parents(tx, family.kind, ids.values(), now_ms, [ids[remote_id] for remote_id in known])\n",
        after="",
        test=_MARKS,
        why="A changed item would be found by its old words for ever.",
    ),
    Mutant(
        name="changed-thread-not-marked",
        invariant="documents follow",
        file="store/mirror/children.py",
        before='    mark(tx, "discussion", ids.values(), renewal.now_ms)\n',
        after="",
        test=_MARKS,
        why="A new reply would never be found.",
    ),
    Mutant(
        name="gone-thread-not-marked",
        invariant="documents follow",
        file="store/mirror/children.py",
        before='    mark(tx, "discussion", gone.values(), renewal.now_ms)\n',
        after="",
        test=f"{DOCUMENTS}::test_deleting_an_item_deletes_its_documents[sqlite]",
        why="What was deleted would still be found.",
    ),
    Mutant(
        name="mark-made-anew-is-wiped",
        invariant="documents follow",
        file="store/mirror/documents.py",
        before=' AND source_id = :id AND queued_at = :queued_at",\n',
        after=' AND source_id = :id AND queued_at >= :queued_at",\n',
        test=f"{DOCUMENTS}::test_a_mark_set_while_its_document_is_being_built_stays[sqlite]",
        why="A change that came while its document was made would be forgotten.",
    ),
    Mutant(
        name="same-document-written-again",
        invariant="documents follow",
        file="store/mirror/documents.py",
        before='(0, b""))[1] != hashes[source]]\n',
        after='(0, b""))[1] is not None]\n',
        test=f"{DOCUMENTS}::test_a_document_whose_content_is_the_same_is_not_written_again[sqlite]",
        why="Everything behind a document would be made again: its index, its vectors.",
    ),
    Mutant(
        name="marks-wiped-in-a-commit-of-their-own",
        invariant="documents follow",
        file="documents/generation.py",
        before="""    shop.seam(Seam.BEFORE_COMMIT)
""",
        after="""    shop.seam(Seam.BEFORE_COMMIT)
    with shop.database.transaction() as tx:
        wipe(tx, done)
""",
        test=f"{KILLED}[sqlite-nothing-documents-inside-commit-3]",
        why="Killed between the two, nothing would know any more that these documents are missing.",
    ),
    Mutant(
        name="changed-document-not-due",
        invariant="vectors follow",
        file="store/reading/vectors.py",
        before=" WHERE (e.content_hash IS NULL OR e.content_hash <> d.content_hash){narrowed}",
        after=" WHERE (e.content_hash IS NULL){narrowed}",
        test=f"{_VECTORS}::test_a_changed_document_is_embedded_again_and_its_old_vector_deleted[sqlite]",
        why="A document would be found by what it no longer says.",
    ),
    Mutant(
        name="vector-of-an-older-text-stored",
        invariant="vectors follow",
        file="store/reading/vectors.py",
        before="            if hashes.get(embedded.document_id) == embedded.content_hash\n",
        after="            if embedded.document_id in hashes\n",
        test=f"{_VECTORS}::test_a_document_that_changes_while_it_is_embedded_stays_due[sqlite]",
        why="It needs no lease only because it stores nothing that is not true any more.",
    ),
    Mutant(
        name="held-pieces-embedded-again",
        invariant="vectors follow",
        file="documents/embed.py",
        before=" for place, piece in enumerate(pieces) if held.get(place) != hashes[place]}",
        after=" for place, piece in enumerate(pieces) if held is not None}",
        test=f"{_VECTORS}::test_only_changed_chunks_are_embedded[sqlite]",
        why="A new title would cost the vectors of a whole discussion.",
    ),
    Mutant(
        name="vectors-of-the-texts-split-ahead",
        invariant="vectors follow",
        file="embedding/local.py",
        before="""            split = await coming
            if following < len(parts):
                coming = loop.run_in_executor(None, self._split, parts[following])
""",
        after="""            if following < len(parts):
                coming = loop.run_in_executor(None, self._split, parts[following])
            split = await coming
""",
        test="tests/unit/embedding/test_local.py::test_each_of_many_texts_gets_its_own_vector",
        why="Documents would be found by what others say.",
    ),
    Mutant(
        name="document-counted-as-embedded-before-its-vectors",
        invariant="vectors follow",
        file="documents/embed.py",
        before="""        shop.seam(Seam.BEFORE_COMMIT)
        with shop.database.transaction() as tx:
""",
        after="""        with shop.database.transaction() as tx:
            tx.execute_rows(
                "UPDATE embeddings SET content_hash = :hash WHERE document_id = :document",
                ("hash", "document"),
                [(embedded.content_hash, embedded.document_id) for embedded in batch],
            )
        with shop.database.transaction() as tx:
""",
        test=f"{KILLED}[sqlite-an-older-copy-lease-released-inside-commit-3]",
        why="Killed between the two, the old vectors would stay for ever.",
    ),
    Mutant(
        name="change-of-a-thread-not-numbered",
        invariant="changes listed once",
        file="store/mirror/changes.py",
        before='("merge_request", tuple([request for _, request in rows if request is not None]), now_ms)',
        after='("merge_request", (), now_ms)',
        test=f"{CHANGES}::test_a_removed_comment_moves_its_item[sqlite]",
        why="A review that changed would not be news.",
    ),
    Mutant(
        name="changes-of-a-failed-transaction-kept",
        invariant="changes listed once",
        file="store/database/sqlite.py",
        before="            self._gathered.clear()\n",
        after="            pass\n",
        test=f"{CHANGES}::test_a_transaction_that_is_rolled_back_leaves_no_change_and_no_gap_that_hides_one[sqlite]",
        why="Items would be listed as changed that are not.",
    ),
    Mutant(
        name="number-of-a-change-used-twice",
        invariant="changes listed once",
        file="store/mirror/changes.py",
        before=" ON CONFLICT (id) DO UPDATE SET seq = change_counter.seq + 1,",
        after=" ON CONFLICT (id) DO UPDATE SET seq = change_counter.seq,",
        test=f"{CHANGES}::test_every_stored_change_moves_its_item_and_nothing_else[sqlite]",
        why="A reader that has seen a number would miss the next change under the same number.",
    ),
    Mutant(
        name="page-of-changes-begins-with-its-last",
        invariant="changes listed once",
        file="store/reading/changes.py",
        before="(seq, thread_type, thread_id) < (:seq, :type, :id)",
        after="(seq, thread_type, thread_id) <= (:seq, :type, :id)",
        test=f"{CHANGES}::test_pages_list_each_item_of_the_window_once_while_items_move_out_of_it[sqlite]",
        why="The last item of a page would be repeated on the next, for ever.",
    ),
)
