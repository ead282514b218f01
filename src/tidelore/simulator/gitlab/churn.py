"""Change without a script: seeded mixes of everyday changes, and the one change a fault asks for.

Owns the choice of what happens next. Refuses to change rows itself; it calls the mutations. Invariant: same
instance, same generator, same changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from tidelore.simulator.clock import iso_millis
from tidelore.simulator.gitlab.records import NotHere
from tidelore.simulator.gitlab.state import Discussion, Item, Kind, MergeRequest, Note, Project
from tidelore.simulator.gitlab.view import View
from tidelore.simulator.wire import Request

Advance = Callable[[float], None]
_Action = Callable[[View, random.Random, Project], Item | None]


def change(
    forge: View, count: int, rng: random.Random, kinds: Sequence[str] | None, advance: Advance | None
) -> list[dict[str, Any]]:
    """Make `count` changes in random projects; with `advance`, some seconds pass before each."""
    names = list(ACTIONS) if kinds is None else list(kinds)
    unknown = [name for name in names if name not in ACTIONS]
    if unknown:
        raise ValueError(f"unknown changes {unknown}; known: {', '.join(ACTIONS)}")
    if not forge.projects:
        raise NotHere("the instance has no project to change")
    done: list[dict[str, Any]] = []
    attempts = 0
    while len(done) < count and attempts < 20 * count:
        attempts += 1
        if advance is not None:
            advance(rng.randint(1, 90))
        name = rng.choices(names, [ACTIONS[name][0] for name in names])[0]
        project = forge.projects[rng.choice(list(forge.projects))]
        item = ACTIONS[name][1](forge, rng, project)
        if item is not None:
            at = iso_millis(forge.world.clock.now_us)
            done.append({"kind": name, "project": project.path, "list": item.kind, "iid": item.iid, "at": at})
    return done


def disturb(forge: View, request: Request, row: Mapping[str, Any], how: Literal["edit", "delete"]) -> bool:
    """Edit or delete the item, or the first note of the thread, that a list row shows."""
    try:
        if "notes" in row:
            return _disturb_thread(forge, request, row, how)
        kind: Kind = "merge_requests" if "source_branch" in row else "issues"
        item = forge.item(kind, int(row["project_id"]), int(row["iid"]))
    except (NotHere, KeyError):
        return False
    if how == "delete":
        _delete(forge, item)
    elif isinstance(item, MergeRequest):
        forge.edit_merge_request(item.project, item.iid)
    else:
        forge.edit_issue(item.project, item.iid)
    return True


def _disturb_thread(forge: View, request: Request, row: Mapping[str, Any], how: Literal["edit", "delete"]) -> bool:
    ref, kind, iid = request.segments[3:6]
    parent = forge.item("issues" if kind == "issues" else "merge_requests", _ref(ref), int(iid))
    note = forge.discussion(parent, str(row["id"])).notes[0]
    if how == "delete":
        forge.delete_note(parent, note)
    else:
        forge.edit_note(parent, note)
    return True


def _ref(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


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


def _delete(forge: View, item: Item) -> Item:
    if isinstance(item, MergeRequest):
        forge.delete_merge_request(item.project, item.iid)
    else:
        forge.delete_issue(item.project, item.iid)
    return item


def _on(kind: Kind, mutate: Callable[[View, Project, int], object], *states: str) -> _Action:
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


def _on_note(mutate: Callable[[View, Item, Note], object]) -> _Action:
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


ACTIONS: Mapping[str, tuple[int, _Action]] = MappingProxyType(
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
