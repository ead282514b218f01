"""A sync that takes several turns: who comes first, and when a host counts as up to date."""

from __future__ import annotations

from tidelore.core.errors import RemoteNotFound
from tidelore.engine.intake import Tally
from tidelore.service.jobs import SyncRounds
from tidelore.sync.report import RunReport, ScopeReport

SURFACE = "gitlab.issues"


def read(project: str, source: str = "lab") -> ScopeReport:
    return ScopeReport(source, SURFACE, project, project, tally=Tally(pages=1))


def left(project: str, pages: int = 0, source: str = "lab") -> ScopeReport:
    return ScopeReport(source, SURFACE, project, project, tally=Tally(pages=pages), list_left=True)


def take(rounds: SyncRounds, run_id: int, *scopes: ScopeReport) -> set[str]:
    return rounds.take(RunReport(run_id, list(scopes)))


def test_a_host_is_up_to_date_once_each_of_its_lists_was_read_in_some_turn() -> None:
    rounds = SyncRounds()
    assert take(rounds, 1, read("a"), left("b", pages=4), left("c")) == {"lab"}
    assert take(rounds, 2, left("a"), read("b"), left("c")) == {"lab"}
    assert take(rounds, 3, left("a"), left("b"), read("c")) == set()
    assert take(rounds, 4, left("a"), read("b"), read("c")) == {"lab"}, "a new round begins with nothing"


def test_each_host_has_its_own_rounds() -> None:
    rounds = SyncRounds()
    assert take(rounds, 1, left("a"), read("x", "far")) == {"lab"}
    assert take(rounds, 2, left("x", source="far")) == {"far"}
    assert take(rounds, 3, read("a")) == set()


def test_a_list_with_only_children_left_counts_as_read() -> None:
    scope = read("a")
    scope.children_left = True
    assert take(SyncRounds(), 1, scope) == set()


def test_a_refused_list_does_not_keep_its_host_from_being_up_to_date() -> None:
    rounds, refused = SyncRounds(), read("a")
    refused.error, refused.tally = RemoteNotFound("gone"), Tally()
    assert take(rounds, 7, refused, left("b", pages=2)) == {"lab"}
    assert rounds.turns == {("lab", "a", SURFACE): 7, ("lab", "b", SURFACE): 7}
    assert take(rounds, 8, left("a"), read("b")) == set()


def test_list_turns_are_stored_by_run_and_dropped_for_removed_lists() -> None:
    rounds = SyncRounds()
    take(rounds, 1, read("a"), left("b"), read("gone"), read("x", "far"))
    take(rounds, 2, left("a"), read("b"))
    assert rounds.turns == {("lab", "a", SURFACE): 1, ("lab", "b", SURFACE): 2, ("far", "x", SURFACE): 1}
    take(rounds, 3, left("new"))
    assert rounds.turns == {("lab", "new", SURFACE): 0, ("far", "x", SURFACE): 1}
    assert take(rounds, 4, read("new")) == set(), "what is gone is not waited for"
