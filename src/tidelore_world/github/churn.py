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
    from tidelore_world.github.talking import Talking

Advance = Callable[[float], None]
Deed = Callable[["Talking", Prose, random.Random, Repository], int | None]


def change(
    events: Talking,
    prose: Prose,
    count: int,
    rng: random.Random,
    kinds: Sequence[str] | None = None,
    advance: Advance | None = None,
) -> list[dict[str, Any]]:
    """Let `count` things happen in random repositories; with `advance`, some seconds pass before each."""
    repositories = list(events.hub.repositories.values())
    if not repositories:
        raise ValueError("the hub has no repository to change")

    def act(name: str) -> dict[str, Any] | None:
        repository = rng.choice(repositories)
        number = DEEDS[name][1](events, prose, rng, repository)
        return None if number is None else {"repo": repository.full_name, "number": number}

    return draw({name: weight for name, (weight, _) in DEEDS.items()}, act, count, rng, kinds, advance)


def _open(rng: random.Random, repo: Repository, *, pulls_only: bool = False) -> int | None:
    found = [row.number for row in repo.threads if row.state == "open" and (row.pull is not None or not pulls_only)]
    return rng.choice(found) if found else None


def _someone(prose: Prose, rng: random.Random) -> str:
    return login_of(rng.choice(prose.people).username)


def _words(prose: Prose) -> str:
    return prose.comment(prose.topic()).body


def _comment(events: Talking, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo)
    if number is not None:
        events.comment(repo.full_name, number, _words(prose), _someone(prose, rng))
    return number


def _remark(events: Talking, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.review_comment(repo.full_name, number, _words(prose), _someone(prose, rng), line=rng.randint(1, 200))
    return number


def _review(events: Talking, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.review(repo.full_name, number, "CHANGES_REQUESTED", _words(prose), _someone(prose, rng))
    return number


def _edit(events: Talking, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    rows = list(repo.comments)
    if not rows:
        return None
    row = rng.choice(rows)
    events.edit_comment(row.id, prose.revise(row.body))
    return row.number


def _delete(events: Talking, _prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    rows = list(repo.comments)
    if not rows:
        return None
    row = rng.choice(rows)
    events.delete_comment(row.id)
    return row.number


def _push(events: Talking, _prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.push(repo.full_name, number)
    return number


def _merge(events: Talking, _prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    number = _open(rng, repo, pulls_only=True)
    if number is not None:
        events.merge(repo.full_name, number)
    return number


def _pull(events: Talking, prose: Prose, rng: random.Random, repo: Repository) -> int | None:
    topic = prose.topic()
    return events.create_pull(repo.full_name, prose.change_title(topic), author=_someone(prose, rng)).number


DEEDS: Mapping[str, tuple[float, Deed]] = MappingProxyType(
    {
        "comment": (8, _comment),
        "remark": (6, _remark),
        "review": (2, _review),
        "edit": (3, _edit),
        "delete": (1, _delete),
        "push": (2, _push),
        "merge": (0.3, _merge),
        "create_pull": (0.5, _pull),
    }
)
"""What may happen, and how often beside the others."""
