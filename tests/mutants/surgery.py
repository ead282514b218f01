"""Bugs in the syncing of named items: fetched without the lock, stored in one go, touching nothing of others."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

INGEST = "tests/situations/surgical/test_ingest.py"
PREFLIGHT = "tests/situations/surgical/test_preflight.py"
RACES = "tests/situations/surgical/test_races.py"
STAGES = "tests/situations/surgical/test_stages.py"
SCOPE = "tests/situations/surgical/test_retry_and_scope.py"
SURGERY = "surgical sync"

MUTANTS = (
    Mutant(
        name="fetched-version-overwrites-a-newer-row",
        invariant=SURGERY,
        file="store/mirror/page_writer.py",
        before="        return local.updated_at > updated_at\n",
        after="        return False\n",
        test=f"{INGEST}::test_stale_payload_is_skipped_when_local_updated_at_is_newer",
        why="Nothing was locked while it was fetched: another sync may have stored a newer version since.",
    ),
    Mutant(
        name="equal-instant-overwrites-what-was-seen-later",
        invariant=SURGERY,
        file="store/mirror/page_writer.py",
        before="    return local.last_seen_at > fetched_since or (local.deleted_at or 0) > fetched_since\n",
        after="    return (local.deleted_at or 0) > fetched_since\n",
        test=f"{INGEST}::test_equal_updated_at_but_newer_last_seen_is_skipped",
        why="Of two answers of one instant the one that was asked for later is right.",
    ),
    Mutant(
        name="named-items-stored-although-one-is-missing",
        invariant=SURGERY,
        file="sync/surgical.py",
        before="        if report.entity_failures:\n            report.completion_status",
        after="        if len(report.entity_failures) == report.requested_count:\n            report.completion_status",
        test=f"{PREFLIGHT}::test_one_preflight_failure_leaves_the_database_content_untouched",
        why="All or nothing is what was promised to whoever named them.",
    ),
    Mutant(
        name="item-of-another-project-believed",
        invariant=SURGERY,
        file="sync/surgical_preflight.py",
        before="    if project_id not in (None, remote_id):\n",
        after="    if project_id == 0:\n",
        test=f"{PREFLIGHT}::test_payload_project_id_mismatch_is_rejected_in_preflight",
        why="A proxy that answers for another project would corrupt this one in silence.",
    ),
    Mutant(
        name="children-of-a-named-item-not-made-due",
        invariant=SURGERY,
        file="store/mirror/page_writer.py",
        before="    for name in family.kind.children:\n        make_due(tx, family.kind, name, project.id, [row_id])\n",
        after="",
        test=f"{INGEST}::test_ingest_mr_by_iid_resets_discussion_watermark",
        why="Killed before its children were read, nobody would read them again.",
    ),
    Mutant(
        name="named-item-drains-the-marks-of-all",
        invariant=SURGERY,
        file="sync/surgical.py",
        before="list(dict.fromkeys(keys)))",
        after="None if keys else [])",
        test=f"{STAGES}::test_surgical_docs_scope_ignores_preexisting_dirty_rows",
        why="To refresh one item would cost what everybody else left to do.",
    ),
    Mutant(
        name="named-item-embeds-the-documents-of-others",
        invariant=SURGERY,
        file="app/mirroring.py",
        before="await store_vectors(app, shop, made, only=only, on_progress=tell)",
        after="await store_vectors(app, shop, made, only=only and None, on_progress=tell)",
        test=f"{STAGES}::test_scoped_embed_does_not_embed_unrelated_docs_created_after_docs_stage",
        why="What another sync just wrote would be embedded here, however much it is.",
    ),
    Mutant(
        name="lease-kept-while-named-items-are-embedded",
        invariant=SURGERY,
        file="sync/surgical.py",
        before="        self.session.give_back()\n",
        after="",
        test=f"{STAGES}::test_scoped_embed_does_not_embed_unrelated_docs_created_after_docs_stage",
        why="An embedder may take minutes, and nobody could write meanwhile.",
    ),
)
