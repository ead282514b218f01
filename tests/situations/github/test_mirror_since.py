"""A repository with `mirror_since`: pull requests, review comments and topics, which other forges do not have."""

from __future__ import annotations

from collections import Counter

from tests.situations.github.house import REPO, GitHubHouse

from tidelore.core.clock import format_instant

DAY = 86_400


def begin(house: GitHubHouse) -> None:
    """Two old pull requests with review comments and two old topics, of which one each moved since the horizon."""
    forge, world = house.forge, house.world
    for number in (1, 2):
        assert forge.create_pull(REPO).number == number
        # No conversation comments: their number would show that some are missing.
        forge.review_comment(REPO, number, "said long ago on a line", review_id=1)
    topics = [forge.create_discussion(REPO, title, "text", category="Q&A").number for title in ("still", "moved")]
    world.advance(30 * DAY)
    house.settings["host"] = {"mirror_since": format_instant(house.clock.now_ms())}
    world.advance(DAY)
    forge.review_comment(REPO, 2, "said lately on a line", review_id=1)
    forge.comment_discussion(REPO, topics[1], "said lately")
    world.advance(DAY)


def said(house: GitHubHouse) -> Counter[tuple[int, str]]:
    """What the copy has of pull requests: number and text of every comment."""
    sql = (
        "SELECT m.iid, n.body FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN merge_requests m"
        " ON m.id = d.merge_request_id WHERE n.kind <> 'review_summary'"
    )
    return Counter((iid, body) for iid, body in house.rows(sql))


WHOLE = {(2, "said long ago on a line"), (2, "said lately on a line")}


def test_a_pull_request_that_moved_since_the_horizon_has_its_older_comments_too(both: GitHubHouse) -> None:
    begin(both)
    both.sync()
    both.world.advance(120)
    both.sync()
    assert said(both) == Counter(WHOLE)
    assert both.column("SELECT title FROM topics") == ["moved"]
    assert both.audit().differences == []


def test_a_quiet_sync_with_a_horizon_costs_as_much_as_without(house: GitHubHouse) -> None:
    begin(house)
    house.sync()
    house.world.advance(120)
    house.sync()
    assert house.requests(house.sync).total() == 5


def test_a_new_comment_on_an_old_pull_request_is_stored_with_the_whole_conversation(house: GitHubHouse) -> None:
    begin(house)
    house.sync()
    house.forge.comment(REPO, 1, "said at last")
    house.world.advance(120)
    house.sync()
    whole = {(1, "said long ago on a line"), (1, "said at last")}
    assert said(house) == Counter(WHOLE | whole)
    assert house.audit().differences == []


def test_without_the_horizon_the_rest_of_the_repository_is_read(both: GitHubHouse) -> None:
    begin(both)
    both.sync()
    both.settings["host"] = {}
    both.world.advance(120)
    both.sync()
    both.world.advance(120)
    both.sync()
    assert both.differences() == []
