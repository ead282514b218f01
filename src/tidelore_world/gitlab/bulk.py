"""Many items fast: rows for lists of a hundred thousand, bare or each with the same number of children.

Owns the shortcut for items; what hangs under them comes from `bulk_threads`. Refuses to change a row it did
not make. Invariant: the rows are ordinary rows; every mutation and every list treats them like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelore_world.clock import DAY_US, HOUR_US
from tidelore_world.gitlab.bulk_threads import CONVERSATION_US, Children, Hanger
from tidelore_world.gitlab.records import ProjectRef, Records
from tidelore_world.gitlab.state import Issue, Label, MergeRequest, Project, User, Version
from tidelore_world.prose import Topic

SPAN_US = 180 * DAY_US
TEXTS = 256


@dataclass(frozen=True, slots=True)
class _Text:
    topic: Topic
    title: str
    body: str
    labels: list[Label]


def fill(
    forge: Records,
    ref: ProjectRef,
    issues: int,
    merge_requests: int,
    *,
    same_instant: bool = False,
    children: Children | None = None,
) -> None:
    """Add this many items; spread over half a year before now, or all updated in one instant."""
    project = forge.project(ref)
    people = [forge.user(person) for person in forge.world.prose.people]
    made = _fill_issues(forge, project, people, _instants(forge, issues, same_instant=same_instant), children)
    instants = _instants(forge, merge_requests, same_instant=same_instant)
    texts = _texts(forge, project, min(merge_requests, TEXTS), change=True)
    hanger = None if children is None else Hanger(forge, project, children, [text.topic for text in texts], people)
    closable: Sequence[Issue] = made or (list(project.issues) if children else [])

    def make(number: int, at: int) -> MergeRequest:
        request = _merge_request(forge, project, texts[number % len(texts)], people, at)
        if hanger is not None:
            _open_earlier(request)
            hanger.dress_merge_request(request, number)
            _close(request, closable, number, mention=bool(made))
        return request

    project.merge_requests.add_all(make(number, at) for number, at in enumerate(instants))


def _fill_issues(
    forge: Records, project: Project, people: list[User], instants: list[int], children: Children | None
) -> list[Issue]:
    """The issues made, when somebody may refer to them."""
    texts = _texts(forge, project, min(len(instants), TEXTS), change=False)
    hanger = None if children is None else Hanger(forge, project, children, [text.topic for text in texts], people)
    made: list[Issue] = []

    def make(number: int, at: int) -> Issue:
        issue = _issue(forge, project, texts[number % len(texts)], people, at)
        if hanger is not None:
            _open_earlier(issue)
            hanger.dress(issue, number)
            made.append(issue)
        return issue

    project.issues.add_all(make(number, at) for number, at in enumerate(instants))
    project.open_issues += len(instants)
    return made


def _open_earlier(item: Issue | MergeRequest) -> None:
    """Make room for a conversation before the item's last change."""
    item.created_at_us -= CONVERSATION_US
    if isinstance(item, MergeRequest):
        item.versions[0].created_at_us = item.created_at_us


def _close(request: MergeRequest, closable: Sequence[Issue], number: int, *, mention: bool) -> None:
    """Say which issue a merge request closes; only an issue of the same filling learns of it."""
    if closable:
        issue = closable[number % len(closable)]
        request.closes = [issue.iid]
        issue.merge_requests_count += mention


def _instants(forge: Records, count: int, *, same_instant: bool) -> list[int]:
    last = forge.world.clock.now_us - HOUR_US
    if same_instant:
        return [last] * count
    step = SPAN_US // max(1, count)
    return [last - step * (count - number) + 137 * number % 997 for number in range(1, count + 1)]


def _texts(forge: Records, project: Project, count: int, *, change: bool) -> list[_Text]:
    prose = forge.world.prose
    texts: list[_Text] = []
    for _ in range(count):
        topic = prose.topic(project.path)
        title = prose.change_title(topic) if change else prose.issue_title(topic)
        body = prose.change_body(topic) if change else prose.issue_body(topic)
        texts.append(_Text(topic, title, body, [forge.label(project, name) for name in topic.labels]))
    return texts


def _issue(forge: Records, project: Project, text: _Text, people: list[User], at: int) -> Issue:
    project.last_iid["issues"] += 1
    iid = project.last_iid["issues"]
    return Issue(
        id=forge.new_id(),
        iid=iid,
        project=project,
        title=f"{text.title} ({iid})",
        description=text.body,
        author=people[iid % len(people)],
        created_at_us=at,
        updated_at_us=at,
        labels=list(text.labels),
        topic=text.topic,
    )


def _merge_request(forge: Records, project: Project, text: _Text, people: list[User], at: int) -> MergeRequest:
    project.last_iid["merge_requests"] += 1
    iid = project.last_iid["merge_requests"]
    head, start = (f"{forge.world.rng.getrandbits(160):040x}" for _ in range(2))
    return MergeRequest(
        id=forge.new_id(),
        iid=iid,
        project=project,
        title=f"{text.title} ({iid})",
        description=text.body,
        author=people[iid % len(people)],
        created_at_us=at,
        updated_at_us=at,
        labels=list(text.labels),
        topic=text.topic,
        source_branch=f"{text.topic.slug}-{iid}",
        versions=[Version(forge.new_id(), head, start, start, at, 0)],
    )
