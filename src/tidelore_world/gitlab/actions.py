"""The single changes that churn is made of: each finds a fitting row and calls one mutation on it.

Owns the kinds of change, their weights, and how a row is picked. Refuses to choose between kinds (`churn`).
Invariant: an action that finds nothing to change changes nothing and returns None.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tidelore_world.gitlab.records import TOUCH_INTERVAL_US
from tidelore_world.gitlab.shelf import Order
from tidelore_world.gitlab.state import Discussion, Item, Kind, MergeRequest, Note, Project
from tidelore_world.gitlab.statuses import STATUSES
from tidelore_world.gitlab.view import View

Action = Callable[[View, random.Random, Project], Item | None]


def _pick(rng: random.Random, project: Project, kind: Kind, *states: str) -> Item | None:
    shelf = project.shelf(kind)
    numbers = list(shelf.by_id)
    for _ in range(20 if numbers else 0):
        item: Item = shelf.by_id[rng.choice(numbers)]
        if not states or item.state in states:
            return item
    return None


def _pick_any(rng: random.Random, project: Project) -> Item | None:
    return _pick(rng, project, rng.choice(("issues", "merge_requests")))


def delete_item(forge: View, item: Item) -> None:
    """Delete an item of either kind."""
    if isinstance(item, MergeRequest):
        forge.delete_merge_request(item.project, item.iid)
    else:
        forge.delete_issue(item.project, item.iid)


def _on(kind: Kind, mutate: Callable[[View, Project, int], object], *states: str) -> Action:
    def act(forge: View, rng: random.Random, project: Project) -> Item | None:
        item = _pick(rng, project, kind, *states)
        if item is not None:
            mutate(forge, project, item.iid)
        return item

    return act


def _new_issue(forge: View, _rng: random.Random, project: Project) -> Item:
    return forge.create_issue(project, topic=forge.world.prose.topic(project.path))


def _new_merge_request(forge: View, rng: random.Random, project: Project) -> Item:
    issue = _pick(rng, project, "issues", "opened")
    topic = issue.topic if issue is not None and issue.topic else forge.world.prose.topic(project.path)
    return forge.create_merge_request(project, topic=topic, closes=[issue.iid] if issue else ())


def _new_note(forge: View, rng: random.Random, project: Project) -> Item | None:
    item = _pick_any(rng, project)
    if item is None:
        return None
    threads = [found for found in item.discussions if not found.notes[0].system]
    if threads and rng.random() < 0.6:
        forge.add_note(item, discussion=rng.choice(threads))
    else:
        forge.add_note(item, thread=rng.random() < 0.5)
    return item


def _on_note(mutate: Callable[[View, Item, Note], object]) -> Action:
    def act(forge: View, rng: random.Random, project: Project) -> Item | None:
        item = _pick_any(rng, project)
        notes = [note for found in item.discussions for note in found.notes] if item else []
        written = [note for note in notes if not note.system]
        if item is None or not written:
            return None
        mutate(forge, item, rng.choice(written))
        return item

    return act


def _resolve(forge: View, rng: random.Random, project: Project) -> Item | None:
    item = _pick(rng, project, "merge_requests")
    open_threads = [found for found in item.discussions if _unresolved(found)] if item else []
    if not isinstance(item, MergeRequest) or not open_threads:
        return None
    forge.resolve(item, rng.choice(open_threads))
    return item


def _unresolved(discussion: Discussion) -> bool:
    first = discussion.notes[0]
    return first.resolvable and first.resolved_at_us is None


def _reopen_thread(forge: View, rng: random.Random, project: Project) -> Item | None:
    item = _pick(rng, project, "merge_requests")
    if not isinstance(item, MergeRequest):
        return None
    settled = [found for found in item.discussions if found.notes[0].resolved_at_us is not None]
    if not settled:
        return None
    forge.resolve(item, rng.choice(settled), resolved=False)
    return item


def _edit(forge: View, item: Item, **fields: Any) -> Item:
    if isinstance(item, MergeRequest):
        return forge.edit_merge_request(item.project, item.iid, **fields)
    return forge.edit_issue(item.project, item.iid, **fields)


def _throttled_note(forge: View, rng: random.Random, project: Project) -> Item | None:
    """Write under an item that changed within the last minute, so that its `updated_at` stays.

    When nothing changed so recently, an item is edited first.
    """
    kind: Kind = rng.choice(("issues", "merge_requests"))
    latest: list[Item] = project.shelf(kind).ordered(Order("updated_at")).rows(0, 1)
    item = latest[0] if latest else None
    if item is None or forge.world.clock.now_us - item.updated_at_us > TOUCH_INTERVAL_US:
        item = _pick(rng, project, kind)
        if item is None:
            return None
        _edit(forge, item)
    forge.add_note(item, thread=rng.random() < 0.5)
    return item


def _relabel(forge: View, rng: random.Random, project: Project) -> Item | None:
    """Take off a label or put on another one of the project."""
    item = _pick_any(rng, project)
    if item is None:
        return None
    names = [label.name for label in item.labels]
    others = [name for name in (*project.labels, "customer") if name not in names]
    if names and (not others or rng.random() < 0.5):
        names.remove(rng.choice(names))
    else:
        names.append(rng.choice(others))
    return _edit(forge, item, labels=names)


def _set_milestone(forge: View, rng: random.Random, project: Project) -> Item | None:
    item = _pick_any(rng, project)
    if item is None:
        return None
    shown = item.milestone.title if item.milestone else None
    titles = [title for title in (None, *project.milestones, "Autumn review") if title != shown]
    return _edit(forge, item, milestone=rng.choice(titles))


def _set_reviewers(forge: View, rng: random.Random, project: Project) -> Item | None:
    item = _pick(rng, project, "merge_requests")
    people = rng.sample(forge.world.prose.people, rng.randint(0, 2))
    return item and _edit(forge, item, reviewers=people)


def _set_status(forge: View, rng: random.Random, project: Project) -> Item | None:
    item = _pick(rng, project, "issues")
    return item and forge.set_status(project, item.iid, rng.choice(STATUSES).name)


EVERYDAY: Mapping[str, tuple[int, Action]] = MappingProxyType(
    {
        "create_issue": (3, _new_issue),
        "create_merge_request": (2, _new_merge_request),
        "edit_issue": (4, _on("issues", View.edit_issue)),
        "edit_merge_request": (4, _on("merge_requests", View.edit_merge_request)),
        "close_issue": (2, _on("issues", View.close_issue, "opened")),
        "reopen_issue": (1, _on("issues", View.reopen_issue, "closed")),
        "merge_merge_request": (2, _on("merge_requests", View.merge_merge_request, "opened")),
        "close_merge_request": (1, _on("merge_requests", View.close_merge_request, "opened")),
        "push": (1, _on("merge_requests", View.push, "opened")),
        "delete_issue": (1, _on("issues", View.delete_issue)),
        "delete_merge_request": (1, _on("merge_requests", View.delete_merge_request)),
        "add_note": (4, _new_note),
        "edit_note": (1, _on_note(View.edit_note)),
        "delete_note": (1, _on_note(View.delete_note)),
        "resolve": (1, _resolve),
    }
)

ON_REQUEST: Mapping[str, tuple[int, Action]] = MappingProxyType(
    {
        "throttled_note": (3, _throttled_note),
        "reopen_thread": (1, _reopen_thread),
        "relabel": (2, _relabel),
        "set_milestone": (1, _set_milestone),
        "set_reviewers": (2, _set_reviewers),
        "set_status": (2, _set_status),
        "reopen_merge_request": (1, _on("merge_requests", View.reopen_merge_request, "closed")),
        "lock_merge_request": (1, _on("merge_requests", View.lock_merge_request, "opened")),
    }
)
