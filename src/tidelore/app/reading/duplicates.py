"""Find open issues that describe the same thing, in groups, each pair with its evidence.

Compares titles and descriptions by their rare words: the weight of a word falls with the number of issues that use it,
and words in the title count more. A pair that names each other counts as more similar. Nothing is changed or closed.
Reads the local database only.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, instant, means
from tidelore.app.reading.referring import find_thread, parse_any
from tidelore.app.wiring import App
from tidelore.core.errors import UserError
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.lists import OpenIssue, read_open_issues

COMPARED = 3000
"""How many open issues are compared: those that were updated last."""
_WORD = re.compile(r"[^\W\d_][\w-]{2,}")
_TITLE_WEIGHT = 3
_COMMON_SHARE = 0.2
_COMMON_MOST = 40
"""A word in more issues than this says little about a pair, and comparing all of them would take long."""
_REFERENCE_BONUS = 0.2
_SHARED_SHOWN = 8
_DEFAULT_SIMILARITY = 0.4


class DuplicateIssue(Struct, frozen=True):
    """An issue of a group."""

    reference: Annotated[str, means("its full reference")]
    title: Annotated[str, means("its title", untrusted=True)]
    author: Annotated[str | None, means("who wrote it")]
    created_at: Annotated[Instant, means("when it was created")]
    web_url: Annotated[str | None, means("its address")]


class DuplicatePair(Struct, frozen=True):
    """Why two issues of a group belong together."""

    first: Annotated[str, means("reference of one issue")]
    second: Annotated[str, means("reference of the other")]
    similarity: Annotated[float, means("0 to 1, by their rare words; mentions add to it")]
    shared: Annotated[list[str], means("the rarest words they share", untrusted=True)]
    mentioned: Annotated[bool, means("whether one mentions the other")]


class DuplicateGroup(Struct, frozen=True):
    """Issues that may describe the same thing, the oldest first."""

    issues: list[DuplicateIssue]
    pairs: Annotated[list[DuplicatePair], means("the evidence, the most similar pair first")]


class Duplicates(Struct, frozen=True, kw_only=True):
    """The answer of `lore duplicates`."""

    items: Annotated[list[DuplicateGroup], means("groups, the most similar first")]
    total: Annotated[int, means("number of groups")]
    next: Annotated[None, means("null: raise --limit for more")] = None
    compared: Annotated[int, means("number of open issues that were compared")]
    limited: Annotated[bool, means("whether there are more open issues than are compared")]


class DuplicateQuestion(Struct, frozen=True, kw_only=True):
    """What to compare: one issue with all others, or all open issues with each other."""

    reference: str | None = None
    project: str | None = None
    similarity: float = _DEFAULT_SIMILARITY
    limit: int = 20


def find_duplicates(app: App, question: DuplicateQuestion) -> Duplicates:
    """Return groups of open issues that describe the same thing."""
    meant = None if question.reference is None else parse_any(question.reference)
    with app.reading() as database:
        chosen = None
        if meant is not None:
            found = find_thread(database, meant, question.project, app.config.default_project)
            if found.type != "issue":
                raise UserError(f"{meant.text} is not an issue", fix="name an issue, such as #12", reference=meant.text)
            chosen = found.id
        project = match_project(database, question.project).id if question.project and meant is None else None
        issues = read_open_issues(database, project, COMPARED + 1)
    compared = issues[:COMPARED]
    if chosen is not None and all(issue.id != chosen for issue in compared):
        raise UserError(
            f"{question.reference} is not among the open issues that are compared",
            fix="name an open issue that was updated lately",
            reference=question.reference,
        )
    pairs = [
        (similarity, first, second, shared)
        for similarity, first, second, shared in compare_issues(compared, chosen)
        if similarity >= question.similarity
    ]
    groups = _groups(compared, pairs)
    return Duplicates(
        items=groups[: question.limit], total=len(groups), compared=len(compared), limited=len(issues) > COMPARED
    )


def compare_issues(issues: Sequence[OpenIssue], chosen: int | None) -> list[tuple[float, int, int, list[str]]]:
    """Return pairs of places in `issues` with their similarity and shared words; only those with `chosen`, if given."""
    counts = [_words(issue) for issue in issues]
    spread = Counter(word for count in counts for word in count)
    common = min(max(len(issues) * _COMMON_SHARE, 3), _COMMON_MOST)
    weights = [_weights(count, spread, len(issues), common) for count in counts]
    holders: dict[str, list[int]] = {}
    for place, weight in enumerate(weights):
        for word in weight:
            holders.setdefault(word, []).append(place)
    products: dict[tuple[int, int], float] = {}
    for word, places in holders.items():
        for index, first in enumerate(places):
            for second in places[index + 1 :]:
                if chosen is None or chosen in (issues[first].id, issues[second].id):
                    key = first, second
                    products[key] = products.get(key, 0.0) + weights[first][word] * weights[second][word]
    found = []
    for (first, second), product in products.items():
        shared = sorted(weights[first].keys() & weights[second].keys(), key=lambda word: (spread[word], word))
        bonus = _REFERENCE_BONUS if _mentions(issues[first], issues[second]) else 0.0
        found.append((min(product + bonus, 1.0), first, second, shared[:_SHARED_SHOWN]))
    return sorted(found, key=lambda pair: (-pair[0], pair[1], pair[2]))


def _words(issue: OpenIssue) -> Counter[str]:
    count = Counter(word.lower() for word in _WORD.findall(issue.description[:8000]))
    for word in _WORD.findall(issue.title):
        count[word.lower()] += _TITLE_WEIGHT
    return count


def _weights(count: Counter[str], spread: Counter[str], total: int, common: float) -> dict[str, float]:
    """Return the weight of each word that others share but not too many, as a vector of length one."""
    raw = {
        word: (1 + math.log(times)) * math.log(1 + total / spread[word])
        for word, times in count.items()
        if spread[word] <= common
    }
    length = math.sqrt(sum(value * value for value in raw.values()))
    return {word: value / length for word, value in raw.items() if spread[word] > 1} if length else {}


def _mentions(first: OpenIssue, second: OpenIssue) -> bool:
    return any(
        re.search(rf"(?<![\w/]){re.escape(name)}#{other.iid}\b", one.description) is not None
        for one, other in ((first, second), (second, first))
        for name in ((other.project, "") if one.project == other.project else (other.project,))
    )


def _groups(issues: Sequence[OpenIssue], pairs: Sequence[tuple[float, int, int, list[str]]]) -> list[DuplicateGroup]:
    """Return the issues that pairs connect, as groups in the order of their most similar pair."""
    leader = list(range(len(issues)))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    for _, first, second, _ in pairs:
        leader[find(first)] = find(second)
    evidence: dict[int, list[DuplicatePair]] = {}
    members: dict[int, set[int]] = {}
    for similarity, first, second, shared in pairs:
        group = find(first)
        mentioned = _mentions(issues[first], issues[second])
        names = _reference(issues[first]), _reference(issues[second])
        evidence.setdefault(group, []).append(DuplicatePair(*names, round(similarity, 2), shared, mentioned))
        members.setdefault(group, set()).update((first, second))
    return [DuplicateGroup(_issues(issues, members[group]), found) for group, found in evidence.items()]


def _issues(issues: Sequence[OpenIssue], places: set[int]) -> list[DuplicateIssue]:
    ordered = sorted((issues[place] for place in places), key=lambda issue: (issue.created_at, issue.id))
    return [
        DuplicateIssue(_reference(issue), issue.title, issue.author, instant(issue.created_at), issue.web_url)
        for issue in ordered
    ]


def _reference(issue: OpenIssue) -> str:
    return issue.references_full or f"{issue.project}#{issue.iid}"
