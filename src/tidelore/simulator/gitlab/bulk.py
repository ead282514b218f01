"""Many items fast: rows for lists of a hundred thousand, without conversations.

Owns the shortcut. Refuses to give such items discussions. Invariant: the rows are ordinary rows; every
mutation and every list treats them like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelore.simulator.clock import DAY_US, HOUR_US
from tidelore.simulator.gitlab.records import ProjectRef, Records
from tidelore.simulator.gitlab.state import Issue, Label, MergeRequest, Project, User, Version
from tidelore.simulator.prose import Topic

SPAN_US = 180 * DAY_US
TEXTS = 256


@dataclass(frozen=True, slots=True)
class _Text:
    topic: Topic
    title: str
    body: str
    labels: list[Label]


def fill(forge: Records, ref: ProjectRef, issues: int, merge_requests: int, *, same_instant: bool = False) -> None:
    """Add this many items; spread over half a year before now, or all updated in one instant."""
    project = forge.project(ref)
    people = [forge.user(person) for person in forge.world.prose.people]
    instants = _instants(forge, issues, same_instant=same_instant)
    texts = _texts(forge, project, min(issues, TEXTS), change=False)
    project.issues.add_all(
        _issue(forge, project, texts[number % len(texts)], people, at) for number, at in enumerate(instants)
    )
    project.open_issues += issues
    instants = _instants(forge, merge_requests, same_instant=same_instant)
    texts = _texts(forge, project, min(merge_requests, TEXTS), change=True)
    project.merge_requests.add_all(
        _merge_request(forge, project, texts[number % len(texts)], people, at) for number, at in enumerate(instants)
    )


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
