"""Copies to look at: one small and ordinary, one in which every text of others is an attack."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from starlette.testclient import TestClient
from tests.databases.feeds import HANDLES, MIRA, NOOR, follow, link, post, share
from tests.databases.migrated_file import lay_out
from tests.databases.samples import CREATED, add_project, issue, merge_request, scope_of, topic, topic_comment
from tests.databases.talk import (
    DIFFS,
    DISCUSSIONS,
    RESOURCE_EVENTS,
    attach,
    discussion,
    file_change,
    keep,
    note,
    placed,
    state_event,
)
from tests.faces.web.reading import HOST
from tests.support.manual_clock import ManualClock

from tidelore.app.syncing import generate_documents
from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.core.config_file import parse_config
from tidelore.core.content import digest
from tidelore.core.model import Item, LabelEventRecord, Version
from tidelore.core.progress import silent
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.mirror.topics import TopicTable
from tidelore.web.guard import Access, make_access
from tidelore.web.server import build_site

PATH = "port/harbour"
HUNK = "@@ -38,3 +38,4 @@ def moor(ship):\n     if not ship:\n-    return\n+    return None\n     rope = cast()"


def open_app(address: Path | str) -> App:
    """Return the application on a copy, an hour after its last change."""
    return App(Config(), {}, db=str(address), clock=ManualClock(CREATED + 3_600_000))


def with_login(app: App, login: str) -> App:
    """Return the application of a reader who is known on the host of the copy."""
    hosts = [{"name": "gitlab", "base_url": "https://forge.test", "projects": [PATH], "login": login}]
    return replace(app, config=parse_config({"gitlab": hosts}))


def client_of(app: App, access: Access | None = None) -> TestClient:
    """Return a browser of the site, which asks for HTML as browsers do."""
    site = build_site(app, access or make_access("127.0.0.1", 8765, None))
    return TestClient(site, base_url=HOST, headers={"accept": "text/html"}, follow_redirects=True)


def ordinary(path: Path) -> App:
    """An issue, a merge request with every kind of thread, a topic and posts."""
    lay_out(path)
    return fill(str(path))


def fill(address: str) -> App:
    """Put the ordinary copy into an empty database."""
    with closing(open_database(address)) as database:
        project = add_project(database, 1, PATH)
        page = f"https://forge.test/{PATH}/-"
        named: dict[str, Any] = {
            "references_full": f"{PATH}#1",
            "web_url": f"{page}/issues/1",
            "labels": ("bug", "crane"),
        }
        keep(database, project, ISSUES, [issue(1, title="The crane stops", **named), issue(2, state="closed")])
        spoken = [
            discussion("talk", note(11, "Which **crane**? See !3."), note(12, "The ![blue](https://x.test/b.png)"))
        ]
        attach(database, project, "issues", 1, DISCUSSIONS, *spoken)
        attach(database, project, "issues", 1, RESOURCE_EVENTS, state_event(5), _label_event(6, "bug"))
        keep(
            database, project, MERGE_REQUESTS, [merge_request(3, title="Grease the crane", references_full=f"{PATH}!3")]
        )
        threads = [
            discussion("open", placed(21, "Why None?", "src/moor.py", 39, author_username="noor")),
            discussion("done", placed(22, "Typo.", "src/moor.py", 40, resolved=True, resolved_by="noor")),
            discussion("plain", note(23, "Looks good.")),
        ]
        attach(database, project, "merge_requests", 3, DISCUSSIONS, *threads)
        attach(database, project, "merge_requests", 3, DIFFS, file_change("src/moor.py", "src/moor.py"))
        _set_hunk(database, HUNK)
        _keep_topics(database, project, [topic(7, topic_comment(71), topic_comment(72, "Thanks.", parent_id=71))])
        follow(database, MIRA, NOOR)
        first = post(MIRA, "a", links=(link("https://a.test/1", "A chart"),), alt_text=("a chart of the bay",))
        answer = post(NOOR, "b", kind="reply", reply_parent=first.record.uri, reply_root=first.record.uri)
        share(database, answer, first)
    app = open_app(address)
    generate_documents(app, silent)
    return app


def hostile(path: Path, corpus: Sequence[str]) -> App:
    """Put every text of a corpus into titles, bodies, labels, people, branches, file names, handles and addresses."""
    lay_out(path)
    with closing(open_database(str(path))) as database:
        project = add_project(database, 1, PATH)
        numbered = list(enumerate(corpus, 1))
        keep(database, project, ISSUES, [_hostile_issue(number, text) for number, text in numbered])
        keep(database, project, MERGE_REQUESTS, [_hostile_request(number, text) for number, text in numbered])
        for number, text in numbered:
            where = {"author_username": text}
            attach(
                database, project, "issues", number, DISCUSSIONS, discussion(f"i{number}", note(number, text, **where))
            )
            attach(database, project, "issues", number, RESOURCE_EVENTS, _label_event(number, text))
            said = placed(1000 + number, text, text or "x", number, **where)
            attach(database, project, "merge_requests", number, DISCUSSIONS, discussion(f"m{number}", said))
            attach(database, project, "merge_requests", number, DIFFS, file_change(text, text))
        with database.transaction() as tx:
            tx.execute("UPDATE notes SET diff_hunk = body, url = body WHERE position_new_path IS NOT NULL")
            tx.execute("UPDATE child_sync SET last_error = (SELECT title FROM issues i WHERE i.id = parent_id)")
        topics = [
            replace(topic(number), record=replace(topic(number, topic_comment(number * 10, text, author=text)).record,
                    title=text, body=text, category=text, author=text, url=text))
            for number, text in numbered
        ]  # fmt: skip
        _keep_topics(database, project, topics)
        follow(database, MIRA)
        posts = [
            post(MIRA, f"k{number}", CREATED + number, text=text, links=(link(text, text),), alt_text=(text,),
                 url=text, tags=(text,), labels=(text,))
            for number, text in numbered
        ]  # fmt: skip
        share(database, *posts)
        with database.transaction() as tx:
            tx.execute("UPDATE accounts SET handle = :text, display_name = :text, last_error = :text, reason = :text",
                       {"text": corpus[0]})  # fmt: skip
            tx.execute("UPDATE posts SET author_handle = text")
    app = open_app(path)
    generate_documents(app, silent)
    return app


def _hostile_issue(number: int, text: str) -> Item[Any]:
    return issue(
        number, title=text, description=text, author_username=text, milestone_title=text, labels=(text,),
        assignees=(text,), web_url=text, references_full=text, due_date=text,
    )  # fmt: skip


def _hostile_request(number: int, text: str) -> Item[Any]:
    return merge_request(
        number, title=text, description=text, author_username=text, source_branch=text, target_branch=text,
        labels=(text,), reviewers=(text,), assignees=(text, "dana"), web_url=text, references_full=text,
        detailed_merge_status=text,
    )  # fmt: skip


def _label_event(remote_id: int, name: str) -> Item[LabelEventRecord]:
    record = LabelEventRecord(remote_id, name, "add", name, CREATED)
    payload = repr(record).encode()
    return Item(Version(f"label:{remote_id}", 0, digest(payload)), 0, payload, record)


def _keep_topics(database: Database, project: ProjectRow, items: Sequence[Item[Any]]) -> None:
    writer = PageWriter(database, scope_of(project, "github.topics"), TopicTable(), lambda: CREATED)
    writer.commit(Batch(list(items), Cursor()))


def _set_hunk(database: Database, hunk: str) -> None:
    with database.transaction() as tx:
        tx.execute("UPDATE notes SET diff_hunk = :hunk WHERE position_new_path IS NOT NULL", {"hunk": hunk})


__all__ = ["HANDLES", "HUNK", "MIRA", "PATH", "client_of", "fill", "hostile", "open_app", "ordinary"]
