"""The timeline of an issue or pull request, as `/issues/{n}/timeline` shows it.

Owns the shapes of the entries and their order. Refuses to decide what is recorded (the events do). The shapes differ
as on the real service: a comment and a review look like themselves with an `event`, a commit has a `sha` and no id, a
cross-reference has neither, everything else is an issue event.
"""

from __future__ import annotations

from tidelore_world.github import payloads, remarks
from tidelore_world.github.commits import Commit
from tidelore_world.github.hub import Hub
from tidelore_world.github.payloads import Payload, instant, node_id, user
from tidelore_world.github.records import Event, Review
from tidelore_world.github.repository import Repository

_PREFIXES = {
    "assigned": "AE",
    "closed": "CE",
    "comment_deleted": "CDE",
    "connected": "COE",
    "convert_to_draft": "CTDE",
    "demilestoned": "DEME",
    "head_ref_force_pushed": "HRFPE",
    "labeled": "LE",
    "locked": "LOE",
    "merged": "ME",
    "milestoned": "MIE",
    "ready_for_review": "RFRE",
    "renamed": "RTE",
    "reopened": "REE",
    "review_dismissed": "RDE",
    "review_request_removed": "RRRE",
    "review_requested": "RVRE",
    "transferred": "TE",
    "unassigned": "UNAE",
    "unlabeled": "UNLE",
    "unlocked": "UNLOE",
}


def timeline(
    origin: str, hub: Hub, repo: Repository, number: int, viewer: str, *, line_comments: bool = False
) -> list[Payload]:
    """Everything that happened to a thread, oldest first; a pending review is shown to its author only."""
    entries: list[tuple[int, int, Payload]] = []
    for event in repo.events.get(number, ()):
        shown = _event(origin, hub, repo, event)
        if shown is not None:
            entries.append((event.at_s, event.id, shown))
    for row in repo.comments.of(number):
        said = remarks.comment(origin, repo, row)
        entries.append((row.created_s, row.id, said | {"event": "commented", "actor": said["user"]}))
    thread = repo.thread(number)
    if thread.pull is not None:
        entries += [(made.at_s, 0, _commit(origin, repo, made)) for made in _commits(repo, number)]
        for review in repo.reviews[number].values():
            if is_visible(review, viewer):
                at_s = review.submitted_s
                entries.append((at_s, review.id, _review(origin, repo, review)))
                if line_comments:
                    entries.append((at_s, review.id + 1, _line_comments(origin, repo, review)))
    entries.sort(key=lambda entry: entry[:2])
    return [shown for _, _, shown in entries if shown.get("comments") != []]


def is_visible(review: Review, viewer: str) -> bool:
    """Whether somebody may see a review: a pending one is its author's alone."""
    return review.state != "PENDING" or review.author.login.lower() == viewer.lower()


def event_node_id(event: Event) -> str:
    """The opaque global id of an issue event."""
    return node_id(_PREFIXES.get(event.kind, "EV"), event.id)


def _event(origin: str, hub: Hub, repo: Repository, event: Event) -> Payload | None:
    if event.kind == "cross-referenced":
        return _cross_reference(origin, hub, event)
    base = f"{origin}/repos/{repo.full_name}"
    details = event.details
    commit = details.get("commit")
    shown: Payload = {
        "id": event.id,
        "node_id": event_node_id(event),
        "url": f"{base}/issues/events/{event.id}",
        "actor": None if event.actor is None else payloads.author(origin, event.actor),
        "event": event.kind,
        "commit_id": commit,
        "commit_url": None if commit is None else f"{base}/commits/{commit}",
        "created_at": instant(event.at_s),
    }
    if event.kind == "closed":
        shown["state_reason"] = details.get("state_reason")
    if "label" in details:
        whole = payloads.label(base, details["label"])
        shown["label"] = {"name": whole["name"], "color": whole["color"]}
    if "milestone" in details:
        shown["milestone"] = {"title": details["milestone"]}
    if "assignee" in details:
        shown["assignee"] = user(origin, details["assignee"])
    if event.kind == "renamed":
        shown["rename"] = {"from": details["before"], "to": details["after"]}
    if event.kind == "locked":
        shown["lock_reason"] = details["lock_reason"]
    if event.kind.startswith("review_request"):
        shown["review_requester"] = shown["actor"]
        if "reviewer" in details:
            shown["requested_reviewer"] = user(origin, details["reviewer"])
        else:
            shown["requested_team"] = payloads.team(origin, repo.owner.login, details["team"])
    if event.kind == "review_dismissed":
        told = details["dismissed"]
        shown["dismissed_review"] = {
            "state": told["state"],
            "review_id": told["review_id"],
            "dismissal_message": told["message"] or None,
        }
    return shown | {"performed_via_github_app": None}


def _cross_reference(origin: str, hub: Hub, event: Event) -> Payload | None:
    """A mention from elsewhere; it is gone when the place of the mention is gone."""
    repo_id, number = event.details["source"]
    source = hub.repositories.get(repo_id)
    thread = None if source is None else source.find_thread(number)
    if source is None or thread is None:
        return None
    issue = payloads.issue(origin, source, thread) | {"repository": payloads.repository(origin, source)}
    return {
        "actor": None if event.actor is None else payloads.author(origin, event.actor),
        "created_at": instant(event.at_s),
        "updated_at": instant(event.at_s),
        "source": {"type": "issue", "issue": issue},
        "event": "cross-referenced",
    }


def _commits(repo: Repository, number: int) -> tuple[Commit, ...]:
    """The commits of a pull request's present branch: a force-push takes the old ones out of the timeline."""
    pull = repo.thread(number).require_pull()
    base, head = repo.graph.resolve(pull.base_sha), repo.graph.resolve(pull.head_sha)
    found = None if base is None or head is None else repo.graph.compare(base, head)
    return () if found is None else found.ahead


def _commit(origin: str, repo: Repository, made: Commit) -> Payload:
    base, html = f"{origin}/repos/{repo.full_name}", f"{payloads.web(origin)}/{repo.full_name}"
    signature = {
        "name": made.author.name or made.author.login,
        "email": f"{made.author.login}@users.noreply.example",
        "date": instant(made.at_s),
    }
    tree = made.sha[::-1]
    return {
        "sha": made.sha,
        "node_id": f"C_kwDO{made.sha[:20]}",
        "url": f"{base}/git/commits/{made.sha}",
        "html_url": f"{html}/commit/{made.sha}",
        "author": signature,
        "committer": signature,
        "tree": {"sha": tree, "url": f"{base}/git/trees/{tree}"},
        "message": made.message,
        "parents": [
            {"sha": sha, "url": f"{base}/git/commits/{sha}", "html_url": f"{html}/commit/{sha}"} for sha in made.parents
        ],
        "verification": {"verified": False, "reason": "unsigned", "signature": None, "payload": None},
        "event": "committed",
    }


def _review(origin: str, repo: Repository, review: Review) -> Payload:
    """A review; here its state is in small letters, in the list of reviews it is in capitals."""
    shown = remarks.review(origin, repo, review)
    return shown | {"state": review.state.lower(), "event": "reviewed"}


def _line_comments(origin: str, repo: Repository, review: Review) -> Payload:
    rows = [row for row in repo.review_comments.of(review.number) if row.review_id == review.id]
    return {
        "event": "line-commented",
        "node_id": node_id("PRRT", review.id),
        "comments": [remarks.review_comment(origin, repo, row) for row in rows],
    }
