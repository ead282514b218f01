"""A sync that takes several turns: who comes first, and when a host counts as up to date."""

from __future__ import annotations

from tidelore.engine.intake import Tally
from tidelore.errors import RemoteNotFound
from tidelore.pipeline.report import RunReport, ScopeReport
from tidelore.service.rounds import Rounds

SURFACE = "gitlab.issues"


def read(project: str, source: str = "lab") -> ScopeReport:
    return ScopeReport(source, SURFACE, project, project, tally=Tally(pages=1))


def left(project: str, pages: int = 0, source: str = "lab") -> ScopeReport:
    return ScopeReport(source, SURFACE, project, project, tally=Tally(pages=pages), list_left=True)


def take(rounds: Rounds, run_id: int, *scopes: ScopeReport) -> set[str]:
    return rounds.take(RunReport(run_id, list(scopes)))


def test_a_host_is_up_to_date_when_each_of_its_lists_was_read_whichever_turns_it_took() -> None:
    rounds = Rounds()
    assert take(rounds, 1, read("a"), left("b", pages=4), left("c")) == {"lab"}
    assert take(rounds, 2, left("a"), read("b"), left("c")) == {"lab"}
    assert take(rounds, 3, left("a"), left("b"), read("c")) == set()
    assert take(rounds, 4, left("a"), read("b"), read("c")) == {"lab"}, "a new round begins with nothing"


def test_hosts_have_rounds_of_their_own() -> None:
    rounds = Rounds()
    assert take(rounds, 1, left("a"), read("x", "far")) == {"lab"}
    assert take(rounds, 2, left("x", source="far")) == {"far"}
    assert take(rounds, 3, read("a")) == set()


def test_what_only_left_children_was_read() -> None:
    scope = read("a")
    scope.children_left = True
    assert take(Rounds(), 1, scope) == set()


def test_a_list_that_was_refused_had_its_turn_and_is_not_waited_for() -> None:
    rounds, refused = Rounds(), read("a")
    refused.error, refused.tally = RemoteNotFound("gone"), Tally()
    assert take(rounds, 7, refused, left("b", pages=2)) == {"lab"}
    assert rounds.turns == {("lab", "a", SURFACE): 7, ("lab", "b", SURFACE): 7}
    assert take(rounds, 8, left("a"), read("b")) == set()


def test_turns_are_remembered_by_run_and_lists_that_are_gone_are_forgotten() -> None:
    rounds = Rounds()
    take(rounds, 1, read("a"), left("b"), read("gone"), read("x", "far"))
    take(rounds, 2, left("a"), read("b"))
    assert rounds.turns == {("lab", "a", SURFACE): 1, ("lab", "b", SURFACE): 2, ("far", "x", SURFACE): 1}
    take(rounds, 3, left("new"))
    assert rounds.turns == {("lab", "new", SURFACE): 0, ("far", "x", SURFACE): 1}
    assert take(rounds, 4, read("new")) == set(), "what is gone is not waited for"
