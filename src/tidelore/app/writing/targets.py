"""Find the stored item, thread or comment that a reference names, and the configured repository it belongs to.

A reference is one of an issue, merge request or topic, the id of a thread as `lore threads` and `lore show` print it,
the id of a comment, or the URL of any of them. Reads the local database only.
"""

from __future__ import annotations

from tidelore.app.reading.referring import AnyReference, find_thread, parse_any
from tidelore.app.wiring import App
from tidelore.core.config import feedback_hosts
from tidelore.core.errors import ConfigError, NotFound, UserError
from tidelore.core.model import TOPIC_COMMENT
from tidelore.core.references import CommentReference, Kind, parse_comment_reference
from tidelore.feedback.repositories import ConfiguredRepo
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, list_projects, match_project
from tidelore.store.work.reply_targets import (
    ReplyTarget,
    TargetKind,
    find_item,
    find_threads_named,
    find_threads_of_comment,
    find_threads_on,
    find_topic,
    find_topic_threads,
)

_KINDS: dict[str, Kind] = {"issue": "issue", "merge_request": "mr"}
_TOPIC = "topic"
_COMMENTS = ("note", "issue_comment", "review_comment", "review_summary")
_MOST_SHOWN = 5


def find_target(app: App, database: Database, text: str, project: str | None = None) -> ReplyTarget:
    """Return what a reference names: an item, or a thread of it."""
    comment = parse_comment_reference(text)
    if comment is not None and comment.kind is not None:
        return _of_comment(app, database, text, comment, project)
    try:
        meant = parse_any(text)
    except UserError:
        return _only(database, text, find_threads_named(database, text.strip()), project)
    try:
        return _item(app, database, meant, project)
    except NotFound:
        found = [] if comment is None else find_threads_of_comment(database, comment.id, _COMMENTS)
        found += [] if comment is None else find_topic_threads(database, comment.id)
        if not found:
            raise
        return _only(database, text, found, project)


def find_resolvable(app: App, database: Database, text: str, project: str | None = None) -> ReplyTarget:
    """Return the thread that a reference names, or raise UserError if it cannot be resolved."""
    target = find_target(app, database, text, project)
    if target.thread is None and target.on != _TOPIC:
        found = find_thread(database, parse_any(text), project, app.config.default_project)
        threads = [one.thread for one in find_threads_on(database, _KINDS[found.type], found.id) if one.thread]
        shown = ", ".join(threads[:_MOST_SHOWN]) + (", …" if len(threads) > _MOST_SHOWN else "")
        raise UserError(
            f"{text} is a whole item, not a thread",
            fix=f"name one of its threads: {shown}" if threads else "it has no thread that can be resolved",
            reference=text,
            threads=threads,
        )
    if not target.resolvable:
        what = target.reference if target.thread is None else f"the thread {target.thread} of {target.reference}"
        raise UserError(
            f"{what} cannot be resolved",
            fix="only review threads can be resolved; `lore threads` shows their state",
            reference=text,
        )
    return target


def place_of(app: App, database: Database, target: ReplyTarget) -> tuple[ConfiguredRepo, ProjectRow]:
    """Return the configured repository of a target, or raise ConfigError if it is not configured."""
    project = next(row for row in list_projects(database) if row.id == target.project_id)
    host = next((host for host in feedback_hosts(app.config) if host.name == project.source), None)
    # Projects of a group or an organisation are configured by its name.
    many = () if host is None else (*getattr(host, "groups", ()), *getattr(host, "orgs", ()))
    if host is None or not (project.configured in host.configured or many):
        raise ConfigError(
            f"{project.path} is stored but not configured, so nothing is written there",
            fix=f"add it to the host {project.source} in the configuration file",
            project=project.path,
        )
    return ConfiguredRepo(host, project.configured), project


def _item(app: App, database: Database, meant: AnyReference, project: str | None) -> ReplyTarget:
    found = find_thread(database, meant, project, app.config.default_project)
    if found.type == _TOPIC:
        return find_topic(database, found.id)
    if found.type not in _KINDS:
        raise UserError(
            f"{meant.text} is a {found.type}; only issues, merge requests, topics and their threads can be answered",
            fix="answer it on its web page: `lore open REF`",
            reference=meant.text,
        )
    return find_item(database, _KINDS[found.type], found.id)


def _of_comment(app: App, database: Database, text: str, comment: CommentReference, project: str | None) -> ReplyTarget:
    if comment.kind == TOPIC_COMMENT:
        found = find_topic_threads(database, comment.id)
    else:
        found = find_threads_of_comment(database, comment.id, [comment.kind or ""])
    if comment.page is not None:
        item = _item(app, database, parse_any(comment.page), project)
        found = [one for one in found if (one.project_id, one.on, one.number) == _key(item)]
    return _only(database, text, found, project)


def _key(item: ReplyTarget) -> tuple[int, TargetKind, int]:
    return item.project_id, item.on, item.number


def _only(database: Database, text: str, found: list[ReplyTarget], project: str | None) -> ReplyTarget:
    if project is not None:
        wanted = match_project(database, project).id
        found = [one for one in found if one.project_id == wanted]
    if not found:
        raise NotFound(
            f"the local copy has no item, thread or comment {text!r}",
            fix="`lore threads` and `lore show` print the ids; if it is new, run `lore sync` first",
            reference=text,
        )
    if len(found) > 1:
        places = [one.reference for one in found]
        raise UserError(
            f"{text!r} names {len(found)} threads",
            fix=f"name one with --project, or use the URL: {', '.join(places)}",
            reference=text,
            candidates=places,
        )
    return found[0]
