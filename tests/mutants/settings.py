"""Bugs about settings and rights that change between runs: marks of earlier ones that stay in force."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SETTINGS = "changed settings"
HISTORIES = "tests/properties/test_changed_settings.py"
_REFUSED = "tests/situations/gitlab/test_refused_children.py"
_ADDRESS = "tests/situations/gitlab/test_changed_address.py"
_STATUS = "tests/situations/test_issue_status.py"
_SWITCHING = "tests/situations/feedback/test_switching.py"

MUTANTS = (
    Mutant(
        name="refusal-outlives-the-token",
        invariant=SETTINGS,
        file="store/mirror/source_access.py",
        before="                if source in known:\n",
        after="                if source not in known:\n",
        test=f"{_REFUSED}::test_a_kind_refused_to_one_token_is_requested_with_another_at_once",
        why="What one token may not read would not be asked for with another one for up to a week.",
    ),
    Mutant(
        name="page-address-outlives-base-url",
        invariant=SETTINGS,
        file="engine/walk.py",
        before="            is_unknown = isinstance(error, ForeignOrigin) or error.status in {400, 404, 410, 422}\n",
        after="            is_unknown = error.status in {400, 404, 410, 422}\n",
        test=f"{_ADDRESS}::test_a_list_interrupted_within_one_instant_is_read_on_at_the_new_address",
        why="A list that stopped within an instant would fail at every sync.",
    ),
    Mutant(
        name="ids-of-another-server-believed",
        invariant=SETTINGS,
        file="sync/projects.py",
        before="    if record.remote_id != known.remote_id:\n",
        after="    if record.remote_id == known.remote_id and record.path != known.path:\n",
        test=f"{_ADDRESS}::test_another_server_at_the_address_of_a_host_is_refused_and_changes_nothing",
        why="Items of two servers would be mixed in one project.",
    ),
    Mutant(
        name="items-by-the-ids-of-another-server",
        invariant=SETTINGS,
        file="sync/surgical_preflight.py",
        before="        await confirm_address(self.config, self.sources[source], row)\n",
        after="",
        test=f"{_ADDRESS}::test_another_server_at_the_address_of_a_host_is_asked_for_nothing_by_other_commands",
        why="A surgical sync would store an item of another project.",
    ),
    Mutant(
        name="absent-statuses-count-as-read",
        invariant=SETTINGS,
        file="sync/children.py",
        before="            self._do_without(project)\n            return\n",
        after="            self._do_without(project)\n            statuses = {issue.iid: None for issue in issues}\n",
        test=f"{_STATUS}::test_statuses_that_a_server_offers_later_are_read_for_all_issues",
        why="Issues that do not change would never get the status that the server offers later.",
    ),
    Mutant(
        name="new-rule-only-for-what-changes",
        invariant=SETTINGS,
        file="feedback/consumer.py",
        before="            for pull in open_pulls(self._database, row.id) if rule else ():\n",
        after="            for pull in open_pulls(self._database, row.id)[:0]:\n",
        test=f"{_SWITCHING}::test_a_rule_that_is_added_later_tracks_the_pull_requests_that_are_open[all]",
        why="What is said on an open pull request of an author who was added later would be no event.",
    ),
)
