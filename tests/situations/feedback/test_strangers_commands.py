"""Commands of people who are not operators: recorded, never run, and answered at most once."""

from __future__ import annotations

from tests.situations.feedback.bench import REPO, Bench, open_pulls


def replies(bench: Bench) -> list[tuple[int, str]]:
    """The answers that are to be posted: their thread, and their first line."""
    rows = bench.read("SELECT scope_number, body FROM outbox ORDER BY id")
    return [(number, body.partition("\n")[0]) for number, body in rows]


def test_ten_unauthorised_commands_of_one_author_get_one_reply_per_thread(followed: Bench) -> None:
    open_pulls(followed.world)
    followed.track(2)
    for number in range(5):
        followed.hub.comment(REPO, 1, f"/lore unblock pr={number + 1}", "stranger")
        followed.hub.comment(REPO, 1, "/lore pause", "Stranger" if number else "stranger")
        followed.world.advance(2)
    followed.hub.comment(REPO, 2, "/lore pause", "stranger")
    followed.settle(2)
    rejected = "Rejected: you are not an operator of this repository."
    assert replies(followed) == [(1, rejected), (2, rejected)]
    assert followed.read("SELECT COUNT(*) FROM operator_commands WHERE status = 'rejected'") == [(11,)]


def test_a_poll_counts_the_reply_to_many_commands_of_one_stranger_once(followed: Bench) -> None:
    for number in range(10):
        followed.hub.comment(REPO, 1, f"/lore unblock pr={number + 1}", "stranger")
    assert followed.poll().effects["planned"] == 1


def test_each_unauthorised_author_gets_a_reply(followed: Bench) -> None:
    for author in ("one-stranger", "another-stranger"):
        followed.hub.comment(REPO, 1, "/lore pause", author)
    followed.poll()
    assert len(replies(followed)) == 2


def test_edits_of_an_unauthorised_command_cause_no_further_reply(followed: Bench) -> None:
    said = followed.hub.comment(REPO, 1, "/lore pause", "stranger")
    followed.poll()
    for name in ("resume", "sync", "status"):
        followed.world.advance(60)
        followed.hub.edit_comment(said.id, f"/lore {name}")
        followed.poll()
    assert len(replies(followed)) == 1
    assert len(followed.read("SELECT command FROM operator_commands")) == 4


def test_a_comment_edited_into_an_unauthorised_command_causes_no_reply(followed: Bench) -> None:
    said = followed.hub.comment(REPO, 1, "Just a question", "stranger")
    followed.poll()
    followed.world.advance(60)
    followed.hub.edit_comment(said.id, "/lore pause")
    followed.poll()
    assert followed.read("SELECT command, status FROM operator_commands") == [("pause", "rejected")]
    assert replies(followed) == []
