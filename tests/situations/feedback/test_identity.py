"""A repository is its number: a renamed one is learnt, and one that takes over an old name is refused."""

from __future__ import annotations

import pytest
from tests.situations.feedback.bench import REPO, Bench
from tests.support.deep import gate_cases

from tidelore.core.errors import RepositoryReplaced

BY = pytest.mark.parametrize("fetch", ["repo", "thread"])
NEW = "octo/ocean"


def followed_by(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch}
    bench.track(1)
    bench.hub.comment(REPO, 1, "said before")
    bench.settle(3)


def take_over(bench: Bench, *, pulls: int = 1) -> None:
    """Rename the repository, and let another one take its name."""
    bench.hub.rename_repo(REPO, NEW)
    bench.hub.create_repo(REPO)
    for _ in range(pulls):
        number = bench.hub.create_pull(REPO, "A pull request of another repository", author="octo").number
        bench.hub.comment(REPO, number, "said in another repository")
    bench.world.advance(60)


@BY
@pytest.mark.parametrize("pulls", [0, 1])
@gate_cases(2)
def test_a_repository_that_took_over_the_name_is_refused_and_nothing_of_it_is_read(
    bench: Bench, fetch: str, pulls: int
) -> None:
    followed_by(bench, fetch)
    before = bench.read("SELECT status, pull_updated_at, title FROM tracked_prs")
    take_over(bench, pulls=pulls)
    bench.hub.comment(NEW, 1, "said in the renamed one")
    for _ in range(2):
        report = bench.try_poll()
        assert isinstance(report.error, RepositoryReplaced)
        assert "lore sources accept github octo/tide" in (report.error.fix or "")
        bench.world.advance(60)
    assert bench.bodies() == ["said before"]
    assert bench.read("SELECT status, pull_updated_at, title FROM tracked_prs") == before


@BY
def test_a_name_that_redirects_to_another_repository_is_refused(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    take_over(bench)
    bench.hub.rename_repo(REPO, "octo/elsewhere")
    bench.world.advance(86_460)
    assert isinstance(bench.try_poll().error, RepositoryReplaced)
    assert bench.bodies() == ["said before"]


@BY
def test_a_renamed_repository_is_learnt_and_costs_no_redirect_any_more(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.rename_repo(REPO, NEW)
    bench.hub.comment(NEW, 1, "said after the rename")
    bench.settle(2)
    assert bench.read("SELECT path, configured FROM projects") == [(NEW, REPO)]
    assert bench.bodies() == ["said before", "said after the rename"]
    names = "SELECT repo_full_name FROM tracked_prs UNION SELECT repo_full_name FROM feedback_events"
    assert bench.read(names) == [(NEW,)]
    bench.settle(2)
    seen = len(bench.world.log)
    assert bench.counted(bench.poll)["304"] == 3
    assert [status for _, _, status in bench.world.log[seen:]] == [304, 304, 304]
    bench.hub.comment(NEW, 1, "and it goes on")
    bench.world.advance(60)
    bench.poll()
    assert bench.bodies()[-1] == "and it goes on"
    assert 301 not in [status for _, _, status in bench.world.log[seen:]]


@BY
def test_a_learnt_repository_is_followed_on_when_another_one_takes_its_old_name(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.rename_repo(REPO, NEW)
    bench.settle(1)
    bench.hub.create_repo(REPO)
    number = bench.hub.create_pull(REPO, "A pull request of another repository", author="octo").number
    bench.hub.comment(REPO, number, "said in another repository")
    bench.hub.comment(NEW, 1, "said in the renamed one")
    bench.settle(2)
    assert bench.bodies() == ["said before", "said in the renamed one"]
