"""Many pull requests and issues fast, for benchmarks: bare, or each with review threads.

Owns the shortcut: rows are made whole and put away once, no event is recorded. Invariant: the rows are ordinary rows;
every event and every list treats them like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidelore_world.clock import DAY_US, HOUR_US, SECOND_US
from tidelore_world.github.files import changed_files, hunk_at
from tidelore_world.github.records import Pull, Review, ReviewComment, ReviewThread, Thread, User
from tidelore_world.github.repository import Repository
from tidelore_world.prose import Prose, Topic

if TYPE_CHECKING:
    from tidelore_world.github.discussing import Discussing

_SPAN_US = 180 * DAY_US
_TEXTS = 128
_CONVERSATION_S = 6 * 3600


@dataclass(frozen=True, slots=True)
class _Text:
    topic: Topic
    title: str
    body: str
    remarks: tuple[str, ...]


def fill(
    events: Discussing, prose: Prose, full_name: str, *, pulls: int, issues: int, threads: int, comments: int
) -> None:
    """Add items spread over the half year before now; each pull request has `threads` of `comments` comments."""
    repo = events.repository(full_name)
    people = [events.hub.user(person.username.replace(".", "-"), "User", person.name) for person in prose.people]
    texts = [_text(prose, change=index % 2 == 0) for index in range(min(_TEXTS, 2 * (pulls + issues)))]
    last_s = (events.now_us - HOUR_US) // SECOND_US
    step = max(1, _SPAN_US // SECOND_US // max(1, pulls + issues))
    for index in range(pulls + issues):
        at_s = last_s - step * (pulls + issues - index)
        text = texts[index % len(texts)]
        thread = _thread(events, repo, text, people, at_s, is_pull=index < pulls)
        if thread.pull is not None:
            thread = _discuss(events, repo, thread, text, people, threads, comments)
        repo.put_thread(thread)


def _text(prose: Prose, *, change: bool) -> _Text:
    topic = prose.topic()
    title = prose.change_title(topic) if change else prose.issue_title(topic)
    body = prose.change_body(topic) if change else prose.issue_body(topic)
    return _Text(topic, title, body, tuple(prose.comment(topic).body for _ in range(4)))


def _thread(
    events: Discussing, repo: Repository, text: _Text, people: list[User], at_s: int, *, is_pull: bool
) -> Thread:
    number = repo.next_number
    repo.next_number += 1
    who, pull = people[number % len(people)], None
    if is_pull:
        base_sha = repo.graph.branches[repo.default_branch]
        ref = f"{text.topic.slug}-{number}"
        head = repo.graph.commit(events.new_sha(), (base_sha,), text.title, who, at_s)
        repo.graph.branches[ref] = head.sha
        files = changed_files((), list(text.topic.paths[:2]))
        pull = Pull(events.hub.new_id(), ref, head.sha, repo.default_branch, base_sha, files=files)
    title = f"{text.title} ({number})"
    return Thread(events.hub.new_id(), number, title, text.body, who, at_s, at_s, text.topic.labels, pull=pull)


def _discuss(
    events: Discussing, repo: Repository, thread: Thread, text: _Text, people: list[User], threads: int, comments: int
) -> Thread:
    """Hang review threads under a pull request; every second one is resolved."""
    pull, at_s = thread.require_pull(), thread.created_s
    for place in range(threads):
        path = text.topic.paths[place % len(text.topic.paths)] if text.topic.paths else "README.md"
        thread_id, line = events.hub.new_id("thread"), 10 + 7 * place
        made: list[int] = []
        for turn in range(comments):
            at_s = thread.created_s + (place * comments + turn + 1) * _CONVERSATION_S // max(1, threads * comments)
            who = people[(thread.number + place + turn + 1) % len(people)]
            review_id = events.hub.new_id("review")
            repo.reviews[thread.number][review_id] = Review(
                review_id, thread.number, who, "", "COMMENTED", at_s, pull.head_sha, at_s, at_s
            )
            row = ReviewComment(
                id=events.hub.new_id("review_comment"),
                number=thread.number,
                author=who,
                body=text.remarks[(place + turn) % len(text.remarks)],
                created_s=at_s,
                updated_s=at_s,
                review_id=review_id,
                path=path,
                line=line,
                commit_sha=pull.head_sha,
                in_reply_to=made[0] if made else None,
                thread_id=thread_id,
                original_commit_sha=pull.head_sha,
                diff_hunk=hunk_at(path, line),
            )
            repo.review_comments.put(row)
            made.append(row.id)
        resolved = place % 2 == 0
        repo.put_review_thread(
            ReviewThread(thread_id, thread.number, tuple(made), thread.author if resolved else None, resolved)
        )
    pull = replace(pull, review_comments=threads * comments)
    return replace(thread, updated_s=at_s, pull=pull)
