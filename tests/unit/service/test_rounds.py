"""A sync that takes several turns: who comes first, and when a project counts as up to date."""

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


def take(rounds: SyncRounds, run_id: int, *scopes: ScopeReport) -> set[tuple[str, str]]:
    return rounds.take(RunReport(run_id, list(scopes)))


OTHER = "gitlab.merge_requests"
A, B = ("lab", "a"), ("lab", "b")


def of(surface: str, scope: ScopeReport) -> ScopeReport:
    scope.surface = surface
    return scope


def test_a_project_is_up_to_date_once_each_of_its_lists_was_read_in_some_turn() -> None:
    rounds = SyncRounds()
    assert take(rounds, 1, read("a"), of(OTHER, left("a", pages=4)), read("b")) == {A}
    assert take(rounds, 2, left("a"), of(OTHER, read("a")), left("b")) == {B}
    assert take(rounds, 3, left("a"), of(OTHER, read("a")), read("b")) == {A}, "a new round begins with nothing"
    assert take(rounds, 4, read("a"), of(OTHER, left("a")), read("b")) == set()


def test_each_project_of_each_host_has_its_own_rounds() -> None:
    rounds = SyncRounds()
    assert take(rounds, 1, left("a"), read("a", "far"), left("b")) == {A, B}
    assert take(rounds, 2, left("a", source="far")) == {("far", "a")}
    assert take(rounds, 3, read("a")) == set(), "a run without the other projects says nothing of them"
    assert take(rounds, 4, left("b"), read("a", "far")) == {B}


def test_a_list_with_only_children_left_counts_as_read() -> None:
    scope = read("a")
    scope.children_left = True
    assert take(SyncRounds(), 1, scope) == set()


def test_a_refused_list_does_not_keep_its_project_from_being_up_to_date() -> None:
    rounds, refused = SyncRounds(), read("a")
    refused.error, refused.tally = RemoteNotFound("gone"), Tally()
    assert take(rounds, 7, refused, of(OTHER, left("a", pages=2))) == {A}
    assert rounds.turns == {("lab", "a", SURFACE): 7, ("lab", "a", OTHER): 7}
    assert take(rounds, 8, left("a"), of(OTHER, read("a"))) == set()


def test_list_turns_are_stored_by_run_and_dropped_for_removed_lists() -> None:
    rounds = SyncRounds()
    take(rounds, 1, read("a"), of(OTHER, left("a")), of("gitlab.gone", read("a")), read("x", "far"))
    take(rounds, 2, left("a"), of(OTHER, read("a")))
    assert rounds.turns == {("lab", "a", SURFACE): 1, ("lab", "a", OTHER): 2, ("far", "x", SURFACE): 1}
    take(rounds, 3, of("gitlab.new", left("a")))
    assert rounds.turns == {("lab", "a", "gitlab.new"): 0, ("far", "x", SURFACE): 1}
    assert take(rounds, 4, of("gitlab.new", read("a"))) == set(), "what is gone is not waited for"
