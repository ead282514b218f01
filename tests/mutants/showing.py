"""Bugs of the web page: texts of others that act, and readers that are let in."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TEXT = "texts of others do not act"
ACCESS = "only the reader gets in"
HOSTILE = "tests/faces/web/test_hostile_text.py"
GUARD = "tests/faces/web/test_guard.py"
LOCKED = "lockdown leaves text out"
LOCKDOWN = "tests/faces/test_lockdown.py"
_ON_ITEMS = f"{HOSTILE}::test_no_text_of_the_corpus_acts_on_the_page_of_its_item"

SNAPSHOT = "what a snapshot holds"
SNAPSHOT_TESTS = "tests/faces/test_snapshot.py"
_MADE = f"{SNAPSHOT_TESTS}::test_a_snapshot_holds_every_kept_row_and_no_state_of_this_machine"
SNAPSHOTS = (
    Mutant(
        name="snapshot-with-secrets",
        invariant=SNAPSHOT,
        file="store/database/snapshot.py",
        before="""        "projects": "id = :project",\n""",
        after="""        "projects": "id = :project",\n        "local_secrets": None,\n""",
        test=_MADE,
        why="The secret that signs our replies would be in the hands of every reader.",
    ),
    Mutant(
        name="snapshot-with-words-of-other-projects",
        invariant=SNAPSHOT,
        file="store/database/snapshot.py",
        before="_index_text(connection, whole=plan.project_id is None)",
        after="_index_text(connection, whole=True)",
        test=f"{SNAPSHOT_TESTS}::test_a_snapshot_of_one_project_holds_no_word_of_another",
        why="The full-text index of all projects would be in the file of one.",
    ),
    Mutant(
        name="snapshot-turned-into-a-wal-database",
        invariant=SNAPSHOT,
        file="store/database/sqlite.py",
        before="if not read_only and not self._is_snapshot:",
        after="if not read_only:",
        test=f"{SNAPSHOT_TESTS}::"
        "test_reading_a_snapshot_in_a_writable_folder_does_not_change_it_and_syncing_into_it_is_refused",
        why="Its first reader would change the file under the others, and it could not be read from read-only media.",
    ),
)

MUTANTS = (
    *SNAPSHOTS,
    Mutant(
        name="markdown-shown-without-the-sanitiser",
        invariant=TEXT,
        file="web/markdown.py",
        before='return Markup(_clean("".join(rewriter.parts), images=images))',
        after='return Markup("".join(rewriter.parts))',
        test=_ON_ITEMS,
        why="HTML in a comment would run.",
    ),
    Mutant(
        name="templates-do-not-escape",
        invariant=TEXT,
        file="web/rendering.py",
        before="autoescape=True",
        after="autoescape=False",
        test=_ON_ITEMS,
        why="HTML in a title or a label would run.",
    ),
    Mutant(
        name="invisible-characters-shown",
        invariant=TEXT,
        file="web/rendering.py",
        before="return without_hidden(value) if isinstance(value, str) and not isinstance(value, Markup) else value",
        after="return value",
        test=_ON_ITEMS,
        why="A title could be reordered, or hide a part of itself.",
    ),
    Mutant(
        name="link-with-any-scheme",
        invariant=TEXT,
        file="web/addresses.py",
        before='return address if parts.scheme in {"http", "https"} and parts.netloc else None',
        after="return address",
        test=f"{HOSTILE}::test_no_text_of_the_corpus_acts_in_lists_search_files_posts_and_accounts",
        why="The address of an item or a shared link could be a script.",
    ),
    Mutant(
        name="any-host-answered",
        invariant=ACCESS,
        file="web/guard.py",
        before="        if not self._is_own_host(host):\n",
        after="        if not host:\n",
        test=f"{GUARD}::test_a_request_for_another_host_name_is_refused[evil.example]",
        why="A site whose name is made to point here could read the copy.",
    ),
    Mutant(
        name="any-origin-answered",
        invariant=ACCESS,
        file="web/guard.py",
        before="""if origin is not None and origin != f"{scope.get('scheme', 'http')}://{host}":""",
        after="if origin is None and not host:",
        test=f"{GUARD}::test_a_request_that_another_site_makes_is_refused[https://evil.example]",
        why="Another site could ask for pages and forms.",
    ),
    Mutant(
        name="form-without-its-token",
        invariant=ACCESS,
        file="web/guard.py",
        before="if not hmac.compare_digest(given.encode(), csrf_token(access, request.state.session).encode()):",
        after="if given and len(given) != 64:",
        test=f"{GUARD}::test_a_form_without_the_token_of_its_session_is_refused",
        why="Another site could press our buttons.",
    ),
    Mutant(
        name="others-reach-it-without-a-token",
        invariant=ACCESS,
        file="web/guard.py",
        before="    if token is None and host not in LOOPBACK:\n",
        after="    if token is None and not host:\n",
        test=f"{GUARD}::test_an_address_that_others_reach_needs_a_token",
        why="Everyone on the network could read private projects.",
    ),
    Mutant(
        name="unknown-author-trusted",
        invariant=LOCKED,
        file="app/reading/lockdown.py",
        before="self._levels[project_id].get(author.casefold(), 0)",
        after="self._levels[project_id].get(author.casefold(), WRITER_LEVEL)",
        test=f"{LOCKDOWN}::test_without_stored_associations_and_members_everything_is_left_out",
        why="A stranger's text would be shown where the members of the project are not stored.",
    ),
    Mutant(
        name="passage-of-anybody-in-lockdown",
        invariant=LOCKED,
        file="app/reading/lockdown.py",
        before="if len(kept) < len(parts) or not parts:",
        after="if not kept:",
        test=f"{LOCKDOWN}::test_a_passage_is_chosen_from_the_texts_of_trusted_people_alone",
        why="A search result would quote a stranger who wrote in the same thread as a maintainer.",
    ),
)
