"""Life without a script: a seeded mix of what people do in repositories.

Owns the choice of what happens next. Refuses to change anything itself; the events do. Invariant: same hub, same
generator, same changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidelore_world.drawing import draw
from tidelore_world.github.history import login_of
from tidelore_world.github.repository import Repository
from tidelore_world.prose import Prose

if TYPE_CHECKING:
    from tidelore_world.github.discussing import Discussing

Advance = Callable[[float], None]
Deed = Callable[["Discussing", Prose, random.Random, Repository], int | None]


def change(
    events: Discussing,
    prose: Prose,
    count: int,
    rng: random.Random,
    kinds: Sequence[str] | None = None,
    advance: Advance | None = None,
) -> list[dict[str, Any]]:
    """Let `count` things happen in random repositories; with `advance`, some seconds pass before each.

    Without `kinds`, everyday ones only: what hides or ends something happens on request.
    """
    repositories = list(events.hub.repositories.values())
    if not repositories:
        raise ValueError("the hub has no repository to change")

    def act(name: str) -> dict[str, Any] | None:
        repository = rng.choice(repositories)
        number = DEEDS[name][1](events, prose, rng, repository)
        return None if number is None else {"repo": repository.full_name, "number": number}

    weights = {name: weight for name, (weight, _) in DEEDS.items()}
    return draw(weights, act, count, rng, EVERYDAY if kinds is None else kinds, advance)


def _open(rng: random.Random, repo: Repository, *, pulls_only: bool = False) -> int | None:
    found = [row.number for row in repo.threads if row.state == "open" and (row.pull is not None or not pulls_only)]
    return rng.choice(found) if found else None


def _someone(prose: Prose, rng: random.Random) -> str:
    return login_of(rng.choice(prose.people).username)


def _words(prose: Prose) -> str:
    return prose.comment(prose.topic()).body


def _comment(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo)
    if number is not None:
        events.comment(repo.full_name, number, _words(prose), _someone(prose, rng))
    return number


def _remark(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.review_comment(repo.full_name, number, _words(prose), _someone(prose, rng), line=rng.randint(1, 200))
    return number


def _review(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.review(repo.full_name, number, "CHANGES_REQUESTED", _words(prose), _someone(prose, rng))
    return number


def _draft(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    """Begin a review with a remark that only its author sees."""
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        who = _someone(prose, rng)
        review = events.review(repo.full_name, number, "PENDING", _words(prose), who)
        events.review_comment(repo.full_name, number, _words(prose), who, review_id=review.id)
    return number


def _submit(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    """Submit a pending review; if there is none, begin one."""
    rows = [row for reviews in repo.reviews.values() for row in reviews.values() if row.state == "PENDING"]
    if not rows:
        return _draft(events, prose, rng, repo)
    row = rng.choice(rows)
    events.submit_review(repo.full_name, row.number, row.id)
    return row.number


def _edit(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    rows = list(repo.comments)
    if not rows:
        return None
    row = rng.choice(rows)
    events.edit_comment(row.id, prose.revise(row.body))
    return row.number


def _delete(events: Discussing, _prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    rows = list(repo.comments)
    if not rows:
        return None
    row = rng.choice(rows)
    events.delete_comment(row.id)
    return row.number


def _push(events: Discussing, _prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.push(repo.full_name, number)
    return number


def _merge(events: Discussing, _prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.merge(repo.full_name, number)
    return number


def _pull(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    topic = prose.topic()
    return events.create_pull(repo.full_name, prose.change_title(topic), author=_someone(prose, rng)).number


def _issue(rng: random.Random, repo: Repository, state: str = "open") -> int | None:
    found = [row.number for row in repo.threads if row.pull is None and row.state == state]
    return rng.choice(found) if found and repo.has_issues else None


def _create_issue(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    if not repo.has_issues:
        return None
    topic = prose.topic()
    title, body = prose.issue_title(topic), prose.issue_body(topic)
    return events.create_issue(repo.full_name, title, body, _someone(prose, rng), labels=topic.labels).number


def _on_issue(act: Callable[[Discussing, str, int, str, random.Random], object], state: str = "open") -> Deed:
    """Something that is done to an issue by somebody."""

    def deed(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
        number = _issue(rng, repo, state)
        if number is not None:
            act(events, repo.full_name, number, _someone(prose, rng), rng)
        return number

    return deed


def _on_pull(act: Callable[[Discussing, str, int, str, random.Random], object]) -> Deed:
    """Something that is done to an open pull request by somebody."""

    def deed(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
        number = _open(rng, repo, pulls_only=True)
        if number is not None:
            act(events, repo.full_name, number, _someone(prose, rng), rng)
        return number

    return deed


def _on_repository(act: Callable[[Discussing, Repository], object]) -> Deed:
    """Something that is done to a whole repository; it has no number."""

    def deed(events: Discussing, _prose: Prose, _rng: random.Random, repo: Repository) -> int | None:
        act(events, repo)
        return 0

    return deed


def _milestone(events: Discussing, name: str, number: int, who: str, rng: random.Random) -> None:
    known = events.repository(name).milestones
    chosen = rng.choice([None, *known]) if known else events.create_milestone(name, "Next", creator=who).number
    events.set_milestone(name, number, chosen, actor=who)


def _thread_deed(act: Callable[[Discussing, str, int, str], object]) -> Deed:
    """Something that is done to a review thread."""

    def deed(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
        if not repo.review_threads:
            return None
        thread = repo.review_threads[rng.choice(list(repo.review_threads))]
        act(events, repo.full_name, thread.id, _someone(prose, rng))
        return thread.number

    return deed


def _review_deed(act: Callable[[Discussing, Prose, str, int, int], object]) -> Deed:
    """Something that is done to a submitted review."""

    def deed(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
        found = [(row.number, row.id) for rows in repo.reviews.values() for row in rows.values() if row.shown_s]
        if not found:
            return None
        number, review_id = rng.choice(found)
        act(events, prose, repo.full_name, number, review_id)
        return number

    return deed


def _discuss(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    """Comment on a discussion or reply to one of its comments; now and then begin a new one."""
    rows = list(repo.discussions)
    if not repo.has_discussions:
        return None
    if not rows or rng.random() < 0.2:
        topic = prose.topic()
        title, body = prose.issue_title(topic), prose.issue_body(topic)
        return events.create_discussion(repo.full_name, title, body, _someone(prose, rng), category="Q&A").number
    number = rng.choice(rows).number
    known = [row.id for row in repo.discussion_comments.of(number)]
    parent = rng.choice(known) if known and rng.random() < 0.4 else None
    events.comment_discussion(repo.full_name, number, _words(prose), _someone(prose, rng), reply_to=parent)
    return number


def _discussion_deed(act: Callable[[Discussing, Prose, str, int, random.Random], object]) -> Deed:
    """Something that is done to a discussion comment."""

    def deed(events: Discussing, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
        rows = [row for row in repo.discussion_comments if row.deleted_s is None]
        if not rows or not repo.has_discussions:
            return None
        row = rng.choice(rows)
        act(events, prose, repo.full_name, row.id, rng)
        return row.number

    return deed


def _answer(events: Discussing, _prose: Prose, name: str, comment_id: int, _rng: random.Random) -> None:
    repo = events.repository(name)
    row = repo.discussion_comments.get(comment_id)
    if row is not None and repo.discussion(row.number).category.answerable:
        events.choose_answer(name, comment_id, row.number)


_EVERYDAY: Mapping[str, tuple[float, Deed]] = {
    "comment": (8, _comment),
    "remark": (6, _remark),
    "review": (2, _review),
    "edit": (3, _edit),
    "delete": (1, _delete),
    "push": (2, _push),
    "merge": (0.3, _merge),
    "create_pull": (0.5, _pull),
    "create_issue": (1, _create_issue),
    "close_issue": (0.7, _on_issue(lambda events, name, number, who, _: events.close(name, number, who))),
    "reopen_issue": (0.3, _on_issue(lambda events, name, number, who, _: events.reopen(name, number, who), "closed")),
    "edit_issue": (0.7, _on_issue(lambda events, name, number, _w, rng: _retitle(events, name, number, rng))),
    "label": (1, _on_issue(lambda events, name, number, who, _: events.label(name, number, "triaged", actor=who))),
    "unlabel": (
        0.5,
        _on_issue(lambda events, name, number, who, _: events.unlabel(name, number, "triaged", actor=who)),
    ),
    "assign": (1, _on_issue(lambda events, name, number, who, _: events.assign(name, number, who, actor=who))),
    "milestone": (0.7, _on_issue(_milestone)),
    "request_review": (0.7, _on_pull(lambda events, name, number, who, _: events.request_review(name, number, who))),
    "resolve": (1.5, _thread_deed(lambda events, name, thread, who: events.resolve_thread(name, thread, who))),
    "unresolve": (0.5, _thread_deed(lambda events, name, thread, _who: events.unresolve_thread(name, thread))),
    "discuss": (1.5, _discuss),
    "answer": (0.3, _discussion_deed(_answer)),
}

_ON_REQUEST: Mapping[str, tuple[float, Deed]] = {
    "draft_review": (1, _draft),
    "submit_review": (2, _submit),
    "outdate": (1, _thread_deed(lambda events, name, thread, _who: events.outdate_thread(name, thread))),
    "force_push": (1, _on_pull(lambda events, name, number, _w, _r: events.push(name, number, force=True))),
    "add_files": (1, _on_pull(lambda events, name, number, _w, _r: events.push(name, number, files=["src/main.py"]))),
    "close_pull": (1, _on_pull(lambda events, name, number, who, _: events.close(name, number, who))),
    "lock": (1, _on_issue(lambda events, name, number, who, _: events.lock(name, number, "resolved", actor=who))),
    "delete_issue": (1, _on_issue(lambda events, name, number, _w, _r: events.delete_issue(name, number))),
    "transfer": (1, _on_issue(lambda events, name, number, who, rng: _transfer(events, name, number, who, rng))),
    "edit_review": (
        1,
        _review_deed(lambda events, prose, name, number, row: events.edit_review(name, number, row, _words(prose))),
    ),
    "dismiss_review": (
        1,
        _review_deed(lambda events, _p, name, number, row: events.dismiss_review(name, number, row, "Outdated.")),
    ),
    "edit_discussion_comment": (
        1,
        _discussion_deed(lambda events, prose, name, row, _: events.edit_discussion_comment(name, row, _words(prose))),
    ),
    "delete_discussion_comment": (
        1,
        _discussion_deed(lambda events, _p, name, row, _r: events.delete_discussion_comment(name, row)),
    ),
    "archive": (1, _on_repository(lambda events, repo: events.archive_repo(repo.full_name))),
    "switch_issues": (
        1,
        _on_repository(lambda events, repo: events.switch_issues(repo.full_name, on=not repo.has_issues)),
    ),
    "switch_discussions": (
        1,
        _on_repository(lambda events, repo: events.switch_discussions(repo.full_name, on=not repo.has_discussions)),
    ),
    "make_private": (1, _on_repository(lambda events, repo: events.make_private(repo.full_name))),
    "make_public": (1, _on_repository(lambda events, repo: events.make_public(repo.full_name))),
}


def _retitle(events: Discussing, name: str, number: int, rng: random.Random) -> None:
    title = events.repository(name).thread(number).title.partition(" [")[0]
    events.edit_thread(name, number, title=f"{title} [{rng.randint(2, 99)}]")


def _transfer(events: Discussing, name: str, number: int, who: str, rng: random.Random) -> None:
    others = [repo.full_name for repo in events.hub.repositories.values() if repo.full_name != name]
    if others:
        events.transfer_issue(name, number, rng.choice(others), actor=who)


DEEDS: Mapping[str, tuple[float, Deed]] = MappingProxyType({**_EVERYDAY, **_ON_REQUEST})
"""What may happen, and how often beside the others."""

EVERYDAY: tuple[str, ...] = tuple(_EVERYDAY)
"""What happens unless other kinds are asked for."""
