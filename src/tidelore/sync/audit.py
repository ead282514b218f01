"""Audit: compare the whole copy of a project with the server, and report every difference.

Reads both lists of every project completely, in order of creation, then every kind of children of every item that both
sides have. A stored item that is not in the list is requested by itself; it counts as extra only if the server says it
is gone. Children of missing or extra items are not reported separately. Writes nothing: no lease, no run, no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct, field

from tidelore.core.clock import Clock
from tidelore.core.concurrency import for_each
from tidelore.core.config import Config
from tidelore.core.errors import (
    CredentialsRejected,
    IntegrityError,
    PartialSuccess,
    RateLimited,
    RemoteError,
    TideloreError,
)
from tidelore.core.model import CommentRecord, Rejected
from tidelore.core.progress import OnProgress, Progress, silent
from tidelore.engine.ports import Page, Parent
from tidelore.engine.whole import read_by_creation, read_lists
from tidelore.http.limits import SourceOutages
from tidelore.sources.compare import compared
from tidelore.sources.ports import RESOURCES, TOPICS
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import list_cursors
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.reading.inventory import Holding, holdings
from tidelore.store.work.last_sync import last_success_at
from tidelore.sync.children import CHILDREN, kinds_of
from tidelore.sync.lists import SIDE_BY_SIDE, SWITCHED_OFF, ListRecord, list_of, table_of, why_unavailable
from tidelore.sync.projects import ListTarget, confirm_address, horizon_of, reason_to_skip

VERDICTS = ("missing", "extra", "different", "unreadable")


class Difference(Struct, frozen=True):
    """An item that differs between copy and server. An `unreadable` one exists on the server but cannot be parsed."""

    verdict: str
    kind: str
    project: str
    iid: int | None
    reference: str
    key: str


class UnreadChildren(Struct, frozen=True):
    """Children that could not be fetched, and so were not compared."""

    kind: str
    project: str
    reference: str
    error: TideloreError


class ScopeAudit(Struct):
    """The audit of one list of one project: how much was compared, and the differences found.

    `absent`: the project has no such list and never had one, so there is nothing to report. Items that are not stored
    and were last updated before the `horizon` are left out.
    """

    source: str
    surface: str
    project: str
    synced_at: int | None = None
    items: int = 0
    children: int = 0
    differences: list[Difference] = field(default_factory=list)
    unread: list[UnreadChildren] = field(default_factory=list)
    skipped: str | None = None
    error: TideloreError | None = None
    absent: bool = False
    horizon: int = 0

    @property
    def counts(self) -> Counter[str]:
        return Counter(found.verdict for found in self.differences)


class AuditReport(Struct):
    """The result of an audit. `synced_at` is when the copy was last brought up to date."""

    synced_at: int | None
    scopes: list[ScopeAudit]
    requests: int = 0
    seconds: float = 0.0

    @property
    def differences(self) -> list[Difference]:
        return [found for scope in self.scopes for found in scope.differences]

    @property
    def unread(self) -> list[UnreadChildren]:
        return [entry for scope in self.scopes for entry in scope.unread]

    @property
    def counts(self) -> Counter[str]:
        return Counter(found.verdict for found in self.differences)


def compare(held: Mapping[str, object], met: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield a verdict and a key for everything that differs between the two sides."""
    for key, content in met.items():
        if key not in held:
            yield "missing", key
        elif held[key] != content:
            yield "different", key
    for key in held:
        if key not in met:
            yield "extra", key


def describe(counts: Counter[str]) -> str:
    """Return counts as text, in the order of `VERDICTS`; empty if there are none."""
    return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS if counts[verdict])


def audit_verdict(report: AuditReport) -> TideloreError | None:
    """Return the error of an audit, if any: differences first, then lists that could not be read."""
    counts = report.counts
    if counts:
        return IntegrityError(
            f"the local copy differs from the server: {describe(counts)}",
            fix="run `lore sync` to fetch recent changes; with --repair this command corrects the rest",
            **{verdict: counts[verdict] for verdict in VERDICTS},
        )
    failed = [(scope, scope.error) for scope in report.scopes if scope.error is not None]
    if failed and len(failed) == len(report.scopes) and len({type(error) for _, error in failed}) == 1:
        return failed[0][1]
    if not failed and not report.unread:
        return None
    errors = [error for _, error in failed] + [entry.error for entry in report.unread]
    parts = [f"{len(failed)} of {len(report.scopes)} lists"] if failed else []
    parts += [f"{len(report.unread):,} lists of children"] if report.unread else []
    return PartialSuccess(
        f"no differences found, but {' and '.join(parts)} could not be read",
        fix=errors[0].fix or "run the command again",
        failed=[
            {"project": scope.project, "surface": scope.surface, "code": error.code, "message": error.message}
            for scope, error in failed
        ],
    )


