"""A desk for one GitLab project: a world whose answers can be rewritten, and the questions tests ask of the copy."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.faces.desk import Desk, Outcome

from tidelore.store.database.opening import open_database
from tidelore.store.mirror.payloads import PayloadReader
from tidelore_world.gitlab.state import Discussion, Item, MergeRequest
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

PROJECT = "harbor/platform/ledger"
DAY = 86_400


@dataclass
class Rewrite:
    """Changes the answers of one address; `fired` counts those it really changed."""

    path: re.Pattern[str]
    change: Callable[[Any], Any]
    fired: int = 0


class OddWorld(World):
    """A world that can send what the simulated GitLab never would."""

    def __init__(self) -> None:
        super().__init__()
        self.rewrites: list[Rewrite] = []

    def rewrite(self, path: str, change: Callable[[Any], Any]) -> Rewrite:
        """Rewrite every 200 of the addresses that match, from now on. `change` gets and returns decoded JSON."""
        self.rewrites.append(Rewrite(re.compile(path), change))
        return self.rewrites[-1]

    def handle(self, request: Request) -> Response:
        rewrites = [rewrite for rewrite in self.rewrites if rewrite.path.search(request.path)]
        if not rewrites:
            return super().handle(request)
        # Unconditional: a 304 would hide what the rewriting changes.
        headers = {name: value for name, value in request.headers.items() if name != "if-none-match"}
        response = super().handle(replace(request, headers=headers))
        for rewrite in rewrites if response.status == 200 else ():
            changed = rewrite.change(json.loads(response.body))
            rewrite.fired += changed != json.loads(response.body)
            kept = {name: value for name, value in response.headers.items() if name != "etag"}
            response = Response(200, kept, json.dumps(changed).encode())
        return response


@dataclass
class Bench(Desk):
    """Runs `lore` for one project and looks into the copy, in a file or on a server."""

    world: OddWorld
    address: str = ""

    @property
    def db(self) -> Any:
        return self.address or super().db

    def set_up(self, *sync: str, per_page: int = 100, retries: int = 0, storage: str = "") -> None:
        """Write a configuration: lines of `[sync]`, and no scrub unless one of them asks for it."""
        lines = sync if any("scrub_share" in line for line in sync) else (*sync, "scrub_share = 0")
        self.config.write_text(
            f'[[gitlab]]\nbase_url = "{self.url}"\nprojects = ["{PROJECT}"]\n'
            f"[http]\nmax_retries = {retries}\nretry_backoff_seconds = 0\ntimeout_seconds = 5\nper_page = {per_page}\n"
            "[sync]\n" + "\n".join(lines) + f"\n[storage]\n{storage}\n"
        )

    def try_mirror(self, resource: str = "merge_requests", *options: str) -> Outcome:
        """Mirror once, whatever comes of it."""
        return self.robot("ingest", "--type", resource, *options)

    def mirror(self, resource: str = "merge_requests", *options: str) -> dict[str, Any]:
        """Mirror once, without any trouble; return what the project's scope tells of it."""
        scope: dict[str, Any]
        (scope,) = self.try_mirror(resource, *options).data["scopes"]
        return scope | {"children": {child["kind"]: child for child in scope["children"]}}

    def counted(self, act: Callable[[], object]) -> Counter[str]:
        """The requests that reach the world meanwhile, by the last word of their route."""
        before = self.world.requests.copy()
        act()
        spent = self.world.requests - before
        return Counter({name.rpartition("/")[2]: times for name, times in spent.items()})

    def query(self, sql: str, params: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        database = open_database(str(self.db), create=False)
        try:
            with database.transaction() as tx:
                return tx.execute(sql, params)
        finally:
            database.close()

    def one(self, sql: str) -> Any:
        """The only value of the only row."""
        ((value,),) = self.query(sql)
        return value

    def column(self, sql: str) -> list[Any]:
        """The first value of every row."""
        return [row[0] for row in self.query(sql)]

    def watermark(self, iid: int = 1, table: str = "merge_requests", kind: str = "discussions") -> int | None:
        """For which version the children of a parent are known to be complete."""
        found: int | None = self.one(
            f"SELECT c.synced_for FROM child_sync c JOIN {table} p ON p.id = c.parent_id"
            f" WHERE c.parent_kind = '{table}' AND c.kind = '{kind}' AND p.iid = {iid}"
        )
        return found

    def bodies(self, iid: int = 1, table: str = "merge_requests") -> list[str]:
        """What was said under a parent, as the copy has it."""
        column = "issue_id" if table == "issues" else "merge_request_id"
        return self.column(
            f"SELECT n.body FROM notes n JOIN discussions d ON d.id = n.discussion_id"
            f" JOIN {table} p ON p.id = d.{column} WHERE p.iid = {iid} ORDER BY n.remote_id"
        )

    def payloads(self, kind: str) -> dict[str, Any]:
        """The stored payloads of one kind of resource, decoded, by remote id; the last stored wins."""
        rows = self.query(
            f"SELECT remote_id, encoding, payload, dictionary_id FROM raw_payloads"
            f" WHERE resource_type = '{kind}' ORDER BY id"
        )
        reader = PayloadReader(self.query)
        return {remote_id: json.loads(reader.unpack(*packed)) for remote_id, *packed in rows}


def true_bodies(item: Item) -> list[str]:
    """What was said under an item, as the forge has it."""
    notes = [note for discussion in item.discussions for note in discussion.notes]
    return [note.body for note in sorted(notes, key=lambda note: note.id)]


def start_thread(world: World, item: Item, *bodies: str, each_seconds: float = 0) -> Discussion:
    """Write a thread of these notes under an item."""
    forge = world.gitlab
    forge.add_note(item, bodies[0], thread=True)
    home = item.discussions[-1]
    for body in bodies[1:]:
        world.advance(each_seconds)
        forge.add_note(item, body, discussion=home)
    return home


def create(world: World, kind: str) -> Item:
    """Open an issue or a merge request."""
    forge = world.gitlab
    return forge.create_issue(PROJECT) if kind == "issues" else forge.create_merge_request(PROJECT)


def request_of(world: World, iid: int = 1) -> MergeRequest:
    """A merge request of the project."""
    return world.gitlab.merge_request(PROJECT, iid)


def spoil_note(body: str) -> Callable[[Any], Any]:
    """Make the note that says this unreadable, wherever a page of discussions shows it."""

    def change(discussions: Any) -> Any:
        for note in _notes(discussions):
            if note["body"] == body:
                note["created_at"] = "not-a-date"
        return discussions

    return change


def _notes(discussions: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    return (note for discussion in discussions for note in discussion["notes"])
