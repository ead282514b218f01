"""Which repository answers under a name. Owns the comparison with the number that was stored at the first contact.

A repository keeps its number when it is renamed; its old name can be taken over by another one. So whatever is read and
written is addressed by the number, and the name is asked for in every poll: by the pull requests it lists, which carry
the number of their repository, or else by itself. Another number is refused before anything is stored. A new name of
the same number is learnt: with it change the rows and positions that are filed under the name.
"""

from __future__ import annotations

from typing import Protocol

from tidelore.core.errors import RepositoryReplaced
from tidelore.core.model import ProjectRecord, PullRecord
from tidelore.engine.ports import Page
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.projects import ProjectRow, find_remote, rename_repository, save_project


class Repositories(Protocol):
    """The part of a source that is asked here."""

    name: str

    async def resolve(self, configured: str | int) -> ProjectRecord:
        """Return a repository by its name or number, under the name it has now."""
        ...


class Identity:
    """What a poll has learnt of who answers under the name of a repository."""

    def __init__(self, project: ProjectRow) -> None:
        self._project = project
        self.confirmed = False
        self.name = project.path

    def look_at(self, page: Page[PullRecord]) -> None:
        """Compare the number of the repository that pull requests asked for by name belong to."""
        if page.not_modified:
            # Word for word what our own repository answered under this name before.
            self.confirmed = True
        for item in page.items:
            if item.record.repo_id is not None:
                self.check(item.record.repo_id, item.record.repo_name)

    def check(self, remote_id: int, name: str | None) -> None:
        """Raise RepositoryReplaced when another repository answers."""
        check_identity(self._project, remote_id)
        self.confirmed = True
        self.name = name or self.name


def check_identity(project: ProjectRow, remote_id: int, name: str | None = None) -> None:
    """Raise RepositoryReplaced when a name of a repository, by default its present one, belongs to another one."""
    if remote_id != project.remote_id:
        if name is not None and name != project.path:
            raise RepositoryReplaced(
                f"{name} on {project.source} is another repository now (id {remote_id}); {project.path} (id"
                f" {project.remote_id}), which had that name before, is still followed",
                fix=f"change the name in the configuration to {project.path}; to follow the other repository instead,"
                f" run `lore sources accept {project.source} {project.configured}`",
                reason="replaced",
                project=project.path,
                known_id=project.remote_id,
                found_id=remote_id,
            )
        raise RepositoryReplaced(
            f"{name or project.path} on {project.source} is another repository now (id {remote_id}, known is"
            f" {project.remote_id}); nothing was read or written",
            fix=f"correct the name in the configuration; to follow the other repository from now on, run"
            f" `lore sources accept {project.source} {project.configured}`",
            reason="replaced",
            project=project.path,
            known_id=project.remote_id,
            found_id=remote_id,
        )


async def find_repository(
    database: Database, source: Repositories, configured: str, known: ProjectRow | None, now_ms: int
) -> ProjectRow:
    """Return the repository a configured name stands for, compared with what the remote says of it now."""
    record = await source.resolve(configured if known is None else known.path)
    if known is not None:
        check_identity(known, record.remote_id)
        if known.path == record.path:
            return known
    with database.transaction() as tx:
        return learn(tx, database, source.name, configured, record, now_ms)


def learn(
    tx: Transaction, database: Database, source: str, configured: str, record: ProjectRecord, now_ms: int
) -> ProjectRow:
    """Store a repository, or the name it has now with everything that is filed under its name."""
    known = find_remote(database, source, record.remote_id)
    if known is not None and known.path != record.path:
        rename_repository(tx, known, record.path)
    return save_project(tx, source, configured, record, now_ms)