_NOT_HELD = 0
"""The row id used for a project that is not stored: no rows have it."""


async def audit(
    database: Database, config: Config, targets: Sequence[ListTarget], clock: Clock, on_progress: OnProgress = silent
) -> AuditReport:
    """Compare every target with the copy; one that cannot be read is reported and does not stop the others.

    Items from before the horizon of a list are missing only if a sync would read them.
    """
    outages = SourceOutages(most=None)

    async def one(target: ListTarget) -> ScopeAudit:
        scope = ScopeAudit(target.source.name, target.surface, target.configured)
        scope.error = target.failure or outages.reason(target.source.name)
        scope.horizon = horizon_of(config, target.source.name, target.configured, clock)
        try:
            if scope.error is None:
                await ListComparison(database, config, target, scope, on_progress).run()
        except RemoteError as error:
            scope.skipped = why_unavailable(target, error)
            scope.error = None if scope.skipped is not None else error
            outages.failed(target.source.name, error)
        return scope

    # Comments of a whole project are compared with their parents.
    lists = [target for target in targets if not target.is_feed]
    scopes = await for_each(lists, one, SIDE_BY_SIDE)
    return AuditReport(last_success_at(database), [scope for scope in scopes if not scope.absent])


class ListComparison:
    """The comparison of one target, and of the children of items that both sides have; `scope` receives the results.

    The version of a topic covers its comments.
    """

    def __init__(
        self, database: Database, config: Config, target: ListTarget, scope: ScopeAudit, on_progress: OnProgress
    ) -> None:
        self._database = database
        self._config = config
        self._target = target
        self._scope = scope
        self._on_progress = on_progress
        self._table = table_of(target)
        self._settings = target.settings(config)

    async def run(self) -> None:
        """Compare everything unless the project is skipped."""
        project = await self._find()
        scope = self._scope
        scope.project = project.path
        scope.skipped = reason_to_skip(self._config, project)
        if scope.skipped is not None:
            return
        place = (scope.source, scope.surface, str(project.remote_id))
        found = [row for row in list_cursors(self._database) if (row.source, row.surface, row.scope) == place]
        for row in found:
            scope.synced_at, scope.horizon = row.polled_at, min(scope.horizon, row.horizon_at or 0)
        if self._target.is_topics and not project.has_topics:
            scope.skipped, scope.absent = SWITCHED_OFF, scope.synced_at is None
            return
        try:
            read = await self._compare_list(project)
            if self._target.has_parents:
                held = holdings(self._database, self._target.family.kind, project.id, read)
                await self._compare_children(project, list(held.values()))
        finally:
            scope.differences.sort(key=_place)

    async def _find(self) -> ProjectRow:
        """Return the project as it is stored, or as the forge returns it; store nothing."""
        target = self._target
        source, listed = target.source, target.listed
        known = target.stored_project(self._database)
        await confirm_address(self._config, source, known)
        if known is not None:
            return known
        record = listed or await source.resolve(target.configured)
        return ProjectRow(
            _NOT_HELD,
            source.name,
            record.remote_id,
            record.path,
            record.name,
            target.configured,
            int(record.archived),
            0,
            record.node_id,
            int(record.has_topics),
        )

    async def _compare_list(self, project: ProjectRow) -> list[int]:
        """Compare the items and return the remote ids of those that were read."""
        lister = list_of(self._target, project, by_creation=True)
        read: list[int] = []
        met: set[str] = set()
        async for page in read_by_creation(lister):
            read += self._compare_page(project, page, met)
            self._tell(self._target.resource, len(met), None, f"{len(met):,} compared")
        held = self._table.held(self._database, project.id, 0, None)

        async def ask(entry: tuple[object, str]) -> None:
            answer = await lister.fetch_one(entry[1])
            if answer.items or answer.rejected:
                read.extend(self._compare_page(project, answer, met))
            else:
                self._note("extra", self._target.resource, int(entry[1]), str(entry[0]))

        unmet = [(key, locator) for key, locator in held.items() if str(key) not in met]
        await for_each(unmet, ask, self._settings.dependent_concurrency)
        self._scope.items = len(met)
        return read

    def _compare_page(self, project: ProjectRow, page: Page[ListRecord], met: set[str]) -> list[int]:
        """Compare one page with the copy and return the remote ids; skip items that were already compared."""
        items = {item.version.id: item for item in page.items if str(item.version.id) not in met}
        stored = self._table.stored(self._database, project.id, [int(key) for key in items])
        horizon = self._scope.horizon
        items = {key: item for key, item in items.items() if key in stored or item.version.updated_at >= horizon}
        ids = [int(key) for key in items]
        for verdict, key in compare(
            {str(key): (found.updated_at, found.digest) for key, found in stored.items()},
            {str(key): (item.version.updated_at, item.version.digest) for key, item in items.items()},
        ):
            record = items[int(key)].record
            assert not isinstance(record, CommentRecord), "comments are compared with their parents"
            self._note(verdict, self._target.resource, record.iid, key)
        for entry in page.rejected:
            if entry.key not in met:
                iid = int(entry.locator) if entry.locator else None
                self._note("unreadable", self._target.resource, iid, entry.key)
        met |= {*map(str, items), *(entry.key for entry in page.rejected)}
        return ids

    def _note(self, verdict: str, kind: str, iid: int | None, key: str) -> None:
        found = Difference(verdict, kind, self._scope.project, iid, self._refer(iid), key)
        self._scope.differences.append(found)

    def _refer(self, iid: int | None) -> str:
        listed = self._target.source.resources.get(self._target.resource)
        return self._scope.project if iid is None else f"{self._scope.project}{listed.sign if listed else '#'}{iid}"

    def _tell(self, stage: str, done: int, total: int | None, note: str) -> None:
        self._on_progress(Progress(self._scope.project, stage, done, total, note))

    async def _compare_children(self, project: ProjectRow, parents: Sequence[Holding]) -> None:
        source, resource = self._target.source, self._target.resource
        kinds = kinds_of(self._target, self._config)
        jobs = [(parent, kind) for parent in parents for kind in kinds]
        for kind in kinds:
            source.announce(kind, resource, project.remote_id, project.path, [_as_parent(one) for one in parents])
        done = 0

        async def read(job: tuple[Holding, str]) -> None:
            nonlocal done
            parent, kind = job
            try:
                lists = source.children(kind, resource, project.remote_id, _as_parent(parent))
                found = await read_lists(compared(lists, cache(partial(self._held, parent, kind))))
            except (CredentialsRejected, RateLimited):
                raise
            except RemoteError as error:
                self._scope.unread.append(UnreadChildren(kind, self._scope.project, self._refer(parent.iid), error))
            else:
                met = {str(item.version.id): item.version.digest for item in found.items}
                self._judge_children(parent, kind, met, found.rejected)
            done += 1
            self._tell(f"{resource} children", done, len(jobs), f"{self._scope.children:,} compared")

        await for_each(jobs, read, self._settings.dependent_concurrency)

    def _held(self, parent: Holding, kind: str) -> dict[str, bytes]:
        """Return the stored children of one kind of a parent, each with its content hash."""
        return CHILDREN[kind].held(self._database.read, self._database, self._target.family.kind, parent.id)

    def _judge_children(
        self, parent: Holding, kind: str, met: Mapping[str, bytes], rejected: Sequence[Rejected]
    ) -> None:
        self._scope.children += len(met) + len(rejected)
        for verdict, key in compare(self._held(parent, kind), met):
            # A stored child that was not seen may be one that could not be parsed.
            if not (verdict == "extra" and rejected):
                self._note(verdict, kind, parent.iid, key)
        for entry in rejected:
            self._note("unreadable", kind, parent.iid, entry.key)


def _place(found: Difference) -> tuple[int, bool, str, str]:
    """Return a sort key: by item, differences of the item itself before those of its children."""
    return found.iid or 0, found.kind not in (*RESOURCES, TOPICS), found.kind, found.key


def _as_parent(found: Holding) -> Parent:
    return Parent(found.id, found.iid, found.updated_at, None, None, found.node_id)
