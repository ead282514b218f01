"""Change without a script: seeded mixes of everyday changes, and the one change a fault asks for.

Owns the choice of what happens next. Refuses to change rows itself; `actions` calls the mutations. Invariant:
same instance, same generator, same changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tidelore_world.clock import iso_millis
from tidelore_world.gitlab.actions import EVERYDAY, ON_REQUEST, delete_item
from tidelore_world.gitlab.records import NotHere
from tidelore_world.gitlab.state import Kind, MergeRequest
from tidelore_world.gitlab.view import View
from tidelore_world.wire import Request

Advance = Callable[[float], None]


def change(
    forge: View, count: int, rng: random.Random, kinds: Sequence[str] | None, advance: Advance | None
) -> list[dict[str, Any]]:
    """Make `count` changes in random projects; with `advance`, some seconds pass before each.

    Without `kinds` it is the everyday mix; the changes of `ON_REQUEST` happen only when named.
    """
    names = list(EVERYDAY) if kinds is None else list(kinds)
    known = {**EVERYDAY, **ON_REQUEST}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown changes {unknown}; known: {', '.join(known)}")
    if not forge.projects:
        raise NotHere("the instance has no project to change")
    done: list[dict[str, Any]] = []
    attempts = 0
    while len(done) < count and attempts < 20 * count:
        attempts += 1
        if advance is not None:
            advance(rng.randint(1, 90))
        name = rng.choices(names, [known[name][0] for name in names])[0]
        project = forge.projects[rng.choice(list(forge.projects))]
        item = known[name][1](forge, rng, project)
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
        delete_item(forge, item)
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
